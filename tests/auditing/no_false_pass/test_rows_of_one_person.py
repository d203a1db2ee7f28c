"""Rows of one person may have a level in common: a pass holds whether they do or not."""

from __future__ import annotations

import itertools
import math
import re

import numpy as np
import polars as pl
import pytest

import sightline as sl
from sightline.auditing.result import AuditResult, VerdictStatus
from sightline.errors import InvalidPlan
from sightline.report.first_screen import first_screen

HOMES, MONTHS, HOURS = 12, 6, 30  # hours of a month
NOISE = 25.0


def _hours(seed: int = 0) -> pl.DataFrame:
    """Homes that differ in their level, by the hour: a year is far from a sum of independent hours."""
    rng = np.random.default_rng(seed)
    level = rng.uniform(1.0, 9.0, HOMES)
    kwh = np.clip(level[:, None, None] + rng.normal(0, 0.5, (HOMES, MONTHS, HOURS)), 0, 10).round(6)
    home, month, hour = np.meshgrid(range(HOMES), range(MONTHS), range(HOURS), indexing="ij")
    columns = {"home": home.ravel(), "month": month.ravel(), "hour": hour.ravel(), "kwh": kwh.ravel()}
    return pl.DataFrame(columns)


def _plan(table: pl.DataFrame, hours: int, **data: object) -> dict[str, object]:
    """Monthly totals with and without one home, over a table whose rows are so many hours each."""
    rows = {"max_rows_per_record": MONTHS * HOURS // hours} if hours < MONTHS * HOURS else {}
    about = {"record": "home", "secret": "kwh", "bounds": [0, 10 * hours], **rows, **data}
    return {
        "data": {"source": table, **about},
        "limits": {"remaining_uncertainty": "50%", "accept": ["few_values"]},
        "release": [
            {
                "name": name,
                "sql": f"SELECT month, SUM(kwh) FROM data {where} GROUP BY month",
                "noise_stddev": NOISE,
            }
            for name, where in (("all", ""), ("without one", "WHERE home <> 7"))
        ],
    }


def _attack(table: pl.DataFrame, trials: int = 4000) -> tuple[float, float]:
    """The error of a simulated attack on the total of home 7, and how far the homes' totals are spread."""
    rng = np.random.default_rng(1)
    total = table.group_by("home").agg(pl.col("kwh").sum()).sort("home")["kwh"].to_numpy()
    month = table.group_by("home", "month").agg(pl.col("kwh").sum()).sort("home", "month")
    true = month["kwh"].to_numpy().reshape(HOMES, MONTHS)
    both = np.stack([true.sum(axis=0), true.sum(axis=0) - true[7]])
    seen = both + rng.normal(0, NOISE, (trials, *both.shape))
    guess = (seen[:, 0] - seen[:, 1]).sum(axis=1)
    return float(np.sqrt(np.mean((guess - total[7]) ** 2))), float(total.std())


def _screen(result: AuditResult) -> str:
    """The first screen as one line."""
    return " ".join(" ".join(line.plain for line in first_screen(result, 200)).split())


@pytest.fixture(scope="module")
def by_hour() -> AuditResult:
    """The audit of the hourly table, as a plan says nothing of its rows."""
    return sl.audit(_plan(_hours(), 1), names=True)


def test_a_year_that_an_attack_knows_does_not_pass(by_hour: AuditResult) -> None:
    error, spread = _attack(_hours())
    assert error**2 < 0.2 * spread**2  # the attack needs no prior, and leaves little of what homes differ by
    assert by_hour.verdict.status is VerdictStatus.FAILED
    assert by_hour.exposed[0].record == "7"
    assert by_hour.sharpest is not None
    total = by_hour.sharpest.total
    assert total is not None
    assert total.rows == MONTHS * HOURS
    assert total.before == pytest.approx(MONTHS * HOURS * 10 / math.sqrt(12))
    # The attack is unbiased: with the bounds it may know a little more, never less.
    assert total.after_upper <= error * 1.05
    assert total.after_lower > 0.8 * error


def test_the_screen_says_which_belief_decided(by_hour: AuditResult) -> None:
    assert [(one.name, one.holds) for one in by_hour.beliefs] == [("level", False), ("apart", True)]
    text = _screen(by_hour)
    assert re.search(
        r"Fails if the rows of a home are alike \(their total is then known to ± [\d.–]+, before to ± 520\); "
        r"holds if they have nothing in common\.",
        text,
    ), text
    assert "before ± 520 (a home's mean row may be anything from 0 to 10)" in text
    # The total of independent hours would be known to ± 38.7 before: nobody believes that.
    assert "38.7" not in text


@pytest.mark.parametrize("hours", [3, 10, 30])
def test_adding_rows_up_changes_no_level(hours: int, by_hour: AuditResult) -> None:
    """The same numbers over a table of totals of several hours have the same brackets, to eight digits."""
    table = _hours().with_columns(pl.col("hour") // hours)
    table = table.group_by("home", "month", "hour").agg(pl.col("kwh").sum()).drop("hour")
    result = sl.audit(_plan(table, hours))
    (fine,), (coarse,) = (
        [one.least_remaining_uncertainty for one in each.beliefs if one.name == "level"]
        for each in (by_hour, result)
    )
    assert fine is not None
    assert coarse is not None
    assert (coarse.lower, coarse.upper) == pytest.approx((fine.lower, fine.upper), rel=1e-8)
    assert result.verdict.status is by_hour.verdict.status


def test_rows_apart_are_an_assumption_by_name() -> None:
    plan = _plan(_hours(), 1, values="independent")
    result = sl.audit(plan)
    assert result.verdict.status is VerdictStatus.NOT_SHOWN
    assert [one.name.value for one in result.unverified if not one.accepted] == ["rows_apart"]
    plan["limits"]["accept"].append("rows_apart")  # type: ignore[index]
    assert sl.audit(plan).verdict.status is VerdictStatus.PASSED


def test_of_a_narrower_level_a_larger_share_remains_and_the_data_are_checked(by_hour: AuditResult) -> None:
    """What remains is a share of the level's own ±."""
    stated = sl.audit(_plan(_hours(), 1, level=[0.5, 9.5])).beliefs[0]
    assert stated.level == (0.5, 9.5)
    assert stated.total is not None
    assert stated.total.before == pytest.approx(MONTHS * HOURS * 9 / math.sqrt(12))
    wide = by_hour.beliefs[0].least_remaining_uncertainty
    assert wide is not None
    assert stated.least_remaining_uncertainty is not None
    assert stated.least_remaining_uncertainty.lower > wide.upper
    with pytest.raises(InvalidPlan, match="means of a record's rows from 4 to 6, got records whose mean"):
        sl.audit(_plan(_hours(), 1, level=[4, 6]))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ({"level": [0, 11]}, r"level = \[low, high\] within the bounds"),
        ({"level": [3, 3]}, r"level = \[low, high\] within the bounds"),
        ({"level": [1, 9], "values": "independent"}, r"level = \[low, high\] within the bounds"),
        ({"level": [1, 9], "max_rows_per_record": 1}, r"level = \[low, high\] within the bounds"),
    ],
)
def test_levels_that_go_with_no_plan_are_refused(data: dict[str, object], why: str) -> None:
    with pytest.raises(InvalidPlan, match=why):
        sl.audit(_plan(_hours(), 1, **data))


def test_a_level_goes_with_a_named_prior_alone() -> None:
    plan = _plan(_hours(), 1, level=[0.5, 9.5]) | {"attacker": {"values_within": 1.0}}
    with pytest.raises(InvalidPlan, match="level for a number whose prior is named"):
        sl.audit(plan)


def _levels(levels: np.ndarray, rows: int = 20) -> pl.DataFrame:
    """Homes whose rows are spread about a level each: totals are rows times the level."""
    rng = np.random.default_rng(2)
    apart = rng.uniform(-1.4, 1.4, (levels.size, rows))
    x = levels[:, None] + apart - apart.mean(axis=1, keepdims=True)
    home = np.repeat(np.arange(levels.size), rows)
    return pl.DataFrame({"home": home, "g": home // 3, "w": 1 + home % 3 / 10, "kwh": x.ravel()})


@pytest.mark.parametrize(
    ("levels", "noise", "few"),
    [
        (np.where(np.arange(12) % 2, 8.0, 2.0) + np.linspace(-0.005, 0.005, 12), 4.0, True),
        (np.arange(41, 149, 9) / 20, 0.05, True),  # totals of whole numbers
        (np.linspace(2.1, 7.9, 12), 4.0, False),
    ],
)
def test_levels_that_are_few_are_found_beneath_rows_that_are_not(
    levels: np.ndarray, noise: float, few: bool
) -> None:
    """Whoever knows how hours differ from a level reads it off a sum of three homes, if levels are few.

    The same is asked over a table of totals.
    """
    hours = _levels(np.random.default_rng(5).permutation(levels))
    totals = hours.group_by("home", "g", "w").agg(pl.col("kwh").sum().round(9)).sort("home")
    if few:
        possible = np.unique(totals["kwh"].round(0)) if noise < 1 else np.array([40.0, 160.0])
        sums = np.sort([np.dot(one, [1, 1.1, 1.2]) for one in itertools.product(possible, repeat=3)])
        assert np.diff(sums[np.append(True, np.diff(sums) > 1e-9)]).min() > 2 * noise  # which one it is
    for table, width in ((hours, 1), (totals, 20)):
        plan = _plan(table, width, max_rows_per_record=20)
        plan["limits"] = {"remaining_uncertainty": "30%", "accept": ["homogeneous"]}
        sums_of_three = "SELECT g, SUM(kwh * w) FROM data GROUP BY g"
        plan["release"] = [{"name": "r", "sql": sums_of_three, "noise_stddev": noise}]
        result = sl.audit(plan)
        asked = [one.name.value for one in result.unverified if not one.accepted]
        assert asked == ["few_values"] * few
        assert result.verdict.status is (VerdictStatus.NOT_SHOWN if few else VerdictStatus.PASSED)


@pytest.mark.parametrize("tells", [True, False])
def test_a_column_that_tells_totals_is_found_beneath_hours(tells: bool) -> None:
    """Each home has a number of its own, which is its year to a few per cent: few hours agree with it."""
    hours = _levels(np.random.default_rng(5).permutation(np.linspace(2.1, 7.9, 30)))
    year = hours.group_by("home", maintain_order=True).agg(pl.col("kwh").sum())["kwh"].to_numpy()
    told = (year if tells else np.random.default_rng(6).permutation(year)) + np.linspace(-1, 1, 30)
    plan = _plan(hours.with_columns(bill=pl.Series(np.repeat(told, 20))), 1, max_rows_per_record=20)
    plan["release"] = [
        {"name": "r", "sql": "SELECT SUM(kwh) FROM data WHERE bill > 50", "noise_stddev": 500.0}
    ]
    asked = [one.name.value for one in sl.audit(plan).unverified if not one.accepted]
    assert asked == ["explained"] * tells


def test_a_change_of_everyone_has_to_be_known_for_a_difference_in_time() -> None:
    """One home joins in the second month: two months differ by its level, and by what others changed."""
    table = _hours().filter((pl.col("home") != 7) | (pl.col("month") > 0))
    month = {"name": "all", "sql": "SELECT month, SUM(kwh) FROM data GROUP BY month", "noise_stddev": 1.0}
    without = {"name": "without", "sql": "SELECT SUM(kwh) FROM data WHERE home <> 3", "noise_stddev": 1.0}
    every = {"name": "every", "sql": "SELECT SUM(kwh) FROM data", "noise_stddev": 1.0}
    data = _plan(table, 1)["data"]
    joined = sl.audit(
        {"data": data, "limits": {"remaining_uncertainty": 0.5}, "release": [month]}, names=True
    )
    apart = sl.audit(
        {"data": data, "limits": {"remaining_uncertainty": 0.5}, "release": [every, without]}, names=True
    )
    assert (joined.exposed[0].record, joined.exposed[0].knows_changes) == ("7", True)
    assert (apart.exposed[0].record, apart.exposed[0].knows_changes) == ("3", False)
    assert "if it is known how the others changed" in _screen(joined)
    assert "if it is known how the others changed" not in _screen(apart)
