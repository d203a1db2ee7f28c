"""Functions of the secret that the engine tabulates: every published number, by raw SQL on changed secrets.

A release is read on one table. Then the same text runs, as it is written, on tables with other secrets, and
every number must be what the audit's cells add up of these.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from sightline.errors import InvalidPlan
from sightline.ledger.frozen import aggregated
from sightline.tables.collect import collect, count_table
from sightline.tables.engines.open import open_source
from sightline.tables.engines.protocol import Engine
from sightline.tables.membership import Band, Membership, Statistic, UnauditedRows
from sightline.tables.other_secrets import check_other_secrets
from sightline.tables.records import members_of
from sightline.tables.sql import number_sets
from sightline.tables.sql.reader import read_release
from sightline.tables.subject import Schema, SecretKind, Subject
from sightline.tables.verify import verify

DIAGNOSES = ("C50", "C61", "E11", "I10", "I21", "J45")
SUBJECTS = {
    "diagnosis": Subject(record="id", secret="diagnosis", kind=SecretKind.CATEGORY, categories=DIAGNOSES),
    "grade": Subject(record="id", secret="grade", kind=SecretKind.NUMBER, bounds=(0, 6)),
    "k": Subject(record="id", secret="k", kind=SecretKind.NUMBER, bounds=(-3, 40)),
    "ill": Subject(record="id", secret="ill", kind=SecretKind.BOOLEAN),
}
DRAWN = {
    "diagnosis": lambda draw: draw.choice(DIAGNOSES),
    "grade": lambda draw: draw.choice([0.0, 0.5, 1.0, 2.5, 3.0, 3.5, 6.0, draw.uniform(0, 6)]),
    "k": lambda draw: draw.randint(-3, 40),
    "ill": lambda draw: draw.random() < 0.5,
}
KINDS = {"diagnosis": "VARCHAR", "grade": "DOUBLE", "k": "INTEGER", "ill": "BOOLEAN"}
NATURAL = [
    ("diagnosis", "SELECT LEFT(diagnosis, 1) AS chapter, COUNT(*) FROM data GROUP BY chapter"),
    ("diagnosis", "SELECT town, COUNT(*) FROM data WHERE diagnosis LIKE 'C%' GROUP BY town"),
    ("diagnosis", "SELECT COUNT(*) FILTER (WHERE diagnosis NOT LIKE 'I%') FROM data"),
    ("diagnosis", "SELECT SUM(CASE WHEN SUBSTRING(diagnosis, 1, 1) = 'I' THEN 1 ELSE 0 END) FROM data"),
    ("diagnosis",
     "SELECT CASE WHEN diagnosis IN ('C50', 'C61') THEN 'cancer' ELSE 'other' END AS d, town, COUNT(*) "
     "FROM data GROUP BY d, town"),
    ("diagnosis", "SELECT COUNT(*) FROM data WHERE diagnosis >= 'E' AND diagnosis < 'J'"),
    ("diagnosis", "SELECT COUNT(*) FROM data WHERE UPPER(diagnosis) = 'C50' OR LENGTH(diagnosis) > 3"),
    ("diagnosis", "SELECT diagnosis LIKE 'C%' AS cancer, COUNT(*) FROM data GROUP BY 1"),
    ("diagnosis", "SELECT SUM(w) FROM data WHERE LEFT(diagnosis, 1) IN ('C', 'E')"),
    ("diagnosis", "SELECT COUNT(*) FROM data WHERE NOT (NULLIF(diagnosis, 'C50') = 'C61')"),
    ("diagnosis", "SELECT LEFT(diagnosis, 1), RIGHT(diagnosis, 1), COUNT(*) FROM data GROUP BY 1, 2"),
    ("diagnosis", "SELECT LEFT(diagnosis, 1), COUNT(*) FROM data WHERE diagnosis <> 'C61' GROUP BY 1"),
    ("diagnosis",
     "SELECT LEFT(diagnosis, 1), COUNT(*) FILTER (WHERE diagnosis LIKE '%0') FROM data GROUP BY 1"),
    ("grade", "SELECT FLOOR(grade) AS g, COUNT(*) FROM data WHERE grade > 2.5 GROUP BY g"),
    ("grade", "SELECT ROUND(grade) AS g, COUNT(*) FROM data GROUP BY g"),
    ("grade", "SELECT town, FLOOR(grade * 3) / 3 AS third, COUNT(*) FROM data GROUP BY town, third"),
    ("grade", "SELECT COUNT(*) FROM data WHERE grade BETWEEN 1 AND 2 OR grade BETWEEN 4 AND 5"),
    ("grade", "SELECT COUNT(*) FROM data WHERE grade < 1 OR grade = 3.5 OR grade >= 5"),
    ("grade", "SELECT COUNT(*) FILTER (WHERE ROUND(grade) = 2) FROM data"),
    ("grade",
     "SELECT CASE WHEN grade = 0 THEN 'none' WHEN grade < 2 THEN 'low' WHEN grade < 4 THEN 'mid' "
     "ELSE 'low' END AS b, COUNT(*) FROM data GROUP BY b"),
    ("grade",
     "SELECT CASE WHEN grade BETWEEN 0 AND 1 THEN 'a' WHEN grade BETWEEN 2 AND 3 THEN 'b' END AS b, COUNT(*) "
     "FROM data GROUP BY b"),
    ("grade", "SELECT COUNT(*) FROM data WHERE (grade < 2 OR grade > 5) AND grade < 5.5"),
    ("grade", "SELECT COUNT(*) FROM data WHERE NOT (grade BETWEEN 1 AND 2 OR grade BETWEEN 4 AND 5)"),
    ("k", "SELECT COUNT(*) FROM data WHERE k IN (1, 2, 3, 7)"),
    ("k", "SELECT COUNT(*) FROM data WHERE k % 2 = 0"),
    ("k", "SELECT CASE WHEN k = 0 THEN 'none' WHEN k > 0 THEN 'some' ELSE 'debt' END AS b, COUNT(*) "
     "FROM data GROUP BY b"),
    ("k", "SELECT ABS(k) > 3 AS far, town, COUNT(*) FROM data GROUP BY far, town"),
    ("k", "SELECT ROUND(k / 10) AS decade, COUNT(*) FROM data GROUP BY decade"),
    ("ill", "SELECT CASE WHEN ill THEN 'yes' ELSE 'no' END AS state, COUNT(*) FROM data GROUP BY state"),
    ("ill", "SELECT COUNT(*) FROM data WHERE COALESCE(ill, FALSE) OR NOT TRUE"),
]  # fmt: skip


def rows(secret: str, seed: int) -> list[tuple[Any, ...]]:
    draw = random.Random(seed)
    return [(i, ["north", "south", "east"][i % 3], 1 + i % 4, DRAWN[secret](draw)) for i in range(90)]


def created(secret: str, seed: int, name: str) -> list[str]:
    """Statements that make a table with drawn secrets."""

    def constant(value: Any) -> str:
        return f"'{value}'" if isinstance(value, str) else str(value)

    lines = ", ".join(f"({', '.join(map(constant, row))})" for row in rows(secret, seed))
    kind = KINDS[secret]
    return [
        f"CREATE TABLE {name} (id INTEGER, town VARCHAR(9), w INTEGER, {secret} {kind})",
        f"INSERT INTO {name} VALUES {lines}",
    ]


def on_file(folder: Path, secret: str) -> Engine:
    """The table with the first secrets, in a file of DuckDB's."""
    with duckdb.connect(str(folder / "data.duckdb")) as connection:
        for statement in created(secret, 1, "data"):
            connection.execute(statement)
    return open_source("data.duckdb", base=folder)


def read(engine: Engine, secret: str, sql: str) -> tuple[Membership, dict[int, int]]:
    """The release as it is read and checked, and the signature of every record."""
    subject = SUBJECTS[secret]
    query = read_release(sql, name="one", subject=subject, schema=Schema.of(engine))
    membership = collect(engine, [query], subject)
    found = verify(engine, [query], membership)
    assert sum((one.dropped + one.clipped) for one in found) == 0
    check_other_secrets(engine, [query], membership, subject)
    counted = count_table(engine, [query], subject)
    keys = members_of(engine, counted, signature_ids=range(len(membership.signatures)))
    return membership, {int(one): place for place, names in keys.items() for one in names}


def added_up(membership: Membership, signature: dict[int, int], secret: str, seed: int) -> Counter[float]:
    """What the audited cells add up of some secrets, but for zeros: nobody's line is missing in an answer."""
    own = rows(secret, seed)
    values = np.array([row[3] for row in own], dtype=object if secret == "diagnosis" else np.float64)
    places = [signature[row[0]] for row in own]
    sums: Counter[float] = Counter()
    for p, part in enumerate(membership.partitions):
        assert part.statistic is Statistic.SUM
        features = aggregated(part, values) * membership.weights_in(p)[places]
        cells = membership.positions(p)[places]
        for cell in range(int(membership.starts[p]), int(membership.starts[p + 1])):
            sums[float(features[cells == cell].sum())] += 1
    del sums[0.0]
    return sums


def published(answer: list[tuple[Any, ...]]) -> Counter[float]:
    """The numbers of an answer, but for zeros."""
    numbers = Counter(float(line[-1]) for line in answer)
    del numbers[0.0]
    return numbers


@pytest.mark.parametrize(("secret", "sql"), NATURAL, ids=[sql[7:] for _, sql in NATURAL])
def test_what_the_audit_adds_up_is_what_the_text_answers_on_other_secrets(
    tmp_path: Path, secret: str, sql: str
) -> None:
    engine = on_file(tmp_path, secret)
    membership, signature = read(engine, secret, sql)
    engine.close()
    with duckdb.connect() as connection:
        for seed in range(2, 6):
            for statement in ("DROP TABLE IF EXISTS data", *created(secret, seed, "data")):
                connection.execute(statement)
            answer = connection.execute(sql).fetchall()
            assert added_up(membership, signature, secret, seed) == published(answer)


def test_postgres_tabulates_by_its_own_rules(postgres_url: str) -> None:
    """ROUND takes halves away from zero here, and k / 10 is a whole number."""
    import psycopg

    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA functions")
        connection.execute("SET search_path TO functions")
        for secret in SUBJECTS:
            connection.execute("DROP TABLE IF EXISTS data")
            for statement in created(secret, 1, "data"):
                connection.execute(statement.replace("DOUBLE", "DOUBLE PRECISION"))
            engine = open_source(f"{postgres_url}?table=functions.data", base=Path())
            readings = [(sql, *read(engine, secret, sql)) for own, sql in NATURAL if own == secret]
            engine.close()
            assert len(readings) >= 2
            for seed in range(2, 5):
                connection.execute("DROP TABLE data")
                for statement in created(secret, seed, "data"):
                    connection.execute(statement.replace("DOUBLE", "DOUBLE PRECISION"))
                for sql, membership, signature in readings:
                    answer = connection.execute(sql).fetchall()
                    assert added_up(membership, signature, secret, seed) == published(answer), sql
        connection.execute("DROP SCHEMA functions CASCADE")


REFUSED = [
    ("diagnosis",
     "SELECT CASE WHEN diagnosis = 'C50' THEN town ELSE 'x' END AS b, COUNT(*) FROM data GROUP BY b",
     "a function of it alone"),
    ("diagnosis", "SELECT COUNT(*) FROM data WHERE diagnosis LIKE 'Z%'", "compared with categories"),
    ("grade", "SELECT COUNT(*) FROM data WHERE SQRT(grade) > 1", "SQRT"),
    ("grade", "SELECT grade * 2 AS g, COUNT(*) FROM data GROUP BY g", "bands of the secret"),
    ("grade", "SELECT SUM(ROUND(grade)) FROM data", "whole power"),
    ("grade", "SELECT COUNT(*) FROM data WHERE grade * grade > 4", "compared with numbers"),
]  # fmt: skip


@pytest.mark.parametrize(("secret", "sql", "message"), REFUSED)
def test_what_has_no_few_values_or_is_mixed_with_public_columns_is_refused(
    tmp_path: Path, secret: str, sql: str, message: str
) -> None:
    with pytest.raises(InvalidPlan, match=message):
        read(on_file(tmp_path, secret), secret, sql)


def test_a_cast_that_rounds_nothing_that_occurs_is_found_by_other_secrets(tmp_path: Path) -> None:
    """Whole secrets below 2^24 are themselves in REAL; the others that are drawn are not."""
    with duckdb.connect(str(tmp_path / "t.duckdb")) as connection:
        connection.execute(
            "CREATE TABLE data AS SELECT i AS id, CAST(i AS DOUBLE) / 2 AS x FROM range(50) AS r(i)"
        )
    engine = open_source("t.duckdb", base=tmp_path)
    subject = Subject(record="id", secret="x", kind=SecretKind.NUMBER, bounds=(0, 1000))
    for sql, fine in (("SELECT SUM(x) FROM data", True), ("SELECT SUM(CAST(x AS REAL)) FROM data", False)):
        query = read_release(sql, name="sum", subject=subject, schema=Schema.of(engine))
        membership = collect(engine, [query], subject)
        assert verify(engine, [query], membership) == (UnauditedRows(),)
        if fine:
            check_other_secrets(engine, [query], membership, subject)
        else:
            with pytest.raises(InvalidPlan, match="also of other secrets"):
                check_other_secrets(engine, [query], membership, subject)
    engine.close()


def test_sets_of_numbers_are_sets() -> None:
    draw = random.Random(3)

    def contains(bands: tuple[Band, ...], x: float) -> bool:
        return any(
            (b.low < x or (b.low_closed and b.low == x)) and (x < b.high or (b.high_closed and b.high == x))
            for b in bands
        )

    def some() -> tuple[Band, ...]:
        ends = sorted(draw.sample(range(8), 4))
        closed = [draw.random() < 0.5 for _ in range(4)]
        first = Band(low=ends[0], high=ends[1], low_closed=closed[0], high_closed=closed[1])
        second = Band(low=ends[2], high=ends[3], low_closed=closed[2], high_closed=closed[3])
        return number_sets.union((first,), (second,))

    points = np.arange(-1, 9, 0.5).tolist()
    for _ in range(300):
        a, b = some(), some()
        for x in points:
            assert contains(number_sets.intersection(a, b), x) == (contains(a, x) and contains(b, x))
            assert contains(number_sets.union(a, b), x) == (contains(a, x) or contains(b, x))
            assert contains(number_sets.complement(a), x) != contains(a, x)
