"""Totals of totals beside rows in one plan: read as sums of rows, as the same plan written out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import sightline as sl
from sightline.errors import InvalidPlan

TOTALS = "(SELECT id, g, SUM(x) AS total FROM data GROUP BY id, g)"


def visits() -> pd.DataFrame:
    random = np.random.default_rng(1)
    people = np.repeat([f"p{i}" for i in range(20)], 2)
    groups = np.repeat(random.choice(["a", "b"], 20), 2)
    months, values = np.tile([1, 2], 20), random.uniform(0, 100, 40).round(1)
    return pd.DataFrame({"id": people, "g": groups, "month": months, "x": values})


def audited(sql: str, table: pd.DataFrame | None = None) -> sl.AuditResult:
    source = visits() if table is None else table
    data = {"source": source, "record": "id", "secret": "x", "bounds": [0, 100], "max_rows_per_record": 2}
    by_month = "SELECT month, SUM(x) FROM data GROUP BY month"
    plan: dict[str, Any] = {
        "data": data,
        "limits": {"remaining_uncertainty": 0.5},
        "release": [
            {"name": "rows", "sql": by_month, "noise_stddev": 5.0},
            {"name": "totals", "sql": sql, "noise_stddev": 5.0},
        ],
    }
    return sl.audit(plan, verdict_only=True)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("nested", "rows"),
    [
        (
            "SELECT SUM(total) FROM (SELECT id, SUM(x) AS total FROM data GROUP BY id)",
            "SELECT SUM(x) FROM data",
        ),
        (f"SELECT g, SUM(total) FROM {TOTALS} GROUP BY g", "SELECT g, SUM(x) FROM data GROUP BY g"),
        (
            f"SELECT g, AVG(total), COUNT(*) FROM {TOTALS} AS t GROUP BY g ORDER BY g",
            "SELECT g, SUM(x) / COUNT(DISTINCT id) FROM data GROUP BY g",
        ),
        (f"SELECT SUM(total) FROM {TOTALS} WHERE g = 'a'", "SELECT SUM(x) FROM data WHERE g = 'a'"),
        (
            "WITH t AS (SELECT id, SUM(x) AS s FROM data WHERE month = 1 GROUP BY id) SELECT AVG(s) FROM t",
            "SELECT SUM(x) / COUNT(DISTINCT id) FROM data WHERE month = 1",
        ),
    ],
)
def test_they_are_sums_of_rows(nested: str, rows: str) -> None:
    found, expected = audited(nested), audited(rows)
    assert found.cells == expected.cells
    assert found.least_remaining_uncertainty == expected.least_remaining_uncertainty
    assert [one.remaining_uncertainty for one in found.exposed] == [
        one.remaining_uncertainty for one in expected.exposed
    ]
    assert found.verdict.status == expected.verdict.status


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT SUM(LEAST(total, 50)) FROM (SELECT id, SUM(x) AS total FROM data GROUP BY id)",
        "SELECT COUNT(*) FROM (SELECT id, SUM(x) AS total FROM data GROUP BY id) WHERE total > 50",
        "SELECT MAX(total) FROM (SELECT id, SUM(x) AS total FROM data GROUP BY id)",
        "SELECT SUM(mean) FROM (SELECT id, AVG(x) AS mean FROM data GROUP BY id)",
        "SELECT AVG(total) FROM (SELECT id, month, SUM(x) AS total FROM data GROUP BY id, month)",
        "SELECT total, COUNT(*) FROM (SELECT id, SUM(x) AS total FROM data GROUP BY id) GROUP BY total",
        "SELECT SUM(total) FROM (SELECT id, SUM(DISTINCT x) AS total FROM data GROUP BY id)",
    ],
)
def test_what_is_no_sum_of_rows_is_still_refused(sql: str) -> None:
    with pytest.raises(InvalidPlan):
        audited(sql)


def test_a_mean_of_totals_that_are_missing_is_another_number() -> None:
    """AVG leaves people without a value out, and COUNT(DISTINCT id) does not: the engine says so."""
    table = visits()
    table.loc[table.id == "p3", "x"] = np.nan
    with pytest.raises(InvalidPlan):
        audited("SELECT AVG(total) FROM (SELECT id, SUM(x) AS total FROM data GROUP BY id)", table)
