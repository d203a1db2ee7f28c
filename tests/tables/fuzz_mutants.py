"""Hunt with the catalogue's queries, changed at random, for one that is audited as something else than it is.

The oracle is the text as it stands, on a table with other secrets. Every number of a cell must be in its
answer, every number of its answer that the secrets change must be that of a cell, and the secret of a row
that is in no cell must change nothing. Nor may an exchange of secrets among rows with the same cells,
whatever is computed with their numbers.
"""

from __future__ import annotations

import math
import random
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from sightline.errors import InvalidPlan
from sightline.ledger.frozen import aggregated
from sightline.tables.collect import collect, count_table
from sightline.tables.engines.open import open_source
from sightline.tables.engines.protocol import Engine
from sightline.tables.membership import Membership, Statistic
from sightline.tables.other_secrets import check_other_secrets
from sightline.tables.records import members_of
from sightline.tables.rounding import with_measured_rounding
from sightline.tables.sql.reader import read_release
from sightline.tables.subject import Schema, SecretKind, Subject
from sightline.tables.verify import verify
from tests.tables.catalogue_cases import COLUMNS, statements, themes
from tests.tables.fuzz_catalogue import changed_query, words_of

KEYS = {"shop": "order_id", "clinic": "patient"}
_OTHER = {  # another secret of a row, as SQL
    "revenue": "hash({key}, {seed}) % 2001 / 4.0",
    "quantity": "CAST(hash({key}, {seed}) % 10 AS INTEGER)",
    "ill": "hash({key}, {seed}) % 2 = 0",
    "blood": "['A', 'B', '0', 'AB'][CAST(1 + hash({key}, {seed}) % 4 AS BIGINT)]",
}
Lines = list[tuple[Any, ...]]


@contextmanager
def opened() -> Iterator[dict[str, tuple[Engine, duckdb.DuckDBPyConnection]]]:
    """For each table the engine that the audit asks, and a connection whose secrets may be changed."""
    with tempfile.TemporaryDirectory() as name:
        with duckdb.connect(f"{name}/c.duckdb") as connection:
            for (created, rows), table in zip(statements({}), COLUMNS, strict=True):
                connection.execute(created)
                marks = ", ".join("?" for _ in COLUMNS[table])
                connection.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)
            # Rows without a secret are counted, not audited: they would shift a number by a constant.
            connection.execute("DELETE FROM shop WHERE revenue IS NULL")
            connection.execute("DELETE FROM clinic WHERE ill IS NULL")
        found = {}
        for table in KEYS:
            engine = open_source(
                f"c.duckdb::{table}", base=Path(name), tables={"countries": "c.duckdb::countries"}
            )
            connection = duckdb.connect()
            connection.execute(f"ATTACH '{name}/c.duckdb' AS f (READ_ONLY)")
            connection.execute("CREATE TABLE countries AS SELECT * FROM f.countries")
            connection.execute(f"CREATE TABLE data AS SELECT * FROM f.{table}")
            found[table] = engine, connection
        yield found
        for engine, connection in found.values():
            engine.close()
            connection.close()


def _answer(connection: duckdb.DuckDBPyConnection, sql: str) -> Lines:
    lines = connection.execute(sql).fetchall()
    return sorted((tuple(map(_rounded, line)) for line in lines), key=repr)


def _rounded(value: Any) -> Any:
    number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    return round(float(value), 6) + 0.0 if number else value


def _numbers(value: Any) -> list[float]:
    """A number of an answer, also one that is written as text beside texts of suppressed groups."""
    try:
        return [float(value)] if isinstance(value, float | str) else []
    except ValueError:
        return []


def _totals(membership: Membership, places: list[int], secrets: list[Any], kind: SecretKind) -> list[float]:
    """What every cell adds up of some secrets."""
    category = kind is SecretKind.CATEGORY
    values = np.array(secrets, dtype=object if category else np.float64)
    found: list[float] = []
    for p, part in enumerate(membership.partitions):
        features = aggregated(part, values) * membership.weights_in(p)[places]
        cells = membership.positions(p)[places]
        for cell in range(int(membership.starts[p]), int(membership.starts[p + 1])):
            inside = features[cells == cell]
            total = float(inside.sum())
            found.append(total / len(inside) if part.statistic is Statistic.MEAN else total)
    return found


def _near(number: float, others: list[float]) -> bool:
    return any(math.isclose(number, one, rel_tol=1e-6, abs_tol=2e-6) for one in others)


def difference(
    engine: Engine,
    connection: duckdb.DuckDBPyConnection,
    sql: str,
    subject: Subject,
    draw: random.Random,
) -> str:
    """How the text's own answers on other secrets differ from the audit's cells; empty where they do not.

    ``InvalidPlan`` where the audit refuses the text.
    """
    query = read_release(sql, name="drawn", subject=subject, schema=Schema.of(engine, ["countries"]))
    membership = collect(engine, [query], subject)
    verify(engine, [query], membership)
    check_other_secrets(engine, [query], membership, subject)
    membership = with_measured_rounding(engine, [query], membership, subject)
    plain = all(not part.computed.steps for part in membership.partitions)
    key, secret = subject.record, subject.secret
    counted = count_table(engine, [query], subject)
    named = members_of(engine, counted, signature_ids=range(len(membership.signatures)))
    signature = {int(name): place for place, names in named.items() for name in names}
    positions = [membership.positions(p) for p in range(len(membership.partitions))]
    outside = [row for row, place in signature.items() if all(own[place] < 0 for own in positions)]
    table = next(table for table, own in KEYS.items() if own == key)
    connection.execute(f"CREATE OR REPLACE TABLE data AS SELECT * FROM f.{table}")
    answers, totals = [], []
    for seed in (draw.randrange(10**6), draw.randrange(10**6)):
        other = _OTHER[secret].format(key=key, seed=seed)
        connection.execute(f"UPDATE data SET {secret} = {other} WHERE {secret} IS NOT NULL")
        own = connection.execute(f"SELECT {key}, {secret} FROM data WHERE {secret} IS NOT NULL").fetchall()
        places = [signature[row] for row, _ in own]
        totals.append(_totals(membership, places, [value for _, value in own], subject.kind))
        answers.append(_answer(connection, sql))
    if plain:
        for answer, numbers in zip(answers, totals, strict=True):
            shown = [number for line in answer for value in line for number in _numbers(value)]
            if not all(_near(number, [*shown, 0.0]) for number in numbers):
                return "a cell's number is not in the answer"
        columns = [list(zip(*answer, strict=True)) for answer in answers]
        own = [(part.select, part.grouping_set, part.aggregate) for part in membership.partitions]
        listed = len(set(own)) == len(own)  # else it is grouped by the secret, and its keys change, too
        for first, second in zip(*columns, strict=True) if listed and all(columns) else ():
            if sorted(map(repr, first)) != sorted(map(repr, second)):
                before = [value for value in first if isinstance(value, float)]
                numbers = [value for value in second if isinstance(value, float)]
                if not all(_near(number, [*totals[1], *before, 0.0]) for number in numbers):
                    return "a number that the secrets change is in no cell"
    _exchange(connection, signature, subject, draw)
    if not _same(_answer(connection, sql), answers[1]):
        return "an exchange of secrets within the cells changes the answer"
    connection.execute(f"UPDATE data SET {secret} = kept.{secret} FROM kept WHERE data.{key} = kept.{key}")
    for row in draw.sample(outside, min(3, len(outside))):
        seed = draw.randrange(10**6)
        other = _OTHER[secret].format(key=key, seed=seed)
        connection.execute(f"UPDATE data SET {secret} = {other} WHERE {key} = {row}")
        if _answer(connection, sql) != answers[1]:
            return f"the secret of row {row}, which is in no cell, changes the answer"
    return ""


def _exchange(
    connection: duckdb.DuckDBPyConnection, signature: dict[int, int], subject: Subject, draw: random.Random
) -> None:
    """Let rows of the same cells exchange their secrets; table ``kept`` has them as they were."""
    key, secret = subject.record, subject.secret
    connection.execute(f"CREATE OR REPLACE TABLE kept AS SELECT {key}, {secret} FROM data")
    values = dict(connection.execute("SELECT * FROM kept").fetchall())
    classes: dict[int, list[int]] = {}
    for row, place in signature.items():
        if values[row] is not None:
            classes.setdefault(place, []).append(row)
    pairs = [pair for own in classes.values() for pair in zip(own, draw.sample(own, len(own)), strict=True)]
    listed = ", ".join(f"({row}, {other})" for row, other in pairs)
    connection.execute(
        f"UPDATE data SET {secret} = kept.{secret} FROM kept, (VALUES {listed}) AS pairs(a, b) "
        f"WHERE data.{key} = pairs.a AND kept.{key} = pairs.b"
    )


def _same(one: Lines, other: Lines) -> bool:
    """Whether two answers are the same, but for the last digits of their numbers."""

    def coarse(lines: Lines) -> Lines:
        return sorted(
            (tuple(f"{v:.4g}" if isinstance(v, float) else v for v in line) for line in lines), key=repr
        )

    return one == other or coarse(one) == coarse(other)


def hunt(seed: int, *, seconds: float = float("inf"), number: float = float("inf")) -> dict[str, int]:
    """Compare changed queries until the seconds or the number are over; raise at the first difference."""
    draw, until = random.Random(seed), time.monotonic() + seconds
    queries = [
        (theme, words_of(query.text("duckdb")))
        for theme in themes()
        for query in theme.queries
        if query.data is None and "duckdb" in query.only
    ]
    bag = sorted({word for _, words in queries for word in words})
    found = {"texts": 0, "compiled": 0, "refused": 0, "read": 0}
    with opened() as tables:
        while time.monotonic() < until and found["texts"] < number:
            found["texts"] += 1
            theme, words = draw.choice(queries)
            sql = changed_query(words, bag, draw)
            engine, connection = tables[theme.table]
            try:
                connection.execute(f"EXPLAIN {sql}")
            except duckdb.Error:
                continue
            found["compiled"] += 1
            subject = replace(theme.subject, record=KEYS[theme.table], most_rows=1)
            try:
                wrong = difference(engine, connection, sql, subject, draw)
                found["read"] += 1
            except (InvalidPlan, duckdb.Error):
                found["refused"] += 1
                continue
            except Exception as failure:
                failure.add_note(sql)
                raise
            assert not wrong, f"{wrong}: {sql}"
    return found


def fuzz(seed: int, seconds: float) -> dict[str, int]:
    """Hunt for some seconds."""
    return hunt(seed, seconds=seconds)
