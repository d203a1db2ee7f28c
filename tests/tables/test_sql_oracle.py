"""Random releases: every audited cell is a group that the engine itself publishes, with its size and sum."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sightline.tables.engines.open import open_source
from sightline.tables.engines.protocol import Engine
from tests.numbered_cases import trials
from tests.tables import sql_oracle
from tests.tables.fuzz_person_values import person_differences
from tests.tables.sql_oracle import differences, duckdb_tables, statements


@pytest.fixture(scope="module")
def on_duckdb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Engine, sql_oracle.Run]]:
    engine, run, connection = duckdb_tables(tmp_path_factory.mktemp("oracle"))
    yield engine, run
    engine.close()
    connection.close()


@pytest.fixture(scope="module")
def on_postgres(postgres_url: str) -> Iterator[tuple[Engine, sql_oracle.Run]]:
    import psycopg

    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA oracle")
        connection.execute("SET search_path TO oracle")
        for statement in statements():
            connection.execute(statement)
        address = f"{postgres_url}?table=oracle.data"
        engine = open_source(address, base=Path(), tables={"areas": "oracle.areas"})
        yield engine, lambda sql: connection.execute(sql).fetchall()
        engine.close()
        connection.execute("DROP SCHEMA oracle CASCADE")


@pytest.fixture(scope="module")
def on_spark(spark_session: Any) -> Iterator[tuple[Engine, sql_oracle.Run]]:
    for name, columns, rows in (
        ("data", sql_oracle.DATA, sql_oracle.data_rows()),
        ("oracle_areas", sql_oracle.AREAS, sql_oracle.AREA_ROWS),
    ):
        kinds = {"DOUBLE PRECISION": "DOUBLE", "VARCHAR(9)": "STRING"}
        cast = ", ".join(
            f"CAST({column} AS {kinds.get(kind, kind)}) AS {column}" for column, kind in columns.items()
        )
        values = ", ".join(f"({', '.join(map(sql_oracle._constant, row))})" for row in rows)
        frame = spark_session.sql(f"SELECT {cast} FROM VALUES {values} AS v({', '.join(columns)})")
        frame.createOrReplaceTempView(name)
    engine = open_source(spark_session, base=Path(), table="data", tables={"areas": "oracle_areas"})

    def run(sql: str) -> list[tuple[Any, ...]]:
        return [
            tuple(row) for row in spark_session.sql(sql.replace("JOIN areas", "JOIN oracle_areas")).collect()
        ]

    yield engine, run
    engine.close()


@pytest.mark.sampled(1)
@pytest.mark.slow
@pytest.mark.parametrize("block", range(6))
def test_on_duckdb(block: int, on_duckdb: tuple[Engine, sql_oracle.Run]) -> None:
    """960 releases, 40 in each audit."""
    for number in trials(4):
        seed = 4 * block + number
        assert differences(*on_duckdb, seed, 40) == [], seed


@pytest.mark.slow
@pytest.mark.parametrize("block", range(2))
def test_on_postgres(block: int, on_postgres: tuple[Engine, sql_oracle.Run]) -> None:
    """400 releases."""
    for seed in range(1_000 + 4 * block, 1_004 + 4 * block):
        assert differences(*on_postgres, seed, 40) == [], seed


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "number"), [(2_002, 20)])
def test_on_spark(seed: int, number: int, on_spark: tuple[Engine, sql_oracle.Run]) -> None:
    """30 releases: few with sums, few with the check of an audit. Spark answers their own queries in one."""
    assert differences(*on_spark, seed, number, together=True) == []


@pytest.mark.thorough
def test_values_per_record_on_duckdb(on_duckdb: tuple[Engine, sql_oracle.Run]) -> None:
    """40 releases that first aggregate the rows of each record."""
    for seed in range(4):
        assert person_differences(*on_duckdb, seed, 10) == [], seed


@pytest.mark.thorough
def test_the_oracle_finds_a_reader_that_forgets_brackets(
    on_duckdb: tuple[Engine, sql_oracle.Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without brackets ``GROUP BY c OR d`` is compared as ``c OR (d = k)``."""

    def bare(node: Any, dialect: str) -> str:
        return str(node.sql(dialect, comments=False))

    monkeypatch.setattr("sightline.tables.sql.reader.embedded", bare)
    monkeypatch.setattr(sql_oracle, "verify", lambda *_: ())
    failures = 0
    for seed in range(25):
        try:
            failures += len(differences(*on_duckdb, seed, 50))
        except Exception:  # text without brackets may not parse at all
            failures += 1
        if failures:
            break
    assert failures > 0
