"""Budgets over time: each period by itself, and everything together, by the accountants' own formulas."""

from __future__ import annotations

import io
import tomllib
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import sightline as sl
from sightline.auditing.budget import budget_report
from sightline.auditing.plan import Plan
from sightline.auditing.pricing import price
from sightline.auditing.reading import plan_text, read_plan
from sightline.auditing.result import BudgetReport
from sightline.errors import InvalidPlan
from sightline.privacy.gaussian_dp import smallest_epsilon
from sightline.privacy.registry import ACCOUNTANTS, accountant_named
from sightline.report.terminal import print_budget
from sightline.report.wording import budget_words
from sightline.tables.membership import Statistic
from tests.auditing.hand_made import membership_of, partition, plan_of

DELTA = 1e-6
TWO = membership_of([partition(0), partition(1)], [["a", "b", "b"], [""] * 3])


def plan_with(*releases: dict[str, Any], **privacy: Any) -> Plan:
    return plan_of(*releases, privacy={"epsilon": 1.0, "delta": DELTA, **privacy})


def report_of(plan: Plan) -> BudgetReport:
    return budget_report(plan, TWO, price(plan, TWO))


def rule_of_each_release(multiplier: float, releases: int) -> float:
    """Basic composition of the exact epsilons of all releases, each with an equal part of delta."""
    return releases * smallest_epsilon(multiplier**-2, DELTA / releases)


@pytest.mark.parametrize("name", sorted(ACCOUNTANTS))
def test_twelve_months_of_epsilon_one_are_not_headed_epsilon_one(name: str) -> None:
    """Each month has the noise of its own budget; the total is that of 24 releases with this noise."""
    monthly = plan_with({"name": "a"}, {"name": "b"}, accountant=name, periods=12)
    one_month = plan_with({"name": "a"}, {"name": "b"}, accountant=name)
    np.testing.assert_array_equal(price(monthly, TWO).scale, price(one_month, TWO).scale)
    report = report_of(monthly)
    rule = accountant_named(name, sl.Budget(epsilon=1.0, delta=DELTA))
    multiplier = float(price(one_month, TWO).multipliers[0])
    assert report.periods == 12
    total = rule.epsilon(24, noise_multiplier=multiplier)
    if name == "basic":  # the classical formula says more than the noise costs
        total = rule_of_each_release(multiplier, 24)
    assert report.total_epsilon == pytest.approx(total, rel=1e-9)
    assert report.total_accountant == name
    assert report.total_epsilon > 2.5
    assert report.proven == report_of(one_month).proven
    assert report.would_need == {}
    words = budget_words(report)
    assert words.startswith(f"epsilon = {report.total_epsilon:.4g} in all under {name}")
    assert "12 periods with epsilon = 1 each" in words


def test_one_budget_is_headed_as_before() -> None:
    report = report_of(plan_with({"name": "a"}, {"name": "b"}))
    assert report.total_epsilon is None
    assert budget_words(report) == "epsilon = 1 under gaussian-dp at delta = 1e-06"
    assert (
        budget_words(
            report_of(plan_with({"name": "a", "noise_stddev": 1.0}, {"name": "b", "noise_stddev": 2.0}))
        )
        == ""
    )


def test_a_release_outside_the_budget_is_in_the_heading() -> None:
    """Epsilon is 1 for "b" alone: the noise of "a" is somebody else's, and far too small."""
    plan = plan_with({"name": "a", "noise_stddev": 0.1}, {"name": "b"})
    report = report_of(plan)
    assert not report.proven
    assert report.total_epsilon == sl.privacy.account(price(plan, TWO).multipliers, delta=DELTA).epsilon_exact
    assert report.total_epsilon > 1_000
    assert "a budget of epsilon = 1, and 1 release outside it" in budget_words(report)


def test_an_exact_number_beside_the_budget_makes_the_heading_infinite() -> None:
    report = report_of(plan_with({"name": "a", "noise": {"law": "none"}}, {"name": "b"}))
    assert budget_words(report).startswith("epsilon is infinite in all under gaussian-dp at delta = 1e-06")


def test_a_share_that_a_release_states_pays_for_its_copies_of_all_periods() -> None:
    plan = plan_with(
        {"name": "a", "times": 2, "noise": {"law": "gaussian", "epsilon": 0.5}}, {"name": "b"}, periods=4
    )
    pricing = price(plan, TWO)
    rule = accountant_named("gaussian-dp", sl.Budget(epsilon=0.5, delta=DELTA))
    assert (pricing.scale / pricing.sensitivity)[:2] == pytest.approx(rule.kappa(8) ** 0.5)
    assert pricing.times[0] == 8


def test_noise_of_discrete_law_has_a_total_under_a_rule_that_is_proved_for_it() -> None:
    """Exact Gaussian accounting is not proved for discrete noise: the heading is zCDP's, or Rényi's."""
    plan = plan_of(
        {"name": "a", "noise": {"law": "discrete-gaussian", "stddev": 3.0}},
        {"name": "b"},
        data={"source": "t.csv", "record": "id", "secret": "x", "kind": "boolean"},
        privacy={"epsilon": 1.0, "delta": DELTA, "accountant": "gaussian-dp"},
    )
    counts = membership_of(
        [partition(0, statistic=Statistic.SUM), partition(1, statistic=Statistic.SUM)], [["a", "b"], ["", ""]]
    )
    report = budget_report(plan, counts, price(plan, counts))
    assert report.total_accountant in ("zcdp", "renyi")
    assert report.total_epsilon == report.spent[report.total_accountant]


def test_per_record_counts_the_releases_of_a_period() -> None:
    """One record is in both releases, so each month costs it two of them."""
    plan = plan_with({"name": "a"}, {"name": "b"}, periods=3, accountant="per-record")
    rule = accountant_named("per-record", sl.Budget(epsilon=1.0, delta=DELTA))
    pricing = price(plan, TWO)
    assert pricing.scale / pricing.sensitivity == pytest.approx(rule.kappa(2) ** 0.5)


@pytest.mark.parametrize(
    ("releases", "privacy", "message"),
    [
        (({"name": "a", "period": "May"}, {"name": "b"}), {"periods": 2}, "write a plan for each period"),
        (({"name": "a"}, {"name": "b"}), {"periods": ["May", "June"]}, "periods: expected a whole number"),
        (({"name": "a"}, {"name": "b"}), {"periods": 2, "epsilon": None}, r"\[privacy\] epsilon"),
        (({"name": "a"}, {"name": "b"}), {"periods": 2, "delta": None}, r"\[privacy\] delta"),
        (
            ({"name": "a", "times": 90_000}, {"name": "b"}),
            {"periods": 2},
            "at most 100,000 copies .* 180,000",
        ),
        (({"name": "a"}, {"name": "b"}), {"periods": 0}, "periods: expected a number >= 1"),
        (({"name": "a"}, {"name": "b"}), {"periods": 10**6}, "periods: expected a number <= 10000"),
    ],
)
def test_periods_that_do_not_fit_are_refused(releases: Any, privacy: dict[str, Any], message: str) -> None:
    content = {
        "data": {"source": "t.csv", "record": "id", "secret": "x", "bounds": [0, 10]},
        "privacy": {"epsilon": 1.0, "delta": DELTA, **privacy},
        "release": [{"sql": "SELECT AVG(x) FROM data", **one} for one in releases],
    }
    with pytest.raises(InvalidPlan, match=message):
        read_plan(content)


def test_a_plan_with_periods_reads_back() -> None:
    plan = plan_with({"name": "a"}, {"name": "b"}, periods=2)
    assert Plan.model_validate(tomllib.loads(plan_text(plan))) == plan


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> str:
    # Every group has a small, two middling and a large value: the secret does not follow the group.
    path = tmp_path_factory.mktemp("periods") / "rows.csv"
    path.write_text("id,g,x\n" + "".join(f"{i},{i % 10},{3 * (i // 10)}.{7 * i % 10}\n" for i in range(40)))
    return str(path)


def audited(table: str, limits: dict[str, Any], **privacy: Any) -> sl.AuditResult:
    return sl.audit(
        {
            "data": {"source": table, "record": "id", "secret": "x", "bounds": [0, 10]},
            "privacy": {"epsilon": 3.0, "delta": DELTA, **privacy},
            "release": [{"name": "means", "sql": "SELECT g, AVG(x) FROM data GROUP BY g"}],
            "limits": limits,
        }
    )


@pytest.mark.slow
def test_copies_of_all_periods_are_what_the_attacker_averages(table: str) -> None:
    """What passes in one month does not pass in sixty: the means of sixty copies are 60 times as precise."""
    limits = {"remaining_uncertainty": "88%"}
    one, many = audited(table, limits), audited(table, limits, periods=60)
    assert one.verdict.status == "passed"
    assert many.verdict.status == "failed"
    assert many.releases[0].times == 60
    by_times = sl.audit(
        {
            "data": {"source": table, "record": "id", "secret": "x", "bounds": [0, 10]},
            "release": [
                {
                    "name": "means",
                    "sql": "SELECT g, AVG(x) FROM data GROUP BY g",
                    "times": 60,
                    "noise_stddev": one.releases[0].smallest_noise_stddev,
                }
            ],
        }
    )
    assert many.least_remaining_uncertainty == by_times.least_remaining_uncertainty


@pytest.mark.slow
def test_terminal_and_json_head_the_budget_with_the_total(table: str) -> None:
    result = audited(table, {}, periods=12)
    words = budget_words(result.budget)
    screen = io.StringIO()
    print_budget(result.budget, Console(file=screen, width=400))
    assert f"Budget: {words}" in screen.getvalue()
    assert "Budget: epsilon = 3 " not in screen.getvalue()
    again = sl.AuditResult.from_json(result.to_json())
    assert again.budget.total_epsilon == result.budget.total_epsilon == result.budget.spent["gaussian-dp"]
