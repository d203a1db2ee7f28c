r"""The rows of a transcript with their noise, and their split into target, nuisance and known records.

Queries become rows over all records (``eq:J_def``): derivatives, and whole numbers proportional to them.
Records with the same entry in every row share one nuisance column. This generalises the paper's reduction to
:math:`(x_j, \sum_{k \in B} x_k)` (``eq:reduced_model_fixed_background``). A linear functional becomes a
target by the change of coordinates :math:`x = C^+\theta + Z\eta`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sightline.arrays import AT_A_TIME, DENSE, EXACT, FloatArray, IndexArray, coordinates, frozen_floats
from sightline.errors import require
from sightline.noise.laws import Noise, Rows, require_noise
from sightline.numerics import integers as exact
from sightline.numerics.integers import decide_columns
from sightline.numerics.residuals import gamma
from sightline.theory.releases.query import Query

IntegerRows = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Frame:
    """A split of the columns of any rows over the same records; the target are records."""

    support: IndexArray  # columns that the target is made of
    others: IndexArray  # all other columns that the attacker does not know
    representatives: IndexArray  # one column of each kind among ``others``
    place: IndexArray  # for each of ``others``, the place of its kind there; -1 for a zero column

    @property
    def whole(self) -> bool:
        """Whether whole-number rows decide about the target."""
        return True

    def target(self, rows: Any) -> FloatArray:
        """The target columns of rows."""
        inside: FloatArray = _columns(rows, self.support)
        return inside

    def nuisance(self, rows: Any) -> FloatArray:
        """The nuisance columns of rows, one of each kind."""
        outside: FloatArray = _columns(rows, self.representatives)
        return outside

    def lengths(self, rows: Any) -> FloatArray:
        """Lengths of the columns ``[nuisance | target]`` before digits cancel; zeros where none can."""
        return np.zeros(self.representatives.size + self.support.size)

    def rounding(self, rows: Any) -> FloatArray:
        """Bounds on the rounding of the columns ``[nuisance | target]``."""
        return np.zeros(self.representatives.size + self.support.size)

    def compact(self) -> Frame:
        """The same frame over rows that hold only its representatives and its support, in this order."""
        places = np.arange(self.representatives.size + self.support.size, dtype=np.intp)
        first, support = np.split(places, [self.representatives.size])
        return replace(self, representatives=first, support=support, others=first, place=first)

    def rescaled(self, factors: FloatArray) -> Frame:
        """The same frame for records in other units: columns multiplied by ``factors``."""
        return self

    def disagreement(self, rows: Any) -> Any:
        """Each nuisance column of rows minus its representative: zero if the rows treat a kind alike."""
        outside = dense(rows[:, self.others])
        alike = (
            np.where(self.place >= 0, dense(rows[:, self.representatives])[:, self.place], 0)
            if self.representatives.size
            else 0
        )
        return outside - alike

    def integer_columns(self, rows: Any) -> tuple[IntegerRows, int]:
        """Whole-number rows as ``[nuisance | target]``, and how many columns are nuisance."""
        columns = np.hstack([dense(rows[:, self.representatives]), dense(rows[:, self.support])])
        return columns, self.representatives.size

    def revealed(self, rows: FloatArray) -> int:
        """How many directions of the target the rows of a compact frame reveal as exact numbers."""
        return int(np.count_nonzero(decide_columns(rows).pivots >= self.representatives.size))


@dataclass(frozen=True, kw_only=True, eq=False)
class FunctionalFrame(Frame):
    """The same for linear functionals :math:`C x` of the records, by a change of their coordinates."""

    coefficients: FloatArray  # C over ``support``

    @property
    def whole(self) -> bool:
        return is_whole(self.coefficients)

    def target(self, rows: Any) -> FloatArray:
        moved: FloatArray = _columns(rows, self.support) @ self._change[0]
        return moved

    def nuisance(self, rows: Any) -> FloatArray:
        outside = _columns(rows, self.representatives)
        return np.hstack([outside, dense(rows[:, self.support]) @ self._change[1]])

    def lengths(self, rows: Any) -> FloatArray:
        inside = np.abs(dense(rows[:, self.support]))
        along, across = self._change
        moved = np.linalg.norm(inside @ np.abs(np.hstack([across, along])), axis=0)
        return np.concatenate([np.linalg.norm(dense(rows[:, self.representatives]), axis=0), moved])

    def rounding(self, rows: Any) -> FloatArray:
        """Products with the change of coordinates are rounded, and so is the change itself: what its columns
        miss of the functional counts as a move of the target.
        """
        along, across = self._change
        C, width = self.coefficients, len(self.coefficients)
        size = np.linalg.norm(np.abs(dense(rows[:, self.support])) @ np.abs(along), axis=0)
        each = gamma(self.support.size + 4)
        missed = np.hstack([C @ across, C @ along - np.eye(width)])
        off = size @ (np.abs(missed) + each * (np.abs(C) @ np.abs(np.hstack([across, along]))))
        bound: FloatArray = each * self.lengths(rows)
        bound[self.representatives.size :] += off
        bound[: self.representatives.size] = 0.0
        return bound

    def rescaled(self, factors: FloatArray) -> Frame:
        return replace(self, coefficients=self.coefficients * factors[self.support])

    def integer_columns(self, rows: Any) -> tuple[IntegerRows, int]:
        """A functional enters as ``[[A, 0], [C, I]]``: the combinations of its rows in which all records
        cancel show which part of C the rows of A reveal.
        """
        columns, nuisances = super().integer_columns(rows)
        lines, width = columns.shape
        whole = self.coefficients.astype(np.int64)
        count = len(whole)
        below = np.hstack([np.zeros((count, nuisances), np.int64), whole, np.eye(count, dtype=np.int64)])
        above = np.hstack([columns, np.zeros((lines, count), dtype=np.int64)])
        return np.vstack([above, below]), width

    def revealed(self, rows: FloatArray) -> int:
        """What the rows of C and those of A have in common."""
        C = np.zeros((len(self.coefficients), rows.shape[1]))
        C[:, self.representatives.size :] = self.coefficients
        return decide_columns(rows).rank + len(C) - decide_columns(np.vstack([rows, C])).rank

    @cached_property
    def _change(self) -> tuple[FloatArray, FloatArray]:
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


def is_whole(rows: FloatArray) -> bool:
    """Whether every entry is a whole number, and no larger than 2⁵³, where every double is whole."""
    # Stops at the first row with a fraction.
    return all(bool(np.all((np.abs(row) <= EXACT) & (row == np.rint(row)))) for row in rows)


@dataclass(frozen=True, kw_only=True, eq=False)
class WhitenedRows:
    r"""Rows of derivatives, one per published number, and the noise on them.

    ``jacobian`` is :math:`J` with a column per coordinate of a record (``eq:J_def``), dense or sparse;
    ``integer_rows`` are whole numbers proportional to it row by row, if there are any: with them every
    decision is exact.
    """

    jacobian: Rows
    noise: Noise
    dimension: int = 1
    integer_rows: NDArray[np.int64] | sparse.csr_array | None = None
    labels: tuple[str, ...] = ()  # of the columns; by default ``x0``, ``x1``, …
    at: FloatArray | None = None  # the operating point: record values, owner-only
    first_outputs: int = 1  # how many of the rows belong to the first release

    def __post_init__(self) -> None:
        if isinstance(self.jacobian, np.ndarray | list | tuple):
            object.__setattr__(self, "jacobian", frozen_floats(self.jacobian, name="jacobian", ndim=2))
        else:
            object.__setattr__(self, "jacobian", sparse.csr_array(self.jacobian, dtype=np.float64))
            require(
                bool(np.all(np.isfinite(self.jacobian.data))),
                "finite jacobian",
                got="NaN or infinite entries",
            )
        lines, columns = self.jacobian.shape
        require(lines > 0, "at least one row", got=lines, fix="give at least one release")
        require(
            self.noise.outputs == lines,
            f"noise for {lines} answers",
            got=f"noise for {self.noise.outputs}",
            fix="give one noise level for each published number",
        )
        require(
            self.dimension >= 1 and columns % self.dimension == 0,
            f"columns in records of {self.dimension} coordinates",
            got=f"{columns} columns",
        )
        if self.integer_rows is None and isinstance(self.jacobian, np.ndarray) and is_whole(self.jacobian):
            object.__setattr__(self, "integer_rows", self.jacobian.astype(np.int64))
        if self.integer_rows is not None:
            shape = self.integer_rows.shape
            require(
                shape == (lines, columns), f"integer rows of shape {(lines, columns)}", got=f"shape {shape}"
            )
        require(len(self.labels) in (0, columns), f"{columns} labels", got=len(self.labels))
        require_noise(self.noise, self.jacobian)

    @property
    def records(self) -> int:
        """How many records the rows are about."""
        return int(self.jacobian.shape[1]) // self.dimension

    @property
    def pattern(self) -> Rows:
        """The rows that show which columns are equal: whole numbers if there are any, else the Jacobian."""
        return self.jacobian if self.integer_rows is None else self.integer_rows

    @cached_property
    def whitened(self) -> Rows:
        r"""The whitened Jacobian :math:`\Sigma^{-1/2} J` (``eq:whitened_J``)."""
        return self.noise.whiten(self.jacobian)

    @property
    def information(self) -> FloatArray:
        r"""The Fisher information of all records, :math:`J^\top \Sigma^{-1} J` (``eq:FIM``)."""
        W = self.whitened
        gram = W.T @ W
        return np.asarray(dense(gram))

    def rows_of(self, query: Query) -> tuple[FloatArray, NDArray[np.int64] | None]:
        """The rows that one more release would add, and the same as whole numbers if all rows have them."""
        require(
            query.linear or self.at is not None,
            "a linear release, or a geometry with an operating point",
            got="neither",
            fix="build the geometry with at=records",
        )
        reach = int(query.members[-1]) + 1
        require(
            reach <= self.records and query.dimension == self.dimension,
            f"a release over these {self.records} records of dimension {self.dimension}",
            got=f"members up to {reach - 1} and dimension {query.dimension}",
        )
        rows = place(query, records=self.records, at=self.at)
        if self.integer_rows is None or (integers := place_integers(query, records=self.records)) is None:
            return dense(rows), None
        return dense(rows), dense(integers)

    def label(self, column: int) -> str:
        """The name of a column."""
        if self.labels:
            return self.labels[column]
        record, coordinate = divmod(int(column), self.dimension)
        return f"x{record}" if self.dimension == 1 else f"x{record}[{coordinate}]"


def place(query: Query, *, records: int, at: FloatArray | None) -> sparse.csr_array:
    """The Jacobian rows of a release over the coordinates of all records."""
    return _rows([(cell, cell.jacobian(at)) for cell in query.cells], records)


def place_integers(query: Query, *, records: int) -> sparse.csr_array | None:
    """Whole-number rows proportional to the Jacobian's, if every cell has them."""
    blocks = [(cell, cell.integer_rows()) for cell in query.cells]
    if any(block is None for _, block in blocks):
        return None
    return _rows(blocks, records)


def stack(blocks: Sequence[sparse.csr_array]) -> Any:
    """Rows of several releases, as a plain array unless they are large and sparse."""
    stacked = sparse.vstack(blocks, format="csr")
    lines, columns = stacked.shape
    if lines * columns <= AT_A_TIME or stacked.nnz > DENSE * lines * columns:
        return stacked.toarray()
    return stacked


def _rows(blocks: Sequence[tuple[Query, Any]], records: int) -> sparse.csr_array:
    """Blocks over the members of each cell as rows over all records, cell after cell."""
    data, lines, columns, start = [], [], [], 0
    for cell, block in blocks:
        outputs, members, dimension = block.shape
        data.append(block.ravel())
        lines.append(np.repeat(np.arange(start, start + outputs), members * dimension))
        columns.append(np.tile(coordinates(cell.members, dimension), outputs))
        start += outputs
    entries = np.concatenate(data), (np.concatenate(lines), np.concatenate(columns))
    return sparse.csr_array(entries, shape=(start, records * blocks[0][0].dimension))
