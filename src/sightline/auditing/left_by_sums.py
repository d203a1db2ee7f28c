"""Sums of a whole release, or of all numbers of one group, whose difference is about a few people.

Day totals of feeders and week totals of tariffs add up to the same, but for the people whom a threshold hid:
no number is about them, and a recipe has hundreds of steps. The difference of two sums says it in one line.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from sightline.arrays import ROUNDING, FloatArray, IndexArray
from sightline.auditing.findings import Findings, LinearFindings
from sightline.auditing.lowering import which_of_release
from sightline.auditing.result_parts import SMALL_GROUP, LeftBySums
from sightline.tables.membership import Statistic
from sightline.values import frozen

_MOST_SUMS = 200  # of numbers, that are compared in pairs
_MOST_DENSE = 20_000_000  # entries of a dense table of all sums
_MOST_ENTRIES = 5_000_000  # of the design: each is added to a sum once for every key column


@frozen(slots=False)
class SumsOfNumbers:
    """The sums that are compared: what each is called, which rows it adds, and what it counts of whom."""

    findings: Findings
    found: LinearFindings
    names: tuple[str, ...]
    rows: tuple[IndexArray, ...]
    counted: Any  # sums × columns of units

    @classmethod
    def of(cls, findings: Findings, found: LinearFindings) -> SumsOfNumbers:
        """The sums over each release, and over each value of its columns but keys; none of a large design."""
        linear = found.linear
        few = not findings.streamed and linear.columns_of_unit == 1 and linear.table.nnz <= _MOST_ENTRIES
        sums = list(_sums(findings, found)) if few else []
        if len(sums) > _MOST_SUMS:
            sums = [one for one in sums if not one[0].count('"') > 2]  # whole releases alone
        sums = sums[:_MOST_SUMS]
        place = np.repeat(np.arange(len(sums)), [rows.size for _, rows in sums])
        rows = np.concatenate([rows for _, rows in sums]) if sums else np.zeros(0, dtype=np.intp)
        weights = _of_sums(findings, found)
        chosen = sparse.csr_array((weights[rows], (place, rows)), shape=(len(sums), linear.row_count))
        counted = chosen
        if sums:
            small = len(sums) * linear.table.shape[1] <= _MOST_DENSE  # a dense product takes a tenth as long
            counted = sparse.csr_array((chosen.toarray() if small else chosen) @ linear.table)
        return cls(
            findings=findings,
            found=found,
            names=tuple(name for name, _ in sums),
            rows=tuple(rows for _, rows in sums),
            counted=counted,
        )

    def about(self, column: int) -> LeftBySums | None:
        """The sum, or the difference of two, that fewest people add something to, this one among them."""
        linear, units = self.found.linear, self.found.linear.units
        if not self.names:
            return None
        own = slice(units.starts[column], units.starts[column + 1])
        best: tuple[int, int, float, int, int] | None = None
        for first, second in self._pairs(own):
            line = self.with_none[[first]]
            left = sparse.csr_array(line - self.with_none[[second]])
            left.data[np.abs(left.data) <= ROUNDING * np.abs(line.data).max()] = 0.0
            left.eliminate_zeros()
            whose, entries = np.unique(self.of_unit[left.indices]), left.data
            people = int(self.found.people[whose].sum())
            if not 0 < people <= SMALL_GROUP or column not in whose or entries[0] < 0:
                continue
            if np.ptp(entries) > ROUNDING * entries[0]:
                continue
            stddev = np.sqrt(linear.design.noise.variance_of(self._weights(first, second)))
            rank = (people, 1 + (second < len(self.names)), float(stddev), first, second)
            best = min(best or rank, rank)
        if best is None:
            return None
        people, terms, stddev, first, second = best
        return LeftBySums(
            added=self.names[first],
            subtracted=self.names[second] if terms > 1 else "",
            numbers=(self.rows[first].size, self.rows[second].size if terms > 1 else 0),
            means=self._means(first, second),
            people=people,
            stddev=stddev,
        )

    @cached_property
    def with_none(self) -> Any:
        """Sums × columns of units, and at the end no sum at all."""
        return sparse.csr_array(sparse.vstack([self.counted, sparse.csr_array((1, self.counted.shape[1]))]))

    @cached_property
    def of_unit(self) -> IndexArray:
        """The unit of every column."""
        starts = self.found.linear.units.starts
        return np.repeat(np.arange(starts.size - 1), np.diff(starts))

    @cached_property
    def _totals(self) -> FloatArray:
        """What every sum counts of all people."""
        return np.asarray(self.with_none @ self.found.people[self.of_unit].astype(np.float64))

    def _pairs(self, own: slice) -> list[tuple[int, int]]:
        """Sums whose difference may be about few people, those with some columns among them.

        It counts as much of each of them, so that the difference of the totals is as much a person.
        """
        counted, totals = self.with_none[:, own].toarray(), self._totals
        most = SMALL_GROUP * int(np.diff(self.found.linear.units.starts).max())
        each = (counted[:-1, None] - counted[None]).max(axis=2)
        apart = totals[:-1, None] - totals
        room = ROUNDING * (np.abs(totals[:-1, None]) + np.abs(totals))
        return list(zip(*np.nonzero((each > 0) & (apart <= most * each + room)), strict=True))

    def _weights(self, first: int, second: int) -> FloatArray:
        weights, plain = np.zeros(self.found.linear.row_count), _of_sums(self.findings, self.found)
        weights[self.rows[first]] = plain[self.rows[first]]
        if second < len(self.rows):
            weights[self.rows[second]] -= plain[self.rows[second]]
        return weights

    def _means(self, first: int, second: int) -> bool:
        """Whether some of the numbers are means: each is taken times the rows behind it."""
        cells, parts = self.findings.membership.cells, self.findings.membership.partitions
        used = self.found.linear.cells[self._weights(first, second) != 0]
        owners = {cells[cell].partition for cell in used.tolist()}
        return any(parts[owner].statistic is Statistic.MEAN for owner in owners)


def _of_sums(findings: Findings, found: LinearFindings) -> FloatArray:
    """The weights on the rows of the design that give the sums behind the numbers."""
    cells, parts = findings.membership.cells, findings.membership.partitions
    sizes = [
        cells[cell].rows if parts[cells[cell].partition].statistic is Statistic.MEAN else 1
        for cell in found.linear.cells.tolist()
    ]
    return np.asarray(np.array(sizes) / np.abs(found.linear.factors))


def _sums(findings: Findings, found: LinearFindings) -> Iterator[tuple[str, IndexArray]]:
    """Sums of at least two numbers each, whole releases first."""
    membership, linear = findings.membership, found.linear
    rows_of: dict[tuple[int, str, str], list[int]] = defaultdict(list)
    for row, cell in enumerate(linear.cells.tolist()):
        one = membership.cells[cell]
        partition = membership.partitions[one.partition]
        rows_of[one.partition, "", ""].append(row)
        if len(partition.key_names) != len(one.key):
            continue
        for place, (name, value) in enumerate(zip(partition.key_names, one.key, strict=True)):
            if place not in findings.key_columns[one.partition]:
                rows_of[one.partition, name, value].append(row)
    for (p, column, value), rows in sorted(rows_of.items(), key=lambda one: bool(one[0][1])):
        partition = membership.partitions[p]
        release = findings.plan.releases[partition.query].name
        group = f"{column} {value}".strip()
        which = ", ".join([*([group] if group else []), *which_of_release(membership, p)])
        if len(rows) > 1 or not column:
            yield f'"{release}{": " * bool(which)}{which}"', np.array(rows, dtype=np.intp)
