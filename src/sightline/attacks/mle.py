r"""Constrained maximum likelihood: the records in a box whose exact answers are closest to the noisy ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sightline.arrays import FloatArray
from sightline.attacks import starts
from sightline.attacks.estimates import (
    AttackStatus,
    Estimates,
    box_of,
    checked_answers,
    checked_box,
    checked_confidence,
    gaussian_factor,
)
from sightline.attacks.inversion import exact_optimum, two_moments_of_two
from sightline.attacks.model import Box, Model, model_of
from sightline.attacks.starts import minimise, solve_positive
from sightline.errors import require
from sightline.geometry.transcript import Transcript

_BETTER = 1e-9  # the least improvement by a second search, relative to one plus the objective
OPTIMAL = 1e-8  # an objective within this of the exact optimum is certified
_BLOCK = 2**16  # searches that NumPy runs together: more do not fit into the caches


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstrainedMLE:
    r"""The box-constrained Gaussian maximum likelihood attack (``app:logistic_smoothing``).

    .. math:: \hat u = \arg\min_{u \in [\text{low}, \text{high}]^m} (y - p(u))^\top \Sigma^{-1} (y - p(u))

    for linear releases, moments and smooth thresholds. The objective has several local minima. The search
    starts from the algebraic inverse if there is one (the first m moments of m values), from the best points
    of ``grid_starts`` regions of a feasible grid and from ``random_starts`` fixed random points, takes Newton
    steps in the box from each, and keeps the best.
    With ``wide``, trials whose optimum is not certified are searched again from the best points of a dense
    grid: 16 starts, or 128 with compact thresholds. By default ``box`` is the domain that the releases state.

    With symmetric releases *and* releases over subsets of the same records the search is over values and
    labels: the best multiset is given to the records in all orders (up to six values; beyond, by exchanges of
    two, a heuristic), and the best orders are starts.

    ``certified`` says for which trials the global optimum is proven: an objective of zero, or two values
    under two moments. In all other cases the search is wide but proves nothing.

    If only the multiset of the values is identifiable, they are in ascending order. Standard errors come from
    the Fisher information at the estimate, and intervals are cut at the box. Both are local approximations:
    :func:`simulate` reports how often such an interval contains the truth.

    >>> from sightline import Moment, Transcript
    >>> moments = [Moment(order=order, members=range(2), bound=1.0) for order in (1, 2)]
    >>> transcript = Transcript(moments, noise=[0.1, 0.1])
    >>> estimates = ConstrainedMLE().estimate(transcript, [[0.15, 0.325], [0.0, 1.5]])
    >>> estimates.values.round(6).tolist()
    [[-0.4, 0.7], [-1.0, 1.0]]
    >>> estimates.certified.tolist(), estimates.objective.round(6).tolist()
    ([True, True], [0.0, 25.0])
    """

    box: Box | None = None
    grid_starts: int = 8
    random_starts: int = 2
    steps: int = 100
    seed: int = 0
    confidence: float = 0.95
    wide: bool = True

    def __post_init__(self) -> None:
        if self.box is not None:
            object.__setattr__(self, "box", checked_box(self.box))
        for name in ("grid_starts", "random_starts"):
            require(getattr(self, name) >= 0, f"{name} >= 0", got=getattr(self, name))
        require(
            self.grid_starts + self.random_starts > 0,
            "at least one grid start or random start",
            got=0,
            fix="the algebraic start exists only for the first m moments of m values",
        )
        require(self.steps >= 1, "steps >= 1", got=self.steps)
        checked_confidence(self.confidence)

    def estimate(self, transcript: Transcript, answers: Any) -> Estimates:
        """The best point in the box for every trial."""
        checked = checked_answers(transcript, answers)
        model = model_of(transcript.queries, transcript.law)
        return self.fit(model, checked, box=box_of(transcript, self.box))

    def fit(self, model: Model, answers: Any, *, box: Box) -> Estimates:
        """The same from a model and checked (trials × outputs) answers, without a transcript."""
        count = self.grid_starts + self.random_starts + 1
        size = max(1, _BLOCK // count)
        blocks = [self._fit_block(model, answers[i : i + size].T, box) for i in range(0, len(answers), size)]
        return _joined(blocks)

    def begin(self, model: Model, answers: FloatArray, *, box: Box) -> list[FloatArray]:
        """All starts for every trial: unknowns × trials each."""
        points = [*starts.screened(model, model.whiten(answers), box=box, count=self.grid_starts)]
        inverse = starts.algebraic(model, answers)
        if inverse is not None:
            points.append(inverse)
        drawn = starts.random_points(model, box=box, count=self.random_starts, seed=self.seed)
        points += [np.tile(point[:, None], answers.shape[1]) for point in drawn]
        return [starts.apart(start, box=box) for start in points]

    def _search(self, model: Model, whitened: FloatArray, begins: Sequence[FloatArray], box: Box) -> _Found:
        """The best unknowns from all starts."""
        state = minimise(
            model,
            np.tile(whitened, len(begins)),
            np.concatenate(begins, axis=1),
            box=box,
            steps=self.steps,
        )
        objectives = state.objective.reshape(len(begins), -1)
        trials = np.arange(objectives.shape[1])
        best = np.argmin(objectives, axis=0) * trials.size + trials
        return _Found(state.u[:, best], state.objective[best], ~state.done[best])

    def _widen(
        self, model: Model, whitened: FloatArray, best: _Found, open_: NDArray[np.bool_], box: Box
    ) -> None:
        """Search the open trials again from the dense grid; accept improvements larger than rounding."""
        packed, results = whitened[:, open_], _Found._make(part[..., open_] for part in best)
        begins = starts.wide(model, packed, box=box)
        several = max(8, _BLOCK // packed.shape[1])
        for some in iter(lambda: list(islice(begins, several)), []):
            results = results.or_better(self._search(model, packed, some, box))
        for part, improved in zip(best, results, strict=True):
            part[..., open_] = improved

    def _labelings(
        self, model: Model, answers: FloatArray, whitened: FloatArray, box: Box
    ) -> list[FloatArray]:
        """The multiset that fits the symmetric releases best, in the orders that fit all releases best."""
        part = starts.symmetric_part(model)
        if part is None:
            return []
        symmetric, places = part
        own = answers[places]
        values = self._search(symmetric, symmetric.whiten(own), self.begin(symmetric, own, box=box), box).u
        return [values, *starts.reordered(model, whitened, values)]

    def _relabel(self, model: Model, whitened: FloatArray, best: _Found, box: Box) -> _Found:
        """Give the values found to the records in other orders, and search on from there."""
        for _ in range(1 if model.unknowns <= starts.ALL_ORDERS else starts.ROUNDS):
            best = best.or_better(
                self._search(model, whitened, starts.reordered(model, whitened, best.u), box)
            )
        return best

    def _fit_block(self, model: Model, answers: FloatArray, box: Box) -> Estimates:
        whitened = model.whiten(answers)
        begins = self.begin(model, answers, box=box)
        if starts.needs_labels(model):
            begins += self._labelings(model, answers, whitened, box)
        best = self._search(model, whitened, begins, box)
        if self.wide and not model.linear:
            open_ = ~_certified(model, answers, best.objective, box)
            if bool(np.any(open_)):
                self._widen(model, whitened, best, open_, box)
        if starts.needs_labels(model):
            best = self._relabel(model, whitened, best, box)
        u = best.u
        spread = _standard_errors(model, u, limit=1e6 * (box[1] - box[0]))
        if model.exchangeable:
            order = np.argsort(u, axis=0, kind="stable")
            u, spread = (np.take_along_axis(part, order, axis=0) for part in (u, spread))
        reach = gaussian_factor(self.confidence) * spread
        return Estimates(
            values=u.T,
            targets=model.records,
            unlabeled=model.exchangeable,
            standard_errors=spread.T,
            lower=np.clip(u - reach, *box).T,
            upper=np.clip(u + reach, *box).T,
            status=best.unfinished * int(AttackStatus.STEP_LIMIT),
            objective=best.objective,
            certified=_certified(model, answers, best.objective, box),
        )


class _Found(NamedTuple):
    """The best points that a search found, their objectives, and whether it hit the step limit."""

    u: FloatArray
    objective: FloatArray
    unfinished: NDArray[np.bool_]

    def or_better(self, other: _Found) -> _Found:
        """The other points where they are better by more than rounding."""
        better = other.objective < self.objective - _BETTER * (1.0 + self.objective)
        return _Found._make(np.where(better, new, old) for new, old in zip(other, self, strict=True))


def _certified(model: Model, answers: FloatArray, objective: FloatArray, box: Box) -> NDArray[np.bool_]:
    """Whether the objective is optimal: 0 is, and for two values under two moments the optimum is known."""
    if not two_moments_of_two(model):
        return objective <= OPTIMAL
    return np.asarray(objective <= exact_optimum(model, answers, box=box) * (1.0 + 1e-12) + OPTIMAL)


def _standard_errors(model: Model, u: FloatArray, *, limit: float) -> FloatArray:
    """Square roots of the diagonal of the inverse information; infinite where it is singular."""
    information = model.information(u)
    free, digits = np.ones(u.shape, dtype=np.bool_), np.finfo(np.float64)
    floor = digits.tiny + digits.eps * np.einsum("kkn->n", information)
    spread = np.full(u.shape, np.inf)
    for k in range(len(u)):
        unit = np.zeros(u.shape)
        unit[k] = -1.0
        variance = solve_positive(information, unit, free, shift=np.zeros(1), floor=floor)[k]
        finite = (variance > 0) & (variance < limit * limit)
        spread[k, finite] = np.sqrt(variance[finite])
    return spread


def _joined(blocks: Sequence[Estimates]) -> Estimates:
    arrays = {
        name: np.concatenate([getattr(block, name) for block in blocks])
        for name in ("values", "standard_errors", "lower", "upper", "status", "objective", "certified")
    }
    return Estimates(targets=blocks[0].targets, unlabeled=blocks[0].unlabeled, **arrays)
