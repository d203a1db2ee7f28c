"""Find the rows and records behind signatures, for the owner of the table only.

A signature's position in a ``Membership`` is its rank among all signatures, so the engine can find its rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sightline.arrays import FloatArray, IndexArray
from sightline.tables.collect import SUM_OF_V, expand, known_condition
from sightline.tables.encoding import encode, key_text
from sightline.tables.engines.protocol import DATA, ColumnKind, Engine
from sightline.tables.membership import Band, Feature, Partition, PersonRows, RowValues
from sightline.tables.rows import audited_rows, clipped_secret
from sightline.tables.sql.fragments import literal, quoted
from sightline.tables.sql.grammar import refuse
from sightline.tables.sql.reader import ReleaseQuery
from sightline.tables.sql.scope import find_column
from sightline.tables.subject import SecretKind, Subject


def row_values(engine: Engine, queries: Sequence[ReleaseQuery], subject: Subject) -> RowValues:
    """Fetch every row's signature and its secret, clipped to the bounds, for releases that are not linear.

    Rows are sorted by signature, then by value, so their order does not identify records.
    """
    if subject.kind is SecretKind.CATEGORY:
        refuse(
            "a numeric or boolean secret",
            got="a text secret",
            fix="its histogram is linear: no values are needed",
        )
    rows = audited_rows(queries, subject, engine.columns())
    value = (
        rows.secret if subject.kind is SecretKind.NUMBER else f"CASE WHEN {rows.secret} THEN 1.0 ELSE 0.0 END"
    )
    ranked = ranked_rows(engine, queries, subject, f"CAST({value} AS DOUBLE)")
    answer = engine.fetch(f"SELECT s, v FROM ({ranked}) AS ranked ORDER BY s, v")
    values = answer["v"].astype(np.float64)
    if subject.bounds is not None:
        values = np.clip(values, *subject.bounds)
    return RowValues(signature=answer["s"].astype(np.int64), secret=values)


def signature_totals(
    engine: Engine,
    queries: Sequence[ReleaseQuery],
    subject: Subject,
    *,
    question: Partition | None = None,
) -> FloatArray:
    """Sum the secret over the rows with each signature: one column, or one per declared category.

    Values are clipped to the bounds. Rows that the attacker knows are left out. With a yes-or-no question
    about a number, count the rows that answer yes instead; with a power, sum that.
    """
    rows = audited_rows(queries, subject, engine.columns())
    known = known_condition(engine, subject) or "FALSE"
    value = clipped_secret(rows, subject)
    if question is not None and question.feature is Feature.POWER:
        value = f"POWER({value}, {question.parameter!r})"
    elif question is not None:
        value = f"CASE WHEN {_answers_yes(rows.secret, question)} THEN 1.0 ELSE 0.0 END"
    coded, names = coded_rows(engine, queries, subject, f"CASE WHEN {known} THEN NULL ELSE {value} END")
    # In the order of the signatures, as the membership has them: no row needs its rank.
    by, order = ", ".join(names), f" ORDER BY {', '.join(names)}" if names else ""
    if subject.kind is not SecretKind.CATEGORY or question is not None:
        grouped = f" GROUP BY {by}" if by else ""
        answer = engine.fetch(f"SELECT {SUM_OF_V} FROM ({coded}) AS coded{grouped}{order}")
        return answer["total"].astype(np.float64)[:, None]
    listed = ", ".join([*names, "v"])
    answer = engine.fetch(f"SELECT {listed}, COUNT(*) AS n FROM ({coded}) AS coded GROUP BY {listed}{order}")
    starts = np.zeros(len(answer["n"]), dtype=np.bool_)
    for name in names:
        starts[1:] |= answer[name][1:] != answer[name][:-1]
    signature = np.cumsum(starts)
    place = {name: column for column, name in enumerate(subject.categories or ())}
    column = np.array([place.get(name, -1) for name in answer["v"].tolist()], dtype=np.intp)
    totals = np.zeros((int(signature[-1]) + 1, len(place)))
    totals[signature[column >= 0], column[column >= 0]] = answer["n"][column >= 0]
    return totals


def _answers_yes(secret: str, question: Partition) -> str:
    """The condition that a secret answers a yes-or-no question with yes, as SQL."""
    if isinstance(question.parameter, tuple):
        return f"({secret}) IN ({', '.join(map(literal, question.parameter))})"
    if isinstance(question.parameter, Band):
        band = question.parameter
        above, below = ">=" if band.low_closed else ">", "<=" if band.high_closed else "<"
        return f"({secret}) {above} {band.low!r} AND ({secret}) {below} {band.high!r}"
    return f"({secret}) {'>=' if question.closed else '>'} {question.parameter!r}"


def members_of(
    engine: Engine, queries: Sequence[ReleaseQuery], subject: Subject, *, signature_ids: Sequence[int]
) -> dict[int, tuple[str, ...]]:
    """List the keys of the records that have a row with each of the given signatures, sorted.

    Rows that the attacker knows are left out.
    """
    if not signature_ids:
        return {}
    rows = audited_rows(queries, subject, engine.columns())
    wanted = ", ".join(str(int(signature)) for signature in signature_ids)
    known = known_condition(engine, subject)
    value = f"CASE WHEN {known} THEN NULL ELSE {rows.record} END" if known else rows.record
    ranked = ranked_rows(engine, queries, subject, value)
    answer = engine.fetch(
        f"SELECT DISTINCT s, v FROM ({ranked}) AS ranked WHERE s IN ({wanted}) AND v IS NOT NULL"
    )
    members: dict[int, list[str]] = {int(signature): [] for signature in signature_ids}
    for signature, key in zip(answer["s"].tolist(), answer["v"].tolist(), strict=True):
        members[int(signature)].append(key_text(key))
    return {signature: tuple(sorted(keys)) for signature, keys in members.items()}


def members_by_words(
    engine: Engine,
    queries: Sequence[ReleaseQuery],
    subject: Subject,
    *,
    words: Mapping[int, tuple[int, ...]],
) -> dict[int, tuple[str, ...]]:
    """The same for signatures that are given by their packed words, without a rank for every row."""
    if not words:
        return {}
    rows = audited_rows(queries, subject, engine.columns())
    _, partition_queries = expand(engine, rows, queries, subject.categories)
    encoding = encode(engine, partition_queries, rows=rows)
    names = [f"w{position}" for position in range(len(encoding.words))]
    listed = ", ".join(f"{text} AS {name}" for text, name in zip(encoding.words, names, strict=True))
    known = known_condition(engine, subject)
    value = f"CASE WHEN {known} THEN NULL ELSE {rows.record} END" if known else rows.record
    coded = f"SELECT {listed}, {value} AS v FROM {encoding.coded_source()}"
    wanted = " OR ".join(
        "(" + " AND ".join(f"{name} = {int(word)}" for name, word in zip(names, own, strict=True)) + ")"
        for own in words.values()
    )
    by = ", ".join(names)
    answer = engine.fetch(
        f"SELECT DISTINCT {by}, v FROM ({coded}) AS coded WHERE v IS NOT NULL AND ({wanted})"
    )
    found: dict[tuple[int, ...], list[str]] = {}
    for *own, key in zip(*(answer[name].tolist() for name in (*names, "v")), strict=True):
        found.setdefault(tuple(own), []).append(key_text(key))
    return {signature: tuple(sorted(found.get(own, ()))) for signature, own in words.items()}


def secrets_of(
    engine: Engine,
    queries: Sequence[ReleaseQuery],
    subject: Subject,
    *,
    signature_ids: Sequence[int],
    most: int,
) -> dict[int, tuple[tuple[str, float | str], ...]]:
    """Fetch the key and the secret of the first ``most`` rows with each of the given signatures, by key.

    A number is clipped to its bounds, a yes is 1 and a no is 0. Rows that the attacker knows are left out.
    """
    if not signature_ids:
        return {}
    rows = audited_rows(queries, subject, engine.columns())
    value = rows.secret
    if subject.kind is SecretKind.BOOLEAN:
        value = f"CASE WHEN {value} THEN 1.0 ELSE 0.0 END"
    if subject.kind is not SecretKind.CATEGORY:
        value = f"CAST({value} AS DOUBLE)"
    known = known_condition(engine, subject) or "FALSE"
    wanted = ", ".join(str(int(signature)) for signature in signature_ids)
    ranked = ranked_rows(engine, queries, subject, f"CASE WHEN {known} THEN NULL ELSE {value} END")
    chosen = f"SELECT s, r, v FROM ({ranked}) AS ranked WHERE s IN ({wanted}) AND v IS NOT NULL"
    place = "ROW_NUMBER() OVER (PARTITION BY s ORDER BY r, v)"
    placed = f"SELECT s, r, v, {place} AS place FROM ({chosen}) AS chosen"
    answer = engine.fetch(f"SELECT s, r, v FROM ({placed}) AS placed WHERE place <= {int(most)}")
    found: dict[int, list[tuple[str, float | str]]] = {int(signature): [] for signature in signature_ids}
    for signature, key, secret in zip(*(answer[name].tolist() for name in "srv"), strict=True):
        if subject.bounds is not None:
            secret = min(max(float(secret), subject.bounds[0]), subject.bounds[1])
        own = secret if subject.kind is SecretKind.CATEGORY else float(secret)
        found[int(signature)].append((key_text(key), own))
    return {signature: tuple(sorted(rows)) for signature, rows in found.items()}


def signature_of(
    engine: Engine, queries: Sequence[ReleaseQuery], subject: Subject, *, record_key: str
) -> tuple[int, ...]:
    """List the signatures of one record's rows, in order; empty if it has no row with a secret.

    Rows that the attacker knows are left out.
    """
    is_record = is_record_condition(engine, subject, record_key)
    known = known_condition(engine, subject) or "FALSE"
    value = f"CASE WHEN {known} THEN 0 WHEN {is_record} THEN 1 ELSE 0 END"
    ranked = ranked_rows(engine, queries, subject, value)
    answer = engine.fetch(f"SELECT DISTINCT s FROM ({ranked}) AS ranked WHERE v = 1 ORDER BY s")
    return tuple(int(signature) for signature in answer["s"])


def has_rows(engine: Engine, subject: Subject, *, record_key: str) -> bool:
    """Whether a record has a row, with or without a secret."""
    is_record = is_record_condition(engine, subject, record_key)
    answer = engine.fetch(f"SELECT COUNT(*) AS n FROM {quoted(DATA)} WHERE {is_record}")
    return bool(answer["n"][0])


def is_record_condition(engine: Engine, subject: Subject, record_key: str) -> str:
    """The condition that a row belongs to the record, as SQL."""
    column = find_column(engine.columns(), subject.record)
    key = f"{quoted(DATA)}.{quoted(column.name)}"
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


def ranked_rows(engine: Engine, queries: Sequence[ReleaseQuery], subject: Subject, value: str) -> str:
    """A query for the signature ``s`` and the value ``v`` of every row."""
    coded, names = coded_rows(engine, queries, subject, value)
    rank = f"DENSE_RANK() OVER (ORDER BY {', '.join(names)}) - 1" if names else "0"
    return f"SELECT r, {rank} AS s, v FROM ({coded}) AS coded"


def coded_rows(
    engine: Engine, queries: Sequence[ReleaseQuery], subject: Subject, value: str
) -> tuple[str, list[str]]:
    """A query for the words of every row's signature, its record ``r`` and its ``v``; the words' names."""
    rows = audited_rows(queries, subject, engine.columns())
    _, partition_queries = expand(engine, rows, queries, subject.categories)
    encoding = encode(engine, partition_queries, rows=rows)
    names = [f"w{position}" for position in range(len(encoding.words))]
    listed = "".join(f"{text} AS {name}, " for text, name in zip(encoding.words, names, strict=True))
    coded = f"SELECT {listed}{rows.record} AS r, {value} AS v FROM {encoding.coded_source()}"
    return coded, names


def keys_of_kinds(
    engine: Engine, queries: Sequence[ReleaseQuery], subject: Subject, kinds: Mapping[int, PersonRows]
) -> dict[int, tuple[str, ...]]:
    """Owner-only: the keys of the persons of some kinds, sorted."""
    if not kinds:
        return {}
    wanted = ", ".join(str(one) for one in sorted({entries[0][0] for entries in kinds.values()}))
    ranked = ranked_rows(engine, queries, subject, known_rows(engine, subject))
    some = f"SELECT r FROM ({ranked}) AS chosen WHERE s IN ({wanted})"
    found = _persons(engine, f"SELECT r, s, v FROM ({ranked}) AS ranked WHERE r IN ({some})")
    return {
        kind: tuple(sorted(key_text(key) for key, own in found.items() if own == entries))
        for kind, entries in kinds.items()
    }


def person_of(
    engine: Engine, queries: Sequence[ReleaseQuery], subject: Subject, *, record_key: str
) -> PersonRows | None:
    """Owner-only: the entries of one person; ``None`` if they have no row with a secret."""
    asked = is_record_condition(engine, subject, record_key)
    value = f"CASE WHEN {asked} THEN {known_rows(engine, subject)} ELSE -1 END"
    ranked = ranked_rows(engine, queries, subject, value)
    found = _persons(engine, f"SELECT r, s, v FROM ({ranked}) AS ranked WHERE v >= 0")
    return next(iter(found.values()), None)


def _persons(engine: Engine, rows: str) -> dict[object, PersonRows]:
    """The entries of every person in a query for (record key, signature, known)."""
    answer = engine.fetch(
        f"SELECT r, s, v AS k, COUNT(*) AS n FROM ({rows}) AS chosen GROUP BY r, s, v ORDER BY s, k"
    )
    found: dict[object, list[tuple[int, bool, int]]] = {}
    listed: Iterable[tuple[object, int, int, int]] = zip(
        *(answer[name].tolist() for name in ("r", "s", "k", "n")), strict=True
    )
    for key, signature, known, number in listed:
        found.setdefault(key, []).append((int(signature), bool(known), int(number)))
    return {key: tuple(entries) for key, entries in found.items()}


def known_rows(engine: Engine, subject: Subject) -> str:
    """Whether the attacker knows a row, as SQL: 1 or 0."""
    known = known_condition(engine, subject)
    return f"CASE WHEN {known} THEN 1 ELSE 0 END" if known else "0"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowRecords:
    """Every audited row: whose it is, its signature, its secret and whether the attacker knows it."""

    keys: list[str]  # of the row's record
    person: IndexArray  # a number for each record, ascending
    signature: IndexArray
    secret: NDArray[np.generic]  # numbers clipped to the bounds, 1 for a yes; or categories
    known: NDArray[np.bool_]


def row_records(engine: Engine, queries: Sequence[ReleaseQuery], subject: Subject) -> RowRecords:
    """Owner-only: fetch every row, in the order of the records' keys, signatures and secrets."""
    rows = audited_rows(queries, subject, engine.columns())
    value = f"{clipped_secret(rows, subject)} AS x, {known_rows(engine, subject)}"
    coded, names = coded_rows(engine, queries, subject, value)
    rank = f"DENSE_RANK() OVER (ORDER BY {', '.join(names)}) - 1" if names else "0"
    answer = engine.fetch(f"SELECT r, {rank} AS s, x, v FROM ({coded}) AS coded ORDER BY r, s, x")
    key, number = answer["r"], subject.kind is not SecretKind.CATEGORY
    return RowRecords(
        keys=list(map(str if key.dtype.kind in "iu" else key_text, key.tolist())),
        person=np.cumsum(np.append(False, key[1:] != key[:-1])[: key.size]),
        signature=np.asarray(answer["s"], dtype=np.intp),
        secret=np.asarray(answer["x"], dtype=np.float64) if number else np.asarray(answer["x"]),
        known=np.asarray(answer["v"]) > 0,
    )
