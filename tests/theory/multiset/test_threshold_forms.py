"""Thresholds: the overlap kernel in closed form, dense grids and their error, the O(L) trace."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sightline as sl
from sightline.errors import InvalidInput, InvalidRelease
from tests.theory.multiset.multiset_cases import BASIC, ZCDP

KERNELS = ["logistic", "compact"]
CONVENTIONS = ["tight", "uniform"]


class TestOverlap:
    @pytest.mark.slow
    @pytest.mark.parametrize("kernel", KERNELS)
    @pytest.mark.parametrize(
        "x", [0.0, 1e-9, 0.01, 0.29, 0.31, 0.8, 1.3, 1.84, 1.86, 1.99, 1.9999, 2.5, 40.0]
    )
    def test_it_is_the_integral(self, kernel: str, x: float) -> None:
        tau = 0.37
        with mp.workdps(30):
            w = mp.mpf(x)
            if kernel == "logistic":
                slope = lambda u: mp.sech(u / 2) ** 2 / 4  # noqa: E731
                pieces = [-w - 80, -w - 20, -w - 5, -w, -w / 2, 0, 5, 20, 80]
            else:
                slope = lambda u: (1 + mp.cos(mp.pi * u)) / 2  # noqa: E731
                pieces = [-1, 1 - w] if w < 2 else [0, 0]
            truth = mp.quad(lambda u: slope(u) * slope(u + w), pieces) / mp.mpf(tau)
        got = sl.multiset.step_overlap([-x * tau, x * tau], bandwidth=tau, kernel=kernel)
        assert got[0] == got[1]
        assert got[0] == pytest.approx(float(truth), rel=2e-11, abs=1e-40)

    @pytest.mark.parametrize("kernel", KERNELS)
    def test_far_apart_steps_do_not_overlap_and_nothing_overflows(self, kernel: str) -> None:
        assert sl.multiset.step_overlap(1e6, bandwidth=1e-3, kernel=kernel) == 0.0


def triple(kernel: str, convention: str) -> sl.Thresholds:
    return sl.Thresholds(bandwidth=0.12, kernel=kernel, convention=convention)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("convention", CONVENTIONS)
class TestDenseGrid:
    values = (-0.35, -0.2, 0.1)

    def test_the_signal_over_the_spacing_tends_to_the_integral(self, kernel: str, convention: str) -> None:
        family = triple(kernel, convention)
        for values in (self.values, (0.7, 0.85, 0.97), (-1.0, 1.0)):
            limit = sl.multiset.dense_grid_matrix(values, family=family)
            errors = []
            for L in (100, 1000):
                rows = family.rows(np.array([values]), L)[0]
                errors.append(np.max(np.abs(family.spacing(L) * rows.T @ rows - limit)) / limit.max())
            # The midpoint rule: second order in spacing over bandwidth, where an edge cuts the slope off.
            assert errors[0] < (family.spacing(100) / family.bandwidth) ** 2
            assert errors[1] < errors[0] / 50 or errors[1] < 1e-11

    def test_inside_the_kernel_is_as_good(self, kernel: str, convention: str) -> None:
        family = triple(kernel, convention)
        plain = sl.multiset.dense_grid_matrix(self.values, family=family, edges=False)
        exact = sl.multiset.dense_grid_matrix(self.values, family=family)
        assert plain == pytest.approx(exact, rel=2e-2 if convention == "tight" else 1e-3)
        weight = 0.25 if convention == "uniform" else 1.0
        gap = sl.multiset.step_overlap(0.15, bandwidth=0.12, kernel=kernel)
        assert plain[0, 1] == pytest.approx(weight * float(gap), rel=1e-12)

    def test_the_curve_is_kappa_times_spacing_times_a_constant(self, kernel: str, convention: str) -> None:
        family = triple(kernel, convention)
        curve = sl.release_curve(self.values, family=family, accountant=ZCDP, releases=[400, 800])
        constant = sl.multiset.dense_grid_trace(self.values, family=family)
        assert curve.crb == pytest.approx(curve.kappa * (2 / curve.releases) * constant, rel=1e-6)
        rough = sl.multiset.dense_grid_trace(self.values, family=family, edges=False)
        assert rough == pytest.approx(constant, rel=2e-2)

    def test_edges_count_near_the_boundary(self, kernel: str, convention: str) -> None:
        family = triple(kernel, convention)
        values = (0.6, 0.8, 0.99)
        curve = sl.release_curve(values, family=family, accountant=ZCDP, releases=[2000])
        truth = curve.crb[0] / (curve.kappa[0] * family.spacing(2000))
        assert sl.multiset.dense_grid_trace(values, family=family) == pytest.approx(truth, rel=1e-4)
        assert abs(sl.multiset.dense_grid_trace(values, family=family, edges=False) / truth - 1) > 0.05

    def test_a_pair_is_seen_by_the_difference_of_the_kernel(self, kernel: str, convention: str) -> None:
        """The weakest eigenvalue is proportional to K(0) − K(d) (subsec:lever2_threshold)."""
        family = triple(kernel, convention)
        values = np.array([[-0.05, 0.06]])
        rows = family.rows(values, 900)[0]
        weakest = np.linalg.svd(rows, compute_uv=False)[-1] ** 2
        K = sl.multiset.step_overlap([0.0, 0.11], bandwidth=0.12, kernel=kernel)
        weight = 0.25 if convention == "uniform" else 1.0
        assert weakest == pytest.approx(weight * (K[0] - K[1]) / family.spacing(900), rel=1e-2)

    def test_the_prediction_holds_and_depends_on_the_accountant(self, kernel: str, convention: str) -> None:
        family = triple(kernel, convention)
        regimes = {(-0.3, 0.2): "interior", (-0.3, 0.95): "mixed", (0.9, 0.97): "boundary"}
        for values, regime in regimes.items():
            flat = sl.release_curve(values, family=family, accountant=ZCDP, releases=[1500])
            assert flat.asymptotics.regime.value == regime
            assert flat.asymptotics.trend.value == "stays"
            rising = flat.under(BASIC).asymptotics
            assert rising.trend.value == "rises"
            assert flat.crb == pytest.approx(flat.asymptotics.crb(flat.kappa, flat.releases), rel=1e-3)

    @given(
        values=st.lists(st.floats(-1, 1), min_size=1, max_size=4),
        L=st.integers(1, 80),
        bandwidth=st.sampled_from([0.01, 0.12, 0.7]),
    )
    @settings(max_examples=40, deadline=None)
    def test_the_trace_is_at_most_linear(
        self, kernel: str, convention: str, values: list[float], L: int, bandwidth: float
    ) -> None:
        family = sl.Thresholds(bandwidth=bandwidth, kernel=kernel, convention=convention)
        rows = family.rows(np.array([values]), L)[0]
        bound = sl.multiset.threshold_trace_bound(L, members=len(values), family=family)
        assert np.sum(rows**2) <= bound * (1 + 1e-12)

    def test_the_bound_is_below_the_curve_and_of_order_kappa_over_l(
        self, kernel: str, convention: str
    ) -> None:
        family = triple(kernel, convention)
        curve = sl.release_curve(self.values, family=family, accountant=BASIC, releases=range(3, 200))
        bounds = np.array(
            [
                sl.multiset.threshold_crb_bound(int(L), members=3, family=family, accountant=BASIC)
                for L in curve.releases
            ]
        )
        known = ~np.isnan(curve.crb)
        assert (bounds <= curve.crb)[known].all()
        order = bounds * curve.releases / curve.kappa
        assert 0.9 < order[-1] / order[-50] < 1.1
        # One eigenvalue, as in the paper, gives a ninth of it.
        assert bounds[0] == pytest.approx(
            9 * BASIC.kappa(3) / sl.multiset.threshold_trace_bound(3, members=3, family=family)
        )


def test_the_constant_of_the_trace_is_sharp() -> None:
    family = sl.Thresholds(bandwidth=0.05, convention="uniform")
    rows = family.rows(np.array([[0.0]]), 4000)[0]
    assert np.sum(rows**2) == pytest.approx(
        sl.multiset.threshold_trace_bound(4000, members=1, family=family), rel=2e-2
    )


def test_values_too_close_for_the_kernel_are_infinite_not_wrong() -> None:
    family = sl.Thresholds(bandwidth=0.2)
    assert sl.multiset.dense_grid_trace([0.3, 0.3], family=family) == np.inf
    assert sl.multiset.dense_grid_trace([0.3, 0.3 + 1e-9], family=family, edges=False) == np.inf


def test_dense_grids_are_about_midpoints() -> None:
    family = sl.Thresholds(bandwidth=0.2, grid=[-0.5, 0.5])
    with pytest.raises(InvalidRelease, match="a midpoint grid"):
        sl.multiset.dense_grid_matrix([0.1], family=family)
    with pytest.raises(InvalidInput, match="at least one value"):
        sl.multiset.dense_grid_trace([], family=sl.Thresholds(bandwidth=0.2))
    with pytest.raises(InvalidInput, match="at least one value"):
        sl.multiset.threshold_trace_bound(3, members=0, family=sl.Thresholds(bandwidth=0.2))
