"""Find the cells in packed signatures, the rows of each cell, and the cell of each signature."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sightline.tables.encoding import CodedKey, PackedCodes
from sightline.tables.membership import CellTable

_BLOCK = 1 << 16  # signatures per step, so that the arrays of a step fit the cache
_WIDEST = 1 << 62  # the product of code counts that still fits an integer of 64 bits


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowGrouping:
    """One way to group the rows into cells, in the order of their keys."""

    keys: tuple[tuple[str, ...], ...]
    rows: NDArray[np.int64]
    cell_of: CellTable  # for each signature; -1 for none


def group_rows(
    coded_keys: Sequence[CodedKey], parts: tuple[int, ...], words: PackedCodes, counts: NDArray[np.int64]
) -> RowGrouping:
    """Group the rows by the coded keys ``parts``. Code 0 means that a row does not meet their condition."""
    chosen = [coded_keys[part] for part in parts]
    combined, size = _combined(chosen, words, len(counts))
    blocks = [slice(start, start + max(_BLOCK, size)) for start in range(0, len(counts), max(_BLOCK, size))]
    totals = np.zeros(size)
    for block in blocks:
        totals += np.bincount(combined[block], counts[block], size)  # exact below 2^53 rows
    rows = totals.astype(np.int64)
    occurring = np.flatnonzero(rows)
    codes = _codes(chosen, words, combined, occurring, size)
    if chosen and chosen[0].condition is not None:
        met = codes[:, 0] > 0
        occurring, codes = occurring[met], codes[met]
    kind = np.int16 if occurring.size < np.iinfo(np.int16).max else np.int32
    numbered = np.full(size, -1, dtype=kind)
    numbered[occurring] = np.arange(occurring.size, dtype=kind)
    cell_of: CellTable = np.empty(len(counts), dtype=kind)
    for block in blocks:
        cell_of[block] = numbered[combined[block]]
    return RowGrouping(
        keys=tuple(
            tuple(
                coded.texts[code - coded.first]
                for coded, code in zip(chosen, row, strict=False)
                if coded.key is not None
            )
            for row in codes.tolist()
        ),
        rows=rows[occurring],
        cell_of=cell_of,
    )


def signature_table(groupings: Sequence[RowGrouping], grouping_of: Sequence[int]) -> CellTable:
    """The cell's number within the partition, for every signature (rows) and partition (columns)."""
    signatures = len(groupings[0].cell_of) if groupings else 1
    kind = np.result_type(np.int16, *(grouping.cell_of.dtype for grouping in groupings))
    table = np.empty((len(grouping_of), signatures), dtype=kind)
    for column, index in zip(table, grouping_of, strict=True):  # contiguous in memory
        column[:] = groupings[index].cell_of
    table.setflags(write=False)
    return table.T


def _combined(
    chosen: list[CodedKey], words: PackedCodes, signatures: int
) -> tuple[NDArray[np.int64] | NDArray[np.int32], int]:
    """Combine the codes into one number per signature, in key order and small enough to index an array."""
    if not chosen:
        return np.zeros(signatures, dtype=np.int32), 1
    if len(chosen) == 1:
        narrow = np.empty(signatures, dtype=np.int32)
        for start in range(0, signatures, _BLOCK):
            narrow[start : start + _BLOCK] = chosen[0].codes(words[:, start : start + _BLOCK])
        return narrow, chosen[0].size
    combined, size = chosen[0].codes(words), chosen[0].size
    for coded in chosen[1:]:
        if size * coded.size > _WIDEST:
            combined, size = _ranked(combined)
        combined, size = combined * coded.size + coded.codes(words), size * coded.size
    return _ranked(combined) if size > 4 * signatures + 65_536 else (combined, size)


def _codes(
    chosen: list[CodedKey],
    words: PackedCodes,
    combined: NDArray[np.int64] | NDArray[np.int32],
    occurring: NDArray[np.intp],
    size: int,
) -> NDArray[np.int64]:
    """The codes of each cell (rows) and coded key (columns), read from one signature in the cell."""
    if len(chosen) == 1:
        return occurring.astype(np.int64)[:, None]
    example = np.empty(size, dtype=np.intp)
    example[combined] = np.arange(len(combined))
    each = [coded.codes(words[:, example[occurring]]) for coded in chosen]
    return np.stack(each or [np.zeros(occurring.size, dtype=np.int64)], axis=1)


def _ranked(values: NDArray[np.int64]) -> tuple[NDArray[np.int64], int]:
    occurring, rank = np.unique(values, return_inverse=True)
    return rank.astype(np.int64), occurring.size
