"""Optimal composition of pure epsilons: against dp_accounting, brute force, and its own laws."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld

from sightline.privacy.accountant import Budget
from sightline.privacy.gaussian_dp import smallest_epsilon
from sightline.privacy.optimal import OptimalComposition, _grid, losses_of, optimal_epsilon

DELTA = 1e-6


def coins(epsilons: np.ndarray, step: float = 1e-4) -> pld.PrivacyLossDistribution:
    """What dp_accounting says of randomised responses with these epsilons."""
    each = [
        pld.from_randomized_response(2 / (1 + math.exp(one)), 2, value_discretization_interval=step)
        for one in epsilons
    ]
    for other in each[1:]:
        each[0] = each[0].compose(other)
    return each[0]


def exact_delta(epsilons: np.ndarray, epsilon: float) -> float:
    """The mean of what is lost above epsilon, over all outcomes of all coins."""
    total = 0.0
    for signs in product((1, -1), repeat=len(epsilons)):
        chance = math.prod(1 / (1 + math.exp(-s * e)) for s, e in zip(signs, epsilons, strict=True))
        total += chance * max(0.0, -math.expm1(epsilon - float(np.dot(signs, epsilons))))
    return total


@pytest.mark.parametrize("seed", range(6))
def test_the_delta_of_few_coins_by_listing_all_outcomes(seed: int) -> None:
    draw = np.random.default_rng(seed)
    epsilons = np.sort(draw.random(6) * draw.choice([0.1, 1.0, 4.0]))
    step, steps = _grid(epsilons, np.ones(6, dtype=np.intp), np.zeros(6, dtype=np.bool_))
    rounded_up = steps * step
    assert np.all(rounded_up >= epsilons * (1 - 1e-13))
    assert np.sum(rounded_up**2) <= np.sum(epsilons**2) * (1 + 2e-4)
    for epsilon in (0.0, 0.3 * epsilons.sum(), 0.9 * epsilons.sum()):
        found = losses_of(epsilons).delta(epsilon)
        assert exact_delta(epsilons, epsilon) <= found
        assert found == pytest.approx(exact_delta(rounded_up, epsilon), rel=1e-8)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("count", [3, 12, 60])
@pytest.mark.parametrize("mu", [0.0, 0.25, 1.0])
def test_unequal_epsilons_beside_gaussian_noise_as_dp_accounting_says(count: int, mu: float) -> None:
    epsilons = np.random.default_rng(count).random(count) * 0.3
    rival = coins(epsilons)
    if mu:
        rival = rival.compose(pld.from_gaussian_mechanism(1 / mu, value_discretization_interval=1e-4))
    expected = rival.get_epsilon_for_delta(DELTA)
    found = optimal_epsilon(epsilons, delta=DELTA, mu_squared=mu**2)
    # The rival rounds each loss up by 1e-4 at most, and ours rounds squares up by 2e-4 of their sum.
    assert expected - 1e-4 * count <= found <= expected * (1 + 2e-3)
    assert found <= float(epsilons.sum()) * (1 + 1e-12) + (smallest_epsilon(mu**2, DELTA) if mu else 0.0)


@pytest.mark.parametrize(
    ("epsilon", "releases", "waste"),
    [(1.0, 1, 1.0001), (1.0, 30, 1.002), (4.0, 100, 1.002), (10.0, 30, 1.002)],
)
def test_laplace_noise_is_hardly_more_than_the_least(epsilon: float, releases: int, waste: float) -> None:
    scale = math.sqrt(OptimalComposition(Budget(epsilon=epsilon, delta=DELTA)).kappa(releases))

    def spent(factor: float) -> float:
        one = pld.from_laplace_mechanism(scale * factor, value_discretization_interval=1e-3 / scale)
        return float(one.self_compose(releases).get_epsilon_for_delta(DELTA))

    assert spent(1.0) <= epsilon * (1 + 1e-9)
    assert spent(1 / waste) > epsilon


@pytest.mark.parametrize("mu", [0.0, 0.7])
def test_unequal_laplace_noise_beside_coins_and_gaussian_noise_as_dp_accounting_says(mu: float) -> None:
    draw = np.random.default_rng(4)
    epsilons, laplace = draw.choice([0.1, 0.2, 0.4], 60), draw.random(60) < 0.9
    rival = coins(epsilons[~laplace])
    for one, times in zip(*np.unique(epsilons[laplace], return_counts=True), strict=True):
        own = pld.from_laplace_mechanism(1 / one, value_discretization_interval=1e-4)
        rival = rival.compose(own.self_compose(int(times)))
    if mu:
        rival = rival.compose(pld.from_gaussian_mechanism(1 / mu, value_discretization_interval=1e-4))
    expected = rival.get_epsilon_for_delta(DELTA)
    found = optimal_epsilon(epsilons, delta=DELTA, mu_squared=mu**2, laplace=laplace)
    assert expected - 1e-4 * 60 <= found <= expected * (1 + 2e-3)
    assert found < optimal_epsilon(epsilons, delta=DELTA, mu_squared=mu**2) * (1 - 1e-2)  # all as coins


def test_laplace_noise_on_several_numbers_tells_no_more_than_on_one() -> None:
    """One shift of several numbers, against the same sum of shifts of one: every point of both curves."""
    at = np.linspace(-25.0, 28.0, 2_651)
    for shifts in ((0.5, 0.5), (1.5, 0.2)):
        first, second = (
            np.outer(*(np.exp(-np.abs(at - side * one)) / 2 for one in shifts)) for side in (0, 1)
        )
        cell, total = (at[1] - at[0]) ** 2, sum(shifts)
        for epsilon in np.linspace(0.0, total, 6):
            both = float(np.maximum(first - math.exp(epsilon) * second, 0.0).sum() * cell)
            alone = 1 - math.exp((epsilon - total) / 2)  # of one number
            assert both <= alone + 1e-3


@pytest.mark.parametrize("releases", [1, 2, 7, 100, 5_000])
def test_the_noise_for_a_budget_costs_that_budget(releases: int) -> None:
    rule = OptimalComposition(Budget(epsilon=2.0, delta=DELTA))
    multiplier = math.sqrt(rule.kappa(releases))
    assert rule.epsilon(releases, noise_multiplier=multiplier) == pytest.approx(2.0, rel=1e-7)
    equal = rule.kappa_of_shares(np.full(releases, 1 / releases))
    assert equal == pytest.approx(multiplier**2, rel=1e-7)


def test_unequal_shares_keep_to_the_budget() -> None:
    rule = OptimalComposition(Budget(epsilon=1.0, delta=DELTA))
    shares = np.array([0.5, 0.2, 0.1, 0.1, 0.1])
    epsilons = rule.kappa_of_shares(shares) ** -0.5
    assert epsilons / epsilons.sum() == pytest.approx(shares, rel=1e-12)
    assert coins(epsilons, 1e-5).get_epsilon_for_delta(DELTA) <= 1.0 + 5e-5


def test_a_tiny_epsilon_beside_a_large_one_costs_little() -> None:
    found = optimal_epsilon(np.array([1e-9, 3.0]), delta=DELTA)
    assert optimal_epsilon(np.array([3.0]), delta=DELTA) <= found <= 3.0 * (1 + 1e-8)
