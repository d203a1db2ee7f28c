"""Who is in what: the rows of a design before scale and noise, dense or sparse, and two sweeps over them.

A sweep goes over blocks of records, so that nothing of size rows × records is ever held in floating point.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from sightline.arrays import FloatArray, IndexArray, frozen_index
from sightline.errors import InvalidRelease, require
from sightline.labeled.forms import Forms
from sightline.progress import Progress

BoolArray = NDArray[np.bool_]
RowsLike: TypeAlias = "ArrayLike | sparse.sparray | sparse.spmatrix | Iterable[Iterable[int]]"

# Integers and their sums of products are exact in double precision below this.
EXACT = 2.0**53


class Pattern(Protocol):
    """Membership, or weights, of ``records`` records in ``lines`` rows."""

    @property
    def lines(self) -> int: ...

    @property
    def records(self) -> int: ...

    @property
    def whole(self) -> bool:
        """Whether all weights are integers, small enough for exact sums of products."""

    @property
    def binary(self) -> bool:
        """Whether all weights are 0 or 1."""

    @property
    def sizes(self) -> IndexArray:
        """How many members each row has."""

    @property
    def counts(self) -> IndexArray | None:
        """How many records a column stands for, all columns being different; ``None``: one each."""

    @property
    def peaks(self) -> FloatArray:
        """The largest absolute weight of each row."""

    @property
    def sparse(self) -> bool:
        """Whether most records are in few rows."""

    @property
    def key_bits(self) -> int:
        """How long a key may be for :meth:`images` to be exact."""

    def seed(self) -> bytes:
        """Bytes that change whenever the pattern does."""

    def gram(self, unknown: BoolArray, progress: Progress) -> FloatArray:
        """``A Aᵀ`` over the unknown records; exact for whole weights."""

    def images(self, unknown: BoolArray, keys: FloatArray) -> FloatArray:
        """``A keys`` over the unknown records, a key a row; exact for whole weights and short keys.

        A key belongs to a column; where that stands for several records, it is the sum of theirs.
        """

    def forms(self, forms: Forms, unknown: BoolArray, progress: Progress) -> FloatArray:
        """Every quadratic and linear form of every record's column; zero for records that are known."""

    def columns(self, records: IndexArray) -> FloatArray:
        """Some records' columns, dense."""

    def triangle(self, unknown: BoolArray, scale: FloatArray) -> FloatArray:
        """R of a QR factorisation of the unknown records' columns, rows scaled: no products of entries."""

    def kinds(self, unknown: BoolArray) -> IndexArray:
        """For every record a number that equal columns share; different columns have different numbers."""

    def members(self, line: int) -> IndexArray:
        """The members of one row."""

    def integers(self) -> tuple[Pattern, FloatArray] | None:
        """Whole-number weights and a factor for each row, if real weights are products of the two."""

    def take(self, lines: IndexArray) -> Pattern:
        """Some of the rows."""


def as_pattern(rows: RowsLike | Pattern, *, records: int | None = None) -> Pattern:
    """Rows as a 0/1 or weighted table, a scipy sparse array, or, with ``records``, lists of members."""
    from sightline.labeled.incidence.cells import CellPattern
    from sightline.labeled.incidence.dense import DensePattern
    from sightline.labeled.incidence.sparse import SparsePattern

    if isinstance(rows, DensePattern | SparsePattern | CellPattern):
        return rows
    if sparse.issparse(rows):
        pattern: Pattern = SparsePattern.of(rows)
    elif records is None or isinstance(rows, np.ndarray):
        pattern = DensePattern.of(rows)  # type: ignore[arg-type]
    else:
        return SparsePattern.of(_from_members(rows, records))  # type: ignore[arg-type]
    require(
        records is None or records == pattern.records,
        f"{pattern.records} records, one a column",
        got=f"records={records}",
        error=InvalidRelease,
    )
    return pattern


def checked_shape(shape: tuple[int, ...]) -> None:
    """A design has rows and at least two records: a single one has no one to hide among."""
    require(
        len(shape) == 2,
        "rows as a table of two dimensions: releases × records",
        got=f"shape {shape}",
        error=InvalidRelease,
    )
    lines, records = shape
    require(lines > 0, "at least one release", got="L = 0", error=InvalidRelease)
    require(
        records > 1,
        "at least two records",
        got=f"N = {records}",
        fix="a single record is exposed by every release; no geometry is needed",
        error=InvalidRelease,
    )


def checked_members(sizes: IndexArray) -> None:
    """No release is empty."""
    empty = np.flatnonzero(sizes == 0)
    require(
        empty.size == 0,
        "at least one member in every row",
        got=f"none in row {empty[:1].tolist()}",
        fix="drop it: it depends on no record",
        error=InvalidRelease,
    )


def _from_members(rows: Iterable[Iterable[int]], records: int) -> sparse.csr_array:
    lists = [frozen_index(row, error=InvalidRelease) for row in rows]
    require(len(lists) > 0, "at least one release", got="L = 0", error=InvalidRelease)
    beyond = next((i for i, row in enumerate(lists) if row[-1] >= records), None)
    require(
        beyond is None,
        f"members below {records}",
        got=f"{'' if beyond is None else int(lists[beyond][-1])} in row {beyond}",
        error=InvalidRelease,
    )
    indptr = np.concatenate([[0], np.cumsum([row.size for row in lists])])
    return sparse.csr_array((np.ones(indptr[-1]), np.concatenate(lists), indptr), shape=(len(lists), records))
