"""Monte Carlo: an attack's risk on simulated answers, the same for one seed wherever it runs.

Trials run in chunks of a fixed size. Chunk i draws from its own stream, a child of the seed, uses one thread
for its linear algebra, and results are joined in the order of the chunks: an executor changes no digit.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from numbers import Integral
from statistics import NormalDist
from typing import ClassVar, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from sightline.arrays import FloatArray, frozen_floats
from sightline.bounds.priors import UniformPrior
from sightline.display import Displayed
from sightline.errors import require
from sightline.progress import Progress, one_blas_thread, report, reporting
from sightline.theory.attacks.bayes import PriorDensity, bayes_bracket, trivial_guess
from sightline.theory.attacks.estimates import (
    Attack,
    AttackStatus,
    Estimates,
    box_of,
    checked_box,
    checked_confidence,
)
from sightline.theory.attacks.model import Box, exact_answers
from sightline.theory.geometry.transcript import Transcript
from sightline.values import short_repr

CHUNK = 1000  # trials that share a stream; another size gives other numbers for the same seed
Stratum = TypeVar("Stratum", bound=Hashable)


def simulate(  # many parameters: the settings of one experiment, each with its own name
    transcript: Transcript,
    *,
    attack: Attack,
    at: ArrayLike | PriorDensity,
    trials: int = 5000,
    seed: int = 0,
    domain: Box | None = None,
    confidence: float = 0.95,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> Simulation:
    r"""Run an attack on ``trials`` simulated sets of answers and report its risk.

    ``at`` are the records, for the risk at this point; or a prior, from which every trial draws its own
    records, for the mean risk that the Bayes bracket bounds. ``domain`` is the domain that the trivial attack
    uses (default: the prior's, or the bound that the releases state). ``progress(stage, share)`` is called
    after every chunk.

    Chunks of 1,000 trials run in the calling process, or on an ``executor``: one of ``concurrent.futures``,
    or a Dask client's ``get_executor()``. The result is the same to the last digit.

    >>> from sightline import Blue, SubsetMean
    >>> whole = SubsetMean(members=range(4), radius=1.0)
    >>> without = SubsetMean(members=range(1, 4), radius=1.0)
    >>> transcript = Transcript([whole, without], noise=[0.03, 0.04])
    >>> risk = simulate(transcript, attack=Blue(), at=[0.2, 0.4, 0.6, 0.8], domain=(0, 1), trials=2000)
    >>> round(risk.crb, 6), risk.interval[0] < risk.crb < risk.interval[1]
    (0.0288, True)
    """
    simulations = sweep(
        {None: transcript},
        attack=attack,
        at=at,
        trials=trials,
        seed=seed,
        domain=domain,
        confidence=confidence,
        executor=executor,
        progress=progress,
    )
    return simulations[None]


def sweep(  # many parameters: the same settings as simulate
    strata: Mapping[Stratum, Transcript],
    *,
    attack: Attack,
    at: ArrayLike | PriorDensity,
    trials: int = 5000,
    seed: int = 0,
    domain: Box | None = None,
    confidence: float = 0.95,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> dict[Stratum, Simulation]:
    """:func:`simulate` for several transcripts, for example one for each budget. Each draws its own noise.

    An executor gets all chunks of all strata together, so it is busy until the end of the sweep.

    >>> from sightline import ConstrainedMLE, Moment
    >>> moments = [Moment(order=order, members=range(2), bound=1.0) for order in (1, 2)]
    >>> strata = {stddev: Transcript(moments, noise=[stddev] * 2) for stddev in (0.01, 10.0)}
    >>> risks = sweep(strata, attack=ConstrainedMLE(), at=[-0.4, 0.7], trials=500)
    >>> [bool(risk.mse < risk.trivial_mse) for risk in risks.values()]
    [True, False]
    """
    require(len(strata) > 0, "at least one transcript", got=0)
    require(isinstance(attack, Attack), "an attack", got=type(attack).__name__)
    _whole(trials, at_least=2, name="trials", fix="an interval needs more than one")
    _whole(seed, at_least=0, name="seed")
    require(
        progress is None or callable(progress),
        "progress to be a function of a stage and a share",
        got=repr(progress),
        fix="for example progress=print",
    )
    checked_confidence(confidence)
    places = list(strata)
    jobs = [
        _job(strata[place], attack, at, domain, seed=seed, key=() if len(places) == 1 else (i,))
        for i, place in enumerate(places)
    ]
    sizes = [min(CHUNK, trials - start) for start in range(0, trials, CHUNK)]
    calls = [(job, i, size) for job in jobs for i, size in enumerate(sizes)]
    with reporting(progress):
        chunks = _chunks(calls, executor)
    count = len(sizes)
    return {
        place: _summary(job, chunks[i * count : (i + 1) * count], confidence=confidence)
        for i, (place, job) in enumerate(zip(places, jobs, strict=True))
    }


def _chunks(calls: Sequence[tuple[Job, int, int]], executor: Executor | None) -> list[Chunk]:
    """The chunks in the order of the calls; an error, or an interrupt, cancels those that have not begun."""
    chunks: list[Chunk] = []
    report("simulating", 0.0)
    with one_blas_thread():  # some libraries have one limit for all threads of a process
        submitted = [] if executor is None else [executor.submit(run_chunk, *call) for call in calls]
        try:
            for make in [one.result for one in submitted] or [partial(run_chunk, *call) for call in calls]:
                chunks.append(make())
                report("simulating", len(chunks) / len(calls))
        except BaseException:
            for future in submitted:
                future.cancel()
            raise
    return chunks


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Job:
    """The data that a worker needs for a chunk of trials."""

    transcript: Transcript
    attack: Attack
    at: FloatArray | PriorDensity  # coordinates of one set of records, or where to draw them from
    baseline: PriorDensity
    seed: int
    key: tuple[int, ...]


class Chunk(NamedTuple):
    """The results of a chunk of trials."""

    targets: tuple[int, ...]
    unlabeled: bool
    losses: FloatArray
    trivial: FloatArray  # losses of the attack that ignores the answers
    errors: FloatArray  # trials × targets
    matching: FloatArray  # losses of the sorted values
    labeled: FloatArray  # trials × targets: squared errors of each target under its own name
    covered: FloatArray  # trials × targets; NaN if the attack gives no intervals
    statuses: dict[int, int]
    certified: int


def run_chunk(job: Job, index: int, trials: int) -> Chunk:
    """Simulate one chunk, on one thread: the last digits of a large product depend on how many there are."""
    with one_blas_thread():
        return _run_chunk(job, index, trials)


def _run_chunk(job: Job, index: int, trials: int) -> Chunk:
    stream = np.random.SeedSequence(job.seed, spawn_key=(*job.key, index))
    generator = np.random.default_rng(stream)
    transcript = job.transcript
    if isinstance(job.at, np.ndarray):
        records = np.broadcast_to(job.at, (trials, job.at.size))
        exact = transcript.answers(job.at.reshape(-1, transcript.dimension))
    else:
        width = transcript.dimension * (1 + max(int(query.members[-1]) for query in transcript.queries))
        records = job.at.sample((trials, width), generator=generator)
        exact = exact_answers(transcript, records)
    answers = exact + transcript.law.sample(trials, generator=generator)
    estimates = job.attack.estimate(transcript, answers)
    require(
        len(estimates.targets) > 0,
        "an attack with at least one target",
        got="none that is identifiable",
        fix="reconstruct() shows the missing directions; LinearBayes needs only a prior",
    )
    named = records[:, list(estimates.targets)]
    guess = trivial_guess(job.baseline, estimates.targets, unlabeled=estimates.unlabeled)
    return _chunk(estimates, named, guess)


def _chunk(estimates: Estimates, named: FloatArray, guess: FloatArray) -> Chunk:
    ranked, ranks = np.sort(estimates.values, axis=1), np.sort(named, axis=1)
    values, truth = (ranked, ranks) if estimates.unlabeled else (estimates.values, named)
    errors = values - truth
    # An unlabelled value belongs to each record with the same probability.
    labeled = (
        np.mean((values[:, :, None] - named[:, None, :]) ** 2, axis=1) if estimates.unlabeled else errors**2
    )
    inside = (estimates.lower <= truth) & (truth <= estimates.upper)
    return Chunk(
        targets=estimates.targets,
        unlabeled=estimates.unlabeled,
        losses=np.sum(errors**2, axis=1),
        trivial=np.sum((guess - truth) ** 2, axis=1),
        errors=errors,
        matching=np.sum((ranked - ranks) ** 2, axis=1),
        labeled=labeled,
        covered=np.where(np.isnan(estimates.lower), np.nan, inside),
        statuses=dict(Counter(np.asarray(estimates.status).tolist())),
        certified=int(np.sum(estimates.certified)),
    )


def _job(
    transcript: Transcript,
    attack: Attack,
    at: ArrayLike | PriorDensity,
    domain: Box | None,
    *,
    seed: int,
    key: tuple[int, ...],
) -> Job:
    require(isinstance(transcript, Transcript), "transcripts to attack", got=type(transcript).__name__)
    baseline: PriorDensity
    if isinstance(at, PriorDensity):
        baseline = at if domain is None else UniformPrior(*checked_box(domain))
    else:
        records = frozen_floats(at, name="records")
        p = transcript.dimension
        shaped = records.ndim == (1 if p == 1 else 2) and records.size % p == 0
        require(shaped, f"records of dimension {p}", got=f"shape {records.shape}")
        transcript.answers(records)  # the releases check the records themselves
        at, baseline = (
            frozen_floats(records.ravel(), name="records"),
            UniformPrior(*box_of(transcript, domain)),
        )
    return Job(transcript=transcript, attack=attack, at=at, baseline=baseline, seed=seed, key=key)


def _whole(value: object, *, at_least: int, name: str, fix: str = "") -> None:
    whole = isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= at_least
    require(whole, f"{name} as a whole number >= {at_least}", got=value, fix=fix)


def _summary(job: Job, chunks: list[Chunk], *, confidence: float) -> Simulation:
    first = chunks[0]
    losses = np.concatenate([chunk.losses for chunk in chunks])
    errors = np.concatenate([chunk.errors for chunk in chunks])
    trials = len(losses)
    mse = float(np.mean(losses))
    spread = float(np.std(losses, ddof=1)) / math.sqrt(trials)
    reach = NormalDist().inv_cdf(0.5 + confidence / 2) * spread
    lower, upper = _bracket(job, first)
    linear = job.transcript.dimension > 1 or all(q.linear for q in job.transcript.queries)
    statuses = sum((Counter(chunk.statuses) for chunk in chunks), Counter())
    return Simulation(
        attack=type(job.attack).__name__,
        trials=trials,
        seed=job.seed,
        confidence=confidence,
        targets=first.targets,
        unlabeled=first.unlabeled,
        mse=mse,
        standard_error=spread,
        interval=(max(0.0, mse - reach), mse + reach),
        bias=np.mean(errors, axis=0),
        bias_standard_errors=np.std(errors, axis=0, ddof=1) / math.sqrt(trials),
        coverage=np.mean(np.concatenate([chunk.covered for chunk in chunks]), axis=0),
        crb=_crb(job, first.targets),
        bayes_lower=lower,
        bayes_upper=upper,
        trivial_mse=float(np.mean(np.concatenate([chunk.trivial for chunk in chunks]))),
        matching_mse=math.nan if linear else float(np.mean(np.concatenate([c.matching for c in chunks]))),
        labeled_mse=np.mean(np.concatenate([c.labeled for c in chunks]), axis=0),
        statuses={AttackStatus(code): statuses[code] for code in sorted(statuses)},
        certified=sum(chunk.certified for chunk in chunks),
    )


def _crb(job: Job, targets: tuple[int, ...]) -> float:
    """The trace of the bound at the records; linear releases have the same bound at all records."""
    p = job.transcript.dimension
    records = sorted({coordinate // p for coordinate in targets})
    if isinstance(job.at, np.ndarray):
        geometry = job.transcript.geometry(at=job.at.reshape(-1, p) if p > 1 else job.at)
    elif all(query.linear for query in job.transcript.queries):
        geometry = job.transcript.geometry()
    else:
        return math.nan
    return geometry.profile(target=records).crb


def _bracket(job: Job, chunk: Chunk) -> tuple[float, float]:
    linear = all(query.linear for query in job.transcript.queries)
    if isinstance(job.at, np.ndarray) or not linear or chunk.unlabeled:
        return math.nan, math.nan
    p = job.transcript.dimension
    records = sorted({coordinate // p for coordinate in chunk.targets})
    bracket = bayes_bracket(job.transcript, prior=job.at, target=records)
    return float(np.sum(bracket.lower)), float(np.sum(bracket.upper))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Simulation(Displayed):
    r"""Mean squared error of an attack over independent trials, summed over its targets.

    For an unlabelled group it is the matching loss, :math:`\min_\pi\|\hat x - \pi(x)\|^2`. If some release is
    nonlinear, it is given for others too: ``matching_mse``. ``labeled_mse`` is the squared error of each
    target under its own name. Where the answers do not show whose a value is, its labels are drawn at random.

    ``interval`` is a confidence interval for ``mse`` by the central limit theorem; ``bias`` is the mean error
    of each target and ``coverage`` the share of trials in which the attack's own interval contained it
    (NaN if it gives none). ``crb`` holds for locally unbiased attacks only: a constrained or Bayesian
    attack may be below it.
    ``bayes_lower`` and ``bayes_upper`` bracket the least mean risk of any attack if records are drawn from a
    prior and the releases are linear. ``trivial_mse`` is the risk of an attack that ignores the answers.

    Everything here depends on the records: it is for their owner only.
    """

    __repr__ = short_repr

    drawn_by: ClassVar[str] = "theory"

    attack: str
    trials: int
    seed: int
    confidence: float
    targets: tuple[int, ...]
    unlabeled: bool
    mse: float
    standard_error: float
    interval: tuple[float, float]
    bias: FloatArray
    bias_standard_errors: FloatArray
    coverage: FloatArray
    crb: float  # infinite if the targets are not identifiable, NaN if undecided or if it varies by trial
    bayes_lower: float  # NaN where there is no bracket
    bayes_upper: float
    trivial_mse: float
    matching_mse: float  # NaN if every release is linear, and for vectors
    labeled_mse: FloatArray  # in the order of the targets
    statuses: Mapping[AttackStatus, int]
    certified: int  # trials whose optimum is proved to be global

    @property
    def rmse(self) -> float:
        """Square root of ``mse``."""
        return math.sqrt(self.mse)

    @property
    def ratio_to_crb(self) -> float:
        """``mse`` over ``crb``: about 1 for an efficient attack, below it for one that uses the box."""
        return self.mse / self.crb

    @property
    def ratio_to_trivial(self) -> float:
        """``mse`` over ``trivial_mse``: 1 means that the attack learned nothing."""
        return self.mse / self.trivial_mse if self.trivial_mse > 0 else math.inf

    @property
    def ratio_to_bayes(self) -> tuple[float, float]:
        """``mse`` over each end of the Bayes bracket."""
        lower = self.mse / self.bayes_lower if self.bayes_lower != 0 else math.inf
        return lower, self.mse / self.bayes_upper

    def __str__(self) -> str:
        low, high = self.interval
        lines = [
            f"{self.attack}: mse {self.mse:.6g}, {self.confidence:.0%} interval [{low:.6g}, {high:.6g}] "
            f"from {self.trials} trials"
        ]
        if math.isfinite(self.crb):
            lines.append(
                f"  Cramér–Rao bound {self.crb:.6g} (unbiased attacks): ratio {self.ratio_to_crb:.4g}"
            )
        if math.isfinite(self.matching_mse):
            lines.append(
                f"  labeled loss {self.labeled_mse.sum():.6g}, matching loss {self.matching_mse:.6g}, which "
                "does not count whose a value is"
            )
        if math.isfinite(self.bayes_upper):
            lines.append(f"  Bayes bracket [{self.bayes_lower:.6g}, {self.bayes_upper:.6g}] (any attack)")
        lines.append(f"  ignoring the answers {self.trivial_mse:.6g}: ratio {self.ratio_to_trivial:.4g}")
        if np.isfinite(self.coverage).all():
            lines.append(f"  own intervals hold in {self.coverage.min():.2%} of trials or more")
        odd = {status: count for status, count in self.statuses.items() if status is not AttackStatus.SOLVED}
        lines += [f"  {count} trials: {status}" for status, count in odd.items()]
        return "\n".join(lines)
