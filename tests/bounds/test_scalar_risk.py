"""The scalar risks against ball arithmetic and thirty digits, and the tables as bounds."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import mpmath
import numpy as np
import pytest
from flint import acb, arb, ctx

from sightline.bounds.scalar_risk import (
    RiskTable,
    cosine_table,
    two_point_risk,
    two_point_table,
    uniform_table,
)
from tools.risk_tables import cosine_risk, uniform_risk

TABLES = {
    "uniform": (uniform_table, uniform_risk, 1e4),
    "cos2": (cosine_table, cosine_risk, 1e4),
    "two-point": (two_point_table, two_point_risk, 300.0),
}


def ball_of_risk(
    information: float, answer: Callable[[acb, arb], tuple[acb, acb]], *, reach: float, tail: float
) -> arb:
    r"""With noise s: risk = s² − s⁴ ∫ p'²/p over all answers (Tweedie), as a rigorous integral.

    ``answer`` gives p and p'. What lies beyond ``reach`` standard deviations is positive and below ``tail``.
    """
    s = 1 / arb(information).sqrt()

    def integrand(y: acb, _: bool) -> acb:
        density, slope = answer(y, s)
        return slope**2 / density

    pieces = np.linspace(0, 0.5 + reach * float(s), 9).tolist()
    total = sum((acb.integral(integrand, a, b).real for a, b in itertools.pairwise(pieces)), arb(0))
    return s**2 - s**4 * 2 * (total + arb(0).union(arb(tail)))


def uniform_answer(y: acb, s: arb) -> tuple[acb, acb]:
    below, above = (y + 0.5) / s, (y - 0.5) / s
    density = ((above / arb(2).sqrt()).erfc() - (below / arb(2).sqrt()).erfc()) / 2
    slope = ((-(below**2) / 2).exp() - (-(above**2) / 2).exp()) / (2 * arb.pi()).sqrt() / s
    return density, slope


@pytest.mark.slow
@pytest.mark.parametrize("information", [2.0, 0.35**-2, 60.0, 900.0])
def test_the_uniform_risk_lies_in_a_ball(information: float) -> None:
    with ctx.workprec(120):
        ball = ball_of_risk(information, uniform_answer, reach=12, tail=1e-28)
        assert ball.rad() < 1e-20 * ball.mid()
        assert abs(arb(float(uniform_risk(np.array([information]))[0])) - ball) < 1e-11 * ball


@pytest.mark.parametrize("information", [0.05, 2.0, 0.35**-2, 60.0, 900.0])
def test_the_cos2_risk_against_a_naive_integral(information: float) -> None:
    """Prior variance less what is learned, on one fine grid for records and one for answers."""
    s = information**-0.5
    points, masses = np.polynomial.legendre.leggauss(500)
    points, masses = points / 2, masses * np.cos(np.pi * points / 2) ** 2
    answers = np.arange(-0.5 - 10 * s, 0.5 + 10 * s, s / 8)
    kernel = np.exp(-(((answers[:, None] - points) / s) ** 2) / 2) * masses / np.sqrt(2 * np.pi) / 8
    evidence, moment = kernel.sum(axis=1), kernel @ points
    learned = np.sum(moment**2 / evidence)
    expected = masses @ points**2 - learned
    assert masses.sum() == pytest.approx(1.0, rel=1e-12)
    assert cosine_risk(np.array([information]))[0] == pytest.approx(expected, rel=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("information", [1e-4, 0.3, 0.35**-2, 60.0, 300.0])
def test_the_two_point_risk_against_thirty_digits(information: float) -> None:
    with mpmath.workdps(30):
        g = mpmath.sqrt(information)

        def product(t: mpmath.mpf) -> mpmath.mpf:
            """π(1 − π) for an answer t in units of the noise, around the middle of both ends."""
            odds = mpmath.e ** (g * t)
            return odds / (1 + odds) ** 2 * (mpmath.npdf(t - g / 2) + mpmath.npdf(t + g / 2)) / 2

        expected = mpmath.quad(product, [-40, -20, *range(-12, 13, 2), 20, 40])
        assert abs(two_point_risk(np.array([information]))[0] / expected - 1) < 1e-10


@pytest.mark.parametrize("name", TABLES)
class TestEveryTable:
    def test_it_is_a_lower_bound_and_close(self, name: str) -> None:
        table, risk, most = TABLES[name]
        information = np.exp(np.random.default_rng(0).uniform(np.log(1e-6), np.log(most), 300))
        exact = risk(information)
        found = table().lower(information)
        assert np.all(found <= exact)
        # A coin's risk falls as exp(−G/8): between nodes at a ratio of 1.002 by a share of about 0.002 G/8.
        loss = 3e-4 * (1 + information) if name == "two-point" else 5e-4
        assert np.all(found >= exact * (1 - loss))
        assert np.all(found >= exact - 2e-4)

    def test_its_deficit_never_falls(self, name: str) -> None:
        _, risk, most = TABLES[name]
        information = np.geomspace(1e-2, most, 200)
        deficit = 1 / risk(information) - information
        assert np.all(np.diff(deficit) >= -1e-9 * deficit[1:])

    def test_the_derivative_is_minus_the_mean_square_of_the_posterior_variance(self, name: str) -> None:
        # The step of the proof that the table rests on: f' ≤ −f².
        _, risk, _ = TABLES[name]
        G, h = np.geomspace(0.1, 100, 40), 1e-4
        derivative = (risk(G * (1 + h)) - risk(G * (1 - h))) / (2 * h * G)
        assert np.all(derivative <= -(risk(G) ** 2) * (1 - 1e-6))

    def test_beyond_its_end_nothing_is_claimed(self, name: str) -> None:
        table: RiskTable = TABLES[name][0]()
        assert table.lower(np.array([table.nodes[-1] * 1.01, 1e12])).tolist() == [0.0, 0.0]
