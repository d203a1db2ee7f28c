r"""Dependencies between rows that partitions of the same records have, found without any elimination.

Take the cells of two partitions as nodes and join two cells that have a record in common. If a connected part
holds all records of its cells of both partitions, the cells of one sum to the cells of the other there:

.. math:: \sum_{k \in \text{part of } P} A_k - \sum_{k \in \text{part of } Q} A_k = 0 .

Where P refines Q, every cell of Q is a part: it is the sum of its own parts. The counts of records are
integers, so each of these dependencies is exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from sightline.arrays import FloatArray, IndexArray
from sightline.labeled.incidence.cells import CellIncidence
from sightline.labeled.incidence.pairs import PairsOfSlots, RowPairs


def dependencies(pairs: RowPairs, products: FloatArray) -> Any:
    """Combinations of rows that vanish, a column each (rows × combinations), as a sparse array.

    ``products`` are those of the rows at the pairs. Those that follow from others through a third partition
    are left out; some of the rest may still depend on each other.
    """
    incidence = pairs.incidence
    count = incidence.row_count
    if not isinstance(incidence, CellIncidence):
        return sparse.csc_array((count, 0))
    joins = [_Join.of(pairs, products, slots) for slots in pairs.slots]
    joins.sort(key=lambda join: -join.parts)
    kept: list[_Join] = []
    earlier: set[tuple[int, int]] = set()
    partitions = incidence.widths.size
    for join in joins:
        p, q = join.partitions
        through = any(
            _both(earlier, (p, r), (q, r)) and join.holds(incidence, r, products)
            for r in range(partitions)
            if r not in (p, q)
        )
        if not through:
            kept.append(join)
        if join.complete:
            earlier.add((p, q))
    empty = np.flatnonzero(products[:count] == 0)
    alone = sparse.csc_array((np.ones(empty.size), (empty, np.arange(empty.size))), shape=(count, empty.size))
    return sparse.csc_array(sparse.hstack([alone, *(join.vectors(incidence) for join in kept)], format="csc"))


def _both(earlier: set[tuple[int, int]], one: tuple[int, int], other: tuple[int, int]) -> bool:
    return (max(one), min(one)) in earlier and (max(other), min(other)) in earlier


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Join:
    """The connected parts of two partitions' cells."""

    partitions: tuple[int, int]
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
            parts=int(np.count_nonzero(whole)),
            complete=bool(whole.all()),
            label=renumbered[label].astype(np.intp),
            entries=(own, second),
        )

    def holds(self, incidence: CellIncidence, other: int, products: FloatArray) -> bool:
        """Whether every cell of another partition lies within one part: then that partition is a bridge."""
        if not self.complete:
            return False
        part = self.label[: int(incidence.widths[self.partitions[0]])][incidence.table[self.partitions[0]]]
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
        width = int(incidence.widths[p])
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
