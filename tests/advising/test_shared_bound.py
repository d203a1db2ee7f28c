"""The bound by shared noise: ResidualPlanner's closed form, and below all noise that keeps the limits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sightline as sl
from sightline.advising.choice import Chosen, best_noise, targets_of
from sightline.advising.fitted_loss import FittedLoss
from sightline.advising.loss import Loss
from sightline.advising.shared_bound import shared_bound, shared_problem
from sightline.advising.task import DesignTask, Grain, task_of
from sightline.auditing.reading import read_plan
from sightline.auditing.session import opened
from tests.advising.tables import (
    CATEGORY,
    COUNTS,
    HISTOGRAMS,
    MEANS,
    NUMBER,
    YES_OR_NO,
    plan_for,
    write_table,
)
from tests.advising.test_design_for_the_fit import FIT, closed_form, full_domain, tables_plan


def made(content: dict[str, Any], limit: float) -> tuple[DesignTask, FittedLoss, Chosen]:
    plan, base = read_plan({**content, **FIT})
    with opened(plan, base) as session:
        task = task_of(plan, session.membership(), limit=limit, grain=Grain.CELL, loss=Loss.VARIANCE)
        task = task.for_the_fit()
    assert task.fitted is not None
    return task, task.fitted, best_noise(replace(task, fitted=None), targets_of(task), [])


@pytest.mark.parametrize("each", [1, 8])
def test_on_a_full_domain_with_a_budget_it_is_the_closed_form_of_residual_planner(
    each: int, tmp_path: Path
) -> None:
    task, _, chosen = made(tables_plan(full_domain(tmp_path, each)), 0.01)
    assert shared_bound(task, chosen) == pytest.approx(closed_form().shared_optimum, rel=1e-8)


PLANS: dict[str, dict[str, Any]] = {
    "hidden": {"releases": MEANS, "noise": 1.0, "data": NUMBER},
    "known": {"releases": MEANS, "noise": 1.0, "data": NUMBER, "attacker": {"prior": "two-point"}},
    "cos2": {"releases": MEANS, "noise": 3.0, "data": NUMBER, "attacker": {"prior": "cos2"}},
    "yes or no": {"releases": COUNTS, "noise": 0.1, "data": YES_OR_NO},
    "category": {"releases": HISTOGRAMS, "noise": 0.1, "data": CATEGORY},
    "attacker knows": {
        "releases": MEANS,
        "noise": 1.0,
        "data": NUMBER,
        "attacker": {"knows": ["town = 't1' AND job = 'j1'"]},
    },
    "copies": {"releases": ({**MEANS[0], "times": 4}, *MEANS[1:]), "noise": 1.0, "data": NUMBER},
}


@pytest.mark.parametrize("name", PLANS)
def test_no_noise_that_keeps_the_chosen_bounds_has_a_smaller_loss(name: str, tmp_path: Path) -> None:
    task, fitted, chosen = made(plan_for(write_table(tmp_path, people=30), **PLANS[name]), 0.5)
    bound = shared_bound(task, chosen)
    assert bound <= fitted.total(noise(task, chosen.optimum.u))
    chosen = chosen.attacked or chosen  # of few values the bound is by linear attacks
    problem, best = chosen.problem, fitted.total(noise(task, chosen.optimum.u))
    generator = np.random.default_rng(3)
    assert 0.35 * best < bound <= best
    for spread in (0.1, 0.5, 2.0):
        for _ in range(10):
            u = chosen.optimum.u * np.exp(generator.uniform(-spread, spread, chosen.optimum.u.size))
            kept = problem.within(np.minimum(np.append(u[:-1], 1.0), 1.0))
            assert problem.most_used(kept) <= 1
            assert bound <= fitted.total(noise(task, kept))


def used(problem: Any, precision: np.ndarray) -> float:
    """The largest share of a limit that some noise uses, target by target."""
    shares = [np.einsum("is,ij,js->s", problem.known, precision, problem.known).max()]
    for one, columns, hiders in zip(problem.hidden, problem.columns, problem.hiders, strict=True):
        tau = 1 / one.prior.precision(np.einsum("ik,ij,jk->k", hiders, precision, hiders))
        for j, a in enumerate(columns.T):
            counts = one.counts.copy()
            counts[one.own[j]] -= one.removed[j]
            others = np.linalg.inv(precision) + (hiders * (counts * tau)) @ hiders.T
            shares.append(a @ np.linalg.solve(others, a) / one.most[j])
    return float(max(shares))


@pytest.mark.parametrize(("name", "near"), [("hidden", 1.03), ("cos2", 1.15), ("known", 1.01)])
def test_it_is_below_all_shared_noise_and_near_the_best(name: str, near: float, tmp_path: Path) -> None:
    task, _, chosen = made(plan_for(write_table(tmp_path, people=25), **PLANS[name]), 0.5)
    ((problem, start),) = shared_problem(task, chosen)
    bound, last = problem.bound(start)
    generator, losses = np.random.default_rng(4), []
    for spread in (0.0, 0.003, 0.03, 0.3):
        for _ in range(8):
            turn = np.eye(len(last)) + spread * generator.normal(size=last.shape) / len(last)
            precision = turn @ last @ turn.T
            while (share := used(problem, precision)) > 1:
                precision = precision / max(share, 1 + 1e-9)
            losses.append(float(np.trace(problem.loss @ np.linalg.inv(precision))))
    assert bound <= min(losses)
    assert min(losses) <= bound * near


def noise(task: DesignTask, u: np.ndarray) -> np.ndarray:
    return np.asarray(task.floor * np.sqrt(task.factors(u)))


@pytest.mark.slow
def test_the_design_says_it(tmp_path: Path) -> None:
    content = plan_for(write_table(tmp_path, people=20), noise=1.0, releases=MEANS, data=NUMBER, **FIT)
    found = sl.design(content, limit=0.5, loss="variance")
    assert found.binds
    assert found.gap is not None
    assert 0 < found.gap < 0.5
