r"""A membership design: subset means or sums over named records, the noise on them, and what they expose.

Its unknown records are lowered to units and assessed; :class:`Exposures` holds the result, one array for each
quantity.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy

from sightline.arrays import AT_A_TIME, LARGEST, MOST_LOOKED_AT, FloatArray, IndexArray
from sightline.bounds.assessment import UnitExposure, assess
from sightline.bounds.priors import prior_on
from sightline.errors import InvalidInput, InvalidNoise, require
from sightline.noise.laws import CorrelatedNoise
from sightline.noise.strategies import FactoredNoise, whitener_of
from sightline.numerics.rank import Decision, Evidence, Rank, gap_rank, missing, present
from sightline.numerics.residuals import gamma
from sightline.progress import Progress, reporting
from sightline.units.description import Known, LinearReleases, unknown_records
from sightline.units.design import Design
from sightline.units.row_noise import RowNoise
from sightline.units.row_solver import DenseSolver
from sightline.units.target import Seen, TargetPrior, UnitPrior
from sightline.units.unit_block import BoolArray
from sightline.values import frozen, short_repr


@frozen
class Recipes:
    """The recipes of the best unbiased attacks, one for each identifiable group, each made when it is asked
    for.
    """

    exposure: UnitExposure
    kinds: IndexArray
    answers: IndexArray  # those that are rows of the design; others have no weight
    scale: FloatArray  # what an answer multiplies its row by

    def __len__(self) -> int:
        return len(self.kinds)

    def __getitem__(self, place: int) -> FloatArray:
        weights = np.zeros(self.scale.size)
        weights[self.answers] = self.exposure.recipe(int(self.kinds[place]))
        return weights / self.scale


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordExposure:
    """What the releases expose of one record."""

    record: int
    identifiable: Decision
    rmse: float
    remaining_uncertainty: tuple[float, float]
    touched: bool
    hidden_among: int

    def __str__(self) -> str:
        low, high = self.remaining_uncertainty
        state = "identifiable" if self.identifiable is Decision.YES else "not identifiable"
        return (
            f"record {self.record}: {state}, rmse {self.rmse:.4g}, "
            f"remaining uncertainty {low:.1%} to {high:.1%}"
        )


@frozen
class Groups:
    """Records with one membership signature. No release tells them apart, but their sum may be exposed.

    Groups are numbered by their first record. A group of one is a record with a signature of its own.
    """

    sizes: IndexArray
    identifiable: BoolArray  # the sum of the group
    rmse: FloatArray  # of the sum
    first: IndexArray  # one member

    def __len__(self) -> int:
        return len(self.sizes)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Exposures:
    """Arrays over the records, all of length N. They depend on the design and the noise, not on any value.

    ``remaining_lower`` and ``remaining_upper`` bracket the risk of the best possible attack over the prior
    variance, averaged over ``prior``: 1 means that nothing is learned. No attack has less risk than the lower
    end, which is rounded down by all that numerical errors can do. Entries of records that the attacker
    knows are NaN.
    """

    __repr__ = short_repr

    identifiable: BoolArray
    undecided: BoolArray
    rmse: FloatArray  # of the best unbiased recipe (eq:mse_optimal_s4); infinite where there is none
    remaining_lower: FloatArray
    remaining_upper: FloatArray
    information: FloatArray  # G_jj: about a record if all others are known
    touched: BoolArray  # whether any release depends on the record
    known: BoolArray
    group: IndexArray  # the record's group; -1 for a known record
    groups: Groups
    evidence: Evidence
    rank: int  # directions that the releases see
    relative_error: float  # a bound for rmse, information and the upper end; infinite where there is none
    prior: TargetPrior  # how the values are spread beforehand: what both ends are averages over
    recipes: Recipes  # weights on the answers, one row for each identifiable group in order
    names: tuple[str, ...]  # of the rows

    def __len__(self) -> int:
        return len(self.rmse)

    def __getitem__(self, record: int) -> RecordExposure:
        j = self._unknown(record)
        return RecordExposure(
            record=j,
            identifiable=self.decision(j),
            rmse=float(self.rmse[j]),
            remaining_uncertainty=(float(self.remaining_lower[j]), float(self.remaining_upper[j])),
            touched=bool(self.touched[j]),
            hidden_among=int(self.groups.sizes[self.group[j]]),
        )

    def __iter__(self) -> Iterator[RecordExposure]:
        return (self[int(j)] for j in np.flatnonzero(~self.known))

    def decision(self, record: int) -> Decision:
        """Whether one record is identifiable."""
        j = self._unknown(record)
        if self.undecided[j]:
            return Decision.UNDECIDED
        return Decision.YES if self.identifiable[j] else Decision.NO

    def worst(self, count: int = 10) -> tuple[RecordExposure, ...]:
        """The records of which the least uncertainty may remain, the most exposed first."""
        require(count >= 1, "count >= 1", got=count)
        candidates = np.flatnonzero(~self.known)
        count = min(count, candidates.size)
        danger = self.remaining_lower[candidates]
        # Ties (repeated signatures) go by position, so that the same inputs give the same list.
        limit = np.partition(danger, count - 1)[count - 1]
        near = candidates[danger <= limit]
        chosen = near[np.lexsort((near, self.rmse[near], self.remaining_lower[near]))][:count]
        return tuple(self[int(j)] for j in chosen)

    def recipe(self, record: int) -> FloatArray:
        """Weights on the published answers of the best unbiased attack on an identifiable record."""
        j = self._unknown(record)
        require(
            bool(self.identifiable[j]),
            "an identifiable record",
            got=f"record {j}, which is not",
            fix="no weights on the answers give its value",
        )
        require(
            len(self.recipes) > 0,
            "one set of known records",
            got="all others, a different set for each record",
            fix=f"ask for the exposures with known=[every record but {j}]",
        )
        return self.group_recipe(int(self.group[j]))

    def group_recipe(self, group: int) -> FloatArray:
        """Weights on the published answers of the best unbiased attack on a group's sum."""
        require(
            0 <= group < len(self.groups) and bool(self.groups.identifiable[group]),
            "a group whose sum is identifiable",
            got=f"group {group}",
        )
        row = int(np.count_nonzero(self.groups.identifiable[:group]))
        return np.array(self.recipes[row])

    def explain(self, record: int) -> str:
        """The recipe in words, the heaviest weights first; weights that are only rounding are left out."""
        weights = self.recipe(record)
        order = np.argsort(-np.abs(weights), kind="stable")
        used = [i for i in order if abs(weights[i]) > 1e-9 * abs(weights[order[0]])]
        terms = [f"{'−' if weights[i] < 0 else '+'} {abs(weights[i]):.6g} × {self.names[i]!r}" for i in used]
        return " ".join(terms).removeprefix("+ ")

    def smallest_groups(self) -> IndexArray:
        """Groups of several records whose sum is identifiable, the smallest first."""
        listed = np.flatnonzero(self.groups.identifiable & (self.groups.sizes > 1))
        return listed[np.argsort(self.groups.sizes[listed], kind="stable")]

    def members(self, group: int) -> IndexArray:
        """The records of a group."""
        return np.flatnonzero(self.group == group)

    def _unknown(self, record: int) -> int:
        if not 0 <= record < len(self):
            raise InvalidInput(f"expected a record from 0 to {len(self) - 1}, got {record}")
        require(
            not self.known[record],
            "a target that the attacker does not know",
            got=f"record {record}, which is in known=",
        )
        return int(record)


@frozen(slots=False)
class LoweredRecords:
    """A design over kinds of unknown records, and what its rows are among the published ones."""

    releases: LinearReleases
    design: Design
    answers: IndexArray  # rows whose noise is no combination of other rows' noise; the others say nothing new
    first: IndexArray  # of every kind one record

    @classmethod
    def of(cls, releases: LinearReleases, prior: TargetPrior, unknown: BoolArray) -> LoweredRecords:
        members, law = releases.incidence, releases.law
        answers = np.arange(releases.row_count)
        if isinstance(law, CorrelatedNoise):
            answers = np.sort(law.independent)
        group_of = members.groups(unknown)
        people = np.bincount(group_of[unknown])
        first = np.full(people.size, members.records)
        np.minimum.at(first, group_of[unknown], np.flatnonzero(unknown))
        used = members if answers.size == members.row_count else members.take(answers)
        design = Design(
            units=used.units(first, people),
            noise=_row_noise(releases, answers),
            prior=UnitPrior(target=prior),
            release=releases.release_of[answers],
            place=group_of,
        )
        return cls(releases=releases, design=design, answers=answers, first=first)

    @property
    def people(self) -> IndexArray:
        """Records of each kind."""
        return np.asarray(self.design.units.people)

    def over_records(  # many parameters: of the design, and of its kinds
        self,
        found: UnitExposure,
        *,
        rank: Rank,
        sums: BoolArray,
        sums_rmse: FloatArray,
        recipes: IndexArray,
        relative_error: float,
        **of_kinds: Any,
    ) -> Exposures:
        """Numbers of the kinds, laid out over all records: what is known has none."""
        unit_of, numbers = self.design.place, {}
        for name, values in of_kinds.items():
            otherwise = np.nan if values.dtype == np.float64 else False
            numbers[name] = np.where(unit_of >= 0, values[unit_of], otherwise).astype(values.dtype)
            numbers[name].setflags(write=False)
        return Exposures(
            **numbers,
            touched=numbers["information"] > 0,
            known=unit_of < 0,
            group=unit_of,
            groups=Groups(sizes=self.people, identifiable=sums, rmse=sums_rmse, first=self.first),
            evidence=rank.evidence,
            rank=rank.rank,
            relative_error=relative_error,
            prior=self.design.prior.target,
            recipes=Recipes(exposure=found, kinds=recipes, answers=self.answers, scale=self.releases.scale),
            names=self.releases.names,
        )


def _row_noise(releases: LinearReleases, answers: IndexArray) -> RowNoise:
    """The noise of some answers in units of their rows; it is no combination of the noise of others."""
    law, scale = releases.law, releases.scale[answers]
    if isinstance(law, FactoredNoise):
        return RowNoise.whitened_by(whitener_of(law, answers) * scale, law.relative_error)
    if isinstance(law, CorrelatedNoise):
        return RowNoise.correlated(law.covariance[np.ix_(answers, answers)] / np.outer(scale, scale))
    size = np.abs(scale)
    return RowNoise.of(
        law.scales / size, np.sqrt(law.variances) / size, law.laplace_answers, np.ones(size.size)
    )


def _require_noise_to_count(releases: LinearReleases) -> None:
    """Refuse signals whose squares no double holds."""
    members = releases.incidence
    lengths = np.sqrt(members.sizes) * members.peaks
    with np.errstate(divide="ignore"):
        signal = float(np.max(lengths * np.abs(releases.scale) / np.sqrt(releases.law.variances)))
    require(
        signal < LARGEST,
        f"numbers of at most {LARGEST:g} times their noise",
        got=f"{signal:g}",
        fix="so little noise is none",
        error=InvalidNoise,
    )


def _laid_out(lowered: LoweredRecords, found: UnitExposure) -> Exposures:
    """What was assessed of the kinds, over the records."""
    identifiable, undecided = found.identifiable[:, 0], found.undecided
    rank = Rank(rank=found.rank, evidence=_evidence(found))
    if not lowered.releases.incidence.integral:
        rank, identifiable, undecided = _by_gap(lowered, found)
    rmse, single = np.where(identifiable, found.rmse[:, 0], np.inf), lowered.people == 1
    return lowered.over_records(
        found,
        rank=rank,
        sums=identifiable,
        sums_rmse=rmse,
        recipes=np.flatnonzero(identifiable),
        relative_error=found.relative_error,
        identifiable=identifiable & single,
        undecided=undecided & single,
        rmse=np.where(single, rmse, np.inf),
        remaining_lower=found.lower[:, 0],
        remaining_upper=found.upper[:, 0],
        information=found.information,
    )


def _evidence(found: UnitExposure) -> Evidence:
    if not isinstance(found.solver, DenseSolver):
        return Evidence.VERIFIED
    independent = found.solver.independent
    full = independent.rows.size == found.solver.numbers and independent.inverse.error < 1
    return Evidence.FULL_RANK if full else Evidence.MODULAR


def _with_others_known(lowered: LoweredRecords, found: UnitExposure) -> Exposures:
    """What is exposed to an attacker who knows all other records, whichever is the target."""
    design, prior = lowered.design, lowered.design.prior.target
    numbers = design.units.run(_KnownOthers(noise=design.noise))
    information, linear = numbers["information"], numbers["linear_information"]
    seen = Seen(**{name: values for name, values in numbers.items() if name != "kinds"})
    touched, nothing = information > 0, np.zeros(lowered.people.size, dtype=np.bool_)
    return lowered.over_records(
        found,
        rank=Rank(rank=found.rank, evidence=_evidence(found)),
        sums=found.identifiable[:, 0],
        sums_rmse=np.full(nothing.size, np.inf),
        recipes=np.flatnonzero(nothing),
        relative_error=gamma(8 * lowered.releases.row_count),
        identifiable=touched,
        undecided=nothing,
        rmse=np.where(touched, 1 / np.sqrt(np.where(touched, linear, 1.0)), np.inf),
        remaining_lower=prior.lower(seen),
        remaining_upper=prior.upper(seen),
        information=information,
    )


@frozen(slots=False)
class _KnownOthers:
    """A pass: the information about every kind of one record if all others are known, by law and by
    variance.
    """

    noise: RowNoise
    at_a_time: ClassVar[int] = AT_A_TIME

    def of_block(self, block: Any) -> dict[str, Any]:
        noise = self.noise
        forms, _ = noise.about(block)
        information = forms[:, 0, 0]
        linear = information if noise.shared else block.sums(1 / noise.variance, 2)[:, 0]
        of_laplace = block.sums(np.where(noise.laplace > 0, noise.information, 0.0), 2)[:, 0]
        alone = block.sums((noise.laplace == 0).astype(np.float64), 0)[:, 0] == 0
        return {
            "kinds": block.kinds,
            "information": information,
            "linear_information": linear,
            "laplace_answers": block.sums(noise.laplace, 0)[:, 0],
            "laplace_information": np.where(alone, information, np.minimum(of_laplace, information)),
        }

    def merged(self, parts: Any) -> dict[str, Any]:
        order = np.argsort(np.concatenate([part["kinds"] for part in parts]))
        return {name: np.concatenate([part[name] for part in parts])[order] for name in parts[0]}


def _by_gap(lowered: LoweredRecords, found: UnitExposure) -> tuple[Rank, BoolArray, BoolArray]:
    """Real weights: a decision is kept only if a gap in the singular values gives the same one.

    Rows and columns are scaled to unit length first: that changes no answer, and weights of very different
    size cannot pass for a missing direction. A leverage within rounding of one is a yes, one clearly below
    it a no.
    """
    exact, people = found.identifiable[:, 0], lowered.people
    rows = lowered.answers.size
    if rows * people.size > MOST_LOOKED_AT:
        nothing = np.zeros(people.size, dtype=np.bool_)
        return Rank(rank=found.rank, evidence=Evidence.NONE), nothing, ~nothing
    table = lowered.releases.incidence.columns(lowered.first)[lowered.answers] * np.sqrt(people)
    lengths = _lengths(table, axis=1)
    balanced = table / lengths[:, None]
    columns = _lengths(balanced, axis=0)
    (triangle,) = scipy.linalg.qr((balanced / columns).T, mode="r", check_finite=False)
    again = _lengths(triangle, axis=0)
    R, order = scipy.linalg.qr(triangle / again, mode="r", pivoting=True, check_finite=False)
    rank = gap_rank(R, size=rows, largest=float(np.linalg.norm(R)) or 1.0)
    count, pivots = rank.rank, order[: rank.rank]
    inside = np.linalg.solve(R[:count, :count].T, (balanced / columns)[pivots] / again[pivots, None])
    leverage = np.sum(inside**2, axis=0) * (np.sum(table**2, axis=0) > 0)
    deficit, kept = 1 - leverage, max(rank.smallest_kept, float(np.finfo(np.float64).tiny))
    yes = deficit <= missing(rows) / kept
    undecided = ~yes & (deficit < present(rows) / kept) if rank.decided else leverage > 0
    undecided |= (yes & ~undecided) != exact
    if found.rank != count:  # numbers are those of the doubles as they are
        rank = Rank(rank=found.rank, evidence=Evidence.NONE)
    return rank, exact & ~undecided, np.asarray(undecided)


def _lengths(table: FloatArray, *, axis: int) -> FloatArray:
    """Lengths of rows or columns; 1 for zero ones."""
    lengths = np.linalg.norm(table, axis=axis)
    return np.where(lengths > 0, lengths, 1.0)


class MembershipDesign(LinearReleases):
    r"""Releases :math:`y = A x + w` over N named records (``eq:lever1_linear_model``).

    ``rows`` is a table of 0s and 1s or of weights (releases × records), a scipy sparse array, or, with
    ``records=N``, lists of members. ``readout`` is "mean" or "sum"; weights are published as sums.
    ``noise`` is an accountant, which also needs ``radius``, the largest change of one record's value; or
    standard deviations, one for each row; or a covariance matrix; or a noise law. ``releases`` gives for
    each row the release that it is part of, for releases with many cells: their members must be disjoint,
    and the accountant counts them once. ``factors`` multiplies each published row, where the factor is
    neither that of a mean nor that of a sum.

    >>> design = MembershipDesign([[0, 1, 2, 3], [1, 2, 3]], records=5, noise=[0.3, 0.4])
    >>> found = design.exposures(domain=(0, 10))
    >>> found.identifiable.tolist()
    [True, False, False, False, False]
    >>> round(float(found.rmse[0]), 6)
    1.697056
    >>> found.recipe(0).round(6).tolist()
    [4.0, -3.0]
    """

    __slots__ = ()

    def exposures(
        self,
        *,
        domain: tuple[float, float] | None = None,
        prior: str | TargetPrior = "uniform",
        known: Iterable[int] | Known = (),
        device: str | None = None,
        progress: Progress | None = None,
    ) -> Exposures:
        """What the releases expose of every record that the attacker does not know.

        ``domain`` is the smallest and the largest value that a record can have. ``prior`` says how the values
        are spread over it, for the target and all other unknown records: "uniform", "cos2" or "two-point"; or
        it is a prior with a domain of its own, such as ``CoinPrior`` for yes and no. ``known`` are
        records whose values the attacker has; ``Known.ALL_OTHERS`` gives for each record all the others.
        ``device`` names an accelerator for the dense part, such as "cuda". ``progress`` is called with a
        stage and the share of it that is done.
        """
        placed = self if device is None else self.on(device)
        unknown = unknown_records(self.size, known)
        with reporting(progress), placed.incidence.device.memory_refused():
            _require_noise_to_count(placed)
            lowered = LoweredRecords.of(placed, prior_on(domain, prior), unknown)
            exposure = assess(lowered.design)
            return (_with_others_known if isinstance(known, Known) else _laid_out)(lowered, exposure)
