"""What to change really helps: more noise keeps everyone above the limit, a dropped release exposes fewer."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

from sightline.auditing import remedies
from sightline.auditing.assemble import assemble
from sightline.auditing.findings import Findings, find
from sightline.auditing.pricing import price
from sightline.auditing.remedies import epsilon_for, least_factor, lowest, noise_factor
from sightline.auditing.result import Change
from sightline.labeled.bounds.scalar_risk import uniform_risk
from sightline.privacy.budget import Budget
from sightline.privacy.registry import accountants
from tests.auditing.hand_made import membership_of, partition, plan_of

GROUPS = [["a", "a", "a", "b", "b"], [None, "", "", "", ""]]
PARTS = [partition(0, "by group"), partition(1, "but one")]


def examination(limit: float, accountant: str = "zcdp", epsilon: float = 200.0) -> Findings:
    plan = plan_of(
        {"name": "by group"},
        {"name": "but one"},
        privacy={"epsilon": epsilon, "delta": 1e-5, "accountant": accountant},
        limits={"remaining_uncertainty": limit},
    )
    return find(plan, membership_of(PARTS, GROUPS))


def noise(changes: tuple[Change, ...]) -> Change:
    (found,) = [change for change in changes if change.kind == "noise"]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("accountant", ["zcdp", "gaussian-dp", "basic-analytic", "advanced"])
def test_the_noise_that_is_recommended_is_enough_and_not_much_more(accountant: str) -> None:
    found = examination(0.6, accountant)
    change = noise(assemble(found).what_to_change)
    assert change.noise_factor is not None
    assert change.epsilon is not None
    assert found.linear is not None
    assert lowest(found, change.noise_factor) >= 0.6
    assert lowest(found, change.noise_factor / 1.02) < 0.6
    # And so is the budget: the same plan with that epsilon passes, with a little more it does not.
    assert assemble(examination(0.6, accountant, change.epsilon)).verdict.passed
    assert not assemble(examination(0.6, accountant, change.epsilon * 1.05)).verdict.passed


@pytest.mark.slow
@pytest.mark.parametrize("accountant", ["zcdp", "laplace"])
@pytest.mark.parametrize("limit", [0.6, 0.9, 0.999])
def test_every_limit_is_reached_with_enough_noise(limit: float, accountant: str) -> None:
    reachable = noise(assemble(examination(limit, accountant)).what_to_change)
    assert reachable.epsilon is not None
    assert assemble(examination(limit, accountant, reachable.epsilon)).verdict.passed
    assert not assemble(examination(limit, accountant, 1.1 * reachable.epsilon)).verdict.passed


@pytest.mark.slow
@given(limit=st.floats(0.05, 0.9), epsilon=st.floats(1.0, 1e4))
@settings(deadline=None, max_examples=30)
def test_enough_noise_is_enough_for_every_limit(limit: float, epsilon: float) -> None:
    found = examination(limit, epsilon=epsilon)
    assert found.linear is not None
    factor = noise_factor(found, found.linear, limit)
    assert factor is not None
    assert factor >= 1
    assert lowest(found, factor) >= limit


@given(target=st.floats(1.0, 1e6))
def test_a_search_ends_on_the_safe_side(target: float) -> None:
    found = least_factor(lambda factor: factor >= target, 2e6)
    assert target <= found <= max(1.02 * target, 1.02)


def test_the_epsilon_buys_at_least_the_noise() -> None:
    found = examination(0.6)
    epsilon = epsilon_for(found, 3.0)
    assert epsilon is not None
    before = accountants(Budget(epsilon=200.0, delta=1e-5))["zcdp"].kappa(2)
    after = accountants(Budget(epsilon=epsilon, delta=1e-5))["zcdp"].kappa(2)
    assert 9 * before <= after <= 9 * before * 1.01


def test_noise_chosen_by_hand_has_no_epsilon_to_recommend() -> None:
    plan = plan_of({"name": "a", "noise_stddev": 0.1}, limits={"remaining_uncertainty": 0.5})
    found = find(plan, membership_of([partition(0, "a")], [["", "", "x"]]))
    change = noise(assemble(found).what_to_change)
    assert change.epsilon is None
    assert change.noise_factor is not None
    assert change.noise_factor > 1


def test_a_dropped_release_exposes_fewer() -> None:
    result = assemble(examination(0.6))
    (drop,) = [
        change for change in result.what_to_change if change.release == "but one" and change.kind == "drop"
    ]
    assert "without it 1 record is no longer identifiable" in drop.text
    plan = plan_of({"name": "by group"})
    without = assemble(find(plan, membership_of(PARTS[:1], GROUPS[:1])))
    assert without.identifiable_records == result.identifiable_records - 1


def test_copies_small_groups_and_differences_are_pointed_out() -> None:
    plan = plan_of({"name": "all"}, {"name": "but one"}, {"name": "again"}, {"name": "rare"})
    parts = [partition(q, name) for q, name in enumerate(("all", "but one", "again", "rare"))]
    rows = [[""] * 8, [None] + [""] * 7, [""] * 8, [None] * 7 + ["x"]]
    texts = [change.text for change in assemble(find(plan, membership_of(parts, rows))).what_to_change]
    assert any('do not publish "again": it repeats "all"' in text for text in texts)
    # Without "all" there would still be "again": only leaving out "but one" helps.
    assert any('do not publish "but one" beside "all": they differ by one record' in text for text in texts)
    assert any('merge "rare: x" with another group: it holds one record' in text for text in texts)


def test_a_passing_plan_is_not_told_to_add_noise() -> None:
    result = assemble(examination(0.5, epsilon=0.1))
    assert result.verdict.passed
    assert all(change.kind != "noise" for change in result.what_to_change)


def test_a_large_table_gets_the_closed_form(monkeypatch: pytest.MonkeyPatch) -> None:
    found = examination(0.6)
    assert found.linear is not None
    searched = noise_factor(found, found.linear, 0.6)
    monkeypatch.setattr(remedies, "_SEARCHABLE", 0)
    closed = noise_factor(found, found.linear, 0.6)
    assert searched is not None
    assert closed is not None
    assert closed >= searched
    # One uniform record if all others are known: 60 % remain where its noise is this share of the range.
    pricing = price(found.plan, found.membership)
    member = np.array(
        [[g == "a" for g in GROUPS[0]], [g == "b" for g in GROUPS[0]], [g == "" for g in GROUPS[1]]]
    )
    sizes = member.sum(axis=1)
    information = ((member / sizes[:, None] / pricing.scale[:, None]) ** 2).sum(axis=0).max()
    enough = brentq(lambda share: 12 * uniform_risk(np.array([share**-2]))[0] - 0.6, 0.1, 2.0)
    assert closed == pytest.approx(enough * 10 * math.sqrt(information), rel=1e-3)
