"""From packed signatures to cells: which exist, how many rows each has, which one a signature is in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sightline.tables.encoding import Atom, Words
from sightline.tables.membership import CellTable

_BLOCK = 1 << 16  # signatures at a time, so that what is computed of them stays in a cache
_WIDEST = 1 << 62  # numbers that fit an integer of 64 bits


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cut:
    """One way to cut the rows into cells, in the order of their keys."""

    atoms: tuple[int, ...]
    codes: NDArray[np.int64]  # (cells, atoms)
    keys: tuple[tuple[str, ...], ...]
    rows: NDArray[np.int64]
    cell_of: CellTable  # per signature, -1 for rows that are in no cell


def cut(atoms: Sequence[Atom], parts: tuple[int, ...], words: Words, counts: NDArray[np.int64]) -> Cut:
    """The cells that the atoms ``parts`` make together; a row that misses their condition has code 0."""
    chosen = [atoms[part] for part in parts]
    combined, size = _combined(chosen, words, len(counts))
    blocks = [slice(start, start + max(_BLOCK, size)) for start in range(0, len(counts), max(_BLOCK, size))]
    totals = np.zeros(size)
    for block in blocks:
        totals += np.bincount(combined[block], counts[block], size)  # exact below 2^53 rows
    rows = totals.astype(np.int64)
    found = np.flatnonzero(rows)
    codes = _codes(chosen, words, combined, found, size)
    if chosen and chosen[0].condition is not None:
        met = codes[:, 0] > 0
        found, codes = found[met], codes[met]
    kind = np.int16 if found.size < np.iinfo(np.int16).max else np.int32
    numbered = np.full(size, -1, dtype=kind)
    numbered[found] = np.arange(found.size, dtype=kind)
    cell_of: CellTable = np.empty(len(counts), dtype=kind)
    for block in blocks:
        cell_of[block] = numbered[combined[block]]
    return Cut(
        atoms=parts,
        codes=codes,
        keys=tuple(
            tuple(
                atom.texts[code - atom.first]
                for atom, code in zip(chosen, row, strict=False)
                if atom.key is not None
            )
            for row in codes.tolist()
        ),
        rows=rows[found],
        cell_of=cell_of,
    )


def signature_table(cuts: Sequence[Cut], cut_of: Sequence[int]) -> CellTable:
    """One column per partition, its numbers together in memory: the cell's number within the partition."""
    signatures = len(cuts[0].cell_of) if cuts else 1
    kind = np.result_type(np.int16, *(one.cell_of.dtype for one in cuts))
    table = np.empty((len(cut_of), signatures), dtype=kind)
    for line, index in zip(table, cut_of, strict=True):
        line[:] = cuts[index].cell_of
    table.setflags(write=False)
    return table.T


def _combined(
    chosen: list[Atom], words: Words, signatures: int
) -> tuple[NDArray[np.int64] | NDArray[np.int32], int]:
    """The atoms' codes as one number in the order of the keys, small enough to index an array."""
    if not chosen:
        return np.zeros(signatures, dtype=np.int32), 1
    if len(chosen) == 1:
        narrow = np.empty(signatures, dtype=np.int32)
        for start in range(0, signatures, _BLOCK):
            narrow[start : start + _BLOCK] = chosen[0].codes(words[:, start : start + _BLOCK])
        return narrow, chosen[0].size
    combined, size = chosen[0].codes(words), chosen[0].size
    for atom in chosen[1:]:
        if size * atom.size > _WIDEST:
            combined, size = _ranked(combined)
        combined, size = combined * atom.size + atom.codes(words), size * atom.size
    return _ranked(combined) if size > 4 * signatures + 65_536 else (combined, size)


def _codes(
    chosen: list[Atom],
    words: Words,
    combined: NDArray[np.int64] | NDArray[np.int32],
    found: NDArray[np.intp],
    size: int,
) -> NDArray[np.int64]:
    """The codes of the cells that were found, one atom a column; read off any signature in the cell."""
    if len(chosen) == 1:
        return found.astype(np.int64)[:, None]
    example = np.empty(size, dtype=np.intp)
    example[combined] = np.arange(len(combined))
    each = [atom.codes(words[:, example[found]]) for atom in chosen]
    return np.stack(each or [np.zeros(found.size, dtype=np.int64)], axis=1)


def _ranked(values: NDArray[np.int64]) -> tuple[NDArray[np.int64], int]:
    occurring, rank = np.unique(values, return_inverse=True)
    return rank.astype(np.int64), occurring.size
