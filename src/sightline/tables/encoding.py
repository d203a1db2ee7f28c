"""Signatures as a few integers that the engine computes: which cell of every partition a row falls into.

Every grouping key is numbered in the engine (a dictionary of its distinct values, in their order; whole
numbers in a narrow range number themselves), every condition is one bit, and the numbers are packed side by
side into words of 62 bits. The engine then groups by the words; what leaves it is one row per signature. Text
is ordered by code point, so all engines number alike.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sightline.tables.engines.engine import DATA, Engine, Kind
from sightline.tables.rows import Rows, quoted
from sightline.tables.sql.grammar import refuse
from sightline.tables.sql.reader import Piece

WORD_BITS = 62  # signed 64-bit integers on every engine, with room to spare
MOST_KEYS = 1 << 20  # distinct values of one grouping key: every one becomes a published cell
NARROW = 1 << 12  # whole numbers in a range of this many need no dictionary
Words = NDArray[np.int64]
Codes = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Atom:
    """One grouping key under one condition, or a condition by itself, as a small number per row.

    Code 0 says that the row does not meet the condition, where there is one. Then come the key NULL and the
    distinct values in their order, or all whole numbers from the least.
    """

    condition: str | None
    key: str | None
    texts: tuple[str, ...]  # the cells' names, from the first code that is a cell
    least: int | None = None  # of keys that number themselves
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

    def codes(self, words: Words) -> Codes:
        """This atom's number in packed words (words × rows)."""
        codes: Codes = (words[self.word] >> self.shift) & ((1 << self.width) - 1)
        return codes

    @property
    def guarded(self) -> str:
        """The key where the condition holds: an expression is never evaluated where the query would not."""
        assert self.key is not None
        return self.key if self.condition is None else f"CASE WHEN {self.condition} THEN {self.key} END"

    def dictionary(self, rows: Rows) -> str:
        """The distinct values of the key, numbered from 1."""
        distinct = f"SELECT DISTINCT {self.guarded} AS k FROM {rows.source(self.condition, self.key)}"
        numbered = "SELECT k, ROW_NUMBER() OVER (ORDER BY k) AS c"
        return f"{numbered} FROM ({distinct}) AS listed WHERE k IS NOT NULL"

    @property
    def looked_up(self) -> bool:
        """Whether the engine needs a dictionary for it."""
        return self.key is not None and self.least is None

    def code(self, alias: str) -> str:
        """The number as SQL, where ``alias`` is the dictionary."""
        if self.key is None:
            number = "1"
        else:
            found = f"{alias}.c" if self.least is None else f"CAST({self.key} AS BIGINT) - ({self.least - 1})"
            number = f"COALESCE({found}, 0)" + (" + 1" if self.condition is not None else "")
        return number if self.condition is None else f"CASE WHEN {self.condition} THEN {number} ELSE 0 END"


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoding:
    """How a row's cells become words: ``layouts`` lists for each piece the atoms that make up its cell."""

    rows: Rows
    atoms: tuple[Atom, ...]
    layouts: tuple[tuple[int, ...], ...]  # one per distinct (condition, keys)
    layout_of: tuple[int, ...]  # for each piece

    @property
    def words(self) -> tuple[str, ...]:
        """The words as SQL over ``coded_source``."""
        terms: dict[int, list[str]] = {}
        for position, atom in enumerate(self.atoms):
            term = f"CAST({atom.code(f'd{position}')} AS BIGINT) * {1 << atom.shift}"
            terms.setdefault(atom.word, []).append(term)
        return tuple(" + ".join(terms[word]) for word in sorted(terms))

    def coded_source(self, *texts: str | None, only: Iterable[int] | None = None) -> str:
        """The audited rows with the dictionaries of the atoms (all, or ``only`` some) looked up."""
        chosen = [
            (position, self.atoms[position])
            for position in (range(len(self.atoms)) if only is None else only)
        ]
        needed = [text for _, atom in chosen for text in (atom.condition, atom.key)]
        dictionaries = [
            f" LEFT JOIN ({atom.dictionary(self.rows)}) AS d{position} ON {atom.guarded} = d{position}.k"
            for position, atom in chosen
            if atom.looked_up
        ]
        return self.rows.source(*texts, *needed) + "".join(dictionaries)


def encode(engine: Engine, pieces: Sequence[Piece], *, rows: Rows) -> Encoding:
    """Number the cells of every piece; pieces that cut the rows alike share their numbers."""
    atoms: dict[tuple[str | None, str | None], int] = {}
    layouts: dict[tuple[int, ...], int] = {}
    layout_of: list[int] = []
    for piece in pieces:
        keys: tuple[str | None, ...] = piece.keys or ((None,) if piece.condition is not None else ())
        parts = tuple(atoms.setdefault((piece.condition, key), len(atoms)) for key in keys)
        layout_of.append(layouts.setdefault(parts, len(layouts)))
    named = [Atom(condition=condition, key=key, texts=("",)) for condition, key in atoms]
    ranges = _ranges(engine, named, rows)
    placed: list[Atom] = []
    word, shift = 0, 0
    for position, atom in enumerate(named):
        if position in ranges:
            span = ranges[position]
            atom = replace(atom, texts=("NULL", *map(str, span)), least=span.start)
        elif atom.key is not None:
            atom = replace(atom, texts=("NULL", *_names(engine, atom, rows)))
        if shift + atom.width > WORD_BITS:
            word, shift = word + 1, 0
        placed.append(replace(atom, word=word, shift=shift))
        shift += atom.width
    return Encoding(rows=rows, atoms=tuple(placed), layouts=tuple(layouts), layout_of=tuple(layout_of))


def _ranges(engine: Engine, atoms: Sequence[Atom], rows: Rows) -> dict[int, range]:
    """By position, the range of keys that are columns of whole numbers, if it is narrow."""
    numbers = {
        f"{quoted(DATA)}.{quoted(column.name)}" for column in engine.columns() if column.kind is Kind.NUMBER
    }
    asked = {position: atom for position, atom in enumerate(atoms) if atom.key in numbers}
    if not asked:
        return {}
    ends = ", ".join(
        f"MIN({atom.guarded}) AS l{position}, MAX({atom.guarded}) AS m{position}"
        for position, atom in asked.items()
    )
    source = rows.source(*(atom.condition for atom in asked.values()))
    answer = {
        name: values.tolist()[0] for name, values in engine.fetch(f"SELECT {ends} FROM {source}").items()
    }
    found = {}
    for position in asked:
        least, most = answer[f"l{position}"], answer[f"m{position}"]
        if isinstance(least, int) and most - least < NARROW and least >= -(2**63) and most < 2**63:
            found[position] = range(least, most + 1)
    return found


def _names(engine: Engine, atom: Atom, rows: Rows) -> list[str]:
    listed = f"SELECT k, c FROM ({atom.dictionary(rows)}) AS listed ORDER BY c LIMIT {MOST_KEYS + 1}"
    values = engine.fetch(listed)["k"]
    if len(values) > MOST_KEYS:
        refuse(
            f"at most {MOST_KEYS:,} groups of one key",
            got=f"more distinct values of {atom.key}",
            fix="a cell for every record publishes the table: group more coarsely",
        )
    return [key_text(value) for value in values.tolist()]


def key_text(value: object) -> str:
    """A group's key for people, written alike whichever engine it comes from.

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
