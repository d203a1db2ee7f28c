"""The batched search: curves, derivatives, starts and optima against the releases, SciPy and brute force."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

import sightline as sl
from sightline.numerics.powers import power, power_slope
from sightline.theory.attacks.inversion import cubic_roots, depressed_roots, invert_moments
from sightline.theory.attacks.mle import algebraic, grid_points, random_points, regions
from sightline.theory.attacks.model import Power, SmoothStep, model_of
from sightline.theory.releases.features import Powers, smooth_step, smooth_step_slope
from tests.theory.attacks.attack_cases import INTERIOR, moments, noisy, thresholds

values = st.floats(-1.0, 1.0)
CORRELATED = 0.01 * (np.eye(3) + 0.4 * np.ones((3, 3)))


class TestCurves:
    @pytest.mark.parametrize("order", [1, 2, 3, 4, 9])
    def test_powers_are_those_of_the_releases(self, order) -> None:
        u = np.linspace(-1, 1, 41)
        value, slope, bend = Power(order=order).derivatives(u, Powers(u))
        assert value == pytest.approx(power(u, order), abs=1e-15)
        assert slope == pytest.approx(power_slope(u, order), abs=1e-14)
        second = order * (order - 1) * (u ** max(order - 2, 0))
        assert bend == pytest.approx(second, abs=1e-13)

    @pytest.mark.parametrize("kernel", ["logistic", "compact"])
    def test_steps_are_those_of_the_releases(self, kernel) -> None:
        u = np.concatenate([np.linspace(-1, 1, 81), [-0.1, 0.5]])  # the compact step's ends included
        value, slope, bend = SmoothStep(at=0.2, bandwidth=0.3, kernel=kernel).derivatives(u, Powers(u))
        assert value == pytest.approx(smooth_step(u - 0.2, bandwidth=0.3, kernel=kernel), abs=1e-15)
        assert slope == pytest.approx(smooth_step_slope(u - 0.2, bandwidth=0.3, kernel=kernel), abs=1e-14)

        def h(x: mpmath.mpf) -> mpmath.mpf:
            w = (x - mpmath.mpf(0.2)) / mpmath.mpf(0.3)
            if kernel == "logistic":
                return 1 / (1 + mpmath.exp(-w))
            return (1 + w + mpmath.sin(mpmath.pi * w) / mpmath.pi) / 2

        for x in (0.0, 0.1, 0.25, 0.4):
            place = int(np.argmin(np.abs(u - x)))
            assert bend[place] == pytest.approx(float(mpmath.diff(h, u[place], 2)), rel=1e-9)

    def test_a_logistic_step_never_overflows(self) -> None:
        step = SmoothStep(at=0.0, bandwidth=1e-4, kernel="logistic")
        u = np.array([-1.0, 1.0])
        value, slope, bend = step.derivatives(u, Powers(u))
        assert value.tolist() == [0.0, 1.0]
        assert slope.tolist() == [0.0, 0.0]
        assert np.all(np.isfinite(bend))


def mixed() -> sl.Transcript:
    """Different members, kinds and correlated noise: nothing about it is exchangeable."""
    queries = [
        sl.Moment(order=3, members=[0, 1, 2], bound=1.0),
        sl.SmoothThreshold(at=0.1, members=[1, 2], bound=1.0, bandwidth=0.5),
        sl.WeightedSum(members=[0, 2], weights=[2.0, -1.0], radius=1.0),
    ]
    return sl.Transcript(queries, noise=CORRELATED)


@pytest.mark.parametrize(
    "transcript",
    [moments(5.0, releases=4, members=3), thresholds(0.1), thresholds(0.1, kernel="compact"), mixed()],
    ids=["moments", "logistic", "compact", "mixed"],
)
class TestModel:
    def test_it_expects_the_exact_answers(self, transcript) -> None:
        model = model_of(transcript.queries, transcript.law)
        records = np.random.default_rng(0).uniform(-1, 1, (5, 3))
        expected = model.expected(records.T).T
        assert expected == pytest.approx(np.array([transcript.answers(r) for r in records]), abs=1e-14)

    def test_its_derivatives_are_those_of_its_objective(self, transcript) -> None:
        model = model_of(transcript.queries, transcript.law)
        generator = np.random.default_rng(1)
        u = generator.uniform(-0.9, 0.9, (4, 3))
        answers = noisy(transcript, (0.5, -0.3, 0.1), 4)
        z = model.whiten(answers.T)
        local = model.local(u.T, z)
        root = np.linalg.inv(np.linalg.cholesky(transcript.law.covariance))
        for i in range(4):
            residual = root @ (answers[i] - transcript.answers(u[i]))
            assert local.objective[i] == pytest.approx(residual @ residual, rel=1e-10)
        step = 1e-5
        for k in range(3):
            moved = [u + step * side * np.eye(3)[k] for side in (-1, 1)]
            below, above = (model.local(point.T, z) for point in moved)
            slope = (above.objective - below.objective) / (2 * step)
            assert local.gradient[k] == pytest.approx(slope, rel=1e-5, abs=1e-5)
            for j in range(k + 1):
                bend = (above.gradient[j] - below.gradient[j]) / (2 * step)
                assert local.hessian[k][j] == pytest.approx(bend, rel=1e-5, abs=1e-4)

    def test_its_information_is_the_geometrys(self, transcript) -> None:
        model = model_of(transcript.queries, transcript.law)
        u = np.array([[0.5, -0.3, 0.1]])
        information = model.information(u.T)
        geometry = transcript.geometry(at=u[0]).information
        for k in range(3):
            for j in range(k + 1):
                assert information[k][j][0] == pytest.approx(geometry[k, j], rel=1e-10)

    @pytest.mark.slow
    def test_no_start_of_scipy_finds_a_better_point(self, transcript) -> None:
        model = model_of(transcript.queries, transcript.law)
        answers = noisy(transcript, (0.5, -0.3, 0.1), 6)
        found = sl.ConstrainedMLE(box=(-1, 1)).estimate(transcript, answers)
        generator = np.random.default_rng(2)
        for i, y in enumerate(answers):
            z = model.whiten(y[:, None])

            def objective(u: np.ndarray, z: np.ndarray = z) -> float:
                return float(model.local(u[:, None], z).objective[0])

            for start in generator.uniform(-1, 1, (5, 3)):
                other = minimize(objective, start, method="L-BFGS-B", bounds=[(-1, 1)] * 3)
                assert found.objective[i] <= other.fun + 1e-8
        assert found.unlabeled == model.exchangeable


class TestSearch:
    @pytest.mark.slow
    def test_more_starts_never_help_much(self) -> None:
        """Three values under six moments: the default starts find what a hundred do, on 500 draws."""
        transcript = moments(20.0, releases=6, members=3)
        answers = noisy(transcript, (-0.7, 0.1, 0.8), 500)
        default = sl.ConstrainedMLE().estimate(transcript, answers)
        many = sl.ConstrainedMLE(grid_starts=20, random_starts=80).estimate(transcript, answers)
        assert np.max(default.objective - many.objective) <= 1e-8

    @pytest.mark.slow
    def test_many_trials_are_worked_on_in_blocks(self) -> None:
        transcript = moments(5.0)
        answers = noisy(transcript, INTERIOR, 7000)
        together = sl.ConstrainedMLE().estimate(transcript, answers)
        apart = [sl.ConstrainedMLE().estimate(transcript, part).values for part in np.split(answers, 7)]
        assert together.values == pytest.approx(np.concatenate(apart), abs=1e-9)

    @pytest.mark.parametrize("bound", [1e-3, 5000.0])
    def test_another_unit_changes_nothing(self, bound) -> None:
        orders = (1, 2, 3)
        answers = noisy(moments(5.0, releases=3, members=3), (-0.5, 0.2, 0.6), 100)
        stddevs = np.array([0.2, 0.3, 0.4])
        powers = np.array([bound**order for order in orders])
        one, other = (
            sl.Transcript(
                [sl.Moment(order=order, members=range(3), bound=R) for order in orders], noise=stddevs * scale
            )
            for R, scale in ((1.0, np.ones(3)), (bound, powers))
        )
        found = sl.ConstrainedMLE().estimate(other, answers * powers)
        expected = sl.ConstrainedMLE().estimate(one, answers)
        assert found.objective == pytest.approx(expected.objective, abs=1e-9)
        assert found.values / bound == pytest.approx(expected.values, abs=1e-5)

    def test_a_search_that_runs_out_of_steps_says_so(self) -> None:
        transcript = moments(5.0, releases=6, members=3)
        found = sl.ConstrainedMLE(steps=1).estimate(transcript, noisy(transcript, (-0.7, 0.1, 0.8), 50))
        assert sl.attacks.AttackStatus.STEP_LIMIT in found.status
        assert "step limit" in str(sl.attacks.AttackStatus.STEP_LIMIT)

    def test_values_that_meet_have_no_standard_error(self) -> None:
        transcript = sl.Transcript(moments(1.0).queries, noise=[0.1, 0.1])
        found = sl.ConstrainedMLE().estimate(transcript, [0.2, -0.5])
        assert found.values[0, 0] == pytest.approx(found.values[0, 1], abs=1e-6)
        assert np.all(found.standard_errors > 1e3)
        assert found.lower.tolist() == [[-1.0, -1.0]]

    def test_labelled_records_keep_their_names(self) -> None:
        """Moments of a group, and one member alone: the order is broken, so nothing is sorted."""
        queries = [
            sl.Moment(order=1, members=range(2), bound=1.0),
            sl.Moment(order=2, members=range(2), bound=1.0),
            sl.SubsetSum(members=[0], radius=1.0),
        ]
        transcript = sl.Transcript(queries, noise=[1e-4] * 3)
        found = sl.ConstrainedMLE().estimate(transcript, transcript.answers([0.7, -0.4]))
        assert not found.unlabeled
        assert found.values[0] == pytest.approx([0.7, -0.4], abs=1e-6)
        assert [v.label for v in sl.reconstruct(transcript, transcript.answers([0.7, -0.4])).exposed] == [
            "x0",
            "x1",
        ]


class TestStarts:
    @pytest.mark.parametrize(
        ("unknowns", "exchangeable"),
        [(1, True), (2, True), (2, False), (4, True), (9, True), (9, False), (12, False)],
    )
    def test_the_grid_covers_the_box(self, unknowns, exchangeable) -> None:
        points = grid_points(unknowns, box=(-2.0, 3.0), exchangeable=exchangeable)
        assert points.shape[1] == unknowns
        assert 10 < len(points) < 1200
        assert points.min() >= -2
        assert points.max() <= 3
        if exchangeable:
            assert np.all(np.diff(points, axis=1) >= 0)
        label = regions(points, 8)
        assert sorted(set(label.tolist())) == list(range(8))

    def test_random_starts_are_fixed(self) -> None:
        transcript = moments(5.0)
        model = model_of(transcript.queries, transcript.law)
        one, other = (random_points(model, box=(-1, 1), count=3, seed=5) for _ in range(2))
        assert np.array_equal(one, other)

    @pytest.mark.slow
    @given(st.lists(values, min_size=3, max_size=3))
    def test_three_moments_are_inverted(self, records) -> None:
        transcript = sl.Transcript(
            [sl.Moment(order=o, members=range(3), bound=1.0) for o in (1, 2, 3)], noise=[1.0] * 3
        )
        model = model_of(transcript.queries, transcript.law)
        (found,) = algebraic(model, transcript.answers(records)[:, None])
        again = np.array([np.mean(found[:, 0] ** o) for o in (1, 2, 3)])
        assert again == pytest.approx(transcript.answers(records), abs=1e-9)

    def test_one_value_is_its_own_mean(self) -> None:
        transcript = moments(5.0, releases=2, members=1)
        model = model_of(transcript.queries, transcript.law)
        (found,) = algebraic(model, np.array([[0.25], [0.9]]))
        assert found.tolist() == [[0.25]]
        found = sl.ConstrainedMLE(grid_starts=0).estimate(transcript, [0.25, 0.0625])
        assert found.values[0] == pytest.approx([0.25])
        assert not found.unlabeled

    def test_without_the_first_moments_there_is_no_inverse(self) -> None:
        transcript = moments(5.0, releases=3, members=4)
        model = model_of(transcript.queries, transcript.law)
        assert algebraic(model, np.zeros((3, 1))) == []


class TestCubic:
    @given(st.lists(st.floats(-3, 3), min_size=3, max_size=3))
    def test_its_roots_are_found_again(self, roots) -> None:
        expanded = np.poly(roots)[::-1]  # constant term first
        found = cubic_roots([np.array([c]) for c in expanded[:3]], 1.0)
        for root in found:
            assert abs(np.polyval(expanded[::-1], root[0])) < 1e-10

    def test_one_real_root(self) -> None:
        # t³ + t = 2 at 1, and −½ ± i√7/2.
        found = depressed_roots(np.array([1.0]), np.array([2.0]))
        assert [float(root[0]) for root in found] == pytest.approx([-0.5, -0.5, 1.0])
        assert [float(root[0]) for root in depressed_roots(np.zeros(1), np.zeros(1))] == [0, 0, 0]


class TestInversion:
    @settings(deadline=None)
    @given(st.lists(st.integers(-8, 8), min_size=1, max_size=5, unique=True))
    def test_distinct_values_are_recovered_from_their_moments(self, eighths) -> None:
        records = np.sort(np.array(eighths) / 8)
        m = len(records)
        found, real = invert_moments(np.array([[np.mean(records**o) for o in range(1, m + 1)]]))
        assert found[0] == pytest.approx(records, abs=1e-6)
        assert real.tolist() == [True]

    def test_it_is_the_papers_formula_for_a_pair(self) -> None:
        transcript = moments(1.0)
        answers = noisy(transcript, INTERIOR, 200)
        found = sl.attacks.MomentInversion().estimate(transcript, answers)
        for (y1, y2), row in zip(answers, found.values, strict=True):
            half = math.sqrt(max(y2 - y1**2, 0.0))
            assert row == pytest.approx([y1 - half, y1 + half], abs=1e-12)

    def test_the_general_path_agrees_with_numpys_roots(self) -> None:
        answers = np.random.default_rng(3).normal(0, 0.5, (40, 4))
        found, real = invert_moments(answers)
        for row, y, is_real in zip(found, answers, real, strict=True):
            p = 4 * y
            e1 = p[0]
            e2 = (e1 * p[0] - p[1]) / 2
            e3 = (e2 * p[0] - e1 * p[1] + p[2]) / 3
            e4 = (e3 * p[0] - e2 * p[1] + e1 * p[2] - p[3]) / 4
            roots = np.roots([1, -e1, e2, -e3, e4])
            assert row == pytest.approx(np.sort(roots.real), abs=1e-8)
            assert is_real == bool(np.all(roots.imag == 0))

    def test_the_order_of_the_releases_does_not_matter(self) -> None:
        queries = [sl.Moment(order=order, members=range(3), bound=1.0) for order in (5, 3, 1, 2)]
        transcript = sl.Transcript(queries, noise=[1.0] * 4)
        found = sl.attacks.MomentInversion().estimate(transcript, transcript.answers([0.5, -0.25, 0.75]))
        assert found.values[0] == pytest.approx([-0.25, 0.5, 0.75])
