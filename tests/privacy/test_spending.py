"""What explicit, unequal noise has cost."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp

import sightline as sl
from sightline.errors import InvalidBudget, InvalidNoise
from sightline.privacy.gaussian_dp import smallest_epsilon
from sightline.privacy.registry import accountant_named

multipliers = st.lists(st.floats(min_value=0.2, max_value=200), min_size=1, max_size=8)
deltas = st.floats(min_value=-12, max_value=-1).map(lambda x: 10.0**x)


def exact_delta(mu: object, epsilon: float) -> object:
    mu, eps = mp.mpf(mu), mp.mpf(epsilon)
    return mp.ncdf(mu / 2 - eps / mu) - mp.exp(eps) * mp.ncdf(-mu / 2 - eps / mu)


class TestAccount:
    @given(multipliers=multipliers, delta=deltas)
    @settings(deadline=None, max_examples=40)
    def test_every_figure_is_the_true_one_or_above(self, multipliers: list[float], delta: float) -> None:
        spent = sl.privacy.account(multipliers, delta=delta)
        with mp.workdps(60):
            mu_squared = mp.fsum(1 / mp.mpf(m) ** 2 for m in multipliers)
            log_inverse_delta = -mp.log(mp.mpf(delta))
            rho = mu_squared / 2
            classical = rho + 2 * mp.sqrt(rho * log_inverse_delta)
            # No order gives less: the formula of Canonne, Kamath and Steinke on a fine grid.
            orders = [1 + mp.e ** (mp.mpf(step) / 20) for step in range(-200, 300)]
            tight = min(
                a * rho + (log_inverse_delta - mp.log(a)) / (a - 1) + mp.log(1 - 1 / a) for a in orders
            )
            assert max(tight, 0) * (1 - mp.mpf("1e-3")) <= spent.epsilon_zcdp <= classical
            assert spent.epsilon_zcdp <= max(tight, mp.mpf("1e-300")) * (1 + mp.mpf("1e-12"))
            for reported, truth in [
                (spent.rho, rho),
                (spent.mu, mp.sqrt(mu_squared)),
                (spent.epsilon_renyi, classical),
            ]:
                assert truth <= reported <= truth * (1 + mp.mpf("1e-14"))
            assert exact_delta(mp.sqrt(mu_squared), spent.epsilon_exact) <= delta
            if spent.epsilon_exact > 0:
                assert exact_delta(mp.sqrt(mu_squared), spent.epsilon_exact * (1 - 1e-12)) > delta
        assert spent.releases == len(multipliers)
        assert spent.delta == delta
        assert spent.epsilon_exact <= spent.epsilon_zcdp
        assert spent.epsilon_exact <= spent.epsilon_basic * (1 + 1e-14)

    @given(multipliers=multipliers, delta=deltas)
    @settings(deadline=None, max_examples=20)
    def test_basic_is_the_sum_over_the_releases(self, multipliers: list[float], delta: float) -> None:
        each = [smallest_epsilon(float(m) ** -2, delta / len(multipliers)) for m in multipliers]
        assert sl.privacy.account(multipliers, delta=delta).epsilon_basic == pytest.approx(
            math.fsum(each), rel=1e-12
        )

    @given(multipliers=multipliers, delta=deltas)
    @settings(deadline=None, max_examples=20)
    def test_another_release_never_costs_less(self, multipliers: list[float], delta: float) -> None:
        before, after = (
            sl.privacy.account(multipliers, delta=delta),
            sl.privacy.account([*multipliers, 5.0], delta=delta),
        )
        assert after.rho > before.rho
        assert after.mu > before.mu
        for name in ("epsilon_exact", "epsilon_zcdp", "epsilon_renyi", "epsilon_basic"):
            assert getattr(after, name) >= getattr(before, name)

    @pytest.mark.parametrize("releases", [1, 20])
    def test_equal_noise_costs_what_the_accountants_say(self, releases: int) -> None:
        budget = sl.Budget(epsilon=1.0, delta=1e-5)
        spent = sl.privacy.account([7.0] * releases, delta=1e-5)
        for accountant, epsilon in [
            (sl.GaussianDP(budget), spent.epsilon_exact),
            (accountant_named("zcdp", budget), spent.epsilon_zcdp),
            (sl.Renyi(budget), spent.epsilon_renyi),
            (sl.BasicComposition(budget, calibration="analytic"), spent.epsilon_basic),
        ]:
            assert epsilon == pytest.approx(accountant.epsilon(releases, noise_multiplier=7.0), rel=1e-14)

    def test_dp_accounting_agrees_on_unequal_noise(self) -> None:
        from dp_accounting import GaussianDpEvent
        from dp_accounting.pld import PLDAccountant

        accountant = PLDAccountant(value_discretization_interval=1e-3)
        for multiplier in (2.0, 3.0, 8.0, 1.0):
            accountant.compose(GaussianDpEvent(multiplier))
        spent = sl.privacy.account([2.0, 3.0, 8.0, 1.0], delta=1e-6)
        assert spent.epsilon_exact == pytest.approx(accountant.get_epsilon(1e-6), abs=1e-4)

    @pytest.mark.parametrize("bad", [[], [1.0, 0.0], [-1.0], [float("nan")], [float("inf")], 3.0, ["loud"]])
    def test_multipliers_are_finite_and_positive(self, bad: list[float]) -> None:
        with pytest.raises(InvalidNoise, match="noise multipliers"):
            sl.privacy.account(bad, delta=1e-5)

    def test_next_to_no_noise_is_refused_when_its_cost_is_no_double(self) -> None:
        assert sl.privacy.account([1e-100], delta=1e-5).epsilon_exact > 1e199
        with pytest.raises(InvalidNoise, match="finite cost"):
            sl.privacy.account([1e-160], delta=1e-5)

    @pytest.mark.parametrize("delta", [0.0, 1.0, float("nan")])
    def test_delta_is_strictly_between_0_and_1(self, delta: float) -> None:
        with pytest.raises(InvalidBudget, match="delta"):
            sl.privacy.account([1.0], delta=delta)


class TestAccountBudgets:
    @pytest.mark.parametrize("calibration", ["classical", "analytic"])
    def test_equal_budgets_are_basic_composition(self, calibration: str) -> None:
        spent = sl.privacy.account_budgets([0.05] * 20, [5e-7] * 20, calibration=calibration)
        basic = sl.BasicComposition(sl.Budget(epsilon=1.0, delta=1e-5), calibration=calibration)
        assert spent.releases == 20
        assert spent.epsilon_basic == pytest.approx(1.0, rel=1e-14)
        assert spent.delta == pytest.approx(1e-5, rel=1e-14)
        assert spent.rho == pytest.approx(20 / (2 * basic.kappa(20)), rel=1e-12)
        exact = sl.GaussianDP(sl.Budget(epsilon=1.0, delta=1e-5))
        cost = exact.epsilon(20, noise_multiplier=math.sqrt(basic.kappa(20)))
        assert spent.epsilon_exact == pytest.approx(cost, rel=1e-12)

    def test_unequal_budgets_in_the_papers_calibration(self) -> None:
        epsilons, deltas = np.array([0.5, 0.1, 0.9]), np.array([1e-6, 1e-7, 3e-6])
        spent = sl.privacy.account_budgets(epsilons, deltas)
        information = epsilons**2 / (2 * np.log(1.25 / deltas))  # SNR of eq:gaussian_calibration
        assert spent.rho == pytest.approx(information.sum() / 2, rel=1e-14)
        assert spent.mu == pytest.approx(math.sqrt(information.sum()), rel=1e-14)
        assert spent.epsilon_basic == pytest.approx(1.5, rel=1e-15)
        assert spent.delta == pytest.approx(4.1e-6, rel=1e-15)
        assert spent.epsilon_exact < spent.epsilon_zcdp
        assert spent.epsilon_exact < spent.epsilon_basic

    def test_a_release_that_misses_its_epsilon_counts_with_the_one_it_delivers(self) -> None:
        classical = sl.privacy.account_budgets([20.0, 1.0], [1e-5, 1e-5])
        multiplier = math.sqrt(2 * math.log(1.25e5)) / 20
        assert classical.epsilon_basic == pytest.approx(1 + smallest_epsilon(multiplier**-2, 1e-5), rel=1e-12)
        assert classical.epsilon_basic > 24
        assert (
            sl.privacy.account_budgets([20.0, 1.0], [1e-5, 1e-5], calibration="analytic").epsilon_basic
            == 21.0
        )

    def test_bad_budgets(self) -> None:
        with pytest.raises(InvalidBudget, match="as many deltas as epsilons"):
            sl.privacy.account_budgets([1.0, 1.0], [1e-5])
        with pytest.raises(InvalidBudget, match="sum to less than 1"):
            sl.privacy.account_budgets([1.0, 1.0], [0.5, 0.5])
        with pytest.raises(InvalidBudget, match="epsilons > 0"):
            sl.privacy.account_budgets([1.0, 0.0], [1e-5, 1e-5])
        with pytest.raises(InvalidBudget, match="deltas > 0"):
            sl.privacy.account_budgets([1.0, 1.0], [1e-5, -1e-5])
        with pytest.raises(InvalidBudget, match="at least one of epsilons"):
            sl.privacy.account_budgets([], [])
        with pytest.raises(InvalidBudget, match="one of 'classical', 'analytic'"):
            sl.privacy.account_budgets([1.0], [1e-5], calibration="exact")
