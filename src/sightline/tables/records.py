"""Find the rows and records behind signatures, for the owner of the table only.

A signature's position in a ``Membership`` is its rank among all signatures, so the engine can find its rows.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from sightline.arrays import FloatArray, IndexArray
from sightline.tables.cells import CellNumbers, SignatureCells
from sightline.tables.collect import SUM_OF_V, CountedTable
from sightline.tables.encoding import key_text
from sightline.tables.engines.protocol import DATA, ColumnKind, Engine
from sightline.tables.membership import Feature, Partition, PersonRows, RowsBehind, RowValues
from sightline.tables.sql.data_query import ROWS_BEHIND
from sightline.tables.sql.fragments import PER_QUERY, answers_yes, literal, quoted
from sightline.tables.sql.grammar import refuse
from sightline.tables.sql.scope import find_column
from sightline.tables.subject import Subject
from sightline.values import frozen


def row_values(engine: Engine, counted: CountedTable) -> RowValues:
    """Fetch every row's signature and its secret, clipped to the bounds, for releases that are not linear.

    Rows are sorted by signature, then by value, so their order does not identify records.
    """
    if not counted.subject.kind.summed:
        refuse(
            "a numeric or boolean secret",
            got="a text secret",
            fix="its histogram is linear: no values are needed",
        )
    ranked = counted.ranked(f"CAST({counted.value} AS DOUBLE) AS v")
    answer = engine.fetch(f"SELECT s, v FROM ({ranked}) AS ranked ORDER BY s, v")
    return RowValues(signature=answer["s"].astype(np.int64), secret=answer["v"].astype(np.float64))


def signature_totals(
    engine: Engine, counted: CountedTable, *, question: Partition | None = None
) -> FloatArray:
    """Sum the secret over the rows with each signature: one column, or one per declared category.

    Values are clipped to the bounds. Rows that the attacker knows are left out. With a yes-or-no question
    about a number, count the rows that answer yes instead; with a power, sum that.
    """
    subject, value = counted.subject, counted.value
    if question is not None and question.feature is Feature.POWER:
        value = f"POWER({value}, {question.parameter!r})"
    elif question is not None:
        yes = answers_yes(counted.rows.secret, question.parameter, closed=question.closed)
        value = f"CASE WHEN {yes} THEN 1.0 ELSE 0.0 END"
    coded, names = counted.coded(f"{counted.unknown(value)} AS v"), counted.names
    # In the order of the signatures, as the membership has them: no row needs its rank.
    by, order = ", ".join(names), f" ORDER BY {', '.join(names)}" if names else ""
    if subject.kind.summed or question is not None:
        grouped = f" GROUP BY {by}" if by else ""
        answer = engine.fetch(f"SELECT {SUM_OF_V} FROM ({coded}) AS coded{grouped}{order}")
        return answer["total"].astype(np.float64)[:, None]
    listed = ", ".join([*names, "v"])
    answer = engine.fetch(f"SELECT {listed}, COUNT(*) AS n FROM ({coded}) AS coded GROUP BY {listed}{order}")
    starts = np.zeros(len(answer["n"]), dtype=np.bool_)
    for name in names:
        starts[1:] |= answer[name][1:] != answer[name][:-1]
    signature = np.cumsum(starts)
    column_of = {name: column for column, name in enumerate(subject.categories)}
    column = np.array([column_of.get(name, -1) for name in answer["v"].tolist()], dtype=np.intp)
    totals = np.zeros((int(signature[-1]) + 1, len(column_of)))
    totals[signature[column >= 0], column[column >= 0]] = answer["n"][column >= 0]
    return totals


@frozen
class RowRecords:
    """Audited rows: whose they are, their signature, their secret and whether the attacker knows them."""

    keys: list[str]  # of the row's record
    person: IndexArray  # a number for each record, ascending
    signature: IndexArray
    secret: NDArray[np.generic]  # numbers clipped to the bounds, 1 for a yes; or categories
    known: NDArray[np.bool_]

    @property
    def entries(self) -> dict[str, PersonRows]:
        """Of every record, by its key, how many known and unknown rows it has with each signature."""
        rows = zip(self.person.tolist(), self.signature.tolist(), self.known.tolist(), strict=True)
        keys = dict(zip(self.person.tolist(), self.keys, strict=True))
        entries: dict[str, list[tuple[int, bool, int]]] = {}
        for (person, signature, known), number in sorted(Counter(rows).items()):
            entries.setdefault(keys[person], []).append((signature, known, number))
        return {key: tuple(own) for key, own in entries.items()}


def row_records(engine: Engine, counted: CountedTable, *, of: str = "") -> RowRecords:
    """Owner-only: fetch rows in the order of the records' keys, signatures and secrets.

    ``of`` is a condition on the record's key ``r`` and the signature ``s``, as SQL; empty for all rows.
    """
    ranked = counted.ranked(f"{counted.value} AS x", f"{counted.is_known} AS v")
    where = f" WHERE {of}" if of else ""
    answer = engine.fetch(f"SELECT r, s, x, v FROM ({ranked}) AS ranked{where} ORDER BY r, s, x")
    key, number = answer["r"], counted.subject.kind.summed
    return RowRecords(
        keys=list(map(str if key.dtype.kind in "iu" else key_text, key.tolist())),
        person=np.cumsum(np.append(False, key[1:] != key[:-1])[: key.size]),
        signature=np.asarray(answer["s"], dtype=np.intp),
        secret=np.asarray(answer["x"], dtype=np.float64) if number else np.asarray(answer["x"]),
        known=np.asarray(answer["v"]) > 0,
    )


def secrets_of(
    engine: Engine, counted: CountedTable, *, signature_ids: Sequence[int]
) -> dict[int, tuple[tuple[str, float | str], ...]]:
    """The key and the secret of the rows with each of the given signatures that the attacker does not know.

    They are in the order of the keys. A number is clipped to its bounds, a yes is 1 and a no is 0.
    """
    wanted = ", ".join(map(str, signature_ids))
    of_signature: dict[int, list[tuple[str, float | str]]] = {signature: [] for signature in signature_ids}
    if signature_ids:
        rows = row_records(engine, counted, of=f"s IN ({wanted})")
        secrets = rows.secret.tolist()
        for place in np.flatnonzero(~rows.known).tolist():
            of_signature[int(rows.signature[place])].append((rows.keys[place], secrets[place]))
    return {signature: tuple(own) for signature, own in of_signature.items()}


def members_of(
    engine: Engine, counted: CountedTable, *, signature_ids: Sequence[int]
) -> dict[int, tuple[str, ...]]:
    """The keys of the records with a row of each of the given signatures that the attacker does not know."""
    rows = secrets_of(engine, counted, signature_ids=signature_ids)
    return {signature: tuple(sorted({key for key, _ in own})) for signature, own in rows.items()}


def members_by_words(
    engine: Engine, counted: CountedTable, *, words: Mapping[int, tuple[int, ...]]
) -> dict[int, tuple[str, ...]]:
    """The same for signatures that are given by their packed words, without a rank for every row."""
    if not words:
        return {}
    names, coded = counted.names, counted.coded(f"{counted.rows.record} AS r", f"{counted.is_known} AS v")
    wanted = f"v = 0 AND ({_is_any(counted, words.values())})"
    answer = engine.fetch(f"SELECT DISTINCT {', '.join(names)}, r FROM ({coded}) AS coded WHERE {wanted}")
    keys: dict[tuple[int, ...], list[str]] = {}
    for *own, key in zip(*(answer[name].tolist() for name in (*names, "r")), strict=True):
        keys.setdefault(tuple(own), []).append(key_text(key))
    return {signature: tuple(sorted(keys.get(own, ()))) for signature, own in words.items()}


def person_of(engine: Engine, counted: CountedTable, *, record_key: str) -> PersonRows:
    """Owner-only: the entries of one person; empty if they have no row with a secret."""
    rows = row_records(engine, counted, of=_is_record(engine, counted.subject, record_key))
    return next(iter(rows.entries.values()), ())


def keys_of_kinds(
    engine: Engine, counted: CountedTable, kinds: Mapping[int, PersonRows]
) -> dict[int, tuple[str, ...]]:
    """Owner-only: the keys of the persons of some kinds, sorted."""
    if not kinds:
        return {}
    wanted = ", ".join(str(one) for one in sorted({entries[0][0] for entries in kinds.values()}))
    some = f"r IN (SELECT r FROM ({counted.ranked()}) AS chosen WHERE s IN ({wanted}))"
    entries_of_key = row_records(engine, counted, of=some).entries
    return {
        kind: tuple(sorted(key for key, own in entries_of_key.items() if own == entries))
        for kind, entries in kinds.items()
    }


@frozen(eq=True)
class TotalsOfPersons:
    """Totals of persons' rows. Owner-only."""

    least: float
    most: float
    spread: float  # their standard deviation
    own: float | None  # of the person who is asked about


def totals_of_persons(engine: Engine, counted: CountedTable, key: str | None) -> TotalsOfPersons:
    """The totals of the rows of all persons, and of one, if a key is given. Owner-only."""
    rows = counted.rows
    each = (
        f"SELECT {rows.record} AS r, CAST(SUM({counted.value}) AS DOUBLE) AS total "
        f"FROM {rows.source()} GROUP BY {rows.record}"
    )
    figures = engine.fetch(
        "SELECT MIN(total) AS low, MAX(total) AS high, AVG(total) AS mean, COUNT(*) AS n "
        f"FROM ({each}) AS each_person"
    )
    low, high, mean = (float(figures[name][0]) for name in ("low", "high", "mean"))
    away = engine.fetch(
        f"SELECT AVG((total - {mean!r}) * (total - {mean!r})) AS v FROM ({each}) AS each_person"
    )
    total = None
    if key is not None:
        is_record = _is_record(engine, counted.subject, key)
        answer = engine.fetch(f"SELECT total FROM ({each}) AS each_person WHERE {is_record}")["total"]
        total = float(answer[0]) if len(answer) else None
    return TotalsOfPersons(least=low, most=high, spread=math.sqrt(max(0.0, float(away["v"][0]))), own=total)


def has_rows(engine: Engine, subject: Subject, *, record_key: str) -> bool:
    """Whether a record has a row, with or without a secret."""
    column = find_column(engine.columns(), subject.record)
    is_record = _is_record(engine, subject, record_key, quoted(column.name))
    answer = engine.fetch(f"SELECT COUNT(*) AS n FROM {quoted(DATA)} WHERE {is_record}")
    return bool(answer["n"][0])


def _is_record(engine: Engine, subject: Subject, record_key: str, key: str = "r") -> str:
    """The condition that a row whose record's key is called ``key`` belongs to the record, as SQL."""
    column = find_column(engine.columns(), subject.record)
    if column.kind is ColumnKind.NUMBER:
        try:
            number = float(record_key)
        except ValueError:
            number = float("nan")
        if not abs(number) < float("inf"):
            refuse(
                "a number as the record's key",
                got="something else",
                fix=f'"{subject.record}" is a column of numbers',
            )
        return f"{key} = {record_key.strip() if record_key.strip().isdigit() else repr(number)}"
    if column.kind is ColumnKind.TEXT:
        return f"{key} = {literal(record_key)}"
    return f"CAST({key} AS VARCHAR) = {literal(record_key)}"


def adds_up_alike(engine: Engine) -> bool:
    """Whether all values of ``data`` are known to add up as many rows."""
    if ROWS_BEHIND not in {column.name for column in engine.columns()}:
        return False
    number = quoted(ROWS_BEHIND)
    answer = engine.fetch(f"SELECT MIN({number}) AS least, MAX({number}) AS most FROM {quoted(DATA)}")
    return bool(answer["least"][0] == answer["most"][0])


def rows_behind(engine: Engine, counted: CountedTable) -> RowsBehind:
    """How many rows of the table each value of ``data`` adds up; none if that was not counted.

    The number is public, as who is in which group is: a sum of few rows is spread less than a sum of many.
    """
    if ROWS_BEHIND not in {column.name for column in engine.columns()}:
        return RowsBehind()
    number = f"CAST({quoted(DATA)}.{quoted(ROWS_BEHIND)} AS BIGINT)"
    ranked = counted.ranked(f"2 * {number} + {counted.is_known} AS v")
    answer = engine.fetch(f"SELECT s, v, COUNT(*) AS n FROM ({ranked}) AS ranked GROUP BY s, v ORDER BY s, v")
    signature, marked, count = (np.asarray(answer[name], dtype=np.int64) for name in "svn")
    pairs, pair_of = np.unique(np.column_stack([signature, marked // 2]), axis=0, return_inverse=True)
    counts, known_counts = (
        np.bincount(pair_of.ravel(), weights, len(pairs)).astype(np.int64)
        for weights in (count, count * (marked % 2))
    )
    return RowsBehind(signature=pairs[:, 0], rows=pairs[:, 1], counts=counts, known=known_counts)


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
    names, coded = counted.names, counted.coded(f"{counted.unknown(counted.value)} AS v")
    by = ", ".join(names)
    totals: dict[tuple[int, ...], float] = {}
    for start in range(0, len(words), PER_QUERY):
        wanted = _is_any(counted, words[start : start + PER_QUERY])
        answer = engine.fetch(f"SELECT {by}, {SUM_OF_V} FROM ({coded}) AS coded WHERE {wanted} GROUP BY {by}")
        listed_words = zip(*(answer[name].tolist() for name in names), strict=True)
        totals.update(zip(listed_words, answer["total"].tolist(), strict=True))
    return np.array([totals.get(own, 0.0) for own in words], dtype=np.float64)


def _layout_totals(
    engine: Engine, counted: CountedTable, parts: tuple[int, ...], numbers: CellNumbers
) -> FloatArray:
    encoding = counted.encoding
    names = [f"a{part}" for part in parts]
    codes = "".join(f"{encoding.coded_keys[part].code(f'd{part}')} AS a{part}, " for part in parts)
    source = encoding.coded_source(parts)
    coded = f"SELECT {codes}{counted.unknown(counted.value)} AS v FROM {source}"
    by = f" GROUP BY {', '.join(names)}" if names else ""
    summed = [*names, SUM_OF_V, "COUNT(v) AS n"]
    answer = engine.fetch(f"SELECT {', '.join(summed)} FROM ({coded}) AS coded{by}")
    number = numbers.layout.joined([answer[name].astype(np.int64) for name in names], len(answer["total"]))
    inside = np.flatnonzero(numbers.layout.met(number))
    where, totals = np.searchsorted(numbers.occurring, number[inside]), np.zeros((2, numbers.occurring.size))
    totals[:, where] = np.stack([answer[name].astype(np.float64)[inside] for name in ("total", "n")])
    return totals


def _is_any(counted: CountedTable, words: Iterable[Sequence[int]]) -> str:
    """The condition that a signature is one of some, as SQL."""
    each = [
        " AND ".join(f"{name} = {int(word)}" for name, word in zip(counted.names, own, strict=True))
        for own in words
    ]
    return " OR ".join(f"({one})" for one in each)
