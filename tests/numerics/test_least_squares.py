"""Least-squares fits against dense computations that use neither conditions nor sparse matrices."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import nnls

from sightline.arrays import FloatArray, IndexArray
from sightline.errors import TooMuchWork
from sightline.numerics import least_squares
from sightline.numerics.constrained_fit import Columns, non_negative, whole
from sightline.numerics.least_squares import LeastSquares, dependencies, nested, solution


def tables(generator: np.random.Generator, sizes: list[int], releases: list[tuple[int, ...]], people: int):
    """Numbers × kinds of people of some GROUP BYs over random attributes, and the release of every number."""
    points = np.unique(np.stack([generator.integers(0, size, people) for size in sizes], axis=1), axis=0)
    lines, owner = [], []
    for place, release in enumerate(releases):
        keys = points[:, list(release)]
        for key in np.unique(keys, axis=0):
            lines.append(np.all(keys == key, axis=1).astype(float))
            owner.append(place)
    return np.array(lines), np.array(owner)


def dense(rows: FloatArray, variances: FloatArray) -> FloatArray:
    """A (AᵀV⁻¹A)⁺ Aᵀ, by singular values."""
    white = rows / np.sqrt(variances)[:, None]
    left, values, _ = np.linalg.svd(white, full_matrices=False)
    left = left[:, values > 1e-9 * values[0]]
    return np.sqrt(np.outer(variances, variances)) * (left @ left.T)


def some_tables(seed: int) -> tuple[FloatArray, IndexArray, FloatArray, FloatArray]:
    generator = np.random.default_rng(seed)
    sizes = generator.integers(1, 6, 4).tolist()
    chosen = [
        tuple(np.flatnonzero(generator.random(4) < 0.5).tolist()) for _ in range(generator.integers(1, 6))
    ]
    rows, owner = tables(generator, sizes, chosen, int(generator.integers(3, 60)))
    rows = rows * generator.choice([1.0, -1.0, 2.0], size=rows.shape[1]) ** (seed % 2)  # weights of people
    variances = 10 ** generator.uniform(-2, 4, len(rows))
    noisy = rows @ generator.uniform(0, 9, rows.shape[1]) + generator.standard_normal(len(rows)) * np.sqrt(
        variances
    )
    return rows, owner, variances, noisy


@given(st.integers(0, 10**6))
def test_the_fit_is_that_of_a_dense_solve(seed: int) -> None:
    rows, owner, variances, noisy = some_tables(seed)
    system = LeastSquares(rows=sparse.csr_array(rows), variances=variances, partition=owner)
    covariance = dense(rows, variances)
    np.testing.assert_allclose(system.fitted(noisy), covariance @ (noisy / variances), rtol=1e-9, atol=1e-7)
    np.testing.assert_allclose(system.covariance(), covariance, rtol=1e-7, atol=1e-8 * variances.max())
    np.testing.assert_allclose(system.stddevs() ** 2, np.diagonal(covariance), rtol=1e-7)
    assert system.conditions == len(rows) - np.linalg.matrix_rank(rows)


@given(st.integers(0, 10**6))
def test_no_number_is_worse_than_its_noise_and_the_fit_says_as_much_of_everybody(seed: int) -> None:
    rows, owner, variances, _ = some_tables(seed)
    system = LeastSquares(rows=sparse.csr_array(rows), variances=variances, partition=owner)
    assert np.all(system.stddevs() <= np.sqrt(variances) * (1 + 1e-9))
    # Sufficient for Gaussian noise: Aᵀ cov⁺ A is AᵀV⁻¹A.
    root = np.sqrt(variances)
    inside = np.linalg.pinv(system.covariance() / np.outer(root, root), rcond=1e-7)
    white = rows / root[:, None]
    np.testing.assert_allclose(
        white.T @ inside @ white, white.T @ white, rtol=1e-5, atol=1e-5 * np.max(white.T @ white)
    )


@given(st.integers(0, 10**6))
def test_nested_conditions_hold_and_a_fit_by_steps_agrees(seed: int) -> None:
    rows, owner, variances, noisy = some_tables(seed)
    conditions = nested(sparse.csr_array(rows), owner)
    assert not np.any(conditions @ rows)
    assert np.linalg.matrix_rank(conditions.toarray()) == conditions.shape[0] if conditions.shape[0] else True
    by_steps = rows @ solution(sparse.csr_array(rows), noisy, variances)
    expected = dense(rows, variances) @ (noisy / variances)
    np.testing.assert_allclose(by_steps, expected, rtol=1e-6, atol=1e-5 * np.abs(noisy).max())


def test_too_many_numbers_are_fitted_by_steps_without_variances(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, owner = tables(np.random.default_rng(3), [4, 4, 4], [(0, 1), (1, 2), (0, 2)], 200)
    noisy, variances = rows @ np.ones(rows.shape[1]), np.ones(len(rows))
    system = LeastSquares(rows=sparse.csr_array(rows), variances=variances, partition=owner)
    expected = system.fitted(noisy + variances)
    monkeypatch.setattr(least_squares, "MOST_DENSE", 5)
    system = LeastSquares(rows=sparse.csr_array(rows), variances=variances, partition=owner)
    assert system.conditions is None
    assert np.isnan(system.stddevs()).all()
    np.testing.assert_allclose(system.fitted(noisy + variances), expected, rtol=1e-9)
    with pytest.raises(TooMuchWork, match="at most 5 numbers"):
        system.covariance()


def test_steps_that_do_not_end_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(least_squares, "_MOST_ITERATIONS", 1)
    rows, _ = tables(np.random.default_rng(3), [4, 4, 4], [(0, 1), (1, 2), (0, 2)], 200)
    with pytest.raises(TooMuchWork, match="within 1 steps"):
        solution(sparse.csr_array(rows), np.arange(float(len(rows))), np.ones(len(rows)))


def test_combinations_that_no_small_fraction_gives_are_found_all_the_same() -> None:
    """Weights of people that are no whole numbers: nothing is proved, and the combinations hold."""
    generator = np.random.default_rng(5)
    basis = generator.uniform(0.1, 3, (4, 9))
    rows = np.vstack([basis, generator.uniform(-2, 2, (3, 4)) @ basis])
    found = dependencies(sparse.csr_array(rows), np.array([0]), np.arange(1, 7))
    assert not found.proved
    assert found.others.size == 3
    np.testing.assert_allclose(found.weights @ rows[found.kept], rows[found.others], atol=1e-9)


def columns_of(rows: FloatArray) -> Columns:
    count = rows.shape[1]
    return Columns(rows=sparse.csr_array(rows), group=np.arange(count), totals=np.full(count, np.nan))


@given(st.integers(0, 10**6))
def test_a_fit_without_negative_sums_is_that_of_nnls(seed: int) -> None:
    generator = np.random.default_rng(seed)
    rows, _ = tables(generator, [4, 3, 3], [(0, 1), (1, 2), (0,)], 40)
    people = generator.integers(0, 2, rows.shape[1])
    variances = 10 ** generator.uniform(0, 1, len(rows))
    noisy = rows @ people + generator.standard_normal(len(rows)) * np.sqrt(variances)
    root = 1 / np.sqrt(variances)
    expected, _ = nnls(rows * root[:, None], noisy * root)
    made = non_negative(columns_of(rows), noisy, variances)
    assert made.min() >= 0
    loss = np.sum(np.square(root * (rows @ made - noisy)))
    assert loss <= np.sum(np.square(root * (rows @ expected - noisy))) + 1e-7 * np.sum(
        np.square(root * noisy)
    )
    np.testing.assert_allclose(rows @ made, rows @ expected, atol=1e-2)


@given(st.integers(0, 10**6), st.booleans())
def test_whole_sums_are_whole_keep_totals_and_cost_little(seed: int, floor: bool) -> None:
    """Of three categories a kind: totals of kinds are kept, and no single change of a column fits better."""
    generator = np.random.default_rng(seed)
    kinds, k = 12, 3
    group, totals = np.repeat(np.arange(kinds), k), generator.integers(1, 6, kinds).astype(float)
    rows, _ = tables(generator, [3, 4], [(0,), (1,)], 30)
    rows = np.kron(rows[:, generator.integers(0, rows.shape[1], kinds)], np.eye(k))
    truth = np.concatenate([generator.multinomial(int(total), np.ones(k) / k) for total in totals])
    variances = np.full(len(rows), 4.0)
    noisy = rows @ truth + 2 * generator.standard_normal(len(rows))
    columns = Columns(rows=sparse.csr_array(rows), group=group, totals=totals)
    free, offset = columns.free
    assert np.array_equal(free @ truth[np.arange(truth.size) % k < k - 1] + offset, rows @ truth)
    start = (
        non_negative(columns, noisy, variances)
        if floor
        else columns.completed(solution(free, noisy - offset, variances))
    )
    np.testing.assert_allclose(np.bincount(group, start), totals, atol=1e-9)
    made = whole(columns, start, noisy, variances, floor=floor)
    assert np.array_equal(made, np.rint(made))
    assert np.array_equal(np.bincount(group, made), totals)
    assert made.min() >= 0 or not floor
    loss = np.sum(np.square(rows @ made - noisy))
    for kind in range(kinds):
        for first in range(k - 1):
            for change in (-1.0, 1.0):
                other = made.copy()
                other[kind * k + first] += change
                other[kind * k + k - 1] -= change
                assert np.sum(np.square(rows @ other - noisy)) >= loss - 1e-9 or (floor and other.min() < 0)
