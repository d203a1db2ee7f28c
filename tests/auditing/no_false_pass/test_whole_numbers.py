"""Whole numbers of few people: noise that hides every fraction does not hide which whole number it is."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import sightline as sl
from sightline.auditing.plan_fields import Population
from sightline.auditing.reading import plan_of_text
from sightline.auditing.result import VerdictStatus
from sightline.errors import InvalidPlan

PRICES = np.array([1.25, 3.1, 7.75])
NOISE = 0.0005


def _orders(*quantities: float) -> pl.DataFrame:
    return pl.DataFrame(
        {"who": range(len(quantities)), "quantity": quantities, "price": PRICES[: len(quantities)]}
    )


def _plan(table: pl.DataFrame, noise: float = NOISE, **attacker: object) -> dict[str, object]:
    return {
        "data": {
            "source": table,
            "record": "who",
            "secret": "quantity",
            "bounds": [0, 21],
            "public": ["price"],
        },
        "attacker": attacker,
        "limits": {"remaining_uncertainty": "50%"},
        "release": [
            {"name": "turnover", "sql": "SELECT SUM(quantity * price) FROM data", "noise_stddev": noise}
        ],
    }


def test_the_attack_that_passed() -> None:
    """Of all whole quantities, those with the published turnover: most of what each may be is gone."""
    worlds = np.array(list(itertools.product(range(22), repeat=3)), dtype=np.float64)
    sums = (worlds @ PRICES).round(6)
    left = np.zeros(3)
    for value, count in zip(*np.unique(sums, return_counts=True), strict=True):
        left += count / len(worlds) * worlds[sums == value].var(axis=0)
    assert float(min(left / worlds.var(axis=0))) < 0.2


@pytest.mark.parametrize("quantities", [(3, 20, 7), (10, 20, 10), (3.0, 11.0), (7,)])
def test_whole_numbers_of_few_people_are_asked_about(quantities: tuple[float, ...]) -> None:
    result = sl.audit(_plan(_orders(*quantities)))
    assert result.verdict.status is not VerdictStatus.PASSED
    asked = [one.name.value for one in result.unverified if not one.accepted]
    assert "few_values" in asked or result.verdict.status is VerdictStatus.FAILED


def test_numbers_with_many_digits_are_not_taken_for_whole_ones() -> None:
    result = sl.audit(_plan(_orders(3.14159265, 20.71828182, 7.5772156649)))
    assert "few_values" not in [one.name.value for one in result.unverified]


GRADES = [1.0, 1.3, 1.7, 2.0, 2.3, 2.7, 3.0]


def _grades(**attacker: object) -> sl.AuditResult:
    """Grades in thirds, of sixty people in three groups."""
    table = pl.DataFrame(
        {"who": range(60), "x": [GRADES[7 * i % 5] for i in range(60)], "g": [i % 3 for i in range(60)]}
    )
    return sl.audit(
        {
            "data": {"source": table, "record": "who", "secret": "x", "bounds": [1, 5]},
            "attacker": attacker,
            "limits": {"remaining_uncertainty": "50%"},
            "release": [{"name": "r", "sql": "SELECT g, SUM(x) FROM data GROUP BY g", "noise_stddev": 0.5}],
        }
    )


def _asked(result: sl.AuditResult) -> list[str]:
    return [one.name.value for one in result.unverified]


def test_values_that_the_plan_lists_are_not_asked_about_again(tmp_path: Path) -> None:
    """As a population of points, or as points: what remains is an average over them."""
    (tmp_path / "grades.csv").write_text("low,high,weight\n" + "".join(f"{p},{p},1\n" for p in GRADES))
    assert "few_values" in _asked(_grades())
    by_file, by_points = _grades(prior=str(tmp_path / "grades.csv")), _grades(prior={"points": GRADES})
    for stated in (by_file, by_points):
        assert "few_values" not in _asked(stated)
    assert by_points.least_remaining_uncertainty == by_file.least_remaining_uncertainty
    assert 'prior = { "points" = [1.0, 1.3' in by_points.plan
    again = plan_of_text(by_points.plan, "plan.toml")
    assert again.attacker.prior == Population.of_points(GRADES)


def test_values_that_are_not_those_of_the_plan_are_asked_about() -> None:
    """Whoever lists others than occur is asked as if none were listed."""
    assert "few_values" in _asked(_grades(prior={"points": [1.0, 2.0, 3.0, 4.0, 5.0]}))


@pytest.mark.parametrize(
    ("points", "why"),
    [
        ([1.0], "2 to 1,000 different numbers"),
        ([1.0, 1.0], "different numbers"),
        ([1.0, "2"], "different numbers"),
        ("1, 2", "different numbers"),
        ([0.5, 2.0], "points from 1 to 5, as the bounds are"),
    ],
)
def test_points_that_go_with_no_plan_are_refused(points: object, why: str) -> None:
    with pytest.raises(InvalidPlan, match=why):
        _grades(prior={"points": points})
