"""Designs of plans with budgets over time, suppressed groups, bounded rows and attackers who know more."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sightline as sl

RELEASES = (
    {"name": "all", "sql": "SELECT SUM(x) FROM data"},
    {"name": "groups", "sql": "SELECT g, SUM(x) FROM data GROUP BY g"},
)


@pytest.fixture
def table(tmp_path: Path) -> str:
    """Two rows of each of 38 people, on two days: three groups of twelve people, and one of two."""
    path = tmp_path / "people.csv"
    x = np.random.default_rng(3).uniform(0, 10, (38, 2))
    rows = [f"{i},{'abcd'[i // 12]},{day},{x[i, day]:.4f}" for i in range(38) for day in range(2)]
    path.write_text("\n".join(["id,g,day,x", *rows]) + "\n")
    return str(path)


def plan_of(table: str, releases: tuple[dict[str, Any], ...], **sections: Any) -> dict[str, Any]:
    data = {"source": table, "record": "id", "secret": "x", "bounds": [0, 10]}
    first = "ROW_NUMBER() OVER (PARTITION BY id ORDER BY day)"
    data |= {"sql": f"SELECT * FROM source QUALIFY {first} = 1"} | sections.pop("data", {})
    return {"data": data, "release": list(releases), "limits": {"remaining_uncertainty": 0.9}, **sections}


@pytest.mark.slow
@pytest.mark.parametrize(
    "sections",
    [
        {"data": {"sql": "SELECT id, g, SUM(x) AS x FROM source GROUP BY id, g", "bounds": [0, 20]}},
        {"attacker": {"values_within": 2.0}, "accept": ["homogeneous"]},
        {"attacker": {"knows": ["30%"]}, "accept": ["drawn"]},
    ],
)
def test_the_designed_plan_is_bounded_suppressed_and_attacked_as_before(
    table: str, sections: dict[str, Any]
) -> None:
    """The two people of d are suppressed, and the total still tells their sum: it needs more noise."""
    releases = tuple({**one, "noise_stddev": 1.0} for one in RELEASES)
    suppressed = ({**releases[0]}, {**releases[1], "sql": f"{releases[1]['sql']} HAVING COUNT(*) >= 5"})
    accept = sections.pop("accept", [])
    plan = plan_of(table, suppressed, **sections)
    plan["limits"]["accept"] = accept
    assert sl.audit(plan).verdict.status == "failed"
    designed = tomllib.loads(sl.design(plan).plan)
    assert designed["release"][1]["sql"].endswith("HAVING COUNT(*) >= 5")
    found = sl.audit(designed)
    assert found.verdict.status == "passed"
    assert found.cells == 4
