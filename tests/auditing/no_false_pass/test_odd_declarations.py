"""Values that are few in disguise, categories that never occur, and what is declared unlike the table."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.stats import norm

import sightline as sl
from sightline.auditing.result import VerdictStatus
from sightline.report.wording import limit_line
from sightline.tables.occurring import clusters


def _plan(values: Any, noise: float, data: dict[str, object], sql: str | None = None) -> dict[str, Any]:
    table = pl.DataFrame({"person": np.arange(len(values)), "x": values})
    table = table.with_columns(w=pl.when(pl.col("person") == 0).then(1).otherwise(22))
    return {
        "data": {"source": table, "record": "person", "secret": "x", **data},
        "limits": {"remaining_uncertainty": 0.5},
        "release": [{"name": "r", "sql": sql or "SELECT SUM(x) FROM data", "noise_stddev": noise}],
    }


def _names(result: sl.AuditResult) -> set[str]:
    return {one.name.value for one in result.unverified}


def _left_of_first(support: np.ndarray, weights: np.ndarray, noise: float) -> float:
    """The exact risk over the variance about the first of some people, each even over ``support``."""
    worlds = np.array(list(itertools.product(support, repeat=weights.size)))
    sums = worlds @ weights
    step = noise / 4
    answers = np.arange(sums.min() - 8 * noise, sums.max() + 8 * noise, step)
    first, total = np.zeros(answers.size), np.zeros(answers.size)
    for value, one in zip(worlds[:, 0], sums, strict=True):
        density = norm.pdf(answers, one, noise)
        first += value * density
        total += density
    mean = first**2 / np.maximum(total, 1e-300)
    second = float(np.mean(worlds[:, 0] ** 2))
    return (second - float(mean.sum()) * step / len(worlds)) / float(np.var(support))


def test_six_values_in_nine_rows_are_few() -> None:
    """Two people of nine whose values are from a short list: a weighted sum tells both."""
    support = np.array([0.0, 1.1, 2.3, 4.9, 7.7, 10.0])
    assert _left_of_first(support, np.array([1.0, 22.0]), 0.2) < 0.05
    values = support[[0, 0, 1, 1, 2, 2, 3, 4, 5]]
    sql = "SELECT SUM(x * w) FROM data WHERE person <= 1"
    result = sl.audit(_plan(values, 0.2, {"bounds": [0, 10]}, sql))
    assert result.verdict.status is not VerdictStatus.PASSED
    assert "few_values" in _names(result)


def test_whole_numbers_are_few_where_the_noise_tells_one_from_the_next() -> None:
    """x + 22 y with noise 0.0005 tells both of two whole numbers up to 21."""
    assert _left_of_first(np.arange(22.0), np.array([1.0, 22.0]), 0.05) < 1e-6
    values = np.random.default_rng(0).permutation(np.arange(22))[:12].astype(float)
    sql = "SELECT SUM(x * w) FROM data WHERE person <= 1"
    result = sl.audit(_plan(values, 0.0005, {"bounds": [0, 21]}, sql))
    assert "few_values" in _names(result)
    assert result.verdict.status is not VerdictStatus.PASSED
    # With noise of many steps nothing can be rounded.
    wide = sl.audit(_plan(values, 100.0, {"bounds": [0, 21]}, sql))
    assert "few_values" not in _names(wide)


def test_two_clusters_are_a_yes_or_no() -> None:
    """On or off, each with some scatter: evenly spread values would hide in a pair, these do not."""
    rng = np.random.default_rng(1)
    values = np.where(np.arange(60) % 2, 9.9, 0.1) + rng.uniform(-0.1, 0.1, 60)
    assert _left_of_first(np.array([0.05, 0.15, 9.85, 9.95]), np.array([1.0, 1.7]), 0.4) < 0.05
    plan = _plan(
        values,
        0.4,
        {"bounds": [0, 10]},
        "SELECT SUM(x * (1 + 0.7 * (person % 2))) FROM data WHERE person <= 1",
    )
    result = sl.audit(plan)
    (told,) = (one for one in result.unverified if one.name.value == "few_values")
    assert told.count == 2
    spread = sl.audit(
        {
            **plan,
            "data": {
                **plan["data"],
                "source": plan["data"]["source"].with_columns(x=pl.Series(rng.uniform(0, 10, 60))),
            },
        }
    )
    assert "few_values" not in _names(spread)


@pytest.mark.parametrize(("people", "scatter"), [(4, 0.005), (5, 0.05), (6, 0.1)])
def test_two_clusters_of_few_people_are_a_yes_or_no(people: int, scatter: float) -> None:
    """Homes that heat or do not: one sum of three of them tells which, where spread values keep 60 %."""
    rng = np.random.default_rng(people)
    values = np.where(np.arange(people) % 2, 19.5, 0.5) + rng.uniform(-scatter, scatter, people)
    ends = np.array([0.5 - scatter, 0.5 + scatter, 19.5 - scatter, 19.5 + scatter])
    assert _left_of_first(ends, np.array([1.0, 1.1, 1.2]), 0.1) < 0.05
    sql = "SELECT SUM(x * (1 + 0.1 * person)) FROM data WHERE person <= 2"
    result = sl.audit(_plan(values, 0.1, {"bounds": [0, 20]}, sql))
    assert "few_values" in _names(result)
    assert result.verdict.status is VerdictStatus.NOT_SHOWN
    spread = np.linspace(0.3, 19.7, people) + rng.uniform(-1, 1, people) / people
    assert "few_values" not in _names(sl.audit(_plan(spread, 0.1, {"bounds": [0, 20]}, sql)))


def test_few_values_are_audited_as_what_they_are() -> None:
    """Whole hours, each person's own published: E d² e^(-S d²/4) / E d², and the exact risk above it."""
    values = np.tile(np.arange(0.0, 8.0), 8)
    for noise in (3.0, 4.5):
        plan = _plan(values, noise, {"bounds": [0, 8]}, "SELECT person, SUM(x) FROM data GROUP BY person")
        apart = (values[:, None] - values) ** 2
        kept = float(np.sum(apart * np.exp(-apart / noise**2 / 4)) / np.sum(apart))
        exact = _left_of_first(np.arange(0.0, 8.0), np.ones(1), noise)
        assert kept <= exact
        guaranteed = math.exp(-((8 / noise) ** 2) / 4)
        assert guaranteed < 0.5
        found = "few_values" in _names(sl.audit(plan))
        assert found is (kept < 0.5)


def test_categories_that_never_occur_do_not_help() -> None:
    """Of 2 categories with even chances 38 % remains; eighteen more that nobody has would make it 78 %."""
    ill = ["flu" if number % 2 else "well" for number in range(40)]
    sql = "SELECT COUNT(*) FILTER (WHERE x = 'flu') FROM data WHERE person = 3"
    truth = _left_of_first(np.array([0.0, 1.0]), np.ones(1), 0.45)
    assert truth < 0.5
    both = sl.audit(_plan(ill, 0.45, {"categories": ["flu", "well"]}, sql))
    assert both.verdict.status is VerdictStatus.FAILED
    many = [f"never {number}" for number in range(18)]
    padded = sl.audit(_plan(ill, 0.45, {"categories": ["flu", "well", *many]}, sql))
    assert padded.verdict.status is not VerdictStatus.PASSED
    assert padded.looks_odd is not None
    assert any("18 declared categories occur in no row" in line for line in padded.looks_odd)
    assert padded.publishable().looks_odd is None
    wide = sl.audit(_plan(ill, 5.0, {"categories": ["flu", "well", *many]}, sql))
    assert wide.verdict.passed


def test_bounds_far_beyond_the_values_and_keys_of_rows_are_said_aloud() -> None:
    plan = _plan(np.linspace(0, 10, 40), 500.0, {"bounds": [0, 1000]})
    table = plan["data"]["source"].with_columns(customer=pl.int_range(pl.len()) // 2)
    result = sl.audit({**plan, "data": {**plan["data"], "source": table}})
    assert result.looks_odd is not None
    assert any("The values fill 1 % of the bounds" in line for line in result.looks_odd)
    assert any('"customer" repeats' in line for line in result.looks_odd)
    plain = sl.audit(_plan(np.linspace(0, 10, 40), 50.0, {"bounds": [0, 10]}))
    assert plain.looks_odd == ()


def test_whoever_is_known_is_not_counted_among_those_who_keep() -> None:
    plan = _plan(np.linspace(0, 10, 31), 30.0, {"bounds": [0, 10]})
    plan["attacker"] = {"knows": ["person = 4"]}
    result = sl.audit(plan)
    assert result.verdict.passed
    assert (result.records, result.verdict.judged) == (31, 30)
    assert "30 people whose x is not known beforehand" in limit_line(result)


@pytest.mark.parametrize("memory", [None, 40_000_000])
def test_a_plan_without_rows_is_refused(memory: int | None) -> None:
    plan = _plan(np.linspace(0, 10, 31), 30.0, {"bounds": [0, 10]}, "SELECT SUM(x) FROM data WHERE w > 99")
    plan["limits"]["accept"] = ["empty"]
    with pytest.raises(sl.errors.InvalidPlan, match="expected a release that aggregates rows, got none"):
        sl.audit(plan, max_memory=memory)


@pytest.mark.slow
@pytest.mark.parametrize("people", [6, 7, 40])
def test_two_wide_clusters_are_audited_as_what_they_are(people: int) -> None:
    """Each a tenth of the range: half of evenly spread values remains, and a fifth to whoever knows them."""
    rng = np.random.default_rng(people)
    values = np.where(np.arange(people) % 2, 18.0, 0.0) + rng.uniform(0, 2, people)
    support = np.concatenate([np.linspace(0, 2, 9), np.linspace(18, 20, 9)])
    own = "SELECT person, SUM(x) FROM data GROUP BY person"
    for noise in (6.0, 9.0, 20.0):
        left = _left_of_first(support, np.ones(1), noise)
        plan = _plan(values, noise, {"bounds": [0, 20]}, own)
        plan["limits"]["remaining_uncertainty"] = 0.4
        result = sl.audit(plan)
        asked = [one for one in result.unverified if one.name.value == "few_values"]
        if left < 0.4:
            assert result.verdict.status is VerdictStatus.NOT_SHOWN
            assert asked[0].count >= 2
            held = "2 clusters hold all that x takes in the table" in result.verdict.text
            assert held is (people < 40)  # of many people narrow ones are looked for first
        if noise == 20.0:
            assert left > 0.6
            assert result.verdict.passed
        spread = sl.audit({**plan, "data": {**plan["data"], "source": _spread_out(plan, rng)}})
        assert "few_values" not in _names(spread)


def _spread_out(plan: dict[str, Any], rng: np.random.Generator) -> pl.DataFrame:
    """The same people with values all over the bounds."""
    table: pl.DataFrame = plan["data"]["source"]
    even = np.linspace(0.3, 19.7, len(table)) + rng.uniform(-0.2, 0.2, len(table))
    return table.with_columns(x=pl.Series(rng.permutation(even)))


def test_few_tables_without_clusters_look_as_if_they_had_some() -> None:
    """Of tables with even values one in a hundred; of two clusters of a tenth nearly all from six rows on."""
    rng = np.random.default_rng(5)

    def seen(values: np.ndarray) -> bool:
        ends = values.min(), values.max()
        place = np.minimum((values - ends[0]) / ((ends[1] - ends[0]) / 200), 199).astype(int)
        bins = [values[place == one] for one in np.unique(place)]
        low, high, counts = np.array([(one.min(), one.max(), one.size) for one in bins]).T
        return bool(clusters(low, high, counts.astype(np.intp)))

    for people in (4, 6, 10, 30):
        even = [seen(rng.uniform(0, 1, people)) for _ in range(300)]
        two = [seen(np.arange(people) % 2 * 9 + rng.uniform(0, 1, people)) for _ in range(100)]
        assert np.mean(even) <= 0.03
        assert np.mean(two) >= (0.98 if people >= 6 else 0.3)
