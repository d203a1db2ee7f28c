"""Signatures over disjoint cells: a table of millions of rows, and how many of them share a column.

A row of a table is in at most one cell of a partition, so its column is a list of cells, one a partition.
Products of rows are contingency tables of two partitions, and a quadratic form is a sum of look-ups in
blocks that fit a cache. Nothing of size cells × signatures is ever held.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import qr

from sightline.arrays import FloatArray, IndexArray
from sightline.errors import InvalidRelease, require
from sightline.labeled.forms import Forms
from sightline.labeled.incidence.dense import DensePattern, kinds_of
from sightline.labeled.incidence.protocol import EXACT, BoolArray, Pattern, checked_members
from sightline.progress import Progress

# Cells of signatures in a block: as many as do not make looking tables up slower than reading them in.
_BLOCK = 1 << 22
_THREADS = len(os.sched_getaffinity(0))
# Above this share of partitions in cells, dense blocks and BLAS beat looking up pairs.
_FEW = 1 / 12


def pattern_of_cells(signatures: ArrayLike, *, cells: ArrayLike, counts: ArrayLike) -> Pattern:
    """The pattern of signatures: the cell of each partition (−1 for none), one signature a row.

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
    pattern = CellPattern.of(table, widths, number)
    return pattern if few or widths.size <= 16 else pattern.as_dense()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CellPattern:
    """The cell of each partition for every signature, with the number of records that share it."""

    table: NDArray[np.signedinteger]  # partitions × signatures; -1 for none
    widths: IndexArray  # cells of each partition
    counts: IndexArray
    sizes: IndexArray

    @classmethod
    def of(cls, signatures: NDArray[Any], widths: IndexArray, counts: IndexArray) -> CellPattern:
        """Turn and lock a checked table; a copy, unless it is locked with a partition's numbers together."""
        kind = np.int16 if int(widths.max()) < np.iinfo(np.int16).max else np.int32
        table = signatures.T
        if table.flags.writeable or not table.flags.c_contiguous or table.dtype != kind:
            table = np.array(table, dtype=kind, order="C")
        pattern = cls(table=table, widths=widths, counts=counts, sizes=np.zeros(widths.sum(), dtype=np.intp))
        for start, stop, cells in pattern._blocks():
            for first, width, line in zip(pattern.starts, widths, cells, strict=True):
                together = np.bincount(line, counts[start:stop], width + 1)[:width]
                pattern.sizes[first : first + width] += together.astype(np.intp)
        checked_members(pattern.sizes)
        for array in (table, widths, pattern.sizes):
            array.setflags(write=False)
        return pattern

    @property
    def lines(self) -> int:
        return int(self.widths.sum())

    @property
    def records(self) -> int:
        return int(self.table.shape[1])

    @property
    def whole(self) -> bool:
        return True

    @property
    def binary(self) -> bool:
        return True

    @property
    def sparse(self) -> bool:
        return True

    @property
    def peaks(self) -> FloatArray:
        return np.ones(self.lines)

    @property
    def key_bits(self) -> int:
        return min(40, 53 - math.ceil(math.log2(max(2, self.records))))

    @property
    def starts(self) -> IndexArray:
        """The first line of each partition."""
        return np.asarray(np.concatenate([[0], np.cumsum(self.widths)[:-1]]), dtype=np.intp)

    def seed(self) -> bytes:
        digest = hashlib.blake2b(repr((self.table.shape, self.widths.tolist())).encode())
        digest.update(self.table.data)
        digest.update(self.counts.data)
        return digest.digest()

    def gram(self, unknown: BoolArray, progress: Progress) -> FloatArray:
        products = np.zeros((self.lines, self.lines))
        spans = [slice(s, s + w) for s, w in zip(self.starts, self.widths, strict=True)]
        for start, stop, cells in self._blocks():
            counts = np.where(unknown[start:stop], self.counts[start:stop], 0.0)
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
        images = np.zeros((len(keys), self.lines))
        for start, stop, cells in self._blocks():
            for key, sums in zip(keys[:, start:stop], images, strict=True):
                weights = np.where(unknown[start:stop], key, 0.0)
                for first, width, line in zip(self.starts, self.widths, cells, strict=True):
                    sums[first : first + width] += np.bincount(line, weights, width + 1)[:width]
        return images

    def forms(self, forms: Forms, unknown: BoolArray, progress: Progress) -> FloatArray:
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
            for p, line in enumerate(cells):
                for row, values in zip(part[quadratic:], linear[p].T, strict=True):
                    row += np.take(values, line)
            for (p, q), blocks in tables.items():
                pairs = cells[p] * (self.widths[q] + 1) + cells[q] if p != q else cells[p]
                for form, table in blocks:
                    part[form] += np.take(table, pairs)
            part[:, ~unknown[start:stop]] = 0.0
            return stop

        # Looking up leaves other threads free to run.
        with ThreadPoolExecutor(_THREADS) as pool:
            for stop in pool.map(fill, self._spans()):
                progress("records", stop / self.records)
        return found

    def columns(self, records: IndexArray) -> FloatArray:
        columns = np.zeros((self.lines, len(records)))
        for first, line in zip(self.starts, self.table, strict=True):
            cells = line[records]
            inside = np.flatnonzero(cells >= 0)
            columns[first + cells[inside], inside] = 1.0
        return columns

    def triangle(self, unknown: BoolArray, scale: FloatArray) -> FloatArray:
        triangle = np.zeros((0, self.lines))
        length = np.sqrt(self.counts) * unknown
        for start in range(0, self.records, 4096):
            records = np.arange(start, min(start + 4096, self.records))
            block = self.columns(records) * scale[:, None] * length[records]
            (triangle,) = qr(np.vstack([triangle, block.T]), mode="r", check_finite=False)
            triangle = triangle[: self.lines]
        return triangle

    def kinds(self, unknown: BoolArray) -> IndexArray:
        generator = np.random.default_rng(int.from_bytes(self.seed()[:16], "big"))
        keys = np.zeros((2, self.records), dtype=np.uint64)
        for line, width in zip(self.table, self.widths, strict=True):
            drawn = generator.integers(1 << 62, size=(2, width + 1), dtype=np.uint64)
            drawn[:, width] = 0  # which is what -1 looks up, too
            keys += drawn[:, line]
        keys[:, ~unknown] = 0
        return kinds_of(keys)

    def members(self, line: int) -> IndexArray:
        partition = int(np.searchsorted(self.starts, line, side="right")) - 1
        return np.flatnonzero(self.table[partition] == line - self.starts[partition])

    def integers(self) -> None:
        return None

    def take(self, lines: IndexArray) -> CellPattern:
        table, widths = [], []
        for first, width, line in zip(self.starts, self.widths, self.table, strict=True):
            kept = lines[(lines >= first) & (lines < first + width)] - first
            if kept.size:
                place = np.full(width + 1, -1, dtype=self.table.dtype)  # -1 looks up the last entry
                place[kept] = np.arange(kept.size)
                table.append(place[line])
                widths.append(kept.size)
        return CellPattern(
            table=np.array(table),
            widths=np.array(widths, dtype=np.intp),
            counts=self.counts,
            sizes=self.sizes[lines],
        )

    def as_dense(self) -> DensePattern:
        """The same pattern as packed bits, for partitions of few cells each."""
        packed = np.zeros((self.lines, -(-self.records // 8)), dtype=np.uint8)
        for first, width, line in zip(self.starts, self.widths, self.table, strict=True):
            for cell in range(width):
                packed[first + cell] = np.packbits(line == cell)
        packed.setflags(write=False)
        return DensePattern(
            stored=packed,
            records=self.records,
            binary=True,
            whole=True,
            sizes=self.sizes,
            peaks=self.peaks,
            counts=self.counts,
        )

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
        for line, width in zip(cells, self.widths, strict=True):
            line[line < 0] = width
        return cells

    def _tables(self, forms: Forms) -> dict[tuple[int, int], list[tuple[int, FloatArray]]]:
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


def _padded(table: FloatArray) -> FloatArray:
    """A table with a last row of zeros: for records in no cell."""
    return np.concatenate([table, np.zeros((1, table.shape[1]))])
