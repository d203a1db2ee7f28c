"""Ordinary tables of counts and means at epsilon = 1 pass: no alarm where the noise keeps the limit.

At epsilon = 1 the odds of two values of one person move by e at most, so that an even yes or no keeps at
least 4e/(1 + e)², 79 %, of its variance. The noise here is Gaussian, and larger than that takes.
"""

from __future__ import annotations

import math
from typing import Any

import pytest

import sightline as sl
from sightline.auditing.result import VerdictStatus
from tools.rooms import ROOT

EXAMPLES = ROOT / "src" / "sightline" / "examples"


def _by(aggregate: str, *groups: str) -> list[dict[str, Any]]:
    """One release for each list of public columns."""
    return [
        {"name": f"by {by}", "sql": f"SELECT {by}, {aggregate} AS n FROM data GROUP BY {by}"} for by in groups
    ]


TABLES: dict[str, tuple[dict[str, Any], list[dict[str, Any]], list[str]]] = {
    "census: mean income": (
        {"source": "census/people.csv", "record": "person", "secret": "income", "bounds": [0, 200_000]},
        _by("AVG(income)", "area", "area, age_group", "area, age_group, sex"),
        [],
    ),
    "salaries: mean salary": (
        {"source": "salaries/salaries.csv", "record": "employee", "secret": "salary", "bounds": [0, 200_000]},
        _by("AVG(salary)", "department", "level"),
        [],
    ),
    "health survey: smokers": (
        {
            "source": "health_survey/people.parquet",
            "record": "person",
            "secret": "has_smoked",
            "kind": "boolean",
        },
        _by("COUNT(*) FILTER (WHERE has_smoked)", "gender", "origin", "gender, origin, education"),
        [],
    ),
    "health survey: mean body mass": (
        {"source": "health_survey/people.parquet", "record": "person", "secret": "bmi", "bounds": [10, 70]},
        _by("AVG(bmi)", "gender", "origin, education"),
        ["dropped", "clipped"],  # 90 people have none, and 3 lie outside
    ),
    "discharges: diagnoses": (
        {
            "source": "discharges/discharges.csv",
            "record": "patient",
            "secret": "diagnosis",
            "categories": ["cancer", "heart", "infection", "injury", "lung"],
        },
        # A line for each diagnosis would be missing where nobody has it, which no noise hides.
        _by("COUNT(*) FILTER (WHERE diagnosis = 'heart')", "age_group", "month", "age_group, month"),
        [],
    ),
    "stays: days by ward": (
        {
            "source": "stays/stays.csv",
            "record": "patient",
            "secret": "days",
            "bounds": [0, 30],
            "max_rows_per_record": 5,
        },
        _by("SUM(days)", "ward", "quarter", "ward, quarter"),
        [],
    ),
}


@pytest.mark.parametrize("name", TABLES)
def test_an_ordinary_table_at_epsilon_one_raises_no_alarm(name: str) -> None:
    data, releases, accepted = TABLES[name]
    result = sl.audit(
        {
            "data": {**data, "source": str(EXAMPLES / str(data["source"]))},
            "privacy": {"epsilon": 1.0, "delta": 1e-6},
            "limits": {"remaining_uncertainty": 0.5, "accept": accepted},
            "release": releases,
        }
    )
    assert result.verdict.status is VerdictStatus.PASSED, result.verdict.text
    assert result.verdict.below_limit == 0
    assert [one.name.value for one in result.unverified if not one.accepted] == []
    least = result.least_remaining_uncertainty
    assert least is not None
    assert least.upper >= 4 * math.e / (1 + math.e) ** 2
