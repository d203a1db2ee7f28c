"""Queries of which a simpler reading would be false: each is refused, and its own answers show why.

A reading says which numbers a secret can change, and by how much. The answers of the text as it stands, on
two tables that differ in one secret, contradict the simple one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

import sightline as sl
from sightline.tables.collect import collect
from sightline.tables.engines.open import open_source
from sightline.tables.sql.reader import read_release
from sightline.tables.subject import Schema, SecretKind, Subject

PEOPLE = [(i, "nse"[i % 3], 20 + i, 10.0 + 7 * i, i % 4 == 1) for i in range(12)]
DISTRICTS = [("n", "n1"), ("n", "n2"), ("s", "s1"), ("e", "e1")]


def created(connection: duckdb.DuckDBPyConnection, people: list[tuple[Any, ...]]) -> None:
    connection.execute(
        "CREATE OR REPLACE TABLE data (id INTEGER, town VARCHAR, age INTEGER, x DOUBLE, ill BOOLEAN)"
    )
    connection.executemany("INSERT INTO data VALUES (?, ?, ?, ?, ?)", people)
    connection.execute("CREATE OR REPLACE TABLE districts (town VARCHAR, district VARCHAR)")
    connection.executemany("INSERT INTO districts VALUES (?, ?)", DISTRICTS)


def with_secret(secret: str, value: Any) -> list[tuple[Any, ...]]:
    """The people, the sixth of whom has another secret."""
    place = {"x": 3, "ill": 4}[secret]
    return [(*row[:place], value, *row[place + 1 :]) if row[0] == 5 else row for row in PEOPLE]


def plan(folder: Path, sql: str, secret: str) -> dict[str, Any]:
    return {
        "data": {
            "source": str(folder / "t.duckdb") + "::data",
            "tables": {"districts": str(folder / "t.duckdb") + "::districts"},
            "record": "id", "secret": secret, "public": ["town", "age"],
            **({"bounds": [0, 100]} if secret == "x" else {"kind": "boolean"}),
        },
        "limits": {"remaining_uncertainty": "10%"},
        "release": [{"name": "one", "sql": sql, "noise": {"stddev": 5.0}}],
    }  # fmt: skip


def refusal(folder: Path, sql: str, secret: str) -> str:
    with duckdb.connect(str(folder / "t.duckdb")) as connection:
        created(connection, PEOPLE)
    with pytest.raises(sl.SightlineError) as refused:
        sl.audit(plan(folder, sql, secret))
    assert "\n" not in str(refused.value).strip()
    return str(refused.value)


def answers(sql: str, secret: str, values: tuple[Any, Any]) -> list[list[tuple[Any, ...]]]:
    found = []
    with duckdb.connect() as connection:
        for value in values:
            created(connection, with_secret(secret, value))
            found.append(sorted(connection.execute(sql).fetchall(), key=repr))
    return found


def test_lines_that_a_secret_chooses_are_not_public_where_their_number_is_unused(tmp_path: Path) -> None:
    sql = (
        "SELECT a.age, COUNT(*) FROM data AS a JOIN (SELECT age, COUNT(*) AS n FROM data WHERE ill "
        "GROUP BY age) AS b ON a.age = b.age GROUP BY a.age"
    )
    assert "a declared public table" in refusal(tmp_path, sql, "ill")
    healthy, ill = answers(sql, "ill", (False, True))
    assert len(ill) == len(healthy) + 1  # read as COUNT(*) by age, nothing depends on who is ill


def test_a_clipped_total_is_not_the_total_but_made_of_the_totals(tmp_path: Path) -> None:
    sql = "SELECT SUM(LEAST(total, 50)) FROM (SELECT town, SUM(x) AS total FROM data GROUP BY town)"
    with duckdb.connect(str(tmp_path / "t.duckdb")) as connection:
        created(connection, PEOPLE)
    result = sl.audit(plan(tmp_path, sql, "x"))
    assert [one.name for one in result.unverified if one.name == "noise_first"] == ["noise_first"]
    plain = sl.audit(plan(tmp_path, "SELECT town, SUM(x) FROM data GROUP BY town", "x"))
    assert result.least_remaining_uncertainty == plain.least_remaining_uncertainty
    low, high = answers(sql, "x", (0.0, 100.0))
    assert high[0][0] - low[0][0] != 100.0


def test_a_row_in_two_groups_of_one_partition_is_refused(tmp_path: Path) -> None:
    sql = (
        "SELECT v.k, SUM(x) FROM data JOIN (VALUES ('young', 0, 28), ('all', 0, 99)) AS v(k, low, high) "
        "ON age BETWEEN v.low AND v.high GROUP BY v.k"
    )
    assert "VALUES" in refusal(tmp_path, sql, "x")
    low, high = answers(sql, "x", (0.0, 100.0))
    assert [b[1] - a[1] for a, b in zip(low, high, strict=True)] == [100.0, 100.0]  # one release, two cells


def test_a_whole_row_is_no_public_column(tmp_path: Path) -> None:
    sql = "SELECT a.town, a AS whole, COUNT(*) FROM data AS a GROUP BY a.town, a"
    refusal(tmp_path, sql, "x")
    low, high = answers(sql, "x", (0.0, 100.0))
    assert low != high
    assert [line[2] for line in low] == [line[2] for line in high]  # no count changes


@pytest.mark.parametrize(
    "sql",
    ["SELECT ill, town FROM data GROUP BY ALL", "SELECT ill, town FROM data GROUP BY ill, town",
     "SELECT DISTINCT ill, town FROM data"],
)  # fmt: skip
def test_lines_by_the_secret_without_a_count_are_refused(tmp_path: Path, sql: str) -> None:
    refusal(tmp_path, sql, "ill")
    healthy, ill = answers(sql.replace("FROM data", "FROM data WHERE age = 25"), "ill", (False, True))
    assert healthy != ill


def test_a_mean_over_a_join_that_multiplies_rows_has_another_divisor(tmp_path: Path) -> None:
    sql = "SELECT AVG(x) FROM data JOIN districts USING (town)"
    low, high = answers(sql, "x", (0.0, 100.0))
    assert high[0][0] - low[0][0] == pytest.approx(100 / 16)  # of 12 people, each of 4 in two districts
    with duckdb.connect(str(tmp_path / "t.duckdb")) as connection:
        created(connection, PEOPLE)
    engine = open_source("t.duckdb::data", base=tmp_path, tables={"districts": "t.duckdb::districts"})
    about = Subject(record="id", secret="x", kind=SecretKind.NUMBER, bounds=(0.0, 100.0))
    query = read_release(sql, name="one", subject=about, schema=Schema.of(engine, ["districts"]))
    assert collect(engine, [query], about).weight_sums.tolist() == [16.0]
    engine.close()
