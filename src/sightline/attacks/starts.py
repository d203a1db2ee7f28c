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
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sightline.arrays import FloatArray, IndexArray
from sightline.attacks.inversion import invert_moments
from sightline.attacks.model import Box, Model, Power, SmoothStep

_STEPS = 5  # steps between two checks of which trials are done
_WORTHWHILE = 0.7  # below this share of open trials, continue with those only
_STUCK = 1e12  # above this λ no step can lower the objective further


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
        for _ in range(min(_STEPS, steps)):
            state = advance(model, state, whitened, box)
        steps -= _STEPS
        left = ~state.done
        if np.count_nonzero(left) < _WORTHWHILE * chosen.size or steps <= 0:
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
        done=done | (last & (damping < 1e-2)) | (damping > _STUCK),
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


_GRID, _LONGEST = 140, 23  # about how many grid points are evaluated, and how many on an axis
# Points and regions of the dense grid. A compact step is flat outside its support, and each placement of the
# values on slopes and flat parts can be a separate local minimum.
_DENSE, _DENSE_COMPACT, _LONGEST_DENSE = (5_000, 16), (40_000, 128), 200
# Equal values are moved apart by this share of the box: a tie is a saddle point of the objective.
_APART = 1e-3


def grid_points(
    unknowns: int, *, box: Box, exchangeable: bool, most: int = _GRID, longest: int = _LONGEST
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


def screened(model: Model, whitened: FloatArray, *, box: Box, count: int) -> Iterator[FloatArray]:
    """For every trial's answers the best grid point of each of ``count`` regions."""
    return _best_of_regions(model, whitened, box, (_GRID, count, _LONGEST)) if count else iter(())


def wide(model: Model, whitened: FloatArray, *, box: Box) -> Iterator[FloatArray]:
    """For every trial's answers the best point of each region of the dense grid."""
    compact = any(isinstance(row.curve, SmoothStep) and row.curve.kernel == "compact" for row in model.rows)
    size = (*(_DENSE_COMPACT if compact else _DENSE), _LONGEST_DENSE)
    return (apart(start, box=box) for start in _best_of_regions(model, whitened, box, size))


def _best_of_regions(
    model: Model, whitened: FloatArray, box: Box, size: tuple[int, int, int]
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
    unknowns: int, box: Box, exchangeable: bool, size: tuple[int, int, int]
) -> tuple[FloatArray, tuple[int, ...]]:
    """Points in the order of their regions, one a column, and where each region ends."""
    most, count, longest = size
    points = grid_points(unknowns, box=box, exchangeable=exchangeable, most=most, longest=longest)
    label = regions(points, count)
    order = np.argsort(label, kind="stable")
    ends = np.searchsorted(label[order], np.arange(int(label.max()) + 2))
    return np.ascontiguousarray(points[order].T), tuple(dict.fromkeys(ends.tolist()))


def random_points(model: Model, *, box: Box, count: int, seed: int) -> FloatArray:
    """Uniform points, the same for every trial, so that an estimate is a function of its answers alone."""
    low, high = box
    points = np.random.default_rng(seed).uniform(low, high, (count, model.unknowns))
    return np.sort(points, axis=1) if model.exchangeable else points


def algebraic(model: Model, answers: FloatArray) -> FloatArray | None:
    """The values with exactly the answered moments 1, …, m; ``None`` without these moments.

    If no real values have them, the real parts of the roots.
    """
    if not (model.exchangeable or model.unknowns == 1):
        return None
    orders = [row.curve.order if isinstance(row.curve, Power) else 0 for row in model.rows]
    wanted = range(1, model.unknowns + 1)
    if not set(wanted) <= set(orders):
        return None
    places = [orders.index(order) for order in wanted]
    weights = np.array([model.rows[place].weights[0] for place in places])
    return invert_moments((answers[places] / weights[:, None]).T / model.unknowns)[0].T


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
    return model.unknowns > 1 and symmetric_part(model) is not None


def symmetric_part(model: Model) -> tuple[Model, list[int]] | None:
    """The rows that do not depend on the order of the unknowns and their places; ``None`` if all of them are
    linear or if their noise is correlated with that of others."""
    places = [i for i, row in enumerate(model.rows) if row.symmetric]
    if not places or model.whitening.ndim == 2:
        return None
    rows = tuple(model.rows[i] for i in places)
    part = Model(rows=rows, records=model.records, whitening=model.whitening[places])
    return None if part.linear else (part, places)


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
