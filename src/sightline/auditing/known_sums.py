r"""Sums of secrets that an attacker can read off the published numbers, each with its noise.

Every linear number tells the sum of one column of the secret (the value, or one category's indicator) over a
set of rows. Three more kinds of sums follow from them:

- *the same rows again*: numbers about the same rows are averaged with the weights :math:`1/s^2`;
- *all groups of a release*: the sum of its numbers, with the noise :math:`\sqrt{\sum s^2}`;
- *differences*: if the rows of one sum are among those of another, the difference is about the others, with
  the noise :math:`\sqrt{s^2 + t^2}`.

Where numbers share noise, a sum that is :math:`c^\top` times the published numbers has the noise
:math:`\sqrt{c^\top \Sigma\, c}` instead. Of running sums, those over ranges of steps are looked at, too.

The sum over the rows with one signature is one more, with the error of the best unbiased recipe.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sightline.arrays import FloatArray, IndexArray
from sightline.auditing.cell_sets import CellSets, SignatureRanges, SignatureSets, WeightedSets
from sightline.auditing.findings import Findings
from sightline.auditing.lowering import LINEAR, cell_name
from sightline.labeled.row_solver import DenseSolver
from sightline.tables.membership import Feature, Membership, Statistic

# Releases × releases × signatures up to which sums are compared with each other, coarse releases first.
_MOST_PAIRINGS = 5e7
_BLOCK = 2_000  # combinations whose noise is computed at a time


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KnownSums:
    """Sums over sets of unknown rows."""

    members: SignatureSets  # the signatures of each set; weights are over the least weight
    column: IndexArray  # of the secret: 0, or a category's position, or after these a list of categories'
    rows: FloatArray  # unknown rows of each set, times their weights
    deviation: FloatArray  # standard deviation of the noise on each sum
    copies: IndexArray  # of the one published number that it is; 0 if it is made of several
    names: tuple[str, ...]  # what it is read off, for people
    cells: IndexArray  # the first published number that it is read off
    weighted: bool = False  # whether members are weights
    reflected: FloatArray | None = None  # added: a value x with a negative weight counts as low + high - x
    combination: sparse.csr_array | None = None  # sums × cells: c of each sum, where numbers share noise

    def __len__(self) -> int:
        return len(self.names)

    def totals(self, sums: FloatArray) -> FloatArray:
        """The true sums, from those of every signature and column."""
        found = self.members.totals(sums)[np.arange(len(self)), self.column]
        return np.asarray(found if self.reflected is None else found + self.reflected, dtype=np.float64)

    def signatures(self, place: int) -> IndexArray:
        """The signatures of one sum."""
        return self.members.signatures(place)

    def take(self, places: IndexArray) -> KnownSums:
        """Some of the sums."""
        if np.array_equal(places, np.arange(len(self))):
            return self
        return replace(
            self,
            members=self.members.take(places),
            column=self.column[places],
            rows=self.rows[places],
            deviation=self.deviation[places],
            copies=self.copies[places],
            names=tuple(self.names[place] for place in places),
            cells=self.cells[places],
            combination=None if self.combination is None else self.combination[places],
        )


def published_sums(findings: Findings, partitions: Sequence[int]) -> KnownSums:
    """One sum for each number of some partitions that has unknown rows."""
    membership, pricing = findings.membership, findings.pricing
    starts, cells = membership.starts, _cells_of(membership, partitions)
    owner = pricing.owner[cells]
    members = CellSets(membership=membership, partition=owner, cell=cells - starts[owner])
    rows = members.totals(unknown_rows(membership)[:, None])[:, 0]
    column = np.repeat(
        [_column(findings, p) for p in partitions], [starts[p + 1] - starts[p] for p in partitions]
    )
    chosen = np.flatnonzero((rows > 0) & (column >= 0))
    cells, owner = cells[chosen], owner[chosen]
    size = np.array([_factor(membership, int(c)) for c in cells])
    combination = None
    if pricing.strategies:
        places = np.arange(cells.size), cells
        combination = sparse.csr_array((size, places), shape=(cells.size, len(membership.cells)))
    return KnownSums(
        members=members.take(chosen),
        column=column[chosen].astype(np.intp),
        rows=rows[chosen],
        deviation=np.maximum(pricing.noise_stddev, pricing.scale * pricing.exact)[cells]
        * size
        / np.sqrt(pricing.times[owner]),
        copies=np.asarray(pricing.times[owner], dtype=np.intp),
        names=tuple(f'"{cell_name(membership, int(c))}"' for c in cells),
        cells=cells,
        combination=combination,
    )


def _cells_of(membership: Membership, partitions: Sequence[int]) -> IndexArray:
    """The cells of some partitions, partition after partition."""
    starts = membership.starts
    return np.concatenate([np.zeros(0, np.intp), *(np.arange(starts[p], starts[p + 1]) for p in partitions)])


def weighted_sums(findings: Findings) -> KnownSums | None:
    """One sum for each number whose rows have weights, over the least absolute weight; none if there is none.

    The rows' values count by their weights: the sum is at its least if and only if all values are. A value
    with a negative weight is reflected: that of low + high - x is positive.
    """
    weighted = [p for p in _filled_linear(findings) if findings.membership.partitions[p].weighted]
    if not weighted:
        return None
    sums = published_sums(findings, weighted)
    table = findings.membership.weights
    assert table is not None  # some partition is weighted
    owner = np.array([findings.membership.cells[c].partition for c in sums.cells], dtype=np.intp)
    members = _members_of_cells(findings.membership, weighted)
    weights = members[np.searchsorted(_cells_of(findings.membership, weighted), sums.cells)]
    weights.data = table[weights.indices, np.repeat(owner, np.diff(weights.indptr))]
    weights.eliminate_zeros()  # a mean also divides by rows of weight 0
    counted = np.flatnonzero(np.diff(weights.indptr))
    sums, weights = sums.take(counted), weights[counted]
    line = np.repeat(np.arange(len(sums)), np.diff(weights.indptr))
    least = np.full(len(sums), np.inf)
    np.minimum.at(least, line, np.abs(weights.data))
    weights.data = weights.data / least[line]
    unknown, (low, high) = unknown_rows(findings.membership), findings.prior.bounds
    return replace(
        sums,
        members=WeightedSets(weights=weights),
        rows=np.asarray(abs(weights) @ unknown),
        deviation=sums.deviation / least,
        weighted=True,
        reflected=np.asarray(-weights.minimum(0) @ unknown) * (low + high),
    )


def _members_of_cells(membership: Membership, partitions: Sequence[int]) -> sparse.csr_array:
    """The signatures with unknown rows in every cell of some partitions, as a sparse table of ones."""
    unknown = membership.counts > membership.known
    members, sizes = [np.zeros(0, dtype=np.intp)], [np.zeros(1, dtype=np.intp)]
    for p in partitions:
        number = membership.signatures[:, p]
        inside = np.flatnonzero((number >= 0) & unknown)
        own = number[inside]
        members.append(inside[np.argsort(own, kind="stable")])
        sizes.append(np.bincount(own, minlength=int(membership.starts[p + 1] - membership.starts[p])))
    indices, ends = np.concatenate(members), np.cumsum(np.concatenate(sizes))
    shape = (ends.size - 1, len(membership.signatures))
    return sparse.csr_array((np.ones(indices.size), indices, ends), shape=shape)


def category_lists(findings: Findings) -> tuple[tuple[str, ...], ...]:
    """The lists of several categories that some number counts together."""
    found = {p.parameter for p in findings.membership.partitions if isinstance(p.parameter, tuple)}
    return tuple(sorted(found))


def with_lists(findings: Findings, sums: FloatArray) -> FloatArray:
    """The sums of every signature and category, and after these of every list of categories."""
    categories = findings.plan.data.categories or ()
    more = [
        sums[:, [categories.index(name) for name in names]].sum(axis=1) for names in category_lists(findings)
    ]
    return np.column_stack([sums, *more]) if more else sums


def column_shares(findings: Findings, column: IndexArray) -> FloatArray:
    """The prior chance of an indicator of some columns: p, or that of a list of categories."""
    prior = findings.prior
    sizes = np.ones(len(findings.plan.data.categories or (None,)))
    lists = [len(names) for names in category_lists(findings)]
    found: FloatArray = prior.share * np.concatenate([sizes, lists])[column]
    return found


def comparable_sums(
    findings: Findings, published: KnownSums
) -> tuple[KnownSums, tuple[IndexArray, IndexArray]]:
    """The sums whose differences are looked at: published ones and whole releases, equal sets of rows merged.

    With all pairs of sums of one column, where the first is over the rows of the second and at least two
    more. Where two of them share noise, they share it with the same sign, so that no difference has more
    noise than if they were independent.
    """
    sums = _with_whole_releases(findings, published)
    assert isinstance(sums.members, CellSets)  # published numbers are cells
    large, small = sums.members.nested(sums.rows, sums.column)
    same = sums.rows[large] == sums.rows[small]
    group = np.arange(len(sums))
    np.minimum.at(group, small[same], large[same])
    merged, place = _merged(sums, group)
    more = sums.rows[large] > sums.rows[small] + 1
    pairs = np.unique(place[large[more]] * np.intp(len(merged)) + place[small[more]])
    if merged.combination is not None:
        merged = replace(merged, deviation=noise_of(findings, merged.combination))
    return merged, (pairs // max(1, len(merged)), pairs % max(1, len(merged)))


def noise_of(findings: Findings, combinations: sparse.csr_array) -> FloatArray:
    """The standard deviation of the noise on combinations of the cells, where numbers share noise."""
    pricing, variances = findings.pricing, [np.zeros(0)]
    scaled = combinations @ sparse.diags_array(1 / np.sqrt(pricing.times[pricing.owner]))
    for first in range(0, scaled.shape[0], _BLOCK):
        some = sparse.csr_array(scaled[first : first + _BLOCK])
        variances.append(np.asarray(some.multiply(some @ pricing.covariance).sum(axis=1)).ravel())
    return np.sqrt(np.maximum(np.concatenate(variances), np.finfo(np.float64).tiny))


def step_sums(findings: Findings) -> KnownSums | None:
    """Sums over ranges of the steps of running sums: published ones from the first step, and differences.

    The lengths of the others are powers of two and three times these. An attacker knows that nobody is in a
    step, which tells of the noise: the error is that of the best unbiased combination.
    """
    found, membership = findings.linear, findings.membership
    blocks = [(cells, one) for cells, one in findings.pricing.steps() if one.running]
    if found is None or not blocks or not isinstance(found.exposure.solver, DenseSolver):
        return None
    solver, row_of = found.exposure.solver, np.full(len(membership.cells), -1, dtype=np.intp)
    row_of[found.linear.cells] = np.arange(found.linear.row_count)
    kept = np.full(found.linear.row_count, -1, dtype=np.intp)
    kept[solver.independent.rows] = np.arange(solver.rank)
    covariance, _ = solver.reduced(found.linear.design.noise.variance)
    ordered = [np.zeros(0, dtype=np.intp)]
    parts: list[tuple[NDArray[Any], ...]] = []
    unknown, placed = np.append(unknown_rows(membership), 0.0), 0
    for cells, strategy in blocks:
        partition = int(findings.pricing.owner[cells[0]])
        start, stop = _ranges(strategy.steps)
        inside = np.flatnonzero(kept[row_of[cells]] >= 0)  # steps that tell something of an unknown row
        live = kept[row_of[cells[inside]]]
        noise = np.zeros((strategy.steps + 1, strategy.steps + 1))
        noise[np.ix_(inside + 1, inside + 1)] = covariance[np.ix_(live, live)]
        noise = noise.cumsum(axis=0).cumsum(axis=1)
        variance = noise[stop, stop] + noise[start, start] - 2 * noise[start, stop]
        order, ends = _by_step(membership, partition, cells)
        before = np.concatenate([[0.0], np.cumsum(unknown[order])])
        rows = before[ends[stop]] - before[ends[start]]
        told = np.flatnonzero((rows > 0) & (variance > 0))
        first, last = ends[start[told]] + placed, ends[stop[told]] + placed
        column = np.full(told.size, _column(findings, partition))
        parts.append((rows[told], variance[told], column, cells[stop[told] - 1], start[told], first, last))
        ordered.append(order)
        placed += order.size
    rows, variance, column, last_cell, skipped, first, last = (
        np.concatenate(one) for one in zip(*parts, strict=True)
    )
    if not rows.size or column.min() < 0:
        return None
    names = (
        f'"{cell_name(membership, cell)}"' + f" less the sum of the first {steps:,} steps" * (steps > 0)
        for cell, steps in zip(last_cell.tolist(), skipped.tolist(), strict=True)
    )
    return KnownSums(
        members=SignatureRanges(ordered=np.concatenate(ordered), first=first, last=last),
        column=column,
        rows=rows,
        deviation=np.sqrt(variance),
        copies=np.zeros(rows.size, dtype=np.intp),
        names=tuple(names),
        cells=last_cell,
    )


def _ranges(steps: int) -> tuple[IndexArray, IndexArray]:
    """Where each range starts and stops: all ranges from the first step, and those of some lengths."""
    powers = 2 ** np.arange(steps.bit_length())
    lengths = np.unique(np.concatenate([powers, 3 * powers]))
    lengths = lengths[lengths < steps]
    starts = [np.zeros(steps, dtype=np.intp), *(np.arange(1, steps + 1 - one) for one in lengths.tolist())]
    stops = [np.arange(1, steps + 1), *(np.arange(1 + one, steps + 1) for one in lengths.tolist())]
    return np.concatenate(starts), np.concatenate(stops)


def _by_step(membership: Membership, partition: int, cells: IndexArray) -> tuple[IndexArray, IndexArray]:
    """The signatures with unknown rows in some steps, in their order; and where each step starts."""
    step = membership.signatures[:, partition].astype(np.intp) - (
        int(cells[0]) - membership.starts[partition]
    )
    inside = np.flatnonzero((membership.counts > membership.known) & (step >= 0) & (step < cells.size))
    order = inside[np.argsort(step[inside], kind="stable")]
    return order, np.searchsorted(step[order], np.arange(cells.size + 1))


def linear_partitions(findings: Findings) -> list[int]:
    """The partitions with cells that are sums of the secret, without weights."""
    return [p for p in _filled_linear(findings) if not findings.membership.partitions[p].weighted]


def _filled_linear(findings: Findings) -> list[int]:
    membership = findings.membership
    filled = {cell.partition for cell in membership.cells}
    return [p for p in sorted(filled) if membership.partitions[p].feature in LINEAR]


def unknown_rows(membership: Membership) -> FloatArray:
    """The rows of every signature that the attacker does not know."""
    return np.asarray(membership.counts - membership.known, dtype=np.float64)


def _factor(membership: Membership, cell: int) -> float:
    """What a published number is multiplied by to give a sum."""
    found = membership.cells[cell]
    mean = membership.partitions[found.partition].statistic is Statistic.MEAN
    return float(found.rows) if mean else 1.0


def _column(findings: Findings, partition: int) -> int:
    """The column of the secret that a partition adds up; -1 for a category that the plan does not declare."""
    part, categories = findings.membership.partitions[partition], findings.plan.data.categories
    if part.feature is not Feature.INDICATOR:
        return 0
    if isinstance(part.parameter, tuple):
        return len(categories or ()) + category_lists(findings).index(part.parameter)
    return categories.index(str(part.parameter)) if categories and part.parameter in categories else -1


def coarse_partitions(findings: Findings) -> tuple[int, ...]:
    """The linear partitions with the fewest groups, as many as can be compared with each other."""
    starts, partitions = findings.membership.starts, linear_partitions(findings)
    most = int(math.sqrt(_MOST_PAIRINGS / max(1, len(findings.membership.signatures))))
    return tuple(sorted(sorted(partitions, key=lambda p: int(starts[p + 1] - starts[p]))[:most]))


def _with_whole_releases(findings: Findings, published: KnownSums) -> KnownSums:
    """The published sums, and for each partition with several groups the sum over all of them."""
    members, combination = published.members, published.combination
    assert isinstance(members, CellSets)  # published numbers are cells
    partitions, first, place, counts = np.unique(
        members.partition, return_index=True, return_inverse=True, return_counts=True
    )
    several = np.flatnonzero(counts > 1)
    if combination is not None:
        places = np.arange(len(published)), np.searchsorted(several, place)
        inside = np.isin(place, several)
        shape = (several.size, len(published))
        whole = sparse.csr_array((np.ones(inside.sum()), (places[1][inside], places[0][inside])), shape=shape)
        combination = sparse.csr_array(sparse.vstack([combination, whole @ combination]))
    names = [findings.membership.partitions[partitions[one]].name for one in several]
    variances = np.bincount(place, np.square(published.deviation), partitions.size)[several]
    return KnownSums(
        members=members.with_whole(partitions[several]),
        column=np.concatenate([published.column, published.column[first[several]]]),
        rows=np.concatenate([published.rows, np.bincount(place, published.rows, partitions.size)[several]]),
        deviation=np.concatenate([published.deviation, np.sqrt(variances)]),
        copies=np.concatenate([published.copies, np.zeros(several.size, dtype=np.intp)]),
        names=(*published.names, *(f'all groups of "{name}" together' for name in names)),
        cells=np.concatenate([published.cells, published.cells[first[several]]]),
        combination=combination,
    )


def _merged(sums: KnownSums, same: IndexArray) -> tuple[KnownSums, IndexArray]:
    """Sums of the same column over the same rows as one, with the noise of their weighted mean.

    ``same`` has for every sum the first one over the same rows. With the place of every sum among the merged.
    """
    _, first, group = np.unique(same, return_index=True, return_inverse=True)
    group = group.ravel()
    number = np.bincount(group)
    precision = np.bincount(group, sums.deviation**-2.0)
    merged = sums.take(first)
    combination = None
    if sums.combination is not None:
        shares = sums.deviation**-2.0 / precision[group]
        places = group, np.arange(len(sums))
        averages = sparse.csr_array((shares, places), shape=(len(first), len(sums)))
        combination = sparse.csr_array(averages @ sums.combination)
    several = tuple(
        name if count == 1 else f"{name} and {count - 1} more about the same rows, averaged,"
        for name, count in zip(merged.names, number.tolist(), strict=True)
    )
    merged = replace(
        merged,
        deviation=1 / np.sqrt(precision),
        copies=np.where(number == 1, merged.copies, 0),
        names=several,
        combination=combination,
    )
    return merged, group


def signature_sums(findings: Findings) -> KnownSums | None:
    """The sums over all rows with one signature, with the error of the best unbiased recipe for each."""
    found = findings.linear
    persons = findings.membership.persons is not None
    if found is None or (persons and findings.one_value) or findings.pricing.laplace_answers.any():
        return None
    found = findings.rows_apart if persons else found
    linear, k = found.linear, found.linear.columns_of_unit
    columns = np.flatnonzero(found.visible & (found.counts >= 2))
    if not columns.size:
        return None
    categories = findings.plan.data.categories or ()
    # Of every signature the columns of its unit: lines of a table with a column for each signature.
    line = np.full(found.counts.size + k, -1, dtype=np.intp)  # after the columns, those of known signatures
    line[columns] = np.arange(columns.size)
    unit = np.where(linear.unit_of_record >= 0, linear.unit_of_record, len(found.people))
    lines = line[unit[:, None] * k + np.arange(k)]
    signature, own = np.nonzero(lines >= 0)
    shape = (columns.size, len(findings.membership.signatures))
    entries = (lines[signature, own], signature)
    members = sparse.csr_array((np.ones(signature.size), entries), shape=shape)
    kinds = [linear.category(int(column)) for column in columns]
    # What exact numbers give away has no error: it counts as the least noise.
    least = float(findings.pricing.scale.min()) if findings.pricing.exact.any() else 0.0
    return KnownSums(
        members=WeightedSets(weights=members),
        column=np.array([0 if kind is None else categories.index(kind) for kind in kinds], dtype=np.intp),
        rows=np.asarray(members @ unknown_rows(findings.membership)),
        deviation=np.maximum(found.group_rmse(columns), least),
        copies=np.zeros(columns.size, dtype=np.intp),
        names=("the best recipe for rows that nothing tells apart",) * columns.size,
        cells=np.full(columns.size, int(linear.cells[0]), dtype=np.intp),
    )
