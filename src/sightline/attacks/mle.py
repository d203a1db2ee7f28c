r"""Constrained maximum likelihood: the records in a box whose exact answers are closest to the noisy ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

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
from sightline.attacks.model import Box, Column, Model, Objective, columns_of, model_of, stacked
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

    for linear releases, moments, smooth thresholds and, through JAX, any ``DeepSet`` of scalars. The
    objective has several local minima. The search starts from the algebraic inverse if there is one
    (moments of up to three values), from the best points of ``grid_starts`` regions of a feasible grid and
    from ``random_starts`` fixed random points, takes Newton steps in the box from each, and keeps the best.
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
            fix="the algebraic start exists only for moments of up to three values",
        )
        require(self.steps >= 1, "steps >= 1", got=self.steps)
        checked_confidence(self.confidence)

    def estimate(self, transcript: Transcript, answers: Any) -> Estimates:
        """The best point in the box for every trial."""
        checked = checked_answers(transcript, answers)
        model = model_of(transcript.queries, transcript.law)
        return self.fit(model, checked, box=box_of(transcript, self.box))

    def fit(self, model: Objective, answers: Any, *, box: Box) -> Estimates:
        """The same from a model and checked (trials × outputs) answers, without a transcript."""
        count = self.grid_starts + self.random_starts + 1
        size = max(1, _BLOCK // count)
        if len(answers) <= size:
            return self._fit_block(model, answers, box)
        blocks = [self._fit_block(model, answers[i : i + size], box) for i in range(0, len(answers), size)]
        return _joined(blocks)

    def begin(self, model: Objective, answers: Any, *, box: Box) -> list[list[Column]]:
        """All starts for every trial, as columns."""
        columns = columns_of(answers)
        zero = 0.0 * columns[0]
        points = starts.screened(model, model.whiten(columns), box=box, count=self.grid_starts)
        inverse = starts.algebraic(model, columns)
        if inverse is not None:
            points.append(inverse)
        drawn = starts.random_points(model, box=box, count=self.random_starts, seed=self.seed)
        points += [[zero + value for value in point] for point in drawn.tolist()]
        return [starts.apart(start, box=box) for start in points]

    def _search(
        self, model: Objective, whitened: Sequence[Column], begins: Sequence[Sequence[Column]], box: Box
    ) -> list[Column]:
        """The best unknowns from all starts, their objective, and whether the search hit the step limit."""
        trials, m = int(whitened[0].shape[0]), model.unknowns
        state = minimise(
            model,
            [np.concatenate([z] * len(begins)) for z in whitened],
            [np.concatenate([start[k] for start in begins]) for k in range(m)],
            box=box,
            steps=self.steps,
        )
        results = [*state.u, state.local.objective, 0 * state.done + ~state.done]
        best = [column[:trials] for column in results]
        for i in range(1, len(begins)):
            other = [column[i * trials : (i + 1) * trials] for column in results]
            better = other[m] < best[m]
            best = [np.where(better, new, old) for new, old in zip(other, best, strict=True)]
        return best

    def _widen(
        self, model: Model, whitened: Sequence[Column], best: list[Column], open_: Column, box: Box
    ) -> list[Column]:
        """Search the open trials again from the dense grid; accept improvements larger than rounding."""
        m = model.unknowns
        packed, results = [z[open_] for z in whitened], [column[open_] for column in best]
        begins = starts.wide(model, packed, box=box)
        several = max(8, _BLOCK // len(packed[0]))
        for some in iter(lambda: list(islice(begins, several)), []):
            other = self._search(model, packed, some, box)
            better = other[m] < results[m] - _BETTER * (1.0 + results[m])
            results = [np.where(better, new, old) for new, old in zip(other, results, strict=True)]
        for column, improved in zip(best, results, strict=True):
            column[open_] = improved
        return best

    def _labelings(
        self, model: Model, answers: Any, whitened: Sequence[Column], box: Box
    ) -> list[list[Column]]:
        """The multiset that fits the symmetric releases best, in the orders that fit all releases best."""
        part = starts.symmetric_part(model)
        if part is None:
            return []
        symmetric, places = part
        own = stacked([answers[:, place] for place in places])
        multiset = self._search(
            symmetric, symmetric.whiten(columns_of(own)), self.begin(symmetric, own, box=box), box
        )
        values = multiset[: model.unknowns]
        return [values, *starts.reordered(model, whitened, values)]

    def _relabel(
        self, model: Model, whitened: Sequence[Column], best: list[Column], box: Box
    ) -> list[Column]:
        """Give the values found to the records in other orders, and search on from there."""
        m = model.unknowns
        for _ in range(1 if m <= starts.ALL_ORDERS else starts.ROUNDS):
            other = self._search(model, whitened, starts.reordered(model, whitened, best[:m]), box)
            better = other[m] < best[m] - _BETTER * (1.0 + best[m])
            best = [np.where(better, new, old) for new, old in zip(other, best, strict=True)]
        return best

    def _fit_block(self, model: Objective, answers: Any, box: Box) -> Estimates:
        m = model.unknowns
        whitened = model.whiten(columns_of(answers))
        begins = self.begin(model, answers, box=box)
        if starts.needs_labels(model):
            begins += self._labelings(model, answers, whitened, box)
        best = self._search(model, whitened, begins, box)
        if self.wide and isinstance(model, Model) and not model.linear:
            open_ = ~_certified(model, answers, best[m], box)
            if bool(np.any(open_)):
                best = self._widen(model, whitened, best, open_, box)
        if starts.needs_labels(model):
            best = self._relabel(model, whitened, best, box)
        u, objective, unfinished = best[:m], best[m], best[m + 1]
        width = box[1] - box[0]
        spread = _standard_errors(model, u, limit=1e6 * width)
        if model.exchangeable:
            sort_together(u, spread)
        reach = gaussian_factor(self.confidence)
        return Estimates(
            values=stacked(u),
            targets=model.records,
            unlabeled=model.exchangeable,
            standard_errors=stacked(spread),
            lower=stacked([np.clip(x - reach * s, *box) for x, s in zip(u, spread, strict=True)]),
            upper=stacked([np.clip(x + reach * s, *box) for x, s in zip(u, spread, strict=True)]),
            status=unfinished * int(AttackStatus.STEP_LIMIT),
            objective=objective,
            certified=_certified(model, answers, objective, box),
        )


def _certified(model: Objective, answers: Any, objective: Column, box: Box) -> Column:
    """Whether the objective is optimal: 0 is, and for two values under two moments the optimum is known."""
    if not two_moments_of_two(model):
        return objective <= OPTIMAL
    exact = exact_optimum(model, columns_of(answers), box=box)
    return objective <= exact * (1.0 + 1e-12) + OPTIMAL


def _standard_errors(model: Objective, u: Sequence[Column], *, limit: float) -> list[Column]:
    """Square roots of the diagonal of the inverse information; infinite where it is singular."""
    information = model.information(u)
    zero, m = 0.0 * u[0], len(u)
    all_free = [zero == zero] * m
    digits = np.finfo(u[0].dtype)
    scale = zero + float(digits.tiny) / float(digits.eps)
    for k in range(m):
        scale = scale + information[k][k]
    spread = []
    for k in range(m):
        unit = [zero - float(j == k) for j in range(m)]
        variance = solve_positive(information, unit, all_free, shift=zero, floor=float(digits.eps) * scale)[k]
        finite = (variance > 0) & (variance < limit * limit)
        spread.append(np.sqrt(np.where(finite, variance, zero + float("inf"))))
    return spread


def sort_together(values: list[Column], *others: list[Column]) -> None:
    """Sort the columns in ascending order trial by trial, and permute the others in the same way."""
    for last in range(len(values) - 1, 0, -1):
        for k in range(last):
            swap = values[k] > values[k + 1]
            for columns in (values, *others):
                a, b = columns[k], columns[k + 1]
                columns[k], columns[k + 1] = np.where(swap, b, a), np.where(swap, a, b)


def _joined(blocks: Sequence[Estimates]) -> Estimates:
    arrays = {
        name: np.concatenate([getattr(block, name) for block in blocks])
        for name in ("values", "standard_errors", "lower", "upper", "status", "objective", "certified")
    }
    return Estimates(targets=blocks[0].targets, unlabeled=blocks[0].unlabeled, **arrays)
