"""Yes or no: the bracket against the exact Bayes risk over all 2^N worlds, and the risk of one coin."""

from __future__ import annotations

import itertools

import mpmath
import numpy as np
import pytest

import sightline as sl
from sightline.bounds.assessment import assess
from sightline.bounds.coin import CoinPrior, coin_risk, logistic_upper
from sightline.bounds.membership_design import MembershipDesign
from sightline.bounds.priors import TwoPointPrior
from sightline.errors import InvalidInput
from sightline.units.description import Known
from sightline.units.target import Seen
from tests.units.unit_designs import design_of

SHARES = [0.5, 0.25, 0.9, 0.01]


@pytest.mark.sampled(5)
@pytest.mark.slow
@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("information", [1e-9, 0.01, 1.0, 7.0, 60.0, 300.0])
def test_the_risk_of_one_coin_against_thirty_digits(information: float, share: float) -> None:
    with mpmath.workdps(30):
        G, p = mpmath.mpf(information), mpmath.mpf(share)
        tilt, g = mpmath.log(p / (1 - p)), mpmath.sqrt(G)

        def product(t: mpmath.mpf) -> mpmath.mpf:
            """π(1 − π), given a no and given a yes."""
            total = mpmath.mpf(0)
            for mean, weight in ((-G / 2, 1 - p), (G / 2, p)):
                odds = mpmath.e ** (tilt + g * t + mean)
                total += weight * odds / (1 + odds) ** 2
            return total * mpmath.npdf(t)

        edges = [-40, -20, *range(-12, 13, 2), 20, 40]
        expected = mpmath.quad(product, edges) / (p * (1 - p))
        assert abs(coin_risk(information, share=share) / expected - 1) < 1e-10


@pytest.mark.slow
@pytest.mark.parametrize("share", SHARES)
def test_the_table_is_a_bound_and_close(share: float) -> None:
    information = np.exp(np.random.default_rng(0).uniform(np.log(1e-11), np.log(200), 500))
    exact = np.array([coin_risk(one, share=share) for one in information])
    found = alone(share, information)
    assert np.all(found <= exact * (1 + 1e-12))
    assert np.all(found >= exact - 2e-6)
    assert alone(share, np.array([0.0, 1e4])).tolist() == [1.0, 0.0]


def alone(share: float, information: np.ndarray) -> np.ndarray:
    """The lower end for a coin if all others are known."""
    seen = Seen(information=information, linear_information=np.zeros_like(information))
    return CoinPrior(share=share).lower(seen)


def worlds_of(records: int, share: float) -> tuple[np.ndarray, np.ndarray]:
    worlds = np.array(list(itertools.product((0.0, 1.0), repeat=records)))
    ones = worlds.sum(axis=1)
    return worlds, share**ones * (1 - share) ** (records - ones)


def exact_risks(
    rows: np.ndarray, scale: np.ndarray, share: float, *, laplace: bool
) -> tuple[np.ndarray, ...]:
    """The Bayes risk over v of every record by simulating answers and weighing all worlds; its errors."""
    generator = np.random.default_rng(1)
    worlds, weights = worlds_of(rows.shape[1], share)
    trials = 40_000
    truth = generator.choice(len(worlds), p=weights, size=trials)
    draw = generator.laplace if laplace else generator.normal
    answers = worlds[truth] @ rows.T + draw(size=(trials, len(rows))) * scale
    offsets = (answers[:, None] - (worlds @ rows.T)[None]) / scale
    logs = np.log(weights) - (np.abs(offsets) if laplace else offsets**2 / 2).sum(axis=2)
    posterior = np.exp(logs - logs.max(axis=1, keepdims=True))
    mean = (posterior / posterior.sum(axis=1, keepdims=True)) @ worlds
    risks = mean * (1 - mean) / (share * (1 - share))
    return risks.mean(axis=0), risks.std(axis=0) / np.sqrt(trials)


@pytest.mark.sampled(6)
@pytest.mark.slow
@pytest.mark.parametrize("laplace", [False, True])
@pytest.mark.parametrize("share", [0.5, 0.2])
@pytest.mark.parametrize("seed", range(3))
def test_the_best_possible_attack_lies_in_the_bracket(seed: int, share: float, laplace: bool) -> None:
    generator = np.random.default_rng(seed)
    rows = generator.integers(0, 2, (4, 5)).astype(float)
    rows[:, 4] = rows[:, 3]  # two that nothing tells apart
    rows[rows.sum(axis=1) == 0, 0] = 1
    scale = 10 ** generator.uniform(-0.7, 0.7, 4)
    noise = sl.LaplaceNoise(scales=scale) if laplace else scale
    found = MembershipDesign(rows, noise=noise, readout="sum").exposures(prior=CoinPrior(share=share))
    risks, errors = exact_risks(rows, scale, share, laplace=laplace)
    assert np.all(found.remaining_lower <= risks + 5 * errors)
    assert np.all(risks - 5 * errors <= found.remaining_upper)


@pytest.mark.slow
def test_little_noise_lets_one_who_rounds_see_what_no_linear_attack_sees() -> None:
    # x + 2y tells x and y apart exactly, though neither is identifiable: the lower end must allow for it.
    found = MembershipDesign([[1, 2]], noise=[0.05], readout="sum").exposures(prior=CoinPrior())
    assert not found.identifiable.any()
    assert np.all(found.remaining_lower < 1e-3)
    risks, _ = exact_risks(np.array([[1.0, 2.0]]), np.array([0.05]), 0.5, laplace=False)
    assert np.all(risks < 1e-3)
    assert np.all(found.remaining_upper > 0.1)


def test_known_company_leaves_the_risk_of_one_coin() -> None:
    design = MembershipDesign([[1, 1, 0], [0, 1, 1]], noise=[0.5, 1.0], readout="sum")
    found = design.exposures(prior=CoinPrior(), known=Known.ALL_OTHERS)
    expected = [coin_risk(G) for G in (4.0, 5.0, 1.0)]
    assert np.allclose(found.remaining_lower, expected, rtol=1e-5)
    assert np.allclose(found.remaining_upper, [1 / 2, 1 / (1 + 5 / 4), 1 / (1 + 1 / 4)])


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, float("nan")])
def test_a_coin_has_two_sides(share: float) -> None:
    with pytest.raises(InvalidInput, match="a share between 0 and 1"):
        CoinPrior(share=share)


def test_weights_of_either_sign_under_laplace_noise() -> None:
    rows = np.array([[1.0, -2.0, 0.0], [0.0, 1.0, 3.0]])
    noise = sl.LaplaceNoise(scales=[1.0, 2.0])
    found = MembershipDesign(rows, noise=noise, readout="sum").exposures(prior=CoinPrior())
    risks, errors = exact_risks(rows, np.array([1.0, 2.0]), 0.5, laplace=True)
    assert np.all(found.remaining_lower <= risks + 5 * errors)
    assert np.all(risks - 5 * errors <= found.remaining_upper)
    assert np.all(found.remaining_lower > 0)


@pytest.mark.parametrize("coins", [0, 1, 4])
@pytest.mark.parametrize("laplace", [False, True])
@pytest.mark.parametrize("rho", [0.02, 0.08, 0.2, 0.28])
def test_rounding_softly_leaves_no_more_than_stated(rho: float, laplace: bool, coins: int) -> None:
    """The attack itself, by quadrature over the noise and all values of other coins, each as wide."""
    m2 = (1 - rho) / rho
    spread = 1 / (4 * m2)  # the variance of the error, shared by the coins and the noise
    width, left = np.sqrt(4 * spread / (coins + 1)), spread / (coins + 1)
    at = np.linspace(-60, 60, 240_001) * np.sqrt(left)
    scale = np.sqrt(left / 2)
    density = np.exp(-np.abs(at) / scale) if laplace else np.exp(-(at**2) / (2 * left))
    density /= density.sum()
    rate = (np.sqrt(1 + 2 * m2) - 1) / np.sqrt(m2) / np.sqrt(spread) if laplace else 1 / (2 * spread)
    risk = 0.0
    for others in itertools.product((-0.5, 0.5), repeat=coins):
        error = at + width * sum(others)
        for value in (0, 1):
            guess = 1 / (1 + np.exp(-rate * (value + error - 0.5)))
            risk += 4 * float(density @ (value - guess) ** 2) / 2 ** (coins + 1)
    stated = float(logistic_upper(np.array([rho]), gaussian=not laplace)[0])
    assert risk <= stated
    assert stated <= (1.0 if laplace else 0.28)


def test_an_upper_end_by_rounding_is_above_the_exact_risk_and_below_the_linear_one() -> None:
    """Eighty in two counts, more than are listed, and one of them alone in a third: a coin in its noise."""
    table = np.ones((3, 80))
    table[1, 1:], table[2] = 0.0, np.arange(80) % 2
    design = design_of(table, np.array([1.0, 0.2, 1.0]), TwoPointPrior(0.0, 1.0))
    found, first = assess(design), design.place[0]
    best = found.upper_of_best[first, 0]
    # The other two numbers tell hardly more of the first.
    assert found.upper[first, 0] == pytest.approx(1 / (1 + 25 / 4), rel=0.02)
    assert best == pytest.approx(np.exp(-25 / 8), rel=0.05)
    assert coin_risk(25.0) < best < found.upper[first, 0] / 3
    assert found.lower[first, 0] <= best
    others = np.arange(3) != first
    assert np.array_equal(found.upper_of_best[others], found.upper[others])
