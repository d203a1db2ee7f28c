r"""The search of a batched attack: Newton's method in a box, and its starts.

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
from functools import lru_cache
from itertools import combinations, combinations_with_replacement, islice, pairwise, permutations, product
from typing import Any, NamedTuple, TypeAlias, TypeGuard

import numpy as np

from sightline.arrays import FloatArray, IndexArray
from sightline.attacks.inversion import depressed_roots
from sightline.attacks.model import Box, Column, Local, Model, Objective, Power, SmoothStep, total

_STEPS = 5  # steps between two checks of which columns are done
_WORTHWHILE = 0.7  # below this share of open columns, continue with those only
_STUCK = 1e12  # above this λ no step can lower the objective further


# One interval for all unknowns, or the lower and the upper end of each.
Boxes: TypeAlias = Box | tuple[tuple[float, ...], tuple[float, ...]]


class State(NamedTuple):
    """The state of the search in every column."""

    u: tuple[Column, ...]
    local: Local
    damping: Column
    done: Column  # whether no further step can lower the objective
    whitened: tuple[Column, ...]


def minimise(
    model: Objective, whitened: Sequence[Column], starts: Sequence[Column], *, box: Boxes, steps: int = 60
) -> State:
    """Minimise the objective from one start for every column of whitened answers."""
    lows, highs = _ends(box, len(starts))
    u = tuple(np.clip(column, lows[k], highs[k]) for k, column in enumerate(starts))
    local = model.local(u, whitened)
    state = State(u, local, 0.0 * u[0] + 1e-3, u[0] != u[0], tuple(whitened))
    return _run(model, state, box, steps)


def _run(model: Objective, state: State, box: Boxes, steps: int) -> State:
    """Take steps; once few columns are still open, continue with those only."""
    while steps > 0:
        for _ in range(min(_STEPS, steps)):
            state = advance(model, state, box)
        steps -= _STEPS
        open_ = ~state.done
        count = int(np.sum(open_))
        if count == 0:
            break
        if count < _WORTHWHILE * len(state.damping):
            return _run_packed(model, state, box, steps)
    return state


def _run_packed(model: Objective, state: State, box: Boxes, steps: int) -> State:
    open_ = ~state.done
    packed: State = _map(lambda column: column[open_], state)
    packed = _run(model, packed, box, steps)
    place = np.cumsum(open_) - 1
    merged: State = _map(lambda new, old: np.where(open_, new[place], old), packed, state)
    return merged


def advance(model: Objective, state: State, box: Boxes) -> State:
    """One step of every column."""
    u, local, damping, done, whitened = state
    m = len(u)
    lows, highs = _ends(box, m)
    g, H = local.gradient, local.hessian
    free = [~(((u[k] <= lows[k]) & (g[k] > 0)) | ((u[k] >= highs[k]) & (g[k] < 0))) for k in range(m)]
    scale = np.abs(H[0][0])
    for k in range(1, m):
        larger = np.abs(H[k][k])
        scale = np.where(larger > scale, larger, scale)
    digits = np.finfo(u[0].dtype)
    floor = 50.0 * float(digits.eps) * scale + float(digits.tiny)
    d = solve_positive(H, g, free, shift=damping * scale, floor=floor)
    predicted = -0.5 * total([g[k] * d[k] for k in range(m)])
    trial = tuple(np.where(done, u[k], np.clip(u[k] + d[k], lows[k], highs[k])) for k in range(m))
    attempt = model.local(trial, whitened)
    better = attempt.objective < local.objective
    last = predicted <= 4.0 * float(digits.eps) * (1.0 + local.objective)
    finished = done | (last & (damping < 1e-2)) | (damping > _STUCK)
    damping = np.where(better, 0.1 * damping, 10.0 * damping + 1e-6)
    local = _map(lambda new, old: np.where(better, new, old), attempt, local)
    u = tuple(np.where(better, trial[k], u[k]) for k in range(m))
    return State(u, local, damping, finished, whitened)


def _ends(box: Boxes, unknowns: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    low, high = box
    if isinstance(low, tuple) and isinstance(high, tuple):
        return low, high
    return (low,) * unknowns, (high,) * unknowns  # type: ignore[return-value]  # both are numbers


def solve_positive(
    H: Sequence[Sequence[Column]],
    g: Sequence[Column],
    free: Sequence[Column],
    *,
    shift: Column,
    floor: Column,
) -> list[Column]:
    r"""Solve :math:`(H + \text{shift})\,d = -g` on the free coordinates, with positive pivots."""
    m = len(g)
    lower: list[list[Column]] = [[None] * m for _ in range(m)]  # the unit triangle of LDLᵀ
    pivots: list[Column] = []
    for k in range(m):
        for j in range(k):
            entry = np.where(free[k] & free[j], H[k][j], 0.0 * g[0])
            for i in range(j):
                entry = entry - lower[k][i] * lower[j][i] * pivots[i]
            lower[k][j] = entry / pivots[j]
        pivot = H[k][k] + shift
        for i in range(k):
            pivot = pivot - lower[k][i] * lower[k][i] * pivots[i]
        pivot = np.abs(pivot)
        pivots.append(np.where(free[k], np.where(pivot > floor, pivot, floor), 1.0 + 0.0 * g[0]))
    d: list[Column] = []
    for k in range(m):
        right = np.where(free[k], -g[k], 0.0 * g[0])
        for j in range(k):
            right = right - lower[k][j] * d[j]
        d.append(right)
    d = [right / pivot for right, pivot in zip(d, pivots, strict=True)]
    for k in reversed(range(m)):
        for i in range(k + 1, m):
            d[k] = d[k] - lower[i][k] * d[i]
    return d


def _map(change: Any, *trees: Any) -> Any:
    """The change of every column, or of the columns at the same place of several tuples."""
    first = trees[0]
    if not isinstance(first, tuple):
        return change(*trees)
    parts = [_map(change, *branches) for branches in zip(*trees, strict=True)]
    return type(first)(*parts) if hasattr(first, "_fields") else tuple(parts)


_GRID = 140  # about how many grid points are evaluated
# Points and regions of the dense grid. A compact step is flat outside its support, and each placement of the
# values on slopes and flat parts can be a separate local minimum.
_DENSE, _DENSE_COMPACT = (5_000, 16), (40_000, 128)
# Equal values are moved apart by this share of the box: a tie is a saddle point of the objective.
_APART = 1e-3


def grid_points(
    unknowns: int, *, box: Box, exchangeable: bool, most: int = _GRID, longest: int = 23
) -> FloatArray:
    """At most about ``most`` points that cover the box, bounds included; an axis has at most ``longest``.

    Only sorted points, if the order of the unknowns does not matter.
    """
    low, high = box
    sizes = range(3, longest + 1)

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


def screened(model: Objective, whitened: Sequence[Column], *, box: Box, count: int) -> list[list[Column]]:
    """For every column of answers the best grid point of each region."""
    if count == 0:
        return []
    points = grid_points(model.unknowns, box=box, exchangeable=model.exchangeable)
    label = regions(points, count)
    columns = model.expected([points[:, k] for k in range(model.unknowns)])
    answers = np.stack(model.whiten(columns), axis=1)
    zero = 0.0 * whitened[0]
    starts = []
    for region in np.unique(label):
        best = zero + math.inf
        start = [zero for _ in range(model.unknowns)]
        for i in np.flatnonzero(label == region):
            distance = zero
            for z, p in zip(whitened, answers[i].tolist(), strict=True):
                distance = distance + (z - p) * (z - p)
            closer = distance < best
            best = np.where(closer, distance, best)
            start = [
                np.where(closer, zero + value, old)
                for value, old in zip(points[i].tolist(), start, strict=True)
            ]
        starts.append(start)
    return starts


def wide(model: Model, whitened: Sequence[Column], *, box: Box) -> Iterator[list[Column]]:
    """For every column of answers the best point of each region of the dense grid."""
    z = np.stack(whitened)
    points, ends = _dense_grid(model.unknowns, box, model.exchangeable, _compact(model))
    answers = np.stack(model.whiten(model.expected(list(points.T))))
    squares = np.sum(answers**2, axis=0)
    for begin, end in pairwise(ends):
        # |z - p|² without |z|², which is the same for all points.
        distance = squares[begin:end] - 2.0 * z.T @ answers[:, begin:end]
        best = begin + np.argmin(distance, axis=1)
        yield apart(list(points[best].T), box=box)


def _compact(model: Model) -> bool:
    return any(isinstance(row.curve, SmoothStep) and row.curve.kernel == "compact" for row in model.rows)


@lru_cache(maxsize=8)
def _dense_grid(
    unknowns: int, box: Box, exchangeable: bool, compact: bool
) -> tuple[FloatArray, tuple[int, ...]]:
    """Points in the order of their regions, and where each region ends."""
    most, count = _DENSE_COMPACT if compact else _DENSE
    points = grid_points(unknowns, box=box, exchangeable=exchangeable, most=most, longest=200)
    label = regions(points, count)
    order = np.argsort(label, kind="stable")
    ends = np.searchsorted(label[order], np.arange(int(label.max()) + 2))
    return points[order], tuple(dict.fromkeys(ends.tolist()))


def random_points(model: Objective, *, box: Box, count: int, seed: int) -> FloatArray:
    """Uniform points, the same for every trial, so that an estimate is a function of its answers alone."""
    low, high = box
    points = np.random.default_rng(seed).uniform(low, high, (count, model.unknowns))
    return np.sort(points, axis=1) if model.exchangeable else points


def algebraic(model: Objective, answers: Sequence[Column]) -> list[Column] | None:
    """The values with exactly the answered moments 1, …, m, for up to three values, else ``None``.

    If no real values have them, the real parts of the roots.
    """
    if not isinstance(model, Model):
        return None
    m = model.unknowns
    orders = [row.curve.order if isinstance(row.curve, Power) else 0 for row in model.rows]
    if m > 3 or not (model.exchangeable or m == 1) or not set(range(1, m + 1)) <= set(orders):
        return None
    sums = []
    for order in range(1, m + 1):
        place = orders.index(order)
        sums.append(answers[place] * (1.0 / model.rows[place].weights[0]))
    match m:
        case 1:
            return sums
        case 2:
            return pair_roots(sums[0], sums[1])
        case _:
            return triple_roots(sums[0], sums[1], sums[2])


def pair_roots(p1: Column, p2: Column) -> list[Column]:
    r"""The two values with power sums :math:`p_1, p_2` (``eq:m2_estimator``)."""
    middle = 0.5 * p1
    square = 0.5 * p2 - middle * middle
    half = np.sqrt(np.where(square > 0, square, 0.0 * p1))
    return [middle - half, middle + half]


def triple_roots(p1: Column, p2: Column, p3: Column) -> list[Column]:
    """The three values with given power sums: Newton's identities and a cubic's roots."""
    mean = p1 * (1 / 3)
    # Power sums about the mean: e₁ = 0, e₂ = −s₂/2, e₃ = s₃/3, and the roots of t³ + e₂ t − e₃.
    s2 = p2 - mean * p1
    s3 = p3 - 3.0 * mean * p2 + 2.0 * mean * mean * p1
    return [mean + root for root in depressed_roots(-0.5 * s2, s3 * (1 / 3))]


def apart(start: Sequence[Column], *, box: Box) -> list[Column]:
    """A start with its coordinates moved slightly apart, towards the inside of the box."""
    low, high = box
    m = len(start)
    gap = _APART * (high - low)
    moved = []
    for k, column in enumerate(start):
        inside = np.clip(column, low + gap * k, high - gap * (m - 1 - k))
        moved.append(inside + gap * ((k + 1) / (m + 1) - 0.5))
    return [np.clip(column, low, high) for column in moved]


ALL_ORDERS = 6  # up to so many values all orders are compared
ROUNDS = 3  # of exchanges, for more values
_KEPT = 8  # orders that become starts


def needs_labels(model: Objective) -> TypeGuard[Model]:
    """Whether the releases are of both kinds: symmetric and nonlinear, and over subsets."""
    if not isinstance(model, Model) or model.exchangeable or model.linear:
        return False
    return model.unknowns > 1 and symmetric_part(model) is not None


def symmetric_part(model: Model) -> tuple[Model, list[int]] | None:
    """The rows that do not depend on the order of the unknowns and their places; ``None`` if all of them are
    linear or if their noise is correlated with that of others."""
    places = [i for i, row in enumerate(model.rows) if len(set(row.weights)) == 1]
    if not places or isinstance(model.whitening[0], tuple):
        return None
    part = Model(
        rows=tuple(model.rows[i] for i in places),
        records=model.records,
        whitening=tuple(model.whitening[i] for i in places),
    )
    return None if part.linear else (part, places)


def reordered(model: Model, whitened: Sequence[Column], u: Sequence[Column]) -> list[list[Column]]:
    """For every column of answers the orders of the values u with the smallest objectives."""
    m = len(u)
    count = min(_KEPT, math.factorial(m) - 1 if m <= ALL_ORDERS else math.comb(m, 2))
    zero = 0.0 * u[0]
    kept = [(zero + math.inf, list(u)) for _ in range(count)]
    for order in _orders(m):
        point = [u[k] for k in order]
        objective = zero
        for z, p in zip(whitened, model.whiten(model.expected(point)), strict=True):
            objective = objective + (z - p) * (z - p)
        for i, (best, held) in enumerate(kept):  # insert, and carry on with what was pushed out
            closer = objective < best
            kept[i] = (
                np.where(closer, objective, best),
                [np.where(closer, new, old) for new, old in zip(point, held, strict=True)],
            )
            point = [np.where(closer, old, new) for new, old in zip(point, held, strict=True)]
            objective = np.where(closer, best, objective)
    return [point for _, point in kept]


def _orders(members: int) -> Iterable[Sequence[int]]:
    """All orders but the given one, or all exchanges of two."""
    if members <= ALL_ORDERS:
        return islice(permutations(range(members)), 1, None)
    return (_exchanged(members, a, b) for a, b in combinations(range(members), 2))


def _exchanged(members: int, a: int, b: int) -> list[int]:
    order = list(range(members))
    order[a], order[b] = b, a
    return order
