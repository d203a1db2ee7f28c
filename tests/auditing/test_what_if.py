"""The settings of a what-if are what audits of their plans say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sightline as sl
from sightline.advising import what_if
from sightline.auditing.result_parts import Exposed, Setting, SettingKind
from sightline.auditing.unit_findings import LinearFindings
from sightline.format import parameter
from sightline.report.page import report_html
from tests.auditing import what_if_plans
from tests.auditing.what_if_plans import audit_of, microgrid_months

pytestmark = pytest.mark.slow


def named(one: Exposed) -> str:
    """The name that a what-if gives: of a yes or no the question, of a category also the category."""
    if one.about is not None:
        return f"one record, about {one.about}"
    return one.record if one.category is None else f"{one.record}, {one.category}"


def compared(result: sl.AuditResult, plan: dict[str, Any], setting: Setting) -> None:
    """One setting against an audit that starts from the table."""
    audit = audit_of(plan, setting)
    status = audit.verdict.status
    assert setting.status == (None if status is None else status.value)
    assert setting.proven == audit.budget.proven
    assert setting.below_limit == audit.verdict.below_limit
    least = audit.least_remaining_uncertainty
    if least is None:
        assert (setting.least, setting.worst) == (None, "nobody")
    else:
        assert setting.least is not None
        assert setting.least.lower == pytest.approx(least.lower, rel=1e-9)
        assert setting.least.upper == pytest.approx(least.upper, rel=1e-6)
    noises = [r.smallest_noise_stddev for r in audit.releases] + [
        r.largest_noise_stddev for r in audit.releases
    ]
    given = [noise for noise in noises if noise is not None]
    ends = (setting.least_noise_stddev, setting.most_noise_stddev)
    assert ends == (pytest.approx((min(given), max(given)), rel=1e-12) if given else (None, None))
    alike = [
        named(one)
        for one in audit.exposed
        if least is not None
        and one.remaining_uncertainty is not None
        and one.remaining_uncertainty.upper == pytest.approx(least.upper, rel=1e-6)
    ]
    assert alike or least is None or not audit.exposed  # the headline's record is on the list
    if alike:
        worst = setting.worst
        # Persons whom only a release that is left out told apart are one kind to that audit.
        several = result.rows > result.records
        assert worst in alike or (
            several and any(set(worst.split(", ")) < set(a.split(", ")) for a in alike if a)
        )


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("name", "stops"),
    [
        ("months", (0.5, 1.0, 20.0)),
        ("budgeted", (2.0,)),
        ("categories", ()),
        ("persons", (1.0,)),
        ("sections", (1.0, 20.0)),
        ("threshold", (1.0, 20.0)),
    ],
)
def test_every_setting_is_what_an_audit_says(
    name: str, stops: tuple[float, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(what_if, "_STOPS", stops)
    plan = {
        "months": lambda: microgrid_months("January", "March", "May"),
        "budgeted": what_if_plans.budgeted,
        "categories": lambda: what_if_plans.categories(tmp_path),
        "persons": lambda: what_if_plans.persons(tmp_path),
        "sections": what_if_plans.sections,
        "threshold": what_if_plans.threshold,
    }[name]()
    result = sl.audit(plan, names=True, what_if=True, full=True)
    found = result.what_if
    assert found is not None
    (own,) = (one for one in found.settings if one.own)
    compared(result, plan, own)
    assert own.below_limit == result.verdict.below_limit
    keys = {(one.kind, one.name) for one in found.settings}
    assert len(keys) == len(found.settings)
    for setting in found.settings:
        compared(result, plan, setting)
    noise = SettingKind.EPSILON if "epsilon" in plan.get("privacy", {}) else SettingKind.FACTOR
    kinds = {setting.kind for setting in found.settings} - {noise}
    wanted = {
        "months": {SettingKind.LEAVE_OUT, SettingKind.PRIOR},
        "budgeted": {SettingKind.LEAVE_OUT, SettingKind.DOES_NOT_KNOW, SettingKind.PRIOR},
        "categories": {SettingKind.LEAVE_OUT},
        "persons": {SettingKind.LEAVE_OUT, SettingKind.PRIOR},
        "sections": {SettingKind.LEAVE_OUT, SettingKind.PRIOR},
        "threshold": {SettingKind.LEAVE_OUT, SettingKind.PRIOR},
    }
    assert kinds == wanted[name]


def test_the_stops_have_the_noise_that_the_advice_asks_for() -> None:
    plan = microgrid_months("January", "March")
    result = sl.audit(plan, what_if=True, full=True)
    assert result.what_if is not None
    (advised,) = [one.noise_factor for one in result.what_to_change if one.kind.value == "noise"]
    (there,) = [one for one in result.what_if.settings if one.name == parameter(advised)]
    assert there.status == "passed"
    assert there.below_limit == 0


def test_it_is_for_the_owner_only_and_survives_json() -> None:
    result = sl.audit(microgrid_months("January", "March"), what_if=True, full=True)
    assert sl.AuditResult.from_json(result.to_json()) == result
    assert "what_if" in result.owner_only
    assert result.publishable().what_if is None
    assert sl.audit(microgrid_months("January", "March"), full=True).what_if is None


def test_a_record_that_the_attacker_does_not_know_after_all_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(what_if, "_STOPS", (1.0,))
    plan = microgrid_months("January", "March") | {"attacker": {"knows": ["home = 'H13'"]}}
    plan["release"] = [
        *plan["release"],
        {
            "name": "H13",
            "sql": "SELECT SUM(evening_watts) FROM data WHERE home = 'H13'",
            "noise_stddev": 10.0,
        },
    ]
    found = sl.audit(plan, names=True, what_if=True).what_if
    assert found is not None
    (setting,) = [one for one in found.settings if one.kind is SettingKind.DOES_NOT_KNOW]
    assert setting.worst == "H13"


def test_unless_names_are_asked_for_nobody_is_named() -> None:
    result = sl.audit(microgrid_months("January", "March"), what_if=True)
    assert result.what_if is not None
    assert all("H" not in one.worst for one in result.what_if.settings)
    assert "one record" in {one.worst for one in result.what_if.settings}


def test_too_much_work_is_the_noise_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LinearFindings, "work", 1e9)
    found = sl.audit(what_if_plans.budgeted(), what_if=True).what_if
    assert found is not None
    assert {one.kind for one in found.settings} == {SettingKind.EPSILON}


COUNT = {"name": "count", "sql": "SELECT COUNT(*) FROM data", "noise_stddev": 1.0}
MEAN = {"name": "mean", "sql": "SELECT AVG(evening_watts) FROM data"}
RUNNING = {
    "name": "running",
    "sql": "SELECT LENGTH(feeder), SUM(evening_watts) FROM data GROUP BY LENGTH(feeder)",
    "running": {"over": "LENGTH(feeder)", "from": 0, "to": 20},
    "noise": {"mechanism": "tree", "noise_multiplier": 1.0},
}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"release": [COUNT]}, "nothing that is published depends on the secret"),
        ({"release": [RUNNING]}, "its numbers share their noise"),
        (
            {"release": [MEAN | {"noise": {"law": "laplace", "epsilon": 1.0}}]},
            "its releases have budgets of their own",
        ),
    ],
    ids=["nothing", "correlated noise", "budgets of their own"],
)
def test_some_plans_have_none_and_say_why(change: dict[str, Any], why: str) -> None:
    result = sl.audit(microgrid_months("January", "March") | change, what_if=True, full=True)
    assert result.what_if is None
    assert result.no_what_if == why
    assert f"No other setting was audited: {why}." in report_html(result)
    assert result.publishable().no_what_if is None


def test_large_plans_have_none_and_say_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(what_if, "MOST_FACTORISED", 1)
    result = sl.audit(microgrid_months("January", "March"), what_if=True)
    assert (result.what_if, result.no_what_if) == (
        None,
        "it has more than 1 numbers, or too many people for so many of them",
    )
    monkeypatch.undo()
    monkeypatch.setattr(what_if, "MOST_FACTORISED", 17)
    result = sl.audit(what_if_plans.threshold(), what_if=True)
    assert result.no_what_if == "it has moments or thresholds of more than 17 rows"


def test_of_a_question_it_says_which(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(what_if, "_STOPS", (1.0,))
    plan = what_if_plans.threshold()
    plan["release"] = [
        {**plan["release"][2], "noise_stddev": 0.05},
        plan["release"][0] | {"noise_stddev": 1e4},
    ]
    result = sl.audit(plan, what_if=True)
    assert result.least_about == "evening_watts > 900"
    assert result.what_if is not None
    assert "one record, about evening_watts > 900" in {one.worst for one in result.what_if.settings}
