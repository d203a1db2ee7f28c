"""Aggregates that are read as sums of simpler ones: every published number, by raw SQL on changed secrets.

A release is read on one table. Then its text runs, as it is written, on tables with other secrets. Whatever
the secrets are, the published number of a group must be a public number plus fixed multiples of what the
audit's cells of that group add up: then whoever sees these sums sees all that the release tells.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

import sightline as sl
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

CODES = ("C50", "C61", "E11", "I10")
SUBJECTS = {
    "x": Subject(record="id", secret="x", kind=SecretKind.NUMBER, bounds=(-10, 50), most_rows=1),
    "k": Subject(record="id", secret="k", kind=SecretKind.NUMBER, bounds=(0, 9), most_rows=1),
    "ill": Subject(record="id", secret="ill", kind=SecretKind.BOOLEAN, most_rows=1),
    "code": Subject(record="id", secret="code", kind=SecretKind.CATEGORY, categories=CODES, most_rows=1),
}
DRAWN: dict[str, Callable[[random.Random], Any]] = {
    "x": lambda draw: draw.choice([0.0, 3.0, 20.0, 50.0, -10.0, round(draw.uniform(-10, 50), 3)]),
    "k": lambda draw: draw.randint(0, 9),
    "ill": lambda draw: draw.random() < 0.5,
    "code": lambda draw: draw.choice(CODES),
}
KINDS = {"x": "DOUBLE PRECISION", "k": "INTEGER", "ill": "BOOLEAN", "code": "VARCHAR(9)"}
READ = {  # the secret, the item, and how many sums of the secret carry its noise
    "SUM(CASE WHEN sex = 'f' THEN x ELSE -x END)": ("x", 1),
    "SUM(CASE WHEN sex = 'f' THEN x WHEN sex = 'm' THEN 2 * x ELSE 0 END)": ("x", 1),
    "SUM(CASE WHEN age > 30 THEN x ELSE 10 END)": ("x", 1),
    "SUM((x - 30) * w)": ("x", 1),
    "AVG((x - 30) * w)": ("x", 1),
    "AVG(x - 30)": ("x", 1),
    "AVG(30 - x / 2)": ("x", 1),
    "SUM(CASE WHEN sex = 'f' THEN LEAST(x, 20) ELSE 3 * LEAST(x, 20) + age END)": ("x", 1),
    "COUNT(*) FILTER (WHERE x > 3 OR age > 40)": ("x", 1),
    "COUNT(*) FILTER (WHERE NOT (x > 3 OR age > 40))": ("x", 1),
    "COUNT(*) FILTER (WHERE NOT (x > 3 AND age > 40) AND sex = 'f')": ("x", 1),
    "COUNT(CASE WHEN x > 3 OR age > 40 THEN 1 END)": ("x", 1),
    "SUM(CASE WHEN x > 3 OR age > 40 THEN w ELSE 0 END)": ("x", 1),
    "SUM(CASE WHEN x > 3 THEN 1 ELSE -1 END)": ("x", 1),
    "SUM(CASE WHEN NOT x > 3 THEN 5 ELSE 2 END) FILTER (WHERE sex = 'f')": ("x", 1),
    "AVG(CASE WHEN x > 3 THEN 1 ELSE -1 END)": ("x", 1),
    "SUM(CASE WHEN ill THEN 1 ELSE -1 END)": ("ill", 1),
    "SUM(CASE WHEN ill OR age > 40 THEN 1 ELSE 0 END)": ("ill", 1),
    "SUM(CASE WHEN ill THEN 3 WHEN NOT ill THEN 2 ELSE 0 END)": ("ill", 1),
    "SUM(w * CASE WHEN code = 'C50' THEN 3 ELSE 1 END)": ("code", 1),
    "COUNT(*) FILTER (WHERE code LIKE 'C%' AND sex = 'f' OR code = 'E11' AND sex = 'm')": ("code", 2),
    "SUM(CASE code WHEN 'C50' THEN 3 WHEN 'C61' THEN 2 ELSE 1 END)": ("code", 2),
    "SUM(CASE WHEN x > 20 THEN 2 WHEN x > 3 THEN 1 ELSE 0 END)": ("x", 2),
    "SUM(x * x * w + 3 * x)": ("x", 2),
    "AVG(x * x - 3 * x + 1)": ("x", 2),
    "SUM((x - 3) * (x - 5))": ("x", 2),
    "SUM((k - 3) * w) / 10": ("k", 1),
    "SUM(CASE WHEN k = 0 THEN 0 WHEN k < 5 THEN w ELSE 2 * w END)": ("k", 2),
    "AVG(ABS(x - 20))": ("x", 2),
    "SUM(GREATEST(x - 20, 0))": ("x", 1),
    "SUM(GREATEST(20 - x, 0) * w)": ("x", 1),
    "AVG(LEAST(2 * x + 1, 7))": ("x", 1),
    "AVG(POWER(x - 3, 2))": ("x", 2),
    "SUM(CASE WHEN x > 20 THEN x - 20 ELSE 0 END)": ("x", 1),
    "SUM(CASE WHEN x < 20 THEN (20 - x) / 20 ELSE 0 END)": ("x", 1),
    "SUM(w * CASE WHEN x > 20 THEN 20 + 0.6 * (x - 20) ELSE x END)": ("x", 2),
    "SUM(LEAST(x - 3, 5))": ("x", 1),
}  # fmt: skip


def rows(secret: str, seed: int) -> list[tuple[Any, ...]]:
    draw = random.Random(seed)
    return [
        (
            i,
            "ns"[i % 2],
            "fm"[i // 2 % 2] if i % 7 else None,
            20 + i % 31 if i % 11 else None,
            1 + i % 4,
            DRAWN[secret](draw),
        )
        for i in range(66)
    ]


def created(secret: str, seed: int, name: str = "data") -> list[str]:
    """Statements that make a table with drawn secrets."""

    def constant(value: Any) -> str:
        return "NULL" if value is None else f"'{value}'" if isinstance(value, str) else str(value)

    lines = ", ".join(f"({', '.join(map(constant, row))})" for row in rows(secret, seed))
    columns = f"id INTEGER, town VARCHAR(9), sex VARCHAR(9), age INTEGER, w INTEGER, {secret} {KINDS[secret]}"
    return [
        f"DROP TABLE IF EXISTS {name}",
        f"CREATE TABLE {name} ({columns})",
        f"INSERT INTO {name} VALUES {lines}",
    ]


def on_file(folder: Path, secret: str) -> Engine:
    with duckdb.connect(str(folder / f"{secret}.duckdb")) as connection:
        for statement in created(secret, 1):
            connection.execute(statement)
    return open_source(f"{secret}.duckdb::data", base=folder)


def read(engine: Engine, subject: Subject, sql: str) -> tuple[Membership, dict[int, int]]:
    """The release as it is read and checked, and the signature of every record."""
    query = read_release(sql, name="one", subject=subject, schema=Schema.of(engine))
    membership = collect(engine, [query], subject)
    verify(engine, [query], membership)
    check_other_secrets(engine, [query], membership, subject)
    keys = members_of(
        engine, count_table(engine, [query], subject), signature_ids=range(len(membership.signatures))
    )
    membership = with_measured_rounding(engine, [query], membership, subject)
    return membership, {int(one): place for place, names in keys.items() for one in names}


def cell_sums(
    membership: Membership, signature: dict[int, int], own: list[tuple[Any, ...]]
) -> dict[str, list[float]]:
    """By town, what the audited cells add up of some secrets."""
    texts = isinstance(own[0][-1], str)
    values = np.array([row[-1] for row in own], dtype=object if texts else np.float64)
    places = [signature[row[0]] for row in own]
    found: dict[str, list[float]] = {}
    for p, part in enumerate(membership.partitions):
        features = aggregated(part, values) * membership.weights_in(p)[places]
        cells = membership.positions(p)[places]
        for cell in range(int(membership.starts[p]), int(membership.starts[p + 1])):
            inside = features[cells == cell]
            total = float(inside.sum()) / (len(inside) if part.statistic is Statistic.MEAN else 1)
            found.setdefault("".join(membership.cells[cell].key), []).append(total)
    return found


def unexplained(
    run: Callable[[int], list[tuple[Any, ...]]],
    membership: Membership,
    signature: dict[int, int],
    secret: str,
) -> float:
    """How far published numbers are from a constant and multiples of the cells of their group, at most.

    The constants and multiples are those that fit best, over more tables than they are.
    """
    sums = len(membership.partitions)
    answers, cells = [], []
    for seed in range(2, sums + 7):
        answers.append({str(town): float(number) for town, number in run(seed)})
        cells.append(cell_sums(membership, signature, rows(secret, seed)))
    worst = 0.0
    for town in answers[0]:
        known = np.array([[1.0, *own.get(town, [])] for own in cells])
        shown = np.array([answer[town] for answer in answers])
        left = shown - known @ np.linalg.lstsq(known, shown, rcond=None)[0]
        assert np.ptp(shown) > 1e-3  # the secrets change it
        worst = max(worst, float(np.abs(left).max() / (1 + np.abs(shown).max())))
    return worst


@pytest.mark.sampled(6)
@pytest.mark.slow
@pytest.mark.parametrize("item", READ)
def test_the_audited_sums_are_all_that_an_item_tells(tmp_path: Path, item: str) -> None:
    secret, number = READ[item]
    sql = f"SELECT town, {item} FROM data GROUP BY town"
    engine = on_file(tmp_path, secret)
    membership, signature = read(engine, SUBJECTS[secret], sql)
    engine.close()
    assert len(membership.partitions) == number
    several = [part.computed.shows for part in membership.partitions]
    assert several == [number > 1] * number  # noise on several sums is asked for by name
    with duckdb.connect() as connection:

        def run(seed: int) -> list[tuple[Any, ...]]:
            for statement in created(secret, seed):
                connection.execute(statement)
            return connection.execute(sql).fetchall()

        assert unexplained(run, membership, signature, secret) < 1e-9
        if number == 1:  # then noise by number is on the published one, but for the constant factor
            factor = membership.partitions[0].computed.factor
            first, second = ({str(k): float(v) for k, v in run(seed)} for seed in (2, 3))
            own = [cell_sums(membership, signature, rows(secret, seed)) for seed in (2, 3)]
            for town in first:
                moved = abs(own[1][town][0] - own[0][town][0]) * factor
                assert abs(second[town] - first[town]) == pytest.approx(moved, rel=1e-9, abs=1e-9)


def test_the_same_on_postgres(postgres_url: str) -> None:
    import psycopg

    refused = []
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA terms")
        connection.execute("SET search_path TO terms")
        for item, (secret, _) in READ.items():
            sql = f"SELECT town, {item} FROM data GROUP BY town"
            for statement in created(secret, 1):
                connection.execute(statement)
            engine = open_source(f"{postgres_url}?table=terms.data", base=Path())
            try:
                membership, signature = read(engine, SUBJECTS[secret], sql)
            except InvalidPlan:
                refused.append(item)
                continue
            finally:
                engine.close()

            def run(seed: int, secret: str = secret, sql: str = sql) -> list[tuple[Any, ...]]:
                for statement in created(secret, seed):
                    connection.execute(statement)
                return connection.execute(sql).fetchall()

            coarse = max(part.computed.rounded_to for part in membership.partitions)
            assert unexplained(run, membership, signature, secret) < 1e-9 + coarse
        connection.execute("DROP SCHEMA terms CASCADE")
    assert refused == []


def test_sums_of_single_precision_keep_their_rounding_on_postgres(postgres_url: str) -> None:
    """The item is read as a sum of REAL times a whole number, which is a double; the query adds up REAL."""
    import psycopg

    subject = Subject(record="id", secret="r", kind=SecretKind.NUMBER, bounds=(0, 40_000_000), most_rows=1)
    sql = "SELECT SUM(CASE WHEN id % 2 = 0 THEN r ELSE -r END) FROM data"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA single")
        connection.execute("SET search_path TO single")
        connection.execute(
            "CREATE TABLE data AS SELECT i AS id, CAST(i AS REAL) AS r FROM generate_series(1, 50) AS g(i)"
        )
        engine = open_source(f"{postgres_url}?table=single.data", base=Path())
        membership, _ = read(engine, subject, sql)
        engine.close()
        connection.execute("DROP SCHEMA single CASCADE")
    assert membership.partitions[0].computed.rounded_to >= 2  # between neighbours of 2^25 there are 4


def test_a_mixed_condition_in_where_is_one_of_every_aggregate(tmp_path: Path) -> None:
    engine = on_file(tmp_path, "x")
    subject = SUBJECTS["x"]
    sql = "SELECT COUNT(*), SUM(w) FROM data WHERE (x > 3 OR age > 40) AND sex = 'f'"
    membership, signature = read(engine, subject, sql)
    with pytest.raises(InvalidPlan, match="by AND only"):  # a town in which nobody meets it has no line
        read(engine, subject, "SELECT town, COUNT(*) FROM data WHERE x > 3 OR age > 40 GROUP BY town")
    engine.close()
    moved = []
    with duckdb.connect() as connection:
        for seed in (2, 3):
            for statement in created("x", seed):
                connection.execute(statement)
            ((count, total),) = connection.execute(sql).fetchall()
            own = rows("x", seed)
            values, places = np.array([row[-1] for row in own]), [signature[row[0]] for row in own]
            sums = [
                (aggregated(part, values) * membership.weights_in(p)[places])[
                    membership.positions(p)[places] >= 0
                ].sum()
                for p, part in enumerate(membership.partitions)
            ]
            moved.append(np.array([count, total], dtype=float) - np.array(sums))
    assert moved[0].tolist() == moved[1].tolist()  # what is left is public


REFUSED = {
    "SUM(CASE WHEN x > 3 THEN x ELSE 0 END)": "x",
    "SUM(x * CASE WHEN x > 3 THEN 1 ELSE 2 END)": "x",
    "SUM(CASE WHEN x > 3 THEN x ELSE 3 END)": "x",
    "AVG(x) FILTER (WHERE x > 3 OR age > 40)": "x",
    "AVG(CASE WHEN x > 3 THEN w ELSE 1 END)": "x",
    "SUM(CASE WHEN x > age THEN 1 ELSE 2 END)": "x",
    "SUM(x / (x - 60))": "x",
    "SUM(LEAST(x, age) - 3)": "x",
    "SUM(CASE WHEN x > 3 THEN x - 2 ELSE 0 END)": "x",
    "SUM(ABS(x - 3) * x)": "x",
    "SUM(LEAST(x, 5) * x)": "x",
    "MAX(x - 3)": "x",
    "SUM(POWER(x, 0.5) + 1)": "x",
    "SUM(CASE WHEN code = 'C50' THEN 2 WHEN code = 'X' THEN 1 ELSE 0 END)": "code",
}  # fmt: skip


@pytest.mark.parametrize("item", REFUSED)
def test_what_is_no_sum_of_features_stays_refused(tmp_path: Path, item: str) -> None:
    secret = REFUSED[item]
    engine = on_file(tmp_path, secret)
    with pytest.raises(InvalidPlan, match="expected"):
        read(engine, SUBJECTS[secret], f"SELECT {item} FROM data")
    engine.close()


@pytest.mark.slow
def test_rows_without_a_secret_add_what_the_query_adds(tmp_path: Path) -> None:
    """A row that has none is NULL in x - 30 and counts in a CASE by age: the engine compares both."""
    with duckdb.connect(str(tmp_path / "x.duckdb")) as connection:
        for statement in created("x", 1):
            connection.execute(statement)
        connection.execute("UPDATE data SET x = NULL WHERE id % 9 = 4")
    engine = open_source("x.duckdb::data", base=tmp_path)
    for item in (
        "SUM((x - 30) * w)",
        "AVG(x - 30)",
        "COUNT(*) FILTER (WHERE x > 3 OR age > 40)",
        "SUM(CASE WHEN age > 30 THEN x ELSE 10 END)",
        "SUM(CASE WHEN x > 3 THEN 1 ELSE -1 END)",
    ):
        membership, _ = read(engine, SUBJECTS["x"], f"SELECT town, {item} FROM data GROUP BY town")
        assert membership.dropped == 7
    engine.close()


@pytest.mark.slow
def test_a_threshold_or_an_age_is_audited_as_the_threshold_among_the_young(tmp_path: Path) -> None:
    on_file(tmp_path, "x").close()
    texts = {
        "mixed": "SELECT COUNT(*) FILTER (WHERE x > 3 OR age > 40) FROM data",
        "young": "SELECT COUNT(*) FILTER (WHERE x > 3 AND NOT COALESCE(age > 40, FALSE)) FROM data",
    }
    found = {
        name: sl.audit(
            {
                "data": {"source": str(tmp_path / "x.duckdb") + "::data", "record": "id", "secret": "x",
                         "bounds": [-10, 50]},
                "limits": {"remaining_uncertainty": "10%"},
                "release": [{"name": "one", "sql": sql, "noise": {"stddev": 2.0}}],
            }
        )
        for name, sql in texts.items()
    }  # fmt: skip
    assert found["mixed"].least_remaining_uncertainty == found["young"].least_remaining_uncertainty
    assert found["mixed"].verdict.status == found["young"].verdict.status


@pytest.mark.parametrize("added", [" + 2", " FILTER (WHERE ill OR age > 49)"])
def test_a_rounded_count_with_public_people_in_it_is_not_the_rounded_count(added: str) -> None:
    """Nobody is ill and two people are counted anyway: 2 is rounded to 0, and only 0 + 2 is."""
    people = duckdb.sql("SELECT i AS id, 10 + i AS age, FALSE AS ill FROM range(42) AS r(i)")
    item = f"COUNT(*){added}" if "FILTER" in added else f"COUNT(*) FILTER (WHERE ill){added}"
    answer = duckdb.sql(f"SELECT {item} AS n FROM people")
    assert answer is not None
    assert answer.fetchall() == [(2,)]
    assert [count for count in range(43) if abs(count + 2) <= 2] == [0]  # so that everybody's value follows
    plan = {
        "data": {"source": people, "record": "id", "secret": "ill", "kind": "boolean", "public": ["age"]},
        "limits": {"remaining_uncertainty": "10%", "accept": ["homogeneous"]},
        "release": [
            {"name": "one", "sql": f"SELECT {item} FROM data", "noise": {"law": "rounding", "to": 5}}
        ],
    }
    with pytest.raises(InvalidPlan, match="on the count itself"):
        sl.audit(plan)


def test_long_products_and_nested_cases_end_at_once(tmp_path: Path) -> None:
    """Each of these would take 2^40 steps if every level were looked at twice."""
    nested = "CASE WHEN x > 3 THEN 1 ELSE " * 40 + "0" + " END" * 40
    public = "CASE WHEN age > 30 THEN 1 ELSE " * 40 + "0" + " END" * 40
    engine = on_file(tmp_path, "x")
    for item in (f"SUM({nested})", f"SUM(x * {public})"):
        membership, _ = read(engine, SUBJECTS["x"], f"SELECT {item} FROM data")
        assert len(membership.partitions) == 1
    many = " OR ".join(f"(x > {i} AND w = {i})" for i in range(60))
    for item in (f"SUM({'*'.join(['(x + w)'] * 60)})", f"COUNT(*) FILTER (WHERE {many})"):
        with pytest.raises(InvalidPlan, match="expected"):
            read(engine, SUBJECTS["x"], f"SELECT {item} FROM data")
    engine.close()
