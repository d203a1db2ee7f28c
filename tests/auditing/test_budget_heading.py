"""The heading of a budget: the epsilon of everything that is published, also of what is outside it."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import sightline as sl
from sightline.auditing.budget import budget_report
from sightline.auditing.plan import Plan
from sightline.auditing.pricing import price
from sightline.auditing.result import BudgetReport
from sightline.privacy.gaussian_dp import smallest_epsilon
from sightline.report.terminal import print_budget
from sightline.report.wording import budget_words
from sightline.tables.membership import Statistic
from tests.auditing.hand_made import membership_of, partition, plan_of

DELTA = 1e-6
EVERYONE = "for every conceivable person"
TWO = membership_of([partition(0), partition(1)], [["a", "b", "b"], [""] * 3])


def plan_with(*releases: dict[str, Any], **privacy: Any) -> Plan:
    return plan_of(*releases, privacy={"epsilon": 1.0, "delta": DELTA, **privacy})


def report_of(plan: Plan) -> BudgetReport:
    return budget_report(plan, TWO, price(plan, TWO))


def rule_of_each_release(multiplier: float, releases: int) -> float:
    """Basic composition of the exact epsilons of all releases, each with an equal part of delta."""
    return releases * smallest_epsilon(multiplier**-2, DELTA / releases)


def test_one_budget_is_headed_as_before() -> None:
    report = report_of(plan_with({"name": "a"}, {"name": "b"}))
    assert report.total_epsilon is None
    assert budget_words(report) == f"epsilon = 1 under gaussian-dp at delta = 1e-06, {EVERYONE}"
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


def test_terminal_and_json_head_the_budget_with_the_total(tmp_path: Path) -> None:
    table = tmp_path / "rows.csv"
    table.write_text("id,g,x\n" + "".join(f"{i},{i % 10},{3 * (i // 10)}.{7 * i % 10}\n" for i in range(40)))
    sql = "SELECT g, AVG(x) FROM data GROUP BY g"
    result = sl.audit(
        {
            "data": {"source": str(table), "record": "id", "secret": "x", "bounds": [0, 10]},
            "privacy": {"epsilon": 3.0, "delta": DELTA},
            "release": [{"name": "a", "sql": sql}, {"name": "b", "sql": sql, "noise_stddev": 1.0}],
        },
        full=True,
    )
    words = budget_words(result.budget)
    screen = io.StringIO()
    print_budget(result.budget, Console(file=screen, width=400))
    assert f"Budget: {words}" in screen.getvalue()
    assert "Budget: epsilon = 3 " not in screen.getvalue()
    again = sl.AuditResult.from_json(result.to_json())
    assert again.budget.total_epsilon == result.budget.total_epsilon == result.budget.spent["gaussian-dp"]


@pytest.mark.parametrize(("privacy", "everyone"), [({}, True), ({"sensitivity": "memberships"}, False)])
def test_what_holds_for_the_people_of_a_table_is_not_said_of_everyone(
    privacy: dict[str, Any], everyone: bool
) -> None:
    """Nobody of this table is in both releases; somebody else may be."""
    apart = membership_of([partition(0), partition(1)], [["a", "b", None], [None, None, "c"]])
    plan = plan_with({"name": "a"}, {"name": "b"}, **privacy)
    report = budget_report(plan, apart, price(plan, apart))
    assert report.spent["per-record"] < report.spent["gaussian-dp"] == pytest.approx(1.0)
    assert report.everyone == everyone
    least = report.spent["gaussian-dp" if everyone else "per-record"]
    assert report.least_spent == least
    assert ("and no others" in budget_words(report)) == (not everyone)
