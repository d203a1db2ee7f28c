"""What is particular to one family: its kernels, its conventions and its hard cases."""

from __future__ import annotations

import math
import sys
from fractions import Fraction

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sightline as sl
from sightline.errors import MissingExtra
from sightline.numerics.powers import power, power_range, power_slope
from sightline.theory.releases.features import (
    moment_sensitivity,
    smooth_step,
    smooth_step_rise,
    smooth_step_slope,
    threshold_sensitivity,
)

KERNELS = ("logistic", "compact")
offsets = st.floats(-50, 50)
bandwidths = st.floats(1e-3, 1e3)
unhurried = settings(deadline=None)  # a busy machine is no failure


def exact_step(u: float, tau: float, kernel: str) -> mpmath.mpf:
    w = mpmath.mpf(u) / mpmath.mpf(tau)
    if kernel == "logistic":
        return 1 / (1 + mpmath.exp(-w))
    w = min(max(w, mpmath.mpf(-1)), mpmath.mpf(1))
    return mpmath.mpf(1) / 2 + w / 2 + mpmath.sin(mpmath.pi * w) / (2 * mpmath.pi)


class TestSmoothStep:
    @pytest.mark.parametrize("kernel", KERNELS)
    @given(u=offsets, tau=bandwidths)
    @unhurried
    def test_step_and_slope_agree_with_mpmath(self, kernel, u, tau):
        with mpmath.workdps(60):
            step = exact_step(u, tau, kernel)
            if kernel == "logistic":
                slope = mpmath.sech(mpmath.mpf(u) / (2 * mpmath.mpf(tau))) ** 2 / (4 * mpmath.mpf(tau))
            elif abs(u) < tau:
                slope = (1 + mpmath.cos(mpmath.pi * u / mpmath.mpf(tau))) / (2 * mpmath.mpf(tau))
            else:
                slope = mpmath.mpf(0)
        assert smooth_step(u, bandwidth=tau, kernel=kernel) == pytest.approx(
            float(step), rel=1e-11, abs=1e-16
        )
        assert smooth_step_slope(u, bandwidth=tau, kernel=kernel) == pytest.approx(
            float(slope), rel=1e-11, abs=1e-15 / tau
        )

    @pytest.mark.parametrize("kernel", KERNELS)
    @given(middle=st.floats(-2, 2), width=st.floats(1e-14, 4), tau=bandwidths)
    @unhurried
    def test_the_rise_keeps_its_digits_where_the_difference_of_two_steps_loses_them(
        self, kernel, middle, width, tau
    ):
        # An interval around the middle of the step, as the domain is around a threshold inside it.
        low, high = min(middle, 0.0) - width, max(middle, 0.0) + width
        with mpmath.workdps(60):
            rise = float(exact_step(high, tau, kernel) - exact_step(low, tau, kernel))
        assert smooth_step_rise(low, high, bandwidth=tau, kernel=kernel) == pytest.approx(rise, rel=1e-14)

    @pytest.mark.parametrize("kernel", KERNELS)
    @given(u=st.lists(offsets, min_size=2, max_size=20), tau=bandwidths)
    @unhurried
    def test_it_climbs_from_zero_to_one_and_is_odd_about_one_half(self, kernel, u, tau):
        u = np.sort(u)
        h = smooth_step(u, bandwidth=tau, kernel=kernel)
        assert (h >= 0).all()
        assert (h <= 1).all()
        assert (np.diff(h) >= -1e-16).all()
        np.testing.assert_allclose(h + smooth_step(-u, bandwidth=tau, kernel=kernel), 1, rtol=1e-15)
        assert (smooth_step_slope(u, bandwidth=tau, kernel=kernel) >= 0).all()

    def test_the_compact_kernel_is_still_outside_its_support_and_continuous_at_its_edge(self):
        tau = 0.3
        outside = np.array([-5.0, -tau, tau, 5.0])
        assert smooth_step_slope(outside, bandwidth=tau, kernel="compact").tolist() == [0, 0, 0, 0]
        assert smooth_step(outside, bandwidth=tau, kernel="compact").tolist() == [0, 0, 1, 1]
        inside = smooth_step_slope([-tau + 1e-9, tau - 1e-9], bandwidth=tau, kernel="compact")
        assert (inside > 0).all()
        assert (inside < 1e-15).all()

    @pytest.mark.slow
    @pytest.mark.parametrize("kernel", KERNELS)
    def test_the_slope_integrates_to_one(self, kernel):
        with mpmath.workdps(30):
            total = mpmath.quad(
                lambda u: mpmath.mpf(float(smooth_step_slope(float(u), bandwidth=0.5, kernel=kernel))),
                np.linspace(-20, 20, 81).tolist(),
            )
        assert float(total) == pytest.approx(1, abs=1e-12)


class TestThresholdSensitivity:
    @pytest.mark.parametrize("kernel", KERNELS)
    @given(t=st.floats(-1, 1), tau=bandwidths, m=st.integers(1, 10**6))
    @unhurried
    def test_tight_never_asks_for_more_than_half_of_uniform(self, kernel, t, tau, m):
        settings_ = {"bound": 1.0, "bandwidth": tau, "count": m, "kernel": kernel}
        tight = threshold_sensitivity(t, **settings_)
        uniform = threshold_sensitivity(t, **settings_, convention="uniform")
        assert uniform == 2 / m
        assert 0 < tight <= uniform / 2

    def test_it_is_vectorised_over_thresholds(self):
        grid = np.linspace(-1, 1, 7)
        together = threshold_sensitivity(grid, bound=1.0, bandwidth=0.2, count=3)
        alone = [
            sl.SmoothThreshold(at=t, members=range(3), bound=1.0, bandwidth=0.2).sensitivity.item()
            for t in grid
        ]
        assert together.tolist() == alone


class TestMoment:
    @given(z=st.lists(st.floats(-1, 1), min_size=1, max_size=8), order=st.integers(1, 30))
    @unhurried
    def test_value_and_jacobian_agree_with_exact_fractions(self, z, order):
        moment = sl.Moment(order=order, members=range(len(z)), bound=1.0)
        exact = [Fraction(x) for x in z]
        mean = sum(x**order for x in exact) / len(z)
        assert moment.value(z).item() == pytest.approx(float(mean), rel=1e-12, abs=1e-14)
        slopes = [float(order * x ** (order - 1) / len(z)) for x in exact]
        assert moment.jacobian(z).ravel() == pytest.approx(slopes, rel=1e-13, abs=1e-300)

    def test_conventions_differ_for_even_orders_only(self):
        orders = np.arange(1, 11)
        tight = moment_sensitivity(orders, bound=0.7, count=4)
        uniform = moment_sensitivity(orders, bound=0.7, count=4, convention="uniform")
        np.testing.assert_allclose(uniform, [2 * 0.7**ell / 4 for ell in range(1, 11)], rtol=1e-15)
        np.testing.assert_array_equal(uniform / tight, np.where(orders % 2, 1.0, 2.0))

    @given(ends=st.tuples(st.floats(-3, 3), st.floats(-3, 3)), order=st.integers(1, 9))
    @unhurried
    def test_the_range_of_a_power_is_what_exact_fractions_reach(self, ends, order):
        low, high = sorted(ends)
        reached = [Fraction(end) ** order for end in (low, high)] + ([Fraction(0)] if low < 0 < high else [])
        width = power_range(order, low=low, high=high).item()
        largest = float(max(abs(value) for value in reached))
        assert width == pytest.approx(float(max(reached) - min(reached)), rel=1e-14, abs=4e-16 * largest)

    def test_features_broadcast_over_groups_and_orders(self):
        z = np.random.default_rng(0).uniform(-1, 1, (50, 3, 1))
        orders = np.arange(1, 5)
        assert power(z, orders).shape == power_slope(z, orders).shape == (50, 3, 4)
        one = sl.Moment(order=3, members=range(3), bound=1.0)
        np.testing.assert_array_equal(power_slope(z, orders)[9, :, 2] / 3, one.jacobian(z[9]).ravel())


class TestHardCases:
    def test_one_member_far_away(self):
        mean = sl.SubsetMean(members=[10**6], radius=1.0)
        records = np.zeros(10**6 + 1)
        records[-1] = 0.25
        assert mean.value(records).tolist() == [0.25]
        assert mean.jacobian(records).tolist() == [[[1.0]]]

    @pytest.mark.slow
    def test_a_million_members(self):
        mean = sl.SubsetMean(members=np.arange(10**6), radius=1.0)
        assert mean.sensitivity.tolist() == [1e-6]
        assert mean.value(np.full(10**6, 0.1)).item() == pytest.approx(0.1, rel=1e-14)

    def test_order_forty_with_bound_one_thousand(self):
        moment = sl.Moment(order=40, members=[0, 1], bound=1e3)
        assert moment.sensitivity.item() == pytest.approx(0.5e120, rel=1e-13)
        assert moment.value([1e3, -1e3]).item() == pytest.approx(1e120, rel=1e-13)
        assert moment.jacobian([1e3, 1e-9]).ravel() == pytest.approx([20e117, 0.0], rel=1e-13)

    @pytest.mark.parametrize("kernel", KERNELS)
    def test_a_narrow_step_far_from_the_data(self, kernel):
        step = sl.SmoothThreshold(at=-999.0, members=[0, 1], bound=1e3, bandwidth=1e-3, kernel=kernel)
        assert step.value([1e3, 999.0]).tolist() == [1.0]
        assert step.jacobian([1e3, 999.0]).ravel().tolist() == [0.0, 0.0]
        assert step.sensitivity.tolist() == [0.5]

    @pytest.mark.parametrize("kernel", KERNELS)
    def test_the_narrowest_and_the_widest_step_that_exist(self, kernel):
        narrow = sl.SmoothThreshold(at=0.0, members=[0], bound=1e130, bandwidth=1e-130, kernel=kernel)
        assert narrow.value([1e130]).tolist() == [1.0]
        wide = sl.SmoothThreshold(at=0.0, members=[0], bound=1.0, bandwidth=1e100, kernel=kernel)
        slope = {"logistic": 0.25, "compact": 1.0}[kernel]
        assert wide.sensitivity.item() == pytest.approx(2 * slope * 1e-100, rel=1e-14)

    def test_records_may_be_integers_or_single_precision(self):
        total = sl.SubsetSum(members=[0, 1], radius=1.0)
        assert total.value([1, 2]).tolist() == [3.0]
        assert total.value(np.array([0.5, 0.25], dtype=np.float32)).tolist() == [0.75]

    def test_the_members_given_are_copied(self):
        given = np.array([2, 0])
        mean = sl.SubsetMean(members=given, radius=1.0)
        given[:] = 9
        assert mean.members.tolist() == [0, 2]


class TestKroneckerLift:
    def test_a_vector_mean_has_the_lifted_jacobian(self):
        scalar = sl.SubsetMean(members=[0, 1, 2], radius=1.0)
        vector = sl.SubsetMean(members=[0, 1, 2], radius=1.0, dimension=4)
        lifted = np.kron(scalar.jacobian()[:, :, 0], np.eye(4))
        np.testing.assert_array_equal(vector.jacobian().reshape(4, 12), lifted)


class TestWeightedSum:
    def test_unit_weights_are_a_sum(self):
        ones = sl.WeightedSum(members=[1, 3], weights=[1.0, 1.0], radius=2.0)
        total = sl.SubsetSum(members=[1, 3], radius=2.0)
        np.testing.assert_array_equal(ones.integer_rows(), total.integer_rows())
        np.testing.assert_array_equal(ones.sensitivity, total.sensitivity)

    @given(order=st.permutations(range(4)))
    @unhurried
    def test_members_and_weights_travel_together(self, order):
        members, weights = np.array([7, 1, 4, 2]), np.array([1.0, -2.0, 3.0, 0.5])
        sorted_one = sl.WeightedSum(members=members, weights=weights, radius=1.0)
        shuffled = sl.WeightedSum(members=iter(members[order]), weights=weights[order], radius=1.0)
        np.testing.assert_array_equal(sorted_one.weights, shuffled.weights)
        assert not sorted_one.weights.flags.writeable

    def test_weights_too_large_to_be_exact_have_no_integer_rows(self):
        assert sl.WeightedSum(members=[0], weights=[2.0**53], radius=1.0).integer_rows().item() == 2**53
        assert sl.WeightedSum(members=[0], weights=[2.0**60], radius=1.0).integer_rows() is None


class TestCells:
    def test_nested_cells_are_flattened(self):
        a, b, c = (sl.SubsetMean(members=[k], radius=1.0) for k in range(3))
        assert sl.Cells(cells=[sl.Cells(cells=[a, c]), b]).cells == (a, c, b)

    @pytest.mark.slow
    def test_twenty_thousand_groups_are_one_release(self):
        rng = np.random.default_rng(1)
        group = np.concatenate([np.arange(20_000), rng.integers(20_000, size=30_000)])
        order = np.argsort(group, kind="stable")
        parts = np.split(order, np.flatnonzero(np.diff(group[order])) + 1)
        table = sl.Cells(cells=[sl.SubsetMean(members=part, radius=1.0) for part in parts])
        records = rng.uniform(size=50_000)
        sizes = np.bincount(group)
        np.testing.assert_allclose(table.value(records), np.bincount(group, records) / sizes, rtol=1e-13)
        np.testing.assert_array_equal(table.sensitivity, 1.0 / sizes)
        np.testing.assert_array_equal(table.members, np.arange(50_000))


class TestDeepSet:
    @pytest.mark.slow
    def test_it_agrees_with_the_closed_form_of_every_family(self):
        rng = np.random.default_rng(2)
        z = rng.uniform(-1, 1, 6)
        members, m = [0, 2, 5], 3
        pairs = [
            (sl.SubsetMean(members=members, radius=2.0), lambda x: x, lambda s: s / m),
            (sl.Moment(order=5, members=members, bound=1.0), lambda x: x**5, lambda s: s / m),
            (
                sl.SmoothThreshold(at=0.2, members=members, bound=1.0, bandwidth=0.12),
                lambda x: jax.nn.sigmoid((x - 0.2) / 0.12),
                lambda s: s / m,
            ),
        ]
        for closed, feature, readout in pairs:
            auto = sl.DeepSet(
                feature=feature, readout=readout, members=members, sensitivity=closed.sensitivity
            )
            np.testing.assert_allclose(auto.value(z), closed.value(z), rtol=1e-12)
            np.testing.assert_allclose(auto.jacobian(z), closed.jacobian(z), rtol=1e-12, atol=1e-15)

    @pytest.mark.slow
    def test_vector_records_vector_features_and_several_outputs(self):
        rng = np.random.default_rng(5)
        W = rng.normal(size=(4, 3))
        x = rng.normal(size=(5, 3))
        query = sl.DeepSet(
            feature=lambda r: jnp.tanh(W @ r),
            readout=lambda s: jnp.stack([s[0] * s[1], jnp.exp(s[2]) + s[3]]),
            members=[1, 2, 4],
            sensitivity=[1.0, 2.0],
            dimension=3,
            outputs=2,
        )
        s = np.tanh(x[[1, 2, 4]] @ W.T).sum(axis=0)
        np.testing.assert_allclose(query.value(x), [s[0] * s[1], np.exp(s[2]) + s[3]], rtol=1e-14)
        J_rho = np.array([[s[1], s[0], 0, 0], [0, 0, np.exp(s[2]), 1]])
        J_phi = [(1 - np.tanh(W @ r) ** 2)[:, None] * W for r in x[[1, 2, 4]]]
        expected = np.stack([J_rho @ block for block in J_phi], axis=1)
        np.testing.assert_allclose(query.jacobian(x), expected, rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(query.sensitivity_l1, math.sqrt(2) * query.sensitivity, rtol=1e-15)

    @given(st.lists(st.floats(-1, 1), min_size=2, max_size=2), st.floats(0.1, 10), st.floats(0.1, 10))
    @settings(max_examples=30, deadline=None)
    def test_the_default_l1_sensitivity_always_suffices(self, direction, d1, d2):
        # Any change within the stated L2 ellipse is within the default L1 diamond.
        change = np.array(direction) / max(np.linalg.norm(direction), 1.0) * np.array([d1, d2])
        query = sl.DeepSet(
            feature=lambda x: x,
            readout=lambda s: s,
            members=[0],
            sensitivity=[d1, d2],
            dimension=2,
            outputs=2,
        )
        assert np.linalg.norm(change / query.sensitivity) <= 1 + 1e-12
        assert np.abs(change / query.sensitivity_l1).sum() <= 1 + 1e-12

    @pytest.mark.slow
    def test_it_works_in_double_precision_and_leaves_jax_as_it_was(self):
        before = jnp.ones(1).dtype
        query = sl.DeepSet(feature=lambda x: x, readout=lambda s: s, members=[0, 1], sensitivity=1.0)
        assert query.value([1.0, 1e-12]).item() == 1.0 + 1e-12
        query.jacobian([1.0, 2.0])
        assert jnp.ones(1).dtype == before

    @pytest.mark.parametrize("absent", ["no jax", "an old jax"])
    def test_without_a_recent_jax_it_says_what_to_install(self, monkeypatch, absent):
        if absent == "no jax":
            monkeypatch.setitem(sys.modules, "jax", None)
        else:
            monkeypatch.delattr(jax, "enable_x64")
        with pytest.raises(MissingExtra, match=r'pip install "sightline\[autodiff\]"'):
            sl.DeepSet(feature=lambda x: x, readout=lambda s: s, members=[0], sensitivity=1.0)
