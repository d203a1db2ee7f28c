"""PIVOT is read as GROUP BY: the same audit as of the groups written out, and the engine's own answer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import sightline as sl
from sightline.errors import InvalidPlan

BY_OLD = (
    "SELECT old, SUM(x) FILTER (WHERE town = 'a'), SUM(x) FILTER (WHERE town = 'b') FROM data GROUP BY old"
)


def people() -> pd.DataFrame:
    random = np.random.default_rng(3)
    return pd.DataFrame(
        {
            "id": [f"p{i}" for i in range(40)],
            "town": random.choice(["a", "b", "c"], 40),
            "old": random.choice([True, False], 40),
            "x": random.uniform(0, 100, 40).round(1),
        }
    )


def audited(sql: str) -> sl.AuditResult:
    plan: dict[str, Any] = {
        "data": {"source": people(), "record": "id", "secret": "x", "bounds": [0, 100]},
        "limits": {"remaining_uncertainty": 0.5},
        "release": [{"name": "one", "sql": sql, "noise_stddev": 5.0}],
    }
    return sl.audit(plan, verdict_only=True)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("pivot", "groups"),
    [
        (
            "SELECT * FROM data PIVOT (SUM(x) FOR town IN ('a', 'b') GROUP BY old)",
            BY_OLD,
        ),
        (
            "SELECT * FROM (SELECT town, x FROM data) PIVOT (AVG(x) FOR town IN ('a', 'b', 'c'))",
            "SELECT AVG(x) FILTER (WHERE town = 'a'), AVG(x) FILTER (WHERE town = 'b'), "
            "AVG(x) FILTER (WHERE town = 'c') FROM data",
        ),
        (
            "SELECT * FROM (SELECT town, old, x FROM data WHERE id <> 'p3') "
            "PIVOT (SUM(x) AS s FOR town IN ('a' AS first, 'b')) ORDER BY old",
            "SELECT old, SUM(x) FILTER (WHERE town = 'a'), SUM(x) FILTER (WHERE town = 'b') FROM data "
            "WHERE id <> 'p3' GROUP BY old",
        ),
        (
            "SELECT * FROM data PIVOT (SUM(x), COUNT(*) FOR town IN ('a', 'b') GROUP BY old)",
            BY_OLD,
        ),
        (
            "PIVOT data ON town USING SUM(x) GROUP BY old",
            "SELECT old, town, SUM(x) FROM data GROUP BY old, town",
        ),
        (
            "FROM (PIVOT data ON town IN ('a', 'b') USING AVG(x) AS mean, COUNT(*)) ORDER BY old",
            "SELECT id, old, AVG(x), COUNT(*) FROM data WHERE town IN ('a', 'b') GROUP BY id, old, town",
        ),
    ],
    ids=["group by", "subquery", "columns that are left", "two aggregates", "on", "on listed values"],
)
def test_a_pivot_is_its_groups(pivot: str, groups: str) -> None:
    found, expected = audited(pivot), audited(groups)
    assert found.cells == expected.cells > 1
    assert found.least_remaining_uncertainty == expected.least_remaining_uncertainty
    assert found.identifiable_records == expected.identifiable_records
    assert [one.remaining_uncertainty for one in found.exposed] == [
        one.remaining_uncertainty for one in expected.exposed
    ]
    assert found.verdict.status == expected.verdict.status


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT old FROM data PIVOT (SUM(x) FOR town IN ('a') GROUP BY old)", "expected SELECT \\* FROM"),
        ("SELECT * FROM (SELECT * FROM data) PIVOT (SUM(x) FOR town IN ('a'))", "columns by name"),
        ("SELECT * FROM data PIVOT (MAX(x) FOR town IN ('a') GROUP BY old)", "MAX"),
        ("SELECT * FROM data PIVOT (SUM(x) FOR x IN (1, 2) GROUP BY old)", "expected"),
        (
            "SELECT * FROM data PIVOT (SUM(x) FOR town IN ('a') GROUP BY old) WHERE old",
            "expected SELECT \\* FROM",
        ),
        ("SELECT old FROM (PIVOT data ON town USING SUM(x) GROUP BY old)", "expected SELECT \\* FROM"),
        ("SELECT * FROM (PIVOT data ON town USING SUM(x)) LIMIT 2", "expected SELECT \\* FROM"),
        ("PIVOT data ON town USING MAX(x) GROUP BY old", "MAX"),
        ("UNPIVOT data ON x", "a SELECT statement"),
    ],
)
def test_other_pivots_are_refused_with_what_to_write(sql: str, message: str) -> None:
    with pytest.raises(InvalidPlan, match=message):
        audited(sql)
