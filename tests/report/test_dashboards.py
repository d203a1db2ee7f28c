"""The demo's four dashboards: the noise is what it is said to be, and the verdicts are those of audits."""

from __future__ import annotations

import tomllib

import pytest

import sightline as sl
from sightline.cli import main
from sightline.examples.dashboards import Dashboard, dashboards, same_noise_epsilon
from sightline.examples.shipped import example_plan

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def four() -> list[Dashboard]:
    return list(dashboards())


def test_a_budget_holds_and_noise_by_hand_does_not(four: list[Dashboard]) -> None:
    assert [one.result.verdict.passed for one in four] == [True, True, False, False]
    spent = [one.result.budget.spent["gaussian-dp"] for one in four]
    assert spent == sorted(spent)
    assert spent[0] <= 1.0 < spent[1]


def test_a_refreshed_budget_has_the_noise_of_one_release_by_itself(four: list[Dashboard]) -> None:
    path = example_plan("microgrid")
    plan = tomllib.loads(path.read_text())
    plan["data"]["source"] = str(path.parent / "homes.csv")
    plan["privacy"] = {"epsilon": 1.0, "delta": 1e-5, "accountant": "gaussian-dp"}
    plan["release"] = [{"name": "January", "sql": plan["release"][0]["sql"]}]
    (alone,) = sl.audit(plan).releases
    together = four[1].result.releases[0]
    assert together.largest_noise_stddev == pytest.approx(alone.largest_noise_stddev, rel=1e-6)
    assert same_noise_epsilon(epsilon=2.0, releases=1) == pytest.approx(2.0)


@pytest.mark.thorough
def test_the_command_prints_all_four_and_the_last_in_full(
    four: list[Dashboard], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo"]) == 0
    printed = capsys.readouterr().out
    for one in four:
        assert one.noise in printed
    assert printed.index("chosen by hand") < printed.index("BELOW THE LIMIT")
