"""An incidence over disjoint cells: the signatures of a large table, and how many records share each.

A record is in at most one cell of a partition, so its column is a list of cells, one for each partition.
Products of rows are contingency tables of two partitions, and a quadratic form is a sum of look-ups in
blocks that fit a cache. Nothing of size cells × signatures is ever held.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import qr

from sightline.arrays import FloatArray, IndexArray, chosen_of
from sightline.errors import InvalidRelease, TooMuchWork, require
from sightline.labeled.column_forms import ColumnForms
from sightline.labeled.incidence.cell_forms import CellFormTables, block_of, spans
from sightline.labeled.incidence.dense import DenseIncidence
from sightline.labeled.incidence.protocol import EXACT, BoolArray, Incidence
from sightline.numerics.device import HOST, Device
from sightline.progress import Progress

# Above this share of partitions in cells, dense blocks and BLAS beat looking up pairs.
_FEW = 1 / 12
# Columns whose pairs of cells are counted at a time: few, so that their cells fit a cache, but at least as
# many as two partitions have pairs of cells, since the counts of all pairs are added up each time.
_COLUMNS_OF_PRODUCTS = 1 << 16
# Codes of cells, for each column, up to which a table of all codes is made; and what codes are hashed by.
_MOST_CODES, _MIXER = 4, np.uint64(0x9E3779B97F4A7C15)


def incidence_of_cells(signatures: ArrayLike, *, cells: ArrayLike, counts: ArrayLike) -> Incidence:
    """The incidence of signatures. A row of ``signatures`` is the cell in each partition (−1 for none).

    ``cells`` is the number of cells of each partition; the cells of partition p are numbered from 0.
    ``counts`` is the number of records with each signature. Signatures are distinct, or
    their records count as different groups.
    """
    table = np.asarray(signatures)
    widths = np.asarray(cells, dtype=np.intp)
    require(
        table.ndim == 2 and table.shape[1] == widths.size and table.dtype.kind == "i" and table.size > 0,
        f"signatures over {widths.size} partitions",
        got=f"shape {table.shape}, dtype {table.dtype}",
        error=InvalidRelease,
    )
    inside = table.min() >= -1 and np.all(table.max(axis=0) < widths)
    require(bool(inside), "cells numbered from 0, -1 for none", got="others", error=InvalidRelease)
    number = np.array(counts, dtype=np.intp)
    require(
        number.shape == table.shape[:1] and bool(np.all(number > 0)) and float(number.sum()) < EXACT,
        "a count of at least 1 for each signature",
        got=f"shape {number.shape}",
        error=InvalidRelease,
    )
    number.setflags(write=False)
    few = widths.size <= max(1, int(widths.sum()) * _FEW)
    incidence = CellIncidence.of(table, widths, number)
    return incidence if few or widths.size <= 16 else incidence.as_dense()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OtherColumns:
    """Columns of a large table that are not held: what they add to the products and sizes of rows."""

    products: FloatArray  # A Aᵀ over those of their records that the attacker does not know; exact integers
    sizes: IndexArray  # members of each row among their records, known ones too

    def take(self, rows: IndexArray) -> OtherColumns:
        """The same for some of the rows."""
        return OtherColumns(products=self.products[np.ix_(rows, rows)], sizes=self.sizes[rows])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CellIncidence:
    """The cell of each partition for every signature, with the number of records that share it.

    With ``others`` it holds some of the signatures. The products of rows and the sizes count all of them;
    forms, columns and keys are those of the signatures that are held.
    """

    table: NDArray[np.signedinteger]  # partitions × signatures; -1 for none
    widths: IndexArray  # cells of each partition
    counts: IndexArray
    sizes: IndexArray
    distinct: bool = True
    device: Device = HOST
    others: OtherColumns | None = None  # columns that only their products are held of; none if there are none
    # What was computed from the rows alone and is asked for again with other noise.
    computed: dict[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, signatures: NDArray[Any], widths: IndexArray, counts: IndexArray) -> CellIncidence:
        """Transpose and lock a checked table; copy it unless it is locked and in the right order."""
        kind = np.int16 if int(widths.max()) < np.iinfo(np.int16).max else np.int32
        table = signatures.T
        if table.flags.writeable or not table.flags.c_contiguous or table.dtype != kind:
            table = np.array(table, dtype=kind, order="C")
        incidence = cls(
            table=table, widths=widths, counts=counts, sizes=np.zeros(widths.sum(), dtype=np.intp)
        )
        for start, stop, cells in incidence._blocks():
            for first, width, own in zip(incidence.starts, widths, cells, strict=True):
                together = np.bincount(own, counts[start:stop], width + 1)[:width]
                incidence.sizes[first : first + width] += together.astype(np.intp)
        for array in (table, widths, incidence.sizes):
            array.setflags(write=False)
        return incidence

    @property
    def row_count(self) -> int:
        return int(self.widths.sum())

    @property
    def records(self) -> int:
        return int(self.table.shape[1])

    @property
    def whole(self) -> bool:
        return True

    @property
    def integral(self) -> bool:
        return True

    @property
    def binary(self) -> bool:
        return True

    @property
    def sparse(self) -> bool:
        return True

    @property
    def complete(self) -> bool:
        return self.others is None

    @property
    def peaks(self) -> FloatArray:
        return np.ones(self.row_count)

    @property
    def key_bits(self) -> int:
        return min(40, 53 - math.ceil(math.log2(max(2, self.records))))

    @property
    def starts(self) -> IndexArray:
        """The first row of each partition."""
        return np.asarray(np.concatenate([[0], np.cumsum(self.widths)[:-1]]), dtype=np.intp)

    def on(self, device: Device) -> CellIncidence:
        return replace(self, device=device)

    def among(self, others: OtherColumns) -> CellIncidence:
        """The same columns beside others that are not held."""
        sizes = self.sizes + others.sizes
        sizes.setflags(write=False)
        return replace(self, others=others, sizes=sizes, computed={})

    def seed(self) -> bytes:
        digest = hashlib.blake2b(repr((self.table.shape, self.widths.tolist())).encode())
        digest.update(self.table.data)
        digest.update(self.counts.data)
        if self.others is not None:
            digest.update(np.ascontiguousarray(self.others.products).data)
        return digest.digest()

    def gram(self, unknown: BoolArray, progress: Progress) -> FloatArray:
        found: tuple[BoolArray, FloatArray] | None = self.computed.get("gram")
        if found is None or not np.array_equal(found[0], unknown):
            products = self._products(unknown.astype(np.float64), progress)
            if self.others is not None:
                products += self.others.products
            products.setflags(write=False)
            self.computed["gram"] = found = (unknown.copy(), products)
        return found[1]

    def weighted_gram(self, weights: FloatArray, progress: Progress) -> FloatArray:
        self._require_all("weighted products")
        return self._products(weights, progress)

    def _products(self, weights: FloatArray, progress: Progress) -> FloatArray:
        pairs = [(p, q) for p in range(len(self.widths)) for q in range(p)]
        padded = self.widths + 1  # one more, for records in no cell
        together = [np.zeros(padded[q] * padded[p]) for p, q in pairs]
        alone = np.zeros(self.row_count)
        step = max(_COLUMNS_OF_PRODUCTS, sum(sums.size for sums in together) // max(1, len(pairs)))
        for start, stop, cells in self._blocks(step):
            counts = weights[start:stop] * self.counts[start:stop]
            place = np.empty(stop - start, dtype=np.intp)
            for (p, q), sums in zip(pairs, together, strict=True):
                np.multiply(cells[q], padded[p], out=place)
                place += cells[p]
                sums += np.bincount(place, counts, sums.size)
            for first, width, own in zip(self.starts, self.widths, cells, strict=True):
                alone[first : first + width] += np.bincount(own, counts, width + 1)[:-1]
            progress("products of rows", stop / self.records)
        products = np.diag(alone)
        rows_of = [slice(s, s + w) for s, w in zip(self.starts, self.widths, strict=True)]
        for (p, q), sums in zip(pairs, together, strict=True):
            block = sums.reshape(padded[q], padded[p])[:-1, :-1]
            products[rows_of[q], rows_of[p]] = block
            products[rows_of[p], rows_of[q]] = block.T
        return products

    def images(self, unknown: BoolArray, keys: FloatArray) -> FloatArray:
        images = np.zeros((len(keys), self.row_count))
        for start, stop, cells in self._blocks():
            for key, sums in zip(keys[:, start:stop], images, strict=True):
                weights = np.where(unknown[start:stop], key, 0.0)
                for first, width, own in zip(self.starts, self.widths, cells, strict=True):
                    sums[first : first + width] += np.bincount(own, weights, width + 1)[:width]
        return images

    def forms(self, forms: ColumnForms, unknown: BoolArray, progress: Progress) -> FloatArray:
        found = CellFormTables.of(forms, self.widths).of_cells(self.table, progress)
        if not unknown.all():
            found[:, ~unknown] = 0.0
        return found

    def columns(self, records: IndexArray) -> FloatArray:
        columns = np.zeros((self.row_count, len(records)))
        for first, own in zip(self.starts, self.table, strict=True):
            cells = own[records]
            inside = np.flatnonzero(cells >= 0)
            columns[first + cells[inside], inside] = 1.0
        return columns

    def triangle(self, factors: FloatArray, scale: FloatArray) -> FloatArray:
        self._require_all("a factorisation of the rows")
        triangle = np.zeros((0, self.row_count))
        length = np.sqrt(self.counts) * factors
        for start in range(0, self.records, 4096):
            records = np.arange(start, min(start + 4096, self.records))
            block = self.columns(records) * scale[:, None] * length[records]
            (triangle,) = qr(np.vstack([triangle, block.T]), mode="r", check_finite=False)
            triangle = triangle[: self.row_count]
        return triangle

    def signatures(self, unknown: BoolArray) -> IndexArray:
        """For every unknown record the first unknown one with the same column."""
        codes, numbers = self._codes(), np.arange(self.records)
        places = numbers if unknown.all() else np.flatnonzero(unknown)
        codes = [chosen_of(code, unknown) for code in codes]
        if len(codes) == 1 and int(codes[0].max()) < _MOST_CODES * self.records:
            first = np.zeros(int(codes[0].max()) + 1, dtype=np.intp)
            first[codes[0][::-1]] = places[::-1]
            numbers[places] = first[codes[0]]
            return numbers
        # Equal columns have equal hashes, so a column whose hash is no other's has no equal.
        hashes = np.zeros(places.size, dtype=np.uint64)
        for code in codes:
            hashes += code.view(np.uint64)
            hashes *= _MIXER
        ordered = np.sort(hashes)
        repeated = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
        if repeated.size:
            near = np.minimum(np.searchsorted(repeated, hashes), repeated.size - 1)
            shared = np.flatnonzero(repeated[near] == hashes)
            own = [code[shared] for code in codes]
            order = np.lexsort(own)
            change = np.any([code[order[1:]] != code[order[:-1]] for code in own], axis=0)
            starts = np.flatnonzero(np.concatenate([[True], change]))
            shared = places[shared[order]]  # equal columns together, each run in order
            numbers[shared] = np.repeat(shared[starts], np.diff(starts, append=shared.size))
        return numbers

    def _codes(self) -> list[NDArray[np.int64]]:
        """A column's cells as whole numbers from 0, as many as hold the cells of all partitions."""
        codes: list[NDArray[np.int64]] = []
        room = 0
        for own, width in zip(self.table, self.widths.tolist(), strict=True):
            if room < width + 1:
                codes.append(np.zeros(self.records, dtype=np.int64))
                room = 1 << 62
            codes[-1] *= width + 1
            codes[-1] += own
            codes[-1] += 1
            room //= width + 1
        return codes

    def members(self, row: int) -> IndexArray:
        partition = int(np.searchsorted(self.starts, row, side="right")) - 1
        return np.flatnonzero(self.table[partition] == row - self.starts[partition])

    def integers(self) -> None:
        return None

    def take(self, rows: IndexArray) -> CellIncidence:
        table, widths = [], []
        for first, width, own in zip(self.starts, self.widths, self.table, strict=True):
            kept = rows[(rows >= first) & (rows < first + width)] - first
            if kept.size:
                place = np.full(width + 1, -1, dtype=self.table.dtype)  # -1 looks up the last entry
                place[kept] = np.arange(kept.size)
                table.append(own if kept.size == width else place[own])
                widths.append(kept.size)
        return CellIncidence(
            table=np.array(table),
            widths=np.array(widths, dtype=np.intp),
            counts=self.counts,
            sizes=self.sizes[rows],
            distinct=self.distinct and len(rows) == self.row_count,
            device=self.device,
            others=None if self.others is None else self.others.take(rows),
            computed=self._computed_of(rows),
        )

    def _computed_of(self, rows: IndexArray) -> dict[str, Any]:
        """What was computed, as far as it says something about some of the rows."""
        found: dict[str, Any] = {}
        if "gram" in self.computed:
            unknown, products = self.computed["gram"]
            products = products[np.ix_(rows, rows)]
            products.setflags(write=False)
            found["gram"] = (unknown, products)
        if "decided" in self.computed:
            found["decided"] = self.computed["decided"].of_rows(rows)
        return found

    def as_dense(self) -> DenseIncidence:
        """The same incidence as packed bits, for partitions of few cells each."""
        self._require_all("packed bits")
        packed = np.zeros((self.row_count, -(-self.records // 8)), dtype=np.uint8)
        for first, width, own in zip(self.starts, self.widths, self.table, strict=True):
            for cell in range(width):
                packed[first + cell] = np.packbits(own == cell)
        packed.setflags(write=False)
        return DenseIncidence(
            stored=packed,
            records=self.records,
            binary=True,
            whole=True,
            integral=True,
            sizes=self.sizes,
            peaks=self.peaks,
            counts=self.counts,
            distinct=self.distinct,
        ).on(self.device)

    def _require_all(self, what: str) -> None:
        """What needs every column cannot be had where some are not held."""
        if not self.complete:
            raise TooMuchWork(
                f"expected a table whose signatures are all in memory for {what}, got one that is streamed; "
                "allow more with max_memory"
            )

    def _blocks(self, columns: int | None = None) -> Iterator[tuple[int, int, IndexArray]]:
        """The cells of some columns at a time, at most ``columns``, and which columns these are."""
        for start, stop in spans(self.table, columns):
            yield start, stop, block_of(self.table, self.widths, start, stop)
