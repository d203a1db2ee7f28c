"""The three engines, each with the same awkward table; Postgres and Spark are started once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sightline.tables.engines.open import open_source
from sightline.tables.engines.protocol import Engine
from tests.tables.servers import binaries, has_java, running_postgres, running_spark
from tests.tables.table_cases import AREAS, COLUMNS, awkward_rows, write_parquet


def _for_check_alone(config: pytest.Config) -> None:
    """A server that `make test` would start fails the test, which `conftest.SERVERS` should have left out."""
    if config.getoption("markexpr") == "not thorough":
        pytest.fail("this test starts a server: name its fixture in conftest.SERVERS")


@pytest.fixture(scope="session")
def table_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    write_parquet(folder)
    return folder


@pytest.fixture(scope="session")
def duckdb_engine(table_folder: Path) -> Iterator[Engine]:
    engine = open_source("homes.parquet", base=table_folder, tables={"areas": "areas.parquet"})
    yield engine
    engine.close()


@pytest.fixture(scope="session")
def postgres_url(pytestconfig: pytest.Config) -> Iterator[str]:
    _for_check_alone(pytestconfig)
    programs = binaries()
    if programs is None:
        pytest.skip("Postgres' server programs (initdb, pg_ctl) are not installed")
    import psycopg

    with running_postgres(programs) as url:
        with psycopg.connect(url) as connection, connection.cursor() as cursor:
            kinds = {"DOUBLE": "DOUBLE PRECISION", "VARCHAR": "TEXT"}
            listed = ", ".join(
                f'"{name.replace(chr(34), chr(34) * 2)}" {kinds.get(kind, kind)}'
                for name, kind in COLUMNS.items()
            )
            cursor.execute(f"CREATE TABLE homes ({listed})")
            cursor.execute("CREATE TABLE areas (region INTEGER, area TEXT)")
            marks = ", ".join("%s" for _ in COLUMNS)
            cursor.executemany(
                f"INSERT INTO homes VALUES ({marks})", [list(row.values()) for row in awkward_rows()]
            )
            cursor.executemany("INSERT INTO areas VALUES (%s, %s)", [list(row.values()) for row in AREAS])
        yield url


@pytest.fixture(scope="module")  # a refused query ends its transaction: no file leaves that to another
def postgres_engine(postgres_url: str) -> Iterator[Engine]:
    engine = open_source(f"{postgres_url}?table=public.homes", base=Path(), tables={"areas": "areas"})
    yield engine
    engine.close()


@pytest.fixture(scope="session")
def spark_session(table_folder: Path, pytestconfig: pytest.Config) -> Iterator[Any]:
    _for_check_alone(pytestconfig)
    if not has_java():
        pytest.skip("Java, which Spark runs on, is not installed")
    with running_spark(table_folder / "warehouse") as session:
        for name in ("homes", "areas"):
            session.read.parquet(str(table_folder / f"{name}.parquet")).createOrReplaceTempView(name)
        yield session


@pytest.fixture(scope="session")
def spark_engine(spark_session: Any) -> Iterator[Engine]:
    engine = open_source(spark_session, base=Path(), table="homes", tables={"areas": "areas"})
    yield engine
    engine.close()


@pytest.fixture(params=["duckdb_engine", "postgres_engine", "spark_engine"])
def engine(request: pytest.FixtureRequest, table_folder: Path) -> Iterator[Engine]:
    """An engine of the test's own, since it changes what ``data`` is."""
    if request.param == "duckdb_engine":
        found = open_source("homes.parquet", base=table_folder, tables={"areas": "areas.parquet"})
    elif request.param == "postgres_engine":
        url = request.getfixturevalue("postgres_url")
        found = open_source(f"{url}?table=public.homes", base=Path(), tables={"areas": "areas"})
    else:
        session = request.getfixturevalue("spark_session")
        found = open_source(session, base=Path(), table="homes", tables={"areas": "areas"})
    yield found
    found.close()


@pytest.fixture
def rows_on_the_driver(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The rows of each answer that Spark sends to the driver; other ways to get rows are gone."""
    from pyspark.sql.classic.dataframe import DataFrame

    collected: list[int] = []
    to_arrow = DataFrame.toArrow

    def counted(frame: Any) -> Any:
        answer = to_arrow(frame)
        collected.append(answer.num_rows)
        return answer

    monkeypatch.setattr(DataFrame, "toArrow", counted)
    for name in ("collect", "toPandas", "toLocalIterator", "take", "head"):
        monkeypatch.delattr(DataFrame, name)
    return collected
