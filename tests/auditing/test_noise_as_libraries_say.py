"""Noise as libraries say it: a scale, the name of a law alone, the number that is published, and zero."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sightline as sl
from sightline.errors import InvalidPlan

TABLE = pd.DataFrame(
    {
        "who": list("abcdefgh"),
        "g": list("xxxxyyyy"),
        "x": [1.5, 2, 3, 4, 5, 6, 7, 8],
        "ill": [True, False] * 4,
    }
)


BY_G = "SELECT g, SUM(x) FROM data GROUP BY g"


def audited(sql: str, *, secret: str = "x", **noise: Any) -> sl.AuditResult:
    domain: dict[str, Any] = {"bounds": [0, 10]} if secret == "x" else {"kind": "boolean"}
    data = {"source": TABLE, "record": "who", "secret": secret, **domain}
    return sl.audit({"data": data, "release": [{"name": "r", "sql": sql, **noise}]}, limit="50%", full=True)


@pytest.mark.parametrize("scale", [0.3, 2.0, 40.0])
def test_a_laplace_scale_is_its_deviation_over_root_two(scale: float) -> None:
    drawn = np.random.default_rng(1).laplace(scale=scale, size=400_000)
    (found,) = audited("SELECT AVG(x) FROM data", noise={"law": "laplace", "scale": scale}).releases
    assert found.largest_noise_stddev is not None
    assert math.isclose(found.largest_noise_stddev, scale * math.sqrt(2), rel_tol=1e-12)
    assert math.isclose(found.largest_noise_stddev, drawn.std(), rel_tol=0.01)


@pytest.mark.parametrize("scale", [0.7, 2.0, 40.0])
def test_a_geometric_scale_is_that_of_a_difference_of_geometric_numbers(scale: float) -> None:
    random, p = np.random.default_rng(2), 1 - math.exp(-1 / scale)
    drawn = random.geometric(p, 400_000) - random.geometric(p, 400_000)
    sql = "SELECT COUNT(*) FILTER (WHERE ill) FROM data"
    (found,) = audited(sql, secret="ill", noise={"law": "geometric", "scale": scale}).releases
    assert found.largest_noise_stddev is not None
    assert math.isclose(found.largest_noise_stddev, drawn.std(), rel_tol=0.01)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("sql", "noise", "same", "as_noise"),
    [
        ("SELECT 100 * AVG(x) FROM data", 5.0, "SELECT AVG(x) FROM data", 0.05),
        ("SELECT AVG(x) / 1000 FROM data", 0.05, "SELECT AVG(x) FROM data", 50.0),
        (
            "SELECT g, ROUND(-2.5 * SUM(x), 1) FROM data GROUP BY g",
            5.0,
            "SELECT g, SUM(x) FROM data GROUP BY g",
            2.0,
        ),
        ("SELECT 3 + SUM(x) * 2 / 4 FROM data", 2.0, "SELECT SUM(x) FROM data", 4.0),
    ],
)
def test_a_deviation_is_that_of_the_published_number(
    sql: str, noise: float, same: str, as_noise: float
) -> None:
    """c·a + N(0, s²) says what a + N(0, (s/c)²) says."""
    found, other = audited(sql, noise_stddev=noise), audited(same, noise_stddev=as_noise)
    for one, two in zip(found.exposed, other.exposed, strict=True):
        assert one.remaining_uncertainty == two.remaining_uncertainty
    assert found.distribution == other.distribution
    assert math.isclose(found.budget.spent["gaussian-dp"], other.budget.spent["gaussian-dp"], rel_tol=1e-9)
    assert not any(one.name.value == "noise_first" for one in found.unverified)
    # A share of the budget, or a multiple of the sensitivity, does not depend on the factor.
    multiples = [audited(text, noise={"noise_multiplier": 0.5}).distribution for text in (sql, same)]
    assert multiples[0] == multiples[1]


def test_what_is_no_constant_still_needs_the_noise_first() -> None:
    sql = "SELECT SUM(x) * COUNT(*) FROM data"
    assert any(one.name.value == "noise_first" for one in audited(sql, noise_stddev=5.0).unverified)


def test_a_design_states_the_noise_of_the_published_number(tmp_path: Path) -> None:
    plan = {
        "data": {"source": TABLE, "record": "who", "secret": "x", "bounds": [0, 10]},
        "limits": {"remaining_uncertainty": 0.9, "accept": ["few_values", "homogeneous"]},
        "release": [
            {
                "name": "r",
                "sql": "SELECT g, 100 * SUM(x) FROM data WHERE who <> 'a' GROUP BY g",
                "noise_stddev": 1.0,
            },
            {"name": "all", "sql": "SELECT SUM(x) / 10 FROM data", "noise_stddev": 0.01},
        ],
    }
    found = sl.design(plan)
    assert found.passed
    proposal = tmp_path / "plan.toml"
    TABLE.to_csv(tmp_path / "t.csv", index=False)
    text = found.plan.replace('source = "a pandas DataFrame"', 'source = "t.csv"')
    proposal.write_text(text, encoding="utf-8")
    again = sl.audit(proposal)
    assert again.least_remaining_uncertainty is not None
    assert again.least_remaining_uncertainty.lower >= 0.9 - 1e-9
    # It is no more than it needs: with a tenth of it the limit is broken.
    less = {**plan, "release": [{**one, "noise_stddev": one["noise_stddev"]} for one in plan["release"]]}
    assert sl.audit(less).verdict.below_limit > 0


@pytest.mark.parametrize(
    ("noise", "message"),
    [
        ({"noise": "laplace"}, r'noise = \{ law = "laplace", scale = 10 \}, got the text \'laplace\''),
        ({"noise": "gaussian"}, r'law = "gaussian", stddev = 10'),
        ({"noise": "none"}, r'noise = \{ law = "none" \}'),
        ({"noise": "lapalce"}, "laws are gaussian, laplace"),
        ({"noise": {"law": "gaussian", "scale": 2.0}}, "of gaussian noise say stddev"),
        ({"noise": {"scale": 2.0}}, "scale with law = 'laplace' or 'geometric'"),
        ({"noise": {"law": "laplace", "scale": 2.0, "stddev": 1.0}}, "got stddev and scale"),
        ({"noise": {"law": "laplace", "scale": 0}}, "scale: a number"),
        ({"noise": {"law": "laplace", "scale": "b"}}, "scale: a number"),
        ({"noise": {"law": "laplace", "scale": 1.0, "epsilon": 1.0}}, "one of stddev"),
        ({"noise_stddev": 0}, r'got 0; a number that is published exactly has noise = \{ law = "none" \}'),
        ({"noise": {"law": "laplace", "stddev": 0.0}}, r'law = "none"'),
    ],
)
def test_what_says_too_little_is_told_what_to_write(noise: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidPlan, match=message):
        audited("SELECT AVG(x) FROM data", **noise)


def test_whole_noise_on_a_part_of_a_count_is_refused() -> None:
    """COUNT(*)/10 plus a whole number publishes the last digit of the count."""
    for sql in (
        "SELECT COUNT(*) FILTER (WHERE ill) / 10 FROM data",
        "SELECT 3 * COUNT(*) FILTER (WHERE ill) FROM data",
    ):
        with pytest.raises(InvalidPlan, match="what whole numbers are added to must be whole"):
            audited(sql, secret="ill", noise={"law": "geometric", "scale": 2.0})


def asks_for_noise_first(sql: str, *, secret: str = "x", **noise: Any) -> bool:
    return any(one.name.value == "noise_first" for one in audited(sql, secret=secret, **noise).unverified)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("item", "noise", "asked"),
    [
        ("ROUND(SUM(x), -1)", 4.0, True),  # 0 or 10: on which side of 5
        ("FLOOR(SUM(x) / 5) * 5", 4.0, True),
        ("CAST(SUM(x) AS INT)", 1.0, True),
        ("ROUND(SUM(x) / 100, 1)", 0.04, True),  # steps of 10 in the sum
        ("ROUND(SUM(x))", 200.0, False),  # fine beside the noise
        ("ROUND(SUM(x), 2)", 0.001, False),  # fine beside what one person moves, 10
        ("CAST(SUM(x) AS DECIMAL(9, 2))", 1.0, False),
        ("ABS(SUM(x) - 5)", 4.0, False),
    ],
)
def test_coarse_rounding_needs_the_noise_first(item: str, noise: float, asked: bool) -> None:
    sql = f"SELECT who, {item} FROM data GROUP BY who"
    assert asks_for_noise_first(sql, noise_stddev=noise) is asked


def test_fine_rounding_adds_up_over_copies() -> None:
    sql = "SELECT ROUND(SUM(x)) FROM data"
    asked = [asks_for_noise_first(sql, noise_stddev=20.0, times=times) for times in (1, 4, 5)]
    assert asked == [False, False, True]  # 5 (1/20)² > 0.1²


def test_rounding_first_would_leave_less_than_what_is_said() -> None:
    """Values from 0 to 9, rounded to tens, then noise of 3: by quadrature against the noisy value itself."""
    values, answers = np.linspace(0.005, 8.995, 900), np.linspace(-15, 25, 4001)

    def remains(published: np.ndarray) -> float:
        likelihood = np.exp(-((answers[:, None] - published) ** 2) / 18)
        total = likelihood.sum(1)
        mean = likelihood @ values / total
        spread = likelihood @ values**2 / total - mean**2
        return float(spread @ total / total.sum() / values.var())

    assert remains(np.where(values < 5, 0.0, 10.0)) < 0.4 < 0.5 < remains(values)


def test_a_count_is_whole_before_it_is_cast() -> None:
    sql = "SELECT CAST(COUNT(*) FILTER (WHERE ill) AS INT) FROM data"
    assert not asks_for_noise_first(sql, secret="ill", noise_stddev=1.0)
