"""The least noise: laws of its constraints, its certificate, and an independent solver."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.advising.iterate import Iterate
from sightline.advising.newton import least_noise
from sightline.advising.problem import (
    Cuts,
    NotEnough,
    RiskAt,
    Risks,
    RowLimits,
    common_factor,
    if_enough,
    inverse_of_sum,
)
from sightline.arrays import FloatArray
from tests.advising.noise_problems import (
    COSINE,
    UNIFORM,
    naive_optimum,
    naive_phi,
    problem_of,
    rows_of,
    variances,
)

VARIETIES: dict[str, dict[str, Any]] = {
    "hidden": {},
    "known": {"kinds": "known"},
    "both": {"kinds": "both"},
    "published": {"fixed": 1},
    "ceilings": {"ceiling": 400.0, "kinds": "both"},
    "by release": {"grouped": True},
    "by release, published, ceilings": {"grouped": True, "fixed": 2, "ceiling": 1e3},
    "following": {"prior": UNIFORM},
    "following, several rows": {"prior": UNIFORM, "several": True},
    "following, both": {"prior": COSINE, "kinds": "both", "ceiling": 400.0},
    "following, published, by release": {"prior": UNIFORM, "grouped": True, "fixed": 1},
    "following, a budget": {"prior": UNIFORM, "budget": 0.03},
    "a budget that binds": {"budget": 1e-3, "kinds": "both"},
    "a budget beside the limits": {"budget": 0.03},
    "a budget, ceilings": {"budget": 0.02, "ceiling": 400.0, "kinds": "both"},
}

seeds = st.integers(0, 10_000)
varieties = st.sampled_from(sorted(VARIETIES))


def best_recipes(risks: Risks, at: RiskAt) -> FloatArray:
    found = at.recipes(np.arange(risks.needed.size))
    return found if isinstance(found, np.ndarray) else np.asarray(found.toarray())


def drawn_x(generator: np.random.Generator, size: int, most: float = 4.0) -> FloatArray:
    return 10 ** (most * generator.random(size))


@given(seed=seeds, variety=varieties, share=st.floats(0.0, 1.0))
def test_every_constraint_is_concave_and_rises_with_the_noise(seed: int, variety: str, share: float) -> None:
    problem, generator = (
        problem_of(rows_of(seed), seed=seed, **VARIETIES[variety]),
        np.random.default_rng(seed),
    )
    one, two = (drawn_x(generator, problem.weights.size) for _ in range(2))
    ends, between = (
        [naive_phi(problem, x) for x in (one, two)],
        naive_phi(problem, share * one + (1 - share) * two),
    )
    chord = share * ends[0] + (1 - share) * ends[1]
    assert np.all(between >= chord - 1e-9 * np.abs(chord))
    sign = np.concatenate([np.full(risks.needed.size, risks.sign) for risks in problem.risks])
    change = naive_phi(problem, np.maximum(one, two)) - ends[0]
    assert np.all(sign * change >= -1e-9 * np.abs(ends[0]))


@given(seed=seeds, variety=varieties)
def test_any_recipe_is_a_valid_cut(seed: int, variety: str) -> None:
    """A recipe says what a sum of variances must be at least: no noise that keeps the limits is less."""
    problem, generator = (
        problem_of(rows_of(seed), seed=seed, **VARIETIES[variety]),
        np.random.default_rng(seed),
    )
    x = drawn_x(generator, problem.weights.size, 6.0)
    s, kept = variances(problem, x), naive_phi(problem, x) >= 1
    first = 0
    for risks in problem.risks:
        count = risks.needed.size
        where = variances(problem, drawn_x(generator, x.size))
        best = best_recipes(risks, risks.at(where))
        other = generator.standard_normal(best.shape)
        if isinstance(risks, RowLimits):  # its cuts are about its own row
            other = other * best
        for recipes in (best, other):
            for one in np.flatnonzero(kept[first : first + count]):
                prices, chosen = np.array([0.7]), np.array([one])
                slopes, needed = risks.cut(prices, recipes[:, chosen], chosen, where)
                assert risks.sign * slopes @ s >= needed - 1e-9 * abs(slopes @ s)
        first += count


@given(seed=seeds, variety=varieties)
def test_the_best_recipe_is_the_slope(seed: int, variety: str) -> None:
    problem, generator = (
        problem_of(rows_of(seed), seed=seed, **VARIETIES[variety]),
        np.random.default_rng(seed),
    )
    x, step = drawn_x(generator, problem.weights.size, 2.0), 1e-6
    direction = generator.random(x.size) * x
    change = (naive_phi(problem, x + step * direction) - naive_phi(problem, x - step * direction)) / (
        2 * step
    )
    along, first = problem.lift @ direction, 0
    for risks in problem.risks:
        at = risks.at(problem.variances(x))
        everyone = np.arange(risks.needed.size)
        tangents = at.tangents(everyone, at.recipes(everyone), np.ones(everyone.size))
        slope = risks.sign * np.asarray(tangents.each.T @ along) / np.abs(risks.needed)
        np.testing.assert_allclose(tangents.total, np.asarray(tangents.each.sum(axis=1)).ravel(), rtol=1e-9)
        np.testing.assert_allclose(slope, change[first : first + slope.size], rtol=1e-4, atol=1e-7)
        value = 1 + (at.phi - risks.needed) / np.abs(risks.needed)
        np.testing.assert_allclose(value, naive_phi(problem, x)[first : first + slope.size])
        first += slope.size


@given(seed=seeds, variety=varieties, size=st.floats(-3, 3))
def test_any_prices_and_recipes_bound_the_loss_from_below(seed: int, variety: str, size: float) -> None:
    problem, generator = (
        problem_of(rows_of(seed), seed=seed, **VARIETIES[variety]),
        np.random.default_rng(seed),
    )
    if not (enough := if_enough(lambda: least_noise(problem))):
        return
    (least,) = enough
    prices = tuple(10**size * generator.random(one.needed.size) for one in problem.risks)
    x = drawn_x(generator, least.x.size)
    best = [best_recipes(one, one.at(variances(problem, x))) for one in problem.risks]
    noisy = tuple(one * (1 + 0.1 * generator.standard_normal(one.shape)) for one in best)
    everyone = tuple(np.arange(one.needed.size) for one in problem.risks)
    where = variances(problem, drawn_x(generator, least.x.size))
    cuts = Cuts(prices=prices, recipes=noisy, chosen=everyone, variances=where)
    assert cuts.lower_bound(problem) <= least.upper + 1e-12 * abs(least.upper)


@pytest.mark.sampled(6)
@pytest.mark.slow
@pytest.mark.parametrize("variety", VARIETIES)
@pytest.mark.parametrize("seed", range(6))
def test_an_independent_solver_finds_the_same_optimum(variety: str, seed: int) -> None:
    problem = problem_of(rows_of(seed), seed=seed, **VARIETIES[variety])
    found = least_noise(problem, tolerance=5e-9)
    assert found.lower <= found.upper
    assert found.gap <= 1e-8  # 5e-9, and what the cuts allow for precisions that are rounded up
    assert np.min(naive_phi(problem, found.x)) >= 1 - 1e-9
    assert np.all((found.x >= 1) & (found.x <= problem.ceilings))
    assert found.cuts.lower_bound(problem) == found.lower
    rising = found.x * 1.5
    start = np.minimum(rising, problem.ceilings)
    theirs = naive_optimum(problem, start)
    assert found.upper == pytest.approx(theirs, rel=1e-6)
    assert found.lower <= theirs * (1 + 1e-6)


def test_noise_that_keeps_the_limits_stays() -> None:
    problem = problem_of(rows_of(1), floor=1e4)
    found = least_noise(problem)
    assert found.x.tolist() == [1.0] * 6
    assert found.gap == 0.0


def test_ceilings_that_are_too_low_are_told() -> None:
    with pytest.raises(NotEnough, match="ceilings"):
        least_noise(problem_of(rows_of(1), floor=1e-3, ceiling=1.01))


def test_published_numbers_that_break_the_limit_are_told() -> None:
    problem = problem_of(rows_of(1), fixed=4)  # rows 0 and 1, which differ by a record, are not among them
    assert least_noise(problem).upper > 0
    sharp = np.where(problem.variable < 0, 1e-3, problem.floors)
    alone = problem_of(np.roll(rows_of(1), -2, axis=0), fixed=4)
    with pytest.raises(NotEnough):
        least_noise(replace(alone, floors=np.where(alone.variable < 0, sharp[-1], alone.floors)))


@pytest.mark.slow
@pytest.mark.parametrize("variety", ["hidden", "known", "both", "published"])
@pytest.mark.parametrize("seed", range(6))
def test_the_common_factor_is_the_least_one(variety: str, seed: int) -> None:
    problem = problem_of(rows_of(seed), seed=seed, **VARIETIES[variety])
    found = common_factor(problem, problem.floors)
    everyone = np.ones(problem.weights.size)
    assert np.min(naive_phi(problem, found * everyone)) >= 1 - 1e-12
    assert np.min(naive_phi(problem, found * (1 - 1e-6) * everyone)) < 1
    least = least_noise(problem)
    assert least.upper <= problem.loss(found * everyone) * (1 + 1e-9)


@given(seed=seeds, variety=varieties)
def test_the_bound_at_hand_is_the_one_recomputed_from_the_recipes(seed: int, variety: str) -> None:
    problem, generator = (
        problem_of(rows_of(seed), seed=seed, **VARIETIES[variety]),
        np.random.default_rng(seed),
    )
    at = Iterate(
        problem=problem,
        x=drawn_x(generator, problem.weights.size),
        active=np.arange(problem.weights.size),
        working=[np.arange(one.needed.size) for one in problem.risks],
    )
    at.lam = [generator.random(own.size) for own in at.working]
    at.evaluate()
    at.find_recipes()
    at.find_tangents(at.lam)
    used = at.used()
    cuts = Cuts(
        prices=tuple(at.lam),
        recipes=at.recipes,
        chosen=tuple(at.working),
        variances=problem.variances(at.x),
    )
    recomputed = cuts.lower_bound(problem)
    size = abs(recomputed) + sum(
        float(lam @ np.abs(one.needed)) for lam, one in zip(at.lam, problem.risks, strict=True)
    )
    # The recomputed bound allows for precisions that are rounded up.
    assert at.lower_bound(used, at.lam) == pytest.approx(recomputed, abs=1e-8 * size)
    assert at.lower_bound(used, at.lam) >= recomputed - 1e-9 * size


@given(seed=seeds, variety=varieties)
def test_the_curvature_is_the_change_of_the_slopes(seed: int, variety: str) -> None:
    problem, generator = (
        problem_of(rows_of(seed), seed=seed, **VARIETIES[variety]),
        np.random.default_rng(seed),
    )
    s = problem.variances(drawn_x(generator, problem.weights.size, 2.0))
    direction, step = generator.random(s.size) * s, 1e-5
    for risks in problem.risks:
        everyone, prices = np.arange(risks.needed.size), generator.random(risks.needed.size)

        def slope(variances: FloatArray, risks: Risks = risks, prices: FloatArray = prices) -> FloatArray:
            at, everyone = risks.at(variances), np.arange(prices.size)
            return at.tangents(everyone, at.recipes(everyone), prices).total

        at = risks.at(s)
        exact, more = np.zeros((2, s.size, s.size))
        tangents = at.tangents(everyone, at.recipes(everyone), prices)
        none, barrier = np.zeros(prices.size), generator.random(prices.size)
        tangents.add_curvature(exact, np.arange(s.size), none, exact=True)
        tangents.add_curvature(more, np.arange(s.size), none, exact=False)
        change = (slope(s - step * direction) - slope(s + step * direction)) / (2 * step)
        unit = np.abs(more) @ direction + 1e-30
        np.testing.assert_allclose(exact @ direction / unit, change / unit, atol=3e-4)
        assert direction @ more @ direction >= direction @ exact @ direction - 1e-9 * (unit @ direction)
        each = tangents.each if isinstance(tangents.each, np.ndarray) else tangents.each.toarray()
        for plain, only in ((exact, True), (more, False)):
            total = np.zeros_like(plain)
            tangents.add_curvature(total, np.arange(s.size), barrier, exact=only)
            wanted = plain + (each * barrier) @ each.T
            np.testing.assert_allclose(
                total, wanted, atol=1e-6 * np.sqrt(np.outer(*2 * [np.diagonal(wanted)])).max()
            )


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


@given(seed=seeds, variety=varieties, far=st.floats(0.2, 5.0))
def test_a_guess_changes_where_the_method_starts_and_not_what_it_finds(
    seed: int, variety: str, far: float
) -> None:
    problem = problem_of(rows_of(seed), seed=seed, **VARIETIES[variety])
    for found in if_enough(lambda: least_noise(problem)):
        guess = problem.variances(1 + far * (found.x - 1))
        again = least_noise(problem, guess=guess)
        assert problem.least_slack(again.x) >= 0
        assert again.lower <= found.upper * (1 + 1e-12)
        assert found.lower <= again.upper * (1 + 1e-12)
        assert again.gap <= max(1e-6, found.gap)


@given(seed=seeds, variety=varieties)
def test_affordable_prices_use_less_of_what_is_used_too_much(seed: int, variety: str) -> None:
    """Where prices are too high for some variables; what they use is that of a second look at them."""
    problem = problem_of(rows_of(seed), seed=seed, **VARIETIES[variety])
    generator = np.random.default_rng(seed)
    at = Iterate(
        problem=problem,
        x=drawn_x(generator, problem.weights.size),
        active=np.arange(problem.weights.size),
        working=[np.arange(one.needed.size) for one in problem.risks],
    )
    at.evaluate()
    at.find_recipes()
    at.lam = [10 ** generator.uniform(-3, 3, one.needed.size) for one in problem.risks]
    at.find_tangents(at.lam)
    gradients, before = at.gradients(), at.used()
    used, prices = at.affordable(gradients, before)
    at.lam = prices
    at.find_tangents(prices)
    size = np.abs(at.used()) + problem.weights
    assert np.all(np.abs(used - at.used()) <= 1e-9 * size)
    assert all(np.all(one >= 0) for one in prices)
    if all(one.min() >= 0 for one in gradients):  # else a price that is lowered makes another use more
        over = np.isinf(problem.ceilings) & (before > problem.weights)
        assert np.all(used[over] <= before[over] - 0.05 * (before - problem.weights)[over])
