"""Closed forms and bounds for moments, each against the general engine and in high precision."""

from __future__ import annotations

from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sightline as sl
from sightline.errors import InvalidInput
from tests.theory.multiset.multiset_cases import BASIC, ZCDP, exact_trace

CONVENTIONS = ["tight", "uniform"]
BOUNDS = [1.0, 2.5]
inside = st.floats(-0.97, 0.97).filter(lambda r: r == 0 or abs(r) > 1e-3)
anywhere = st.one_of(inside, st.sampled_from([-1.0, 1.0]))
families = st.builds(sl.Moments, bound=st.sampled_from(BOUNDS), convention=st.sampled_from(CONVENTIONS))


def engine(values, family, accountant=BASIC, releases=range(1, 21)) -> sl.multiset.ReleaseCurve:
    return sl.release_curve(values, family=family, accountant=accountant, releases=releases)


class TestOneValue:
    @given(r=anywhere, family=families)
    @settings(max_examples=40, deadline=None)
    def test_the_curve(self, r: float, family: sl.Moments) -> None:
        value = r * family.bound
        closed = sl.multiset.scalar_crb(value, family=family, accountant=BASIC, releases=20)
        assert closed == pytest.approx(engine([value], family).crb, rel=1e-12)

    @given(r=inside, family=families)
    @settings(max_examples=40, deadline=None)
    def test_the_floor_is_below_and_is_reached(self, r: float, family: sl.Moments) -> None:
        value = r * family.bound
        curve = sl.multiset.scalar_crb(value, family=family, accountant=ZCDP, releases=1500)
        floor = sl.multiset.scalar_floor(value, family=family, accountant=ZCDP, releases=1500)
        assert (floor <= curve * (1 + 1e-12)).all()
        assert floor[-1] == pytest.approx(curve[-1], rel=1e-9)

    @given(r=inside, L=st.integers(1, 60))
    @settings(max_examples=40, deadline=None)
    def test_the_tail_is_exact(self, r: float, L: int) -> None:
        family = sl.Moments(convention="uniform")
        q = Fraction(r) ** 2
        total = (1 + q) / (1 - q) ** 3
        tail = total - sum(Fraction(order) ** 2 * q ** (order - 1) for order in range(1, L + 1))
        paper = q**L * ((L + 1) ** 2 - (2 * L**2 + 2 * L - 1) * q + L**2 * q**2) / (1 - q) ** 3
        assert tail == paper
        got = float(sl.multiset.scalar_tail(r, L, family=family))
        assert got == pytest.approx(float(tail), rel=1e-12 * max(1, L), abs=1e-300)

    @given(r=anywhere, family=families)
    @settings(max_examples=40, deadline=None)
    def test_the_stopping_rule_is_the_ratio_of_consecutive_risks(self, r: float, family: sl.Moments) -> None:
        value = r * family.bound
        ratio = sl.multiset.scalar_step_ratio(value, family=family, accountant=BASIC, releases=19)
        crb = engine([value], family).crb
        assert ratio == pytest.approx(crb[1:] / crb[:-1], rel=1e-12)

    @pytest.mark.parametrize("r", [0.5, 0.9, 0.97, 0.99, 0.997])
    def test_useful_orders_grow_with_the_stopping_scale(self, r: float) -> None:
        family = sl.Moments(convention="uniform")
        scale = sl.multiset.scalar_stopping_scale(r, family=family)
        assert scale == pytest.approx(1 / np.log(1 / r**2))
        curve = engine([r], family, ZCDP, range(1, 3000))
        assert curve.best_is_global
        # Under a linear accountant T(L)/L peaks where L/scale is about 3, from L = 1 for small values.
        assert curve.best == 1 or 1.5 < curve.best / scale < 4

    def test_the_ends_of_the_scale(self) -> None:
        assert sl.multiset.scalar_stopping_scale(0.0, family=sl.Moments()) == 0.0
        assert sl.multiset.scalar_stopping_scale(-2.0, family=sl.Moments(bound=2.0)) == np.inf

    def test_the_tail_is_for_interior_values_and_the_papers_convention(self) -> None:
        with pytest.raises(InvalidInput, match="the uniform convention"):
            sl.multiset.scalar_tail(0.5, 1, family=sl.Moments())
        with pytest.raises(InvalidInput, match="strictly inside"):
            sl.multiset.scalar_tail(1.0, 1, family=sl.Moments(convention="uniform"))

    def test_a_value_on_the_boundary_has_no_floor(self) -> None:
        with pytest.raises(InvalidInput, match=r"\|s\| < 1"):
            sl.multiset.scalar_floor(1.0, family=sl.Moments(), accountant=BASIC, releases=3)


pairs = st.tuples(anywhere, anywhere).filter(lambda p: abs(p[0] - p[1]) > 1e-6)


class TestTwoValues:
    @given(pair=pairs, family=families)
    @settings(max_examples=60, deadline=None)
    def test_the_curve(self, pair: tuple[float, float], family: sl.Moments) -> None:
        values = [r * family.bound for r in pair]
        closed = sl.multiset.pair_crb(values, family=family, accountant=BASIC, releases=20)
        curve = engine(values, family)
        assert np.abs(closed / curve.crb[1:] - 1) == pytest.approx(
            np.zeros(19), abs=1e-12 + curve.relative_error[1:].max()
        )

    @pytest.mark.parametrize("gap", [1e-3, 1e-8, 1e-14])
    @pytest.mark.parametrize("convention", CONVENTIONS)
    def test_close_pairs_keep_all_digits(self, gap: float, convention: str) -> None:
        family = sl.Moments(convention=convention)
        pair = [0.4, 0.4 + gap]
        closed = sl.multiset.pair_crb(pair, family=family, accountant=BASIC, releases=9)[-1]
        assert closed == pytest.approx(float(exact_trace(pair, family, 9, 200)) * BASIC.kappa(9), rel=1e-13)

    @given(pair=pairs, family=families, L=st.integers(2, 20))
    @settings(max_examples=40, deadline=None)
    def test_the_information_matrix(self, pair: tuple[float, float], family: sl.Moments, L: int) -> None:
        values = np.sort([r * family.bound for r in pair])
        rows = family.rows(values[None], L)[0]
        information = sl.multiset.pair_information(values, family=family, accountant=BASIC, releases=L)
        assert information == pytest.approx(rows.T @ rows / BASIC.kappa(L), rel=1e-12, abs=1e-15)

    @given(pair=pairs, family=families)
    @settings(max_examples=40, deadline=None)
    def test_two_releases(self, pair: tuple[float, float], family: sl.Moments) -> None:
        values = [r * family.bound for r in pair]
        closed = sl.multiset.pair_crb_at_two(values, family=family, accountant=BASIC)
        curve = engine(values, family, releases=[2])
        assert closed == pytest.approx(curve.crb[0], rel=1e-12 + curve.relative_error[0])

    def test_the_published_form_of_two_tight_releases(self) -> None:
        mu, gamma = 0.2, 0.3
        published = BASIC.kappa(2) * (0.5 + 8 * (mu**2 + gamma**2)) / (4 * gamma**2)
        got = sl.multiset.pair_crb_at_two([mu - gamma, mu + gamma], family=sl.Moments(), accountant=BASIC)
        assert got == pytest.approx(published, rel=1e-14)

    @given(pair=pairs, family=families)
    @settings(max_examples=40, deadline=None)
    def test_the_stopping_rule(self, pair: tuple[float, float], family: sl.Moments) -> None:
        """Equation m2_stop: κ_{L+1}/κ_L ≥ G(L)/G(L+1) exactly where L + 1 does not improve."""
        values = [r * family.bound for r in pair]
        ratio = sl.multiset.pair_step_ratio(values, family=family, accountant=BASIC, releases=19)
        crb = sl.multiset.pair_crb(values, family=family, accountant=BASIC, releases=20)
        kappa = BASIC.kappa(range(2, 21))
        G = crb / kappa
        clear = np.abs(ratio - 1) > 1e-12
        rule = kappa[1:] / kappa[:-1] >= G[:-1] / G[1:]
        assert ((ratio >= 1) == rule)[clear].all()

    @pytest.mark.parametrize("convention", CONVENTIONS)
    @pytest.mark.parametrize("L", [2, 5, 17])
    def test_halving_the_gap_quadruples_the_risk(self, convention: str, L: int) -> None:
        family = sl.Moments(convention=convention)
        risks = [
            sl.multiset.pair_crb([0.5 - g, 0.5 + g], family=family, accountant=BASIC, releases=L)[-1]
            for g in (1e-4, 5e-5)
        ]
        assert risks[1] / risks[0] == pytest.approx(4, rel=1e-5)

    @pytest.mark.parametrize("pair", [[0.1], [0.1, 0.1], [0.1, 0.2, 0.3], [0.1, 1.2]])
    def test_anything_else_is_refused(self, pair: list[float]) -> None:
        with pytest.raises(InvalidInput):
            sl.multiset.pair_crb(pair, family=sl.Moments(), accountant=BASIC, releases=3)


groups = st.lists(inside, min_size=1, max_size=5, unique=True).filter(
    lambda g: len(g) == 1 or np.min(np.diff(np.sort(g))) > 1e-2
)


class TestAnyNumberOfValues:
    @given(group=groups, family=families, extra=st.integers(0, 8))
    @settings(max_examples=60, deadline=None)
    def test_bounds_are_bounds_in_their_order(
        self, group: list[float], family: sl.Moments, extra: int
    ) -> None:
        """CRB ≥ Σ_j 4κR²/T_j ≥ the determinant bound; every value by itself; the determinant too."""
        values = np.sort(group) * family.bound
        L = len(values) + extra
        curve = engine(values, family, releases=[L])
        single = sl.multiset.moment_value_bounds(values, family=family, accountant=BASIC, releases=L)
        room = 1 + 1e-12 + curve.relative_error[0]
        assert (single <= curve.value_crb[0] * room).all()
        lowest = sl.multiset.moment_crb_bound(values, family=family, accountant=BASIC, releases=L)
        assert lowest <= single.sum() * (1 + 1e-12) <= curve.crb[0] * room * (1 + 1e-12)
        log_det = np.sum(np.log(curve.eigenvalues[0])) - len(values) * np.log(BASIC.kappa(L))
        bound = sl.multiset.moment_log_determinant_bound(values, family=family, accountant=BASIC, releases=L)
        assert log_det <= bound + 1e-9
        # The middle link of eq. crb_det_amgm_bound.
        assert len(values) * np.exp(-log_det / len(values)) <= curve.crb[0] * (room + 1e-9)

    def test_the_formulas_are_the_papers(self) -> None:
        z, L, m = [0.2, -0.7, 0.5], 6, 3
        family = sl.Moments(bound=1.5, convention="uniform")
        F = [sum(order**2 * (v / 1.5) ** (2 * order - 2) for order in range(1, L + 1)) for v in sorted(z)]
        kappa = BASIC.kappa(L)
        single = sl.multiset.moment_value_bounds(z, family=family, accountant=BASIC, releases=L)
        assert single == pytest.approx([4 * kappa * 1.5**2 / f for f in F], rel=1e-13)
        product = np.prod(F)
        got = sl.multiset.moment_crb_bound(z, family=family, accountant=BASIC, releases=L)
        assert got == pytest.approx(4 * m * kappa * 1.5**2 / product ** (1 / m), rel=1e-13)
        log_det = sl.multiset.moment_log_determinant_bound(z, family=family, accountant=BASIC, releases=L)
        assert np.exp(log_det) == pytest.approx(product / (4 * kappa * 1.5**2) ** m, rel=1e-12)

    @given(s=st.floats(-0.8, 0.8), convention=st.sampled_from(CONVENTIONS))
    @settings(max_examples=30, deadline=None)
    def test_the_limit_of_the_sums(self, s: float, convention: str) -> None:
        family = sl.Moments(convention=convention)
        sums = sl.multiset.moment_sums(s, 400, family=family)
        limit = float(sl.multiset.moment_sum_limit(s, family=family))
        assert sums[-1] == pytest.approx(limit, rel=1e-12)
        if convention == "uniform":
            assert limit == pytest.approx((1 + s) / (1 - s) ** 3, rel=1e-12)

    @pytest.mark.slow
    @given(group=groups, family=families)
    @settings(max_examples=20, deadline=None)
    def test_the_signal_rises_to_its_limit(self, group: list[float], family: sl.Moments) -> None:
        values = np.sort(group) * family.bound
        rows = family.rows(values[None], 1200)[0]
        # Terms of alternating sign cancel: the rounding error is relative to the sum of their sizes.
        limit = sl.multiset.moment_limit(values, family=family)
        off = np.abs(rows.T @ rows - limit)
        assert (off <= 1300 * 2.0**-52 * (np.abs(rows).T @ np.abs(rows))).all()
        curve = engine(values, family, ZCDP, [5, 20, 1200])
        limit = sl.multiset.moment_limit_trace(values, family=family)
        assert (curve.crb >= curve.kappa * limit * (1 - 1e-9 - curve.relative_error)).all()
        assert curve.crb[-1] / curve.kappa[-1] == pytest.approx(limit, rel=1e-9 + curve.relative_error[-1])

    def test_the_limit_has_digits_where_doubles_have_none(self) -> None:
        values = np.linspace(-0.9, 0.8, 16)
        family = sl.Moments()
        limit = sl.multiset.moment_limit_trace(values, family=family)
        with mp.workdps(80):
            r = [mp.mpf(v) for v in values.tolist()]
            f = lambda t: (1 + t) / (1 - t) ** 3  # noqa: E731
            A = mp.matrix([[(5 * f(a * b) - 3 * f(-a * b)) / 8 for b in r] for a in r])
            inverse = mp.inverse(A)
            assert limit == pytest.approx(float(sum(inverse[k, k] for k in range(16))), rel=1e-15)

    @pytest.mark.slow
    @pytest.mark.parametrize("convention", CONVENTIONS)
    def test_a_value_on_the_boundary_drops_out_of_the_limit(self, convention: str) -> None:
        family = sl.Moments(convention=convention)
        mixed = sl.multiset.moment_limit_trace([-0.6, 0.3, 1.0], family=family)
        assert mixed == sl.multiset.moment_limit_trace([-0.6, 0.3], family=family)
        curve = engine([-0.6, 0.3, 1.0], family, ZCDP, [20_000])
        assert curve.crb[0] / curve.kappa[0] == pytest.approx(mixed, rel=1e-6)
        assert sl.multiset.moment_limit_trace([-1.0, 1.0], family=family) == 0.0

    def test_equal_values_have_no_limit(self) -> None:
        with pytest.raises(InvalidInput, match="can be inverted"):
            sl.multiset.moment_limit_trace([0.3, 0.3], family=sl.Moments())

    def test_an_empty_group_is_refused(self) -> None:
        with pytest.raises(InvalidInput, match="at least one value"):
            sl.multiset.moment_value_bounds([], family=sl.Moments(), accountant=BASIC, releases=3)


class TestTheFirstRiseIsNotTheOptimum:
    """The neighbour rule finds a local minimum; the curve can have several."""

    def test_one_value_with_the_papers_sensitivities(self) -> None:
        curve = engine([0.895], sl.Moments(convention="uniform"))
        assert curve.crb[1] > curve.crb[0]
        assert curve.best == 4
        assert curve.best_is_global

    def test_a_pair_with_tight_sensitivities(self) -> None:
        curve = engine([0.62654048, 0.82551115], sl.Moments())
        assert curve.crb[4] > curve.crb[3]
        assert curve.best == 6
        assert curve.best_is_global


class TestPrediction:
    @pytest.mark.sampled(6)
    @pytest.mark.parametrize(
        ("values", "regime", "trend"),
        [
            ([-0.4, 0.7], "interior", "rises"),
            ([-0.6, 1.0], "mixed", "rises"),
            ([-1.0, 1.0], "boundary", "falls"),
            ([-1.0], "boundary", "falls"),
            ([0.2, 0.5, 0.9], "interior", "rises"),
        ],
    )
    @pytest.mark.parametrize("convention", CONVENTIONS)
    @pytest.mark.parametrize("accountant", [BASIC, ZCDP], ids=["basic", "zcdp"])
    def test_many_releases_do_what_was_predicted(
        self, values: list[float], regime: str, trend: str, convention: str, accountant: sl.privacy.Accountant
    ) -> None:
        family = sl.Moments(bound=1.0, convention=convention)
        curve = engine(values, family, accountant, [2500, 5000])
        predicted = curve.asymptotics
        assert predicted.regime.value == regime
        assert predicted.trend.value == trend
        assert curve.crb == pytest.approx(predicted.crb(curve.kappa, curve.releases), rel=2e-3)
        assert (curve.crb[1] > curve.crb[0]) == (trend == "rises")

    def test_the_bound_scales_the_boundary_constants(self) -> None:
        curve = engine([-2.0, 2.0], sl.Moments(bound=2.0), ZCDP, [4000])
        assert curve.crb == pytest.approx(curve.asymptotics.crb(curve.kappa, curve.releases), rel=2e-3)

    def test_no_prediction_for_equal_values_or_own_families(self) -> None:
        assert engine([0.3, 0.3], sl.Moments()).asymptotics is None
        family = sl.Thresholds(bandwidth=0.2, grid=[-0.5, 0.0, 0.5])
        assert engine([0.3], family, releases=range(1, 4)).asymptotics is None
