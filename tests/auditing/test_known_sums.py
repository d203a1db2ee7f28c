"""What combinations of published numbers tell at the true answers: one question, held against other ways."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import sparse
from scipy.stats import norm

import sightline as sl
from sightline.advising import noise_slack
from sightline.auditing.known_sums import nearest_in_box
from sightline.auditing.result import VerdictStatus


@pytest.mark.parametrize("seed", range(12))
def test_the_nearest_table_in_the_box_is_the_best_combination(seed: int) -> None:
    """The largest (λN - D)/s over all combinations of two numbers, by a fine scan of all directions."""
    rng = np.random.default_rng(seed)
    classes, width, margin = 4, 10.0, 10.0 * rng.uniform(0.02, 0.3)
    counts = rng.integers(1, 9, classes).astype(float)
    table = rng.integers(-2, 3, (2, classes)).astype(float) / rng.uniform(0.5, 20, 2)[:, None]
    mean = np.where(
        rng.random(classes) < 0.6, rng.choice([0.0, width], classes), rng.uniform(0, width, classes)
    )
    low, high = (margin - mean) * counts, (width - margin - mean) * counts
    distance = float(np.linalg.norm(nearest_in_box(sparse.csr_array(table), low, high)))
    angles = np.linspace(0, 2 * np.pi, 400_001)
    weights = np.stack([np.cos(angles), np.sin(angles)], axis=1) @ table
    apart = np.where(weights > 0, mean, width - mean)
    gain = np.sum(np.abs(weights) * counts * (margin - apart), axis=1)
    assert distance == pytest.approx(max(0.0, float(gain.max())), rel=1e-4, abs=1e-6)


def _posterior(sizes: list[int], answers: list[tuple[list[float], float, float]]) -> list[float]:
    """Of groups of yes-or-no people, what the posterior leaves of one in each: by all numbers of yeses.

    An answer has a weight for each group, the true number and the noise. Fair coins, or all counts alike.
    """
    found = []
    for even in (False, True):
        total, means = 0.0, np.zeros(len(sizes))
        for world in itertools.product(*(range(n + 1) for n in sizes)):
            weight = 1.0 if even else math.prod(math.comb(n, k) for n, k in zip(sizes, world, strict=True))
            for weights, answer, noise in answers:
                weight *= norm.pdf(float(np.dot(weights, world)), answer, noise)
            total += weight
            means += weight * np.array(world) / np.array(sizes)
        share = means / total
        found.append(4 * share * (1 - share))
    return [float(one) for one in np.minimum(*found)]


def _people(sizes: list[int], yeses: list[int]) -> pl.DataFrame:
    group = np.repeat(np.arange(len(sizes)), sizes)
    ill = np.concatenate([np.arange(n) < k for n, k in zip(sizes, yeses, strict=True)])
    return pl.DataFrame({"person": np.arange(group.size), "g": group, "x": ill})


def _audit(
    table: pl.DataFrame, limit: float, releases: list[tuple[str, float]], **data: Any
) -> sl.AuditResult:
    return sl.audit(
        {
            "data": {"source": table, "record": "person", "secret": "x", **(data or {"kind": "boolean"})},
            "limits": {"remaining_uncertainty": limit},
            "release": [
                {"name": f"r{place}", "sql": sql, "noise_stddev": noise}
                for place, (sql, noise) in enumerate(releases)
            ],
        }
    )


@pytest.mark.thorough
def test_a_group_behind_weights_is_found() -> None:
    """x + 2y and x + y: twice the second less the first is about the first group alone, who all say no."""
    sizes, yeses = [20, 40], [0, 22]
    weighted = "SELECT SUM(CAST(x AS INT) * CASE WHEN g = 0 THEN 1 ELSE 2 END) FROM data"
    releases = [(weighted, 1.2), ("SELECT COUNT(*) FILTER (WHERE x) FROM data", 0.6)]
    truth = _posterior(sizes, [([1, 2], 44, 1.2), ([1, 1], 22, 0.6)])
    alone = [_posterior(sizes, [([1, 2], 44, 1.2)]), _posterior(sizes, [([1, 1], 22, 0.6)])]
    assert truth[0] < 0.3
    assert min(*alone[0], *alone[1]) > 0.5
    result = _audit(_people(sizes, yeses), 0.5, releases)
    assert result.verdict.status is VerdictStatus.NOT_SHOWN
    assert result.homogeneous is not None
    assert result.homogeneous[0].rows == 20
    assert result.homogeneous[0].remaining == pytest.approx(truth[0], abs=0.1)
    mixed = _audit(_people(sizes, [10, 22]), 0.5, releases)
    assert not mixed.homogeneous


def test_a_group_against_a_total_of_three_is_found() -> None:
    """The total less two other groups is the third: a combination of three numbers, none of two of them."""
    sizes, yeses = [12, 14, 14], [0, 7, 7]
    releases = [
        ("SELECT COUNT(*) FILTER (WHERE x) FROM data", 0.6),
        ("SELECT COUNT(*) FILTER (WHERE x) FROM data WHERE g = 1", 0.6),
        ("SELECT COUNT(*) FILTER (WHERE x) FROM data WHERE g = 2", 0.6),
    ]
    truth = _posterior(sizes, [([1, 1, 1], 14, 0.6), ([0, 1, 0], 7, 0.6), ([0, 0, 1], 7, 0.6)])
    assert truth[0] < 0.4 < 0.9 < truth[1]
    result = _audit(_people(sizes, yeses), 0.5, releases)
    assert result.verdict.status is VerdictStatus.NOT_SHOWN
    assert result.homogeneous is not None
    assert (result.homogeneous[0].rows, "3 numbers together" in result.homogeneous[0].text) == (12, True)
    assert not _audit(_people(sizes, [6, 7, 7]), 0.5, releases).homogeneous


def test_a_mean_and_a_mean_of_squares_tell_that_all_are_alike() -> None:
    """A mean of 50 and a mean of squares of 2,500: everyone is 50, in the middle of the bounds."""
    table = pl.DataFrame({"person": np.arange(100), "x": np.full(100, 50.0) + np.arange(100) % 7 / 100})
    releases = [("SELECT AVG(x) FROM data", 0.5), ("SELECT AVG(x * x) FROM data", 60.0)]
    result = _audit(table, 0.5, releases, bounds=[0, 100])
    assert result.homogeneous
    # Guessing the mean: the mean square is told to within 60 and 2 × 50 × 0.5, and it is at least 0.
    told, spread = math.hypot(60.0, 2 * 50.03 * 0.5), float(table["x"].var(ddof=0))  # type: ignore[arg-type]
    z = np.linspace(0, 12 * told, 400_001)
    likely = np.exp(-(((z - spread) / told) ** 2) / 2)
    expected = float((z * likely).sum() / likely.sum()) / (100**2 / 12)
    assert result.homogeneous[0].remaining == pytest.approx(expected, rel=1e-3)
    assert result.homogeneous[0].rows == 100
    assert result.verdict.passed is False
    rng = np.random.default_rng(0)
    spread_out = table.with_columns(x=pl.Series(rng.uniform(0, 100, 100)))
    assert not _audit(spread_out, 0.5, releases, bounds=[0, 100]).homogeneous


def test_wider_bounds_do_not_silence_the_check() -> None:
    """A third of the people have 0, and nobody has less: bounds from -100 make 0 no end, but it is one."""
    rng = np.random.default_rng(5)
    values = np.where(np.arange(120) % 3 == 0, 0.0, rng.uniform(0, 100, 120))
    table = pl.DataFrame({"person": np.arange(120), "g": np.arange(120) % 3, "x": values})
    for bounds in ([0, 100], [-100, 100]):
        releases = [("SELECT g, SUM(x) FROM data GROUP BY g", 40.0)]
        result = _audit(table, 0.5, releases, bounds=bounds)
        assert result.verdict.passed is False
        assert result.homogeneous
        assert result.homogeneous[0].rows == 40


def survey(folder: Path, noise: float) -> dict[str, object]:
    """A total, and the sum of a third of its 60 rows: the values of the others are at the lower end."""
    lines = [f"{i},{i % 3},{90.0 if i % 3 == 0 else 0.0}" for i in range(60)]
    (folder / "t.csv").write_text("id,g,x\n" + "\n".join(lines) + "\n")
    sql = ("SELECT SUM(x) FROM data", "SELECT SUM(x) FROM data WHERE g = 0")
    return {
        "data": {"source": f"{folder}/t.csv", "record": "id", "secret": "x", "bounds": [0, 100]},
        "limits": {"remaining_uncertainty": 0.5},
        "release": [{"name": f"r{i}", "sql": one, "noise_stddev": noise} for i, one in enumerate(sql)],
    }


def test_the_slack_is_audited_at_the_noise_that_it_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Groups that hide everyone hold with hardly any noise: two audits find that, not one for each step."""
    plan = survey(tmp_path, 50.0)
    plan["release"] = plan["release"][:1]  # type: ignore[index]
    asked: list[float] = []
    real = noise_slack.lowest

    def lowest(findings: object, factor: float) -> float:
        asked.append(factor)
        return real(findings, factor)  # type: ignore[arg-type]

    monkeypatch.setattr(noise_slack, "lowest", lowest)
    slack = sl.audit(plan).slack
    assert slack is not None
    assert slack.noise_factor is not None
    assert slack.noise_factor <= 1e-5
    assert len(asked) <= 3
    assert noise_slack.rounded(min(asked), up=True) == slack.noise_factor
