"""``[data] sql``: rows that are made first are audited as the same rows in a table of their own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

import sightline as sl
from sightline.errors import InvalidPlan
from sightline.tables.engines.open import open_source
from sightline.tables.engines.protocol import Column, ColumnKind, Engine
from sightline.tables.rows import check_made, make_data
from sightline.tables.sql.data_query import DataQuery, read_data_query
from sightline.tables.sql.reader import read_release
from sightline.tables.subject import Schema, SecretKind, Subject

HOURS = ("h00", "h01", "h02")
UNPIVOT = "SELECT * FROM source UNPIVOT INCLUDE NULLS (kwh FOR hour IN (h00, h01, h02))"
UNION = " UNION ALL ".join(
    f"SELECT home, feeder, '{hour}' AS hour, {hour} AS kwh FROM source" for hour in HOURS
)
RELEASES = [
    {"name": "by hour", "sql": "SELECT feeder, hour, AVG(kwh) FROM data GROUP BY feeder, hour"},
    {"name": "night", "sql": "SELECT SUM(kwh), COUNT(*) FROM data WHERE hour <> 'h02'"},
]


def meters(folder: Path, *, homes: int = 9) -> Path:
    """Meter readings, a column for each hour, with some missing; and the same readings in long form."""
    random = np.random.default_rng(5)
    wide, long = ["home,feeder,h00,h01,h02"], ["home,feeder,hour,kwh"]
    for place in range(homes):
        values = ["" if one < 0.4 else f"{one:.2f}" for one in random.uniform(0, 5, 3)]
        wide.append(f"H{place},{'ns'[place % 2]},{','.join(values)}")
        long += [f"H{place},{'ns'[place % 2]},{h},{v}" for h, v in zip(HOURS, values, strict=True)]
    (folder / "wide.csv").write_text("\n".join(wide) + "\n")
    (folder / "long.csv").write_text("\n".join(long) + "\n")
    return folder


def plan_of(source: Path, **data: Any) -> dict[str, Any]:
    own = {
        "source": str(source),
        "record": "home",
        "secret": "kwh",
        "bounds": [0, 4],
        "max_rows_per_record": 3,
    }
    return {
        "data": {**own, "values": "independent", **data},
        "privacy": {"epsilon": 3.0, "delta": 1e-6},
        "limits": {"remaining_uncertainty": 0.5},
        "release": RELEASES,
    }


@pytest.mark.sampled(1)
@pytest.mark.slow
@pytest.mark.parametrize("sql", [UNPIVOT, UNION])
def test_wide_form_is_long_form(tmp_path: Path, sql: str) -> None:
    meters(tmp_path)
    wide = sl.audit(plan_of(tmp_path / "wide.csv", sql=sql))
    long = sl.audit(plan_of(tmp_path / "long.csv"))
    own = {"source", "table_digest", "plan", "publishable_plan", "assumptions"}
    assert wide.model_dump(exclude=own) == long.model_dump(exclude=own)
    assert (wide.records, wide.rows + (wide.dropped or 0)) == (9, 27)
    assert (wide.dropped or 0) > 0, "a missing value is a row, too"


def test_the_columns_may_be_the_records(tmp_path: Path) -> None:
    """A table with a row for each hour and a column for each home."""
    (tmp_path / "t.csv").write_text("utc,A,B\n1,0.5,1.5\n2,2.5,0.25\n")
    sql = "SELECT * FROM source UNPIVOT INCLUDE NULLS (kwh FOR home IN (A, B))"
    plan = plan_of(tmp_path / "t.csv", sql=sql, max_rows_per_record=2)
    plan["release"] = [{"name": "by hour", "sql": "SELECT utc, SUM(kwh) FROM data GROUP BY utc"}]
    result = sl.audit(plan)
    assert (result.records, result.rows, result.cells) == (2, 4, 2)


ROWS = (
    "SELECT 'A' AS home, 1 AS day, 1.5 AS h0, 2.5 AS h1, 7 AS income UNION ALL "
    "SELECT 'A', 2, 3.0, 1.0, 7 UNION ALL SELECT 'B', 1, 4.0, CAST(NULL AS DOUBLE), 8"
)
MADE = {
    "unpivoted": (
        "SELECT home, hour, kwh FROM source UNPIVOT INCLUDE NULLS (kwh FOR hour IN (h0, h1)) WHERE day = 1",
        [("A", "h0", 1.5), ("A", "h1", 2.5), ("B", "h0", 4.0), ("B", "h1", None)],
    ),
    "all columns but some": (
        "SELECT home, hour, kwh FROM source UNPIVOT INCLUDE NULLS "
        "(kwh FOR hour IN (COLUMNS(* EXCLUDE (home, DAY, income)))) WHERE day = 1",
        [("A", "h0", 1.5), ("A", "h1", 2.5), ("B", "h0", 4.0), ("B", "h1", None)],
    ),
    "united": (
        "SELECT home, 'h0' AS hour, h0 AS kwh FROM source WHERE day = 1 UNION ALL "
        "SELECT home, 'h1', h1 FROM source WHERE day = 1",
        [("A", "h0", 1.5), ("A", "h1", 2.5), ("B", "h0", 4.0), ("B", "h1", None)],
    ),
    "computed": (
        "SELECT home, CASE WHEN day = 1 THEN 'one' ELSE 'two' END AS hour, h0 + 2 * h1 AS kwh, income "
        "FROM source",
        [("A", "one", 6.5), ("A", "two", 5.0), ("B", "one", None)],
    ),
    "kept": (
        "SELECT home, 'x' AS hour, h0 AS kwh FROM source "
        "QUALIFY ROW_NUMBER() OVER (PARTITION BY home ORDER BY day DESC) = 1",
        [("A", "x", 3.0), ("B", "x", 4.0)],
    ),
    "kept with all columns": (
        "SELECT *, 'x' AS hour, h0 AS kwh FROM source "
        "QUALIFY ROW_NUMBER() OVER (PARTITION BY home ORDER BY day DESC) = 1",
        [("A", "x", 3.0), ("B", "x", 4.0)],
    ),
    "numbered in a subquery": (
        "WITH d AS (SELECT *, ROW_NUMBER() OVER (PARTITION BY home ORDER BY day) AS n FROM source) "
        "SELECT home, 'x' AS hour, h0 AS kwh FROM d WHERE n = 1",
        [("A", "x", 1.5), ("B", "x", 4.0)],
    ),
    "totals": (
        "SELECT home, 'x' AS hour, LEAST(SUM(h0), 4) AS kwh FROM source GROUP BY home",
        [("A", "x", 4.0), ("B", "x", 4.0)],
    ),
}


@pytest.mark.parametrize("case", MADE)
@pytest.mark.parametrize("engine_name", ["duckdb_rows", "postgres_rows", "spark_rows"])
def test_every_engine_makes_the_same_rows(
    engine_name: str, case: str, request: pytest.FixtureRequest
) -> None:
    sql, expected = MADE[case]
    if engine_name == "postgres_rows" and "UNPIVOT" in sql:
        pytest.skip("Postgres has no UNPIVOT: UNION ALL does it there")
    engine: Engine = request.getfixturevalue(engine_name)
    schema = Schema.of(engine)
    made = read_data_query(sql, record="home", secret="kwh", others=["income"], schema=schema)
    make_data(engine, made)
    check_made(engine, made)
    names = [column.name for column in engine.columns()]
    assert not {"income", "h0", "h1", "_w"} & set(names) - ({"h1"} if "all columns" in case else set())
    answer = engine.fetch("SELECT home, hour, CAST(kwh AS DOUBLE) AS kwh FROM data ORDER BY home, hour")
    rows = list(zip(*(answer[name].tolist() for name in ("home", "hour", "kwh")), strict=True))
    assert rows == expected
    engine.check_unchanged()


@pytest.fixture
def duckdb_rows(tmp_path: Path) -> Iterator[Engine]:
    with duckdb.connect() as connection:
        connection.execute(f"COPY ({ROWS}) TO '{tmp_path / 'rows.parquet'}' (FORMAT parquet)")
    engine = open_source("rows.parquet", base=tmp_path)
    yield engine
    engine.close()


@pytest.fixture
def spark_rows(spark_session: Any) -> Iterator[Engine]:
    spark_session.sql(ROWS).createOrReplaceTempView("made_homes")
    engine = open_source(spark_session, base=Path(), table="made_homes")
    yield engine
    engine.close()


@pytest.fixture
def postgres_rows(postgres_url: str) -> Iterator[Engine]:
    psycopg = pytest.importorskip("psycopg")
    rows = ROWS.replace("DOUBLE", "DOUBLE PRECISION")
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"CREATE TABLE IF NOT EXISTS made_homes AS {rows}")
    engine = open_source(f"{postgres_url}?table=made_homes", base=Path())
    yield engine
    engine.close()


TEXT, NUMBER = ColumnKind.TEXT, ColumnKind.NUMBER
SHOP = Schema(
    columns=[
        *(Column(name, TEXT) for name in ("customer", "country", "Segment")),
        *(Column(name, NUMBER) for name in ("day", "quantity", "price", "h0", "h1")),
    ],
    tables={"countries": [Column("code", TEXT), Column("continent", TEXT), Column("people", NUMBER)]},
)


def made(sql: str, *, others: tuple[str, ...] = (), record: str = "customer") -> DataQuery:
    return read_data_query(sql, record=record, secret="v", others=others, schema=SHOP)


@pytest.mark.parametrize(
    ("sql", "hidden"),
    [
        ("SELECT *, quantity * price AS v FROM source", ("quantity", "price")),
        ("SELECT customer, price AS v, price + 0 AS same, day FROM source", ("same",)),
        (
            "SELECT customer, SUM(price) AS v, MAX(price) AS m, COUNT(*) AS n FROM source GROUP BY customer",
            ("m",),
        ),
        ("SELECT customer, v, w FROM (SELECT customer, price AS v, price > 3 AS w FROM source) AS t", ("w",)),
        (
            "SELECT customer, CASE WHEN country = 'x' THEN price ELSE 0 END AS v, country FROM source",
            ("country",),
        ),
        ("SELECT customer, COUNT(price) AS n, AVG(price) AS v FROM source GROUP BY customer", ("n",)),
        ("SELECT * EXCLUDE (price), price AS v FROM source", ()),
        ("SELECT customer, h0 AS v, h1 FROM source UNION ALL SELECT customer, price, day FROM source", ()),
        ("SELECT customer, continent, price AS v FROM source LEFT JOIN countries ON code = country", ()),
        ("WITH d AS (SELECT price AS p, * FROM source) SELECT customer, p AS v, price AS q FROM d", ("q",)),
    ],
)
def test_what_derives_from_the_secret_is_not_public(sql: str, hidden: tuple[str, ...]) -> None:
    assert made(sql).hidden == hidden


def test_what_derives_from_another_secret_is_not_public() -> None:
    found = made("SELECT customer, price AS v, day > 3 AS late, day, quantity FROM source", others=("day",))
    assert found.hidden == ("late", "day")
    found = made("SELECT customer, price AS v, day * 2 AS w, day + 1 AS x FROM source", others=("w",))
    assert found.hidden == ("w", "x")
    with pytest.raises(InvalidPlan, match='different columns, got "price" in two'):
        made("SELECT customer, price AS v, price / 2 AS w FROM source", others=("w",))
    with pytest.raises(InvalidPlan, match='the secret "day" in WHERE'):
        made("SELECT customer, price AS v FROM source WHERE day > 3", others=("day",))


BAD = {
    "the secret chooses rows": (
        "SELECT customer, price AS v FROM source WHERE price > 3",
        'secret "price" in WHERE',
    ),
    "missing secrets are left out": (
        "SELECT customer, price AS v FROM source WHERE price IS NOT NULL",
        "the audit counts them",
    ),
    "the secret orders rows": (
        "SELECT *, price AS v FROM source QUALIFY RANK() OVER (PARTITION BY customer ORDER BY price) < 3",
        "rows that do not depend on a secret",
    ),
    "the secret groups": (
        "SELECT customer, price > 3 AS k, SUM(price) AS v FROM source GROUP BY 1, 2",
        "secret",
    ),
    "the secret keeps groups": (
        "SELECT customer, SUM(price) AS v FROM source GROUP BY customer HAVING SUM(price) > 3",
        "HAVING",
    ),
    "the secret joins": (
        "SELECT customer, price AS v, continent FROM source JOIN countries ON people = price",
        "rows that do not depend on a secret",
    ),
    "a window of the secret": (
        "SELECT customer, price AS v, SUM(price) OVER (PARTITION BY country) AS t FROM source",
        "window functions of public columns",
    ),
    "a window as the secret": (
        "SELECT customer, LAG(price) OVER (PARTITION BY country ORDER BY day) AS v FROM source",
        "window functions of public columns",
    ),
    "an aggregate over several records": (
        "SELECT customer, v FROM "
        "(SELECT country, SUM(price) AS v, 'x' AS customer FROM source GROUP BY country) t",
        "aggregates of a secret over the rows of one record",
    ),
    "a filtered count over several records": (
        "SELECT 'x' AS customer, COUNT(*) FILTER (WHERE price > 3) AS v FROM source",
        "aggregates of a secret over the rows of one record",
    ),
    "a computed key": (
        "SELECT UPPER(customer) AS customer, price AS v FROM source",
        "a record key that is a column",
    ),
    "the key in the secret": (
        "SELECT customer, LENGTH(customer) + price AS v FROM source",
        "without the record key",
    ),
    "a value twice": (
        "SELECT customer, 'a' AS k, price AS v FROM source UNION ALL SELECT customer, 'b', price FROM source",
        "a value would enter several rows",
    ),
    "a value twice, crossed": (
        "SELECT customer, h0 + h1 AS v FROM source UNION ALL SELECT customer, h1 FROM source",
        "a value would enter several rows",
    ),
    "a column twice in UNPIVOT": (
        "SELECT * FROM source UNPIVOT INCLUDE NULLS (v FOR hour IN (h0, H0))",
        "each column once in UNPIVOT",
    ),
    "an unknown column left out of UNPIVOT": (
        "SELECT * FROM source UNPIVOT INCLUDE NULLS (v FOR hour IN (COLUMNS(* EXCLUDE (hone))))",
        'a column of the table, got "hone"',
    ),
    "columns of UNPIVOT by a pattern": (
        "SELECT * FROM source UNPIVOT INCLUDE NULLS (v FOR hour IN (COLUMNS('h.*')))",
        "names of columns in UNPIVOT",
    ),
    "missing values left out by UNPIVOT": (
        "SELECT * FROM source UNPIVOT (v FOR hour IN (h0, h1))",
        "a missing value is a row, too",
    ),
    "UNPIVOT of a subquery": (
        "SELECT * FROM (SELECT * FROM source) UNPIVOT INCLUDE NULLS (v FOR hour IN (h0, h1))",
        "FROM source UNPIVOT",
    ),
    "UNPIVOT of WITH": (
        "WITH d AS (SELECT * FROM source) SELECT * FROM d UNPIVOT INCLUDE NULLS (v FOR hour IN (h0, h1))",
        "FROM source UNPIVOT",
    ),
    "a public number as the secret": (
        "SELECT customer, price * people AS v FROM source JOIN countries ON code = country",
        "computed from columns of source",
    ),
    "a constant as the secret": ("SELECT customer, 3 AS v FROM source", "computed from columns of source"),
    "no secret": (
        "SELECT customer, price FROM source",
        r"\[data\] secret: a column of \[data\] sql, got \"v\"",
    ),
    "no record": ("SELECT country, price AS v FROM source", r"\[data\] record: a column"),
    "two of one name": ("SELECT customer, price AS v, day AS V FROM source", "different names"),
    "random numbers": ("SELECT customer, price * RANDOM() AS v FROM source", "deterministic"),
    "no order": (
        "SELECT customer, price AS v, ROW_NUMBER() OVER (PARTITION BY country) AS n FROM source",
        "ORDER BY in OVER",
    ),
    "frames": (
        "SELECT customer, price AS v, SUM(day) OVER (ORDER BY day ROWS 3 PRECEDING) AS n FROM source",
        "with PARTITION BY and ORDER BY",
    ),
    "DISTINCT": ("SELECT DISTINCT customer, price AS v FROM source", "got DISTINCT"),
    "LIMIT": ("SELECT customer, price AS v FROM source ORDER BY price LIMIT 3", "leave it out"),
    "ROLLUP": (
        "SELECT customer, SUM(price) AS v FROM source GROUP BY ROLLUP (customer)",
        "a list of columns",
    ),
    "ANY_VALUE": ("SELECT customer, ANY_VALUE(price) AS v FROM source GROUP BY customer", "COUNT, SUM, AVG"),
    "a self join": (
        "SELECT a.customer, b.price AS v FROM source a JOIN source b ON a.day = b.day",
        "a declared public table",
    ),
    "a cross join": ("SELECT customer, price AS v FROM source, countries", "a declared public table"),
    "another table": ("SELECT customer, price AS v FROM others", "FROM source, and joins"),
    "a public table alone": ("SELECT code AS customer, people AS v FROM countries", "FROM source"),
    "a file": ("SELECT customer, price AS v FROM 'a.csv'", "expected"),
    "a function": ("SELECT customer, price AS v FROM read_csv('a.csv')", "FROM source"),
    "a scalar subquery": ("SELECT customer, (SELECT MAX(price) FROM source) AS v FROM source", "no subquery"),
    "writing": ("DELETE FROM source", "can only read"),
    "two statements": ("SELECT customer, price AS v FROM source; SELECT 1", "one SELECT statement"),
    "an unknown column": ("SELECT customer, pric AS v FROM source", "could not be resolved"),
    "replaced columns": ("SELECT * REPLACE (1 AS day), price AS v FROM source", "with EXCLUDE"),
    "recursion": (
        "WITH RECURSIVE d AS (SELECT * FROM source) SELECT customer, price AS v FROM d",
        "not recursive",
    ),
    "a name that is a column and an alias": (
        "SELECT customer, price AS country, country AS c, h0 AS v FROM source",
        "a name that is a column or an alias",
    ),
    "an alias that hides the secret": (
        "SELECT customer, day AS price, price AS v FROM source",
        "a name that is a column or an alias",
    ),
    "an alias in WHERE": (
        "SELECT customer, price AS v, price > 3 AS day FROM source WHERE day",
        "a name that is a column or an alias",
    ),
    "UNION": ("SELECT customer, h0 AS v FROM source UNION SELECT customer, h1 FROM source", "UNION ALL"),
    "samples": ("SELECT customer, price AS v FROM source TABLESAMPLE 10%", "plain name"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_would_tell_the_secret_or_repeat_it_is_refused(case: str) -> None:
    sql, message = BAD[case]
    with pytest.raises(InvalidPlan, match=message) as caught:
        made(sql)
    assert "\n" not in str(caught.value)


def test_doubling_queries_are_refused() -> None:
    parts = [f"d{n + 1} AS (SELECT * FROM d{n} UNION ALL SELECT * FROM d{n})" for n in range(12)]
    sql = f"WITH d0 AS (SELECT * FROM source), {', '.join(parts)} SELECT customer, price AS v FROM d12"
    with pytest.raises(InvalidPlan, match="at most 200 SELECTs"):
        made(sql)


def test_ties_and_doubled_rows_are_refused(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("home,day,kwh\nA,1,0.5\nA,1,1.5\nB,2,2.5\n")
    (tmp_path / "days.csv").write_text("d,label\n1,x\n1,y\n2,z\n")
    engine = open_source("t.csv", base=tmp_path, tables={"days": "days.csv"})
    schema = Schema.of(engine, ["days"])
    number = "OVER (PARTITION BY home ORDER BY day) AS n FROM source"
    for sql, message in (
        (f"SELECT *, ROW_NUMBER() {number}", "an order without ties"),
        (f"SELECT *, LAG(day) {number}", "an order without ties"),
        (f"SELECT *, RANK() {number}", None),
        ("SELECT home, kwh, label FROM source JOIN days ON day = d", "got 5 rows from 3"),
        ("SELECT home, kwh, label FROM source JOIN days ON day = d AND label <> 'y'", None),
    ):
        query = read_data_query(sql, record="home", secret="kwh", others=[], schema=schema)
        make_data(engine, query)
        if message is None:
            check_made(engine, query)
            continue
        with pytest.raises(InvalidPlan, match=message):
            check_made(engine, query)
    engine.close()


def test_a_release_cannot_name_what_is_hidden_or_the_table(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("home,n,p\nA,1,0.5\nB,2,2.5\n")
    plan = plan_of(tmp_path / "t.csv", sql="SELECT *, n * p AS kwh FROM source", max_rows_per_record=1)
    for sql, message in (
        ("SELECT n, AVG(kwh) FROM data GROUP BY n", 'a column of the table, got "n"'),
        ("SELECT SUM(n * p) FROM data", 'a column of the table, got "n"'),
        ("SELECT SUM(p) FROM source", "FROM data, got FROM source"),
        ("WITH d AS (SELECT * FROM source) SELECT SUM(p) FROM d", "FROM data, got FROM source"),
    ):
        plan["release"] = [{"name": "x", "sql": sql}]
        with pytest.raises(InvalidPlan, match=message):
            sl.audit(plan)
    plan["release"] = [{"name": "x", "sql": "SELECT SUM(kwh) FROM data"}]
    plan["attacker"] = {"knows": ["p > 1"]}
    with pytest.raises(InvalidPlan, match='a column of the table, got "p"'):
        sl.audit(plan)


def test_an_expression_as_the_secret_says_what_to_write(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("home,n,p\nA,1,0.5\nB,2,2.5\n")
    with pytest.raises(
        InvalidPlan, match=r'sql = "SELECT \*, n \* p AS value FROM source", secret = "value"'
    ):
        sl.audit(plan_of(tmp_path / "t.csv", secret="n * p"))


def test_other_secrets_are_out_of_reach(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("home,feeder,income,kwh\nA,n,5,1\nB,s,6,2\n")
    plan = plan_of(tmp_path / "t.csv", max_rows_per_record=1) | {"secret": [{"column": "income"}]}
    for sql in (
        "SELECT income, AVG(kwh) FROM data GROUP BY income",
        "SELECT AVG(kwh) FROM data WHERE income > 5",
    ):
        plan["release"] = [{"name": "x", "sql": sql}]
        with pytest.raises(InvalidPlan, match='expected a column of the table, got "income"'):
            sl.audit(plan)
    plan["secret"] = [{"column": "incom"}]
    with pytest.raises(InvalidPlan, match=r"\[secret\] column: expected a column of the table"):
        sl.audit(plan)
    plan["secret"] = [{"column": "income"}]
    (tmp_path / "areas.csv").write_text("feeder,income\nn,5\n")
    plan["data"]["tables"] = {"areas": str(tmp_path / "areas.csv")}
    with pytest.raises(InvalidPlan, match="which is the secret's name"):
        sl.audit(plan)


@pytest.mark.parametrize("source", ["rows.csv", "rows.parquet", "rows.duckdb::t", "rows.duckdb::data"])
def test_every_kind_of_file_makes_rows(tmp_path: Path, source: str) -> None:
    """Also a view of a DuckDB file, and one that is called data there."""
    connection = duckdb.connect(str(tmp_path / "rows.duckdb"))
    connection.execute(
        "CREATE TABLE t AS SELECT i // 3 AS home, i AS day, i * 1.5 AS load FROM range(9) AS r (i)"
    )
    connection.execute("CREATE VIEW data AS SELECT * FROM t")
    connection.execute(f"COPY t TO '{tmp_path}/rows.parquet' (FORMAT parquet)")
    connection.execute(f"COPY t TO '{tmp_path}/rows.csv' (FORMAT csv)")
    connection.close()
    engine = open_source(source, base=tmp_path)
    engine.define("SELECT * FROM source QUALIFY RANK() OVER (PARTITION BY home ORDER BY day DESC) <= 2")
    assert sorted(engine.fetch("SELECT day FROM data")["day"].tolist()) == [1, 2, 4, 5, 7, 8]
    engine.check_unchanged()
    engine.close()


def test_a_release_that_makes_the_rows_itself_reads_them() -> None:
    """Its own WITH or subquery is read as data, whatever its aliases are; another one is not."""
    query = made("SELECT customer, country, LEAST(SUM(price), 9) AS v FROM source GROUP BY customer, country")
    columns = [Column("customer", TEXT), Column("country", TEXT), Column("v", NUMBER)]
    schema = replace(SHOP, columns=columns, source=(SHOP,), made_by=query.normal)
    subject = Subject(record="customer", secret="v", kind=SecretKind.NUMBER, bounds=(0.0, 9.0))
    inner = "SELECT s.COUNTRY, least(sum(s.price), 9) AS v, s.customer FROM source s GROUP BY s.customer, 1"
    for sql in (
        f"WITH p AS ({inner}) SELECT country, AVG(v) FROM p GROUP BY country",
        f"SELECT q.country, AVG(q.v) FROM ({inner}) AS q GROUP BY q.country",
    ):
        release = read_release(sql, name="r", subject=subject, schema=schema)
        assert "source" not in release.sql
        assert release.partitions[0].keys == ('"data"."country"',)
    hidden = (
        f"WITH source AS (SELECT customer, country, v AS price FROM data) SELECT AVG(v) FROM ({inner}) AS q"
    )
    with pytest.raises(InvalidPlan, match="not used otherwise"):
        read_release(hidden, name="r", subject=subject, schema=schema)
    other = inner.replace("9)", "8)")
    with pytest.raises(InvalidPlan, match="a subquery whose lines are rows of data"):
        read_release(f"SELECT AVG(v) FROM ({other}) AS q", name="r", subject=subject, schema=schema)
