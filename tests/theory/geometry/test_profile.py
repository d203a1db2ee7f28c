"""The profiled information: three forms, against 60-digit arithmetic, on transcripts of every temper."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import sightline as sl
from sightline.errors import InvalidInput, Undecided
from sightline.numerics.rank import Rank, numerical_rank


def reference_information(
    rows: np.ndarray, target: list[int], known: tuple[int, ...] = (), *, stddevs: np.ndarray
) -> np.ndarray:
    """The Schur complement by mpmath, with the exact binary values of the rows and of the noise."""
    nuisance = [k for k in range(rows.shape[1]) if k not in target and k not in known]
    with mpmath.workdps(120):
        scales = [mpmath.mpf(stddev) for stddev in stddevs.tolist()]
        rows = mpmath.matrix(
            [[mpmath.mpf(x) / s for x in row] for row, s in zip(rows.tolist(), scales, strict=True)]
        )
        T = mpmath.matrix([[rows[i, k] for k in target] for i in range(rows.rows)])
        A = T.T * T
        if nuisance:
            E = mpmath.matrix([[rows[i, k] for k in nuisance] for i in range(rows.rows)])
            A = A - (T.T * E) * (mpmath.inverse(E.T * E) * (E.T * T))
        return np.array([[float(A[i, j]) for j in range(A.cols)] for i in range(A.rows)])


def random_rows(generator, lines, records):
    return generator.standard_normal((lines, records))


def nearly_collinear_rows(generator, lines, records):
    rows = generator.standard_normal((lines, records))
    rows[:, 0] = rows[:, 1:] @ generator.standard_normal(records - 1) + 1e-6 * rows[:, 0]
    return rows


def membership_rows(generator, lines, records):
    while True:
        rows = generator.integers(0, 2, (lines, records)).astype(float)
        if np.linalg.matrix_rank(rows) == records:
            return rows


@pytest.mark.slow
@pytest.mark.parametrize("rows_of", [random_rows, nearly_collinear_rows, membership_rows])
@pytest.mark.parametrize("decades", [0, 12])
@pytest.mark.parametrize("seed", range(8))
def test_three_forms_agree_with_each_other_and_with_120_digits(rows_of, decades, seed):
    generator = np.random.default_rng(seed)
    records = int(generator.integers(2, 8))
    lines = records + int(generator.integers(0, 5))
    rows = rows_of(generator, lines, records)
    stddevs = 10.0 ** generator.uniform(-decades / 2, decades / 2, size=lines)
    geometry = sl.geometry.Geometry(jacobian=rows, noise=sl.GaussianNoise(stddevs=stddevs))
    target = [0] if seed % 2 else [0, records - 1]
    exposure = geometry.profile(target=target)
    assert exposure.identifiable
    rounded = reference_information(np.asarray(geometry.whitened), target, stddevs=np.ones(lines))
    truth = reference_information(rows, target, stddevs=stddevs)
    scale = np.sqrt(np.outer(np.diag(truth), np.diag(truth)))
    for form in sl.geometry.Form:
        difference = np.abs(sl.geometry.profiled_information(exposure, form) - rounded) / scale
        assert difference.max() < 1e-9, form
    assert exposure.relative_error < 1e-6
    assert np.abs(exposure.information - truth).max() / scale.max() <= max(exposure.relative_error, 1e-15)


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_the_bound_is_the_inverse_and_the_recipe_attains_it(seed):
    generator = np.random.default_rng(seed)
    records = int(generator.integers(1, 6))
    lines = records + int(generator.integers(0, 4))
    rows = generator.standard_normal((lines, records)) + 4 * np.eye(lines, records)
    root = generator.standard_normal((lines, lines))
    covariance = root @ root.T + np.eye(lines)
    geometry = sl.geometry.Geometry(jacobian=rows, noise=sl.CorrelatedNoise(blocks=(covariance,)))
    exposure = geometry.profile(target=range(records))
    full = np.linalg.inv(rows.T @ np.linalg.solve(covariance, rows))
    np.testing.assert_allclose(exposure.covariance, full, rtol=1e-6, atol=1e-9 * np.abs(full).max())
    assert exposure.crb == pytest.approx(np.trace(full), rel=1e-6)
    # Unbiased (recipe @ rows = identity), and its variance is the bound.
    np.testing.assert_allclose(exposure.recipe @ rows, np.eye(records), atol=1e-8)
    np.testing.assert_allclose(
        exposure.recipe @ covariance @ exposure.recipe.T, full, rtol=1e-6, atol=1e-9 * np.abs(full).max()
    )


def test_laplace_noise_weighs_rows_by_the_scale():
    rows = np.array([[1.0, 1.0], [0.0, 1.0], [1.0, 0.5]])
    scales = [0.5, 2.0, 3.0]
    exposure = sl.geometry.Geometry(jacobian=rows, noise=sl.LaplaceNoise(scales=scales)).profile(target=0)
    information = rows.T @ np.diag(1 / np.square(scales)) @ rows
    assert exposure.crb == pytest.approx(np.linalg.inv(information)[0, 0], rel=1e-12)


def test_a_known_record_is_no_nuisance():
    rows = np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0]])
    geometry = sl.geometry.Geometry(jacobian=rows, noise=sl.GaussianNoise(stddevs=[2.0, 3.0]))
    assert geometry.profile(target=0).crb == math.inf
    assert geometry.profile(target=0, known=[2]).crb == pytest.approx(4 + 9)
    assert geometry.profile(target=0, known=[1, 2]).crb == pytest.approx(4)


def test_part_of_a_target_can_be_revealed_and_is_named():
    rows = np.array([[1, 1, 0, 1], [0, 0, 1, 1], [0, 0, 0, 1]], dtype=float)
    geometry = sl.geometry.Geometry(jacobian=rows, noise=sl.GaussianNoise(stddevs=[1.0, 1.0, 1.0]))
    exposure = geometry.profile(target=[0, 1, 2])
    assert not exposure.identifiable
    assert exposure.crb == math.inf
    assert exposure.recipe.shape == (0, len(rows))
    assert [str(direction) for direction in exposure.directions] == ["x0 + x1", "x2"]
    assert [round(direction.crb, 12) for direction in exposure.directions] == [2.0, 2.0]
    for direction in exposure.directions:
        expected = [float(c) for c in direction.coefficients] + [0.0]
        np.testing.assert_allclose(direction.recipe @ rows, expected, atol=1e-12)


def test_all_that_a_transcript_reveals_can_be_read_off():
    rows = np.array([[1, 1, 1, 1, 0], [0, 1, 1, 1, 0], [0, 0, 0, 1, 1]], dtype=float)
    geometry = sl.geometry.Geometry(jacobian=rows, noise=sl.GaussianNoise(stddevs=[1.0, 1.0, 1.0]))
    assert [str(direction) for direction in geometry.directions] == ["x0", "x1 + x2 − x4", "x3 + x4"]
    assert len(geometry.directions) == geometry.rank.rank


def test_directions_of_real_rows_carry_their_own_units():
    rows = np.array([[2.0, 1.0, 0.0], [0.0, 0.0, 0.25]])
    noise = sl.GaussianNoise(stddevs=[1.0, 1.0])
    geometry = sl.geometry.Geometry(jacobian=rows, noise=noise, labels=("a", "b", "c"))
    exposure = geometry.profile(target=[0, 1, 2])
    assert {str(direction) for direction in exposure.directions} == {"2·a + b", "c"}
    for direction in exposure.directions:
        np.testing.assert_allclose(direction.recipe @ rows, np.array(direction.coefficients, float))


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=80, deadline=None)
def test_a_functional_is_profiled_like_a_record_in_other_coordinates(seed):
    generator = np.random.default_rng(seed)
    records = int(generator.integers(2, 6))
    lines = int(generator.integers(1, 7))
    rows = generator.integers(0, 2, (lines, records)).astype(float)
    functional = generator.integers(-2, 3, records)
    if not functional.any():
        functional[0] = 1
    stddevs = generator.uniform(0.5, 2.0, lines)
    geometry = sl.geometry.Geometry(jacobian=rows, noise=sl.GaussianNoise(stddevs=stddevs))
    exposure = geometry.profile(functional=functional)
    revealed = np.linalg.matrix_rank(np.vstack([rows, functional])) == np.linalg.matrix_rank(rows)
    assert bool(exposure.identifiable) == revealed
    if revealed:
        whitened = rows / stddevs[:, None]
        bound = functional @ np.linalg.pinv(whitened.T @ whitened, rcond=1e-10) @ functional
        assert exposure.crb == pytest.approx(bound, rel=1e-7)
        np.testing.assert_allclose(exposure.recipe[0] @ rows, functional, atol=1e-8)
    else:
        assert exposure.crb == math.inf
    # A scaled functional is no longer made of whole numbers: decided by gap, with the same outcome.
    scaled = geometry.profile(functional=functional * math.pi)
    assert bool(scaled.identifiable) == revealed
    if revealed:
        assert scaled.crb == pytest.approx(math.pi**2 * exposure.crb, rel=1e-7)


def test_two_functionals_together_reveal_what_they_share():
    rows = np.array([[1.0, 1.0, 1.0]])
    geometry = sl.geometry.Geometry(jacobian=rows, noise=sl.GaussianNoise(stddevs=[1.0]))
    exposure = geometry.profile(functional=[[1, 1, 0], [0, 0, 1]])
    assert [str(direction) for direction in exposure.directions] == ["f0 + f1"]


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_real_rows_hide_exactly_what_their_integer_twins_hide(seed):
    generator = np.random.default_rng(seed)
    lines, records = generator.integers(1, 9, size=2)
    integers = generator.integers(0, 2, (lines, records))
    integers[0, 0] = 1
    scales = 10.0 ** generator.uniform(-3, 3, (lines, 1)) * math.pi
    noise = sl.GaussianNoise(stddevs=np.ones(lines))
    real = sl.geometry.Geometry(jacobian=integers * scales, noise=noise)
    assert real.integer_rows is None
    exactly = sl.geometry.Geometry(jacobian=integers * scales, noise=noise, integer_rows=integers)
    target = int(generator.integers(records))
    ours, theirs = real.profile(target=target), exactly.profile(target=target)
    assert bool(ours.identifiable) == bool(theirs.identifiable)
    if ours.identifiable:
        assert ours.crb == pytest.approx(theirs.crb, rel=1e-8)


def test_sparse_and_dense_rows_give_the_same_exposure():
    generator = np.random.default_rng(3)
    rows = (generator.random((30, 400)) < 0.05).astype(float)
    rows[1] = rows[0]
    rows[1, 7] = 1 - rows[0, 7]
    noise = sl.GaussianNoise(stddevs=generator.uniform(0.5, 2, 30))
    dense = sl.geometry.Geometry(jacobian=rows, noise=noise)
    thin = sl.geometry.Geometry(
        jacobian=sparse.csr_array(rows), noise=noise, integer_rows=sparse.csr_array(rows.astype(np.int64))
    )
    for target in (7, 8, [7, 8, 9]):
        assert dense.profile(target=target).identifiable == thin.profile(target=target).identifiable
        assert dense.profile(target=target).crb == pytest.approx(thin.profile(target=target).crb, rel=1e-10)
    np.testing.assert_allclose(dense.information, thin.information, atol=1e-12)
    assert dense.rank.rank == thin.rank.rank == np.linalg.matrix_rank(rows)


def test_no_gap_means_undecided_and_undecided_is_neither():
    rows = np.array([[1.0, 1.0], [1.0, 1.0 + 3e-14], [math.pi, math.pi]])
    exposure = sl.geometry.Geometry(jacobian=rows, noise=sl.GaussianNoise(stddevs=np.ones(3))).profile(
        target=0
    )
    assert exposure.identifiable is sl.geometry.Decision.UNDECIDED
    assert exposure.evidence is sl.geometry.Evidence.NONE
    assert math.isnan(exposure.crb)
    assert exposure.directions == ()
    with pytest.raises(Undecided):
        bool(exposure.identifiable)


@pytest.mark.parametrize(("distance", "decided"), [(1e-5, True), (1e-9, True), (1e-17, True), (1e-13, False)])
def test_the_gap_decides_far_from_rounding_on_both_sides(distance, decided):
    rows = np.array([[1.0, 1.0], [1.0, 1.0 + distance], [0.3, 0.3]])
    decision, _ = numerical_rank(rows)
    assert isinstance(decision, Rank)
    assert decision.decided == decided
    if decided:
        assert decision.rank == (2 if distance > 1e-15 else 1)


def test_the_static_case_is_recognised():
    noise = sl.GaussianNoise(stddevs=[1.0, 2.0, 3.0])
    repeated = sl.geometry.Geometry(jacobian=np.array([[1.0, 1, 0], [2, 2, 0], [3, 3, 0]]), noise=noise)
    varied = sl.geometry.Geometry(jacobian=np.array([[1.0, 1, 0], [2, 2, 0], [3, 3, 1]]), noise=noise)
    assert repeated.static
    assert not varied.static
    assert repeated.profile(target=0).crb == math.inf
    (direction,) = repeated.profile(target=[0, 1]).directions
    assert str(direction) == "x0 + x1"
    assert direction.crb == pytest.approx(1 / (1 + 1 + 1))


def test_static_vector_releases_are_recognised_by_release():
    mean = sl.SubsetMean(members=[0, 1], radius=1.0, dimension=2)
    assert sl.Transcript([mean, mean], noise=np.ones(4)).geometry().static
    other = sl.SubsetMean(members=[0], radius=1.0, dimension=2)
    assert not sl.Transcript([mean, other], noise=np.ones(4)).geometry().static
    assert not sl.Transcript([mean], noise=np.ones(2)).geometry().static


class TestOneClearErrorEach:
    geometry = sl.geometry.Geometry(
        jacobian=np.array([[1.0, 1.0], [0.0, 1.0]]), noise=sl.GaussianNoise(stddevs=[1.0, 1.0])
    )

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"target": 2}, "target among records 0 to 1, got 2"),
            ({"target": -1}, "target >= 0, got -1"),
            ({"target": []}, "at least one of target"),
            ({"target": [0, 0]}, "distinct target"),
            ({"target": [0.5]}, "whole numbers"),
            ({"target": 0, "known": [0]}, "does not know already, got known record 0"),
            ({"target": 0, "known": [7]}, "known among records 0 to 1"),
            ({}, "either a target or a functional, got neither"),
            ({"target": 0, "functional": [1, 0]}, "either a target or a functional, got both"),
            ({"functional": [1, 0, 0]}, "a functional of 2 coefficients"),
            ({"functional": [0, 0]}, "independent, non-zero functionals"),
            ({"functional": [[1, 0], [2, 0]]}, "independent, non-zero functionals"),
            ({"functional": [math.nan, 0]}, "finite functional"),
        ],
    )
    def test_profile(self, arguments, message):
        with pytest.raises(InvalidInput, match=message):
            self.geometry.profile(**arguments)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"jacobian": np.array([[1.0, math.nan]])}, "finite jacobian"),
            ({"jacobian": sparse.csr_array(np.array([[1.0, math.inf]]))}, "finite jacobian"),
            ({"jacobian": np.array([1.0, 2.0])}, "jacobian of 2 dimension"),
            ({"jacobian": np.zeros((0, 2))}, "at least one row"),
            ({"jacobian": np.ones((2, 2))}, "noise for 2 answers, got noise for 1"),
            ({"jacobian": np.ones((1, 3)), "dimension": 2}, "records of 2 coordinates"),
            ({"jacobian": np.ones((1, 3)), "integer_rows": np.ones((1, 2), int)}, "integer rows of shape"),
            ({"jacobian": np.ones((1, 3)), "labels": ("a",)}, "3 labels, got 1"),
        ],
    )
    def test_geometry(self, arguments, message):
        with pytest.raises(InvalidInput, match=message):
            sl.geometry.Geometry(noise=sl.GaussianNoise(stddevs=[1.0]), **arguments)
