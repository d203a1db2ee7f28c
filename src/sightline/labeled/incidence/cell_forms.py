"""Forms of columns that are cells of partitions: sums of look-ups in blocks that fit a cache.

A record is in at most one cell of a partition, so a quadratic form of its column reads one entry of the
form's matrix for every two partitions.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sightline.arrays import FloatArray, IndexArray
from sightline.labeled.column_forms import ColumnForms
from sightline.progress import Progress

# Entries of the table in a block: large enough to pay for the look-up tables, small enough for the cache.
_BLOCK = 1 << 22


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CellFormTables:
    """Forms of a record's column as look-ups: for every two partitions, what a record in their cells adds."""

    widths: IndexArray
    offsets: FloatArray
    quadratic: dict[tuple[int, int], list[tuple[int, FloatArray]]]  # by two partitions: a form and a table
    linear: tuple[FloatArray, ...]  # for each partition, cells × linear forms

    @classmethod
    def of(cls, forms: ColumnForms, widths: IndexArray) -> CellFormTables:
        """The tables of some forms over partitions of so many cells."""
        matrices = forms.matrices() if len(forms.offsets) else ()
        starts = np.cumsum(widths) - widths
        cells_of = [slice(s, s + w) for s, w in zip(starts, widths, strict=True)]
        tables: dict[tuple[int, int], list[tuple[int, FloatArray]]] = {}
        for p, rows in enumerate(cells_of):
            for q, columns in enumerate(cells_of[: p + 1]):
                found = []
                for form, matrix in enumerate(matrices):
                    if p == q:  # a record is in one cell of a partition: only the diagonal counts
                        diagonal = matrix if matrix.ndim == 1 else np.diagonal(matrix)
                        found.append((form, _padded(diagonal[rows, None]).ravel()))
                    elif matrix.ndim == 2:
                        found.append((form, _padded(_padded(2 * matrix[rows, columns]).T).T.ravel()))
                if found:
                    tables[p, q] = found
        return cls(
            widths=widths,
            offsets=np.asarray(forms.offsets),
            quadratic=tables,
            linear=tuple(_padded(forms.linear[:, span].T) for span in cells_of),
        )

    def of_cells(self, table: NDArray[np.signedinteger], progress: Progress) -> FloatArray:
        """Every form of every column, given by its cell in each partition (partitions × columns)."""
        quadratic, columns = len(self.offsets), table.shape[1]
        found = np.zeros((quadratic + (self.linear[0].shape[1] if self.linear else 0), columns))

        def fill(span: tuple[int, int]) -> int:
            start, stop = span
            cells, part = block_of(table, self.widths, start, stop), found[:, start:stop]
            part[:quadratic] = self.offsets[:, None]
            for own, values in zip(cells, self.linear, strict=True):
                for row, weights in zip(part[quadratic:], values.T, strict=True):
                    row += np.take(weights, own)
            for (p, q), blocks in self.quadratic.items():
                pairs = cells[p] * (self.widths[q] + 1) + cells[q] if p != q else cells[p]
                for form, entries in blocks:
                    part[form] += np.take(entries, pairs)
            return stop

        blocks_of_columns = list(spans(table))
        # Looking up releases the interpreter lock: threads help if there are several blocks of records.
        with ThreadPoolExecutor(usable_cores()) as pool:
            several = len(blocks_of_columns) > 1
            for stop in (pool.map if several else map)(fill, blocks_of_columns):
                progress("records", stop / columns)
        return found


def spans(table: NDArray[np.signedinteger], most: int | None = None) -> Iterator[tuple[int, int]]:
    """The starts and ends of blocks of columns, with at most so many columns each."""
    partitions, columns = table.shape
    step = max(1, min(_BLOCK // max(1, partitions), columns if most is None else most))
    for start in range(0, columns, step):
        yield start, min(start + step, columns)


def block_of(table: NDArray[np.signedinteger], widths: IndexArray, start: int, stop: int) -> IndexArray:
    """Cells of some columns as indices, one past the last cell for none."""
    cells = table[:, start:stop].astype(np.intp)
    for own, stored, width in zip(cells, table[:, start:stop], widths, strict=True):
        if stored.min(initial=0) < 0:
            own[own < 0] = width
    return cells


def usable_cores() -> int:
    """The processor cores that this process may use; where the system does not say, all of them."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _padded(table: FloatArray) -> FloatArray:
    """A table with a last row of zeros: for records in no cell."""
    return np.concatenate([table, np.zeros((1, table.shape[1]))])
