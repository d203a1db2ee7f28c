"""Designs with a budget: noise moves between releases, and the whole keeps to the budget."""

from __future__ import annotations

import math
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

import sightline as sl
from sightline.advising.task import plan_with_noise
from sightline.auditing.pricing import price
from sightline.auditing.reading import read_plan
from sightline.auditing.session import opened
from sightline.errors import InvalidPlan
from sightline.privacy.registry import accountant_named
from sightline.report.design import lines
from tests.advising.tables import HISTOGRAMS, MEANS, NUMBER, plan_for, write_table

LINEAR = ("gaussian-dp", "zcdp", "renyi", "per-record")
CATEGORY: dict[str, Any] = {"secret": "party", "categories": ["red", "green", "blue"]}


def plan_with_budget(
    table: Path, epsilon: float, accountant: str, releases: tuple[dict[str, Any], ...] = MEANS, **data: Any
) -> dict[str, Any]:
    plan = plan_for(table, releases, noise=1.0, data={**NUMBER, **data})
    for release in plan["release"]:
        release.pop("noise_stddev")
    return {**plan, "privacy": {"epsilon": epsilon, "delta": 1e-5, "accountant": accountant}}


def designed_budget(found: sl.DesignResult) -> sl.AuditResult:
    return sl.audit(sl.Plan.model_validate(tomllib.loads(found.plan)))


@pytest.mark.sampled(3)
@pytest.mark.slow
@pytest.mark.parametrize("grain", ["cell", "release"])
@pytest.mark.parametrize("epsilon", [2.0, 60.0])
@pytest.mark.parametrize("accountant", LINEAR)
def test_the_proposal_keeps_the_limit_and_the_budget(
    tmp_path: Path, accountant: str, epsilon: float, grain: str
) -> None:
    found = sl.design(
        plan_with_budget(write_table(tmp_path), epsilon, accountant), limit=0.5, grain=grain, loss="variance"
    )
    assert found.passed
    audit = designed_budget(found)
    assert audit.verdict.passed is True
    assert audit.budget.proven
    assert found.budget is not None
    assert found.budget.epsilon_spent == audit.budget.spent[accountant] <= epsilon
    assert found.loss_designed <= found.loss_with_common_factor * (1 + 1e-6)
    assert found.binds is (epsilon > 20)
    prices = sum(one.price for one in found.attacks) + found.budget.price
    if found.attacks_in_all <= len(found.attacks):
        assert prices == pytest.approx(1)
    if not found.binds:
        assert found.budget.epsilon_spent == pytest.approx(epsilon, rel=1e-6)
        assert found.gap is not None
        assert found.gap < 1e-6
        assert "The budget alone keeps the limit" in "\n".join(lines(found))


@pytest.mark.slow
@pytest.mark.parametrize("accountant", ["zcdp", "per-record"])
def test_the_best_way_to_share_a_budget(tmp_path: Path, accountant: str) -> None:
    """Where the limit does not bind: an independent solver over the noise of every number."""
    content = plan_with_budget(write_table(tmp_path), 1.0, accountant)
    found = sl.design(content, limit=0.5, loss="variance")
    plan, base = read_plan(content)
    with opened(plan, base) as session:
        membership = session.membership()
    pricing = price(plan, membership)
    owner = np.array([cell.partition for cell in membership.cells])
    assert plan.privacy.epsilon > 0
    assert plan.privacy.delta > 0
    budget = sl.Budget(epsilon=plan.privacy.epsilon, delta=plan.privacy.delta)
    most = 1 / accountant_named(accountant, budget).kappa(1)
    memberships = np.array(
        [[membership.positions(p)[k] for p in range(3)] for k in range(len(membership.signatures))]
    )

    def slack(logarithms: np.ndarray) -> np.ndarray:
        cost = pricing.sensitivity**2 / np.exp(logarithms)
        if accountant == "per-record":
            return 1 - np.append(cost, 0.0)[memberships].sum(axis=1) / most
        picks = np.meshgrid(*[np.flatnonzero(owner == p) for p in range(3)], indexing="ij")
        return 1 - sum(cost[pick.ravel()] for pick in picks) / most

    start = np.log(pricing.scale**2)
    unit = float(np.sum(pricing.scale**2))
    theirs = minimize(
        lambda logarithms: float(np.sum(np.exp(logarithms))) / unit,
        start,
        jac=lambda logarithms: np.exp(logarithms) / unit,
        method="SLSQP",
        constraints={"type": "ineq", "fun": slack},
        options={"ftol": 1e-14, "maxiter": 2000},
    )
    assert np.min(slack(theirs.x)) > -1e-7
    assert found.loss_designed == pytest.approx(theirs.fun * unit, rel=1e-6)
    assert found.loss_designed < 0.99 * found.loss_before


@pytest.mark.slow
@pytest.mark.parametrize("grain", ["cell", "release"])
def test_floors_and_ceilings_beside_a_budget(tmp_path: Path, grain: str) -> None:
    plain = plan_with_budget(write_table(tmp_path), 1.0, "gaussian-dp")
    free = {
        one.release: one
        for one in sl.design(plain, limit=0.5, grain=grain, loss="variance").noise
        if not one.cell
    }
    low, high = 0.7 * free["all"].stddev, 0.8 * free["all"].stddev
    for bounds in ([0, high], [1.6 * low, math.inf]):
        bound = bounds[0] or bounds[1]
        releases = tuple({**one, "noise_within": bounds} if one["name"] == "all" else one for one in MEANS)
        plan = plan_with_budget(write_table(tmp_path), 1.0, "gaussian-dp", releases)
        found = sl.design(plan, limit=0.5, grain=grain, loss="variance")
        (mine,) = (one.stddev for one in found.noise if one.release == "all")
        assert mine == pytest.approx(bound, rel=1e-4)
        assert bounds[0] <= mine <= bounds[1]
        assert found.budget is not None
        assert found.budget.epsilon_spent <= 1.0
        assert found.gap is not None
        assert found.gap < 1e-6


@pytest.mark.slow
def test_ceilings_that_the_budget_does_not_allow_are_refused(tmp_path: Path) -> None:
    releases = tuple({**one, "noise_within": [0, 900.0]} for one in MEANS)
    plan = plan_with_budget(write_table(tmp_path), 0.5, "gaussian-dp", releases)
    with pytest.raises(InvalidPlan, match="expected ceilings with which the budget can be kept"):
        sl.design(plan, limit=0.5, loss="variance")


@pytest.mark.slow
@pytest.mark.parametrize("accountant", ["basic", "advanced"])
def test_without_a_sum_every_release_keeps_its_share(tmp_path: Path, accountant: str) -> None:
    found = sl.design(plan_with_budget(write_table(tmp_path), 60.0, accountant), limit=0.9, loss="variance")
    assert found.budget is None
    assert all(one.stddev >= one.stddev_before for one in found.noise)
    assert found.passed


@pytest.mark.slow
def test_a_histogram_shares_one_level(tmp_path: Path) -> None:
    content = plan_with_budget(write_table(tmp_path), 1.0, "gaussian-dp", HISTOGRAMS)
    content["data"] = {**content["data"], **CATEGORY}
    del content["data"]["bounds"]
    found = sl.design(content, limit=0.3, loss="variance")
    assert found.passed
    assert found.budget is not None
    assert found.budget.epsilon_spent == pytest.approx(1.0, rel=1e-6)
    plan, base = read_plan(content)
    with opened(plan, base) as session:
        membership = session.membership()
    noise = np.array([one.stddev for one in found.noise])
    again = price(plan_with_noise(plan, membership, noise), membership)
    cost = sum(float(times) for times in again.multipliers**-2.0)
    assert cost <= 1 / sl.GaussianDP(sl.Budget(epsilon=1.0, delta=1e-5)).kappa(1)


@pytest.mark.slow
def test_releases_with_their_own_noise_are_outside_the_budget(tmp_path: Path) -> None:
    plan = plan_with_budget(write_table(tmp_path), 1.0, "gaussian-dp")
    plan["release"][0]["noise_stddev"] = 30.0
    plan["release"][0]["published"] = True
    found = sl.design(plan, limit=0.5, loss="variance")
    assert found.budget is not None
    assert found.budget.epsilon_spent == pytest.approx(1.0, rel=1e-6)
    assert next(one for one in found.noise if one.release == "all").stddev == 30.0
