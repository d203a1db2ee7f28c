"""From signatures back to rows, on demand: what only the owner of the table may see.

A signature's position in a ``Membership`` is its rank among all signatures, so the engine can find its rows
again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sightline.arrays import FloatArray
from sightline.tables.collect import expand, known_condition
from sightline.tables.encoding import encode, key_text
from sightline.tables.engines.protocol import DATA, ColumnKind, Engine
from sightline.tables.membership import RowValues
from sightline.tables.rows import audited_rows
from sightline.tables.sql.fragments import literal, quoted
from sightline.tables.sql.grammar import refuse
from sightline.tables.sql.reader import ReleaseQuery
from sightline.tables.sql.scope import find_column
from sightline.tables.subject import SecretKind, Subject


def row_values(engine: Engine, queries: Sequence[ReleaseQuery], subject: Subject) -> RowValues:
    """Every row's signature and its secret, clipped to the bounds, for releases that are not linear in it.

    Rows come sorted by signature, then by value, so that nothing tells whose they are.
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


def signature_totals(engine: Engine, queries: Sequence[ReleaseQuery], subject: Subject) -> FloatArray:
    """Owner-only: the sum of the secret over the rows with each signature; one column, or one per category.

    Values are clipped to the bounds. Rows that the attacker knows are left out.
    """
    value = audited_rows(queries, subject, engine.columns()).secret
    if subject.kind is SecretKind.BOOLEAN:
        value = f"CASE WHEN {value} THEN 1.0 ELSE 0.0 END"
    elif subject.bounds is not None:
        low, high = subject.bounds
        value = f"LEAST(GREATEST({value}, {low!r}), {high!r})"
    known = known_condition(engine, subject) or "FALSE"
    ranked = ranked_rows(engine, queries, subject, f"CASE WHEN {known} THEN NULL ELSE {value} END")
    if subject.kind is not SecretKind.CATEGORY:
        summed = "CAST(COALESCE(SUM(v), 0) AS DOUBLE) AS total"
        answer = engine.fetch(f"SELECT s, {summed} FROM ({ranked}) AS ranked GROUP BY s ORDER BY s")
        return answer["total"].astype(np.float64)[:, None]
    answer = engine.fetch(f"SELECT s, v, COUNT(*) AS n FROM ({ranked}) AS ranked GROUP BY s, v ORDER BY s")
    names = list(subject.categories or ())
    totals = np.zeros((int(answer["s"].max()) + 1, len(names)))
    for signature, name, count in zip(answer["s"], answer["v"], answer["n"], strict=True):
        if name in names:
            totals[int(signature), names.index(name)] = count
    return totals


def members_of(
    engine: Engine, queries: Sequence[ReleaseQuery], subject: Subject, *, signature_ids: Sequence[int]
) -> dict[int, tuple[str, ...]]:
    """The keys of the records that have a row with each of the given signatures, sorted.

    Rows that the attacker knows are left out.
    """
    if not signature_ids:
        return {}
    rows = audited_rows(queries, subject, engine.columns())
    wanted = ", ".join(str(int(one)) for one in signature_ids)
    known = known_condition(engine, subject)
    value = f"CASE WHEN {known} THEN NULL ELSE {rows.record} END" if known else rows.record
    ranked = ranked_rows(engine, queries, subject, value)
    answer = engine.fetch(
        f"SELECT DISTINCT s, v FROM ({ranked}) AS ranked WHERE s IN ({wanted}) AND v IS NOT NULL"
    )
    members: dict[int, list[str]] = {int(one): [] for one in signature_ids}
    for signature, key in zip(answer["s"].tolist(), answer["v"].tolist(), strict=True):
        members[int(signature)].append(key_text(key))
    return {signature: tuple(sorted(keys)) for signature, keys in members.items()}


def signature_of(
    engine: Engine, queries: Sequence[ReleaseQuery], subject: Subject, *, record_key: str
) -> tuple[int, ...]:
    """The signatures of one record's rows, in order; empty if it has no row with a secret.

    Rows that the attacker knows are left out.
    """
    asked = asked_record(engine, subject, record_key)
    known = known_condition(engine, subject) or "FALSE"
    value = f"CASE WHEN {known} THEN 0 WHEN {asked} THEN 1 ELSE 0 END"
    ranked = ranked_rows(engine, queries, subject, value)
    answer = engine.fetch(f"SELECT DISTINCT s FROM ({ranked}) AS ranked WHERE v = 1 ORDER BY s")
    return tuple(int(one) for one in answer["s"])


def has_rows(engine: Engine, subject: Subject, *, record_key: str) -> bool:
    """Whether a record has a row at all, with or without a secret."""
    asked = asked_record(engine, subject, record_key)
    answer = engine.fetch(f"SELECT COUNT(*) AS n FROM {quoted(DATA)} WHERE {asked}")
    return bool(answer["n"][0])


def asked_record(engine: Engine, subject: Subject, record_key: str) -> str:
    """The condition that a row is the record's."""
    found = find_column(engine.columns(), subject.record)
    column = f"{quoted(DATA)}.{quoted(found.name)}"
    if found.kind is ColumnKind.NUMBER:
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
        return f"{column} = {record_key.strip() if record_key.strip().isdigit() else repr(number)}"
    if found.kind is ColumnKind.TEXT:
        return f"{column} = {literal(record_key)}"
    return f"CAST({column} AS VARCHAR) = {literal(record_key)}"


def ranked_rows(engine: Engine, queries: Sequence[ReleaseQuery], subject: Subject, value: str) -> str:
    """A query for (record key, signature, value) of every row: r, s and v."""
    rows = audited_rows(queries, subject, engine.columns())
    _, asked = expand(engine, rows, queries, subject.categories)
    encoding = encode(engine, asked, rows=rows)
    names = [f"w{position}" for position in range(len(encoding.words))]
    listed = "".join(f"{text} AS {name}, " for text, name in zip(encoding.words, names, strict=True))
    coded = f"SELECT {listed}{rows.record} AS r, {value} AS v FROM {encoding.coded_source()}"
    order = ", ".join(names)
    rank = f"DENSE_RANK() OVER (ORDER BY {order}) - 1" if names else "0"
    return f"SELECT r, {rank} AS s, v FROM ({coded}) AS coded"
