"""Bounds from residuals: never below the truth in 50 digits, and not far above it."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from sightline.numerics import residuals


def norm(matrix: mpmath.matrix) -> float:
    """The 2-norm, in 50 digits."""
    return float(mpmath.sqrt(max(mpmath.eigsy(matrix.T * matrix, eigvals_only=True))))


def exact(array: np.ndarray) -> mpmath.matrix:
    return mpmath.matrix(array.tolist())


@pytest.mark.parametrize("condition", [1e1, 1e4, 1e7])
def test_the_error_of_an_inverse(condition: float) -> None:
    generator = np.random.default_rng(1)
    for size in (1, 3, 9):
        Q, _ = np.linalg.qr(generator.standard_normal((size, size)))
        P = (Q * np.geomspace(1, condition, size)) @ Q.T
        P = (P + P.T) / 2
        Y = np.linalg.inv(P)
        Y = (Y + Y.T) / 2
        for wrong in (0.0, 1e-3):
            with mpmath.workdps(50):
                off = norm(exact(P) * exact(Y * (1 + wrong)) - mpmath.eye(size))
            bound = residuals.inverse_error(P, Y * (1 + wrong))
            assert off <= bound <= 1e3 * off + 1e-12 * condition


def test_orthonormal_columns() -> None:
    vectors = np.linalg.qr(np.random.default_rng(2).standard_normal((8, 8)))[0]
    with mpmath.workdps(50):
        off = norm(exact(vectors).T * exact(vectors) - mpmath.eye(8))
    assert off <= residuals.product_error(vectors, np.eye(8), lengths=np.ones(8)) < 1e-11
    assert residuals.product_error(2 * vectors, np.eye(8), lengths=2 * np.ones(8)) == np.inf


def test_the_largest_eigenvalue_of_every_block() -> None:
    A = np.random.default_rng(3).standard_normal((20, 5, 5)) * np.geomspace(1e-8, 1e8, 20)[:, None, None]
    blocks = A @ A.transpose(0, 2, 1)
    found = residuals.eigenvalues_at_most(blocks)
    with mpmath.workdps(50):
        truth = [float(max(mpmath.eigsy(exact((S + S.T) / 2), eigvals_only=True))) for S in blocks]
    assert np.all(found >= truth)
    assert np.allclose(found, truth, rtol=1e-12)
    assert residuals.eigenvalues_at_most(np.zeros((2, 0, 0))).tolist() == [0.0, 0.0]
