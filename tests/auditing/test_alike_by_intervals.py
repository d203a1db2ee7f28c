"""Groups that are nearly all alike by rounded and blank counts: in differences, and in what others leave."""

from __future__ import annotations

from typing import Any

import pandas as pd  # type: ignore[import-untyped]
import pytest

import sightline as sl

TOTAL = "SELECT COUNT(*) FILTER (WHERE ill) AS n FROM data"
B = "SELECT COUNT(*) FILTER (WHERE ill) AS n FROM data WHERE ward = 'b'"
HALVES = "SELECT half, COUNT(*) FILTER (WHERE ill) AS n FROM data GROUP BY half"
EXACT = {"law": "none"}
TWOS, FIFTIES = ({"law": "rounding", "to": base} for base in (2, 50))


def audited(table: Any, data: dict[str, Any], *releases: tuple[str, dict[str, Any]]) -> sl.AuditResult:
    return sl.audit(
        {
            "data": {"source": table, "record": "id", **data},
            "limits": {"remaining_uncertainty": 0.1},
            "release": [
                {"name": f"r{place}", "sql": sql, "noise": noise}
                for place, (sql, noise) in enumerate(releases)
            ],
        }
    )


@pytest.mark.parametrize(
    ("releases", "text"),
    [
        # Without a rule, and with one for numbers that have nothing to do with it.
        (((TOTAL, EXACT), (B, EXACT)), '"r0" less "r1"'),
        (((TOTAL, EXACT), (B, EXACT), (HALVES, FIFTIES)), '"r0" − "r1" tells the values of 3,000 rows: 1 of'),
        (
            ((TOTAL, TWOS), (B, TWOS)),
            '"r0" − "r1" tells the values of 3,000 rows: 1 to 3 of them are counted',
        ),
    ],
)
def test_a_difference_in_which_one_of_three_thousand_is_ill_is_no_pass(
    releases: tuple[tuple[str, dict[str, Any]], ...], text: str
) -> None:
    table = pd.DataFrame(
        {
            "id": range(6000),
            "ward": ["a"] * 3000 + ["b"] * 3000,
            "half": ["odd", "even"] * 3000,
            "ill": [True] + [False] * 2999 + [True] * 1500 + [False] * 1500,
        }
    )
    data = {"secret": "ill", "kind": "boolean", "public": ["ward", "half"]}
    result = audited(table, data, *releases)
    assert result.verdict.status == "not shown"
    (cell,) = result.homogeneous
    assert text in cell.text
    assert cell.rows == 3000


def test_what_two_categories_leave_for_a_third_is_no_pass() -> None:
    table = pd.DataFrame({"id": range(6000), "held": ["flu"] * 3000 + ["cold"] * 2999 + ["none"]})
    data = {"secret": "held", "categories": ["flu", "cold", "none"]}
    releases = [(f"SELECT COUNT(*) FILTER (WHERE held = '{one}') FROM data", TWOS) for one in ("flu", "cold")]
    result = audited(table, data, *releases)
    assert result.verdict.status == "not shown"
    (cell,) = result.homogeneous
    assert (
        '"r1" and "r0" together tell the values of 6,000 rows: 0 to 2 of them are left for none' in cell.text
    )


def test_an_interval_that_leaves_enough_is_none() -> None:
    table = pd.DataFrame({"id": range(60), "ill": [True] * 20 + [False] * 40})
    result = audited(table, {"secret": "ill", "kind": "boolean"}, (TOTAL, TWOS))
    assert result.homogeneous == ()
    assert result.verdict.status == "passed"
