"""From the packed words of a signature to its cells, with plain arrays that can travel to the words.

A *layout* is one way to group the rows: a condition and some keys. The codes of its keys in a signature make
one number, and the numbers that occur are its cells, in order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sightline.arrays import FloatArray, IndexArray
from sightline.tables.collect import SUM_OF_V, CountedTable
from sightline.tables.encoding import CodedKey, PackedCodes
from sightline.tables.engines.protocol import Engine

Codes = NDArray[np.int64]

_WIDEST = 1 << 62  # the most codes of a layout that fit an integer of 64 bits
DIRECT = 1 << 22  # layouts with at most so many codes are looked up in an array, others in a sorted list


@dataclass(frozen=True, slots=True, kw_only=True)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The keys of one way to group the rows, under one condition if there is one."""

    keys: tuple[CodePlace, ...]
    conditional: bool  # code 0 of the first key: the row does not meet the condition

    @classmethod
    def of(cls, coded_keys: Sequence[CodedKey]) -> Layout:
        """The layout of some coded keys."""
        places = tuple(
            CodePlace(word=key.word, shift=key.shift, width=key.width, size=key.size) for key in coded_keys
        )
        return cls(keys=places, conditional=bool(coded_keys) and coded_keys[0].condition is not None)

    @property
    def size(self) -> int:
        """How many numbers the codes of the keys can make."""
        return math.prod(place.size for place in self.keys)

    @property
    def fits(self) -> bool:
        """Whether each of them fits an integer of 64 bits."""
        return self.size <= _WIDEST

    def numbers(self, words: PackedCodes) -> Codes:
        """One number for the codes of each signature, ordered as its keys are."""
        numbers: Codes = np.zeros(words.shape[1], dtype=np.int64)
        for place in self.keys:
            numbers = numbers * place.size + place.codes(words)
        return numbers

    def codes(self, numbers: Codes) -> Codes:
        """The codes (numbers × keys) behind some numbers."""
        codes = np.zeros((numbers.size, len(self.keys)), dtype=np.int64)
        for position in range(len(self.keys) - 1, -1, -1):
            numbers, codes[:, position] = np.divmod(numbers, self.keys[position].size)
        return codes

    def met(self, numbers: Codes) -> NDArray[np.bool_]:
        """Whether rows with these numbers meet the condition: whether they are in a cell."""
        if not self.conditional:
            return np.ones(numbers.shape, dtype=np.bool_)
        return np.asarray(numbers >= math.prod(place.size for place in self.keys[1:]))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CellNumbers:
    """The cells of one layout: the numbers of its codes that occur, in order."""

    layout: Layout
    occurring: Codes

    def cells(self, words: PackedCodes) -> NDArray[np.int32]:
        """The cell of each signature; -1 for none."""
        numbers, size = self.layout.numbers(words), self.layout.size
        if size <= DIRECT:
            table = np.full(size, -1, dtype=np.int32)
            table[self.occurring] = np.arange(self.occurring.size, dtype=np.int32)
            return np.asarray(table[numbers])
        if not self.occurring.size:
            return np.full(numbers.size, -1, dtype=np.int32)
        place = np.searchsorted(self.occurring, numbers)
        found = self.occurring[np.minimum(place, self.occurring.size - 1)] == numbers
        return np.where(found, place, -1).astype(np.int32)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SignatureCells:
    """The cells of every partition."""

    layouts: tuple[CellNumbers, ...]
    layout_of: tuple[int, ...]  # for each partition

    @property
    def widths(self) -> IndexArray:
        """How many cells each partition has."""
        return np.array([self.layouts[index].occurring.size for index in self.layout_of], dtype=np.intp)

    @property
    def filled(self) -> SignatureCells:
        """The same without partitions that have no cells: they publish nothing."""
        own = tuple(index for index in self.layout_of if self.layouts[index].occurring.size)
        return replace(self, layout_of=own)

    def table(self, words: PackedCodes) -> NDArray[np.int32]:
        """The cell of each signature in each partition (partitions × signatures); -1 for none."""
        each = [numbers.cells(words) for numbers in self.layouts]
        table = np.empty((len(self.layout_of), words.shape[1]), dtype=np.int32)
        for line, index in zip(table, self.layout_of, strict=True):
            line[:] = each[index]
        return table


_PER_QUERY = 200  # signatures


def cell_totals(engine: Engine, counted: CountedTable, cells: SignatureCells) -> FloatArray:
    """For every cell, partition after partition, the sum of the secrets that the attacker does not know, and
    how many they are."""
    each = [
        _layout_totals(engine, counted, parts, numbers)
        for parts, numbers in zip(counted.encoding.layouts, cells.layouts, strict=True)
    ]
    return np.concatenate([each[index] for index in cells.layout_of], axis=1)


def words_totals(engine: Engine, counted: CountedTable, words: Sequence[tuple[int, ...]]) -> FloatArray:
    """The same for every signature of some, given by their words."""
    encoding = counted.encoding
    names = [f"w{position}" for position in range(len(encoding.words))]
    listed = ", ".join(f"{text} AS {name}" for text, name in zip(encoding.words, names, strict=True))
    coded = f"SELECT {listed}, {counted.unknown_secret} AS v FROM {encoding.coded_source(*_texts(counted))}"
    by = ", ".join(names)
    found: dict[tuple[int, ...], float] = {}
    for start in range(0, len(words), _PER_QUERY):
        wanted = " OR ".join(
            "(" + " AND ".join(f"{name} = {int(word)}" for name, word in zip(names, own, strict=True)) + ")"
            for own in words[start : start + _PER_QUERY]
        )
        answer = engine.fetch(f"SELECT {by}, {SUM_OF_V} FROM ({coded}) AS coded WHERE {wanted} GROUP BY {by}")
        listed_words = zip(*(answer[name].tolist() for name in names), strict=True)
        found.update(zip(listed_words, answer["total"].tolist(), strict=True))
    return np.array([found.get(own, 0.0) for own in words], dtype=np.float64)


def _layout_totals(
    engine: Engine, counted: CountedTable, parts: tuple[int, ...], numbers: CellNumbers
) -> FloatArray:
    encoding = counted.encoding
    names = [f"a{part}" for part in parts]
    codes = "".join(f"{encoding.coded_keys[part].code(f'd{part}')} AS a{part}, " for part in parts)
    source = encoding.coded_source(*_texts(counted), only=parts)
    coded = f"SELECT {codes}{counted.unknown_secret} AS v FROM {source}"
    by = f" GROUP BY {', '.join(names)}" if names else ""
    summed = [*names, SUM_OF_V, "COUNT(v) AS n"]
    answer = engine.fetch(f"SELECT {', '.join(summed)} FROM ({coded}) AS coded{by}")
    number = np.zeros(len(answer["total"]), dtype=np.int64)
    for name, place in zip(names, numbers.layout.keys, strict=True):
        number = number * place.size + answer[name].astype(np.int64)
    inside = np.flatnonzero(numbers.layout.met(number))
    where, totals = np.searchsorted(numbers.occurring, number[inside]), np.zeros((2, numbers.occurring.size))
    totals[:, where] = np.stack([answer[name].astype(np.float64)[inside] for name in ("total", "n")])
    return totals


def _texts(counted: CountedTable) -> tuple[str, ...]:
    """What the source must make visible besides the keys."""
    return counted.rows.secret, counted.known
