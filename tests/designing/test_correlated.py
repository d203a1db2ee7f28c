"""Correlated noise: the least covariance, its lower bound, and plans that state it."""

from __future__ import annotations

import math
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

import sightline as sl
from sightline.arrays import FloatArray
from sightline.auditing.plan import Plan
from sightline.auditing.plan_text import plan_text, publishable_plan_text
from sightline.auditing.pricing import price
from sightline.auditing.reading import read_plan
from sightline.designing.correlated import least_correlated_noise
from sightline.designing.newton import least_noise
from sightline.designing.problem import FIXED, NoiseProblem
from sightline.designing.risks import HiddenRisks
from sightline.errors import InvalidPlan
from tests.auditing.hand_made import membership_of, partition, plan_of
from tests.designing.noise_problems import problem_of, rows_of
from tests.designing.tables import (
    CATEGORY,
    COUNTS,
    HISTOGRAMS,
    MEANS,
    NUMBER,
    YES_OR_NO,
    plan_for,
    write_table,
)


def ratios(problem: NoiseProblem, covariance: FloatArray) -> FloatArray:
    """Every constraint over what it must be, by dense systems."""
    found = []
    for one in problem.risks:
        products, tau = (one.products, one.tau) if isinstance(one, HiddenRisks) else (0.0, 0.0)
        columns = one.columns.toarray()
        images = np.linalg.solve(covariance + products, columns)
        found.append((1 / np.sum(columns * images, axis=0) - tau) / one.needed)
    return np.concatenate(found)


def worst(problem: NoiseProblem, covariance: FloatArray) -> float:
    return float(np.min(ratios(problem, covariance)))


def loss(problem: NoiseProblem, covariance: FloatArray) -> float:
    free = problem.variable != FIXED
    weights = problem.weights[problem.variable[free]] / problem.floors[free]
    return float(weights @ np.diagonal(covariance)[free])


def solved(problem: NoiseProblem) -> tuple[float, Any]:
    independent = least_noise(problem)
    assert independent is not None
    variances = problem.variances(independent.x)
    return independent.upper, least_correlated_noise(problem, variances)


@pytest.mark.slow
@pytest.mark.parametrize("kinds", ["hidden", "known", "both"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_correlated_noise_costs_less_with_a_certified_gap(kinds: str, seed: int) -> None:
    problem = problem_of(rows_of(seed), seed=seed, kinds=kinds, fixed=seed % 2)
    independent, found = solved(problem)
    assert worst(problem, found.covariance) >= 1 - 1e-9
    assert np.linalg.eigvalsh(found.covariance - np.diag(problem.floors))[0] >= -1e-9
    assert loss(problem, found.covariance) == pytest.approx(found.upper)
    assert found.lower <= found.upper
    assert found.gap < 1e-4
    assert 1.2 < independent / found.upper < 4


@pytest.mark.slow
@pytest.mark.parametrize("kinds", ["hidden", "known"])
def test_the_optimum_is_that_of_another_solver(kinds: str) -> None:
    """Sequential quadratic programming over a triangular factor, from several starts."""
    problem = problem_of(rows_of(4, records=6, rows=3), seed=4, kinds=kinds)
    _, found = solved(problem)
    at = np.tril_indices(3)

    def covariance(x: FloatArray) -> FloatArray:
        L = np.zeros((3, 3))
        L[at] = x
        return np.diag(problem.floors) + L @ L.T

    best = math.inf
    for start in range(3):
        first = np.random.default_rng(start).normal(size=6) * math.sqrt(found.upper / problem.weights.min())
        other = minimize(
            lambda x: loss(problem, covariance(x)) / found.upper,
            first,
            method="SLSQP",
            constraints={"type": "ineq", "fun": lambda x: ratios(problem, covariance(x)) - 1},
            options={"maxiter": 500, "ftol": 1e-12},
        )
        if worst(problem, covariance(other.x)) > 1 - 1e-6:
            best = min(best, float(other.fun))
    assert best == pytest.approx(1.0, rel=1e-5)
    assert best >= found.lower / found.upper - 1e-5


@pytest.mark.slow
@settings(max_examples=20)
@given(st.integers(0, 1000))
def test_no_covariance_that_keeps_the_limits_costs_less_than_the_bound(seed: int) -> None:
    problem = problem_of(rows_of(seed % 7), seed=seed % 7, kinds=("hidden", "known", "both")[seed % 3])
    _, found = solved(problem)
    generator = np.random.default_rng(seed)
    R = generator.normal(size=(6, 6)) * np.sqrt(np.diagonal(found.covariance))[:, None]
    added, floors, factor = R @ R.T, np.diag(problem.floors), 1e-3
    while worst(problem, floors + factor * added) < 1:
        factor *= 1.05
    assert loss(problem, floors + factor * added) >= found.lower


# ------------------------------------------------------------------ plans


@pytest.mark.slow
def test_independent_noise_is_proposed_where_correlated_noise_costs_more(tmp_path: Path) -> None:
    """Records hide each other better under independent noise, here by more than correlation saves."""
    plan = plan_for(write_table(tmp_path), MEANS, noise=1.0, data=NUMBER, limits={"accept": ["homogeneous"]})
    found, independent = sl.design(plan, limit=0.3, noise="correlated"), sl.design(plan, limit=0.3)
    assert found.loss_independent is None
    assert found.loss_designed == pytest.approx(independent.loss_designed)
    assert found.passed
    assert "correlation" not in tomllib.loads(found.plan)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("releases", "noise", "data"),
    [(COUNTS, 0.1, YES_OR_NO), (COUNTS, 0.02, YES_OR_NO)],
    ids=["some noise", "little noise"],
)
def test_the_plan_states_the_correlation_and_passes_the_audit(
    tmp_path: Path, releases: Any, noise: float, data: dict[str, Any]
) -> None:
    accept = {"accept": ["homogeneous"]}
    plan = plan_for(write_table(tmp_path), releases, noise=noise, data=data, limits=accept)
    found, independent = sl.design(plan, limit=0.3, noise="correlated"), sl.design(plan, limit=0.3)
    assert found.loss_independent == pytest.approx(independent.loss_designed)
    assert found.loss_designed < 0.85 * independent.loss_designed
    assert found.gap is not None
    assert found.gap < 1e-4
    proposed = tomllib.loads(found.plan)
    assert len(proposed["correlation"]["numbers"]) == len(found.noise)
    assert found.passed
    assert sl.audit(proposed).verdict.passed is True
    del proposed["correlation"]  # the same noise without its correlation does not do
    assert sl.audit(proposed).verdict.passed is False


def correlated(folder: Path, value: float, **changes: Any) -> dict[str, Any]:
    """A mean of all and a mean without P3, with correlated noise."""
    releases = (
        {"name": "all", "sql": "SELECT AVG(hours) FROM data"},
        {"name": "most", "sql": "SELECT AVG(hours) FROM data WHERE id <> 'P3'"},
    )
    plan = plan_for(write_table(folder, people=12), releases, noise=0.5, data=NUMBER)
    names = [{"release": "all"}, {"release": "most"}]
    return {**plan, "correlation": {"numbers": names, "rows": [[], [value]], **changes}}


@pytest.mark.slow
def test_the_audit_of_correlated_noise_is_that_of_its_covariance(tmp_path: Path) -> None:
    """The difference of two sums has the variance of a form in the covariance, written out."""
    for value in (-0.9, 0.0, 0.5, 0.99):
        found = sl.audit(correlated(tmp_path, value), names=True)
        mine = next(one for one in found.exposed if one.record == "P3")
        assert mine.recipe is not None
        expected = 0.5 * math.sqrt(12**2 + 11**2 - 2 * 12 * 11 * value)
        assert mine.rmse == pytest.approx(expected)
        assert mine.recipe.rmse == pytest.approx(expected)


@pytest.mark.slow
def test_accountants_count_the_least_independent_noise(tmp_path: Path) -> None:
    spent = [sl.audit(correlated(tmp_path, value)).budget.spent["zcdp"] for value in (0.0, 0.5, 0.99)]
    assert spent[0] < spent[1] < spent[2]
    plan = plan_of(
        {"name": "a", "noise_stddev": 2.0},
        {"name": "b", "noise_stddev": 2.0},
        correlation={"numbers": [{"release": "a"}, {"release": "b"}], "rows": [[], [0.75]]},
    )
    pricing = price(plan, membership_of([partition(0), partition(1)], [["", ""], ["", None]]))
    assert pricing.noise_stddev.tolist() == [2.0, 2.0]
    assert pricing.accounted_scale == pytest.approx([1.0, 1.0])  # the least eigenvalue is 1/4


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rows": [[], [1.0]]}, "between -1 and 1, got another"),
        ({"rows": [[0.5]]}, "a row for each number"),
        (
            {"numbers": [{"release": "all"}, {"release": "none"}]},
            "numbers that the plan publishes, got 'none'",
        ),
        ({"numbers": [{"release": "all"}, {"release": "all"}]}, "each number once"),
        ({"rows": [[], [1 - 1e-12]]}, "got a combination without noise"),
    ],
)
def test_correlations_that_make_no_sense_are_refused(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidPlan, match=message):
        sl.audit(correlated(tmp_path, 0.5, **changes))


@pytest.mark.slow
def test_plans_without_a_theory_of_correlated_noise_are_refused(tmp_path: Path) -> None:
    plan = correlated(tmp_path, 0.5)
    plan["release"][0]["times"] = 2
    with pytest.raises(InvalidPlan, match="releases with a noise of their own, published once"):
        sl.audit(plan)
    plan = correlated(tmp_path, 0.5)
    plan["data"]["max_rows_per_record"] = 2
    with pytest.raises(InvalidPlan, match="means, sums and counts of records with one row"):
        sl.audit(plan)
    names = [{"release": "red"}, {"release": "by town", "key": ["t1"], "label": "x"}]
    plan = plan_for(write_table(tmp_path), HISTOGRAMS, noise=1.0, data=CATEGORY)
    with pytest.raises(InvalidPlan, match="got a secret of three categories or more"):
        sl.audit({**plan, "correlation": {"numbers": names, "rows": [[], [0.1]]}})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "release", "message"),
    [
        ({"noise": "white"}, {}, "expected one of independent, correlated, got 'white'"),
        ({"loss": "largest"}, {}, "for correlated noise loss = variance or relative"),
        ({"grain": "release"}, {}, "for correlated noise grain = cell"),
        ({}, {"most_noise_stddev": 9.0}, "for correlated noise no ceilings"),
        ({}, {"times": 2}, "for correlated noise releases that are published once"),
    ],
)
def test_designs_that_are_not_offered_are_refused(
    tmp_path: Path, options: dict[str, Any], release: dict[str, Any], message: str
) -> None:
    plan = plan_for(write_table(tmp_path), tuple({**one, **release} for one in MEANS), noise=1.0, data=NUMBER)
    with pytest.raises((InvalidPlan, sl.errors.InvalidInput), match=message):
        sl.design(plan, **{"limit": 0.5, "noise": "correlated", **options})


def test_a_plan_with_correlated_noise_is_not_designed_again(tmp_path: Path) -> None:
    with pytest.raises(InvalidPlan, match=r"expected a plan without \[correlation\]"):
        sl.design(correlated(tmp_path, 0.5), limit=0.5)


def test_a_plan_with_correlation_is_read_back_and_publishes_no_key(tmp_path: Path) -> None:
    plan = read_plan(correlated(tmp_path, -1 / 3))[0]
    assert Plan.model_validate(tomllib.loads(plan_text(plan))) == plan
    assert "correlation" not in publishable_plan_text(plan)
