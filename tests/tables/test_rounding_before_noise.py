"""What an engine rounds before noise could be added: measured by probes, compared with its raw SQL.

The truth is the engine's own answer to the release's text, over tables that differ in one person's secret.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pytest

import sightline as sl
from sightline.errors import InvalidPlan
from sightline.tables.collect import collect
from sightline.tables.engines.open import open_source
from sightline.tables.engines.protocol import Engine
from sightline.tables.rounding import with_measured_rounding
from sightline.tables.sql.reader import read_release
from sightline.tables.subject import Schema, SecretKind, Subject

ROWS = 60
BOUND = 40_000_000
# Column r holds whole numbers below 2^24 in 32 bits; d holds cents.
SELECTED = (
    "SELECT i AS id, i < 25 AS ill, CAST(i * 79 % 1000 AS {double}) AS x, CAST(i * 79 % 1000 AS {single}) "
    "AS r, CAST(i * 7919 % 1000 AS INTEGER) AS k, CAST(i * 7919 % 1000 AS DECIMAL(12, 2)) AS d, "
    "i % 4 AS g FROM {numbers}"
)
Opened = tuple[Engine, Any]
ENGINES = ["on_duckdb", "on_postgres", "on_spark"]


@pytest.fixture(scope="module")
def on_duckdb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    folder = tmp_path_factory.mktemp("people")
    connection = duckdb.connect()
    selected = SELECTED.format(double="DOUBLE", single="REAL", numbers=f"range({ROWS}) AS n(i)")
    connection.execute(f"CREATE TABLE people AS {selected}")
    connection.execute(f"COPY people TO '{folder / 'people.parquet'}' (FORMAT parquet)")
    engine = open_source("people.parquet", base=folder)
    yield engine, lambda sql: connection.execute(sql).fetchall()
    engine.close()
    connection.close()


@pytest.fixture(scope="module")
def on_postgres(postgres_url: str) -> Iterator[Opened]:
    import psycopg

    numbers = f"generate_series(0, {ROWS - 1}) AS n(i)"
    selected = SELECTED.format(double="DOUBLE PRECISION", single="REAL", numbers=numbers)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA rounding")
        connection.execute("SET search_path TO rounding")
        connection.execute(f"CREATE TABLE people AS {selected}")
        engine = open_source(f"{postgres_url}?table=rounding.people", base=Path())
        yield engine, lambda sql: connection.execute(sql).fetchall()
        engine.close()
        connection.execute("DROP SCHEMA rounding CASCADE")


@pytest.fixture(scope="module")
def on_spark(spark_session: Any) -> Iterator[Opened]:
    numbers = f"(SELECT CAST(id AS INT) AS i FROM range({ROWS})) AS n"
    frame = spark_session.sql(SELECTED.format(double="DOUBLE", single="FLOAT", numbers=numbers))
    frame.createOrReplaceTempView("people")
    engine = open_source(spark_session, base=Path(), table="people")
    yield engine, lambda sql: [tuple(row) for row in spark_session.sql(sql).collect()]
    engine.close()


@pytest.fixture(params=ENGINES)
def opened(request: pytest.FixtureRequest) -> Opened:
    found: Opened = request.getfixturevalue(request.param)
    return found


ILL = Subject(record="id", secret="ill", kind=SecretKind.BOOLEAN)
OF_COUNTS = {  # the item, and how much one ill person more moves it in exact arithmetic
    "COUNT(*) FILTER (WHERE ill)": Fraction(1),
    "COUNT(*) FILTER (WHERE ill) / 10": Fraction(1, 10),
    "COUNT(*) FILTER (WHERE ill) / 10.0": Fraction(1, 10),
    "100 * COUNT(*) FILTER (WHERE ill) / COUNT(*)": Fraction(100, ROWS),
    "100.0 * COUNT(*) FILTER (WHERE ill) / COUNT(*)": Fraction(100, ROWS),
    "COUNT(*) FILTER (WHERE ill) * 7 / 3 + 5": Fraction(7, 3),
    "CAST(COUNT(*) FILTER (WHERE ill) AS DOUBLE PRECISION) / 10": Fraction(1, 10),
    "CEIL(COUNT(*) FILTER (WHERE ill) / 4)": Fraction(1, 4),
    "COUNT(*) FILTER (WHERE ill) - COUNT(*) / 7": Fraction(1),
}


def measured(engine: Engine, sql: str, subject: Subject) -> float:
    """The step that the audit takes a release's one number to be rounded to."""
    query = read_release(sql, name="one", subject=subject, schema=Schema.of(engine))
    membership = with_measured_rounding(engine, [query], collect(engine, [query], subject), subject)
    (step,) = {part.computed.rounded_to for part in membership.partitions}
    return step


@pytest.mark.parametrize("item", OF_COUNTS)
def test_a_count_s_rounding_is_what_the_engine_s_own_answers_show(item: str, opened: Opened) -> None:
    engine, run = opened
    if engine.dialect == "spark":
        item = item.replace("DOUBLE PRECISION", "DOUBLE")
    exact = OF_COUNTS[item.replace("AS DOUBLE)", "AS DOUBLE PRECISION)")]
    answers = []
    for ill in range(ROWS + 1):
        ((answer,),) = run(f"SELECT {item} FROM (SELECT id, id < {ill} AS ill FROM people) AS data")
        answers.append(Fraction(answer))
    errors = [float(answer - exact * ill) for ill, answer in enumerate(answers)]
    excess = max(errors) - min(errors)
    step = measured(engine, f"SELECT {item} FROM data", ILL)
    if excess < 1e-9:
        assert step == 0
    else:
        assert excess <= step * (1 + 1e-9)
        assert step <= 4 * excess


NUMBERS = [
    "SUM(x)",
    "AVG(x)",
    "CAST(SUM(x) AS REAL)",
    "SUM(CAST(x AS DOUBLE PRECISION)) / 3",
    "SUM(r)",
    "AVG(r)",
    "SUM(k) / 3",
    "SUM(k) / 3.0",
    "SUM(d)",
    "SUM(d) / 7",
]


@pytest.mark.parametrize("item", NUMBERS)
def test_a_sum_s_rounding_covers_what_one_person_moves_the_engine_s_own_answer(
    item: str, opened: Opened
) -> None:
    engine, run = opened
    if engine.dialect == "spark":
        item = item.replace("DOUBLE PRECISION", "DOUBLE").replace("REAL", "FLOAT")
    column = next(name for name in "xrkd" if f"({name})" in item or f"({name} AS" in item)
    kind = {"r": "FLOAT" if engine.dialect == "spark" else "REAL", "k": "INTEGER", "d": "DECIMAL(12, 2)"}.get(
        column, "DOUBLE PRECISION" if engine.dialect == "postgres" else "DOUBLE"
    )
    subject = Subject(record="id", secret=column, kind=SecretKind.NUMBER, bounds=(0, BOUND))
    # All others hold 3,000,001, 3,000,008, …: sums beyond 2^24, which REAL rounds.
    answers = []
    for value in range(5_000_000, 5_000_040):
        made = f"CASE WHEN id = 0 THEN {value} ELSE 3000001 + 7 * id END"
        rows = f"SELECT id, CAST({made} AS {kind}) AS {column} FROM people"
        ((answer,),) = run(f"SELECT {item} FROM ({rows}) AS data")
        answers.append(float(Fraction(answer) if not isinstance(answer, Decimal) else answer))
    slope = 1 / 3 if "/ 3" in item else 1 / 7 if "/ 7" in item else 1.0
    slope /= ROWS if "AVG" in item else 1
    moved = max(abs(later - earlier - slope) for earlier, later in pairwise(answers))
    step = measured(engine, f"SELECT {item} FROM data", subject)
    noise_of_doubles = 1e-6
    assert moved <= step + noise_of_doubles
    if moved <= noise_of_doubles and column != "r" and "AVG(d)" not in item:
        assert step <= 1e-6


def plan(source: Any, sql: str, **limits: Any) -> dict[str, Any]:
    return {
        "data": {"source": source, "record": "id", "secret": "ill", "kind": "boolean"},
        "release": [{"name": "ill", "sql": sql, "noise": {"stddev": 4.0}}],
        "limits": {"remaining_uncertainty": "10%", **limits},
    }


def test_truncation_before_the_noise_no_longer_passes_on_postgres(
    on_postgres: Opened, postgres_url: str
) -> None:
    """29 and 30 ill people are 0.1 apart, and 1 apart where the engine truncates."""
    _, run = on_postgres
    item = "COUNT(*) FILTER (WHERE ill) / 10"
    told = [
        run(f"SELECT {item} FROM (SELECT id, id < {ill} AS ill FROM people) AS data")[0][0]
        for ill in (29, 30)
    ]
    assert told == [2, 3]
    source = f"{postgres_url}?table=rounding.people"
    for sql in (f"SELECT {item} FROM data", "SELECT 100 * COUNT(*) FILTER (WHERE ill) / COUNT(*) FROM data"):
        result = sl.audit(plan(source, sql))
        assert [one.name for one in result.unverified] == ["noise_first"]
        assert result.verdict.status != "passed"
        assert any("the engine's rounding (steps of 1)" in line for line in result.assumptions)
        assert sl.audit(plan(source, sql, accept=["noise_first"])).verdict.status == "passed"
    for sql in ("SELECT COUNT(*) FILTER (WHERE ill) FROM data",):
        assert sl.audit(plan(source, sql)).verdict.status == "passed"


def test_an_item_that_fails_for_some_numbers_is_refused_by_its_release(on_duckdb: Opened) -> None:
    engine, _ = on_duckdb
    sql = "SELECT CAST(SUM(x) AS TINYINT) FROM data"
    subject = Subject(record="id", secret="x", kind=SecretKind.NUMBER, bounds=(0, 1000))
    with pytest.raises(InvalidPlan, match=r'^release "one": '):
        measured(engine, sql, subject)


def test_a_pass_has_room_for_what_rounding_before_the_noise_may_tell() -> None:
    """One person's yes moves a number by 14.1, and by 15 where it is rounded up first: a tenth of the noise
    is rounded, and a twentieth of what remains is gone.
    """

    def left(moved: float) -> float:
        """The exact share of even chances, by quadrature over the answer."""
        answers = np.linspace(-10, 10 + moved, 20_001)
        densities = np.exp(-(answers**2) / 2), np.exp(-((answers - moved) ** 2) / 2)
        telling = densities[0] * densities[1] / (densities[0] + densities[1])
        return float(2 * telling.sum() * (answers[1] - answers[0]) / math.sqrt(2 * math.pi))

    exact, rounded = left(1.41), left(1.5)
    assert rounded < 0.62 < 0.65 < exact
    table = pl.DataFrame({"id": range(40), "ill": [True, False] * 20})
    for limit, item, asked in [
        (0.65, "COUNT(*) FILTER (WHERE ill) * 14.1", set()),
        (0.65, "CEIL(COUNT(*) FILTER (WHERE ill) * 14.1)", {"noise_first"}),
        (0.55, "CEIL(COUNT(*) FILTER (WHERE ill) * 14.1)", set()),
    ]:
        one = plan(table, f"SELECT {item} FROM data WHERE id = 3", remaining_uncertainty=limit)
        one["release"][0]["noise"]["stddev"] = 10.0
        assert {each.name.value for each in sl.audit(one).unverified} == asked
