"""From packed signatures to cells: which exist, how many rows each has, which one a signature is in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sightline.tables.encoding import Atom, Words
from sightline.tables.membership import CellTable

_BLOCK = (
    1 << 15
)  # signatures written at a time, so that a row of the table is filled while it is in the cache
_WIDEST = 1 << 62  # numbers that fit an integer of 64 bits


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cut:
    """One way to cut the rows into cells, in the order of their keys."""

    atoms: tuple[int, ...]
    codes: NDArray[np.int64]  # (cells, atoms)
    keys: tuple[tuple[str, ...], ...]
    rows: NDArray[np.int64]
    cell_of: NDArray[np.int32]  # per signature, -1 for rows that are in no cell


def cut(atoms: Sequence[Atom], parts: tuple[int, ...], words: Words, counts: NDArray[np.int64]) -> Cut:
    """The cells that the atoms ``parts`` make together; a row that misses their condition has code 0."""
    chosen = [atoms[part] for part in parts]
    combined, size = _combined(chosen, words, len(counts))
    rows = np.bincount(combined, weights=counts, minlength=size).astype(np.int64)  # exact below 2^53 rows
    found = np.flatnonzero(rows)
    example = np.empty(size, dtype=np.intp)
    example[combined] = np.arange(len(counts))
    codes = np.stack(
        [atom.codes(words[:, example[found]]) for atom in chosen] or [np.zeros(found.size, dtype=np.int64)],
        axis=1,
    )
    if chosen and chosen[0].condition is not None:
        met = codes[:, 0] > 0
        found, codes = found[met], codes[met]
    numbered = np.full(size, -1, dtype=np.int32)
    numbered[found] = np.arange(found.size, dtype=np.int32)
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
        cell_of=numbered[combined],
    )


def signature_table(cuts: Sequence[Cut], cut_of: Sequence[int]) -> CellTable:
    """One column per partition: the cell's position in the list of all cells, partition after partition."""
    signatures = len(cuts[0].cell_of) if cuts else 1
    table = np.empty((signatures, len(cut_of)), dtype=np.int32)
    offsets = np.cumsum([0, *(len(cuts[index].rows) for index in cut_of)])
    partial = [position for position, index in enumerate(cut_of) if (cuts[index].cell_of < 0).any()]
    for start in range(0, signatures, _BLOCK):
        block = slice(start, start + _BLOCK)
        for position, index in enumerate(cut_of):
            np.add(cuts[index].cell_of[block], np.int32(offsets[position]), out=table[block, position])
        for position in partial:
            table[block, position][cuts[cut_of[position]].cell_of[block] < 0] = -1
    return table


def _combined(chosen: list[Atom], words: Words, signatures: int) -> tuple[NDArray[np.int64], int]:
    """The atoms' codes as one number in the order of the keys, small enough to index an array."""
    if not chosen:
        return np.zeros(signatures, dtype=np.int64), 1
    combined, size = chosen[0].codes(words), chosen[0].size
    for atom in chosen[1:]:
        if size * atom.size > _WIDEST:
            combined, size = _ranked(combined)
        combined, size = combined * atom.size + atom.codes(words), size * atom.size
    return _ranked(combined) if size > 4 * signatures + 65_536 else (combined, size)


def _ranked(values: NDArray[np.int64]) -> tuple[NDArray[np.int64], int]:
    occurring, rank = np.unique(values, return_inverse=True)
    return rank.astype(np.int64), occurring.size
