"""Tables that an engine shows or reads otherwise than one thinks: each once passed, or gave a traceback."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import sightline as sl
from sightline.errors import InvalidPlan, TooMuchWork
from sightline.tables.collect import collect_counted
from sightline.tables.engines.open import open_source
from sightline.tables.sql.grammar import parse_query


def plan(source: str, sql: str, **data: object) -> dict[str, Any]:
    return {
        "data": {"source": source, "record": "id", "secret": "x", "bounds": [0, 10], **data},
        "release": [{"name": "r", "sql": sql, "noise_stddev": 1e6}],
        "limits": {"remaining_uncertainty": 0.5},
    }


@pytest.fixture
def postgres(postgres_url: str) -> Iterator[tuple[str, Any]]:
    import psycopg

    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA odd")
        yield f"{postgres_url}?table=odd.t", connection
        connection.execute("DROP SCHEMA odd CASCADE")


FILL = "INSERT INTO odd.t SELECT i, i % 2, i / 5.0 FROM generate_series(0, 39) AS i"


def test_names_that_differ_in_case(postgres: tuple[str, Any]) -> None:
    """Without quotes Postgres groups by the secret x, and the reader would take the public column "X"."""
    source, connection = postgres
    connection.execute('CREATE TABLE odd.t (id INT, "X" INT, x FLOAT8)')
    connection.execute(FILL)
    assert len(connection.execute("SELECT X, COUNT(*) FROM odd.t GROUP BY X").fetchall()) == 40
    with pytest.raises(InvalidPlan, match='names differ in more than case, got "X", "x"'):
        sl.audit(plan(source, "SELECT X, COUNT(*) FROM data GROUP BY X"))


def test_rows_that_a_policy_hides(postgres: tuple[str, Any]) -> None:
    """The auditor would see 20 of the 40 rows that the owner publishes."""
    source, connection = postgres
    connection.execute("CREATE TABLE odd.t (id INT, g INT, x FLOAT8)")
    connection.execute(FILL)
    connection.execute("ALTER TABLE odd.t ENABLE ROW LEVEL SECURITY")
    connection.execute("CREATE POLICY half ON odd.t USING (id < 20)")
    connection.execute("CREATE ROLE auditor LOGIN")
    try:
        connection.execute("GRANT USAGE ON SCHEMA odd TO auditor")
        connection.execute("GRANT SELECT ON odd.t TO auditor")
        with pytest.raises(InvalidPlan, match="row-level security"):
            sl.audit(plan(source.replace("tester@", "auditor@"), "SELECT g, SUM(x) FROM data GROUP BY g"))
    finally:
        connection.execute("DROP OWNED BY auditor")
        connection.execute("DROP ROLE auditor")


@pytest.mark.parametrize("kind", ["TIMESTAMP", "DATE"])
def test_times_without_end(kind: str, postgres: tuple[str, Any]) -> None:
    source, connection = postgres
    connection.execute(f"CREATE TABLE odd.t (id INT, g {kind}, x FLOAT8)")
    connection.execute(
        f"INSERT INTO odd.t SELECT i, CAST('infinity' AS {kind}), 1.5 FROM generate_series(0, 9) AS i"
    )
    with pytest.raises(InvalidPlan, match="dates and times from year 1 to 9999"):
        sl.audit(plan(source, "SELECT g, SUM(x) FROM data GROUP BY g"))


def test_a_view_of_random_numbers(postgres: tuple[str, Any], tmp_path: Path) -> None:
    source, connection = postgres
    connection.execute(
        "CREATE VIEW odd.t AS SELECT i AS id, 1 AS g, 9 * random() AS x FROM generate_series(0, 9) AS i"
    )
    with duckdb.connect(str(tmp_path / "t.duckdb")) as database:
        database.execute("CREATE VIEW t AS SELECT i AS id, 1 AS g, 9 * random() AS x FROM range(10) AS r(i)")
        database.execute("CREATE VIEW same AS SELECT i AS id, 1 AS g, i * 0.93 AS x FROM range(10) AS r(i)")
    sql = "SELECT g, SUM(x) FROM data GROUP BY g"
    for one in (source, f"{tmp_path}/t.duckdb::t"):
        with pytest.raises(InvalidPlan, match="a view that shows the same rows each time"):
            sl.audit(plan(one, sql))
    assert sl.audit(plan(f"{tmp_path}/t.duckdb::same", sql)).verdict.passed


@pytest.mark.parametrize("kind", ["VIEW", "MATERIALIZED VIEW"])
def test_a_view_as_a_public_table(kind: str, postgres: tuple[str, Any]) -> None:
    """It copies the secret under another name: a join would publish the secret as a public column."""
    source, connection = postgres
    connection.execute("CREATE TABLE odd.t (id INT, g INT, x FLOAT8)")
    connection.execute(FILL)
    connection.execute(f"CREATE {kind} odd.v AS SELECT id, x AS y FROM odd.t")
    plan_with = plan(source, "SELECT v.y, SUM(data.x) FROM data JOIN v ON data.id = v.id GROUP BY v.y")
    plan_with["data"]["tables"] = {"v": "odd.v"}
    with pytest.raises(InvalidPlan, match='a table as "v", got a view, which may copy the secret'):
        sl.audit(plan_with)


def test_rows_that_change_in_between_end_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table that is written while it is read may break any step: the reason is told, not the step."""
    path = tmp_path / "t.csv"
    path.write_text("id,g,x\na,1,2\nb,1,3\n")

    def broken(*arguments: Any, **options: Any) -> Any:
        path.write_text("id,g,x\na,1,2\nb,1,4\n")
        collect_counted(*arguments, **options)
        raise ValueError("operands could not be broadcast together")

    monkeypatch.setattr("sightline.auditing.session.collect_counted", broken)
    with pytest.raises(InvalidPlan, match=r"t\.csv to stay as it is"):
        sl.audit(plan(str(path), "SELECT SUM(x) FROM data"))


def test_what_is_no_change_stays_what_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "t.csv").write_text("id,g,x\na,1,2\nb,1,3\n")

    def broken(*_: Any, **__: Any) -> Any:
        raise ValueError("ours")

    monkeypatch.setattr("sightline.auditing.session.collect_counted", broken)
    with pytest.raises(ValueError, match="ours"):
        sl.audit(plan(f"{tmp_path}/t.csv", "SELECT SUM(x) FROM data"))


class TestTextConstants:
    @pytest.mark.slow
    def test_a_doubled_quote_on_spark(self, spark_session: Any) -> None:
        """Spark reads a quote, and sqlglot the end of one constant and the begin of another."""
        assert spark_session.sql("SELECT 'it''s' AS t").collect()[0].t == "it's"
        with pytest.raises(InvalidPlan, match="one text constant, got two in a row"):
            parse_query("SELECT AVG(x) FROM data WHERE g = 'it''s'", "spark")
        escaped = r"SELECT AVG(x) FROM data WHERE g = 'it\'s'"
        assert spark_session.sql(r"SELECT 'it\'s' AS t").collect()[0].t == "it's"
        assert parse_query(escaped, "spark").sql("spark") == escaped

    @pytest.mark.parametrize("dialect", ["duckdb", "postgres", "spark"])
    def test_two_in_a_row(self, dialect: str) -> None:
        with pytest.raises(InvalidPlan, match="one text constant"):
            parse_query("SELECT AVG(x) FROM data WHERE g = 'a'\n  'b'", dialect)

    def test_escapes_on_spark(self) -> None:
        with pytest.raises(InvalidPlan, match="text constants without escapes"):
            parse_query(r"SELECT AVG(x) FROM data WHERE g = 'a\tb'", "spark")
        for dialect in ("duckdb", "postgres"):
            assert parse_query(r"SELECT AVG(x) FROM data WHERE g = 'a\tb'", dialect)


def test_the_engine_keeps_to_the_memory_that_is_allowed(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("id,x\na,1\nb,2\n")
    engine = open_source("t.csv", base=tmp_path, memory=5e7)
    limits = engine.fetch("SELECT current_setting('memory_limit') AS m")
    assert limits["m"].tolist() == ["47.6 MiB"]
    with pytest.raises(TooMuchWork, match="queries that fit the memory allowed"):
        engine.fetch("SELECT length(string_agg(repeat('x', 1000), '')) AS n FROM range(200000)")
    assert engine.fetch("SELECT COUNT(*) AS n FROM data")["n"].tolist() == [2]
    engine.close()


def test_macros_with_names_of_built_in_functions(tmp_path: Path) -> None:
    """In a connection to the file, SUM is the macro: it publishes the exact largest value."""
    sql = "SELECT g, SUM(x) FROM t GROUP BY g ORDER BY g"
    with duckdb.connect(str(tmp_path / "t.duckdb")) as connection:
        connection.execute("CREATE TABLE t AS SELECT i AS id, i % 2 AS g, i / 5.0 AS x FROM range(40) r(i)")
        connection.execute("CREATE MACRO per_cent(a) AS 100 * a")
        plain = connection.execute(sql).fetchall()
        connection.execute("CREATE MACRO Sum(a) AS max(a)")
        assert connection.execute(sql).fetchall() != plain
    checked = plan(f"{tmp_path}/t.duckdb::t", sql.replace("t GROUP", "data GROUP"))
    with pytest.raises(InvalidPlan, match=r"names of built-in functions, got [Ss]um; its SQL would publish"):
        sl.audit(checked)
    with duckdb.connect(str(tmp_path / "t.duckdb")) as connection:
        connection.execute("DROP MACRO sum")
    assert sl.audit(checked).verdict.passed
