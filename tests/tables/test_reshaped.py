"""A secret in wide form is audited as the same table in long form, on every engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

import sightline as sl
from sightline.errors import InvalidPlan
from sightline.tables.engines.open import open_source
from sightline.tables.reshaped import leave_out, unpivot

HOURS = ("h00", "h01", "h02")
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


@pytest.mark.slow
def test_wide_form_is_long_form(tmp_path: Path) -> None:
    meters(tmp_path)
    wide = sl.audit(plan_of(tmp_path / "wide.csv", wide={"columns": HOURS, "name": "hour"}))
    long = sl.audit(plan_of(tmp_path / "long.csv"))
    own = {"source", "plan", "publishable_plan"}
    assert wide.model_dump(exclude=own) == long.model_dump(exclude=own)
    assert (wide.records, wide.rows + (wide.dropped or 0)) == (9, 27)
    assert 'wide = { "columns" = ["h00", "h01", "h02"], "name" = "hour" }' in wide.plan


@pytest.mark.slow
def test_the_columns_may_be_the_records(tmp_path: Path) -> None:
    """A table with a row for each hour and a column for each home."""
    (tmp_path / "t.csv").write_text("utc,A,B\n1,0.5,1.5\n2,2.5,0.25\n")
    wide = {"columns": ["A", "B"], "name": "home"}
    plan = plan_of(tmp_path / "t.csv", wide=wide, max_rows_per_record=2)
    plan["release"] = [{"name": "by hour", "sql": "SELECT utc, SUM(kwh) FROM data GROUP BY utc"}]
    result = sl.audit(plan)
    assert (result.records, result.rows, result.cells) == (2, 4, 2)


@pytest.mark.parametrize("engine_name", ["duckdb", "postgres", "spark"])
def test_every_engine_reshapes_alike(engine_name: str, request: pytest.FixtureRequest) -> None:
    engine = request.getfixturevalue(f"{engine_name}_reshaped")
    unpivot(engine, ["H0", "h1"], name="hour", value="kwh")
    leave_out(engine, ["income"])
    assert [column.name for column in engine.columns()] == ["home", "hour", "kwh"]
    answer = engine.fetch("SELECT home, hour, CAST(kwh AS DOUBLE) AS kwh FROM data ORDER BY home, hour")
    rows = list(zip(*(answer[name].tolist() for name in ("home", "hour", "kwh")), strict=True))
    assert rows == [("A", "h0", 1.5), ("A", "h1", 2.5), ("B", "h0", 4.0), ("B", "h1", None)]
    with pytest.raises(InvalidPlan):
        engine.fetch("SELECT income FROM data")


WIDE_ROWS = (
    "SELECT 'A' AS home, 1.5 AS h0, 2.5 AS h1, 7 AS income UNION ALL SELECT 'B', 4.0, CAST(NULL AS DOUBLE), 8"
)


@pytest.fixture
def duckdb_reshaped(tmp_path: Path) -> Any:
    with duckdb.connect() as connection:
        connection.execute(f"COPY ({WIDE_ROWS}) TO '{tmp_path / 'wide.parquet'}' (FORMAT parquet)")
    engine = open_source("wide.parquet", base=tmp_path)
    yield engine
    engine.close()


@pytest.fixture
def spark_reshaped(spark_session: Any) -> Any:
    spark_session.sql(WIDE_ROWS).createOrReplaceTempView("wide_homes")
    engine = open_source(spark_session, base=Path(), table="wide_homes")
    yield engine
    engine.close()


@pytest.fixture
def postgres_reshaped(postgres_url: str) -> Any:
    psycopg = pytest.importorskip("psycopg")
    rows = WIDE_ROWS.replace("DOUBLE", "DOUBLE PRECISION")
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"CREATE TABLE IF NOT EXISTS wide_homes AS {rows}")
    engine = open_source(f"{postgres_url}?table=wide_homes", base=Path())
    yield engine
    engine.close()


BAD = {
    "an unknown column": ({"columns": ["h00", "h9"]}, 'wide: expected a column of the table, got "h9"'),
    "two types": ({"columns": ["h00", "feeder"]}, "wide: columns of one type, got number and text"),
    "a name that is taken": ({"name": "Feeder"}, 'got "Feeder", which is taken'),
    "one name for both": ({"name": "KWH"}, 'got "KWH", which is taken'),
    "a column twice": ({"columns": ["h00", "H00"]}, "wide: expected distinct columns, got ['h00'] twice"),
    "one column": ({"columns": ["h00"]}, "at least 2 entries"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_declaration_is_one_line(case: str, tmp_path: Path) -> None:
    changes, words = BAD[case]
    meters(tmp_path)
    plan = plan_of(tmp_path / "wide.csv", wide={"columns": HOURS, "name": "hour", **changes})
    with pytest.raises(InvalidPlan) as caught:
        sl.audit(plan)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


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
