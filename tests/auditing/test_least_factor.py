"""The search for the least factor on all noise: it ends, from above, after few audits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sightline as sl
from sightline.advising import noise_slack
from sightline.advising.noise_slack import least_factor
from sightline.auditing.findings import Findings


def test_the_search_ends_above_the_least_factor_after_few_tries() -> None:
    """Curves that level off, that jump and that never reach the limit."""
    generator = np.random.default_rng(0)
    tries = []
    for _ in range(600):
        scale, power = 10 ** generator.uniform(-6, 6), generator.choice([1, 2, 4])
        floor = generator.uniform(0, 0.9) * generator.integers(0, 2)
        jump, left = 10 ** generator.uniform(-5, 5), generator.choice([1.0, generator.uniform()])
        limit, asked = generator.uniform(0.01, 0.99), []

        def kept(
            factor: float,
            scale: float = scale,
            power: int = power,
            floor: float = floor,
            jump: float = jump,
            left: float = left,
        ) -> float:
            smooth = floor + (1 - floor) / (1 + scale / factor**power)
            return float(smooth * (1.0 if factor > jump else left))

        def counted(factor: float, kept: object = kept, asked: list[float] = asked) -> float:
            asked.append(factor)
            return kept(factor)  # type: ignore[operator]

        found = least_factor(counted, limit, now=kept(1.0))
        tries.append(len(asked))
        if found is None:
            assert kept(1e12) < limit
            continue
        assert kept(found) >= limit
        assert found <= 1e-5 or found == 1.0 or kept(found / 1.3) < limit
    assert max(tries) <= 20
    assert np.mean(tries) <= 6


def _plan(kind: str, people: int, stddev: float) -> dict[str, Any]:
    import polars

    generator, rows = np.random.default_rng(people), people * (4 if kind == "rows" else 1)
    table = polars.DataFrame(
        {
            "who": np.arange(rows) % people,
            "g": generator.integers(3, size=rows),
            "h": generator.integers(4, size=rows),
            "x": generator.random(rows) < 0.5 if kind == "yes or no" else generator.random(rows),
        }
    )
    data = {"source": table, "record": "who", "secret": "x"}
    data |= {"kind": "boolean"} if kind == "yes or no" else {"bounds": [0, 1]}
    count = "COUNT(*) FILTER (WHERE x)" if kind == "yes or no" else "SUM(x)"
    return {
        "data": data | ({"max_rows_per_record": 4} if kind == "rows" else {}),
        "limits": {"remaining_uncertainty": 0.6},
        "release": [
            {"name": key, "sql": f"SELECT {key}, {count} FROM data GROUP BY {key}", "noise_stddev": stddev}
            for key in ("g", "h")
        ],
    }


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", ["number", "rows", "yes or no"])
@pytest.mark.parametrize("stddev", [0.1, 4.0])
def test_of_a_large_plan_the_factor_is_enough_after_few_assessments(
    kind: str, stddev: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the limit holds, and of points, the factor comes from a bound alone; else a short search makes it
    no larger. An audit with that much noise confirms it.
    """
    monkeypatch.setattr(noise_slack, "MOST_FACTORISED", 0)
    searched = kind != "yes or no" and stddev < 1
    with monkeypatch.context() as patch:
        patch.setattr(noise_slack._Few, "of", lambda findings: None)
        patch.setattr(noise_slack, "lowest", None)
        by_bound = sl.audit(_plan(kind, 9, stddev), full=True).slack
    if not searched:
        monkeypatch.setattr(noise_slack, "lowest", None)
    found = sl.audit(_plan(kind, 9, stddev), full=True).slack
    assert found is not None
    assert found.noise_factor is not None
    assert by_bound is not None
    assert by_bound.noise_factor is not None
    assert found.noise_factor <= by_bound.noise_factor
    assert searched or found.noise_factor == by_bound.noise_factor
    assert (found.noise_factor > 1) == (stddev == 0.1)
    enough = sl.audit(_plan(kind, 9, stddev * found.noise_factor), verdict_only=True)
    assert enough.least_remaining_uncertainty is not None
    assert enough.least_remaining_uncertainty.lower >= 0.6


def test_of_a_large_plan_epsilon_is_enough_without_another_assessment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(noise_slack, "MOST_FACTORISED", 0)
    plan = _plan("rows", 9, 1.0)
    for release in plan["release"]:
        del release["noise_stddev"]
    plan["privacy"] = {"epsilon": 0.5, "delta": 1e-6}
    with monkeypatch.context() as patch:
        patch.setattr(noise_slack, "linear_findings", None)
        found = sl.audit(plan, full=True).slack
    assert found is not None
    assert found.epsilon is not None
    assert found.epsilon > 0.5
    plan["privacy"]["epsilon"] = found.epsilon
    enough = sl.audit(plan, verdict_only=True).least_remaining_uncertainty
    assert enough is not None
    assert enough.lower >= 0.6


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 3])
def test_the_kinds_that_keep_least_find_the_factor_that_all_kinds_find(
    rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = np.random.default_rng(5)
    number = 4_000
    table = {"person": np.arange(number) // rows, "watts": draw.uniform(0, 10, number)}
    table |= {name: draw.integers(0, 40, number) ** 2 // 40 for name in "abc"}
    source = tmp_path / "rows.csv"
    lines = np.column_stack(list(table.values()))
    np.savetxt(source, lines, delimiter=",", header=",".join(table), comments="", fmt="%.6g")
    plan: dict[str, Any] = {
        "data": {
            "source": str(source),
            "record": "person",
            "secret": "watts",
            "bounds": [0, 10],
            "max_rows_per_record": rows,
        },
        "limits": {"remaining_uncertainty": 0.5},
        "release": [
            {"name": name, "sql": f"SELECT {name}, SUM(watts) FROM data GROUP BY {name}", "noise_stddev": 9.0}
            for name in "abc"
        ],
    }
    tried, lowest = [], noise_slack.lowest

    def counted(findings: Findings, factor: float) -> float:
        tried.append(factor)
        return lowest(findings, factor)

    monkeypatch.setattr(noise_slack, "MOST_KINDS", 500)
    monkeypatch.setattr(noise_slack, "lowest", counted)
    few = sl.audit(plan).slack
    beliefs = 1 if rows == 1 else 2
    # All kinds are asked once under each belief, and once whether the factor of the worst is enough.
    assert len(tried) == 2 * beliefs - 1
    monkeypatch.setattr(noise_slack._Few, "of", lambda findings: None)
    assert few == sl.audit(plan).slack
    assert len(tried) > 2 * beliefs
