"""Which record enters which published row with which weight, before scale and noise.

Rows are a dense table, a sparse array, or lists of members. Equal columns are one kind of record, and a
design over kinds is what everything is computed from (:mod:`sightline.units.units`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from sightline.arrays import DENSE, EXACT, FloatArray, IndexArray, frozen_index, is_array, parts, to_numpy
from sightline.errors import InvalidRelease, require
from sightline.numerics.device import HOST, Device
from sightline.units.dense_units import TableUnits
from sightline.units.unit_block import ONE, BoolArray
from sightline.units.units import Units, UnitStore
from sightline.values import frozen

_MOST_UNFOLDED = 1 << 31  # entries of a sparse table that is made a dense one: 2 GB of 0s and 1s
RowsLike: TypeAlias = "ArrayLike | sparse.sparray | sparse.spmatrix | Iterable[Iterable[int]]"


@frozen(slots=False)
class MemberRows:
    """Weights of ``records`` records in rows: a dense table, or compressed sparse columns without zeros."""

    stored: Any
    integral: bool  # whether all weights are whole numbers, of any size
    binary: bool  # whether all weights are 0 or 1
    sizes: IndexArray  # members of each row
    peaks: FloatArray  # the largest absolute weight of each row
    device: Device = HOST

    @classmethod
    def of(cls, rows: RowsLike, *, records: int | None = None) -> MemberRows:
        """Rows as a 0/1 or weighted table, a scipy sparse array, or, with ``records``, lists of members.

        A table that lies on an accelerator is used there.
        """
        if sparse.issparse(rows):
            members = _of_sparse(rows)
        elif is_array(rows) and not isinstance(rows, np.ndarray):
            members = replace(_of_table(to_numpy(rows)), device=Device.of(rows))
        elif records is None or isinstance(rows, np.ndarray):
            members = _of_table(rows)  # type: ignore[arg-type]
        else:
            return _of_sparse(_from_members(rows, records))  # type: ignore[arg-type]
        require(
            records is None or records == members.records,
            f"{members.records} records, one a column",
            got=f"records={records}",
            error=InvalidRelease,
        )
        return members

    @property
    def row_count(self) -> int:
        return int(self.stored.shape[0])

    @property
    def records(self) -> int:
        return int(self.stored.shape[1])

    @property
    def whole(self) -> bool:
        """Whether weights are so small that doubles hold sums of their products exactly."""
        return self.integral and float(self.peaks.max(initial=0.0)) ** 2 * self.records < EXACT

    def on(self, device: Device) -> MemberRows:
        """The same with products of dense columns on another device."""
        return replace(self, device=device)

    def columns(self, records: IndexArray) -> FloatArray:
        """Some records' columns, dense."""
        some = self.stored[:, records]
        return np.asarray(some.toarray() if sparse.issparse(some) else some, dtype=np.float64)

    def members(self, row: int) -> IndexArray:
        """The members of one row."""
        if sparse.issparse(self.stored):
            return np.sort(np.asarray(self.stored[[row], :].tocoo().coords[1], dtype=np.intp))
        return np.flatnonzero(self.stored[row])

    def take(self, rows: IndexArray) -> MemberRows:
        """Some of the rows."""
        stored = self.stored[rows]
        stored = sparse.csc_array(stored) if sparse.issparse(stored) else stored
        return replace(self, stored=stored, sizes=self.sizes[rows], peaks=self.peaks[rows])

    def integers(self) -> tuple[MemberRows, FloatArray] | None:
        """Whole-number weights and a factor for each row, if real weights are products of the two."""
        table = self.stored.tocoo() if sparse.issparse(self.stored) else None
        bases = np.full(self.row_count, np.inf)
        if table is not None:
            np.minimum.at(bases, table.coords[0], np.abs(table.data))
        else:
            bases = np.where(self.stored != 0, np.abs(self.stored), np.inf).min(axis=1)
        bases[np.isinf(bases)] = 1.0  # rows without members
        values = self.stored if table is None else table.data
        each = np.broadcast_to(bases[:, None], values.shape) if table is None else bases[table.coords[0]]
        with np.errstate(over="ignore"):  # an infinite ratio is no multiple
            ratios = np.rint(values / each)
        if not _multiples(values, ratios, each):
            return None
        if table is None:
            return replace(_of_table(ratios), device=self.device), bases
        rows = sparse.csc_array((ratios, table.coords), shape=self.stored.shape)
        return replace(_of_sparse(rows), device=self.device), bases

    def groups(self, unknown: BoolArray) -> IndexArray:
        """For every record the number of its column among the unknown ones, by first appearance; -1 if
        known.
        """
        drawn = np.random.default_rng()  # anew each time: nobody can choose rows whose columns are confused
        if self.binary and not sparse.issparse(self.stored):
            return self._groups_of_bits(unknown, drawn)
        keys = np.zeros((2, self.records), dtype=np.uint64)
        factors = 2 * drawn.integers(1 << 62, size=(2, self.row_count), dtype=np.uint64) + np.uint64(1)
        if sparse.issparse(self.stored):
            bits = _mixed(self.stored.data)
            owner = np.repeat(np.arange(self.records), np.diff(self.stored.indptr))
            starts, filled = self.stored.indptr[:-1], np.diff(self.stored.indptr) > 0
            for key, factor in zip(keys, factors, strict=True):
                products = bits * factor[self.stored.indices]
                if owner.size:
                    key[filled] = np.add.reduceat(products, starts[filled])
        else:
            for block in parts(self.records, each=self.row_count):
                bits = _mixed(self.stored[:, block])
                for key, factor in zip(keys, factors, strict=True):
                    key[block] = (bits * factor[:, None]).sum(axis=0, dtype=np.uint64)
        group_of = np.full(self.records, -1, dtype=np.intp)
        group_of[unknown] = _numbered(keys[:, unknown])
        return group_of

    def _groups_of_bits(self, unknown: BoolArray, drawn: np.random.Generator) -> IndexArray:
        """The same for 0s and 1s: sums of 30-bit numbers over the members, exact as products of matrices.

        On an accelerator they are computed where the table is.
        """
        factors = drawn.integers(1 << 30, size=(4, self.row_count)).astype(np.float64)
        keys, placed, device = np.empty((4, self.records), dtype=np.uint64), self.placed, self.device
        there = device.put(factors)
        for block in parts(self.records, each=self.row_count, most=device.at_a_time):
            some = placed[:, block]
            entries = some.astype(np.float64) if device.host else device.floats(some)
            keys[:, block] = device.numbers(there @ entries)
        both = keys[::2] * np.uint64(1 << 32 | 1) ^ keys[1::2]
        groups = np.full(self.records, -1, dtype=np.intp)
        groups[unknown] = _numbered(both[:, unknown])
        return groups

    @cached_property
    def placed(self) -> Any:
        """A dense table where products with it are computed, put there once."""
        return self.stored if self.device.host else self.device.put(self.stored)

    def units(self, first: IndexArray, people: IndexArray) -> UnitStore:
        """A kind for the column of each of some records, so many of each."""
        listed = sparse.issparse(self.stored)
        everyone = first.size == self.records
        few = listed and self.stored.nnz <= DENSE * self.row_count * self.records
        if not few and not (listed and self.row_count * first.size > _MOST_UNFOLDED):
            stored = self.stored.toarray() if listed else self.stored
            return TableUnits(
                table=stored if everyone else stored[:, first],
                people=people,
                whole=self.integral,
                binary=self.binary,
                peak=float(self.peaks.max(initial=0.0)),
                device=self.device,
                there=self.placed if everyone and not listed else None,
            )
        stored = self.stored if everyone else sparse.csc_array(self.stored[:, first])
        degrees = np.diff(stored.indptr)
        width = max(1, int(degrees.max(initial=0)))
        if bool(np.all(degrees == width)):
            rows = stored.indices.reshape(-1, width)
            weights = stored.data.reshape(-1, width).astype(np.float64)
        else:
            slot = np.arange(stored.nnz) - np.repeat(stored.indptr[:-1], degrees)
            line = np.repeat(np.arange(first.size), degrees)
            rows = np.full((first.size, width), self.row_count, dtype=np.int32)
            rows[line, slot] = stored.indices
            weights = np.zeros(rows.shape)
            weights[line, slot] = stored.data
        return Units.of_one_row(rows, self.row_count, people, ONE if self.binary else weights)


def _checked_shape(shape: tuple[int, ...]) -> None:
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


def _of_table(given: ArrayLike) -> MemberRows:
    """Check and copy a dense table, as small as its numbers allow, some rows at a time."""
    try:
        table = np.asarray(given)
    except ValueError:
        raise InvalidRelease(
            "expected rows of one length, got rows of different lengths; lists of members need records=N"
        ) from None
    require(
        table.dtype.kind in "biuf",
        "rows as a table of numbers",
        got=f"dtype {table.dtype}",
        error=InvalidRelease,
    )
    _checked_shape(table.shape)
    count = len(table)
    sizes, peaks, binary, integral = np.empty(count, dtype=np.intp), np.empty(count), True, True
    for own in parts(count, each=table.shape[1]):
        rows = table[own]
        sizes[own] = np.count_nonzero(rows, axis=1)
        if table.dtype.kind == "b":
            peaks[own] = 1.0
            continue
        # The least integer has no absolute value.
        peaks[own] = np.maximum(rows.max(axis=1).astype(np.float64), -rows.min(axis=1).astype(np.float64))
        bad = own.start + np.flatnonzero(~np.isfinite(peaks[own]))
        require(
            bad.size == 0,
            "finite weights",
            got=f"NaN or infinity in row {next(iter(bad.tolist()), None)}",
            fix="drop or impute them first",
            error=InvalidRelease,
        )
        if np.count_nonzero(rows == 1) != int(sizes[own].sum()):
            binary = False
            integral = integral and bool(np.all(rows == np.rint(rows)))
    largest = float(peaks.max())
    widths = (np.int8, np.int16, np.int32)
    fitting = [one for one in widths if largest <= np.iinfo(one).max]
    stored: NDArray[Any]
    if binary:
        stored = table.astype(np.uint8)
    elif integral and fitting:
        stored = table.astype(fitting[0])
    else:
        stored = _exact_doubles(table)
    return _locked(MemberRows(stored=stored, integral=integral, binary=binary, sizes=sizes, peaks=peaks))


def _of_sparse(rows: Any) -> MemberRows:
    """Check and copy a sparse array."""
    _checked_shape(rows.shape)
    require(
        rows.dtype.kind in "biuf",
        "rows as a sparse table of numbers",
        got=f"dtype {rows.dtype}",
        error=InvalidRelease,
    )
    entries = rows.nnz
    small = rows.dtype.kind in "bi" and rows.dtype.itemsize == 1
    stored = sparse.csc_array(rows, copy=True)
    if not small:
        stored.data = _exact_doubles(stored.data)
    stored.sum_duplicates()
    require(
        stored.nnz == entries,
        "each member of a row once",
        got=f"{entries - stored.nnz} entries given twice",
        fix="sum them, or drop the copies",
        error=InvalidRelease,
    )
    bad = np.flatnonzero(~np.isfinite(stored.data))
    require(
        bad.size == 0,
        "finite weights",
        got=f"NaN or infinity in row {stored.indices[bad[:1]].tolist()}",
        fix="drop or impute them first",
        error=InvalidRelease,
    )
    stored.eliminate_zeros()
    count = stored.shape[0]
    binary = bool(np.all(stored.data == 1))
    if binary:
        stored.data = np.ones(stored.nnz, dtype=np.int8)
    sizes = np.bincount(stored.indices, minlength=count).astype(np.intp)
    peaks = (sizes > 0).astype(np.float64)
    if not binary:
        stored.data = stored.data.astype(np.float64)  # the least integer has no absolute value
        peaks = np.zeros(count)
        np.maximum.at(peaks, stored.indices, np.abs(stored.data))
    integral = binary or bool(np.all(stored.data == np.rint(stored.data)))
    return _locked(MemberRows(stored=stored, integral=integral, binary=binary, sizes=sizes, peaks=peaks))


def _locked(members: MemberRows) -> MemberRows:
    stored = members.stored
    arrays = (stored.data, stored.indices, stored.indptr) if sparse.issparse(stored) else (stored,)
    for array in (*arrays, members.sizes, members.peaks):
        array.setflags(write=False)
    return members


def _from_members(rows: Iterable[Iterable[int]], records: int) -> sparse.csr_array:
    lists = [_members(row) for row in rows]
    require(len(lists) > 0, "at least one release", got="L = 0", error=InvalidRelease)
    beyond = [f"{int(row[-1])} in row {i}" for i, row in enumerate(lists) if row.size and row[-1] >= records]
    require(
        not beyond,
        f"members below {records}",
        got=", ".join(beyond[:1]),
        error=InvalidRelease,
    )
    indptr = np.concatenate([[0], np.cumsum([row.size for row in lists])])
    return sparse.csr_array((np.ones(indptr[-1]), np.concatenate(lists), indptr), shape=(len(lists), records))


def _members(row: Iterable[int]) -> IndexArray:
    members = row if isinstance(row, np.ndarray) else list(row)
    return frozen_index(members, error=InvalidRelease) if len(members) else np.zeros(0, dtype=np.intp)


def _mixed(weights: NDArray[Any]) -> NDArray[np.uint64]:
    """The bits of weights, the exponent mixed into the low ones, where products keep it."""
    bits = (weights.astype(np.float64) + 0.0).view(np.uint64)
    return np.asarray(bits ^ (bits >> np.uint64(31)))


def _numbered(keys: NDArray[np.uint64]) -> IndexArray:
    """Numbers 0, 1, … for the distinct columns of ``keys``, in the order of their first appearance.

    >>> _numbered(np.array([[7, 3, 7, 5], [1, 1, 1, 1]], dtype=np.uint64)).tolist()
    [0, 1, 0, 2]
    """
    alone = np.sort(keys[-1])
    if np.all(alone[1:] != alone[:-1]):  # as in random dense tables: a sort costs a sixth of what follows
        return np.arange(alone.size)
    order = np.argsort(keys[-1])
    ordered = keys[:, order]
    starts = ordered[-1, 1:] != ordered[-1, :-1]
    if np.any((ordered[:-1, 1:] != ordered[:-1, :-1]) & ~starts):  # one line alone does not tell them apart
        order = np.lexsort(keys)
        ordered = keys[:, order]
        starts = np.any(ordered[:, 1:] != ordered[:, :-1], axis=0)
    run = np.concatenate([[0], np.cumsum(starts)])
    first = np.minimum.reduceat(order, np.flatnonzero(np.concatenate([[True], starts])))
    rank = np.empty(first.size, dtype=np.intp)
    rank[np.argsort(first)] = np.arange(first.size)
    kind = np.empty(order.size, dtype=np.intp)
    kind[order] = rank[run]
    return kind


def _multiples(values: FloatArray, ratios: FloatArray, bases: FloatArray) -> bool:
    """Whether values are exactly these whole multiples of bases, all below 2²⁰.

    >>> _multiples(np.array([0.1, 0.4]), np.array([1.0, 4.0]), np.array([0.1, 0.1]))
    True
    >>> _multiples(np.array([0.1, 0.3]), np.array([1.0, 3.0]), np.array([0.1, 0.1]))
    False
    """
    if values.size and float(np.max(np.abs(ratios))) >= 2**20:
        return False
    # Both products are exact, and so is the difference of two numbers that are nearly equal.
    high = (np.ascontiguousarray(bases).view(np.int64) & ~np.int64((1 << 27) - 1)).view(np.float64)
    return bool(np.all(values - ratios * high == ratios * (bases - high)))


def _exact_doubles(weights: NDArray[Any]) -> FloatArray:
    """The weights as doubles; integers that a double cannot hold are refused rather than rounded."""
    doubles = weights.astype(np.float64)
    if weights.dtype.kind in "iu":
        large = np.abs(doubles) >= EXACT
        same = doubles[large].astype(object) == weights[large].astype(object)
        require(
            bool(np.all(same)),
            "integer weights that a double holds exactly: below 2^53",
            got="larger ones",
            fix="divide the row by a common factor",
            error=InvalidRelease,
        )
    return doubles
