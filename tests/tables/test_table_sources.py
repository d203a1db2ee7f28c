"""Every way in which a data source can be unusable has a tested outcome: one line, no record's value."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas
import pytest
from sqlglot import exp

from sightline.errors import InvalidPlan
from sightline.tables.collect import collect
from sightline.tables.engines.local_tables import csv_fault
from sightline.tables.engines.open import open_source
from sightline.tables.engines.protocol import Column, ColumnKind, Engine
from sightline.tables.rows import check_declared
from sightline.tables.sql.fragments import translated
from sightline.tables.sql.reader import read_release
from sightline.tables.subject import Schema, SecretKind, Subject

HOMES = "home,feeder,watts\nA1,north,400\nA7,south,900\n"


def files(folder: Path) -> Path:
    """One file of every unusable kind, beside a good one."""
    (folder / "good.csv").write_text(HOMES)
    (folder / "empty.csv").write_text("")
    (folder / "header.csv").write_text("home,feeder,watts\n")
    (folder / "short row.csv").write_text(HOMES + "A9,north\n")
    (folder / "long row.csv").write_text(HOMES + "A9,north,3,4\n")
    (folder / "open quote.csv").write_text(HOMES + 'A9,"north,3\nA9,north,3\n')
    (folder / "latin.csv").write_bytes(HOMES.encode() + "Ä1,nörth,3\n".encode("latin-1"))
    (folder / "latin header.csv").write_bytes("Straße,watts\n".encode("latin-1"))
    (folder / "twins.csv").write_text("home,Home,watts\nA1,A1,3\n")
    (folder / "cut.csv.gz").write_bytes(gzip.compress(HOMES.encode())[:-12])
    (folder / "text.parquet").write_text(HOMES)
    (folder / "notes.txt").write_text(HOMES)
    (folder / "no ending").write_text(HOMES)
    (folder / "folder.parquet").mkdir()
    connection = duckdb.connect(str(folder / "two.duckdb"))
    connection.execute(
        "CREATE TABLE homes AS SELECT 'A1' AS home, 3.5 AS watts; CREATE TABLE others AS SELECT 1 AS a"
    )
    connection.execute(f"COPY homes TO '{folder / 'whole.parquet'}' (FORMAT parquet)")
    connection.close()
    (folder / "cut.parquet").write_bytes((folder / "whole.parquet").read_bytes()[:-20])
    (folder / "text.duckdb").write_text(HOMES)
    return folder


BAD = {
    "missing.parquet": "an existing data file, got missing.parquet; looked in",
    "folder.parquet": "a data file, got the directory folder.parquet",
    "empty.csv": "a header line, got an empty empty.csv",
    "short row.csv": "readable as csv, got 2 fields at line 4, where the header has 3; repair that line",
    "long row.csv": "readable as csv, got 4 fields at line 4, where the header has 3; repair that line",
    "open quote.csv": "readable as csv, got quotes that do not match at line 4; repair that line",
    "latin.csv": "not UTF-8 at line 4; convert it, for example: iconv -f latin1 -t utf-8 latin.csv",
    "latin header.csv": "readable as csv, got bytes that are not UTF-8 at line 1",
    "twins.csv": "got columns 1 and 2 alike; rename one of them",
    "cut.csv.gz": "readable as csv, got a file that ends too early; copy or write it again",
    "cut.parquet": "cut off or not Parquet",
    "text.parquet": "cut off or not Parquet",
    "notes.txt": "a .parquet, .csv, .csv.gz or .duckdb file, got notes.txt",
    "no ending": "no ending",
    "two.duckdb": "name of a table after two.duckdb::, got none, and tables homes, others",
    "two.duckdb::homs": 'got homs, and tables homes, others; write "two.duckdb::homes"',
    "two.duckdb::nobody": "got nobody, and tables homes, others",
    "text.duckdb::homes": "file.duckdb::table",
    "mysql://host/x": "postgresql:// or spark://",
    "postgresql://nobody@127.0.0.1:1/x": "the table's name in the address",
    "postgresql://nobody:secret@127.0.0.1:1/x?table=homes": "a Postgres server that answers",
    "postgresql://nobody@127.0.0.1:1/x?table=a.b.c": "name or schema.name",
    "spark://host:7077": "the table's name in the address",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return files(tmp_path_factory.mktemp("sources"))


@pytest.mark.slow
@pytest.mark.parametrize("source", BAD)
def test_an_unusable_source_is_refused_in_one_line(source: str, folder: Path) -> None:
    with pytest.raises(InvalidPlan) as caught:
        open_source(source, base=folder)
    message = str(caught.value)
    assert BAD[source] in message
    assert message.startswith("expected ")
    assert "\n" not in message
    assert not any(value in message for value in ("A1", "A9", "north", "secret"))


def test_a_fault_that_is_not_in_the_lines_is_told_as_the_engine_calls_it(folder: Path) -> None:
    fault = csv_fault(folder / "good.csv", delimiter=",", otherwise="OutOfMemoryException")
    assert "got OutOfMemoryException; every row needs as many fields as the header" in str(fault)


def test_a_view_of_a_duckdb_file_is_a_table(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "view.duckdb")) as connection:
        connection.execute("CREATE TABLE a AS SELECT 1 AS home; CREATE VIEW b AS SELECT 2 AS home")
    engine = open_source("view.duckdb::B", base=tmp_path)
    assert engine.fetch("SELECT home FROM data")["home"].tolist() == [2]
    engine.close()


@pytest.mark.parametrize("tables", [{"DATA": "good.csv"}, {"a": "good.csv", "A": "good.csv"}])
def test_declared_tables_have_names_of_their_own(tables: dict[str, str], folder: Path) -> None:
    with pytest.raises(InvalidPlan, match="names of their own"):
        open_source("good.csv", base=folder, tables=tables)


def test_a_path_is_not_a_pattern(tmp_path: Path) -> None:
    inner = tmp_path / "a[1] *?"
    inner.mkdir()
    (inner / "homes*.csv").write_text(HOMES)
    (inner / "homes2.csv").write_text(HOMES)
    engine = open_source("homes*.csv", base=inner)
    assert engine.fetch("SELECT COUNT(*) AS n FROM data")["n"].tolist() == [2]
    engine.fetch("SELECT * FROM data")
    engine.close()


def test_fields_of_nested_columns_may_share_names(tmp_path: Path) -> None:
    nested = "SELECT 'A' AS home, 1 AS w, [1] AS a, [2] AS b, {'home': 1, 'x': {'w': 2}} AS c, 3 AS last"
    with duckdb.connect() as connection:
        connection.execute(f"COPY ({nested}) TO '{tmp_path / 'nested.parquet'}' (FORMAT parquet)")
    engine = open_source("nested.parquet", base=tmp_path)
    assert [column.name for column in engine.columns()] == ["home", "w", "a", "b", "c", "last"]
    engine.close()


@pytest.mark.slow
def test_parquet_columns_that_differ_in_case_only_are_refused(spark_session: Any, tmp_path: Path) -> None:
    spark_session.conf.set("spark.sql.caseSensitive", "true")
    spark_session.sql("SELECT 1 AS a, 2 AS b").toDF("home", "HOME").write.parquet(str(tmp_path / "twins"))
    spark_session.conf.set("spark.sql.caseSensitive", "false")
    (part,) = (tmp_path / "twins").glob("part-*.parquet")
    with pytest.raises(InvalidPlan, match='"home", "HOME"; rename'):
        open_source(part.name, base=part.parent)


def test_a_session_needs_its_table() -> None:
    with pytest.raises(InvalidPlan, match="the table's name with a SparkSession"):
        open_source(object(), base=Path())


@pytest.mark.parametrize("source", ["good.csv", "whole.parquet", "two.duckdb::homes"])
def test_files_are_found_from_the_plan_s_folder(source: str, folder: Path) -> None:
    engine = open_source(source, base=folder, tables={"others": "two.duckdb::others"})
    assert engine.columns()[0] == Column("home", ColumnKind.TEXT)
    assert engine.columns("others") == (Column("a", ColumnKind.NUMBER),)
    assert engine.fetch("SELECT COUNT(*) AS n FROM data")["n"].dtype == np.int64
    engine.close()
    engine.close()


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_a_csv_s_own_delimiter_is_used(delimiter: str, tmp_path: Path) -> None:
    with gzip.open(tmp_path / "homes.csv.gz", "wt") as file:
        file.write(HOMES.replace(",", delimiter))
    engine = open_source("homes.csv.gz", base=tmp_path)
    assert [column.kind for column in engine.columns()] == [
        ColumnKind.TEXT,
        ColumnKind.TEXT,
        ColumnKind.NUMBER,
    ]
    engine.close()


@pytest.mark.slow
def test_kinds_of_columns_and_values(tmp_path: Path) -> None:
    values = {
        "a": ("1.5::DECIMAL(5, 2)", ColumnKind.NUMBER),
        "b": ("TIMESTAMP '2016-01-01 01:02:03'", ColumnKind.TIME),
        "c": ("TIMESTAMPTZ '2016-01-01 01:02:03+00'", ColumnKind.TIME),
        "d": ("'x'::ENUM('x', 'y')", ColumnKind.TEXT),
        "e": ("[1, 2]", ColumnKind.OTHER),
        "f": ("1::HUGEINT", ColumnKind.NUMBER),
        "g": ("NULL::INTEGER", ColumnKind.NUMBER),
        "h": ("TRUE", ColumnKind.BOOLEAN),
        "i": ("DATE '2016-01-01'", ColumnKind.TIME),
    }
    connection = duckdb.connect(str(tmp_path / "kinds.duckdb"))
    connection.execute(
        f"CREATE TABLE t AS SELECT {', '.join(f'{sql} AS {name}' for name, (sql, _) in values.items())}"
    )
    connection.close()
    engine = open_source("kinds.duckdb", base=tmp_path)  # the only table needs no name
    assert engine.columns() == tuple(Column(name, kind) for name, (_, kind) in values.items())
    assert engine.fetch("SELECT g FROM data")["g"].tolist() == [None]
    assert engine.fetch("SELECT g, h, f FROM data")["f"].tolist() == [1]
    subject = Subject(record="b", secret="a", kind=SecretKind.NUMBER)
    for name in "abcdfghi":
        queries = [
            read_release(
                f"SELECT {name}, AVG(a) FROM data GROUP BY {name}"
                if name != "a"
                else "SELECT AVG(a) FROM data",
                name="by",
                subject=subject,
                schema=Schema.of(engine),
            )
        ]
        assert collect(engine, queries, subject).counts.tolist() == [1], name
    engine.close()


def test_a_zoned_time_as_pandas_writes_it_is_a_plain_time_in_utc(tmp_path: Path) -> None:
    """DuckDB has no month, cast or answer in Python of such a column, whose type is TIMESTAMPTZ_NS."""
    times = pandas.date_range("2015-12-31 23:30", periods=3, freq="h", tz="UTC").as_unit("ns")
    table = pandas.DataFrame({"moment": times.tz_convert("Asia/Tokyo"), "x": [1.0, 2.0, 3.0]})
    table.to_parquet(tmp_path / "times.parquet")
    with duckdb.connect() as other:
        described = other.execute(f"DESCRIBE FROM '{tmp_path / 'times.parquet'}'").fetchall()
    assert described[0][1] in {"TIMESTAMPTZ_NS", "TIMESTAMP WITH TIME ZONE"}
    engine = open_source("times.parquet", base=tmp_path)
    found = engine.fetch(
        "SELECT month(moment) AS m, date_trunc('day', moment) AS d, moment FROM data ORDER BY moment"
    )
    assert found["m"].tolist() == [12, 1, 1]
    assert found["d"].tolist() == [one.to_pydatetime().replace(tzinfo=None) for one in times.floor("D")]
    assert found["moment"].tolist() == [one.to_pydatetime().replace(tzinfo=None) for one in times]
    engine.close()


class TestNothingCanWrite:
    """Even a query that the reader did not make: the connections themselves refuse."""

    @pytest.mark.parametrize(
        "query",
        [
            "DROP VIEW data",
            "CREATE TABLE x AS SELECT 1",
            "COPY data TO 'x.csv'",
            "SET threads = 1",
            "SELECT 1; SELECT 2",
        ],
    )
    def test_duckdb_runs_one_select_only(self, query: str, duckdb_engine: Engine) -> None:
        with pytest.raises((InvalidPlan, ValueError)):
            duckdb_engine.fetch(query)

    @pytest.mark.parametrize(
        "function", ["read_text('/etc/hostname')", "read_csv('/etc/passwd')", "glob('/*')"]
    )
    def test_duckdb_reads_no_other_file(self, function: str, duckdb_engine: Engine) -> None:
        with pytest.raises(InvalidPlan, match="PermissionException"):
            duckdb_engine.fetch(f"SELECT * FROM {function}")

    def test_duckdb_s_configuration_is_locked(self, duckdb_engine: Any) -> None:
        with pytest.raises(duckdb.Error, match="locked"):
            duckdb_engine._connection.execute("SET enable_external_access = true")

    def test_postgres_is_in_a_read_only_transaction(self, postgres_engine: Any) -> None:
        with (
            pytest.raises(InvalidPlan, match="ReadOnlySqlTransaction"),
            postgres_engine._connection.cursor() as cursor,
        ):
            postgres_engine._execute(cursor, "CREATE TABLE x (a INT)")
        with postgres_engine._connection.cursor() as cursor:
            assert cursor.execute("SHOW transaction_read_only").fetchone() == ("on",)


@pytest.mark.slow
class TestTablesOfOtherEngines:
    def test_a_missing_table_is_named(self, postgres_url: str, spark_session: Any) -> None:
        with pytest.raises(InvalidPlan, match='relation "nobody" does not exist'):
            open_source(f"{postgres_url}?table=nobody", base=Path())
        with pytest.raises(InvalidPlan, match="TABLE_OR_VIEW_NOT_FOUND"):
            open_source(spark_session, base=Path(), table="nobody")

    def test_spark_refuses_columns_that_differ_in_case_only(self, spark_session: Any) -> None:
        spark_session.sql("SELECT 1 AS home, 2 AS other").toDF("home", "Home").createOrReplaceTempView(
            "twins"
        )
        with pytest.raises(InvalidPlan, match='"home", "Home"; rename'):
            open_source(spark_session, base=Path(), table="twins")

    def test_kinds_of_spark_s_columns(self, spark_session: Any) -> None:
        spark_session.sql(
            "SELECT ARRAY(1) AS a, TIMESTAMP '2016-01-01 01:02:03' AS b, 1.5BD AS c, TRUE AS d, 'x' AS e"
        ).createOrReplaceTempView("kinds")
        engine = open_source(spark_session, base=Path(), table="kinds")
        kinds = [column.kind for column in engine.columns()]
        assert kinds == [
            ColumnKind.OTHER,
            ColumnKind.TIME,
            ColumnKind.NUMBER,
            ColumnKind.BOOLEAN,
            ColumnKind.TEXT,
        ]
        (time,) = engine.fetch("SELECT b FROM data")["b"].tolist()
        assert time.isoformat() == "2016-01-01T01:02:03"  # whatever the zone of this process is
        engine.close()

    def test_a_session_of_its_own_is_stopped_and_a_master_that_fails_is_named(
        self, spark_session: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        stopped: list[bool] = []

        class Session:
            """The tests' session, seen as one that nobody had before."""

            builder = property(lambda self: self)
            catalog = spark_session.catalog
            sparkContext = spark_session.sparkContext
            table = staticmethod(spark_session.table)
            sql = staticmethod(spark_session.sql)
            appName = master = config = lambda self, *_: self
            getActiveSession = staticmethod(lambda: None)

            def getOrCreate(self) -> Any:
                if stopped:
                    raise RuntimeError("Java gateway process exited before sending its port number")
                return self

            def stop(self) -> None:
                stopped.append(True)

        monkeypatch.setattr("sightline.tables.engines.spark_engine.SparkSession", Session())
        engine = open_source("spark://local[1]?table=areas", base=Path())
        engine.close()
        engine.close()
        assert stopped == [True]
        with pytest.raises(InvalidPlan, match="a Spark master that answers, got RuntimeError"):
            open_source("spark://host:7077?table=areas", base=Path())

    def test_what_an_engine_lacks_is_refused(self) -> None:
        with pytest.raises(InvalidPlan, match="SQL that spark has too"):
            translated(
                "SELECT ARG_MAX(a, b, 3) FROM data", dialect="spark", names={"data": exp.to_table("t")}
            )

    def test_a_running_session_is_found_by_its_address(self, spark_session: Any) -> None:
        engine = open_source("spark://local[1]?table=areas", base=Path())
        assert engine.columns()[0] == Column("region", ColumnKind.NUMBER)
        engine.close()
        assert spark_session.sql("SELECT 1 AS one").collect()[0].one == 1  # it stays the caller's

    @pytest.mark.parametrize("name", ["duckdb_engine", "postgres_engine", "spark_engine"])
    def test_text_where_numbers_were_declared(self, name: str, request: pytest.FixtureRequest) -> None:
        engine: Engine = request.getfixturevalue(name)
        with pytest.raises(
            InvalidPlan, match=r'^\[data\] secret: expected a column of numbers, got "home", a text column'
        ):
            check_declared(engine, Subject(record="load", secret="home", kind=SecretKind.NUMBER))

    @pytest.mark.parametrize("name", ["duckdb_engine", "postgres_engine", "spark_engine"])
    def test_a_query_that_fails_while_running_tells_no_value(
        self, name: str, request: pytest.FixtureRequest
    ) -> None:
        engine: Engine = request.getfixturevalue(name)
        subject = Subject(record="home", secret="load", kind=SecretKind.NUMBER)
        good, bad = (
            read_release(sql, name=title, subject=subject, schema=Schema.of(engine))
            for title, sql in {
                "fine": "SELECT AVG(load) FROM data",
                "odd": "SELECT AVG(load) FROM data WHERE CAST(home AS DATE) > DATE '2016-01-01'",
            }.items()
        )
        with pytest.raises(
            InvalidPlan, match=r'release "odd": expected a query that .* can run, got'
        ) as caught:
            collect(engine, [good, bad], subject)
        assert "h1" not in str(caught.value)
        assert engine.fetch("SELECT 1 AS one")["one"].tolist() == [1]  # and the engine still answers


def test_a_view_is_no_public_table(tmp_path: Path) -> None:
    """A view of the data under other names would make the secret public: grouping by it would pass."""
    path = tmp_path / "homes.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE homes AS SELECT i AS home, i * 10 AS watts FROM range(8) r(i)")
        connection.execute("CREATE VIEW copies AS SELECT home, watts AS level FROM homes")
        connection.execute("CREATE TABLE regions AS SELECT 1 AS home, 'north' AS region")
    open_source("homes.duckdb::homes", base=tmp_path, tables={"z": "homes.duckdb::regions"}).close()
    with pytest.raises(InvalidPlan, match=r'expected a table as "z", got a view in homes\.duckdb'):
        open_source("homes.duckdb::homes", base=tmp_path, tables={"z": "homes.duckdb::copies"})
