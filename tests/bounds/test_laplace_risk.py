"""One number in Laplace noise: single answers by independent integrals, and coins in many answers."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from sightline.bounds.priors import TwoPointPrior
from sightline.bounds.scalar_risk import (
    cosine_laplace_table,
    two_point_laplace_risk,
    two_point_risk,
    uniform_laplace_table,
)
from sightline.bounds.van_trees import cosine_bound, uniform_bound
from sightline.units.target import Seen
from tools.risk_tables import cosine_laplace_risk, uniform_laplace_risk

OMEGA = np.arange(-10, 10.01, 0.04)


def many_answers(offsets: np.ndarray, gaussian: float = 0.0) -> float:
    r"""The share of a coin's variance that remains after Laplace answers that move by ``offsets`` scales.

    With the affinity measure Q: share = ∫ sech(πω) Π_ℓ ∫ √(p₀p₁) cos(ωΛ) dω. Gaussian answers add a factor.
    """
    factors = np.exp(-gaussian * (1 / 8 + OMEGA**2 / 2)) / np.cosh(np.pi * OMEGA)
    for d in offsets:
        factors = factors * np.exp(-d / 2) * (np.cos(OMEGA * d) + d / 2 * np.sinc(OMEGA * d / np.pi))
    return float(factors.sum() * 0.04)


@pytest.mark.parametrize("d", [0.01, 0.5, 1.0, 3.0, 8.0])
def test_the_risk_of_a_coin_in_one_answer(d: float) -> None:
    with mpmath.workdps(25):

        def product(y: mpmath.mpf) -> mpmath.mpf:
            no, yes = mpmath.exp(-abs(y)) / 2, mpmath.exp(-abs(y - d)) / 2
            return no * yes / (no + yes) / 2

        expected = mpmath.quad(product, [-60, -10, 0, d, d + 10, d + 60])
        assert abs(two_point_laplace_risk(np.array([d**2]))[0] / expected - 1) < 1e-12
    assert many_answers(np.array([d])) == pytest.approx(4 * float(expected), rel=1e-9)


@pytest.mark.parametrize("odds", np.linspace(-12, 12, 25))
def test_one_laplace_answer_tells_no_more_of_a_coin_than_a_gaussian_one(odds: float) -> None:
    """For every prior odds, which is what the proof for many answers needs."""
    nodes, masses = np.polynomial.legendre.leggauss(200)
    t = np.arange(-12, 12, 0.01)
    for d in (0.02, 0.1, 0.3, 0.7, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0):
        # √(p₀p₁) over the logarithm Λ of the likelihood ratio, against sech((Λ + odds)/2).
        ends = 0.5 / np.cosh((np.array([-d, d]) + odds) / 2)
        laplace = np.exp(-d / 2) * (ends.sum() + d / 4 * (masses / np.cosh((d * nodes + odds) / 2)).sum())
        gaussian = np.exp(-(d**2) / 8) * 0.01 * (np.exp(-(t**2) / 2) / np.cosh((d * t + odds) / 2)).sum()
        assert laplace >= gaussian / np.sqrt(2 * np.pi) * (1 - 1e-10)


def test_many_answers_of_either_law_leave_at_least_the_gaussian_risk() -> None:
    generator = np.random.default_rng(3)
    for _ in range(200):
        offsets = 10 ** generator.uniform(-2, 0.7, generator.integers(1, 40))
        gaussian = float(generator.choice([0.0, 0.5, 4.0]))
        information = np.array([np.sum(offsets**2) + gaussian])
        # The sum over frequencies is good to 1e-12, next to one.
        assert 4 * two_point_risk(information)[0] <= many_answers(offsets, gaussian) + 1e-12


def test_forty_answers_that_used_to_leave_next_to_nothing() -> None:
    offsets = np.full(40, 0.5)
    information = np.array([np.sum(offsets**2)])
    seen = Seen(
        information=information,
        linear_information=information / 2,
        laplace_answers=np.array([40.0]),
        laplace_information=information,
    )
    prior = TwoPointPrior(0.0, 1.0)
    exact = many_answers(offsets)
    by_loss = 1 / np.cosh(offsets.sum() / 2) ** 2  # from the privacy loss alone
    assert by_loss < 1e-7
    assert 0.7 * exact < prior.lower(seen)[0] < exact < prior.upper(seen)[0]


def naive(density: object, u: float, count: int = 4001) -> float:
    """The Bayes risk in one answer, by sums over fine grids whose kinks are grid points."""
    x = np.linspace(-0.5, 0.5, count)
    masses = np.full(count, 1 / (count - 1))
    masses[[0, -1]] /= 2
    masses = masses * density(x)
    y = x[::20]
    weights = masses * np.exp(-u * np.abs(y[:, None] - x))
    evidence = weights.sum(axis=1)
    spread = (weights * x**2).sum(axis=1) - (weights * x).sum(axis=1) ** 2 / evidence
    inside = np.trapezoid(spread, y) * u / 2
    return float(inside + spread[-1])  # both sides beyond the ends, half of it each


@pytest.mark.parametrize("information", [0.3, 5.0, 40.0, 300.0])
def test_the_risk_of_a_density_in_one_answer(information: float) -> None:
    u = np.sqrt(information)
    found = uniform_laplace_risk(np.array([information]))[0]
    assert found == pytest.approx(naive(np.ones_like, u), rel=2e-4)
    found = cosine_laplace_risk(np.array([information]))[0]
    assert found == pytest.approx(naive(lambda x: 2 * np.cos(np.pi * x) ** 2, u), rel=2e-4)


def test_little_noise_leaves_its_own_variance() -> None:
    assert uniform_laplace_risk(np.array([1e6]))[0] == pytest.approx(2e-6, rel=1e-2)


@pytest.mark.parametrize("name", ["uniform", "cos2"])
def test_the_tables_of_one_answer_are_lower_bounds_and_close(name: str) -> None:
    table, risk, bound = {
        "uniform": (uniform_laplace_table, uniform_laplace_risk, uniform_bound),
        "cos2": (cosine_laplace_table, cosine_laplace_risk, cosine_bound),
    }[name]
    information = np.exp(np.random.default_rng(0).uniform(np.log(1e-3), np.log(9e5), 200))
    exact, found = risk(information), table().lower(information)
    assert np.all(found <= exact)
    assert np.all(found[information > 0.01] >= exact[information > 0.01] * (1 - 7e-3))
    assert np.all(bound(information) <= exact)
    assert table().lower(np.array([2e6])).tolist() == [0.0]
