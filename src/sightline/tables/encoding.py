"""Encode a row's cells, one of every partition, as a few integers that the engine computes.

The engine numbers the values of every grouping key: by a dictionary of the distinct values in their order, or
by the value itself if the key is a whole number in a narrow range. A condition is one bit. The numbers are
packed side by side into words of 62 bits. The engine then groups by the words and returns one row per
signature. Text is ordered by code point, so that all engines number alike.
"""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np

from sightline.arrays import FloatArray
from sightline.tables.cells import WORD_BITS, CodePlace, Codes, Layout, PackedCodes
from sightline.tables.engines.protocol import DATA, ColumnKind, Engine
from sightline.tables.membership import Partition
from sightline.tables.rows import Rows
from sightline.tables.sql.fragments import quoted, readable
from sightline.tables.sql.grammar import refuse
from sightline.values import frozen

MOST_KEYS = 1 << 20  # distinct values of one grouping key; each is a published cell
MOST_DIGITS = 6  # after the point, of weights that become whole numbers
NARROW = 1 << 12  # whole numbers in a range of this length need no dictionary


def _number_in(text: str) -> float:
    """A weight as a number; a text in the place of one is refused."""
    try:
        return float(text)
    except ValueError:
        refuse("weights that are numbers", got="a text", fix="add up numbers, and write texts beside them")


@frozen(eq=True)
class CodedKey:
    """One grouping key under one condition, or a condition by itself, as a small number per row.

    If there is a condition, code 0 means that the row does not meet it. The next codes are the key NULL and
    the distinct values in their order, or all whole numbers from ``least``.
    """

    condition: str  # empty for none
    key: str  # empty for a condition by itself
    texts: tuple[str, ...]  # the cells' names, from the first code that is a cell
    least: int | None = None  # of whole numbers in a narrow range
    doubles: bool = False  # whether the engine has its values in floating point
    word: int = 0
    shift: int = 0

    @property
    def first(self) -> int:
        """The first code that is a cell."""
        return 1 if self.condition else 0

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
        values[self.first :] = [np.nan if text == "NULL" else _number_in(text) for text in self.texts]
        return np.asarray(values[self.place.codes(words)])

    def differences_kept(self, words: PackedCodes) -> bool:
        r"""Whether doubles keep the differences of this key's numbers in packed words.

        Whole numbers over a power of ten up to :data:`MOST_DIGITS` reach a design exactly if they are below
        2^53. Of others rounding moves a difference by 2^-52 of the largest number, which is a millionth of
        the difference, or less, if that number is at most 2^32 times it.
        """
        codes = np.unique(self.place.codes(words))
        texts = [self.texts[code - self.first] for code in codes.tolist() if code >= self.first]
        if self.doubles:
            return True
        exact = sorted({Fraction(text) for text in texts if text != "NULL"})
        if len(exact) < 2 or all(Fraction(float(one)) == one for one in exact):
            return True
        largest = max(map(abs, exact))
        unit = math.lcm(*(one.denominator for one in exact))
        if 10**MOST_DIGITS % unit == 0:
            power = next(10**k for k in range(MOST_DIGITS + 1) if 10**k % unit == 0)
            return bool(largest * power < 2**53)
        return bool(largest <= 2**32 * min(later - earlier for earlier, later in pairwise(exact)))

    @property
    def guarded(self) -> str:
        """The key where the condition holds, so that it is evaluated only where the query evaluates it."""
        return f"CASE WHEN {self.condition} THEN {self.key} END" if self.condition else self.key

    def dictionary(self, rows: Rows) -> str:
        """A query for the distinct values ``k`` of the key, with numbers ``c`` from 1."""
        distinct = f"SELECT DISTINCT {self.guarded} AS k FROM {rows.source(self.condition, self.key)}"
        numbered = "SELECT k, ROW_NUMBER() OVER (ORDER BY k) AS c"
        return f"{numbered} FROM ({distinct}) AS listed WHERE k IS NOT NULL"

    @property
    def looked_up(self) -> bool:
        """Whether the engine looks the key up in a dictionary."""
        return bool(self.key) and self.least is None

    def code(self, alias: str) -> str:
        """The code as SQL; ``alias`` is the dictionary's name in the query."""
        number = "1"
        if self.key:
            value = f"{alias}.c" if self.least is None else f"CAST({self.key} AS BIGINT) - ({self.least - 1})"
            number = f"COALESCE({value}, 0)" + (" + 1" if self.condition else "")
        return f"CASE WHEN {self.condition} THEN {number} ELSE 0 END" if self.condition else number

    def term(self, alias: str) -> str:
        """The code at its place in the word, as SQL."""
        unit = 1 << self.shift
        if not self.key:  # no cast and no product of a thousand conditions: two thirds of the time
            return f"CASE WHEN {self.condition} THEN CAST({unit} AS BIGINT) ELSE 0 END"
        return f"CAST({self.code(alias)} AS BIGINT) * {unit}"


@frozen(eq=True)
class Encoding:
    """How a row's cells become words. ``layouts`` lists the coded keys that make up a cell."""

    rows: Rows
    coded_keys: tuple[CodedKey, ...]
    layouts: tuple[tuple[int, ...], ...]  # one per distinct (condition, keys)
    layout_of: tuple[int, ...]  # for each partition
    weight_of: dict[int, int]  # for partitions with weights, the coded key that is its rows' weight
    blocks: tuple[int, ...] = ()  # the coded keys that say which rows of a record may share a level

    def layout(self, number: int, rows: int) -> Layout:
        """A layout as the places of its codes; ``rows`` is how many the table has."""
        keys = [self.coded_keys[key] for key in self.layouts[number]]
        conditional = bool(keys) and bool(keys[0].condition)
        return Layout.of([key.place for key in keys], conditional=conditional, rows=rows)

    def names(self, number: int, codes: Codes) -> list[tuple[str, ...]]:
        """For each cell of a layout, by its codes (cells × keys), the values of its keys for people."""
        keys = [(place, self.coded_keys[key]) for place, key in enumerate(self.layouts[number])]
        named = [(place, coded) for place, coded in keys if coded.key]
        return [
            tuple(coded.texts[line[place] - coded.first] for place, coded in named) for line in codes.tolist()
        ]

    @property
    def words(self) -> tuple[str, ...]:
        """The words as SQL over ``coded_source``."""
        terms: dict[int, list[str]] = {}
        for position, coded in enumerate(self.coded_keys):
            terms.setdefault(coded.word, []).append(coded.term(f"d{position}"))
        return tuple(" + ".join(terms[word]) for word in sorted(terms))

    def coded_source(self, keys: Iterable[int]) -> str:
        """A FROM clause: the audited rows and the dictionaries of some coded keys."""
        chosen = [(position, self.coded_keys[position]) for position in keys]
        needed = [text for _, coded in chosen for text in (coded.condition, coded.key)]
        dictionaries = [
            f" LEFT JOIN ({coded.dictionary(self.rows)}) AS d{position} ON {coded.guarded} = d{position}.k"
            for position, coded in chosen
            if coded.looked_up
        ]
        return self.rows.source(*needed) + "".join(dictionaries)


def encode(
    engine: Engine, partitions: Sequence[Partition], *, rows: Rows, blocks: Sequence[str] = ()
) -> Encoding:
    """Number the cells of every partition. Partitions that group the rows alike share their numbers.

    Rows with different values of the ``blocks``, columns as SQL, have different signatures, too.
    """
    coded_keys: dict[tuple[str, str], int] = {}
    layouts: dict[tuple[int, ...], int] = {}
    layout_of: list[int] = []
    weight_of: dict[int, int] = {}
    for place, partition in enumerate(partitions):
        keys = partition.keys or (("",) if partition.condition else ())
        parts = tuple(coded_keys.setdefault((partition.condition, key), len(coded_keys)) for key in keys)
        layout_of.append(layouts.setdefault(parts, len(layouts)))
        if partition.weight:  # rows of different weights have different signatures
            weight_of[place] = coded_keys.setdefault((partition.condition, partition.weight), len(coded_keys))
    block_keys = tuple(coded_keys.setdefault(("", key), len(coded_keys)) for key in blocks)
    unplaced = [CodedKey(condition=condition, key=key, texts=("",)) for condition, key in coded_keys]
    ranges = _ranges(engine, unplaced, rows)
    placed: list[CodedKey] = []
    word, shift = 0, 0
    for position, coded in enumerate(unplaced):
        if position in ranges:
            span = ranges[position]
            coded = replace(coded, texts=("NULL", *map(str, span)), least=span.start)
        elif coded.key:
            names, doubles = _names(engine, coded, rows)
            coded = replace(coded, texts=("NULL", *names), doubles=doubles)
        if shift + coded.width > WORD_BITS:
            word, shift = word + 1, 0
        placed.append(replace(coded, word=word, shift=shift))
        shift += coded.width
    return Encoding(
        rows=rows,
        coded_keys=tuple(placed),
        layouts=tuple(layouts),
        layout_of=tuple(layout_of),
        weight_of=weight_of,
        blocks=block_keys,
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


def _names(engine: Engine, coded: CodedKey, rows: Rows) -> tuple[list[str], bool]:
    """The values of a key for people, in their order; and whether they are in floating point."""
    listed = f"SELECT k, c FROM ({coded.dictionary(rows)}) AS listed ORDER BY c LIMIT {MOST_KEYS + 1}"
    values = engine.fetch(listed)["k"]
    if len(values) > MOST_KEYS:
        refuse(
            f"at most {MOST_KEYS:,} groups of one key",
            got=f"more distinct values of {readable(coded.key)}",
            fix="group more coarsely: with one cell per record the release is the table",
        )
    return [key_text(value) for value in values.tolist()], values.dtype.kind == "f"


def key_text(value: object) -> str:
    """Write a group's key for people, the same for every engine.

    >>> key_text("north"), key_text(2.0), key_text(True), key_text(datetime.datetime(2016, 1, 1))
    ('north', '2', 'true', '2016-01-01')
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float | decimal.Decimal):
        number = float(value)
        whole = number.is_integer() and abs(number) < 2**53 and number == value
        if isinstance(value, decimal.Decimal) and decimal.Decimal(repr(number)) != value:
            return f"{value.normalize():f}"  # more digits than a double has
        return str(int(value)) if whole or isinstance(value, int) else repr(number)
    if isinstance(value, datetime.datetime):
        plain = value.astimezone(datetime.UTC).replace(tzinfo=None) if value.tzinfo else value
        return plain.date().isoformat() if plain.time() == datetime.time() else plain.isoformat(sep=" ")
    return str(value)
