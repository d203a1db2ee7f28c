"""Signatures over disjoint cells: a table of millions of rows, and how many of them share a column.

A row of a table is in at most one cell of a partition, so its column is a list of cells, one a partition.
Products of rows are contingency tables of two partitions, and a quadratic form is a sum of look-ups in
blocks that fit a cache. Nothing of size cells × signatures is ever held.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import qr

from sightline.arrays import FloatArray, IndexArray
from sightline.errors import InvalidRelease, require
from sightline.labeled.dense import DensePattern, kinds_of
from sightline.labeled.forms import Forms
from sightline.labeled.pattern import EXACT, BoolArray, Pattern, Progress, checked_members

# Signatures in a block: indices and sums of a block stay in a cache with the tables that they look up.
_BLOCK = 1 << 17
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
    inside = bool(np.all((table >= -1) & (table < widths)))
    require(inside, "cells numbered from 0, -1 for none", got="others", error=InvalidRelease)
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

    table: NDArray[np.int32]  # partitions × signatures, numbered within a partition; its width for none
    widths: IndexArray  # cells of each partition
    counts: IndexArray
    sizes: IndexArray

    @classmethod
    def of(cls, signatures: NDArray[Any], widths: IndexArray, counts: IndexArray) -> CellPattern:
        """Turn, copy and lock a checked table."""
        table = np.empty(signatures.shape[::-1], dtype=np.int32)
        for line, column, width in zip(table, signatures.T, widths, strict=True):
            np.copyto(line, column, casting="same_kind")
            line[line < 0] = width
        sizes = [
            np.bincount(line, weights=counts, minlength=width + 1)[:width]
            for line, width in zip(table, widths, strict=True)
        ]
        lengths = np.concatenate(sizes).astype(np.intp)
        checked_members(lengths)
        for array in (table, widths, lengths):
            array.setflags(write=False)
        return cls(table=table, widths=widths, counts=counts, sizes=lengths)

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

    def gram(self, unknown: BoolArray, keys: FloatArray, progress: Progress) -> tuple[FloatArray, FloatArray]:
        products = np.zeros((self.lines, self.lines))
        sums = np.zeros((self.lines, keys.shape[1]))
        for start, stop, cells in self._blocks():
            known = ~unknown[start:stop]
            counts = self.counts[start:stop].astype(np.float64)
            counts[known] = 0.0
            for p, (first, width) in enumerate(zip(self.starts, self.widths, strict=True)):
                for key in range(keys.shape[1]):
                    weights = np.where(known, 0.0, keys[start:stop, key])
                    sums[first : first + width, key] += np.bincount(cells[p], weights, width + 1)[:width]
                for q, (other, length) in enumerate(
                    zip(self.starts[: p + 1], self.widths[: p + 1], strict=True)
                ):
                    pairs = cells[p] * (length + 1) + cells[q]
                    table = np.bincount(pairs, counts, (width + 1) * (length + 1))
                    block = table.reshape(width + 1, length + 1)[:width, :length]
                    products[first : first + width, other : other + length] += block
            progress("products of rows", stop / self.records)
        lower = np.tril(products)
        return lower + np.tril(products, -1).T, sums

    def forms(self, forms: Forms, unknown: BoolArray, progress: Progress) -> FloatArray:
        quadratic = len(forms.offsets)
        tables = self._tables(forms) if quadratic else {}
        linear = [
            _padded(forms.linear[:, s : s + w].T) for s, w in zip(self.starts, self.widths, strict=True)
        ]
        found = np.zeros((quadratic + len(forms.linear), self.records))
        for start, stop, cells in self._blocks():
            part = found[:, start:stop]
            part[:quadratic] = forms.offsets[:, None]
            for p, line in enumerate(cells):
                for row, values in zip(part[quadratic:], linear[p].T, strict=True):
                    row += np.take(values, line)
            for (p, q), blocks in tables.items():
                pairs = cells[p] * (self.widths[q] + 1) + cells[q] if p != q else cells[p]
                for form, table in blocks:
                    part[form] += np.take(table, pairs)
            part[:, ~unknown[start:stop]] = 0.0
            progress("records", stop / self.records)
        return found

    def columns(self, records: IndexArray) -> FloatArray:
        columns = np.zeros((self.lines, len(records)))
        for first, width, line in zip(self.starts, self.widths, self.table, strict=True):
            cells = line[records]
            inside = np.flatnonzero(cells < width)
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
            drawn[:, width] = 0
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
                place = np.full(width + 1, kept.size, dtype=np.int32)
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
        for start in range(0, self.records, _BLOCK):
            stop = min(start + _BLOCK, self.records)
            yield start, stop, self.table[:, start:stop].astype(np.intp)

    def _tables(self, forms: Forms) -> dict[tuple[int, int], list[tuple[int, FloatArray]]]:
        """For every two partitions, what a record in two of their cells adds to each form; zeros left out."""
        matrices = forms.matrices()
        tables: dict[tuple[int, int], list[tuple[int, FloatArray]]] = {}
        spans = [slice(s, s + w) for s, w in zip(self.starts, self.widths, strict=True)]
        for p, rows in enumerate(spans):
            for q, columns in enumerate(spans[: p + 1]):
                found = []
                for form in range(matrices.shape[2]):
                    block = matrices[rows, columns, form]
                    if not block.any():
                        continue
                    if p == q:  # a record is in one cell of a partition: only the diagonal counts
                        found.append((form, _padded(np.diagonal(block)[:, None]).ravel()))
                    else:
                        found.append((form, _padded(_padded(2 * block).T).T.ravel()))
                if found:
                    tables[p, q] = found
        return tables


def _padded(table: FloatArray) -> FloatArray:
    """A table with a last row of zeros: for records in no cell."""
    return np.concatenate([table, np.zeros((1, table.shape[1]))])
