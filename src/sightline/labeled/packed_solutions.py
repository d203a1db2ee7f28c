"""Solutions of one sparse system for many right sides, each of which reaches one component of it.

Rows that no chain of shared records connects are in different components: what is solved for in one leaves
the others alone. So right sides of different components are solved for as one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from sightline.arrays import FloatArray, IndexArray
from sightline.numerics.sparse_cholesky import SparseCholesky

# Numbers in the dense blocks of a batch of solutions.
_BATCH = 1 << 23
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
    _, component = connected_components(graph, directed=False)
    return np.where(kept, component, -1).astype(np.intp)


def packed_solutions(factor: SparseCholesky, component: IndexArray, right: Any) -> Iterator[tuple[Any, Any]]:
    """Solutions over the kept rows for the columns of a sparse array, as sparse columns, batch by batch.

    With each batch come the places of its columns. The kept rows of a column are all in one component.
    """
    right = sparse.csc_array(right)
    size, count = right.shape
    target = np.repeat(np.arange(count), np.diff(right.indptr))
    used = component[right.indices] >= 0
    row, target, value = right.indices[used], target[used], right.data[used].astype(np.float64)
    own = np.full(count, -1, dtype=np.intp)
    own[target] = component[row]
    # The columns of one component get one place after the other.
    order = np.argsort(own, kind="stable")
    starts = np.searchsorted(own[order], np.arange(-1, int(component.max(initial=-1)) + 2))
    place = np.empty(count, dtype=np.intp)
    place[order] = np.arange(count) - starts[own[order] + 1]
    place[own < 0] = 0
    for part in batches(int(place.max(initial=-1)) + 1, size):
        chosen = (place >= part.start) & (place < part.stop)
        within = chosen[target]
        block = np.zeros((size, part.stop - part.start))
        np.add.at(block, (row[within], place[target[within]] - part.start), value[within])
        solved = factor.solve(block)
        yield np.flatnonzero(chosen), _unpacked(solved, component, order, starts, part)[:, chosen]


def _unpacked(
    solved: FloatArray, component: IndexArray, order: IndexArray, starts: IndexArray, part: slice
) -> Any:
    """The entries of each right side's own component, as sparse columns over all right sides."""
    row, place = np.nonzero(np.abs(solved) > _NOTHING)
    values = solved[row, place]
    at = starts[component[row] + 1] + place + part.start
    inside = at < starts[component[row] + 2]
    shape = (len(solved), order.size)
    return sparse.csc_array((values[inside], (row[inside], order[at[inside]])), shape=shape)
