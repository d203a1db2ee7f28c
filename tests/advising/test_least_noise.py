"""The least noise: laws of its limits, its certificate, and an independent solver."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.advising import least_noise as method
from sightline.advising.hidden_limits import inverse_of_sum
from sightline.advising.least_noise import (
    CLOSE,
    NO_BUDGET,
    Prices,
    Tangents,
    if_enough,
    least_noise,
    lower_bound,
)
from sightline.arrays import FloatArray
from tests.advising.noise_problems import (
    COSINE,
    UNIFORM,
    limits_of,
    naive_information,
    naive_optimum,
    naive_shares,
    problem_of,
    rows_of,
)

VARIETIES: dict[str, dict[str, Any]] = {
    "hidden": {},
    "known": {"kinds": "known"},
    "both": {"kinds": "both"},
    "persons": {"kinds": "persons"},
    "published": {"fixed": 1},
    "ceilings": {"ceiling": 3e3, "kinds": "both"},
    "by release": {"grouped": True},
    "by release, published, ceilings": {"grouped": True, "fixed": 1, "ceiling": 1e3},
    "several rows": {"several": True},
    "cosine": {"prior": COSINE, "kinds": "both", "ceiling": 3e3},
    "a budget": {"budget": 2.0},
    "a budget that binds": {"budget": 0.01, "kinds": "both"},
    "a budget, by release": {"budget": 1.0, "grouped": True},
    "a budget, ceilings": {"budget": 2.0, "ceiling": 3e3, "kinds": "both"},
}

seeds = st.integers(0, 10_000)
varieties = st.sampled_from(sorted(VARIETIES))
HIDDEN = sorted(name for name, one in VARIETIES.items() if one.get("kinds") != "known")


def drawn_u(generator: np.random.Generator, size: int, most: float = 4.0) -> FloatArray:
    return np.append(10 ** (-most * generator.random(size - 1)), 1.0)


@given(seed=seeds, variety=st.sampled_from(HIDDEN), share=st.floats(0.0, 1.0))
def test_information_is_concave_in_the_precisions_and_its_inverse_in_the_variances(
    seed: int, variety: str, share: float
) -> None:
    """Of persons the limits are convex in the variances alone: they hide like whoever is seen best."""
    problem, generator = (
        problem_of(rows_of(seed), seed=seed, **VARIETIES[variety]),
        np.random.default_rng(seed),
    )
    (limits,) = problem.hidden
    one, two = (problem.rows @ drawn_u(generator, problem.weights.size) for _ in range(2))
    ends = [naive_information(limits, p) for p in (one, two)]
    np.testing.assert_allclose(limits.at(one).limited, ends[0], rtol=1e-6)
    if not limits.seen_best:
        between = naive_information(limits, share * one + (1 - share) * two)
        assert np.all(between >= (share * ends[0] + (1 - share) * ends[1]) * (1 - 1e-7))
    between = naive_information(limits, 1 / (share / one + (1 - share) / two))
    kept = np.all([end <= limits.most for end in ends], axis=0)
    assert np.all(between[kept] <= limits.most[kept] * (1 + 1e-9))
    assert np.all(naive_information(limits, np.maximum(one, two)) >= ends[0] * (1 - 1e-7))


@given(seed=seeds, variety=st.sampled_from(HIDDEN))
def test_slopes_are_the_derivatives(seed: int, variety: str) -> None:
    problem, generator = (
        problem_of(rows_of(seed), seed=seed, **VARIETIES[variety]),
        np.random.default_rng(seed),
    )
    (limits,) = problem.hidden
    p = problem.rows @ drawn_u(generator, problem.weights.size, 2.0)
    everyone, step = np.arange(len(limits)), 1e-5
    slopes = limits.at(p).tangents(everyone).slopes[: everyone.size]
    direction = generator.random(p.size) * p
    told = np.sort(limits.told(p))
    if limits.seen_best and told[-1] - told[-2] < 1e-3 * told[-1]:
        return  # two are seen best: there are two slopes
    ends = [naive_information(limits, p + sign * step * direction) for sign in (1, -1)]
    np.testing.assert_allclose(slopes @ direction, (ends[0] - ends[1]) / (2 * step), rtol=1e-3, atol=1e-6)


@given(seed=seeds, variety=st.sampled_from(HIDDEN))
def test_a_tangent_is_stricter_than_its_limit(seed: int, variety: str) -> None:
    problem, generator = (
        problem_of(rows_of(seed), seed=seed, **VARIETIES[variety]),
        np.random.default_rng(seed),
    )
    (limits,) = problem.hidden
    here, there = (problem.rows @ drawn_u(generator, problem.weights.size) for _ in range(2))
    tangents = limits.at(here).tangents(np.arange(len(limits)))
    over = (tangents.slopes @ there - tangents.room).reshape(-1, len(limits)).max(axis=0)
    used = naive_information(limits, there) - limits.most
    assert np.all(used <= over + 1e-7 * (np.abs(used) + limits.most))


@given(seed=seeds, variety=st.sampled_from(HIDDEN))
def test_any_recipe_is_a_valid_cut(seed: int, variety: str) -> None:
    """A recipe says what a sum of variances must be at least: no noise that keeps the limits is less."""
    problem, generator = (
        problem_of(rows_of(seed), seed=seed, **VARIETIES[variety]),
        np.random.default_rng(seed),
    )
    (limits,) = problem.hidden
    here, there = (problem.rows @ drawn_u(generator, problem.weights.size, 6.0) for _ in range(2))
    tangents = limits.at(here).tangents(np.arange(len(limits)))
    kept = np.tile(naive_information(limits, there) <= limits.most, tangents.cuts.size // len(limits))
    asked = (tangents.slopes * here**2) @ (1 / there)
    assert np.all(asked[kept] >= tangents.cuts[kept] * (1 - 1e-7) - 1e-9)


@given(seed=seeds, variety=varieties, size=st.floats(-3, 3))
def test_any_prices_and_recipes_bound_the_loss_from_below(seed: int, variety: str, size: float) -> None:
    problem, generator = (
        problem_of(rows_of(seed), seed=seed, **VARIETIES[variety]),
        np.random.default_rng(seed),
    )
    for least in if_enough(lambda: least_noise(problem)):
        u = drawn_u(generator, problem.weights.size)
        tangents = Tangents.of(problem, problem.seen(u), [np.arange(len(one)) for one in problem.hidden])
        budget = problem.budget
        shares = generator.random(budget.cost.size)
        each = np.bincount(budget.release, shares)[budget.release] if shares.size else shares
        prices = Prices(
            linear=10**size * generator.random(problem.linear.shape[0]),
            budget=10**size * shares / each,
            tangents=10**size * generator.random(tangents.target.size),
        )
        assert lower_bound(problem, tangents, prices, u) <= least.upper * (1 + 1e-12)


@pytest.mark.sampled(6)
@pytest.mark.slow
@pytest.mark.parametrize("variety", VARIETIES)
@pytest.mark.parametrize("seed", range(6))
def test_an_independent_solver_finds_the_same_optimum(variety: str, seed: int) -> None:
    problem = problem_of(rows_of(seed), seed=seed, **VARIETIES[variety])
    found = least_noise(problem)
    assert found.lower <= found.upper == problem.loss(found.u)
    assert np.max(naive_shares(problem, found.u)) <= 1 + 1e-7
    assert np.all((found.u <= 1) & (found.u >= problem.low))
    if not problem.hidden:
        assert found.gap <= 1e-6
    elif variety != "persons":  # some of whose limits prove nothing
        assert found.gap <= 4 * CLOSE
    theirs = naive_optimum(problem, found.u)
    assert found.upper <= theirs * (1 + 1e-5)
    assert found.lower <= theirs * (1 + 1e-6)


def test_noise_that_keeps_the_limits_stays() -> None:
    found = least_noise(problem_of(rows_of(1), floor=1e4))
    assert found.u.tolist() == [1.0] * 7
    assert found.gap == 0.0


def test_ceilings_that_are_too_low_are_told() -> None:
    with pytest.raises(method.NotEnough, match="ceilings"):
        least_noise(problem_of(rows_of(1), floor=1e-3, ceiling=1.01))


def test_published_numbers_that_break_the_limit_are_told() -> None:
    problem = problem_of(rows_of(1), fixed=4)  # rows 0 and 1, which differ by a record, are not among them
    assert least_noise(problem).upper > 0
    alone = problem_of(np.roll(rows_of(1), -2, axis=0), fixed=4)
    sharp = alone.rows.toarray()
    sharp[:, -1] *= 1e4
    with pytest.raises(method.NotEnough):
        least_noise(replace(alone, rows=type(alone.rows)(sharp)))


@given(seed=seeds, variety=varieties, far=st.floats(0.2, 5.0))
def test_a_guess_changes_where_the_method_starts_and_not_what_it_finds(
    seed: int, variety: str, far: float
) -> None:
    problem = problem_of(rows_of(seed), seed=seed, **VARIETIES[variety])
    for found in if_enough(lambda: least_noise(problem)):
        again = least_noise(problem, guess=1 / (1 + far * (1 / found.u - 1)))
        assert problem.most_used(again.u) <= 1 + 1e-9
        assert again.lower <= found.upper * (1 + 1e-12)
        assert again.upper <= found.upper * (1 + 1e-4)


@pytest.mark.parametrize("variety", ["known", "a budget that binds", "a budget, by release"])
@pytest.mark.parametrize("seed", range(4))
def test_prices_that_start_at_zero_are_found(
    monkeypatch: pytest.MonkeyPatch, variety: str, seed: int
) -> None:
    """The root of a price has no slope at 0: the search is begun again."""
    problem = problem_of(rows_of(seed), seed=seed, **{**VARIETIES[variety], "kinds": "known"})
    plain = least_noise(problem)
    real = method._Dual.start

    def with_zeros(self: Any, before: FloatArray) -> FloatArray:
        found = real(self, before)
        found[: self.limits + bool(self.problem.budget.cost.size) : 2] = 0.0
        return found

    monkeypatch.setattr(method._Dual, "start", with_zeros)
    assert least_noise(problem).upper == pytest.approx(plain.upper, rel=1e-5)


def test_targets_that_a_step_would_break_join_later(monkeypatch: pytest.MonkeyPatch) -> None:
    A = rows_of(3, records=40, rows=8)
    problem = problem_of(A, seed=3, several=True)
    whole = least_noise(problem)
    monkeypatch.setattr(method, "_ALL", 1)
    monkeypatch.setattr(method, "_EACH_ROW", 0)
    few = least_noise(problem)
    assert few.prices.tangents.size < whole.prices.tangents.size
    assert few.upper == pytest.approx(whole.upper, rel=1e-5)
    assert few.gap <= 4 * CLOSE


def test_records_that_others_see_best_make_a_limit_each() -> None:
    """Of persons with several rows: equal columns are one record, and the first is the one seen best."""
    A = np.array([[1.0, 1.0, 0.0, 1.0], [0.0, 0.0, 1.0, 1.0]])
    limits = limits_of(A, np.array([0]), counts=np.ones(4), persons=True)
    told = limits.told(np.array([2.0, 1.0]))
    best = limits.likeliest(told)
    assert told[best].tolist() == [3.0, 2.0, 1.0]
    assert limits.at(np.array([2.0, 1.0])).tangents(np.array([0])).cuts[1:].tolist() == [0.0, 0.0]
    plain = limits_of(A, np.array([0]), counts=np.ones(4), prior=UNIFORM)
    assert plain.likeliest(told).size == 0
    assert NO_BUDGET.spent(np.ones(2)) == 0.0


@pytest.mark.sampled(2)
@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 7, 255, 256, 300, pytest.param(530, marks=pytest.mark.thorough)])
def test_the_inverse_is_that_of_a_general_solver(size: int) -> None:
    generator = np.random.default_rng(size)
    A = generator.standard_normal((size, size + 3))
    s = np.exp(3 * generator.standard_normal(size))
    products = A @ A.T
    wanted = np.linalg.inv(products + np.diag(s))
    assert inverse_of_sum(products, s) == pytest.approx(wanted, rel=1e-8, abs=1e-9 * np.abs(wanted).max())
