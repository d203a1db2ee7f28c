"""What a sparse Cholesky factor will look like, before any number is computed.

The order of elimination is SuperLU's minimum degree ordering of the pattern. The rows of each column of the
factor follow by one pass: a column has the rows of its own entries and those of the columns that it is the
parent of. Neighbouring columns with the same rows below them form a *supernode*, which is factorised as one
dense block. The number of entries and of operations is exact, so a caller can choose a method before the
factorisation allocates anything.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from sightline.arrays import IndexArray
from sightline.values import frozen

# Supernodes of up to so many columns are merged into their parents if at most this share of what is then
# stored are zeros: blocks of a few columns cost more to handle than to compute.
_ZEROS = ((4, 0.9), (16, 0.6), (48, 0.2), (math.inf, 0.05))


@frozen(slots=False)
class SymbolicFactor:
    """The pattern of a factor of a symmetric matrix, by supernodes.

    Positions are places in the order of elimination. ``entries`` of the matrix are the stored ones on and
    below the diagonal, in the order in which the caller gave them.
    """

    order: IndexArray  # the matrix's row at each position
    starts: IndexArray  # the first position of each supernode, then the size
    rows: tuple[IndexArray, ...]  # positions below each supernode that it has entries in
    parent: IndexArray  # the supernode that holds the first of these rows; -1 for a root
    within_parent: tuple[IndexArray, ...]  # where its rows are in the parent's own columns and rows
    entries: tuple[IndexArray, ...]  # the matrix's entries in each supernode's columns
    places: tuple[IndexArray, ...]  # where they are in the supernode's panel, row by row
    diagonal: tuple[IndexArray, IndexArray]  # positions, and the entries on the diagonal there

    @property
    def size(self) -> int:
        return int(self.order.size)

    @property
    def supernodes(self) -> int:
        return int(self.starts.size) - 1

    @cached_property
    def widths(self) -> IndexArray:
        """Columns of each supernode."""
        return np.diff(self.starts)

    @cached_property
    def below(self) -> IndexArray:
        """Rows below each supernode."""
        return np.array([rows.size for rows in self.rows], dtype=np.intp)

    @cached_property
    def isolated(self) -> IndexArray:
        """Supernodes of one row that has no entry beside its diagonal: there is nothing to compute."""
        alone = (self.widths == 1) & (self.below == 0)
        alone[self.parent[self.parent >= 0]] = False
        return np.flatnonzero(alone)

    @cached_property
    def linked(self) -> tuple[int, ...]:
        """All other supernodes, children first."""
        return tuple(np.setdiff1d(np.arange(self.supernodes), self.isolated).tolist())

    @cached_property
    def tree_of(self) -> IndexArray:
        """The tree of the elimination that each position is in: rows of two trees never meet."""
        tree = np.arange(self.supernodes)
        for node in range(self.supernodes - 1, -1, -1):
            if self.parent[node] >= 0:
                tree[node] = tree[self.parent[node]]
        return np.repeat(tree, self.widths)

    @property
    def factor_entries(self) -> int:
        """Entries of the factor that are stored."""
        return int(np.sum(self.widths * (self.widths + self.below)))

    @property
    def operations(self) -> float:
        """Multiplications and additions of one factorisation; the selected inverse takes about twice that."""
        widths, below = self.widths.astype(np.float64), self.below.astype(np.float64)
        return float(np.sum(widths**3 / 3 + widths**2 * below + widths * below**2))

    @cached_property
    def downwards(self) -> tuple[int, ...]:
        """The linked supernodes, parents first. The heaviest child is last: its parent's block then goes."""
        weight = ((self.widths + self.below) ** 2).astype(np.float64)
        children: list[list[int]] = [[] for _ in range(self.supernodes)]
        for node, above in enumerate(self.parent.tolist()):
            if above >= 0:
                weight[above] += weight[node]
                children[above].append(node)
        stack = [node for node in self.linked if self.parent[node] < 0]
        visited = []
        while stack:
            node = stack.pop()
            visited.append(node)
            stack.extend(sorted(children[node], key=lambda child: -weight[child]))
        return tuple(visited)

    @cached_property
    def peak_bytes(self) -> int:
        """The memory of a factor, its selected inverse and the blocks that wait at the same time."""
        squares = ((self.widths + self.below) ** 2).tolist()
        updates = (self.below**2).tolist()
        parent = self.parent.tolist()
        waiting = most = 0
        held = [0] * self.supernodes  # by updates of children that wait for this supernode
        for node, above in enumerate(parent):
            most = max(most, waiting + squares[node])
            waiting -= held[node]
            if above >= 0:
                held[above] += updates[node]
                waiting += updates[node]
        to_come = np.bincount(self.parent[self.parent >= 0], minlength=self.supernodes).tolist()
        waiting = 0
        for node in self.downwards:
            most = max(most, waiting + 2 * squares[node])
            above = parent[node]
            waiting += squares[node] if to_come[node] else 0
            if above >= 0:
                to_come[above] -= 1
                waiting -= 0 if to_come[above] else squares[above]
        return np.float64().nbytes * (2 * self.factor_entries + most)


def elimination_order(pattern: Any) -> IndexArray:
    """SuperLU's minimum degree ordering of a symmetric pattern, without a factorisation.

    An incomplete factorisation that drops every entry but the diagonal orders the columns first.
    """
    coordinates = pattern.tocoo()
    diagonal = coordinates.row == coordinates.col
    values = np.where(diagonal, 1.0, 1e-6)
    size = pattern.shape[0]
    weak = sparse.csc_matrix((values, (coordinates.row, coordinates.col)), shape=(size, size))
    from scipy.sparse.linalg import spilu  # small audits start without it

    dropped = spilu(
        weak,
        drop_tol=1.0,
        fill_factor=1.0,
        diag_pivot_thresh=0.0,
        permc_spec="MMD_AT_PLUS_A",
        options={"SymmetricMode": True},
    )
    return np.argsort(dropped.perm_c).astype(np.intp)


def analyse(
    first: IndexArray, second: IndexArray, *, size: int, most_entries: float = np.inf
) -> SymbolicFactor | None:
    """The pattern of the factor of a symmetric matrix with non-zero entries (``first``, ``second``).

    ``None`` if it has more entries than are allowed. Each entry is given once, on one side of the diagonal,
    and every diagonal entry is among them.
    """
    ones = np.ones(first.size, dtype=np.int8)
    half = sparse.coo_array((ones, (first, second)), shape=(size, size))
    order = elimination_order(sparse.csc_array(half) + sparse.csc_array(half.T))
    position = np.empty(size, dtype=np.intp)
    position[order] = np.arange(size)
    column = np.minimum(position[first], position[second])
    row = np.maximum(position[first], position[second])
    by_column = np.lexsort((row, column))
    pointers = np.searchsorted(column[by_column], np.arange(size + 1))
    structure = _column_structure(row[by_column], pointers, most_entries)
    if structure is None:
        return None
    starts, rows, order = _merged_supernodes(*structure, order)
    position[order] = np.arange(size)
    column = np.minimum(position[first], position[second])
    row = np.maximum(position[first], position[second])
    by_column = np.lexsort((row, column))
    pointers = np.searchsorted(column[by_column], np.arange(size + 1))
    widths = np.diff(starts)
    node_of = np.repeat(np.arange(widths.size), widths)
    parent = np.array([node_of[below[0]] if below.size else -1 for below in rows], dtype=np.intp)
    entries, places, within = [], [], []
    for node, below in enumerate(rows):
        start, width = int(starts[node]), int(widths[node])
        chosen = by_column[pointers[start] : pointers[start + width]]
        inside = row[chosen]
        local = np.where(inside < start + width, inside - start, width + np.searchsorted(below, inside))
        entries.append(chosen)
        places.append(local * width + column[chosen] - start)
        above = int(parent[node])
        if above < 0:
            within.append(np.zeros(0, dtype=np.intp))
        else:
            first_own, end = int(starts[above]), int(starts[above + 1])
            among = end - first_own + np.searchsorted(rows[above], below)
            within.append(np.where(below < end, below - first_own, among))
    return SymbolicFactor(
        order=order,
        starts=starts,
        rows=tuple(rows),
        parent=parent,
        within_parent=tuple(within),
        entries=tuple(entries),
        places=tuple(places),
        diagonal=(row[row == column], np.flatnonzero(row == column)),
    )


def _merged_supernodes(
    starts: IndexArray, rows: list[IndexArray], order: IndexArray
) -> tuple[IndexArray, list[IndexArray], IndexArray]:
    """Merge supernodes into their parents where few zeros are stored for that; a new order goes with it.

    The rows below a supernode are among its parent's columns and the rows below those, so a merged supernode
    has the parent's rows. Its columns come just before the parent's own, after all that was eliminated
    before: the pattern of the factor is the same but for the zeros.
    """
    count, size = len(rows), int(starts[-1])
    widths, below = np.diff(starts).tolist(), [own.size for own in rows]
    node_of = np.repeat(np.arange(count), np.diff(starts))
    parent = [int(node_of[own[0]]) if own.size else -1 for own in rows]
    zeros, width = [0] * count, list(widths)  # of the supernode with all that was merged into it
    children: list[list[int]] = [[] for _ in range(count)]
    inside: list[list[int]] = [[node] for node in range(count)]  # those merged, in order
    for node in range(count):
        most_below_first = sorted(children[node], key=lambda child: below[child], reverse=True)
        kept = []
        for child in most_below_first:
            height = width[node] + below[node]
            more = zeros[node] + zeros[child] + width[child] * (height - below[child])
            stored = (width[node] + width[child]) * (height + width[child])
            if more <= _share_of_zeros(width[node] + width[child]) * stored:
                zeros[node], width[node] = more, width[node] + width[child]
                inside[node] = inside[child] + inside[node]
                kept.extend(children[child])
            else:
                kept.append(child)
        children[node] = kept
        if parent[node] >= 0:
            children[parent[node]].append(node)
    heads = []
    stack = [node for node in range(count) if parent[node] < 0]
    while stack:  # parents before children; reversed below
        node = stack.pop()
        heads.append(node)
        stack.extend(children[node])
    heads.reverse()
    before = np.concatenate(
        [np.arange(starts[part], starts[part + 1]) for head in heads for part in inside[head]]
    )
    position = np.empty(size, dtype=np.intp)
    position[before] = np.arange(size)
    merged = [np.sort(position[rows[head]]) for head in heads]
    return np.cumsum([0, *(width[head] for head in heads)]), merged, order[before]


def _share_of_zeros(width: int) -> float:
    """The share of the stored entries of a merged supernode that may be zeros."""
    return next(share for most, share in _ZEROS if width <= most)


def _column_structure(
    row: IndexArray, pointers: IndexArray, most_entries: float
) -> tuple[IndexArray, list[IndexArray]] | None:
    """The starts of the supernodes, and the rows below each; ``None`` if these are too many."""
    size = pointers.size - 1
    children: list[list[IndexArray]] = [[] for _ in range(size)]
    starts: list[int] = []
    rows: list[IndexArray] = []
    before = -1  # how many rows the column before has below it, if this column is its parent
    seen = 0
    for j in range(size):
        parts = children[j]
        children[j] = []
        inside = row[pointers[j] : pointers[j + 1]]
        below = inside[1:] if inside.size and inside[0] == j else inside
        if parts:
            below = np.unique(np.concatenate([below, *parts]))
        seen += below.size + 1
        if seen > most_entries:
            return None
        if before == below.size + 1:
            rows[-1] = below
        else:
            starts.append(j)
            rows.append(below)
        before = -1
        if below.size:
            above = int(below[0])
            children[above].append(below[1:])
            if above == j + 1:
                before = below.size
    return np.array([*starts, size], dtype=np.intp), rows
