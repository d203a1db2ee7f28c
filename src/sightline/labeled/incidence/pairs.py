"""The pairs of rows that have a record in common: products and quadratic forms without a dense matrix.

A record in few rows meets few pairs of them. The matrix of products of rows is zero at all other pairs, and
a quadratic form of a record's column reads the form's matrix at the record's own pairs only. So both are kept
as one number for each pair that occurs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sightline.arrays import FloatArray, IndexArray
from sightline.labeled.incidence.cells import CellIncidence
from sightline.labeled.incidence.protocol import Incidence
from sightline.labeled.incidence.sparse import SparseIncidence
from sightline.progress import Progress

# Pairs that are looked up, over all columns: four bytes each, eight more where columns differ in length.
_MOST_PAIRS = 1_500_000_000
# Tables of two partitions up to this size are counted directly; larger ones are sorted.
_DIRECT = 1 << 24


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PairsOfSlots:
    """The pairs between two partitions, or all pairs of a sparse incidence."""

    offset: int  # the first of their entries
    count: int
    place: NDArray[np.int32]  # the entry after the offset, of each column or listed pair; ``count`` for none
    column: NDArray[np.int32] | None = None  # of each listed pair; ``None``: one for each column
    weight: FloatArray | None = None  # the product of the two weights; ``None``: ones
    partitions: tuple[int, int] | None = None  # whose cells these are


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowPairs:
    """Every pair of rows with a column in common, as entries of a symmetric matrix, each once.

    The first entries are the diagonal: one for each row.
    """

    incidence: CellIncidence | SparseIncidence
    first: IndexArray
    second: IndexArray
    slots: tuple[PairsOfSlots, ...]

    @classmethod
    def of(
        cls, incidence: Incidence, progress: Progress, *, most_entries: float = math.inf
    ) -> RowPairs | None:
        """The pairs; ``None`` where the incidence is dense or not complete, or there are too many."""
        if pair_count(incidence) > _MOST_PAIRS or not incidence.complete:
            return None
        if isinstance(incidence, CellIncidence):
            return _of_cells(incidence, progress, most_entries)
        if isinstance(incidence, SparseIncidence):
            pairs = _of_columns(incidence)
            return pairs if pairs.entries <= most_entries else None
        return None

    @property
    def entries(self) -> int:
        return int(self.first.size)

    def products(self, weights: FloatArray) -> FloatArray:
        """``A diag(weights) Aᵀ`` at every entry; a column that stands for several records counts for each."""
        incidence = self.incidence
        each = weights if incidence.counts is None else weights * incidence.counts
        found = np.zeros(self.entries)
        found[: incidence.row_count] = self._diagonal_products(each)
        for slots in self.slots:
            own = each if slots.column is None else each[slots.column]
            own = own if slots.weight is None else own * slots.weight
            sums = np.bincount(slots.place, own, slots.count + 1)[: slots.count]
            found[slots.offset : slots.offset + slots.count] += sums
        return found

    def forms(self, values: FloatArray) -> FloatArray:
        r""":math:`a_j^\top Y a_j` for every column, for each row of values of a Y at the entries."""
        found = self.diagonal_forms(values)
        for slots in self.slots:
            for form, own in zip(found, values, strict=True):
                table = np.append(2 * own[slots.offset : slots.offset + slots.count], 0.0)
                looked_up = np.take(table, slots.place)
                if slots.weight is not None:
                    looked_up *= slots.weight
                if slots.column is None:
                    form += looked_up
                else:
                    form += np.bincount(slots.column, looked_up, form.size)
        return found

    def _diagonal_products(self, each: FloatArray) -> FloatArray:
        incidence = self.incidence
        if isinstance(incidence, SparseIncidence):
            return np.asarray(incidence.stored.power(2) @ each)
        sums = np.zeros(incidence.row_count)
        for start, width, own in zip(incidence.starts, incidence.widths, incidence.table, strict=True):
            sums[start : start + width] = np.bincount(own + 1, each, width + 1)[1:]
        return sums

    def diagonal_forms(self, values: FloatArray) -> FloatArray:
        r""":math:`\sum_\ell a_{\ell j}^2 y_\ell` for every column, for each row of values, y first."""
        incidence = self.incidence
        if isinstance(incidence, SparseIncidence):
            return np.asarray((incidence.stored.power(2).T @ values[:, : incidence.row_count].T).T)
        found = np.zeros((len(values), incidence.records))
        for start, width, own in zip(incidence.starts, incidence.widths, incidence.table, strict=True):
            for form, value in zip(found, values[:, start : start + width], strict=True):
                form += np.take(np.append(value, 0.0), own)  # -1 looks up the last entry
        return found


def pair_count(incidence: Incidence) -> float:
    """How many pairs of rows its columns have, counting repetitions."""
    if isinstance(incidence, CellIncidence):
        partitions = incidence.widths.size
        return incidence.records * partitions * (partitions - 1) / 2
    if isinstance(incidence, SparseIncidence):
        degree = np.diff(incidence.stored.indptr).astype(np.float64)
        return 4 * float(np.sum(degree * (degree - 1) / 2))
    return math.inf


def _of_cells(incidence: CellIncidence, progress: Progress, most_entries: float) -> RowPairs | None:
    rows = np.arange(incidence.row_count)
    first, second, slots = [rows], [rows], []
    offset = incidence.row_count
    partitions = incidence.widths.size
    for p in range(partitions):
        for q in range(p):
            pairs, place = _pairs_between(incidence, p, q)
            own, other = np.divmod(pairs, int(incidence.widths[q]))
            first.append(incidence.starts[p] + own)
            second.append(incidence.starts[q] + other)
            slots.append(PairsOfSlots(offset=offset, count=pairs.size, place=place, partitions=(p, q)))
            offset += pairs.size
            if offset > most_entries:
                return None
        progress("pairs of rows", (p + 1) * p / max(1, partitions * (partitions - 1)))
    return RowPairs(
        incidence=incidence, first=np.concatenate(first), second=np.concatenate(second), slots=tuple(slots)
    )


def _pairs_between(incidence: CellIncidence, p: int, q: int) -> tuple[IndexArray, NDArray[np.int32]]:
    """The pairs of cells of two partitions that occur, as sorted numbers, and each column's place there."""
    width, other = int(incidence.widths[p]), int(incidence.widths[q])
    own, second = incidence.table[p], incidence.table[q]
    keys = own.astype(np.int64) * other + second
    none = (own < 0) | (second < 0)
    if none.any():
        keys[none] = width * other
    if width * other < _DIRECT:
        pairs = np.flatnonzero(np.bincount(keys, minlength=width * other)[: width * other])
        number = np.zeros(width * other + 1, dtype=np.int32)
        number[pairs] = np.arange(pairs.size)
        number[-1] = pairs.size
        return pairs, number[keys]
    pairs, place = np.unique(keys, return_inverse=True)
    pairs = pairs[pairs < width * other]
    return pairs.astype(np.intp), place.astype(np.int32)


def _of_columns(incidence: SparseIncidence) -> RowPairs:
    stored, count = incidence.stored, incidence.row_count
    degrees = np.diff(stored.indptr)
    keys, columns, weights = [], [], []
    for degree in np.unique(degrees[degrees > 1]).tolist():
        chosen = np.flatnonzero(degrees == degree)
        places = stored.indptr[:-1][chosen][:, None] + np.arange(degree)
        rows, values = stored.indices[places].astype(np.int64), stored.data[places]
        higher, lower = np.tril_indices(degree, -1)
        keys.append((rows[:, higher] * count + rows[:, lower]).ravel())
        columns.append(np.repeat(chosen, higher.size).astype(np.int32))
        weights.append((values[:, higher] * values[:, lower]).ravel())
    diagonal = np.arange(count)
    if not keys:
        return RowPairs(incidence=incidence, first=diagonal, second=diagonal, slots=())
    pairs, place = np.unique(np.concatenate(keys), return_inverse=True)
    slots = PairsOfSlots(
        offset=count,
        count=pairs.size,
        place=place.astype(np.int32),
        column=np.concatenate(columns),
        weight=None if incidence.binary else np.concatenate(weights),
    )
    return RowPairs(
        incidence=incidence,
        first=np.concatenate([diagonal, pairs // count]),
        second=np.concatenate([diagonal, pairs % count]),
        slots=(slots,),
    )
