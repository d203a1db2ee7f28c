r"""Fits that one table of possible people could have given: sums that are not negative, and whole sums.

The unknowns are the sums x of the kinds of people; the published numbers are :math:`A x`. *Not negative* is
:math:`\min_{x \ge 0} \|V^{-1/2}(A x - y)\|^2`, by accelerated projections. Where the sums of some columns
are known (the categories of a secret add up to the people of a kind), x is projected on these simplices.
*Whole* rounds x so that the errors of rounding cancel in the published numbers, column by column, and then
improves single columns. Both give numbers that still add up, because all are sums of the same x.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from sightline.arrays import FloatArray, IndexArray
from sightline.errors import TooMuchWork
from sightline.values import frozen

_OPTIMAL = 1e-10  # of the squared length of the noisy numbers: what a step still gains, at the end
_MOST_STEPS = 50_000
_MOST_SWEEPS = 50


@frozen(slots=False)
class Columns:
    """Published numbers as sums of columns, and columns whose sum is known."""

    rows: Any  # numbers × columns
    group: IndexArray  # of every column; those of one group add up to its total
    totals: (
        FloatArray  # of every group; not a number if it is not known: each column is then a group of its own
    )

    @property
    def free(self) -> Any:
        """The same without the last column of every group with a total, and what these columns add."""
        last = np.zeros(self.rows.shape[1], dtype=np.bool_)
        ends = np.flatnonzero(np.diff(self.group, append=-1))
        known = ~np.isnan(self.totals[self.group[ends]])
        last[ends[known]] = True
        rows = sparse.csc_array(self.rows)
        closing = rows[:, ends]
        others = np.flatnonzero(~last)
        moves = known[np.searchsorted(ends, others)]
        closed_by = sparse.csr_array(
            (moves.astype(np.float64), (np.searchsorted(ends, others), np.arange(others.size))),
            shape=(ends.size, others.size),
        )
        offset = closing[:, known] @ self.totals[self.group[ends[known]]]
        reduced = (rows[:, others] - closing @ closed_by).tocsr()
        reduced.eliminate_zeros()
        return reduced, np.asarray(offset)

    def completed(self, free: FloatArray) -> FloatArray:
        """All columns, from those that are free."""
        ends = np.flatnonzero(np.diff(self.group, append=-1))
        closing = ends[~np.isnan(self.totals[self.group[ends]])]
        columns = np.zeros(self.group.size)
        columns[np.delete(np.arange(columns.size), closing)] = free
        added = np.bincount(self.group, columns, self.totals.size)
        columns[closing] = (self.totals - added)[self.group[closing]]
        return columns

    def projected(self, x: FloatArray) -> FloatArray:
        """The nearest columns that are not negative, with the known totals."""
        known = ~np.isnan(self.totals[self.group])
        nearest = np.maximum(x, 0.0)
        if not known.any():
            return nearest
        ends = np.flatnonzero(np.diff(self.group, append=-1))
        starts = np.append(0, ends[:-1] + 1)
        order = np.lexsort((-x, self.group))
        ordered, size = x[order], ends - starts + 1
        rank = np.arange(x.size) - np.repeat(starts, size) + 1
        sums = np.cumsum(ordered) - np.repeat(np.append(0.0, np.cumsum(ordered)[ends[:-1]]), size)
        total = self.totals[self.group]
        level = (sums - np.where(known, total, 0.0)) / rank
        inside = ordered > level
        count = np.maximum(np.add.reduceat(inside.astype(np.intp), starts), 1)
        shift = np.repeat(level[starts + count - 1], size)
        simplex = np.maximum(x - shift, 0.0)
        return np.asarray(np.where(known, simplex, nearest))


def non_negative(columns: Columns, noisy: FloatArray, variances: FloatArray) -> FloatArray:
    """The columns that are not negative and fit best.

    >>> rows, unknown = sparse.csr_array([[1.0, 0.0], [1.0, 1.0]]), np.full(2, np.nan)
    >>> one = Columns(rows=rows, group=np.arange(2), totals=unknown)
    >>> non_negative(one, np.array([3.0, 1.0]), np.ones(2)).round(6).tolist()
    [2.0, 0.0]
    """
    root = 1 / np.sqrt(variances)
    white = sparse.csr_array(sparse.csr_array(columns.rows).multiply(root[:, None]))
    transposed, right = white.T.tocsr(), root * noisy
    # By Hölder no singular value exceeds the root of the largest sums of a row and of a column.
    steepest = float(abs(white).sum(axis=1).max() * abs(white).sum(axis=0).max())
    x = columns.projected(np.zeros(white.shape[1]))
    ahead, momentum, enough = x, 1.0, _OPTIMAL * float(right @ right)
    for _ in range(_MOST_STEPS):
        gradient = transposed @ (white @ ahead - right)
        stepped = columns.projected(ahead - gradient / steepest)
        change = stepped - x
        if float((ahead - stepped) @ change) > 0:  # the momentum leads uphill: start again from here
            momentum, ahead = 1.0, stepped
        else:
            faster = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
            ahead, momentum = stepped + (momentum - 1) / faster * change, faster
        x = stepped
        if steepest * float(change @ change) <= enough * 1e-3:
            still = columns.projected(x - transposed @ (white @ x - right) / steepest)
            if steepest * float(np.sum(np.square(still - x))) <= enough * 1e-6:
                return x
    raise TooMuchWork(
        f"expected a fit that is not negative within {_MOST_STEPS:,} steps, got none; leave out non_negative"
    )


def whole(
    columns: Columns, start: FloatArray, noisy: FloatArray, variances: FloatArray, *, floor: bool
) -> FloatArray:
    """Whole columns, starting from some that fit; the published numbers stay near the noisy ones.

    With ``floor`` none is below 0.

    >>> rows, unknown = sparse.csr_array([[1.0, 1.0], [1.0, 0.0]]), np.full(2, np.nan)
    >>> one = Columns(rows=rows, group=np.arange(2), totals=unknown)
    >>> whole(one, np.array([1.4, 1.4]), np.array([2.8, 1.4]), np.array([0.01, 1.0]), floor=True).tolist()
    [1.0, 2.0]
    """
    root = 1 / np.sqrt(variances)
    ends = np.flatnonzero(np.diff(columns.group, append=-1))
    closing = ends[
        np.searchsorted(ends, np.arange(columns.group.size))
    ]  # the last column of each one's group
    known = ~np.isnan(columns.totals[columns.group])
    rows = sparse.csc_array(sparse.csr_array(columns.rows).multiply(root[:, None]))
    moved = rows - rows[:, closing] @ sparse.diags_array(known.astype(np.float64))  # what one more changes
    moved = sparse.csc_array(moved)
    square = np.asarray(moved.power(2).sum(axis=0)).ravel()
    x, left = start.copy(), rows @ start - root * noisy
    movable = np.flatnonzero(square > 0)

    def step(k: int, real: bool) -> bool:
        entries_of_k = slice(moved.indptr[k], moved.indptr[k + 1])
        lines, entries = moved.indices[entries_of_k], moved.data[entries_of_k]
        best = np.rint(x[k] - float(left[lines] @ entries) / square[k])
        if floor:
            room = x[closing[k]] if known[k] else np.inf
            best = min(max(best, 0.0), np.floor(x[k] + room + 1e-9))
        change = best - x[k]
        if change == 0 or (
            not real and change * (2 * float(left[lines] @ entries) + change * square[k]) >= -1e-12
        ):
            return False
        x[k] += change
        left[lines] += change * entries
        if known[k]:
            x[closing[k]] -= change
        return True

    for k in movable.tolist():
        step(k, True)
    idle = np.flatnonzero(square == 0)
    fixed = idle[~known[idle]]
    x[fixed] = np.maximum(np.rint(x[fixed]), 0.0) if floor else np.rint(x[fixed])
    for _ in range(_MOST_SWEEPS):
        if not sum(step(k, False) for k in movable.tolist()):
            break
    return np.rint(x)
