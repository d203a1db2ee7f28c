"""An audit whose signatures stay on Spark: the digits of DuckDB, and no row of a record on the driver."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

import sightline as sl
from sightline.auditing import session, streamed_findings, work
from sightline.tables import occurring
from tests.tables.test_engines_audit import differences

RECORDS = 3_000
KEYS = {"a": 7, "b": 6, "c": 5, "d": 29}  # and how many values each has
RELEASES = {
    "a and b": "SELECT a, b, AVG(x) FROM data GROUP BY a, b",
    "c": "SELECT c, SUM(x) FROM data WHERE a <> 'k3' GROUP BY c",
    "d": "SELECT d, AVG(x) FROM data GROUP BY d",
    "b and d": "SELECT b, d, AVG(x) FROM data GROUP BY b, d",
    "one": "SELECT SUM(x) FROM data WHERE c = 2 AND d < 11",
}
MOST = 40  # signatures that are kept


def plan_of(source: str) -> dict[str, Any]:
    return {
        "data": {"source": source, "record": "who", "secret": "x", "bounds": [0, 1]},
        "privacy": {"epsilon": 20.0, "delta": 1e-6, "accountant": "zcdp"},
        "limits": {"remaining_uncertainty": "90%"},
        "attacker": {"knows": ["d = 4"]},
        "release": [{"name": name, "sql": sql} for name, sql in RELEASES.items()],
    }


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One row for each person: a key of text, three of numbers, one of them uneven."""
    file = tmp_path_factory.mktemp("streamed") / "people.parquet"
    keys = ", ".join(
        f"CAST(hash(i, {place}) % {size} AS INTEGER) AS {key}"
        for place, (key, size) in enumerate(KEYS.items())
        if key != "a"
    )
    duckdb.sql(
        f"COPY (SELECT 'p' || i AS who, 'k' || (hash(i, 7) % {KEYS['a']}) AS a, {keys}, "
        f"hash(i, 9) % 1000 / 1000.0 AS x FROM range({RECORDS}) AS t(i)) TO '{file}'"
    )
    return file


def test_a_streamed_audit_has_duckdbs_digits_and_collects_no_records(
    spark_session: Any, table: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setattr(work, "_PER_SIGNATURE", 1e18)
    monkeypatch.setattr(streamed_findings, "MOST_KEPT", MOST)
    # What is looked at in the open is bounded, whatever the table: rows of a sample, bins, coarse signatures.
    monkeypatch.setattr(occurring, "_MOST_ROWS", 100)
    monkeypatch.setattr(session, "BATCH", 150)
    expected = sl.audit(plan_of(str(table)), names=True)
    spark_session.read.parquet(str(table)).repartition(3).createOrReplaceTempView("people")
    views = spark_session.sql("SHOW VIEWS").toArrow()
    collected: list[int] = request.getfixturevalue("rows_on_the_driver")
    got = sl.audit(plan_of("spark://local[1]?table=people"), names=True)

    for result in (expected, got):
        assert any("is streamed" in line for line in result.assumptions)
    ours, theirs = expected.model_dump(), got.model_dump()
    for name in ("plan", "publishable_plan", "source"):  # the sources are two
        assert ours.pop(name) != theirs.pop(name)
    assert ours["signatures"] > 50 * MOST
    assert differences(ours, theirs) == []
    # No answer has more rows than a release has cells, or than there are bins between the ends.
    assert max(collected) <= max(KEYS["b"] * KEYS["d"], occurring._BINS) < ours["signatures"] / 10
    assert spark_session.sql("SHOW VIEWS").toArrow() == views
    assert spark_session.sparkContext._jsc.getPersistentRDDs().isEmpty()
