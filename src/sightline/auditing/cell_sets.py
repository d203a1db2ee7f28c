"""Sets of signatures that published numbers are about, and which of them lie within which.

A set is one cell of a partition, or all cells of one. It is held by its number: who is in it can be read off
the membership's table, so that sums over many sets are one count for each partition.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sightline.arrays import FloatArray, IndexArray
from sightline.tables.membership import CellTable, Membership

_WHOLE = -1  # in the place of a cell's number: all cells of a partition


class SignatureSets(Protocol):
    """Sets of signatures, each counted once or by weights."""

    def __len__(self) -> int: ...

    def totals(self, values: FloatArray) -> FloatArray:
        """The sums over each set, from signatures × columns to sets × columns."""

    def signatures(self, place: int) -> IndexArray:
        """The signatures of one set."""

    def take(self, places: IndexArray) -> Self:
        """Some of the sets."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WeightedSets:
    """Any sets, as a sparse table of weights."""

    weights: sparse.csr_array  # sets × signatures

    def __len__(self) -> int:
        return int(self.weights.shape[0])

    def totals(self, values: FloatArray) -> FloatArray:
        return np.asarray(self.weights @ values)

    def signatures(self, place: int) -> IndexArray:
        own = slice(int(self.weights.indptr[place]), int(self.weights.indptr[place + 1]))
        return np.asarray(self.weights.indices[own], dtype=np.intp)

    def take(self, places: IndexArray) -> WeightedSets:
        return WeightedSets(weights=self.weights[places])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SignatureRanges:
    """Ranges of signatures in some order: of the steps of running sums, say."""

    ordered: IndexArray
    first: IndexArray  # of each range, its place in the order
    last: IndexArray  # and the place after its last one

    def __len__(self) -> int:
        return int(self.first.size)

    def totals(self, values: FloatArray) -> FloatArray:
        before = np.concatenate([np.zeros((1, values.shape[1])), values[self.ordered].cumsum(axis=0)])
        return np.asarray(before[self.last] - before[self.first])

    def signatures(self, place: int) -> IndexArray:
        return self.ordered[self.first[place] : self.last[place]]

    def take(self, places: IndexArray) -> SignatureRanges:
        return replace(self, first=self.first[places], last=self.last[places])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CellSets:
    """Cells of partitions, or all cells of one: of each the signatures with rows that are unknown."""

    membership: Membership
    partition: IndexArray
    cell: IndexArray  # its number within the partition; -1 for all cells

    def __len__(self) -> int:
        return int(self.cell.size)

    def totals(self, values: FloatArray) -> FloatArray:
        unknown = self.membership.counts > self.membership.known
        counted = values if unknown.all() else np.where(unknown[:, None], values, 0.0)
        found = np.zeros((len(self), values.shape[1]))
        for partition in np.unique(self.partition):
            own = np.flatnonzero(self.partition == partition)
            line = self.membership.signatures[:, partition].astype(np.intp) + 1
            for column in range(values.shape[1]):
                sums = np.bincount(line, counted[:, column], int(self.cell[own].max(initial=0)) + 2)
                sums[0] = sums[1:].sum()  # signatures in no cell give way to all cells together
                found[own, column] = sums[self.cell[own] + 1]
        return found

    def signatures(self, place: int) -> IndexArray:
        number = self.membership.signatures[:, self.partition[place]]
        inside = number >= 0 if self.cell[place] == _WHOLE else number == self.cell[place]
        return np.flatnonzero(inside & (self.membership.counts > self.membership.known))

    def take(self, places: IndexArray) -> CellSets:
        return replace(self, partition=self.partition[places], cell=self.cell[places])

    def with_whole(self, partitions: IndexArray) -> CellSets:
        """The same sets, and after them all cells of some partitions."""
        whole = np.full(partitions.size, _WHOLE)
        return replace(
            self,
            partition=np.concatenate([self.partition, partitions]),
            cell=np.concatenate([self.cell, whole]),
        )

    def nested(self, rows: FloatArray, column: IndexArray) -> tuple[IndexArray, IndexArray]:
        """All pairs of two sets of one column, the second of which lies within the first or is equal to it.

        ``rows`` are the unknown rows of each set, and ``column`` is the same for all sets of a partition. A
        set can only lie within a cell that has each of its signatures. Four of them leave few candidates, and
        of these the rows in both are counted.
        """
        membership = self.membership
        places = np.flatnonzero(membership.counts > membership.known)
        each = (membership.counts - membership.known)[places].astype(np.float64)
        parts = [
            _Part.of(self, int(partition), places, int(column[first]))
            for partition, first in zip(*np.unique(self.partition, return_index=True), strict=True)
        ]
        large, small = [np.zeros(0, dtype=np.intp)], [np.zeros(0, dtype=np.intp)]
        for inner in parts:
            for outer in parts:
                if inner.column != outer.column:
                    continue
                for one, other in _within(outer, inner, each, rows):
                    large.append(one)
                    small.append(other)
        found = np.concatenate(large), np.concatenate(small)
        different = found[0] != found[1]
        return found[0][different], found[1][different]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Part:
    """One partition: the cell of every signature with unknown rows, and the sets that it has."""

    number: CellTable  # -1 for none
    column: int
    places: (
        IndexArray  # the set of each cell, and after these that of all cells together; -1 if not asked for
    )
    some: IndexArray  # for each of them some signatures that it has, -1 if none

    @classmethod
    def of(cls, sets: CellSets, partition: int, unknown: IndexArray, column: int) -> _Part:
        starts = sets.membership.starts
        width = int(starts[partition + 1] - starts[partition])
        own = np.flatnonzero(sets.partition == partition)
        places = np.full(width + 1, -1, dtype=np.intp)
        places[sets.cell[own]] = own  # all cells together are at the end
        number = sets.membership.signatures[unknown, partition]
        inside = np.flatnonzero(number >= 0)
        some = np.full((width + 1, 4), -1, dtype=np.intp)
        if inside.size:
            cells, half = number[inside].astype(np.intp), inside.size // 2
            some[cells] = inside[:, None]  # the last of each cell, and where there are others, these
            some[cells[::-1], 1] = inside[::-1]
            some[cells[:half], 2] = inside[:half]
            some[cells[half:][::-1], 3] = inside[half:][::-1]
            some[width] = inside[[0, half // 2, half, -1]]
        return cls(number=number, column=column, places=places, some=some)

    def rows_where(self, chosen: NDArray[np.bool_], each: FloatArray) -> FloatArray:
        """How many rows of each cell, and of all cells together, are of chosen signatures."""
        sums = np.bincount(self.number.astype(np.intp) + 1, each * chosen, self.places.size)[1:]
        return np.append(sums, sums.sum())


def _within(
    outer: _Part, inner: _Part, each: FloatArray, rows: FloatArray
) -> Iterator[tuple[IndexArray, IndexArray]]:
    """Pairs of a set of one partition and a set of another, or of the same, that lies within it."""
    asked = np.flatnonzero((inner.places >= 0) & (inner.some[:, 0] >= 0))
    seen = outer.number[inner.some[asked]]  # the outer cells of some signatures of each inner set
    if outer.places[-1] >= 0:
        chosen = asked[np.all(seen >= 0, axis=1)]
        inside = outer.number >= 0
        if chosen.size and outer is not inner and not inside.all():
            chosen = chosen[inner.rows_where(inside, each)[chosen] == rows[inner.places[chosen]]]
        yield np.full(chosen.size, outer.places[-1]), inner.places[chosen]
    alike = np.all(seen == seen[:, :1], axis=1) & (seen[:, 0] >= 0)
    alike &= outer.places[seen[:, 0]] >= 0
    if outer is inner:  # its cells are disjoint
        alike &= asked == inner.places.size - 1
    chosen = asked[alike]
    if chosen.size:
        wanted = np.full(inner.places.size, -2)
        wanted[chosen] = seen[alike, 0]
        shared = inner.rows_where(wanted[inner.number] == outer.number, each)
        if wanted[-1] >= 0:  # all cells of the inner partition in one of the outer
            shared[-1] = inner.rows_where(outer.number == wanted[-1], each)[-1]
        chosen = chosen[shared[chosen] == rows[inner.places[chosen]]]
        yield outer.places[wanted[chosen]], inner.places[chosen]
