"""What the noise alone leaves of anything about a person: for every prior, feature and table."""

from __future__ import annotations

import math
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import sightline as sl
import sightline.examples
from sightline.report.wording import limit_line

SENTENCE = "To an attacker who knows everyone else, the noise alone leaves at least"
_Y = np.linspace(-30.0, 31.0, 12_001)  # answers about a value in [0, 1], in units of the noise


def _densities(law: str, shifts: np.ndarray) -> np.ndarray:
    apart: np.ndarray = _Y[None] - shifts[:, None]
    if law == "gaussian":
        return np.asarray(np.exp(-(apart**2) / 2) / math.sqrt(2 * math.pi))
    return np.asarray(np.exp(-np.abs(apart)) / 2)


def _share_left(feature: np.ndarray, prior: np.ndarray, answers: np.ndarray) -> float:
    """The least mean squared error over the prior variance, by quadrature: values × answers."""
    step = _Y[1] - _Y[0]
    total = prior @ answers
    mean = (prior * feature) @ answers / np.maximum(total, 1e-300)
    before = prior @ feature**2 - (prior @ feature) ** 2
    return float((prior @ feature**2 - np.sum(mean**2 * total) * step) / before)


@pytest.mark.parametrize(
    ("law", "size"), [("gaussian", 0.3), ("gaussian", 2.0), ("laplace", 0.3), ("laplace", 2.0)]
)
def test_no_prior_and_no_feature_of_a_value_loses_more(law: str, size: float) -> None:
    """Values anywhere in the domain with any odds, and any function of the value: at least e^(-size²/4)."""
    rng = np.random.default_rng(7)
    bound = math.exp(-(size**2) / 4)
    shares = []
    for _ in range(150):
        values = np.concatenate([[0.0, 1.0], rng.uniform(0, 1, rng.integers(0, 5))])
        prior = rng.dirichlet(np.full(values.size, rng.choice([0.2, 1.0, 5.0])))
        feature = values if rng.random() < 0.5 else rng.normal(size=values.size)
        shares.append(_share_left(feature, prior, _densities(law, size * values)))
    assert min(shares) >= bound
    assert min(shares) < 1.6 * bound  # and it is not far from the worst of them


def _plan(table: pl.DataFrame, sql: list[str], **sections: object) -> dict[str, object]:
    return {
        "data": {"source": table, "record": "person", "secret": "hours", "bounds": [0, 80]},
        "limits": {"remaining_uncertainty": 0.5},
        "release": [{"name": f"release {place}", "sql": one} for place, one in enumerate(sql)],
        **sections,
    }


def _table(hours: np.ndarray) -> pl.DataFrame:
    number = np.arange(hours.size)
    return pl.DataFrame({"person": number, "hours": hours.astype(float), "region": number % 3})


BY_REGION = "SELECT region, SUM(hours) FROM data GROUP BY region"


def test_whole_hours_at_epsilon_1_pass_by_the_noise_alone() -> None:
    """Few values do not matter where the noise hides everything."""
    for hours in (np.arange(60) % 7, np.arange(60) % 2 * 80):
        result = sl.audit(_plan(_table(hours), [BY_REGION], privacy={"epsilon": 1.0, "delta": 1e-6}))
        assert result.verdict.passed
        assert result.verdict.text.startswith(f"{SENTENCE} 9")
        assert result.unverified == ()


def test_with_little_noise_the_same_tables_are_not_shown() -> None:
    for hours, name in ((np.arange(60) % 7 * 13, "few_values"), (np.full(60, 80), "homogeneous")):
        plan = _plan(_table(hours), [BY_REGION])
        plan["release"][0]["noise_stddev"] = 20.0  # type: ignore[index]
        result = sl.audit(plan)
        assert result.verdict.passed is False
        assert name in [one.name.value for one in result.unverified]


def test_a_share_above_a_level_passes() -> None:
    sql = "SELECT region, COUNT(*) FILTER (WHERE hours > 41) FROM data GROUP BY region"
    plan = _plan(_table(np.arange(60) % 61), [sql], privacy={"epsilon": 1.0, "delta": 1e-6})
    result = sl.audit(plan)
    assert result.verdict.passed
    assert result.verdict.below_limit == 0


def test_the_share_is_that_of_all_releases_together() -> None:
    """Two sums with noise 100 and 50 about values from 0 to 80: (80/100)² + (80/50)² = 3.2."""
    plan = _plan(_table(np.arange(60) % 61), [BY_REGION, "SELECT SUM(hours) FROM data"])
    for release, noise in zip(plan["release"], (100.0, 50.0), strict=True):  # type: ignore[call-overload]
        release["noise_stddev"] = noise
    plan["limits"] = {"remaining_uncertainty": 0.449}
    assert sl.audit(plan).verdict.text.startswith(f"{SENTENCE} 44 %")  # e^-0.8 = 0.44933
    plan["limits"] = {"remaining_uncertainty": 0.45}
    assert not sl.audit(plan).verdict.text.startswith(SENTENCE)


def test_noise_does_not_cover_exact_numbers_or_lines_that_tell() -> None:
    table = _table(np.arange(60) % 61)
    exact = _plan(table, [BY_REGION, "SELECT SUM(hours) FROM data"], privacy={"epsilon": 1.0, "delta": 1e-6})
    exact["release"][1]["noise"] = {"law": "none"}  # type: ignore[index]
    assert SENTENCE not in sl.audit(exact).verdict.text
    listed = "SELECT person, COUNT(*) FROM data WHERE hours > 41 GROUP BY person"
    lines = _plan(table, [listed], privacy={"epsilon": 1.0, "delta": 1e-6})
    told = sl.audit(lines)
    assert told.verdict.passed is False
    assert "groups" in [one.name.value for one in told.unverified]


def test_the_guarantee_is_that_of_the_record_that_pays_most() -> None:
    """Three sums, each about a third of the people: nobody is in two of them, and nobody pays for two."""
    table = _table(np.arange(60) % 61)
    parts = [f"SELECT SUM(hours) FROM data WHERE region = {region}" for region in range(3)]
    plan = _plan(table, [*parts, "SELECT SUM(hours) FROM data WHERE person < 3"])
    for release, noise in zip(plan["release"], (100.0, 100.0, 100.0, 80.0), strict=True):  # type: ignore[call-overload]
        release["noise_stddev"] = noise
    # (80/100)² + (80/80)² = 1.64 for the first three people, and e^-0.41 = 0.6637; all together e^-0.73.
    assert math.exp(-0.73) < 0.5 < 0.66
    result = sl.audit(plan)
    assert result.verdict.passed
    assert result.verdict.text.startswith(f"{SENTENCE} 66 %")


def test_groups_that_are_all_alike_pass_where_the_noise_alone_keeps_the_limit() -> None:
    """What a group has in common is knowledge about the group: it is not asked then, and said."""
    for secret in (0, 80):
        result = sl.audit(
            _plan(_table(np.full(60, secret)), [BY_REGION], privacy={"epsilon": 1.0, "delta": 1e-6})
        )
        assert result.verdict.passed
        assert result.verdict.text.startswith(SENTENCE)
        assert any("What a group has in common" in line for line in result.assumptions)


EXAMPLES = ("census", "health_survey", "meters", "microgrid", "orders", "stays")


def _at_epsilon_1(name: str) -> dict[str, object]:
    """A shipped table with its own releases and what it accepts; all noise is from a budget of epsilon 1."""
    folder = Path(sightline.examples.__file__).parent / name
    plan: dict[str, Any] = tomllib.loads((folder / "plan.toml").read_text())
    plan["data"]["source"] = str(folder / plan["data"]["source"])
    plan["privacy"] = {"epsilon": 1.0, "delta": 1e-6}
    for release in plan["release"]:
        release.pop("noise_stddev", None)
    return plan


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_ordinary_tables_pass_by_the_guarantee_at_epsilon_1(name: str) -> None:
    result = sl.audit(_at_epsilon_1(name))
    assert result.verdict.passed
    assert result.verdict.guaranteed
    assert result.verdict.text.startswith(f"{SENTENCE} 9")
    assert "The noise alone guarantees that all" in limit_line(result)


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_designs_within_epsilon_1_pass_by_the_guarantee(name: str) -> None:
    designed = sl.design(_at_epsilon_1(name))
    assert designed.passed
    assert designed.verdict.startswith(SENTENCE)
