"""The inverse of a positive definite matrix, against NumPy's, also where the matrix is a diagonal."""

from __future__ import annotations

import numpy as np
import pytest

from sightline.numerics.positive_inverse import positive_inverse


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 5, 300, 700])
@pytest.mark.parametrize("diagonal", [False, True])
def test_it_is_the_inverse(size: int, diagonal: bool) -> None:
    generator = np.random.default_rng(size)
    matrix = np.diag(generator.uniform(0.5, 2.0, size))
    if not diagonal:
        rows = generator.standard_normal((size, size))
        matrix += rows @ rows.T
    found = positive_inverse(matrix.copy())
    assert found is not None
    assert np.allclose(found, np.linalg.inv(matrix), rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("diagonal", [[1.0, -1.0], [1.0, 0.0]])
def test_a_diagonal_that_is_not_positive_has_none(diagonal: list[float]) -> None:
    assert positive_inverse(np.diag(diagonal)) is None
