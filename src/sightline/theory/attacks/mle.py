r"""Constrained maximum likelihood: the records in a box whose exact answers are closest to the noisy ones.

The search of a batched attack: Newton's method in a box, and its starts.

Every column is a separate problem. A step solves :math:`(\nabla^2 f + \lambda s I)\,d = -\nabla f` on the
free coordinates (those that the gradient does not hold at a bound), with the absolute values of the pivots,
and projects onto the box. A step that lowers the objective is accepted and :math:`\lambda` decreases;
otherwise it increases. The exact Hessian matters: where two values of a multiset coincide, the Gauss–Newton
matrix is singular although the minimum is well determined.

*Starts*: the algebraic inverse, good points of a grid, a few random points.

The grid is divided into regions around points that are far apart, and the best grid point of every region is
a start. So the starts depend on the answers, and every part of the box has one. A second, dense grid has more
points and more regions, for answers whose optimum is not certified after the first search.

With symmetric releases and releases over subsets, each order of the records has a local minimum of its own
near the multiset that the symmetric releases fit best. For up to six values all orders are compared, and the
best of them are starts. Beyond that to find the best order is a quadratic assignment problem: only exchanges
of two values are compared, a few times over. This is a heuristic.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, combinations_with_replacement, islice, pairwise, permutations, product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sightline.arrays import FloatArray, IndexArray
from sightline.errors import require
from sightline.numerics.intervals import gaussian_factor
from sightline.theory.attacks.estimates import (
    AttackStatus,
    Estimates,
    box_of,
    checked_answers,
    checked_box,
    checked_confidence,
)
from sightline.theory.attacks.inversion import exact_optimum, invert_moments, two_moments_of_two
from sightline.theory.attacks.model import Box, Model, Power, SmoothStep, model_of
from sightline.theory.geometry.transcript import Transcript

_WORTHWHILE = 0.7  # below this share of open trials, continue with those only


class State(NamedTuple):
    """The state of the search in every trial."""

    u: FloatArray
    objective: FloatArray
    gradient: FloatArray
    hessian: FloatArray
    damping: FloatArray
    done: NDArray[np.bool_]  # whether no further step can lower the objective


def minimise(model: Model, whitened: FloatArray, starts: FloatArray, *, box: Box, steps: int = 60) -> State:
    """Minimise the objective from one start for every trial of whitened answers."""
    u = np.clip(starts, *box)
    trials = u.shape[1]
    found = State(u, *model.local(u, whitened), np.full(trials, 1e-3), np.zeros(trials, dtype=np.bool_))
    chosen, state = np.arange(trials), found
    while chosen.size and steps > 0:
        state, steps = advance(model, state, whitened, box), steps - 1
        left = ~state.done
        if np.count_nonzero(left) < _WORTHWHILE * chosen.size or steps == 0:
            for whole, part in zip(found, state, strict=True):
                whole[..., chosen] = part
            chosen, whitened = chosen[left], whitened[:, left]
            state = State._make(part[..., left] for part in state)
    return found


def advance(model: Model, state: State, whitened: FloatArray, box: Box) -> State:
    """One step of every trial."""
    u, objective, g, H, damping, done = state
    low, high = box
    free = ~(((u <= low) & (g > 0)) | ((u >= high) & (g < 0)))
    scale = np.max(np.abs(np.einsum("kkn->kn", H)), axis=0)
    digits = np.finfo(np.float64)
    floor = 50.0 * digits.eps * scale + digits.tiny
    d = solve_positive(H, g, free, shift=damping * scale, floor=floor)
    predicted = -0.5 * np.einsum("kn,kn->n", g, d)
    trial = np.where(done, u, np.clip(u + d, low, high))
    attempt = model.local(trial, whitened)
    better = attempt.objective < objective
    last = predicted <= 4.0 * digits.eps * (1.0 + objective)
    return State(
        u=np.where(better, trial, u),
        objective=np.where(better, attempt.objective, objective),
        gradient=np.where(better, attempt.gradient, g),
        hessian=np.where(better, attempt.hessian, H),
        damping=np.where(better, 0.1 * damping, 10.0 * damping + 1e-6),
        # With more damping than that a step changes no digit.
        done=done | (last & (damping < 1e-2)) | (damping > 1 / digits.eps),
    )


def solve_positive(
    H: FloatArray, g: FloatArray, free: NDArray[np.bool_], *, shift: FloatArray, floor: FloatArray
) -> FloatArray:
    r"""Solve :math:`(H + \text{shift})\,d = -g` on the free coordinates, with positive pivots."""
    m = len(g)
    lower, pivots = np.zeros(H.shape), np.ones(g.shape)  # the unit triangle of LDLᵀ
    for k in range(m):
        for j in range(k):
            entry = np.where(free[k] & free[j], H[k, j], 0.0)
            lower[k, j] = (entry - np.sum(lower[k, :j] * lower[j, :j] * pivots[:j], axis=0)) / pivots[j]
        pivot = np.abs(H[k, k] + shift - np.sum(lower[k, :k] ** 2 * pivots[:k], axis=0))
        pivots[k] = np.where(free[k], np.fmax(pivot, floor), 1.0)
    d = np.where(free, -g, 0.0)
    for k in range(m):
        d[k] -= np.sum(lower[k, :k] * d[:k], axis=0)
    d /= pivots
    for k in reversed(range(m)):
        d[k] -= np.sum(lower[k + 1 :, k] * d[k + 1 :], axis=0)
    return d


_GRID = 140  # about how many grid points are evaluated
# Points and regions of the dense grid. A compact step is flat outside its support, and each placement of the
# values on slopes and flat parts can be a separate local minimum.
_DENSE, _DENSE_COMPACT = (5_000, 16), (40_000, 128)
# Equal values are moved apart by this share of the box: a tie is a saddle point of the objective.
_APART = 1e-3


def grid_points(unknowns: int, *, box: Box, exchangeable: bool, most: int = _GRID) -> FloatArray:
    """At most about ``most`` points that cover the box, bounds included.

    Only sorted points, if the order of the unknowns does not matter.
    """
    low, high = box
    sizes = range(3, most + 1)

    def count(size: int) -> int:
        return math.comb(size + unknowns - 1, unknowns) if exchangeable else size**unknowns

    size = max((size for size in sizes if count(size) <= most), default=2)
    if count(size) > 8 * most:  # too many unknowns even for the corners: use a lattice
        return _lattice(unknowns, box=box, exchangeable=exchangeable, count=most)
    axis = np.linspace(low, high, size)
    points = combinations_with_replacement(axis, unknowns) if exchangeable else product(axis, repeat=unknowns)
    return np.array(list(points))


def _lattice(unknowns: int, *, box: Box, exchangeable: bool, count: int) -> FloatArray:
    """A Kronecker sequence: multiples of irrational steps, modulo one."""
    low, high = box
    primes = [p for p in range(2, 40 * unknowns) if all(p % q for q in range(2, math.isqrt(p) + 1))]
    steps = np.sqrt(np.array(primes[:unknowns], dtype=np.float64))
    points = low + (high - low) * np.mod(np.outer(np.arange(1, count + 1), steps), 1.0)
    return np.sort(points, axis=1) if exchangeable else points


def spread_out(points: FloatArray, count: int) -> list[int]:
    """Positions of ``count`` of the points, each as far as possible from the earlier ones."""
    chosen = [0]
    distance = np.sum((points - points[0]) ** 2, axis=1)
    while len(chosen) < min(count, len(points)):
        chosen.append(int(np.argmax(distance)))
        distance = np.minimum(distance, np.sum((points - points[chosen[-1]]) ** 2, axis=1))
    return chosen


def regions(points: FloatArray, count: int) -> IndexArray:
    """For every point the nearest of ``count`` that are spread out."""
    anchors = points[spread_out(points, count)]
    distances = np.sum((points[:, None, :] - anchors) ** 2, axis=2)
    nearest: IndexArray = np.argmin(distances, axis=1)
    return nearest


def screened(model: Model, whitened: FloatArray, *, box: Box, count: int) -> Iterator[FloatArray]:
    """For every trial's answers the best grid point of each of ``count`` regions."""
    return _best_of_regions(model, whitened, box, (_GRID, count)) if count else iter(())


def wide(model: Model, whitened: FloatArray, *, box: Box) -> Iterator[FloatArray]:
    """For every trial's answers the best point of each region of the dense grid."""
    compact = any(isinstance(row.curve, SmoothStep) and row.curve.kernel == "compact" for row in model.rows)
    size = _DENSE_COMPACT if compact else _DENSE
    return (apart(start, box=box) for start in _best_of_regions(model, whitened, box, size))


def _best_of_regions(
    model: Model, whitened: FloatArray, box: Box, size: tuple[int, int]
) -> Iterator[FloatArray]:
    points, ends = _grid_by_region(model.unknowns, box, model.exchangeable, size)
    answers = model.whiten(model.expected(points))
    squares = np.sum(answers**2, axis=0)
    for begin, end in pairwise(ends):
        # |z - p|² without |z|², which is the same for all points.
        distance = squares[begin:end] - 2.0 * whitened.T @ answers[:, begin:end]
        yield points[:, begin + np.argmin(distance, axis=1)]


@lru_cache(maxsize=8)
def _grid_by_region(
    unknowns: int, box: Box, exchangeable: bool, size: tuple[int, int]
) -> tuple[FloatArray, tuple[int, ...]]:
    """Points in the order of their regions, one a column, and where each region ends."""
    most, count = size
    points = grid_points(unknowns, box=box, exchangeable=exchangeable, most=most)
    label = regions(points, count)
    order = np.argsort(label, kind="stable")
    ends = np.searchsorted(label[order], np.arange(int(label.max()) + 2))
    return np.ascontiguousarray(points[order].T), tuple(dict.fromkeys(ends.tolist()))


def random_points(model: Model, *, box: Box, count: int, seed: int) -> FloatArray:
    """Uniform points, the same for every trial, so that an estimate is a function of its answers alone."""
    low, high = box
    points = np.random.default_rng(seed).uniform(low, high, (count, model.unknowns))
    return np.sort(points, axis=1) if model.exchangeable else points


def algebraic(model: Model, answers: FloatArray) -> list[FloatArray]:
    """The values with exactly the answered moments 1, …, m, where there are these moments.

    If no real values have them, the real parts of the roots.
    """
    if not (model.exchangeable or model.unknowns == 1):
        return []
    orders = [row.curve.order if isinstance(row.curve, Power) else 0 for row in model.rows]
    wanted = range(1, model.unknowns + 1)
    if not set(wanted) <= set(orders):
        return []
    places = [orders.index(order) for order in wanted]
    weights = np.array([model.rows[place].weights[0] for place in places])
    return [invert_moments((answers[places] / weights[:, None]).T / model.unknowns)[0].T]


def apart(start: FloatArray, *, box: Box) -> FloatArray:
    """A start with its coordinates moved slightly apart, towards the inside of the box."""
    low, high = box
    m, gap = len(start), _APART * (high - low)
    place = np.arange(m)[:, None]
    inside = np.clip(start, low + gap * place, high - gap * (m - 1 - place))
    return np.clip(inside + gap * ((place + 1) / (m + 1) - 0.5), low, high)


ALL_ORDERS = 6  # up to so many values all orders are compared
ROUNDS = 3  # of exchanges, for more values
_KEPT = 8  # orders that become starts


def needs_labels(model: Model) -> bool:
    """Whether the releases are of both kinds: symmetric and nonlinear, and over subsets."""
    if model.exchangeable or model.linear:
        return False
    return model.unknowns > 1 and bool(symmetric_parts(model))


def symmetric_parts(model: Model) -> list[tuple[Model, list[int]]]:
    """The rows that do not depend on the order of the unknowns and their places; not if all of them are
    linear or if their noise is correlated with that of others."""
    places = [i for i, row in enumerate(model.rows) if row.symmetric]
    if not places or model.whitening.ndim == 2:
        return []
    rows = tuple(model.rows[i] for i in places)
    smaller = Model(rows=rows, records=model.records, whitening=model.whitening[places])
    return [] if smaller.linear else [(smaller, places)]


def reordered(model: Model, whitened: FloatArray, u: FloatArray) -> list[FloatArray]:
    """For every trial's answers the orders of the values u with the smallest objectives."""
    orders = np.array(list(_orders(len(u))))
    misfits = (whitened - model.whiten(model.expected(u[order])) for order in orders)
    objectives = np.stack([np.einsum("ln,ln->n", misfit, misfit) for misfit in misfits])
    best = np.argsort(objectives, axis=0, kind="stable")[:_KEPT]
    return [np.take_along_axis(u, orders[chosen].T, axis=0) for chosen in best]


def _orders(members: int) -> Iterable[Sequence[int]]:
    """All orders but the given one, or all exchanges of two."""
    if members <= ALL_ORDERS:
        return islice(permutations(range(members)), 1, None)
    return (_exchanged(members, a, b) for a, b in combinations(range(members), 2))


def _exchanged(members: int, a: int, b: int) -> list[int]:
    order = list(range(members))
    order[a], order[b] = b, a
    return order


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
        points = [*screened(model, model.whiten(answers), box=box, count=self.grid_starts)]
        points += algebraic(model, answers)
        drawn = random_points(model, box=box, count=self.random_starts, seed=self.seed)
        points += [np.tile(point[:, None], answers.shape[1]) for point in drawn]
        return [apart(start, box=box) for start in points]

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
        begins = wide(model, packed, box=box)
        several = max(8, _BLOCK // packed.shape[1])
        for some in iter(lambda: list(islice(begins, several)), []):
            results = results.or_better(self._search(model, packed, some, box))
        for part, improved in zip(best, results, strict=True):
            part[..., open_] = improved

    def _labelings(
        self, model: Model, answers: FloatArray, whitened: FloatArray, box: Box
    ) -> list[FloatArray]:
        """The multiset that fits the symmetric releases best, in the orders that fit all releases best."""
        begins: list[FloatArray] = []
        for symmetric, places in symmetric_parts(model):
            answers_there = answers[places]
            starts = self.begin(symmetric, answers_there, box=box)
            values = self._search(symmetric, symmetric.whiten(answers_there), starts, box).u
            begins += [values, *reordered(model, whitened, values)]
        return begins

    def _relabel(self, model: Model, whitened: FloatArray, best: _Found, box: Box) -> _Found:
        """Give the values found to the records in other orders, and search on from there."""
        for _ in range(1 if model.unknowns <= ALL_ORDERS else ROUNDS):
            best = best.or_better(self._search(model, whitened, reordered(model, whitened, best.u), box))
        return best

    def _fit_block(self, model: Model, answers: FloatArray, box: Box) -> Estimates:
        whitened = model.whiten(answers)
        begins = self.begin(model, answers, box=box)
        if needs_labels(model):
            begins += self._labelings(model, answers, whitened, box)
        best = self._search(model, whitened, begins, box)
        if self.wide and not model.linear:
            open_ = ~_certified(model, answers, best.objective, box)
            if bool(np.any(open_)):
                self._widen(model, whitened, best, open_, box)
        if needs_labels(model):
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
        """The other points where they are better."""
        better = other.objective < self.objective
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
