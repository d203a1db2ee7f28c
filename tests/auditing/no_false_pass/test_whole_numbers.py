"""Whole numbers of few people: noise that hides every fraction does not hide which whole number it is."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import sightline as sl
from sightline.auditing.result import VerdictStatus

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


def test_values_that_the_plan_lists_are_not_asked_about_again(tmp_path: Path) -> None:
    """Grades in thirds, as a population of points: what remains is an average over them."""
    points = [1.0, 1.3, 1.7, 2.0, 2.3, 2.7, 3.0]
    (tmp_path / "grades.csv").write_text("low,high,weight\n" + "".join(f"{p},{p},1\n" for p in points))
    table = pl.DataFrame(
        {"who": range(60), "x": [points[7 * i % 5] for i in range(60)], "g": [i % 3 for i in range(60)]}
    )
    plan = {
        "data": {"source": table, "record": "who", "secret": "x", "bounds": [1, 5]},
        "limits": {"remaining_uncertainty": "50%"},
        "release": [{"name": "r", "sql": "SELECT g, SUM(x) FROM data GROUP BY g", "noise_stddev": 0.5}],
    }
    asked = [one.name.value for one in sl.audit(plan).unverified]
    assert "few_values" in asked
    stated = sl.audit(plan | {"attacker": {"prior": str(tmp_path / "grades.csv")}})
    assert "few_values" not in [one.name.value for one in stated.unverified]
