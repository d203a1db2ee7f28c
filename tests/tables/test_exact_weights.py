"""Weights reach the design exactly, or are refused: two that differ must not count as equal."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pytest

import sightline as sl
from sightline.errors import InvalidPlan
from sightline.tables.collect import collect
from sightline.tables.encoding import key_text
from sightline.tables.engines.open import open_source
from sightline.tables.sql.reader import read_release
from sightline.tables.subject import Schema, SecretKind, Subject

SUBJECT = Subject(record="id", secret="x", kind=SecretKind.NUMBER, bounds=(0, 10))


def table(folder: Path, kind: str, weights: list[str]) -> Path:
    """A table with one row for each weight, of a type."""
    rows = ", ".join(f"({i}, {i % 10}.5, CAST('{weight}' AS {kind}))" for i, weight in enumerate(weights))
    with duckdb.connect(str(folder / "t.duckdb")) as connection:
        connection.execute(f"CREATE TABLE t AS SELECT * FROM (VALUES {rows}) AS v(id, x, w)")
    return folder / "t.duckdb"


def weights_of(folder: Path, item: str) -> list[float]:
    """The different weights that the audit takes."""
    engine = open_source("t.duckdb", base=folder)
    try:
        query = read_release(
            f"SELECT {item} FROM data", name="sum", subject=SUBJECT, schema=Schema.of(engine)
        )
        membership = collect(engine, [query], SUBJECT)
    finally:
        engine.close()
    return sorted({float(one) for one in membership.weights_in(0)})


EXACT = {  # the type, and weights that reach the design as they are
    "BIGINT": ["1", "2", "9007199254740991"],
    "HUGEINT": ["9007199254740992", "18014398509481984"],  # powers of two are doubles
    "DECIMAL(12, 2)": ["0.01", "0.02", "12345678.91"],
    "DECIMAL(18, 6)": ["0.000001", "0.000003", "123456.789012"],
    "DOUBLE": ["0.3", "0.30000000000000004", "1e300"],
}


@pytest.mark.parametrize("kind", EXACT)
def test_weights_that_doubles_tell_apart_are_the_engine_s_own(tmp_path: Path, kind: str) -> None:
    table(tmp_path, kind, EXACT[kind])
    with duckdb.connect(str(tmp_path / "t.duckdb"), read_only=True) as connection:
        own = connection.execute("SELECT w FROM t ORDER BY w").fetchall()
    assert weights_of(tmp_path, "SUM(x * w)") == [float(row[0]) for row in own]


LOST = {
    "BIGINT": ["9007199254740992", "9007199254740993", "1"],
    "UBIGINT": ["18446744073709551614", "18446744073709551615"],
    "DECIMAL(20, 6)": ["12345678901234.123456", "12345678901234.123457"],
    "DECIMAL(38, 12)": ["1", "1.000000000001"],
    "HUGEINT": ["1", "170141183460469231731687303715884105727"],
}


@pytest.mark.parametrize("kind", LOST)
def test_weights_that_doubles_would_merge_are_refused_and_their_doubles_are_not(
    tmp_path: Path, kind: str
) -> None:
    table(tmp_path, kind, LOST[kind])
    with pytest.raises(
        InvalidPlan, match=r'expected release "sum": weights whose differences a double keeps'
    ):
        weights_of(tmp_path, "SUM(x * w)")
    own = sorted({float(Fraction(weight)) for weight in LOST[kind]})
    assert weights_of(tmp_path, "SUM(x * CAST(w AS DOUBLE))") == own


def test_a_factor_on_all_rows_needs_no_digits(tmp_path: Path) -> None:
    table(tmp_path, "DECIMAL(38, 12)", ["0.333333333333", "0.333333333333"])
    assert weights_of(tmp_path, "SUM(x * w)") == [0.333333333333]
    assert weights_of(tmp_path, "SUM(x / 3)") == pytest.approx([1 / 3], rel=1e-15)


def test_two_weights_beyond_doubles_no_longer_hide_behind_each_other(tmp_path: Path) -> None:
    """Two sums of the same two records with noise 1: with weights 2^53 and 2^53 + 1 they differ by the second
    record's value, so that it is known to about ± 1.4. Equal weights would leave it open.
    """
    table(tmp_path, "BIGINT", ["9007199254740992", "9007199254740993"])
    sql = {"counted": "SELECT SUM(x * w) FROM data", "other": "SELECT SUM(x * 9007199254740992) FROM data"}
    plan: dict[str, Any] = {
        "data": {"source": str(tmp_path / "t.duckdb"), "record": "id", "secret": "x", "bounds": [0, 1000]},
        "release": [{"name": n, "sql": text, "noise": {"stddev": 1.0}} for n, text in sql.items()],
        "limits": {"remaining_uncertainty": "50%"},
    }
    with pytest.raises(InvalidPlan, match="weights whose differences a double keeps"):
        sl.audit(plan)


def test_groups_of_long_decimals_have_names_of_their_own() -> None:
    assert key_text(Decimal("12345678901234.123456")) == "12345678901234.123456"
    assert key_text(Decimal("12345678901234.123457")) == "12345678901234.123457"
    assert [key_text(Decimal(text)) for text in ("2.00", "0.10", "9007199254740993")] == [
        "2",
        "0.1",
        "9007199254740993",
    ]
