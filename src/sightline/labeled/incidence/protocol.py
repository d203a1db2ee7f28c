"""What an incidence is: which record enters which published row with which weight, before scale and noise.

Every method goes over blocks of records, so that no floating-point array of size rows × records is held.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from sightline.arrays import FloatArray, IndexArray
from sightline.errors import InvalidRelease, require
from sightline.labeled.column_forms import ColumnForms
from sightline.numerics.device import Device
from sightline.progress import Progress

BoolArray = NDArray[np.bool_]

# Integers and their sums of products are exact in double precision below this.
EXACT = 2.0**53


@runtime_checkable
class Incidence(Protocol):
    """Membership, or weights, of ``records`` records in ``row_count`` rows."""

    @property
    def row_count(self) -> int: ...

    @property
    def records(self) -> int: ...

    @property
    def whole(self) -> bool:
        """Whether all weights are integers, small enough that doubles hold the Gram matrix exactly."""

    @property
    def integral(self) -> bool:
        """Whether all weights are integers, of any size."""

    @property
    def binary(self) -> bool:
        """Whether all weights are 0 or 1."""

    @property
    def sizes(self) -> IndexArray:
        """How many members each row has."""

    @property
    def counts(self) -> IndexArray | None:
        """How many records a column stands for; ``None``: one each."""

    @property
    def distinct(self) -> bool:
        """Whether columns that stand for several records are known to be different from each other."""

    @property
    def complete(self) -> bool:
        """Whether the columns are those of all records; else some are only in the products and sizes."""

    @property
    def peaks(self) -> FloatArray:
        """The largest absolute weight of each row."""

    @property
    def sparse(self) -> bool:
        """Whether most records are in few rows."""

    @property
    def key_bits(self) -> int:
        """How long a key may be for :meth:`images` to be exact."""

    @property
    def device(self) -> Device:
        """Where matrices over the rows are factorised, and dense rows are multiplied."""

    def on(self, device: Device) -> Incidence:
        """The same incidence with another device."""

    def seed(self) -> bytes:
        """Bytes that change whenever the incidence does."""

    def gram(self, unknown: BoolArray, progress: Progress) -> FloatArray:
        """``A Aᵀ`` over the unknown records; exact for whole weights."""

    def weighted_gram(self, weights: FloatArray, progress: Progress) -> FloatArray:
        """``A diag(weights) Aᵀ`` over the records, 0 for known ones; exact for whole numbers whose sums are.

        A weight is that of one record; a column that stands for several counts for each of them.
        """

    def images(self, unknown: BoolArray, keys: FloatArray) -> FloatArray:
        """``A keys`` over the unknown records, a key a row; exact for whole weights and short keys.

        A key belongs to a column; where that stands for several records, it is the sum of theirs.
        """

    def forms(self, forms: ColumnForms, unknown: BoolArray, progress: Progress) -> FloatArray:
        """Every quadratic and linear form of every record's column; zero for records that are known."""

    def columns(self, records: IndexArray) -> FloatArray:
        """Some records' columns, dense."""

    def triangle(self, factors: FloatArray, scale: FloatArray) -> FloatArray:
        """R of a QR factorisation of the columns times ``factors`` (zero: known), rows times ``scale``."""

    def signatures(self, unknown: BoolArray) -> IndexArray:
        """For every record a number that equal columns share; different columns have different numbers."""

    def members(self, row: int) -> IndexArray:
        """The members of one row."""

    def integers(self) -> tuple[Incidence, FloatArray] | None:
        """Whole-number weights and a factor for each row, if real weights are products of the two."""

    def take(self, rows: IndexArray) -> Incidence:
        """Some of the rows."""


def checked_shape(shape: tuple[int, ...]) -> None:
    """A design has rows and at least two records: a single one has no one to hide among."""
    require(
        len(shape) == 2,
        "rows as a table of two dimensions: releases × records",
        got=f"shape {shape}",
        error=InvalidRelease,
    )
    row_count, records = shape
    require(row_count > 0, "at least one release", got="L = 0", error=InvalidRelease)
    require(
        records > 1,
        "at least two records",
        got=f"N = {records}",
        fix="a single record is exposed by every release; no geometry is needed",
        error=InvalidRelease,
    )
