r"""Dependencies between rows that partitions of the same records have, found without any elimination.

Take the cells of two partitions as nodes and join two cells that have a record in common. If a connected part
holds all records of its cells of both partitions, the cells of one sum to the cells of the other there:

.. math:: \sum_{k \in \text{part of } P} A_k - \sum_{k \in \text{part of } Q} A_k = 0 .

Where P refines Q, every cell of Q is a part: it is the sum of its own parts. The counts of records are
integers, so each of these dependencies is exact.

A row that is the sum of rows of another partition is *nested*, as all rows are of a GROUP BY that another one
refines. Each of its parts has fewer records, or the same ones and an earlier place, so nested rows can be
taken away all at once and the others still make them. That is a fact about integers: there is no rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from sightline.arrays import FloatArray, IndexArray
from sightline.labeled.incidence.cells import CellIncidence
from sightline.labeled.incidence.pairs import PairsOfSlots, RowPairs
from sightline.labeled.incidence.protocol import Incidence


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Joins:
    """The joins of every two partitions, from the products of their cells."""

    incidence: Incidence
    products: FloatArray
    joins: tuple[_Join, ...]  # none for rows that are no cells of partitions

    @classmethod
    def of(cls, pairs: RowPairs, products: FloatArray) -> Joins:
        """``products`` are those of the rows at the pairs."""
        cells = isinstance(pairs.incidence, CellIncidence)
        joins = tuple(_Join.of(pairs, products, slots) for slots in pairs.slots) if cells else ()
        return cls(incidence=pairs.incidence, products=products, joins=joins)

    def nested_rows(self) -> IndexArray:
        """Rows that are sums of rows of another partition, or are an earlier row again: ascending."""
        starts = getattr(self.incidence, "starts", None)
        nested = np.zeros(self.incidence.row_count, dtype=np.bool_)
        for join in self.joins:
            assert starts is not None
            for partition, cells in zip(join.partitions, join.sums(), strict=True):
                nested[starts[partition] + cells] = True
        return np.flatnonzero(nested)

    def dependencies(self) -> Any:
        """Combinations of rows that vanish, a column each (rows × combinations), as a sparse array.

        Those that follow from others through a third partition are left out; some of the rest may still
        depend on each other.
        """
        incidence, count = self.incidence, self.incidence.row_count
        if not isinstance(incidence, CellIncidence):
            return sparse.csc_array((count, 0))
        kept: list[_Join] = []
        earlier: set[tuple[int, int]] = set()
        partitions = incidence.widths.size
        for join in sorted(self.joins, key=lambda join: -join.parts):
            p, q = join.partitions
            through = any(
                _both(earlier, (p, r), (q, r)) and join.holds(incidence, r)
                for r in range(partitions)
                if r not in (p, q)
            )
            if not through:
                kept.append(join)
            if join.complete:
                earlier.add((p, q))
        empty = np.flatnonzero(self.products[:count] == 0)
        shape = (count, empty.size)
        alone = sparse.csc_array((np.ones(empty.size), (empty, np.arange(empty.size))), shape=shape)
        vectors = (join.vectors(incidence) for join in kept)
        return sparse.csc_array(sparse.hstack([alone, *vectors], format="csc"))


def _both(earlier: set[tuple[int, int]], one: tuple[int, int], other: tuple[int, int]) -> bool:
    return (max(one), min(one)) in earlier and (max(other), min(other)) in earlier


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Join:
    """The connected parts of two partitions' cells."""

    partitions: tuple[int, int]
    width: int  # cells of the first
    parts: int  # those that hold all records of their cells
    complete: bool  # whether all parts do, and there are no empty cells
    label: IndexArray  # the part of each cell of both; -1 if it does not hold all records
    entries: tuple[IndexArray, IndexArray]  # two cells with a record in common

    @classmethod
    def of(cls, pairs: RowPairs, products: FloatArray, slots: PairsOfSlots) -> _Join:
        incidence = pairs.incidence
        assert isinstance(incidence, CellIncidence)
        assert slots.partitions is not None
        p, q = slots.partitions
        width, other = int(incidence.widths[p]), int(incidence.widths[q])
        entries = slice(slots.offset, slots.offset + slots.count)
        shared = products[entries]
        used = shared > 0  # records that the attacker does not know
        own = pairs.first[entries][used] - incidence.starts[p]
        second = pairs.second[entries][used] - incidence.starts[q]
        graph = sparse.coo_array(
            (np.ones(own.size, dtype=np.int8), (own, width + second)), shape=(width + other,) * 2
        )
        from scipy.sparse.csgraph import connected_components  # small audits start without it

        number, label = connected_components(graph, directed=False)
        sizes = np.concatenate(
            [products[s : s + w] for s, w in zip(incidence.starts[[p, q]], (width, other), strict=True)]
        )
        members = np.bincount(label[:width], sizes[:width], number)
        others = np.bincount(label[width:], sizes[width:], number)
        together = np.bincount(label[own], shared[used], number)
        whole = (members == others) & (members == together) & (members > 0)
        renumbered = np.where(whole, np.cumsum(whole) - 1, -1)
        return cls(
            partitions=(p, q),
            width=width,
            parts=int(np.count_nonzero(whole)),
            complete=bool(whole.all()),
            label=renumbered[label].astype(np.intp),
            entries=(own, second),
        )

    def sums(self) -> tuple[IndexArray, IndexArray]:
        """The cells of each partition that are sums of cells of the other; equal cells of the first only."""
        own, other = self.label[: self.width], self.label[self.width :]
        counted = [np.bincount(cells[cells >= 0], minlength=self.parts) for cells in (own, other)]
        alone = [np.append(number == 1, False) for number in counted]
        several = np.append(counted[0] > 1, False)
        return np.flatnonzero(alone[0][own]), np.flatnonzero((alone[1] & several)[other])

    def holds(self, incidence: CellIncidence, other: int) -> bool:
        """Whether every cell of another partition lies within one part: then that partition is a bridge."""
        if not self.complete:
            return False
        part = self.label[: self.width][incidence.table[self.partitions[0]]]
        inside = incidence.table[self.partitions[0]] >= 0
        cells = incidence.table[other]
        if not (inside & (cells >= 0)).all():
            return False
        of_cell = np.zeros(int(incidence.widths[other]), dtype=np.intp)
        of_cell[cells] = part
        return bool(np.array_equal(of_cell[cells], part))

    def vectors(self, incidence: CellIncidence) -> Any:
        """One combination for each part: the cells of one partition less those of the other."""
        p, q = self.partitions
        width = self.width
        rows = np.concatenate(
            [
                incidence.starts[p] + np.arange(width),
                incidence.starts[q] + np.arange(int(incidence.widths[q])),
            ]
        )
        signs = np.where(np.arange(rows.size) < width, 1.0, -1.0)
        inside = self.label >= 0
        return sparse.csc_array(
            (signs[inside], (rows[inside], self.label[inside])), shape=(incidence.row_count, self.parts)
        )
