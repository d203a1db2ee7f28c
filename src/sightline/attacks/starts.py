"""The starts of a non-convex search: the algebraic inverse, good points of a grid, a few random points.

The grid is divided into regions around points that are far apart, and the best grid point of every region is
a start. So the starts depend on the answers, and every part of the box has one. A second, dense grid has more
points and more regions, for answers whose optimum is not certified after the first search.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import combinations_with_replacement, pairwise, product

import numpy as np

from sightline.arrays import FloatArray, IndexArray, like, namespace, to_numpy
from sightline.attacks.cubic import depressed_roots
from sightline.attacks.curves import Power, SmoothStep
from sightline.attacks.model import Model, Objective
from sightline.attacks.namespace import Box, Column

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
    xp = namespace(whitened[0])
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
            best = xp.where(closer, distance, best)
            start = [
                xp.where(closer, zero + value, old)
                for value, old in zip(points[i].tolist(), start, strict=True)
            ]
        starts.append(start)
    return starts


def wide(model: Model, whitened: Sequence[Column], *, box: Box) -> Iterator[list[Column]]:
    """For every column of answers the best point of each region of the dense grid."""
    z = np.stack([to_numpy(column) for column in whitened])
    points, ends = _dense_grid(model.unknowns, box, model.exchangeable, _compact(model))
    answers = np.stack(model.whiten(model.expected(list(points.T))))
    squares = np.sum(answers**2, axis=0)
    for begin, end in pairwise(ends):
        # |z - p|² without |z|², which is the same for all points.
        distance = squares[begin:end] - 2.0 * z.T @ answers[:, begin:end]
        best = begin + np.argmin(distance, axis=1)
        yield apart([like(whitened[0], column) for column in points[best].T], box=box)


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
    xp = namespace(p1)
    middle = 0.5 * p1
    square = 0.5 * p2 - middle * middle
    half = xp.sqrt(xp.where(square > 0, square, 0.0 * p1))
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
    xp = namespace(start[0])
    low, high = box
    m = len(start)
    gap = _APART * (high - low)
    moved = []
    for k, column in enumerate(start):
        inside = xp.clip(column, low + gap * k, high - gap * (m - 1 - k))
        moved.append(inside + gap * ((k + 1) / (m + 1) - 0.5))
    return [xp.clip(column, low, high) for column in moved]
