"""The laws that every accountant obeys."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp

import sightline as sl
from sightline.errors import InvalidBudget, InvalidInput, InvalidNoise

Factory = Callable[[sl.Budget], sl.privacy.Accountant]


def basic_analytic(budget: sl.Budget) -> sl.privacy.Accountant:
    return sl.BasicComposition(budget, calibration="analytic")


def renyi_fixed_order(budget: sl.Budget) -> sl.privacy.Accountant:
    return sl.Renyi(budget, order=1 - 3 * math.log(budget.delta) / budget.epsilon)


ACCOUNTANTS: list[Factory] = [
    sl.BasicComposition,
    basic_analytic,
    sl.AdvancedComposition,
    sl.ZeroConcentrated,
    renyi_fixed_order,
    sl.Renyi,
    sl.GaussianDP,
    sl.LaplaceComposition,
]
GAUSSIAN = [factory for factory in ACCOUNTANTS if factory is not sl.LaplaceComposition]
PAPER = sl.Budget(epsilon=1.0, delta=1e-5)

budgets = st.builds(
    lambda e, d: sl.Budget(epsilon=10.0**e, delta=10.0**d),
    st.floats(min_value=-4, max_value=2),
    st.floats(min_value=-30, max_value=-0.4),
)
counts = st.integers(min_value=1, max_value=10**6)
laws = settings(deadline=None, max_examples=20)


def name(factory: Factory) -> str:
    return factory.__name__


def scale_multiplier(accountant: sl.privacy.Accountant, releases: int) -> float:
    """Scale over sensitivity of the prescribed noise, from its standard deviation."""
    stddev = accountant.noise_stddev(releases, sensitivity=1.0)
    return stddev / math.sqrt(2) if accountant.law is sl.privacy.Law.LAPLACE else stddev


@pytest.mark.parametrize("factory", ACCOUNTANTS, ids=name)
class TestEveryAccountant:
    @given(budget=budgets, releases=counts)
    @laws
    def test_one_release_more_never_costs_less_noise(
        self, factory: Factory, budget: sl.Budget, releases: int
    ) -> None:
        accountant = factory(budget)
        assert (
            accountant.kappa(releases) < accountant.kappa(releases + 1) < accountant.kappa(2 * releases + 1)
        )

    @given(budget=budgets, releases=counts, factor=st.floats(min_value=1.01, max_value=10))
    @laws
    def test_more_epsilon_or_more_delta_never_costs_more_noise(
        self, factory: Factory, budget: sl.Budget, releases: int, factor: float
    ) -> None:
        kappa = factory(budget).kappa(releases)
        richer = sl.Budget(epsilon=budget.epsilon * factor, delta=budget.delta)
        looser = sl.Budget(epsilon=budget.epsilon, delta=min(budget.delta * factor, 0.5))
        assert factory(richer).kappa(releases) < kappa
        assert factory(looser).kappa(releases) <= kappa

    @given(budget=budgets, releases=st.lists(counts, min_size=1, max_size=5))
    @laws
    def test_an_array_of_counts_gives_the_same_numbers(
        self, factory: Factory, budget: sl.Budget, releases: list[int]
    ) -> None:
        accountant = factory(budget)
        one_by_one = [accountant.kappa(count) for count in releases]
        assert all(type(kappa) is float for kappa in one_by_one)
        assert accountant.kappa(releases).tolist() == one_by_one
        assert accountant.kappa(np.array([releases, releases])).tolist() == [one_by_one, one_by_one]
        assert accountant.noise_stddev(releases, sensitivity=0.5) == pytest.approx(
            [accountant.noise_stddev(count, sensitivity=0.5) for count in releases], rel=1e-15
        )

    @given(budget=budgets, releases=st.integers(min_value=1, max_value=200))
    @laws
    def test_equal_shares_are_the_equal_split(
        self, factory: Factory, budget: sl.Budget, releases: int
    ) -> None:
        accountant = factory(budget)
        shares = accountant.kappa_of_shares(np.full(releases, 1 / releases))
        assert shares == pytest.approx(accountant.kappa(releases), rel=1e-12)

    @given(budget=budgets, weights=st.lists(st.floats(min_value=0.01, max_value=1), min_size=2, max_size=6))
    @laws
    def test_a_larger_share_buys_less_noise(
        self, factory: Factory, budget: sl.Budget, weights: list[float]
    ) -> None:
        shares = np.array(weights) / sum(weights)
        kappa = factory(budget).kappa_of_shares(shares)
        order = np.argsort(shares)
        assert np.all(np.diff(kappa[order]) <= 0)
        assert kappa.max() >= factory(budget).kappa(len(weights)) * (1 - 1e-12)

    @given(budget=budgets, releases=counts)
    @laws
    def test_the_noise_it_prescribes_costs_the_budget(
        self, factory: Factory, budget: sl.Budget, releases: int
    ) -> None:
        accountant = factory(budget)
        if not accountant.validity(releases).ok:
            return
        cost = accountant.epsilon(releases, noise_multiplier=math.sqrt(accountant.kappa(releases)))
        assert cost == pytest.approx(budget.epsilon, rel=1e-9)
        spent = accountant.epsilon(releases, noise_multiplier=scale_multiplier(accountant, releases))
        assert spent <= budget.epsilon * (1 + 2e-15)

    @given(
        budget=budgets,
        releases=counts,
        multiplier=st.floats(min_value=-2, max_value=5).map(lambda x: 10.0**x),
    )
    @laws
    def test_more_noise_never_costs_more(
        self, factory: Factory, budget: sl.Budget, releases: int, multiplier: float
    ) -> None:
        accountant = factory(budget)
        cost = accountant.epsilon(releases, noise_multiplier=multiplier)
        assert accountant.epsilon(releases, noise_multiplier=2 * multiplier) <= cost
        assert accountant.epsilon(releases + 1, noise_multiplier=multiplier) >= cost

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("epsilon", "delta"), [*itertools.product([1e-6, 1e-3, 1.0, 30.0, 1e3], [5e-324, 1e-300, 1e-5, 0.5])]
    )
    def test_extreme_budgets_give_finite_monotone_noise(
        self, factory: Factory, epsilon: float, delta: float
    ) -> None:
        kappa = factory(sl.Budget(epsilon=epsilon, delta=delta)).kappa([1, 2, 1000, 10**9])
        assert np.all(np.isfinite(kappa))
        assert np.all(kappa > 0)
        assert np.all(np.diff(kappa) > 0)

    def test_a_budget_that_buys_no_finite_noise_is_refused(self, factory: Factory) -> None:
        with pytest.raises(InvalidBudget):
            factory(sl.Budget(epsilon=1e-160, delta=1e-300)).kappa(10)
        with pytest.raises(InvalidBudget):
            factory(sl.Budget(epsilon=1e-160, delta=1e-300)).kappa_of_shares([0.5, 0.5])

    def test_the_standard_deviation_scales_with_the_sensitivity(self, factory: Factory) -> None:
        accountant = factory(PAPER)
        variance = {sl.privacy.Law.GAUSSIAN: 1, sl.privacy.Law.LAPLACE: 2}[accountant.law] * accountant.kappa(
            7
        )
        stddev = accountant.noise_stddev(7, sensitivity=0.25)
        assert type(stddev) is float
        assert stddev**2 == pytest.approx(variance / 16, rel=1e-14)
        many = accountant.noise_stddev(7, sensitivity=[0.25, 1.0])
        assert many == pytest.approx([stddev, 4 * stddev], rel=1e-15)
        broadcast = accountant.noise_stddev(np.array([[7], [9]]), sensitivity=[0.25, 1.0])
        assert np.shape(broadcast) == (2, 2)

    def test_it_says_what_it_rests_on(self, factory: Factory) -> None:
        for validity in (factory(PAPER).validity(3), factory(PAPER).validity_of_shares([0.5, 0.5])):
            assert validity.ok
            assert validity.note

    def test_it_is_a_value(self, factory: Factory) -> None:
        assert factory(PAPER) == factory(sl.Budget(epsilon=1.0, delta=1e-5))
        assert hash(factory(PAPER)) == hash(factory(sl.Budget(epsilon=1.0, delta=1e-5)))
        assert factory(PAPER) != factory(sl.Budget(epsilon=2.0, delta=1e-5))
        with pytest.raises(AttributeError):
            factory(PAPER).budget = PAPER  # type: ignore[misc]

    @pytest.mark.parametrize("releases", [0, -3, 2.5, [4, 0], [1, 1.5], float("nan"), "many", []])
    def test_releases_are_whole_numbers_from_one(self, factory: Factory, releases: int) -> None:
        with pytest.raises(InvalidInput, match="releases"):
            factory(PAPER).kappa(releases)
        with pytest.raises(InvalidInput, match="releases"):
            factory(PAPER).noise_stddev(releases, sensitivity=1.0)
        with pytest.raises(InvalidInput, match="releases"):
            factory(PAPER).epsilon(releases, noise_multiplier=1.0)
        with pytest.raises(InvalidInput, match="releases"):
            factory(PAPER).validity(releases)

    def test_epsilon_is_asked_for_one_count(self, factory: Factory) -> None:
        with pytest.raises(InvalidInput, match="one number of releases"):
            factory(PAPER).epsilon([3, 4], noise_multiplier=1.0)  # type: ignore[arg-type]

    @pytest.mark.parametrize("sensitivity", [0.0, -1.0, float("nan"), float("inf"), [1.0, 0.0]])
    def test_sensitivity_is_finite_and_positive(self, factory: Factory, sensitivity: float) -> None:
        with pytest.raises(InvalidInput, match="sensitivity"):
            factory(PAPER).noise_stddev(3, sensitivity=sensitivity)

    @pytest.mark.parametrize("multiplier", [0.0, -1.0, float("nan"), float("inf"), [1.0]])
    def test_noise_multiplier_is_finite_and_positive(self, factory: Factory, multiplier: float) -> None:
        with pytest.raises(InvalidNoise, match="noise multiplier"):
            factory(PAPER).epsilon(3, noise_multiplier=multiplier)

    @pytest.mark.parametrize(
        "shares", [[], [0.5, 0.4], [0.5, 0.6], [1.5, -0.5], [1.0, 0.0], [[1.0]], [float("nan")]]
    )
    def test_shares_are_positive_and_sum_to_one(self, factory: Factory, shares: list[float]) -> None:
        with pytest.raises(InvalidInput, match="share"):
            factory(PAPER).kappa_of_shares(shares)
        with pytest.raises(InvalidInput, match="share"):
            factory(PAPER).validity_of_shares(shares)


@pytest.mark.parametrize("factory", GAUSSIAN, ids=name)
class TestEveryGaussianAccountant:
    @given(budget=budgets, releases=counts)
    @laws
    def test_its_noise_really_meets_the_budget(
        self, factory: Factory, budget: sl.Budget, releases: int
    ) -> None:
        accountant = factory(budget)
        if accountant.validity(releases).ok:
            assert exact_delta(
                releases, accountant.noise_stddev(releases, sensitivity=1.0), budget.epsilon
            ) <= (mp.mpf(budget.delta))

    @given(budget=budgets, weights=st.lists(st.floats(min_value=0.01, max_value=1), min_size=1, max_size=6))
    @laws
    def test_its_unequal_noise_really_meets_the_budget(
        self, factory: Factory, budget: sl.Budget, weights: list[float]
    ) -> None:
        accountant, shares = factory(budget), np.array(weights) / sum(weights)
        if accountant.validity_of_shares(shares).ok:
            kappa = [Fraction(float(k)) for k in accountant.kappa_of_shares(shares)]
            total = 1 / sum(1 / k for k in kappa)
            with mp.workdps(60):
                multiplier = mp.sqrt(mp.mpf(total.numerator) / total.denominator)
            assert exact_delta(1, multiplier, budget.epsilon) <= mp.mpf(budget.delta)

    @given(
        budget=budgets,
        releases=counts,
        multiplier=st.floats(min_value=-1, max_value=5).map(lambda x: 10.0**x),
    )
    @laws
    def test_the_epsilon_it_reports_is_an_upper_bound(
        self, factory: Factory, budget: sl.Budget, releases: int, multiplier: float
    ) -> None:
        cost = factory(budget).epsilon(releases, noise_multiplier=multiplier)
        assert exact_delta(releases, multiplier, cost) <= mp.mpf(budget.delta)

    def test_no_accountant_beats_exact_composition(self, factory: Factory) -> None:
        for epsilon, delta in itertools.product([1e-3, 0.1, 1.0], [1e-12, 1e-5, 0.1]):
            budget = sl.Budget(epsilon=epsilon, delta=delta)
            exact = sl.GaussianDP(budget).kappa(np.arange(1, 40))
            assert np.all(factory(budget).kappa(np.arange(1, 40)) >= exact * (1 - 1e-15))

    @pytest.mark.parametrize("releases", [1, 20])
    def test_dp_accounting_finds_the_budget_kept(self, factory: Factory, releases: int) -> None:
        from dp_accounting import GaussianDpEvent, SelfComposedDpEvent
        from dp_accounting.pld import PLDAccountant

        multiplier = factory(PAPER).noise_stddev(releases, sensitivity=1.0)
        accountant = PLDAccountant(value_discretization_interval=1e-3)
        accountant.compose(SelfComposedDpEvent(GaussianDpEvent(multiplier), releases))
        # Its discretisation only adds: 1e-3 per release at most, second order in practice.
        assert accountant.get_epsilon(PAPER.delta) <= PAPER.epsilon + 1e-4


def exact_delta(releases: int, multiplier: object, epsilon: float) -> object:
    """The delta of the whole transcript at ``epsilon``, in 60 digits, from the definition."""
    with mp.workdps(60 + int(max(0.0, math.log10(max(epsilon, 1)))) * 2):
        mu, eps = mp.sqrt(releases) / mp.mpf(multiplier), mp.mpf(epsilon)
        return mp.ncdf(mu / 2 - eps / mu) - mp.exp(eps) * mp.ncdf(-mu / 2 - eps / mu)


@pytest.mark.parametrize(
    "factory", [sl.ZeroConcentrated, sl.Renyi, renyi_fixed_order, sl.AdvancedComposition], ids=name
)
def test_dp_accounting_finds_less_than_the_budget_by_renyi_orders(factory: Factory) -> None:
    from dp_accounting import GaussianDpEvent, SelfComposedDpEvent
    from dp_accounting.rdp import RdpAccountant

    accountant = RdpAccountant()
    multiplier = factory(PAPER).noise_stddev(20, sensitivity=1.0)
    accountant.compose(SelfComposedDpEvent(GaussianDpEvent(multiplier), 20))
    assert accountant.get_epsilon(PAPER.delta) <= PAPER.epsilon
