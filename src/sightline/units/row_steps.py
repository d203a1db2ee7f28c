r"""Rows of 0s and 1s as steps from other rows: nested ones differ from their neighbours in few columns.

Every row but the first ones has a parent, and :math:`a' = Ua` are the differences :math:`a'_i = a_i -
a_{\text{parent}(i)}`. They give the column back, :math:`a = Ta'`, with :math:`T_{ik} = 1` where k is i or
above it. A column that is in 500 of 1,000 nested rows has one step. So products of rows and quadratic forms
cost a few look-ups for each column:

.. math:: \sum_u n_u a a^\top = T \Big(\sum_u n_u a' a'^\top\Big) T^\top, \qquad
    a^\top Y a = a'^\top (T^\top Y T)\, a'.

*Products* are exact: sums along a path down the tree are products with a row above, whole numbers no larger
than the sum of all counts.

*Forms.* Let :math:`r_i` be the sum of :math:`\sqrt{Y_{kk}}` over row i and all below it. An entry of
:math:`T^\top Y T` is a sum of entries of Y whose absolute values add up to at most :math:`r_i r_j`. It is
made by a sum over rows and one over columns, each of at most n terms, so that its rounding is at most
:math:`\gamma_{2n} r_i r_j`. That of a form is at most :math:`\gamma\, (\sum_i |a'_i| r_i)^2`: as of the
columns themselves (:class:`~sightline.units.row_forms.RowForm`), with r in place of the roots of the
diagonal and 2n more roundings.

Which rows are parents does not matter for the truth of this. It is found from some of the columns: a tree
over the rows with the fewest steps in all.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sightline.arrays import FloatArray, IndexArray
from sightline.units.unit_block import UnitBlock
from sightline.values import frozen

_LOOKED_AT = 4_096  # columns by which parents are chosen: of a thousand rows, 0.1 s
_FORMS = 3  # that one pass asks for
_SPREAD = 4  # times the entries of a column, that rows below its steps may have: rounding grows by the square


@frozen(slots=False)
class RowSteps:
    """The tree, and the steps of every column."""

    order: IndexArray  # of the rows: every parent comes before its children
    parent: IndexArray  # of every row; the number of rows for none
    rows: NDArray[np.int32]  # columns × steps of a column: at which row; the number of rows for none
    signs: NDArray[np.int8]  # of the same shape: into the row or out of it

    @classmethod
    def of(cls, table: NDArray[Any]) -> RowSteps | None:
        """``None`` where columns have so many steps that products of the table itself cost less."""
        numbers, columns = table.shape
        some = np.linspace(0, columns - 1, min(columns, _LOOKED_AT)).astype(np.intp)
        order, parent = _tree(table[:, some])
        if not _few(_steps(table[:, some], parent)[1], numbers):
            return None
        row, column = _steps(table, parent)
        if not _few(column, numbers):
            return None
        each = np.bincount(column, minlength=columns)
        by_column = np.argsort(column, kind="stable")
        row, column = row[by_column], column[by_column]
        slot = np.arange(column.size) - np.repeat(np.cumsum(each) - each, each)
        shape = columns, max(1, int(each.max(initial=0)))
        rows, signs = np.full(shape, numbers, dtype=np.int32), np.zeros(shape, dtype=np.int8)
        rows[column, slot], signs[column, slot] = row, np.where(table[row, column], 1, -1)
        steps = cls(order=order, parent=parent, rows=rows, signs=signs)
        below = steps.below(np.append(np.ones(numbers), 0.0))[rows]
        entries = (below * signs).sum(axis=1)
        spread = (below * np.abs(signs)).sum(axis=1)
        return steps if spread.max(initial=0.0) <= _SPREAD * entries.max(initial=0.0) else None

    def below(self, of_rows: FloatArray) -> FloatArray:
        """Tᵀ of a vector or a matrix over rows, with a last zero: the sum over each row and all below it."""
        below = of_rows.copy()
        for row in self.order[::-1].tolist():
            if self.parent[row] < len(self.parent):
                below[self.parent[row]] += below[row]
        return below

    def _above(self, of_steps: FloatArray) -> FloatArray:
        """T of a matrix over steps: the sum over each row and all above it."""
        above = of_steps.copy()
        for row in self.order.tolist():
            if self.parent[row] < len(self.parent):
                above[row] += above[self.parent[row]]
        return above

    def form(self, matrix: FloatArray) -> FloatArray:
        """TᵀYT, made once for each Y."""
        if id(matrix) not in self._forms:
            both = self.below(np.ascontiguousarray(self.below(matrix).T))
            if len(self._forms) == _FORMS:
                self._forms.pop(next(iter(self._forms)))
            self._forms[id(matrix)] = matrix, both  # the matrix is kept, and so is its address
        return self._forms[id(matrix)][1]

    @cached_property
    def _forms(self) -> dict[int, tuple[FloatArray, FloatArray]]:
        return {}

    def block(self, kinds: slice, people: IndexArray) -> UnitBlock:
        """Some of the columns, by their steps."""
        rows = self.rows[kinds][:, None]
        return UnitBlock(
            rows=rows,
            weights=self.signs[kinds][:, None],
            times=np.ones((len(rows), 1), dtype=np.intp),
            people=people,
            alike=np.ones(len(rows)),
            kinds=np.arange(len(rows)),
        )

    def product(self, steps: UnitBlock, counts: FloatArray) -> FloatArray:
        """Σ count · a aᵀ over the columns of a block."""
        table = steps.table(len(self.parent))
        scaled = table * np.asarray(counts)[:, None]
        products = (table.T @ scaled)[:-1, :-1].toarray()
        return self._above(np.ascontiguousarray(self._above(products).T))


def _few(columns: IndexArray, numbers: int) -> bool:
    """Whether pairs of steps, in these columns, are looked up in less time than dense products take."""
    return int(np.bincount(columns).max(initial=0)) ** 2 <= numbers


def _steps(table: NDArray[Any], parent: IndexArray) -> tuple[IndexArray, IndexArray]:
    """Where a row differs from its parent: the rows, and the columns."""
    numbers, columns = table.shape
    empty = np.zeros(columns, dtype=table.dtype)
    at = [
        np.flatnonzero(own != (table[above] if above < numbers else empty))
        for own, above in zip(table, parent.tolist(), strict=True)
    ]
    return np.repeat(np.arange(numbers), list(map(len, at))), np.concatenate(at)


def _tree(table: NDArray[Any]) -> tuple[IndexArray, IndexArray]:
    """An order of the rows and the parent of each: the tree with the fewest steps over all columns.

    Rows without a parent are steps from an empty one.
    """
    numbers = len(table)
    rows = np.zeros((numbers + 1, table.shape[1]), dtype=np.float32)  # exact: no more columns than 2^24
    rows[:-1] = table
    common, sizes = rows @ rows.T, rows.sum(axis=1)
    apart = sizes[:, None] + sizes - 2 * common + 1  # 0 would be no edge
    tree = sparse.csgraph.minimum_spanning_tree(apart)
    order, parent = sparse.csgraph.breadth_first_order(tree, numbers, directed=False)
    return order[1:].astype(np.intp), parent[:-1].astype(np.intp)
