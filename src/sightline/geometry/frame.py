r"""The split of the columns into target, nuisance and known records (``eq:J_def``).

Records with the same entry in every row share one nuisance column. This generalises the paper's reduction to
:math:`(x_j, \sum_{k \in B} x_k)` (``eq:reduced_model_fixed_background``). A linear functional becomes a
target by the change of coordinates :math:`x = C^+\theta + Z\eta`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sightline.arrays import FloatArray, IndexArray
from sightline.numerics import integers as exact
from sightline.numerics.residuals import gamma

IntegerRows = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Frame:
    """A split of the columns of any rows over the same records."""

    support: IndexArray  # columns that the target is made of
    others: IndexArray  # all other columns that the attacker does not know
    representatives: IndexArray  # one column of each kind among ``others``
    place: IndexArray  # for each of ``others``, the place of its kind there; -1 for a zero column
    coefficients: FloatArray | None = None  # C over ``support``, for a functional

    def target(self, rows: Any) -> FloatArray:
        """The target columns of rows."""
        inside: FloatArray = _columns(rows, self.support)
        if self.coefficients is None:
            return inside
        along, _ = self._change()
        moved: FloatArray = inside @ along
        return moved

    def nuisance(self, rows: Any) -> FloatArray:
        """The nuisance columns of rows, one of each kind."""
        outside: FloatArray = _columns(rows, self.representatives)
        if self.coefficients is None:
            return outside
        _, across = self._change()
        return np.hstack([outside, dense(rows[:, self.support]) @ across])

    def lengths(self, rows: Any) -> FloatArray | None:
        """Lengths of the columns ``[nuisance | target]`` of rows before digits cancel in them.

        ``None`` without a functional: then the columns are not computed, and nothing cancels.
        """
        if self.coefficients is None:
            return None
        inside = np.abs(dense(rows[:, self.support]))
        along, across = self._change()
        moved = np.linalg.norm(inside @ np.abs(np.hstack([across, along])), axis=0)
        return np.concatenate([np.linalg.norm(dense(rows[:, self.representatives]), axis=0), moved])

    def rounding(self, rows: Any) -> FloatArray | None:
        """Bounds on the rounding of the columns ``[nuisance | target]``; ``None`` if they are not computed.

        Products with the change of coordinates are rounded, and so is the change itself: what its columns
        miss of the functional counts as a move of the target.
        """
        before = self.lengths(rows)
        if before is None or self.coefficients is None:
            return None
        along, across = self._change()
        C, width = self.coefficients, len(self.coefficients)
        size = np.linalg.norm(np.abs(dense(rows[:, self.support])) @ np.abs(along), axis=0)
        each = gamma(self.support.size + 4)
        missed = np.hstack([C @ across, C @ along - np.eye(width)])
        off = size @ (np.abs(missed) + each * (np.abs(C) @ np.abs(np.hstack([across, along]))))
        found: FloatArray = each * before
        found[self.representatives.size :] += off
        found[: self.representatives.size] = 0.0
        return found

    def compact(self) -> Frame:
        """The same frame over rows that hold only its representatives and its support, in this order."""
        places = np.arange(self.representatives.size + self.support.size, dtype=np.intp)
        first, support = np.split(places, [self.representatives.size])
        return replace(self, representatives=first, support=support, others=first, place=first)

    def rescaled(self, factors: FloatArray) -> Frame:
        """The same frame for records in other units: columns multiplied by ``factors``."""
        if self.coefficients is None:
            return self
        return replace(self, coefficients=self.coefficients * factors[self.support])

    def disagreement(self, rows: Any) -> Any:
        """Each nuisance column of rows minus its representative: zero if the rows treat a kind alike."""
        outside = dense(rows[:, self.others])
        alike = (
            np.where(self.place >= 0, dense(rows[:, self.representatives])[:, self.place], 0)
            if self.representatives.size
            else 0
        )
        return outside - alike

    def integer_columns(self, rows: Any) -> tuple[IntegerRows, int] | None:
        """Whole-number rows as ``[nuisance | target]``, and how many columns are nuisance.

        A functional enters as ``[[A, 0], [C, I]]``: the combinations of its rows in which all records cancel
        show which part of C the rows of A reveal. ``None`` if C has fractions.
        """
        columns = np.hstack([dense(rows[:, self.representatives]), dense(rows[:, self.support])])
        if self.coefficients is None:
            return columns, self.representatives.size
        whole = whole_numbers(self.coefficients)
        if whole is None:
            return None
        lines, width = columns.shape
        count = len(whole)
        below = np.hstack(
            [np.zeros((count, self.representatives.size), np.int64), whole, np.eye(count, dtype=np.int64)]
        )
        above = np.hstack([columns, np.zeros((lines, count), dtype=np.int64)])
        return np.vstack([above, below]), width

    def _change(self) -> tuple[FloatArray, FloatArray]:
        assert self.coefficients is not None
        width = len(self.coefficients)
        Q, R = np.linalg.qr(self.coefficients.T, mode="complete")
        return Q[:, :width] @ np.linalg.inv(R[:width]).T, Q[:, width:]


def kinds(rows: Any, columns: IndexArray) -> tuple[IndexArray, IndexArray]:
    """One column of each kind of column, and the place of each column's kind among them."""
    if isinstance(rows, np.ndarray) and rows.dtype == np.int64:
        first, place = exact.column_kinds(rows[:, columns])
    elif isinstance(rows, np.ndarray):
        # Only zero columns are removed; the factorisation finds equal real-valued columns.
        nonzero = np.any(rows[:, columns] != 0, axis=0)
        first = np.flatnonzero(nonzero)
        place = np.where(nonzero, np.cumsum(nonzero) - 1, -1)
    else:
        first, place = _sparse_kinds(rows[:, columns])
    return columns[first], place


def _sparse_kinds(rows: sparse.csr_array) -> tuple[IndexArray, IndexArray]:
    columns = sparse.csc_array(rows)
    columns.eliminate_zeros()
    columns.sort_indices()
    kind_of: dict[bytes, int] = {}
    first: list[int] = []
    place = np.full(columns.shape[1], -1, dtype=np.intp)
    for column in range(columns.shape[1]):
        start, stop = columns.indptr[column], columns.indptr[column + 1]
        if start == stop:
            continue
        key = columns.indices[start:stop].tobytes() + columns.data[start:stop].tobytes()
        if key not in kind_of:
            kind_of[key] = len(first)
            first.append(column)
        place[column] = kind_of[key]
    return np.array(first, dtype=np.intp), place


def _columns(rows: Any, chosen: IndexArray) -> Any:
    """Some columns of rows as a plain array, in the rows' own memory order."""
    if isinstance(rows, np.ndarray) and rows.flags.f_contiguous:
        return rows.T[chosen].T
    return dense(rows[:, chosen])


def dense(rows: Any) -> Any:
    """Rows as a plain array of their own kind of number."""
    return rows if isinstance(rows, np.ndarray) else np.asarray(rows.toarray())


def whole_numbers(rows: FloatArray) -> IntegerRows | None:
    """Rows as integers, or ``None`` if an entry is a fraction or above 2⁵³, where every double is whole."""
    for row in rows:  # stops at the first row with a fraction
        if np.any(np.abs(row) > 2**53) or np.any(row != np.rint(row)):
            return None
    return rows.astype(np.int64)
