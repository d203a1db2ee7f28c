"""Noise for a series: twelve months of one plan under one budget, beside the plan of a year's table."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

import sightline as sl
from sightline.errors import InvalidInput, InvalidPlan
from sightline.report.design import lines
from tests.advising.tables import NUMBER, write_table

PERIODS = 3
GROUPS = {"town": "town", "town and job": "town, job"}


def month(table: Path, **publish: Any) -> dict[str, Any]:
    """The plan of one month, with the total by job computed from the fit."""
    measured = [
        {"name": name, "sql": f"SELECT {by}, SUM(hours) AS s FROM data GROUP BY {by}"}
        for name, by in GROUPS.items()
    ]
    total = {"name": "job", "sql": "SELECT job, SUM(hours) AS s FROM data GROUP BY job", "derived": True}
    return {
        "data": {"source": str(table), "record": "id", "public": ["town", "job"], **NUMBER},
        "privacy": {"epsilon": 3.0, "delta": 1e-6},
        "limits": {"remaining_uncertainty": 0.01, "accept": ["homogeneous", "rows_apart"]},
        "publish": {"consistent": True, **publish},
        "release": [*measured, total],
    }


def year(table: Path) -> dict[str, Any]:
    """The same of a table with a row for every month: a person has a value of each month."""
    header, *rows = table.read_text().splitlines()
    made = [f"{header},month", *(f"{row},{place}" for place in range(PERIODS) for row in rows)]
    (table.parent / "year.csv").write_text("\n".join(made) + "\n")
    plan = month(table.parent / "year.csv")
    plan["data"] |= {"max_rows_per_record": PERIODS, "public": ["town", "job", "month"]}
    plan["privacy"]["sensitivity"] = "memberships"
    for release in plan["release"]:
        if not release.get("derived"):
            by = GROUPS[release["name"]]
            release["sql"] = f"SELECT month, {by}, SUM(hours) AS s FROM data GROUP BY month, {by}"
    return plan


@pytest.mark.slow
def test_a_series_is_the_plan_of_all_its_months_with_their_total_derived(tmp_path: Path) -> None:
    table = write_table(tmp_path, people=25)
    found = sl.design(month(table), series=PERIODS, loss="variance")
    whole = sl.design(year(table), loss="variance")
    assert found.passed
    assert whole.passed
    assert found.loss_designed == pytest.approx(whole.loss_designed, rel=2e-3)
    assert found.loss_designed < found.loss_before
    noise = {(one.release, one.cell): one.stddev for one in found.noise}
    for one in whole.noise:
        assert one.stddev == pytest.approx(noise[one.release, one.cell.partition(", ")[2]], rel=0.05)
    assert found.budget is not None
    assert found.budget.everyone  # who is priced for: any person, with one row in each month
    assert found.budget.epsilon_spent == pytest.approx(3.0)
    printed = "\n".join(lines(found))
    assert "A series of 3 periods, each with this noise" in printed
    assert "of its total over the 3 periods, which is derived: ± " in printed
    assert "The budget of all 3 periods under gaussian-dp, for every conceivable person: " in printed
    audit = sl.audit(tomllib.loads(found.plan))
    assert [one.times for one in audit.releases][:2] == [PERIODS, PERIODS]
    assert audit.verdict.passed


def test_one_period_is_the_plan_itself_and_the_noise_of_more_is_more(tmp_path: Path) -> None:
    plan = month(write_table(tmp_path, people=12), consistent=False)
    plan["release"].pop()
    one, same, twelve = sl.design(plan), sl.design(plan, series=1), sl.design(plan, series=12)
    assert one.plan == same.plan
    assert one.loss_designed == same.loss_designed
    # A budget by exact Gaussian accounting: twelve periods cost twelve times as much of μ².
    for few, many in zip(one.noise, twelve.noise, strict=True):
        assert many.stddev == pytest.approx(few.stddev * 12**0.5, rel=1e-4)


def test_a_series_of_what_is_out_and_of_no_period_is_refused(tmp_path: Path) -> None:
    plan = month(write_table(tmp_path, people=12))
    with pytest.raises(InvalidInput, match="expected series >= 1, got 0"):
        sl.design(plan, series=0)
    with pytest.raises(
        InvalidPlan, match="expected at most 100,000 publications of a release, got 1,000,000"
    ):
        sl.design(plan, series=1_000_000)
    plan["release"][0] |= {"noise_stddev": 2.0, "published": True}
    with pytest.raises(InvalidPlan, match="expected a series of releases that are not out yet, got 'town'"):
        sl.design(plan, series=2)
