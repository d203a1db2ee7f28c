"""The catalogue of queries: each is read as the engine itself answers it, or refused with its message."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest

import sightline as sl
from sightline.errors import InvalidPlan
from sightline.tables.collect import collect
from sightline.tables.engines.open import open_source
from sightline.tables.sql.reader import read_release
from sightline.tables.subject import UNBOUNDED, Schema
from tests.tables.catalogue_cases import (
    COLUMNS,
    Opened,
    Theme,
    audited_answers,
    different,
    opened_on_spark,
    statements,
    themes,
)
from tests.tables.fuzz_catalogue import hunt

THEMES = themes()
BOTH = ("duckdb", "postgres")
# What people ask for by natural queries that a version refused, and the engines whose SQL can say it.
# Those without engines are refused for a reason of mathematics.
KINDS: dict[str, tuple[str, ...]] = {
    "bins by FLOOR": BOTH,
    "width_bucket": ("postgres",),
    "comparisons as keys": BOTH,
    "= 0": BOTH,
    "a whole-numbered secret as the key": BOTH,
    "suppression by CASE": BOTH,
    "casts with parameters": BOTH,
    "differences of two aggregates": BOTH,
    "differences from a scalar subquery": BOTH,
    "running totals": BOTH,
    "shares of a total": BOTH,
    "LAG": BOTH,
    "IN (SELECT …)": BOTH,
    "NOT IN (SELECT …)": BOTH,
    "EXISTS": BOTH,
    "comparisons with public scalar subqueries": BOTH,
    "an alias that is a column in ORDER BY": BOTH,
    "ORDER BY ALL": ("duckdb",),
    "functions of public columns": BOTH,
    "TRIM": BOTH,
    "PIVOT": ("duckdb",),
    "totals of a person's rows beside rows": BOTH,
    "medians": (),
    "maxima": (),
    "ratios of secrets": BOTH,
    "conditions on the secret under a mean": (),
}


@pytest.fixture(scope="module")
def on_duckdb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    folder = tmp_path_factory.mktemp("catalogue")
    with duckdb.connect(str(folder / "catalogue.duckdb")) as connection:
        for (created, rows), name in zip(statements({}), COLUMNS, strict=True):
            connection.execute(created)
            marks = ", ".join("?" for _ in COLUMNS[name])
            connection.executemany(f"INSERT INTO {name} VALUES ({marks})", rows)
    connection = duckdb.connect(str(folder / "catalogue.duckdb"), read_only=True)
    opened = {}
    for table in ("shop", "clinic"):
        own = duckdb.connect()
        own.execute(f"ATTACH '{folder / 'catalogue.duckdb'}' AS file (READ_ONLY)")
        own.execute(f"CREATE VIEW data AS SELECT * FROM file.{table}")
        own.execute("CREATE VIEW countries AS SELECT * FROM file.countries")
        engine = open_source(
            f"catalogue.duckdb::{table}", base=folder, tables={"countries": "catalogue.duckdb::countries"}
        )
        opened[table] = (engine, lambda sql, own=own: own.execute(sql).fetchall())
    yield opened
    connection.close()
    for engine, _ in opened.values():
        engine.close()


@pytest.fixture(scope="module")
def on_postgres(postgres_url: str) -> Iterator[Opened]:
    import psycopg

    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA catalogue")
        connection.execute("SET search_path TO catalogue")
        for (created, rows), name in zip(
            statements({"DOUBLE": "DOUBLE PRECISION", "VARCHAR": "TEXT"}), COLUMNS, strict=True
        ):
            connection.execute(created)
            marks = ", ".join("%s" for _ in COLUMNS[name])
            with connection.cursor() as cursor:
                cursor.executemany(f"INSERT INTO {name} VALUES ({marks})", rows)
        opened = {}
        for table in ("shop", "clinic"):
            engine = open_source(
                f"{postgres_url}?table=catalogue.{table}",
                base=Path(),
                tables={"countries": "catalogue.countries"},
            )

            def run(sql: str, table: str = table) -> list[tuple[Any, ...]]:
                connection.execute("DROP VIEW IF EXISTS data")
                connection.execute(f"CREATE VIEW data AS SELECT * FROM {table}")
                return connection.execute(sql).fetchall()

            opened[table] = (engine, run)
        yield opened
        for engine, _ in opened.values():
            engine.close()
        connection.execute("DROP SCHEMA catalogue CASCADE")


@pytest.fixture(scope="module")
def on_spark(spark_session: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    opened = opened_on_spark(spark_session, tmp_path_factory.mktemp("spark"))
    yield opened
    for engine, _ in opened.values():
        engine.close()


def test_the_catalogue_is_large() -> None:
    queries = [query for theme in THEMES for query in theme.queries]
    assert len(queries) >= 150
    assert len({query.sql for query in queries}) == len(queries)
    assert sum(query.refused is None for query in queries) >= 100


def test_every_kind_of_natural_query_is_in_it() -> None:
    """Those of an engine are read there, with the cells of its own answer: by the tests of each theme."""
    queries = [query for theme in THEMES for query in theme.queries if query.kind]
    assert {query.kind for query in queries} == set(KINDS)
    assert len(KINDS) == 26
    for kind, engines in KINDS.items():
        own = [query for query in queries if query.kind == kind]
        if engines:
            read = [theme.read(engine) for theme in THEMES for engine in engines]
            assert all(query.refused is None for query in own), kind
            assert {engine for query in own for engine in query.only if engine in BOTH} == set(engines), kind
            assert all(any(query in some for some in read) for query in own)
        else:
            assert all(query.refused is not None for query in own), kind


@pytest.mark.sampled(2)
@pytest.mark.slow
@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
def test_cells_are_duckdbs_own_groups(theme: Theme, on_duckdb: Opened) -> None:
    assert different(on_duckdb, theme, theme.read("duckdb")) == []


@pytest.mark.sampled(1)
@pytest.mark.slow
@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
def test_a_plan_of_all_of_them_is_audited(theme: Theme, tmp_path: Path) -> None:
    """Also what an audit asks of the columns that are taken as public, and of the values of the secret."""
    queries = [query.text("duckdb") for query in theme.read("duckdb") if query.data is None]
    if not queries:
        return
    subject = theme.subject
    with duckdb.connect(str(tmp_path / "catalogue.duckdb")) as connection:
        for (created, rows), name in zip(statements({}), COLUMNS, strict=True):
            connection.execute(created)
            marks = ", ".join("?" for _ in COLUMNS[name])
            connection.executemany(f"INSERT INTO {name} VALUES ({marks})", rows)
    window = f"PARTITION BY {subject.record} ORDER BY {next(iter(COLUMNS[theme.table]))}"
    about: dict[str, Any] = {
        "source": str(tmp_path / f"catalogue.duckdb::{theme.table}"),
        "record": subject.record,
        "secret": subject.secret,
        "kind": subject.kind.value,
        "tables": {"countries": str(tmp_path / "catalogue.duckdb::countries")},
        # One row a person: the rows of many are slow, and are not what is asked here.
        "sql": f"SELECT * FROM source QUALIFY ROW_NUMBER() OVER ({window}) = 1",
        # Some queries add up columns besides the secret.
        "public": [name for name in COLUMNS[theme.table] if name not in (subject.record, subject.secret)],
    }
    about |= {} if subject.bounds == UNBOUNDED else {"bounds": list(subject.bounds)}
    about |= {"categories": list(subject.categories)} if subject.categories else {}
    releases = [{"name": f"q{place}", "sql": sql, "noise_stddev": 50.0} for place, sql in enumerate(queries)]
    plan = {"data": about, "release": releases, "limits": {"accept": ["empty"]}}
    result = sl.audit(plan, verdict_only=True)
    assert len(result.releases) == len(queries)


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
def test_the_rest_is_refused_with_its_message(theme: Theme, on_duckdb: Opened) -> None:
    engine, _ = on_duckdb[theme.table]
    schema = Schema.of(engine, ["countries"])
    wrong = []
    for query in theme.queries:
        if query.refused is None:
            continue
        try:
            text = query.text("duckdb")
            release = read_release(text, name="query", subject=theme.subject, schema=schema)
            collect(engine, [release], theme.subject)
            wrong.append(f"{text}: was read")
        except InvalidPlan as refusal:
            if query.refused not in str(refusal):
                wrong.append(f"{query.sql}: {refusal}")
    assert wrong == []


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
def test_postgres_has_the_same_cells(theme: Theme, on_postgres: Opened, on_duckdb: Opened) -> None:
    queries = theme.read("postgres")
    cells: list[Any] = []
    assert different(on_postgres, theme, queries, cells) == []
    both = [place for place, query in enumerate(queries) if "duckdb" in query.only]
    answers = audited_answers(on_duckdb[theme.table][0], theme, [queries[place] for place in both])
    assert [own for _, own in answers] == [cells[place] for place in both]


@pytest.mark.parametrize("table", ["shop", "clinic"])
def test_spark_has_the_same_cells(table: str, on_spark: Opened, on_duckdb: Opened) -> None:
    """A few of every theme, in one audit."""
    themes_here = [theme for theme in THEMES if theme.table == table and theme.read("spark")]
    theme = replace(
        themes_here[0], queries=tuple(query for one in themes_here for query in one.read("spark"))
    )
    cells: list[Any] = []
    assert different(on_spark, theme, list(theme.queries), cells) == []
    answers = audited_answers(on_duckdb[table][0], theme, theme.queries)
    assert [own for _, own in answers] == cells


@pytest.mark.slow
def test_changed_queries_are_read_or_refused() -> None:
    found = hunt(3, number=1_000)
    assert found["read"] > 0
    assert found["refused"] > 0


def test_postgres_and_spark_compile_without_rows(
    postgres_url: str, on_postgres: Opened, on_spark: Opened
) -> None:
    """What the reader accepts and the engine lacks is refused when it is compiled."""
    good = (
        "WITH d AS (SELECT country, revenue FROM data) SELECT country, AVG(revenue) FROM d GROUP BY country"
    )
    postgres = open_source(
        f"{postgres_url}?table=catalogue.shop", base=Path()
    )  # a failure ends its transaction
    spark, _ = on_spark["shop"]
    for engine in (postgres, spark):
        engine.compile_own(good)
        with pytest.raises(InvalidPlan, match="expected a query that"):
            engine.compile_own("SELECT SUM(revenue) FROM data WHERE country + quantity = day")
    postgres.close()
