"""The cells of signatures: numbered by the codes that their packed words hold, and counted.

A *layout* is one way to group the rows, a condition and some keys. The codes of its keys in a signature make
one number, and the numbers that occur are its cells, in order. Layouts are plain arrays that can travel to
the words.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.arrays import AT_A_TIME, IndexArray, parts
from sightline.errors import TooMuchWork
from sightline.tables.engines.protocol import Arrays, SignatureBatch
from sightline.tables.membership import CellTable
from sightline.values import frozen

PackedCodes = NDArray[np.int64]
Codes = NDArray[np.int64]
Numbers = NDArray[Any]  # whole numbers, or bytes in the same order where none has room for all codes
MOST_KEPT = 10_000  # signatures of a table that is streamed, or sets of conditions that rows meet together
WORD_BITS = 62  # of the signed 64-bit integers that every engine has: so many bits of codes fit one


@frozen(eq=True)
class CodePlace:
    """Where the code of a key is in the words, and how many codes it has."""

    word: int
    shift: int
    width: int
    size: int

    def codes(self, words: PackedCodes) -> Codes:
        """The codes in packed words (words × signatures)."""
        codes: Codes = (words[self.word] >> self.shift) & ((1 << self.width) - 1)
        return codes


@frozen(eq=True)
class Layout:
    """The keys of one way to group the rows, under one condition if there is one."""

    keys: tuple[CodePlace, ...]
    conditional: bool  # code 0 of the first key: the row does not meet the condition
    direct: bool = True  # whether its numbers are looked up in an array, not in a sorted list

    @classmethod
    def of(cls, keys: Sequence[CodePlace], *, conditional: bool, rows: int) -> Layout:
        """The layout of some keys of a table with some rows: an array is no longer than these, or short."""
        direct = math.prod(place.size for place in keys) <= max(AT_A_TIME, rows)
        return cls(keys=tuple(keys), conditional=conditional, direct=direct)

    @property
    def size(self) -> int:
        """How many numbers the codes of the keys can make."""
        return math.prod(place.size for place in self.keys)

    def numbers(self, words: PackedCodes) -> Numbers:
        """One number for the codes of each signature, ordered as its keys are."""
        return self.joined([place.codes(words) for place in self.keys], words.shape[1])

    def joined(self, codes: Sequence[Codes], length: int) -> Numbers:
        """The numbers of some codes, key by key."""
        if self.size > 1 << WORD_BITS:
            return np.stack(codes, axis=1).astype(">i8").view(f"S{8 * len(codes)}").ravel()
        numbers: Codes = codes[0] if codes else np.zeros(length, dtype=np.int64)
        for place, own in zip(self.keys[1:], codes[1:], strict=True):
            numbers = numbers * place.size + own
        return numbers

    def codes(self, numbers: Numbers) -> Codes:
        """The codes (numbers × keys) behind some numbers."""
        if self.size > 1 << WORD_BITS:
            whole = np.ascontiguousarray(numbers).view(">i8")
            return whole.reshape(-1, len(self.keys)).astype(np.int64)
        codes = np.zeros((numbers.size, len(self.keys)), dtype=np.int64)
        for position in range(len(self.keys) - 1, -1, -1):
            numbers, codes[:, position] = np.divmod(numbers, self.keys[position].size)
        return codes

    def met(self, numbers: Numbers) -> NDArray[np.bool_]:
        """Whether rows with these numbers meet the condition: whether they are in a cell."""
        met = np.ones(numbers.shape, dtype=np.bool_)
        return self.codes(numbers)[:, 0] > 0 if self.conditional else met


@frozen
class CellNumbers:
    """The cells of one layout: the numbers of its codes that occur, in order."""

    layout: Layout
    occurring: Numbers

    def lookup(self, kind: type[np.signedinteger[Any]]) -> CellTable:
        """Of a layout that is looked up in an array, the cell of each number; -1 for none."""
        table = np.full(self.layout.size if self.layout.direct else 0, -1, dtype=kind)
        if self.layout.direct:
            table[self.occurring] = np.arange(self.occurring.size)
        return table

    def cells(self, words: PackedCodes, lookup: CellTable) -> CellTable:
        """The cell of each signature; -1 for none."""
        numbers = self.layout.numbers(words)
        if self.layout.direct or not self.occurring.size:
            return np.asarray(lookup[numbers]) if lookup.size else np.full(numbers.size, -1, lookup.dtype)
        cell = np.searchsorted(self.occurring, numbers)
        occurs = self.occurring[np.minimum(cell, self.occurring.size - 1)] == numbers
        return np.where(occurs, cell, -1).astype(lookup.dtype)


@frozen
class SignatureCells:
    """The cells of every partition."""

    layouts: tuple[CellNumbers, ...]
    layout_of: tuple[int, ...]  # for each partition

    @property
    def widths(self) -> IndexArray:
        """How many cells each partition has."""
        return np.array([self.layouts[index].occurring.size for index in self.layout_of], dtype=np.intp)

    def table(self, words: PackedCodes) -> CellTable:
        """The cell of each signature in each partition (partitions × signatures); -1 for none."""
        kind = np.int16 if self.widths.max(initial=0) < np.iinfo(np.int16).max else np.int32
        table = np.empty((len(self.layout_of), words.shape[1]), dtype=kind)
        layout_of = np.array(self.layout_of)
        for index, numbers in enumerate(self.layouts):
            lines, lookup = np.flatnonzero(layout_of == index), numbers.lookup(kind)
            for block in parts(words.shape[1], each=32):  # half a megabyte of codes stays in the cache
                table[lines, block] = numbers.cells(words[:, block], lookup)
        table.setflags(write=False)
        return table


@frozen
class CellSizes:
    """How many rows each cell has, and one signature for every set of conditions that rows meet together.

    Signatures in the same partitions differ only in which cells they are in. So what depends on the
    partitions alone, such as how many releases a record is in, is read off these few signatures.

    It is a pass over a store. Sums are of whole numbers that doubles hold exactly, and ties go by the words
    of a signature, so that the order of the batches changes no bit.
    """

    layouts: tuple[Layout, ...]

    def of_batch(self, batch: SignatureBatch) -> Arrays:
        pattern, conditional = (
            np.zeros(len(batch), dtype=np.int64),
            [one for one in self.layouts if one.conditional],
        )
        for place, layout in enumerate(conditional):
            pattern |= (layout.keys[0].codes(batch.words) > 0).astype(np.int64) << np.int64(place)
        every = {"rows": np.array([batch.counts.sum()]), "known": np.array([batch.known.sum()])}
        sizes = self.sizes(batch.words, batch.counts)
        return every | sizes | _first_of_each(pattern, batch.words, batch.counts, batch.known)

    def sizes(self, words: PackedCodes, counts: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        """How many rows the numbers of every layout have."""
        sizes: dict[str, NDArray[Any]] = {}
        weights = counts.astype(np.float64)  # bincount would make doubles of them each time
        for number, layout in enumerate(self.layouts):
            if layout.direct:
                total = np.zeros(layout.size)
                for block in parts(counts.size):
                    total += np.bincount(layout.numbers(words[:, block]), weights[block], layout.size)
                sizes[f"rows{number}"] = total.astype(np.int64)
            else:
                sizes |= _summed(number, layout.numbers(words), counts)
        return sizes

    def merged(self, first: Arrays, second: Arrays) -> Arrays:
        sizes: dict[str, NDArray[Any]] = {name: first[name] + second[name] for name in ("rows", "known")}
        for number, layout in enumerate(self.layouts):
            if layout.direct:
                sizes[f"rows{number}"] = first[f"rows{number}"] + second[f"rows{number}"]
            else:
                codes, rows = _joined(first, second, f"codes{number}", f"rows{number}")
                sizes |= _summed(number, codes, rows)
        pattern, counts, known = _joined(first, second, "pattern", "counts", "known_of")
        words = np.concatenate([first["words"], second["words"]], axis=1)
        merged = _first_of_each(pattern, words, counts, known)
        if merged["pattern"].size > MOST_KEPT:
            raise TooMuchWork(
                f"expected at most {MOST_KEPT:,} sets of conditions that rows meet together, got more; "
                "such a table is not streamed: allow more with max_memory, or publish fewer conditions"
            )
        return sizes | merged

    def occurring(self, found: Arrays, number: int) -> tuple[Numbers, NDArray[np.int64]]:
        """The numbers of one layout that are cells, in order, and how many rows each has."""
        layout, rows = self.layouts[number], found[f"rows{number}"]
        numbers = np.flatnonzero(rows) if layout.direct else found[f"codes{number}"]
        rows = rows[numbers] if layout.direct else rows
        met = layout.met(numbers)
        return numbers[met], rows[met]


def _summed(number: int, codes: Numbers, rows: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
    occurring, cell_of = np.unique(codes, return_inverse=True)
    return {
        f"codes{number}": occurring,
        f"rows{number}": np.bincount(cell_of.ravel(), rows, occurring.size).astype(np.int64),
    }


def _first_of_each(
    pattern: NDArray[np.int64], words: PackedCodes, counts: NDArray[np.int64], known: NDArray[np.int64]
) -> dict[str, NDArray[Any]]:
    """Of each pattern the signature that comes first in the order of words."""
    each = [first_in_order(words, np.flatnonzero(pattern == one)) for one in np.unique(pattern)]
    chosen = np.array(each, dtype=np.intp)
    return {
        "pattern": pattern[chosen],
        "words": words[:, chosen],
        "counts": counts[chosen],
        "known_of": known[chosen],
    }


def first_in_order(words: PackedCodes, places: IndexArray) -> int:
    """Of the signatures at some places, that of the least words."""
    for word in words:
        places = places[word[places] == word[places].min()]
    return int(places[0])


def _joined(first: Arrays, second: Arrays, *names: str) -> Sequence[NDArray[Any]]:
    return [np.concatenate([first[name], second[name]]) for name in names]
