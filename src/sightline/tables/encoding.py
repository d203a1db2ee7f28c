"""Encode a row's cells, one of every partition, as a few integers that the engine computes.

The engine numbers the values of every grouping key: by a dictionary of the distinct values in their order, or
by the value itself if the key is a whole number in a narrow range. A condition is one bit. The numbers are
packed side by side into words of 62 bits. The engine then groups by the words and returns one row per
signature. Text is ordered by code point, so that all engines number alike.

Back from the words: a *layout* is one way to group the rows, a condition and some keys. The codes of its keys
in a signature make one number, and the numbers that occur are its cells, in order. Layouts are plain arrays
that can travel to the words.
"""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sightline.arrays import FloatArray, IndexArray
from sightline.tables.engines.protocol import DATA, ColumnKind, Engine
from sightline.tables.membership import CellTable, Partition
from sightline.tables.rows import Rows
from sightline.tables.sql.fragments import quoted, readable
from sightline.tables.sql.grammar import refuse

WORD_BITS = 62  # of the signed 64-bit integers that every engine has
MOST_KEYS = 1 << 20  # distinct values of one grouping key; each is a published cell
NARROW = 1 << 12  # whole numbers in a range of this length need no dictionary
PackedCodes = NDArray[np.int64]
_WIDEST = 1 << 62  # the most codes of a layout that fit an integer of 64 bits
DIRECT = 1 << 22  # layouts with at most so many codes are looked up in an array, others in a sorted list
_BLOCK = 1 << 16  # signatures per step, so that the arrays of a step fit the cache
Codes = NDArray[np.int64]


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
class CodedKey:
    """One grouping key under one condition, or a condition by itself, as a small number per row.

    If there is a condition, code 0 means that the row does not meet it. The next codes are the key NULL and
    the distinct values in their order, or all whole numbers from ``least``.
    """

    condition: str | None
    key: str | None
    texts: tuple[str, ...]  # the cells' names, from the first code that is a cell
    least: int | None = None  # of whole numbers in a narrow range
    word: int = 0
    shift: int = 0

    @property
    def first(self) -> int:
        """The first code that is a cell."""
        return 0 if self.condition is None else 1

    @property
    def size(self) -> int:
        return self.first + len(self.texts)

    @property
    def width(self) -> int:
        return max(1, (self.size - 1).bit_length())

    @property
    def place(self) -> CodePlace:
        """Where its code is in the words."""
        return CodePlace(word=self.word, shift=self.shift, width=self.width, size=self.size)

    def numbers(self, words: PackedCodes) -> FloatArray:
        """This key's value as a number in packed words (words × rows); NaN where it is none."""
        values = np.full(self.size, np.nan)
        values[self.first :] = [np.nan if text == "NULL" else float(text) for text in self.texts]
        return np.asarray(values[self.place.codes(words)])

    @property
    def guarded(self) -> str:
        """The key where the condition holds, so that it is evaluated only where the query evaluates it."""
        assert self.key is not None
        return self.key if self.condition is None else f"CASE WHEN {self.condition} THEN {self.key} END"

    def dictionary(self, rows: Rows) -> str:
        """A query for the distinct values ``k`` of the key, with numbers ``c`` from 1."""
        distinct = f"SELECT DISTINCT {self.guarded} AS k FROM {rows.source(self.condition, self.key)}"
        numbered = "SELECT k, ROW_NUMBER() OVER (ORDER BY k) AS c"
        return f"{numbered} FROM ({distinct}) AS listed WHERE k IS NOT NULL"

    @property
    def looked_up(self) -> bool:
        """Whether the engine looks the key up in a dictionary."""
        return self.key is not None and self.least is None

    def code(self, alias: str) -> str:
        """The code as SQL; ``alias`` is the dictionary's name in the query."""
        if self.key is None:
            number = "1"
        else:
            value = f"{alias}.c" if self.least is None else f"CAST({self.key} AS BIGINT) - ({self.least - 1})"
            number = f"COALESCE({value}, 0)" + (" + 1" if self.condition is not None else "")
        return number if self.condition is None else f"CASE WHEN {self.condition} THEN {number} ELSE 0 END"


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoding:
    """How a row's cells become words. ``layouts`` lists the coded keys that make up a cell."""

    rows: Rows
    coded_keys: tuple[CodedKey, ...]
    layouts: tuple[tuple[int, ...], ...]  # one per distinct (condition, keys)
    layout_of: tuple[int, ...]  # for each partition
    weight_of: tuple[int | None, ...]  # for each partition the coded key that is its rows' weight

    @property
    def words(self) -> tuple[str, ...]:
        """The words as SQL over ``coded_source``."""
        terms: dict[int, list[str]] = {}
        for position, coded in enumerate(self.coded_keys):
            term = f"CAST({coded.code(f'd{position}')} AS BIGINT) * {1 << coded.shift}"
            terms.setdefault(coded.word, []).append(term)
        return tuple(" + ".join(terms[word]) for word in sorted(terms))

    def coded_source(self, *texts: str | None, only: Iterable[int] | None = None) -> str:
        """A FROM clause: the audited rows and the dictionaries of the coded keys (all, or ``only`` some)."""
        chosen = [
            (position, self.coded_keys[position])
            for position in (range(len(self.coded_keys)) if only is None else only)
        ]
        needed = [text for _, coded in chosen for text in (coded.condition, coded.key)]
        dictionaries = [
            f" LEFT JOIN ({coded.dictionary(self.rows)}) AS d{position} ON {coded.guarded} = d{position}.k"
            for position, coded in chosen
            if coded.looked_up
        ]
        return self.rows.source(*texts, *needed) + "".join(dictionaries)


def encode(engine: Engine, partitions: Sequence[Partition], *, rows: Rows) -> Encoding:
    """Number the cells of every partition. Partitions that group the rows alike share their numbers."""
    coded_keys: dict[tuple[str | None, str | None], int] = {}
    layouts: dict[tuple[int, ...], int] = {}
    layout_of: list[int] = []
    weight_of: list[int | None] = []
    for partition in partitions:
        keys: tuple[str | None, ...] = partition.keys or ((None,) if partition.condition is not None else ())
        parts = tuple(coded_keys.setdefault((partition.condition, key), len(coded_keys)) for key in keys)
        layout_of.append(layouts.setdefault(parts, len(layouts)))
        weight = None
        if partition.weight is not None:  # rows of different weights have different signatures
            weight = coded_keys.setdefault((partition.condition, partition.weight), len(coded_keys))
        weight_of.append(weight)
    unplaced = [CodedKey(condition=condition, key=key, texts=("",)) for condition, key in coded_keys]
    ranges = _ranges(engine, unplaced, rows)
    placed: list[CodedKey] = []
    word, shift = 0, 0
    for position, coded in enumerate(unplaced):
        if position in ranges:
            span = ranges[position]
            coded = replace(coded, texts=("NULL", *map(str, span)), least=span.start)
        elif coded.key is not None:
            coded = replace(coded, texts=("NULL", *_names(engine, coded, rows)))
        if shift + coded.width > WORD_BITS:
            word, shift = word + 1, 0
        placed.append(replace(coded, word=word, shift=shift))
        shift += coded.width
    return Encoding(
        rows=rows,
        coded_keys=tuple(placed),
        layouts=tuple(layouts),
        layout_of=tuple(layout_of),
        weight_of=tuple(weight_of),
    )


def _ranges(engine: Engine, coded_keys: Sequence[CodedKey], rows: Rows) -> dict[int, range]:
    """The ranges of the keys that are columns of whole numbers in a narrow range, by position."""
    numbers = {
        f"{quoted(DATA)}.{quoted(column.name)}"
        for column in engine.columns()
        if column.kind is ColumnKind.NUMBER
    }
    numeric = {position: coded for position, coded in enumerate(coded_keys) if coded.key in numbers}
    if not numeric:
        return {}
    ends = ", ".join(
        f"MIN({coded.guarded}) AS l{position}, MAX({coded.guarded}) AS m{position}"
        for position, coded in numeric.items()
    )
    source = rows.source(*(coded.condition for coded in numeric.values()))
    answer = {
        name: values.tolist()[0] for name, values in engine.fetch(f"SELECT {ends} FROM {source}").items()
    }
    ranges = {}
    for position in numeric:
        least, most = answer[f"l{position}"], answer[f"m{position}"]
        if isinstance(least, int) and most - least < NARROW and least >= -(2**63) and most < 2**63:
            ranges[position] = range(least, most + 1)
    return ranges


def _names(engine: Engine, coded: CodedKey, rows: Rows) -> list[str]:
    listed = f"SELECT k, c FROM ({coded.dictionary(rows)}) AS listed ORDER BY c LIMIT {MOST_KEYS + 1}"
    values = engine.fetch(listed)["k"]
    if len(values) > MOST_KEYS:
        refuse(
            f"at most {MOST_KEYS:,} groups of one key",
            got=f"more distinct values of {readable(coded.key or '')}",
            fix="group more coarsely: with one cell per record the release is the table",
        )
    return [key_text(value) for value in values.tolist()]


def key_text(value: object) -> str:
    """Write a group's key for people, the same for every engine.

    >>> key_text("north"), key_text(2.0), key_text(True), key_text(datetime.datetime(2016, 1, 1))
    ('north', '2', 'true', '2016-01-01')
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float | decimal.Decimal):
        number = float(value)
        whole = number.is_integer() and abs(number) < 2**53
        return str(int(value)) if whole or isinstance(value, int) else repr(number)
    if isinstance(value, datetime.datetime):
        plain = value.astimezone(datetime.UTC).replace(tzinfo=None) if value.tzinfo else value
        return plain.date().isoformat() if plain.time() == datetime.time() else plain.isoformat(sep=" ")
    return str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The keys of one way to group the rows, under one condition if there is one."""

    keys: tuple[CodePlace, ...]
    conditional: bool  # code 0 of the first key: the row does not meet the condition

    @classmethod
    def of(cls, coded_keys: Sequence[CodedKey]) -> Layout:
        """The layout of some coded keys."""
        conditional = bool(coded_keys) and coded_keys[0].condition is not None
        return cls(keys=tuple(key.place for key in coded_keys), conditional=conditional)

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
        keys=names_of_cells(chosen, codes),
        rows=rows[occurring],
        cell_of=cell_of,
    )


def names_of_cells(keys: Sequence[CodedKey], codes: Codes) -> tuple[tuple[str, ...], ...]:
    """For each cell, by its codes (cells × keys), the values of its keys for people."""
    return tuple(
        tuple(
            coded.texts[code - coded.first]
            for coded, code in zip(keys, line, strict=False)
            if coded.key is not None
        )
        for line in codes.tolist()
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
            narrow[start : start + _BLOCK] = chosen[0].place.codes(words[:, start : start + _BLOCK])
        return narrow, chosen[0].size
    combined, size = chosen[0].place.codes(words), chosen[0].size
    for coded in chosen[1:]:
        if size * coded.size > _WIDEST:
            combined, size = _ranked(combined)
        combined, size = combined * coded.size + coded.place.codes(words), size * coded.size
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
    each = [coded.place.codes(words[:, example[occurring]]) for coded in chosen]
    return np.stack(each or [np.zeros(occurring.size, dtype=np.int64)], axis=1)


def _ranked(values: NDArray[np.int64]) -> tuple[NDArray[np.int64], int]:
    occurring, rank = np.unique(values, return_inverse=True)
    return rank.astype(np.int64), occurring.size
