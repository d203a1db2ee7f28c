"""Answers of Spark as arrays, and the dictionaries that are made once."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlglot import exp

from sightline.errors import InvalidPlan
from sightline.tables import encoding
from sightline.tables.collect import collect
from sightline.tables.engines import spark_engine
from sightline.tables.engines.open import open_source
from sightline.tables.engines.spark_engine import SparkEngine, SparkLookups, _master
from sightline.tables.sql.fragments import translated
from sightline.tables.sql.reader import read_release
from sightline.tables.subject import Schema, SecretKind, Subject

# A key of every kind, with what engines treat differently: NaN, two zeros, trailing blanks, case, NULL.
VALUES = {
    "DOUBLE": ["CAST('NaN' AS DOUBLE)", "-0.0D", "0.0D", "1.5D", "NULL", "CAST('-Infinity' AS DOUBLE)"],
    "STRING": ["'a'", "'A'", "'a '", "''", "'ß'", "NULL", "'''; --'"],
    "DECIMAL(20, 3)": ["1.250", "-3", "NULL", "12345678901234567.125"],
    "TIMESTAMP": ["TIMESTAMP '2024-03-31 02:30:00'", "NULL", "TIMESTAMP '1969-12-31 23:59:59.5'"],
    "DATE": ["DATE '2024-02-29'", "NULL", "DATE '1900-01-01'"],
    "BOOLEAN": ["TRUE", "FALSE", "NULL"],
}
CODED = """SELECT "data"."i" AS i, d0.c AS c FROM "data" AS "data" LEFT JOIN (
  SELECT k, ROW_NUMBER() OVER (ORDER BY k) AS c
  FROM (SELECT DISTINCT "data"."v" AS k FROM "data" AS "data") AS listed WHERE k IS NOT NULL
) AS d0 ON "data"."v" = d0.k ORDER BY i"""


@pytest.fixture
def opened(spark_session: Any) -> Iterator[Any]:
    """Opens an engine on the answer to a query in Spark's SQL."""
    engines = []

    def opening(sql: str) -> SparkEngine:
        spark_session.sql(sql).createOrReplaceTempView("odd_values")
        engine = open_source(spark_session, base=Path(), table="odd_values")
        assert isinstance(engine, SparkEngine)
        engines.append(engine)
        return engine

    yield opening
    for engine in engines:
        engine.close()


@pytest.mark.parametrize("kind", VALUES)
def test_a_dictionary_made_once_gives_the_codes_of_the_query(
    opened: Any, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = ", ".join(f"({place}, {value})" for place, value in enumerate(VALUES[kind] * 2))
    engine = opened(f"SELECT i, CAST(v AS {kind}) AS v FROM VALUES {listed} AS t(i, v)")
    made = engine.fetch(CODED)
    assert len(engine._lookups._views) == 1
    assert all(view is not None for view in engine._lookups._views.values())
    engine.fetch(CODED)
    assert len(engine._lookups._views) == 1
    monkeypatch.setattr(SparkLookups, "in_place", lambda _, text: text)
    asked = engine.fetch(CODED)
    assert made["c"].tolist() == asked["c"].tolist()
    assert len(set(made["c"].tolist())) == len(VALUES[kind]) - (kind == "DOUBLE")  # the zeros are one key


@pytest.mark.parametrize(
    ("changed", "to"),
    [
        ("ORDER BY k)", "ORDER BY k DESC)"),  # other numbers
        ("SELECT DISTINCT", "SELECT"),  # a row for each record
        ('"data"."v" AS k FROM', '"data"."v" AS k, "data"."i" AS i FROM'),
        ("WHERE k IS NOT NULL", "WHERE k > 'a'"),
    ],
)
def test_a_subquery_that_is_no_dictionary_runs_as_it_is(opened: Any, changed: str, to: str) -> None:
    engine = opened("SELECT i, v FROM VALUES (1, 'b'), (2, 'a'), (3, 'c'), (4, 'a') AS t(i, v)")
    assert changed in CODED
    engine.fetch(CODED.replace(changed, to))
    named = f"WITH cte AS (SELECT v FROM data) {CODED}".replace(
        'k FROM "data" AS "data"', "k FROM cte AS data"
    )
    assert engine.fetch_own(translated(named, dialect="spark", names=_Same()))["c"].tolist() == [2, 1, 3, 1]
    assert engine._lookups._views == {}


class _Same(dict[str, exp.Table]):
    """Every relation by its own name."""

    def __missing__(self, name: str) -> exp.Table:
        return exp.to_table(name)


def test_too_many_keys_are_refused_and_not_collected(opened: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.sql.classic.dataframe import DataFrame

    rows = []
    to_arrow = DataFrame.toArrow

    def counted(frame: Any) -> Any:
        answer = to_arrow(frame)
        rows.append(answer.num_rows)
        return answer

    for module in (encoding, spark_engine):
        monkeypatch.setattr(module, "MOST_KEYS", 10)
    engine = opened("SELECT id AS who, CONCAT('k', id) AS k, 0.5D AS x FROM RANGE(200)")
    monkeypatch.setattr(DataFrame, "toArrow", counted)
    subject = Subject(record="who", secret="x", kind=SecretKind.NUMBER, bounds=(0, 1))
    query = read_release(
        "SELECT k, SUM(x) FROM data GROUP BY k", name="k", subject=subject, schema=Schema.of(engine)
    )
    with pytest.raises(InvalidPlan, match="at most 10 groups of one key"):
        collect(engine, [query], subject)
    assert max(rows) == 11


def test_columns_are_numbers_of_numpy_or_python_objects(opened: Any) -> None:
    engine = opened("SELECT 1 AS one")
    answer = engine.fetch_own(
        "SELECT CAST(a AS TINYINT) AS tiny, CAST(a AS FLOAT) / 4 AS quarter, a > 1 AS large, "
        "IF(a > 1, a, NULL) AS gap, CAST(a AS DECIMAL(10, 2)) AS exact, DATE '2024-02-29' AS day, "
        "TIMESTAMP '2024-02-29 12:00:00' AS noon, 'ß' AS text, NULL AS nothing, "
        "CAST('NaN' AS DOUBLE) AS nan FROM VALUES (1), (3) AS t(a) ORDER BY a"
    )
    expected: dict[str, tuple[Any, list[Any]]] = {
        "tiny": (np.int64, [1, 3]),
        "quarter": (np.float64, [0.25, 0.75]),
        "large": (np.bool_, [False, True]),
        "gap": (object, [None, 3]),
        "exact": (object, [decimal.Decimal("1.00"), decimal.Decimal("3.00")]),
        "day": (object, [datetime.date(2024, 2, 29)] * 2),
        "noon": (object, [datetime.datetime(2024, 2, 29, 12)] * 2),
        "text": (object, ["ß", "ß"]),
        "nothing": (object, [None, None]),
    }
    nan = answer.pop("nan")
    assert nan.dtype == np.float64
    assert np.isnan(nan).all()
    assert {name: (values.dtype, values.tolist()) for name, values in answer.items()} == expected
    empty = engine.fetch_own(
        "SELECT 1 AS n, 'x' AS t FROM odd_values WHERE FALSE".replace("odd_values", "data")
    )
    assert [values.size for values in empty.values()] == [0, 0]


def test_text_that_is_not_unicode_is_refused_without_the_text(opened: Any) -> None:
    engine = opened("SELECT 1 AS one")
    with pytest.raises(InvalidPlan, match="expected a query that Spark can run, got UnicodeDecodeError"):
        engine.fetch_own("SELECT CAST(X'61FF62' AS STRING) AS t FROM data")


def test_a_session_of_another_master_is_refused(spark_session: Any) -> None:
    assert _master(spark_session.sparkContext.master) == _master("spark://local[1]") == "local[1,4]"
    with pytest.raises(InvalidPlan, match="expected the Spark master of the session"):
        open_source("spark://local[3]?table=homes", base=Path())


def test_spark_connect_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_: object) -> None:
        raise ImportError("grpc")

    monkeypatch.setattr("pyspark.sql.session.SparkSession.Builder.getOrCreate", missing)
    monkeypatch.setattr("pyspark.sql.session.SparkSession.getActiveSession", lambda: None)
    with pytest.raises(InvalidPlan, match=r"got ImportError; pip install 'pyspark\[connect\]'"):
        open_source("sc://host?table=homes", base=Path())
