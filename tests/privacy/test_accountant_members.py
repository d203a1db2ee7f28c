"""What is particular to each accountant: its numbers, its theorem, its limits."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp

import sightline as sl
from sightline.errors import InvalidBudget
from sightline.privacy.composition import composed_epsilon
from sightline.privacy.concentrated import best_order, epsilon_at_order, epsilon_of_rho, rho_of_budget
from sightline.privacy.gaussian_dp import smallest_epsilon

PAPER = sl.Budget(epsilon=1.0, delta=1e-5)
EXTREMES = [*itertools.product([1e-6, 1e-2, 1.0, 10.0, 1e3], [1e-300, 1e-5, 0.1, 0.5])]


@pytest.mark.parametrize(
    ("accountant", "kappa"),
    [
        (sl.BasicComposition(PAPER), "11785.4410319"),
        (sl.ZeroConcentrated(PAPER), "480.308819215"),
        (sl.Renyi(PAPER, order=64), "783.109166021"),
        (sl.GaussianDP(PAPER), "278.352247894"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_kappa_of_twenty_releases_to_the_printed_digits(
    accountant: sl.privacy.Accountant, kappa: str
) -> None:
    assert f"{accountant.kappa(20):.12g}" == kappa


class TestBasicComposition:
    @pytest.mark.parametrize(("epsilon", "delta"), EXTREMES)
    def test_the_classical_kappa_is_the_papers_formula(self, epsilon: float, delta: float) -> None:
        counts = [1, 2, 40, 10**9]
        with mp.workdps(50):
            paper = [
                float(2 * mp.mpf(L) ** 2 * mp.log(mp.mpf("1.25") * L / mp.mpf(delta)) / mp.mpf(epsilon) ** 2)
                for L in counts
            ]
        kappa = sl.BasicComposition(sl.Budget(epsilon=epsilon, delta=delta)).kappa(counts)
        assert kappa == pytest.approx(paper, rel=2e-15)

    def test_unequal_shares_are_the_papers_per_release_calibration(self) -> None:
        shares = [0.5, 0.3, 0.2]
        expected = [2 * math.log(1.25 / (1e-5 * s)) / s**2 for s in shares]
        assert sl.BasicComposition(PAPER).kappa_of_shares(shares) == pytest.approx(expected, rel=1e-14)

    def test_calibrations_have_names(self) -> None:
        assert sl.BasicComposition(PAPER, calibration="classical") == sl.BasicComposition(PAPER)
        analytic = sl.BasicComposition(PAPER, calibration=sl.privacy.Calibration.ANALYTIC)
        assert analytic == sl.BasicComposition(PAPER, calibration="analytic")
        with pytest.raises(InvalidBudget, match="'classical', 'analytic', got 'clasical'"):
            sl.BasicComposition(PAPER, calibration="clasical")

    @pytest.mark.parametrize(
        ("epsilon", "delta"), [*itertools.product([1e-6, 0.1, 0.9, 1.0], [1e-300, 1e-5, 0.5, 0.99])]
    )
    def test_inside_its_range_the_classical_calibration_is_above_the_analytic(
        self, epsilon: float, delta: float
    ) -> None:
        budget = sl.Budget(epsilon=epsilon, delta=delta)
        classical, analytic = sl.BasicComposition(budget), sl.BasicComposition(budget, calibration="analytic")
        assert classical.validity(1).ok
        assert (
            classical.kappa(1) > analytic.kappa(1) == pytest.approx(sl.GaussianDP(budget).kappa(1), rel=1e-15)
        )

    @pytest.mark.slow
    def test_outside_its_range_the_classical_calibration_says_so_and_can_really_fail(self) -> None:
        budget = sl.Budget(epsilon=20.0, delta=1e-5)
        classical = sl.BasicComposition(budget)
        assert [classical.validity(L).ok for L in (1, 2, 19, 20, 21)] == [False, False, False, True, True]
        assert "here it is 10;" in classical.validity(2).note
        assert not classical.validity([2, 40]).ok
        assert not classical.validity_of_shares([0.9] + [0.001] * 100).ok
        assert sl.BasicComposition(budget, calibration="analytic").validity(1).ok
        # One release with the paper's number: its true epsilon is well above the budget.
        multiplier = math.sqrt(classical.kappa(1))
        assert smallest_epsilon(multiplier**-2, 1e-5) > 23
        from dp_accounting import GaussianDpEvent
        from dp_accounting.pld import PLDAccountant

        accountant = PLDAccountant(value_discretization_interval=1e-3)
        accountant.compose(GaussianDpEvent(multiplier))
        assert accountant.get_epsilon(1e-5) > 23
        # The backward question does not repeat the mistake.
        assert classical.epsilon(1, noise_multiplier=multiplier) > 23


class TestZeroConcentrated:
    @pytest.mark.parametrize(("epsilon", "delta"), EXTREMES)
    def test_rho_solves_its_equation_from_below_and_epsilon_from_above(
        self, epsilon: float, delta: float
    ) -> None:
        with mp.workdps(60):
            root = mp.sqrt(mp.log(1 / mp.mpf(delta)) + epsilon) - mp.sqrt(mp.log(1 / mp.mpf(delta)))
            truth = root**2
            rho = rho_of_budget(epsilon, delta)
            assert truth * (1 - mp.mpf("4e-16")) <= rho <= truth
            cost = mp.mpf(rho) + 2 * mp.sqrt(rho * mp.log(1 / mp.mpf(delta)))
            assert cost <= epsilon_of_rho(rho, delta) <= cost * (1 + mp.mpf("4e-16"))

    def test_kappa_is_the_papers(self) -> None:
        accountant = sl.ZeroConcentrated(PAPER)
        assert accountant.kappa([1, 30]) == pytest.approx(
            [0.5 / accountant.rho, 15 / accountant.rho], rel=2e-15
        )


class TestRenyi:
    @pytest.mark.parametrize("order", [13, 20.5, 64, 1e6])
    def test_a_fixed_order_is_the_papers(self, order: float) -> None:
        expected = 20 * order / (2 * (1 - math.log(1e5) / (order - 1)))
        assert sl.Renyi(PAPER, order=order).kappa(20) == pytest.approx(expected, rel=1e-13)

    @pytest.mark.parametrize(("epsilon", "delta"), EXTREMES)
    def test_the_best_order_is_found_by_a_search_too(self, epsilon: float, delta: float) -> None:
        budget = sl.Budget(epsilon=epsilon, delta=delta)
        best = sl.Renyi(budget)
        around = best.order_used - 1
        searched = [sl.Renyi(budget, order=1 + around * f).kappa(1) for f in np.geomspace(1 / 1.1, 1.1, 41)]
        assert best.kappa(1) <= min(searched) * (1 + 1e-15)
        assert np.argmin(searched) == 20
        assert best_order(sl.ZeroConcentrated(budget).rho, delta) == pytest.approx(best.order_used, rel=1e-14)

    @pytest.mark.parametrize(("epsilon", "delta"), EXTREMES)
    def test_at_its_best_order_it_is_zcdp(self, epsilon: float, delta: float) -> None:
        budget = sl.Budget(epsilon=epsilon, delta=delta)
        assert sl.Renyi(budget).kappa(7) == pytest.approx(sl.ZeroConcentrated(budget).kappa(7), rel=4e-15)
        multiplier = 3.7
        assert sl.Renyi(budget).epsilon(7, noise_multiplier=multiplier) == pytest.approx(
            sl.ZeroConcentrated(budget).epsilon(7, noise_multiplier=multiplier), rel=4e-15
        )

    def test_the_conversion_is_the_papers(self) -> None:
        assert epsilon_at_order(64, 0.02, 1e-5) == pytest.approx(64 * 0.02 + math.log(1e5) / 63, rel=1e-15)

    def test_an_order_that_leaves_no_budget_is_refused_with_the_smallest_that_does(self) -> None:
        with pytest.raises(InvalidBudget, match=r"order 8\.0.*smallest whole order that works is 13"):
            sl.Renyi(PAPER, order=8)
        with pytest.raises(InvalidBudget, match="smallest whole order that works is 13"):
            sl.Renyi(PAPER, order=12)
        assert sl.Renyi(PAPER, order=13).kappa(1) > 0

    @pytest.mark.parametrize("order", [1, 0.5, -3, float("nan"), float("inf")])
    def test_an_order_is_finite_and_above_one(self, order: float) -> None:
        with pytest.raises(InvalidBudget, match="finite order > 1"):
            sl.Renyi(PAPER, order=order)

    def test_orders_beyond_the_doubles_give_way(self) -> None:
        # The best orders here are 1 + 1e-158 and 1 + 1e310: still an order, still a bound.
        assert best_order(1e308, 1 - 2**-53) > 1
        assert best_order(5e-324, 1e-300) < math.inf
        assert sl.Renyi(PAPER).epsilon(1, noise_multiplier=1e300) > 0
        with pytest.raises(InvalidBudget):
            sl.Renyi(sl.Budget(epsilon=5e-324, delta=1e-5)).kappa(1)


class TestAdvancedComposition:
    @pytest.mark.parametrize(
        ("k", "epsilon", "slack"),
        [*itertools.product([1, 2, 10, 200], [0.001, 0.1, 1.0], [1e-8, 1e-3, 0.3])],
    )
    def test_its_theorem_is_above_the_optimal_composition(self, k: int, epsilon: float, slack: float) -> None:
        total = composed_epsilon(
            np.array([epsilon]), times=np.array([float(k)]), log_inverse_slack=-math.log(slack)
        )
        assert total <= k * epsilon * (1 + 1e-12)
        # The worst mechanism is randomised response: its exact delta (Kairouz, Oh & Viswanath).
        with mp.workdps(40 + k):
            e = mp.exp(mp.mpf(epsilon))
            worst = mp.fsum(
                mp.binomial(k, i) * max(e ** (k - i) - mp.exp(total) * e**i, 0) / (1 + e) ** k
                for i in range(k + 1)
            )
            assert worst <= mp.mpf(slack)

    @pytest.mark.parametrize("slack", [1e-12, 1e-3, 0.5])
    def test_the_composed_epsilon_is_the_theorems_formula(self, slack: float) -> None:
        epsilons, times = [0.01, 0.2, 1.3], [400, 7, 1]
        each = [mp.mpf(e) for e, n in zip(epsilons, times, strict=True) for _ in range(n)]
        total, squares = mp.fsum(each), mp.fsum(e**2 for e in each)
        drift = mp.fsum(e * (mp.exp(e) - 1) / (mp.exp(e) + 1) for e in each)
        spread = [mp.log(1 / mp.mpf(slack)), mp.log(mp.e + mp.sqrt(squares) / slack)]
        theorem = min(total, *(drift + mp.sqrt(2 * squares * s) for s in spread))
        ours = composed_epsilon(
            np.array(epsilons), times=np.array(times, dtype=float), log_inverse_slack=-math.log(slack)
        )
        assert theorem <= ours <= theorem * (1 + 1e-13)

    @given(
        epsilons=st.lists(st.floats(min_value=0.01, max_value=2), min_size=2, max_size=7),
        slack=st.floats(min_value=-8, max_value=-0.3).map(lambda x: 10.0**x),
    )
    @settings(deadline=None, max_examples=60)
    def test_its_theorem_holds_for_unequal_mechanisms(self, epsilons: list[float], slack: float) -> None:
        total = composed_epsilon(
            np.array(epsilons), times=np.ones(len(epsilons)), log_inverse_slack=-math.log(slack)
        )
        worst = 0.0
        for signs in itertools.product([1, -1], repeat=len(epsilons)):
            likelihood = math.prod(1 / (1 + math.exp(-s * e)) for s, e in zip(signs, epsilons, strict=True))
            loss = math.fsum(s * e for s, e in zip(signs, epsilons, strict=True))
            worst += likelihood * max(-math.expm1(total - loss), 0.0)
        assert worst <= slack * (1 + 1e-12)

    def test_the_textbook_theorem_is_never_below(self) -> None:
        # Dwork & Roth, Theorem 3.20: sqrt(2k ln(1/slack)) eps + k eps (e^eps - 1).
        for k, epsilon, slack in itertools.product([1, 5, 50, 500], [0.01, 0.3, 1.5], [1e-9, 1e-2]):
            textbook = math.sqrt(2 * k * math.log(1 / slack)) * epsilon + k * epsilon * math.expm1(epsilon)
            ours = composed_epsilon(
                np.array([epsilon]), times=np.array([float(k)]), log_inverse_slack=-math.log(slack)
            )
            assert ours <= textbook * (1 + 1e-12)

    def test_it_overtakes_basic_composition_and_grows_almost_linearly(self) -> None:
        advanced = sl.AdvancedComposition(PAPER)
        basic = sl.BasicComposition(PAPER, calibration="analytic")
        assert advanced.kappa(1) > basic.kappa(1)
        assert advanced.kappa(200) < basic.kappa(200)
        assert advanced.kappa(2 * 10**6) / advanced.kappa(10**6) == pytest.approx(2, rel=0.06)

    def test_nothing_composed_costs_nothing(self) -> None:
        assert composed_epsilon(np.array([0.0]), times=np.array([5.0]), log_inverse_slack=10.0) == 0.0


class TestLaplaceComposition:
    def test_kappa_is_the_squared_scale_and_half_the_variance(self) -> None:
        laplace = sl.LaplaceComposition(sl.Budget(epsilon=0.5, delta=1e-5))
        assert laplace.law is sl.privacy.Law.LAPLACE
        assert laplace.kappa([1, 3]).tolist() == [4.0, 36.0]
        assert laplace.noise_stddev(3, sensitivity=2.0) ** 2 == pytest.approx(2 * 36 * 4, rel=1e-15)

    def test_delta_is_not_used(self) -> None:
        strict = sl.LaplaceComposition(sl.Budget(epsilon=1.0, delta=1e-300))
        assert strict.kappa(9) == sl.LaplaceComposition(sl.Budget(epsilon=1.0, delta=0.9)).kappa(9)
        assert "delta is not used" in strict.validity(9).note

    @pytest.mark.parametrize("releases", [1, 5])
    def test_dp_accounting_finds_the_pure_budget_kept(self, releases: int) -> None:
        from dp_accounting import LaplaceDpEvent, SelfComposedDpEvent
        from dp_accounting.pld import PLDAccountant

        scale = math.sqrt(sl.LaplaceComposition(PAPER).kappa(releases))
        accountant = PLDAccountant(value_discretization_interval=1e-3)
        accountant.compose(SelfComposedDpEvent(LaplaceDpEvent(scale), releases))
        # The largest loss has probability 2^-L, so that so small a delta forgives next to none of it; the
        # discretisation rounds each release's loss up, by at most one interval.
        pure = accountant.get_epsilon(1e-9)
        assert PAPER.epsilon - 1e-6 <= pure <= PAPER.epsilon + 1e-3 * releases
