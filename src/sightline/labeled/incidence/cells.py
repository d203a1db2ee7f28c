"""An incidence over disjoint cells: the signatures of a large table, and how many records share each.

A record is in at most one cell of a partition, so its column is a list of cells, one for each partition.
Products of rows are contingency tables of two partitions, and a quadratic form is a sum of look-ups in
blocks that fit a cache. Nothing of size cells × signatures is ever held.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import qr

from sightline.arrays import FloatArray, IndexArray
from sightline.errors import InvalidRelease, require
from sightline.labeled.column_forms import ColumnForms
from sightline.labeled.incidence.dense import DenseIncidence, numbered_columns
from sightline.labeled.incidence.protocol import EXACT, BoolArray, Incidence
from sightline.numerics.device import HOST, Device
from sightline.progress import Progress

# Entries of the table in a block: large enough to pay for the look-up tables, small enough for the cache.
_BLOCK = 1 << 22
# Above this share of partitions in cells, dense blocks and BLAS beat looking up pairs.
_FEW = 1 / 12


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
class CellIncidence:
    """The cell of each partition for every signature, with the number of records that share it."""

    table: NDArray[np.signedinteger]  # partitions × signatures; -1 for none
    widths: IndexArray  # cells of each partition
    counts: IndexArray
    sizes: IndexArray
    distinct: bool = True
    device: Device = HOST
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

    def seed(self) -> bytes:
        digest = hashlib.blake2b(repr((self.table.shape, self.widths.tolist())).encode())
        digest.update(self.table.data)
        digest.update(self.counts.data)
        return digest.digest()

    def gram(self, unknown: BoolArray, progress: Progress) -> FloatArray:
        return self.weighted_gram(unknown.astype(np.float64), progress)

    def weighted_gram(self, weights: FloatArray, progress: Progress) -> FloatArray:
        products = np.zeros((self.row_count, self.row_count))
        spans = [slice(s, s + w) for s, w in zip(self.starts, self.widths, strict=True)]
        for start, stop, cells in self._blocks():
            counts = weights[start:stop] * self.counts[start:stop]
            for p, rows in enumerate(spans):
                width = self.widths[p]
                for q, columns in enumerate(spans[:p]):
                    pairs = cells[q] * (width + 1) + cells[p]
                    table = np.bincount(pairs, counts, (self.widths[q] + 1) * (width + 1))
                    products[columns, rows] += table.reshape(-1, width + 1)[:-1, :-1]
                own = np.bincount(cells[p], counts, width + 1)[:-1]
                products[rows, rows].flat[:: width + 1] += own
            progress("products of rows", stop / self.records)
        products += np.triu(products, 1).T
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
        quadratic = len(forms.offsets)
        tables = self._tables(forms) if quadratic else {}
        linear = [
            _padded(forms.linear[:, s : s + w].T) for s, w in zip(self.starts, self.widths, strict=True)
        ]
        found = np.zeros((quadratic + len(forms.linear), self.records))

        def fill(span: tuple[int, int]) -> int:
            start, stop = span
            cells, part = self._block(start, stop), found[:, start:stop]
            part[:quadratic] = forms.offsets[:, None]
            for p, own in enumerate(cells):
                for row, values in zip(part[quadratic:], linear[p].T, strict=True):
                    row += np.take(values, own)
            for (p, q), blocks in tables.items():
                pairs = cells[p] * (self.widths[q] + 1) + cells[q] if p != q else cells[p]
                for form, table in blocks:
                    part[form] += np.take(table, pairs)
            part[:, ~unknown[start:stop]] = 0.0
            return stop

        spans = list(self._spans())
        # Looking up releases the interpreter lock: threads help if there are several blocks of records.
        with ThreadPoolExecutor(usable_cores()) as pool:
            for stop in pool.map(fill, spans) if len(spans) > 1 else map(fill, spans):
                progress("records", stop / self.records)
        return found

    def columns(self, records: IndexArray) -> FloatArray:
        columns = np.zeros((self.row_count, len(records)))
        for first, own in zip(self.starts, self.table, strict=True):
            cells = own[records]
            inside = np.flatnonzero(cells >= 0)
            columns[first + cells[inside], inside] = 1.0
        return columns

    def triangle(self, factors: FloatArray, scale: FloatArray) -> FloatArray:
        triangle = np.zeros((0, self.row_count))
        length = np.sqrt(self.counts) * factors
        for start in range(0, self.records, 4096):
            records = np.arange(start, min(start + 4096, self.records))
            block = self.columns(records) * scale[:, None] * length[records]
            (triangle,) = qr(np.vstack([triangle, block.T]), mode="r", check_finite=False)
            triangle = triangle[: self.row_count]
        return triangle

    def signatures(self, unknown: BoolArray) -> IndexArray:
        generator = np.random.default_rng(int.from_bytes(self.seed()[:16], "big"))
        keys = np.zeros((2, self.records), dtype=np.uint64)
        for own, width in zip(self.table, self.widths, strict=True):
            drawn = generator.integers(1 << 62, size=(2, width + 1), dtype=np.uint64)
            drawn[:, width] = 0  # which is what -1 looks up, too
            keys += drawn[:, own]
        keys[:, ~unknown] = 0
        return numbered_columns(keys)

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
                table.append(place[own])
                widths.append(kept.size)
        return CellIncidence(
            table=np.array(table),
            widths=np.array(widths, dtype=np.intp),
            counts=self.counts,
            sizes=self.sizes[rows],
            distinct=self.distinct and len(rows) == self.row_count,
            device=self.device,
        )

    def as_dense(self) -> DenseIncidence:
        """The same incidence as packed bits, for partitions of few cells each."""
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

    def _blocks(self) -> Iterator[tuple[int, int, IndexArray]]:
        for start, stop in self._spans():
            yield start, stop, self._block(start, stop)

    def _spans(self) -> Iterator[tuple[int, int]]:
        step = max(1, _BLOCK // len(self.widths))
        for start in range(0, self.records, step):
            yield start, min(start + step, self.records)

    def _block(self, start: int, stop: int) -> IndexArray:
        """Cells as indices, one past the last cell for none."""
        cells = self.table[:, start:stop].astype(np.intp)
        for own, width in zip(cells, self.widths, strict=True):
            own[own < 0] = width
        return cells

    def _tables(self, forms: ColumnForms) -> dict[tuple[int, int], list[tuple[int, FloatArray]]]:
        """For every two partitions, what a record in two of their cells adds to each form."""
        matrices = forms.matrices()
        tables: dict[tuple[int, int], list[tuple[int, FloatArray]]] = {}
        spans = [slice(s, s + w) for s, w in zip(self.starts, self.widths, strict=True)]
        for p, rows in enumerate(spans):
            for q, columns in enumerate(spans[: p + 1]):
                found = []
                for form, matrix in enumerate(matrices):
                    if p == q:  # a record is in one cell of a partition: only the diagonal counts
                        diagonal = matrix if matrix.ndim == 1 else np.diagonal(matrix)
                        found.append((form, _padded(diagonal[rows, None]).ravel()))
                    elif matrix.ndim == 2:
                        found.append((form, _padded(_padded(2 * matrix[rows, columns]).T).T.ravel()))
                if found:
                    tables[p, q] = found
        return tables


def usable_cores() -> int:
    """The processor cores that this process may use; where the system does not say, all of them."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _padded(table: FloatArray) -> FloatArray:
    """A table with a last row of zeros: for records in no cell."""
    return np.concatenate([table, np.zeros((1, table.shape[1]))])
