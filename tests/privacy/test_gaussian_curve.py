"""The exact Gaussian privacy curve and its inverses, against mpmath and dp-accounting."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp

import sightline as sl
from sightline.errors import InvalidBudget
from sightline.privacy.concentrated import epsilon_of_rho
from sightline.privacy.gaussian_dp import gaussian_delta, largest_mu_squared, smallest_epsilon

EXTREMES = [
    (epsilon, delta) for epsilon in (1e-6, 1e-2, 1.0, 10.0, 1e3) for delta in (1e-300, 1e-50, 1e-5, 0.1, 0.5)
]


def curve(mu_squared: object, epsilon: object) -> mpmath.mpf:
    """Balle & Wang's formula, written again."""
    mu, eps = mp.sqrt(mp.mpf(mu_squared)), mp.mpf(epsilon)
    return mp.ncdf(mu / 2 - eps / mu) - mp.exp(eps) * mp.ncdf(-mu / 2 - eps / mu)


@pytest.mark.parametrize(("epsilon", "delta"), EXTREMES)
def test_the_ball_contains_the_curve(epsilon: float, delta: float) -> None:
    mu_squared = 2 * epsilon
    with mp.workdps(120):
        truth = curve(mu_squared, epsilon)
        value = gaussian_delta(mu_squared, epsilon)
        assert float(value) == pytest.approx(float(truth), rel=1e-15)


@pytest.mark.parametrize(("epsilon", "delta"), EXTREMES)
def test_the_largest_mu_is_private_and_a_hair_more_is_not(epsilon: float, delta: float) -> None:
    mu_squared = largest_mu_squared(epsilon, delta)
    with mp.workdps(120):
        assert curve(mu_squared, epsilon) <= mp.mpf(delta)
        assert curve(mp.mpf(mu_squared) * (1 + mp.mpf("1e-14")), epsilon) > mp.mpf(delta)


@pytest.mark.parametrize(("epsilon", "delta"), EXTREMES)
def test_the_smallest_epsilon_is_private_and_a_hair_less_is_not(epsilon: float, delta: float) -> None:
    mu_squared = largest_mu_squared(epsilon, delta) * 1.5
    answer = smallest_epsilon(mu_squared, delta)
    with mp.workdps(120):
        assert curve(mu_squared, answer) <= mp.mpf(delta)
        assert curve(mu_squared, mp.mpf(answer) * (1 - mp.mpf("1e-14"))) > mp.mpf(delta)


def test_kappa_of_twenty_releases_against_a_50_digit_root() -> None:
    kappa = sl.GaussianDP(sl.Budget(epsilon=1.0, delta=1e-5)).kappa(20)
    with mp.workdps(60):
        delta = mp.mpf(1e-5)
        root = mp.findroot(
            lambda k: mp.log(curve(20 / k, 1) / delta), (270, 290), solver="anderson", tol=1e-50
        )
        assert mp.mpf(kappa) >= root
        assert mp.mpf(kappa) <= root * (1 + mp.mpf("1e-14"))


@given(
    epsilon=st.floats(min_value=-3, max_value=2).map(lambda x: 10.0**x),
    delta=st.floats(min_value=-40, max_value=-0.5).map(lambda x: 10.0**x),
    factor=st.floats(min_value=1.001, max_value=10),
)
@settings(deadline=None, max_examples=40)
def test_log_delta_is_concave_where_newton_needs_it(epsilon: float, delta: float, factor: float) -> None:
    mu_squared = largest_mu_squared(epsilon, delta)
    with mp.workdps(60):

        def concave(left: mpmath.mpf, middle: mpmath.mpf, right: mpmath.mpf) -> bool:
            return bool(2 * mp.log(middle) >= mp.log(left) + mp.log(right))

        m, f = mp.mpf(mu_squared), mp.mpf(factor)
        assert concave(curve(m / f, epsilon), curve(m, epsilon), curve(m * f, epsilon))
        e = mp.mpf(epsilon)
        step = e * (f - 1) / f
        assert concave(curve(m, e - step), curve(m, e), curve(m, e + step))


@given(
    mu_squared=st.floats(min_value=-12, max_value=4).map(lambda x: 10.0**x),
    delta=st.floats(min_value=-300, max_value=-0.01).map(lambda x: 10.0**x),
)
@settings(deadline=None, max_examples=60)
def test_the_two_inverses_undo_each_other(mu_squared: float, delta: float) -> None:
    epsilon = smallest_epsilon(mu_squared, delta)
    if epsilon == 0.0:
        with mp.workdps(60):
            assert curve(mu_squared, 0) <= mp.mpf(delta)
    else:
        # Epsilon was rounded up, so that at least the same noise ratio fits into it.
        assert largest_mu_squared(epsilon, delta) >= mu_squared * (1 - 1e-15)


def test_so_much_delta_needs_no_epsilon() -> None:
    # Total variation 2 Phi(mu/2) - 1 is 0.0797 at mu = 0.2.
    assert smallest_epsilon(0.04, 0.08) == 0.0
    assert smallest_epsilon(0.04, 0.079) > 0.0


def test_next_to_no_noise_is_charged_the_zcdp_bound() -> None:
    assert smallest_epsilon(1e20, 1e-5) == epsilon_of_rho(Fraction(5 * 10**19), 1e-5)
    assert smallest_epsilon(4e9, 1e-5) < epsilon_of_rho(Fraction(2 * 10**9), 1e-5)
    assert smallest_epsilon(Fraction(10) ** 400, 1e-5) == float("inf")


def test_an_absurd_epsilon_is_refused() -> None:
    assert largest_mu_squared(1e9, 1e-5) == pytest.approx(2e9, rel=1e-3)
    with pytest.raises(InvalidBudget, match=r"epsilon <= 1e\+09"):
        largest_mu_squared(1.1e9, 1e-5)


def test_a_budget_too_small_for_doubles_is_refused() -> None:
    with pytest.raises(InvalidBudget, match="finite noise"):
        largest_mu_squared(1e-200, 1e-300)
    assert (
        largest_mu_squared(1e-200, 1e-5) > 6e-10
    )  # a small enough total variation is private at any epsilon


def test_dp_accounting_calibrates_the_same_single_release() -> None:
    from dp_accounting.pld import common
    from dp_accounting.pld.privacy_loss_mechanism import GaussianPrivacyLoss

    loss = GaussianPrivacyLoss.from_privacy_guarantee(common.DifferentialPrivacyParameters(1.0, 1e-5))
    assert largest_mu_squared(1.0, 1e-5) == pytest.approx(loss.standard_deviation**-2, rel=1e-6)
