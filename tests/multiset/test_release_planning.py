"""Planning: what to avoid, what keeps a promise, and searches that end on the safe side."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import sightline as sl
from sightline.errors import InvalidInput
from tests.multiset.multiset_cases import BASIC, ZCDP

BUDGET = sl.Budget(epsilon=1.0, delta=1e-5)
ACCOUNTANTS = [
    sl.BasicComposition(BUDGET),
    sl.BasicComposition(BUDGET, calibration="analytic"),
    sl.AdvancedComposition(BUDGET),
    sl.ZeroConcentrated(BUDGET),
    sl.Renyi(BUDGET, order=64),
    sl.GaussianDP(BUDGET),
    sl.LaplaceComposition(BUDGET),
]
NEAR_BOUNDARY = (0.52739273864214, 0.96285908500679)
SAMPLE = np.random.default_rng(3).uniform(-1, 1, (30, 2))


def rmse_by_hand(group, family: sl.multiset.Family, accountant: sl.privacy.Accountant, L: int) -> float:
    rows = family.rows(np.sort(group)[None], L)[0]
    return float(np.sqrt(accountant.kappa(L) * np.diagonal(np.linalg.inv(rows.T @ rows)).min()))


class TestThePlan:
    plan = sl.plan_releases(NEAR_BOUNDARY, family=sl.Moments(), accountant=BASIC)

    def test_the_attackers_choice_is_the_minimum_of_the_curve(self) -> None:
        curve = sl.release_curve(NEAR_BOUNDARY, family=sl.Moments(), accountant=BASIC)
        assert self.plan.attackers_choice == curve.best == 4
        assert self.plan.crb.tolist() == curve.crb.tolist()

    def test_counts_to_avoid_are_within_the_margin(self) -> None:
        limit = 2.0 * self.plan.crb.min()
        assert self.plan.avoid() == tuple(range(1, 41)[i] for i in np.flatnonzero(self.plan.crb <= limit))
        assert 4 in self.plan.avoid()
        assert 2 not in self.plan.avoid()

    def test_safe_counts_are_those_that_keep_the_promise(self) -> None:
        by_hand = [rmse_by_hand(NEAR_BOUNDARY, sl.Moments(), BASIC, L) for L in range(2, 41)]
        expected = [L for L, rmse in zip(range(2, 41), by_hand, strict=True) if rmse >= 20.0]
        assert [L for L in self.plan.safe(tolerance=20.0) if L >= 2] == expected
        assert self.plan.largest_safe(tolerance=20.0) == max(expected)
        broken = min(set(range(1, 41)) - set(self.plan.safe(tolerance=20.0)))
        assert self.plan.safe_up_to(tolerance=20.0) == broken - 1

    def test_smaller_counts_than_a_safe_one_need_not_be_safe(self) -> None:
        """The curve is not monotone: forty releases are safe here, two are, and four are not."""
        plan = sl.plan_releases([0.5, 0.7], family=sl.Moments(), accountant=BASIC)
        assert plan.largest_safe(tolerance=50.0) == 40
        assert plan.safe_up_to(tolerance=50.0) == 3
        assert 4 not in plan.safe(tolerance=50.0)


class TestAnAttackerWhoKnowsTheOthers:
    def test_is_judged_by_the_diagonal(self) -> None:
        group = [0.2, 0.4, 0.9]
        plan = sl.plan_releases(group, family=sl.Moments(), accountant=BASIC, attacker_knows="the others")
        rows = sl.Moments().rows(np.array([group]), 40)[0]
        known = [np.sqrt(BASIC.kappa(L) / np.sum(rows[:L] ** 2, axis=0).max()) for L in range(1, 41)]
        assert plan.value_rmse == pytest.approx(known, rel=1e-12)

    @given(seed=st.integers(0, 10**6), m=st.integers(1, 5))
    @example(seed=6330, m=5)  # two values 5e-6 apart
    @settings(max_examples=25, deadline=None)
    def test_never_errs_more(self, seed: int, m: int) -> None:
        group = np.random.default_rng(seed).uniform(-1, 1, m)
        family = sl.Thresholds(bandwidth=0.1, kernel="compact")
        plain, strong = (
            sl.plan_releases(group, family=family, accountant=BASIC, attacker_knows=knowledge)
            for knowledge in ("nothing", "the others")
        )
        assert (strong.value_rmse <= plain.value_rmse).all()

    @pytest.mark.slow
    def test_never_errs_more_where_digits_are_lost(self) -> None:
        """Close values: the estimated error that lowers the weaker attacker's bound is large."""
        for gap in (1e-3, 1e-5, 1e-6, 1e-7):
            for family in (sl.Moments(), sl.Thresholds(bandwidth=0.3)):
                group = 0.4 + gap * np.arange(3)
                plain, strong = (
                    sl.plan_releases(group, family=family, accountant=BASIC, attacker_knows=knowledge)
                    for knowledge in ("nothing", "the others")
                )
                assert (strong.value_rmse <= plain.value_rmse).all()

    def test_is_not_fooled_by_close_values(self) -> None:
        arguments = {"family": sl.Moments(), "accountant": BASIC}
        close = [0.5, 0.500001]
        assert sl.plan_releases(close, **arguments).largest_safe(tolerance=1e3) == 40
        strong = sl.plan_releases(close, **arguments, attacker_knows="the others")
        assert strong.largest_safe(tolerance=1e3) is None
        limit, known = (
            sl.multiset.largest_epsilon(close, **arguments, releases=2, tolerance=1e3, attacker_knows=what)
            for what in ("nothing", "the others")
        )
        assert known < limit


def test_too_few_releases_leave_all_values_open() -> None:
    plan = sl.plan_releases([0.2, 0.4, 0.9], family=sl.Moments(), accountant=BASIC, releases=[1, 2])
    assert np.isinf(plan.value_rmse).all()
    assert plan.attackers_choice is None
    assert plan.avoid() == ()
    assert plan.safe_up_to(tolerance=1.0) == 2


def test_a_single_value_seen_alone_is_not_called_safe_because_another_is_unseen() -> None:
    family = sl.Thresholds(bandwidth=0.1, kernel="compact", grid=[-0.55, -0.5, -0.45])
    plan = sl.plan_releases([-0.5, 0.5], family=family, accountant=BASIC, releases=[3])
    assert np.isinf(plan.crb).all()
    alone = sl.release_curve([-0.5], family=family, accountant=BASIC, releases=[3])
    assert plan.value_rmse[0] ** 2 == pytest.approx(alone.crb[0], rel=1e-12)
    assert plan.largest_safe(tolerance=1e3) is None


def test_a_value_that_nothing_touches_is_safe() -> None:
    family = sl.Thresholds(bandwidth=0.1, kernel="compact", grid=[-0.5])
    plan = sl.plan_releases([0.5], family=family, accountant=BASIC, releases=[1])
    assert plan.value_rmse.tolist() == [np.inf]
    assert plan.safe(tolerance=1e3) == (1,)


def test_equal_values_are_not_safe_by_being_unsortable() -> None:
    plan = sl.plan_releases([0.5, 0.5], family=sl.Moments(), accountant=BASIC)
    assert plan.safe(tolerance=1e9) == ()


def test_counts_without_digits_are_avoided() -> None:
    values = np.linspace(0.3, 0.6, 14)
    plan = sl.plan_releases(values, family=sl.Moments(), accountant=BASIC, releases=range(13, 17))
    assert plan.avoid() == (14, 15, 16)


def test_a_sample_is_judged_by_its_worst_group() -> None:
    plan = sl.plan_releases(SAMPLE, family=sl.Moments(), accountant=BASIC)
    singles = [sl.plan_releases(group, family=sl.Moments(), accountant=BASIC) for group in SAMPLE]
    assert plan.crb == pytest.approx(np.min([single.crb for single in singles], axis=0), rel=1e-12)
    assert set(plan.safe(tolerance=3.0)) == set.intersection(
        *(set(single.safe(tolerance=3.0)) for single in singles)
    )


@pytest.mark.parametrize("accountant", ACCOUNTANTS, ids=lambda a: type(a).__name__)
class TestEveryAccountant:
    def test_the_largest_epsilon_keeps_the_promise_and_a_little_more_breaks_it(
        self, accountant: sl.privacy.Accountant
    ) -> None:
        family = sl.Moments()
        limit = sl.multiset.largest_epsilon(
            NEAR_BOUNDARY, family=family, accountant=accountant, releases=4, tolerance=5.0
        )
        kept, broken = (
            sl.plan_releases(
                NEAR_BOUNDARY,
                family=family,
                accountant=type(accountant)(sl.Budget(epsilon=e, delta=1e-5), **settings_of(accountant)),
                releases=[4],
            ).safe(tolerance=5.0)
            for e in (limit, limit * (1 + 1e-6))
        )
        assert kept == (4,)
        assert broken == ()

    def test_the_choice_stays_where_kappa_factorises(self, accountant: sl.privacy.Accountant) -> None:
        rules = [
            type(accountant)(sl.Budget(epsilon=e, delta=1e-5), **settings_of(accountant)) for e in (0.5, 2.0)
        ]
        shape = rules[0].kappa(range(1, 13)) / rules[1].kappa(range(1, 13))
        factorises = np.ptp(shape) / shape.mean() < 1e-9
        moves = (
            isinstance(accountant, sl.AdvancedComposition)
            or getattr(accountant, "calibration", None) is sl.privacy.Calibration.ANALYTIC
        )
        assert factorises == (not moves)
        if factorises:
            plans = [
                sl.plan_releases(SAMPLE[:5], family=sl.Moments(), accountant=rule, releases=range(1, 13))
                for rule in rules
            ]
            assert plans[0].attackers_choice == plans[1].attackers_choice


def settings_of(accountant: sl.privacy.Accountant) -> dict[str, object]:
    named = ("calibration", "order")
    return {name: getattr(accountant, name) for name in named if getattr(accountant, name, None) is not None}


@given(tolerance=st.floats(0.5, 50), seed=st.integers(0, 10**6))
@settings(max_examples=25, deadline=None)
def test_a_stricter_promise_allows_no_more(tolerance: float, seed: int) -> None:
    group = np.random.default_rng(seed).uniform(-1, 1, 2)
    plan = sl.plan_releases(group, family=sl.Moments(), accountant=ZCDP, releases=range(2, 30))
    assert set(plan.safe(tolerance=2 * tolerance)) <= set(plan.safe(tolerance=tolerance))


def test_a_promise_without_meaning_is_refused() -> None:
    arguments = {"family": sl.Moments(), "accountant": BASIC}
    plan = sl.plan_releases([0.1, 0.2], **arguments)
    for tolerance in (0.0, np.inf):
        with pytest.raises(InvalidInput, match="a tolerance > 0"):
            plan.safe(tolerance=tolerance)
    with pytest.raises(InvalidInput, match="a margin >= 1"):
        plan.avoid(margin=0.5)
    with pytest.raises(InvalidInput, match="attacker_knows to be one of"):
        sl.plan_releases([0.1, 0.2], **arguments, attacker_knows="everything")


def test_promises_beyond_every_epsilon_are_refused() -> None:
    arguments = {"family": sl.Moments(), "accountant": BASIC, "releases": 2}
    with pytest.raises(InvalidInput, match="a tolerance > 0"):
        sl.multiset.largest_epsilon([0.1, 0.2], tolerance=-1.0, **arguments)
    with pytest.raises(InvalidInput, match="above 1e-12 keeps"):
        sl.multiset.largest_epsilon([0.1, 0.2], tolerance=1e30, **arguments)
    unseen = sl.Thresholds(bandwidth=0.1, kernel="compact", grid=[-0.5])
    with pytest.raises(InvalidInput, match="some epsilon breaks"):
        sl.multiset.largest_epsilon([0.5], tolerance=1.0, family=unseen, accountant=BASIC, releases=1)
