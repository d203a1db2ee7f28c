"""Solutions of one sparse system for many right sides, each of which reaches one component of it.

Rows that no chain of shared records connects are in different components: what is solved for in one leaves
the others alone. So right sides of different components are solved for as one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from sightline.arrays import IndexArray
from sightline.numerics.sparse_cholesky import SparseCholesky

# Numbers in the dense blocks of a batch of solutions.
_BATCH = 1 << 23
# Columns of dense blocks that are solved for at most; right sides that would need more are left out.
_MOST_COLUMNS = 20_000
# Weights below this are zero: recipes have denominators of at most 24.
_NOTHING = 1e-6


def batches(count: int, rows: int) -> Iterator[slice]:
    """Slices of as many right sides as are solved for at a time."""
    step = max(1, min(256, _BATCH // max(1, rows)))
    for start in range(0, count, step):
        yield slice(start, min(start + step, count))


def components_of(factor: SparseCholesky, first: IndexArray, second: IndexArray) -> IndexArray:
    """The component of every row over the kept rows, from the pairs of rows with a record in common.

    -1 for dropped rows.
    """
    size = factor.symbolic.size
    kept = np.zeros(size, dtype=np.bool_)
    kept[factor.kept] = True
    joined = kept[first] & kept[second]
    graph = sparse.coo_array(
        (np.ones(np.count_nonzero(joined), dtype=np.int8), (first[joined], second[joined])),
        shape=(size, size),
    )
    from scipy.sparse.csgraph import connected_components  # small audits start without it

    _, component = connected_components(graph, directed=False)
    return np.where(kept, component, -1).astype(np.intp)


def packed_solutions(
    factor: SparseCholesky, component: IndexArray, right: Any
) -> Iterator[tuple[IndexArray, Any]]:
    """Solutions over the kept rows for the columns of a sparse array, as sparse columns, batch by batch.

    With each batch come the places of its columns. Later ones of a component are left out where there are
    too many.
    """
    right = sparse.csc_array(right)
    size, count = right.shape
    target = np.repeat(np.arange(count), np.diff(right.indptr))
    used = component[right.indices] >= 0
    row, target, value = right.indices[used], target[used], right.data[used].astype(np.float64)
    reached = _Reached.of(component[row], target, count)
    for part in batches(min(reached.blocks, _MOST_COLUMNS), size):
        chosen = (reached.block >= part.start) & (reached.block < part.stop)
        within = chosen[target]
        block = np.zeros((size, part.stop - part.start))
        np.add.at(block, (row[within], reached.block[target[within]] - part.start), value[within])
        solved = factor.solve(block)
        line, place = np.nonzero(np.abs(solved) > _NOTHING)
        owner = reached.owner(component[line], place + part.start)
        solutions = sparse.csc_array((solved[line, place], (line, owner)), shape=(size, count))
        yield np.flatnonzero(chosen), solutions[:, chosen]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Reached:
    """Which right sides share a column of the blocks that are solved for: those of different components."""

    block: IndexArray  # the column that each right side is in
    blocks: int
    width: int  # more than the components
    keys: IndexArray  # of the pairs of component and column that are used, ascending
    owners: IndexArray  # the right side of each

    @classmethod
    def of(cls, component: IndexArray, target: IndexArray, count: int) -> _Reached:
        """From the components that each right side has an entry in."""
        width = int(component.max(initial=-1)) + 2
        pairs = np.unique(target * np.intp(width) + component)
        free = [0] * width  # the first column that a component is not yet in
        block = np.zeros(count, dtype=np.intp)
        owner, own = pairs // width, (pairs % width).tolist()
        bounds = np.searchsorted(owner, np.arange(count + 1)).tolist()
        for place in range(count):
            mine = own[bounds[place] : bounds[place + 1]]
            column = max((free[one] for one in mine), default=0)
            for one in mine:
                free[one] = column + 1
            block[place] = column
        keys = block[owner] * width + pairs % width
        order = np.argsort(keys)
        return cls(
            block=block,
            blocks=int(block.max(initial=-1)) + 1,
            width=width,
            keys=keys[order],
            owners=owner[order],
        )

    def owner(self, component: IndexArray, block: IndexArray) -> IndexArray:
        """The right side that each entry of a solution belongs to."""
        found: IndexArray = self.owners[np.searchsorted(self.keys, block * self.width + component)]
        return found
