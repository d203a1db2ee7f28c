r"""Every linear number as a sum over classes of rows that nothing tells apart, with its noise.

Class u has :math:`n_u` rows that the attacker does not know. A number adds up their values with weights
:math:`A_{cu}`, and has noise :math:`\sigma_c`. A combination :math:`w` of numbers is a sum with the weights
:math:`A^\top w` and the noise :math:`\sqrt{w^\top \Sigma\, w}`.

The signatures of a streamed table stay in the engine. Those of its coarsest releases alone are few: they are
listed as for a table in memory, and their numbers are combined (:mod:`sightline.auditing.homogeneous`).

What the sums tell is found as the nearest point of a box under a linear map:
:math:`\min \|B g\|` over :math:`l \le g \le h`.

Its residual is what matters: a certificate that is evaluated afterwards, so that an answer that is not quite
the least can only miss a group, and never invent one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sightline.arrays import AT_A_TIME, FloatArray, IndexArray
from sightline.auditing.findings import Findings, LinearFindings
from sightline.auditing.lowering import linear_partitions
from sightline.progress import reported
from sightline.tables.membership import Membership, Partition, Statistic
from sightline.values import frozen

# Fetches the sum of the unknown secrets with each signature; for a category a column for each. With a
# partition that asks a yes-or-no question, how many of them answer yes; with a power, the sum of powers.
Totals = Callable[[Partition | None], FloatArray]


@frozen(slots=False)
class KnownSums:
    """Sums over classes of unknown rows; for a category a class for each category of a signature."""

    cells: IndexArray  # the published number that each sum is
    weights: Any  # sums × classes, sparse: the weight of each row's value
    counts: FloatArray  # rows of each class
    shares: FloatArray  # the prior chance of an indicator, of each class; one half for a number
    totals: FloatArray  # the true sum over the rows of each class
    signature: IndexArray  # of each class
    deviation: FloatArray  # standard deviation of the noise on each sum
    copies: IndexArray  # of each number; 0 if it is a recipe of several
    correlation: FloatArray | None = None  # of the noise, if it is not independent

    def __len__(self) -> int:
        return int(self.cells.size)

    @cached_property
    def absolute(self) -> Any:
        """The absolute values of the weights."""
        return abs(self.weights) if (self.weights.data < 0).any() else self.weights

    @cached_property
    def rows(self) -> FloatArray:
        """The rows of each sum, each as often as its weight says."""
        return np.asarray(self.absolute @ self.counts)

    @cached_property
    def whitened(self) -> Any:
        """The weights in units of independent noise: L⁻¹ A, if the noise has the covariance L Lᵀ."""
        scaled = sparse.diags_array(1 / self.deviation) @ self.weights
        if self.correlation is None:
            return sparse.csr_array(scaled)
        return sparse.csr_array(np.linalg.solve(self._factor, scaled.toarray()))

    @cached_property
    def _factor(self) -> FloatArray:
        """L of the correlations, L Lᵀ, up to rounding."""
        assert self.correlation is not None
        shifted = self.correlation + 1e-12 * np.eye(len(self))
        return np.asarray(np.linalg.cholesky(shifted), dtype=np.float64)

    def unwhitened(self, combination: FloatArray) -> FloatArray:
        """The weights on the numbers of a combination of independent ones."""
        if self.correlation is not None:
            combination = np.asarray(np.linalg.solve(self._factor.T, combination), dtype=np.float64)
        return np.asarray(combination / self.deviation)

    def noise(self, combination: FloatArray) -> float:
        """The standard deviation of the noise on a combination of the numbers."""
        scaled = combination * self.deviation
        if self.correlation is None:
            return float(np.linalg.norm(scaled))
        return float(np.sqrt(max(0.0, float(scaled @ self.correlation @ scaled))))


def known_sums(findings: Findings, totals: FloatArray, parts: Sequence[int]) -> list[KnownSums]:
    """The numbers of some linear partitions, if any; ``totals`` are the true sums of every signature and
    column.
    """
    membership, pricing = findings.membership, findings.pricing
    categories, columns_of = findings.plan.data.categories, max(1, len(findings.plan.data.categories))
    unknown = (membership.counts - membership.known).astype(np.float64)
    inside = np.flatnonzero(unknown > 0)
    some = inside if inside.size < unknown.size else slice(None)
    ends, columns, entries = np.zeros(len(membership.cells) + 1, dtype=np.intp), [], []
    for p in parts:  # the classes in each number, one number after the other
        part, cell = membership.partitions[p], membership.signatures[some, p]
        counted = [c for c, name in enumerate(categories) if name in part.categories] if categories else [0]
        own = np.flatnonzero(cell >= 0)
        first, end = membership.starts[p : p + 2]
        if end - first > 1:
            own = own[np.argsort(cell[own], kind="stable")]
        ends[first + 1 : end + 1] = np.bincount(cell[own], minlength=end - first) * len(counted)
        columns.append((own[:, None] * columns_of + np.array(counted, dtype=np.intp)).ravel())
        weighted = p in membership.weights
        own_weights = membership.weights[p][inside[own]] if weighted else np.ones(own.size)
        entries.append(_repeated(own_weights if part.above else -own_weights, len(counted)))
    if not columns:
        return []
    # Noise counts on the sum of a mean's rows, and on the mean of copies.
    owner = pricing.owner
    mean = np.array([part.statistic is Statistic.MEAN for part in membership.partitions])[owner]
    size = np.where(mean, [cell.rows for cell in membership.cells], 1.0)
    stddev = np.maximum(pricing.noise_stddev, pricing.scale * pricing.exact)
    deviation = stddev * size / np.sqrt(pricing.times[owner])
    shape = (len(membership.cells), inside.size * columns_of)
    table = sparse.csr_array((np.concatenate(entries), np.concatenate(columns), np.cumsum(ends)), shape=shape)
    if not table.data.all():
        table.eliminate_zeros()
    # Of numbers that share noise, those about known rows alone tell of the noise.
    sharing = np.isin(owner, list(pricing.strategies)) & np.isin(owner, parts)
    cells = np.flatnonzero((np.diff(table.indptr) > 0) | sharing)
    if not table.nnz:
        return []
    correlation = None
    if sharing.any():
        correlation = pricing.covariance[np.ix_(cells, cells)] / np.outer(stddev[cells], stddev[cells])
    share = findings.prior.share  # of a number it is not used
    # The other numbers have no entries: without them the table is the same one.
    ends = np.append(table.indptr[cells], table.indptr[-1])
    sums = KnownSums(
        cells=cells,
        weights=sparse.csr_array((table.data, table.indices, ends), shape=(cells.size, shape[1])),
        counts=_repeated(unknown[some], columns_of),
        shares=np.broadcast_to(share, shape[1]),
        totals=totals[some].ravel(),
        signature=_repeated(inside, columns_of),
        deviation=deviation[cells],
        copies=pricing.times[owner][cells].astype(np.intp),
        correlation=correlation,
    )
    return [sums]


def _repeated(values: NDArray[Any], times: int) -> NDArray[Any]:
    """Each value so many times; a large table of numbers, which have one column, is not copied."""
    return values if times == 1 else np.repeat(values, times)


def partitions_in_turn(membership: Membership) -> list[list[int]]:
    """All linear partitions, a few at a time."""
    parts, step = linear_partitions(membership), _together(membership)
    return [parts[start : start + step] for start in range(0, len(parts), step)]


def coarsest(membership: Membership) -> list[int]:
    """The partitions with the fewest groups, of so many signatures × partitions that they can be combined."""
    starts = membership.starts
    order = sorted(linear_partitions(membership), key=lambda p: int(starts[p + 1] - starts[p]))
    return sorted(order[: _together(membership)])


def _together(membership: Membership) -> int:
    return max(1, AT_A_TIME // max(1, len(membership.signatures)))


@frozen
class StreamedTotals:
    """Fetches sums of the secrets that the attacker does not know. Owner-only."""

    of_cells: Callable[[], FloatArray]  # of every cell, and how many secrets these are
    of_signatures: Callable[[IndexArray], FloatArray]  # of some listed signatures, by their places
    coarse: Callable[[], list[Membership]]  # the coarsest releases, in memory, with the sums of signatures


def separate_sums(findings: Findings, found: LinearFindings, fetch: StreamedTotals) -> KnownSums:
    """Every number by itself, and the best recipe for each group that nothing tells apart."""
    membership, pricing = findings.membership, findings.pricing
    found = findings.rows_apart if found.linear.by_kind and not findings.one_value else found
    visible = np.flatnonzero(found.visible & (found.counts >= 2))
    if pricing.laplace_answers.any() or findings.one_value:
        visible = visible[:0]
    totals, rows = fetch.of_cells()
    cells = np.flatnonzero(rows > 0)
    owner = pricing.owner[cells]
    mean = np.array([part.statistic is Statistic.MEAN for part in membership.partitions])[owner]
    sizes = np.array([cell.rows for cell in membership.cells], dtype=np.float64)[cells]
    deviation = pricing.noise_stddev[cells] * np.where(mean, sizes, 1.0) / np.sqrt(pricing.times[owner])
    groups = found.linear.first_signatures(visible)
    of_groups = fetch.of_signatures(groups) if groups.size else np.zeros(0)
    size = cells.size + visible.size
    return KnownSums(
        cells=np.concatenate([cells, np.full(visible.size, int(found.linear.cells[0]))]),
        weights=sparse.csr_array(sparse.eye_array(size)),
        counts=np.concatenate([rows[cells], found.counts[visible]]).astype(np.float64),
        shares=np.full(size, findings.prior.share),
        totals=np.concatenate([totals[cells], of_groups]),
        signature=np.arange(size),
        deviation=np.concatenate([deviation, found.group_rmse(visible)]),
        copies=np.concatenate([pricing.times[owner], np.zeros(visible.size)]).astype(np.intp),
    )


def coarse_findings(findings: Findings, coarse: Membership) -> Findings:
    """The findings about the coarsest releases alone, with the noise that they have in the plan."""
    membership, pricing = findings.membership, findings.pricing
    names = {
        (membership.partitions[cell.partition].name, cell.key): place
        for place, cell in enumerate(membership.cells)
    }
    parts = {part.name: place for place, part in enumerate(membership.partitions)}
    cells = np.array([names[coarse.partitions[c.partition].name, c.key] for c in coarse.cells], dtype=np.intp)
    kept = [parts[part.name] for part in coarse.partitions]
    some = replace(
        pricing,
        laws=tuple(pricing.laws[p] for p in kept),
        owner=np.array([cell.partition for cell in coarse.cells], dtype=np.intp),
        sensitivity=pricing.sensitivity[cells],
        parameter=pricing.parameter[cells],
        times=pricing.times[kept],
        row_norms=pricing.row_norms[kept],
        strategies={place: pricing.strategies[p] for place, p in enumerate(kept) if p in pricing.strategies},
    )
    return replace(findings, membership=coarse, pricing=some, made={})


_SMALL = 200_000  # entries of a table that is solved by an exact method
_STEPS = 600  # of the accelerated method, for larger ones
_A_NUMBER = 20  # classes for each number, which nearly always can make up for what the others lack


def nearest_in_box(table: Any, low: FloatArray, high: FloatArray, *, near: float = 0.0) -> FloatArray:
    """The residual B g of the least-squares solution in a box; zero where one at most ``near`` is found.

    >>> B = sparse.csr_array(np.array([[1.0, 1.0]]))
    >>> bool(abs(nearest_in_box(B, np.array([1.0, -5.0]), np.array([2.0, 0.5]))[0]) < 1e-14)
    True
    >>> nearest_in_box(sparse.csr_array(np.array([[1.0, 1.0]])), np.array([1.0, 2.0]), np.array([2.0, 3.0]))
    array([3.])
    """
    start = np.clip(0.0, low, high)
    if not np.any(start):
        return np.zeros(table.shape[0])
    # Rows without a class that must move, and classes that nothing ties to them, do not matter.
    scale = np.sqrt(np.bincount(table.indices, table.data**2, table.shape[1]))
    used = np.flatnonzero(scale)
    if used.size < scale.size:
        table, scale, low, high = table[:, used], scale[used], low[used], high[used]
    low, high = low * scale, high * scale
    small = table.shape[0] * used.size <= _SMALL
    entries = table.data / scale[table.indices]
    scaled = sparse.csr_array((entries, table.indices, table.indptr), shape=table.shape)
    scaled = scaled.toarray() if small else scaled
    step = used.size // (_A_NUMBER * table.shape[0])
    if near > 0 and step > 1 and not small:  # if some classes alone can make up for all, others need not move
        point = np.clip(0.0, low, high)
        point[::step] = 0.0
        some, rest = scaled[:, ::step], scaled @ point
        _, residual = _accelerated(some, some.T.tocsr(), low[::step], high[::step], near=near, rest=rest)
        if float(np.linalg.norm(residual)) <= near:
            return np.zeros(table.shape[0])
    point, residual = _accelerated(scaled, scaled.T if small else scaled.T.tocsr(), low, high, near=near)
    if float(np.linalg.norm(residual)) <= near:
        return np.zeros(table.shape[0])
    return np.asarray(scaled @ _exact(scaled, low, high, point)) if small else residual


def _accelerated(
    table: Any, transposed: Any, low: FloatArray, high: FloatArray, *, near: float, rest: Any = 0.0
) -> tuple[FloatArray, FloatArray]:
    """Projected gradients with momentum, which starts anew where it would go uphill: a point of the box and
    its residual, with the ``rest`` that does not move.
    """
    probe, largest = np.ones(table.shape[1]), 0.0
    for _ in range(20):  # the largest singular value, to within what the margin allows for
        probe = transposed @ (table @ (probe / max(float(np.linalg.norm(probe)), 1e-300)))
        before, largest = largest, float(np.linalg.norm(probe))
        if largest <= 1.0001 * before:
            break
    length = 1 / (1.1 * largest + 1e-300)
    point = np.clip(0.0, low, high)
    residual = table @ point + rest
    ahead, ahead_residual, momentum = point, residual, 1.0
    for _ in reported(range(_STEPS), "looking for groups that are alike"):
        gradient = transposed @ ahead_residual
        new = np.clip(ahead - length * gradient, low, high)
        new_residual, moved = table @ new + rest, new - point
        still = float(np.max(np.abs(moved), initial=0.0)) <= 1e-10 * (
            1 + float(np.max(np.abs(new), initial=0))
        )
        if still or float(np.linalg.norm(new_residual)) <= near:
            return new, new_residual
        if float(gradient @ moved) > 0:
            further, momentum = 0.0, 1.0
        else:
            following = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
            further, momentum = (momentum - 1) / following, following
        ahead, ahead_residual = new + further * moved, new_residual + further * (new_residual - residual)
        point, residual = new, new_residual
    return point, residual


def _exact(dense: FloatArray, low: FloatArray, high: FloatArray, start: FloatArray) -> FloatArray:
    """The same to full precision by an active set: one end is let go at a time, the steepest first.

    Importing scipy.optimize for it would take longer than a small audit.
    """
    point = np.asarray(start.copy())
    free = (point > low) & (point < high)
    waiting = np.zeros_like(free)  # let go in vain: rounding sent them back to where they were
    before = np.inf
    for _ in range(10 * len(point)):
        point, free = _inside(dense, low, high, point, free)
        length = float(np.linalg.norm(dense @ point))
        waiting &= length >= before
        before = length
        gradient = dense.T @ (dense @ point)
        inward = np.where(point <= low, -gradient, gradient)
        inward[free | waiting | (high <= low)] = 0.0
        steepest = int(np.argmax(inward))
        if inward[steepest] <= 1e-13 * length:
            return point
        free[steepest] = waiting[steepest] = True
    return point


def _inside(
    dense: FloatArray, low: FloatArray, high: FloatArray, point: FloatArray, free: NDArray[np.bool_]
) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Least squares over those that are free; one that reaches an end stays there."""
    while free.any():
        step = np.zeros_like(point)
        step[free] = np.linalg.lstsq(dense[:, free], -(dense @ point), rcond=None)[0]
        ends = np.where(step > 0, high, low)
        share = np.divide(ends - point, step, out=np.full_like(point, np.inf), where=step != 0)
        first = int(np.argmin(share))
        if share[first] >= 1:
            return np.asarray(np.clip(point + step, low, high)), free
        point = np.clip(point + max(share[first], 0.0) * step, low, high)
        point[first] = ends[first]
        free[first] = False
    return point, free
