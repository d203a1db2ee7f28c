"""Rows that are proved independent: against exact ranks, eigenvalues and solutions in fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from sightline.numerics import exact_library as flint
from sightline.numerics.independent_rows import independent_rows


def rows_of(generator: np.random.Generator, count: int, records: int) -> np.ndarray:
    rows = (generator.random((count, records)) < 0.4).astype(np.float64)
    rows[np.arange(count), np.arange(count) % records] = 1.0  # none of them is zero
    return rows


def exact_rank(products: np.ndarray) -> int:
    return int(flint.fmpz_mat(products.astype(np.int64).tolist()).rank())


def test_a_proof_is_given_exactly_to_independent_rows() -> None:
    generator, independent = np.random.default_rng(0), 0
    for trial in range(200):
        rows = rows_of(generator, int(generator.integers(1, 9)), int(generator.integers(2, 14)))
        if trial % 3 == 0 and len(rows) > 2:
            rows[-1] = rows[0] + rows[1] * (rows[0] == 0)  # nearly or really dependent
        products = rows @ rows.T
        proved = independent_rows(products) is not None
        assert proved == (exact_rank(products) == len(rows))
        independent += proved
    assert 50 < independent < 190


@pytest.mark.parametrize("count", [5, 127, 128, 129, 300])
def test_the_least_eigenvalue_is_not_overstated(count: int) -> None:
    rows = rows_of(np.random.default_rng(count), count, 2 * count)
    found = independent_rows(rows @ rows.T)
    assert found is not None
    scaled = found.products * np.outer(found.scale, found.scale)
    assert 0 < found.least_eigenvalue <= np.linalg.eigvalsh(scaled)[0]


def test_rows_that_differ_in_one_record_of_many_have_no_proof() -> None:
    """Their least eigenvalue, about 1e-8, is below what is proved: nothing is claimed."""
    size = 10**8
    assert independent_rows(np.array([[size, size - 1.0], [size - 1.0, size]])) is None


def test_solutions_err_by_no_more_than_is_said() -> None:
    generator, tight = np.random.default_rng(1), 0
    for _ in range(40):
        rows = rows_of(generator, 6, 20)
        products = rows @ rows.T
        proof = independent_rows(products)
        if proof is None:
            continue
        drawn = generator.integers(-(2**20), 2**20, size=20).astype(np.float64)
        images = rows @ drawn
        solution, bound = proof.solve(images)
        exact = flint.fmpq_mat(flint.fmpz_mat(products.astype(np.int64).tolist())).solve(
            flint.fmpq_mat(flint.fmpz_mat(images.astype(np.int64)[:, None].tolist()))
        )
        true = [Fraction(int(exact[i, 0].p), int(exact[i, 0].q)) for i in range(6)]
        for column in rows.T:
            off = sum(
                (
                    int(weight) * (Fraction(float(have)) - want)
                    for weight, have, want in zip(column, solution, true, strict=True)
                ),
                Fraction(0),
            )
            assert abs(off) <= bound
        tight += bound < 1e-3
    assert tight > 30
