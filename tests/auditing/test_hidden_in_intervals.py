"""What remains of people behind rounded counts, against the posterior given every published value."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest

import sightline as sl
from sightline.noise.count_rules import CountRule, Rounding, binomial_chances
from tests.numbered_cases import trials


def least(table: Any, *releases: dict[str, Any], yes: float = 0.5) -> float:
    result = sl.audit(
        {
            "data": {"source": table, "record": "id", "secret": "ill", "kind": "boolean"},
            "attacker": {"prior": {"yes": yes}} if yes != 0.5 else {},
            "limits": {"remaining_uncertainty": 0.5},
            "release": [{"name": f"r{place}", **one} for place, one in enumerate(releases)],
        }
    )
    assert result.least_remaining_uncertainty is not None
    return result.least_remaining_uncertainty.lower


def people(number: int, groups: int = 1) -> Any:
    ill = np.arange(number) % 3 == 0
    return pd.DataFrame({"id": np.arange(number), "g": np.arange(number) % groups, "ill": ill})


def left_by_one_count(rule: CountRule, number: int, yes: float) -> float:
    """By the posterior of one person, given what the count of all is published as."""
    chances = binomial_chances(number, yes)
    published = np.nan_to_num(rule.published(np.arange(number + 1.0)), nan=-1.0)
    left = 0.0
    for value in np.unique(published):
        own = published == value
        total = float(chances[own].sum())
        mean = float(chances[own] @ np.arange(number + 1)[own]) / number / total
        left += total * mean * (1 - mean)
    return left / (yes * (1 - yes))


@pytest.mark.parametrize("number", [3, 8, 40])
@pytest.mark.parametrize("yes", [0.5, 0.1])
@pytest.mark.parametrize(("to", "below"), [(5, 0), (10, 0), (1, 6), (3, 4)])
def test_one_rounded_count_leaves_at_least_that(number: int, yes: float, to: int, below: int) -> None:
    release: dict[str, Any] = {"sql": "SELECT COUNT(*) FILTER (WHERE ill) AS n FROM data"}
    release |= {"noise": {"law": "rounding", "to": to} if to > 1 else {"law": "none"}}
    release |= {"suppress_below": below} if below else {}
    rule = CountRule(to=to, below=below)
    found, truth = least(people(number), release, yes=yes), left_by_one_count(rule, number, yes)
    assert 1 - 1 / number - 1e-9 <= found <= truth + 1e-12


def test_people_in_several_rounded_counts_keep_more_than_exact_counts_leave() -> None:
    # Nobody is alike: each of 60 people is in a total and in two tables, which tell exact counts everything.
    table = people(60).assign(a=np.arange(60) % 6, b=np.arange(60) // 6)
    sql = "SELECT {0}, COUNT(*) FILTER (WHERE ill) AS n FROM data GROUP BY {0}"
    rounded = [{"sql": sql.format(key), "noise": {"law": "rounding", "to": 20}} for key in ("a", "b")]
    exact = [{"sql": sql.format(key), "noise": {"law": "none"}} for key in ("a", "b")]
    # Groups of 10 and 6 people: only a step from 9 to 10 tells somebody in the first, and none in the second.
    assert 0.99 < least(table, *rounded) < 1
    assert least(table, *exact) < 0.9


@pytest.mark.parametrize("case", trials(24))
def test_a_chance_of_a_cut_is_that_of_enumeration(case: int) -> None:
    rng = np.random.default_rng([45, case])
    how = (Rounding.NEAREST, Rounding.UP, Rounding.DOWN)[case % 3]
    rule = CountRule(to=int(rng.integers(1, 6)), how=how, below=int(rng.integers(0, 5)))
    number = int(rng.integers(2, 10))
    together, share = int(rng.integers(1, number + 1)), float(rng.choice([0.2, 0.5, 0.7]))
    chance = 0.0
    for world in product([0, 1], repeat=number - together):
        values = {next(iter(rule.line(sum(world) + yes))) for yes in range(together + 1)}
        ones = sum(world)
        chance += (len(values) > 1) * share**ones * (1 - share) ** (number - together - ones)
    found = rule.chance_of_a_cut(number, together=together, share=share)
    assert chance <= found <= chance + 1e-7
    assert math.fsum(binomial_chances(number, share).tolist()) == pytest.approx(1, abs=1e-12)


def test_chance_and_within_always_tell_apart() -> None:
    for rule in (CountRule(to=5, how=Rounding.RANDOM), CountRule(within=2.0), CountRule()):
        assert rule.chance_of_a_cut(50, together=1, share=0.5) == 1.0
