"""Back from signatures to rows: owner-only, and only on demand.

A signature's position in a ``Membership`` is its rank among all signatures: the engine can find its rows
again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sightline.arrays import FloatArray
from sightline.tables.collect import expand, told_by
from sightline.tables.encoding import encode, key_text
from sightline.tables.engines.engine import DATA, Engine, Kind
from sightline.tables.membership import RowValues
from sightline.tables.rows import Rows, audited_rows, literal, quoted
from sightline.tables.sql.grammar import refuse
from sightline.tables.sql.reader import ReleaseQuery
from sightline.tables.sql.scope import find_column


def row_values(
    engine: Engine,
    queries: Sequence[ReleaseQuery],
    *,
    record: str,
    secret: str,
    secret_kind: Kind,
    bounds: tuple[float, float] | None = None,
    categories: Sequence[str] | None = None,
) -> RowValues:
    """Every row's signature and its secret, clipped to ``bounds``, for releases that are not linear in it.

    Rows come sorted by signature, then by value: who is who is not told.
    """
    if secret_kind is Kind.TEXT:
        refuse(
            "a numeric or boolean secret",
            got="a text secret",
            fix="its histogram is linear: no values are needed",
        )
    rows = _rows(engine, queries, record=record, secret=secret, secret_kind=secret_kind)
    value = rows.secret if secret_kind is Kind.NUMBER else f"CASE WHEN {rows.secret} THEN 1.0 ELSE 0.0 END"
    ranked = _ranked(engine, queries, rows, f"CAST({value} AS DOUBLE)", categories)
    answer = engine.fetch(f"SELECT s, v FROM ({ranked}) AS ranked ORDER BY s, v")
    values = answer["v"].astype(np.float64)
    if bounds is not None:
        values = np.clip(values, *bounds)
    return RowValues(signature=answer["s"].astype(np.int64), secret=values)


def signature_totals(  # many parameters: the table and its subject, as everywhere in this file
    engine: Engine,
    queries: Sequence[ReleaseQuery],
    *,
    record: str,
    secret: str,
    secret_kind: Kind,
    bounds: tuple[float, float] | None = None,
    categories: Sequence[str] | None = None,
    known: Sequence[str] = (),
) -> FloatArray:
    """Owner-only: the sum of the secret over the rows with each signature; one column, or one per category.

    Values are clipped to ``bounds``. Rows that meet a ``known`` condition are left out.
    """
    rows = _rows(engine, queries, record=record, secret=secret, secret_kind=secret_kind)
    told = told_by(known, columns=engine.columns(), secret=secret) or "FALSE"
    value = rows.secret
    if secret_kind is Kind.BOOLEAN:
        value = f"CASE WHEN {value} THEN 1.0 ELSE 0.0 END"
    elif bounds is not None:
        low, high = bounds
        value = f"LEAST(GREATEST({value}, {low!r}), {high!r})"
    ranked = _ranked(engine, queries, rows, f"CASE WHEN {told} THEN NULL ELSE {value} END", categories)
    if secret_kind is not Kind.TEXT:
        summed = "CAST(COALESCE(SUM(v), 0) AS DOUBLE) AS total"
        answer = engine.fetch(f"SELECT s, {summed} FROM ({ranked}) AS ranked GROUP BY s ORDER BY s")
        return answer["total"].astype(np.float64)[:, None]
    answer = engine.fetch(f"SELECT s, v, COUNT(*) AS n FROM ({ranked}) AS ranked GROUP BY s, v ORDER BY s")
    names = list(categories or ())
    totals = np.zeros((int(answer["s"].max()) + 1, len(names)))
    for signature, name, count in zip(answer["s"], answer["v"], answer["n"], strict=True):
        if name in names:
            totals[int(signature), names.index(name)] = count
    return totals


def members_of(
    engine: Engine,
    queries: Sequence[ReleaseQuery],
    *,
    record: str,
    secret: str,
    secret_kind: Kind,
    signature_ids: Sequence[int],
    categories: Sequence[str] | None = None,
    known: Sequence[str] = (),
) -> dict[int, tuple[str, ...]]:
    """The keys of the records that have a row with each of the given signatures, sorted.

    Rows that meet a ``known`` condition are left out.
    """
    if not signature_ids:
        return {}
    rows = _rows(engine, queries, record=record, secret=secret, secret_kind=secret_kind)
    wanted = ", ".join(str(int(one)) for one in signature_ids)
    told = told_by(known, columns=engine.columns(), secret=secret)
    value = f"CASE WHEN {told} THEN NULL ELSE {rows.record} END" if told else rows.record
    ranked = _ranked(engine, queries, rows, value, categories)
    answer = engine.fetch(
        f"SELECT DISTINCT s, v FROM ({ranked}) AS ranked WHERE s IN ({wanted}) AND v IS NOT NULL"
    )
    members: dict[int, list[str]] = {int(one): [] for one in signature_ids}
    for signature, key in zip(answer["s"].tolist(), answer["v"].tolist(), strict=True):
        members[int(signature)].append(key_text(key))
    return {signature: tuple(sorted(keys)) for signature, keys in members.items()}


def signature_of(
    engine: Engine,
    queries: Sequence[ReleaseQuery],
    *,
    record: str,
    secret: str,
    secret_kind: Kind,
    record_key: str,
    categories: Sequence[str] | None = None,
    known: Sequence[str] = (),
) -> tuple[int, ...]:
    """The signatures of one record's rows, in order; empty if it has no row with a secret.

    Rows that meet a ``known`` condition are left out.
    """
    rows = _rows(engine, queries, record=record, secret=secret, secret_kind=secret_kind)
    asked = _asked(engine, record, record_key)
    told = told_by(known, columns=engine.columns(), secret=secret) or "FALSE"
    value = f"CASE WHEN {told} THEN 0 WHEN {asked} THEN 1 ELSE 0 END"
    ranked = _ranked(engine, queries, rows, value, categories)
    answer = engine.fetch(f"SELECT DISTINCT s FROM ({ranked}) AS ranked WHERE v = 1 ORDER BY s")
    return tuple(int(one) for one in answer["s"])


def has_rows(engine: Engine, *, record: str, record_key: str) -> bool:
    """Whether a record has a row at all, with or without a secret."""
    asked = _asked(engine, record, record_key)
    answer = engine.fetch(f"SELECT COUNT(*) AS n FROM {quoted(DATA)} WHERE {asked}")
    return bool(answer["n"][0])


def _asked(engine: Engine, record: str, record_key: str) -> str:
    """The condition that a row is the record's."""
    found = find_column(engine.columns(), record)
    column = f"{quoted(DATA)}.{quoted(found.name)}"
    if found.kind is Kind.NUMBER:
        try:
            number = float(record_key)
        except ValueError:
            number = float("nan")
        if not abs(number) < float("inf"):
            refuse(
                "a number as the record's key", got="something else", fix=f'"{record}" is a column of numbers'
            )
        return f"{column} = {record_key.strip() if record_key.strip().isdigit() else repr(number)}"
    if found.kind is Kind.TEXT:
        return f"{column} = {literal(record_key)}"
    return f"CAST({column} AS VARCHAR) = {literal(record_key)}"


def _rows(
    engine: Engine, queries: Sequence[ReleaseQuery], *, record: str, secret: str, secret_kind: Kind
) -> Rows:
    return audited_rows(
        queries, columns=engine.columns(), record=record, secret=secret, secret_kind=secret_kind
    )


def _ranked(
    engine: Engine, queries: Sequence[ReleaseQuery], rows: Rows, value: str, categories: Sequence[str] | None
) -> str:
    """A query for (signature, value) of every row."""
    _, pieces = expand(engine, rows, queries, categories)
    encoding = encode(engine, pieces, rows=rows)
    names = [f"w{position}" for position in range(len(encoding.words))]
    listed = "".join(f"{text} AS {name}, " for text, name in zip(encoding.words, names, strict=True))
    coded = f"SELECT {listed}{value} AS v FROM {encoding.coded_source()}"
    order = ", ".join(names)
    rank = f"DENSE_RANK() OVER (ORDER BY {order}) - 1" if names else "0"
    return f"SELECT {rank} AS s, v FROM ({coded}) AS coded"
