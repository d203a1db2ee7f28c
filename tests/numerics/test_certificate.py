"""Exact rational rows against elimination over the fractions; doubled arithmetic against fractions."""

from __future__ import annotations

from fractions import Fraction

import flint
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sightline as sl
from sightline.numerics import integers
from sightline.numerics.integers import UnseenDirection, certificate, reduced_rows
from sightline.numerics.residuals import misfit, two_product, two_sum


def echelon_form(rows: np.ndarray) -> list[list[Fraction]]:
    """The non-zero rows of the reduced row echelon form, by FLINT's elimination over the rationals."""
    table = flint.fmpq_mat([[flint.fmpq(int(entry)) for entry in row] for row in rows])
    reduced, rank = table.rref()
    return [[Fraction(int(e.p), int(e.q)) for e in row] for row in reduced.table()[: int(rank)]]


@pytest.mark.slow
@pytest.mark.parametrize("largest", [1, 1000, 2**40])
@pytest.mark.parametrize("shape", [(40, 41), (12, 30), (30, 12)])
def test_reduced_rows_are_those_of_elimination_over_the_rationals(shape, largest):
    generator = np.random.default_rng(shape[0] + largest % 97)
    rows = generator.integers(0, largest, size=shape, endpoint=True)
    rows[-1] = rows[0] - 2 * rows[1]
    truth = echelon_form(rows)
    found = reduced_rows(rows, range(len(truth)))
    assert [list(row.coefficients) for row in found] == truth
    for row in found[:3]:
        combined = [sum(w * int(a) for w, a in zip(row.weights, column, strict=True)) for column in rows.T]
        assert combined == list(row.coefficients)


@pytest.mark.parametrize("largest", [1, 1000])
@pytest.mark.parametrize("seed", range(8))
def test_directions_of_a_partly_hidden_target_are_in_the_row_space(seed, largest):
    rows = np.random.default_rng(seed).integers(0, largest, size=(40, 41), endpoint=True)
    geometry = sl.geometry.Geometry(jacobian=rows.astype(float), noise=sl.GaussianNoise(stddevs=np.ones(40)))
    (direction,) = geometry.profile(target=[0, 1]).directions
    coefficients = [Fraction(c) for c in direction.coefficients]
    # The truth: the one row of the echelon form that is left when the other records come first.
    last = echelon_form(np.hstack([rows[:, 2:], rows[:, :2]]))[-1]
    assert not any(last[:-2])
    assert coefficients[0] * last[-1] == coefficients[1] * last[-2]
    assert any(coefficients)
    whole = np.zeros(41, dtype=object)
    whole[:2] = [c * coefficients[0].denominator * coefficients[1].denominator for c in coefficients]
    assert not isinstance(certificate(rows, [int(c) for c in whole]), UnseenDirection)


def test_a_prime_that_loses_rank_is_found_out_and_drawn_again(monkeypatch):
    drawn = []

    def first_a_bad_one(rows: np.ndarray, *, draw: int = 0) -> int:
        drawn.append(draw)
        return 3 if draw == 0 else honest(rows, draw=draw)

    honest = integers.prime_of
    monkeypatch.setattr(integers, "prime_of", first_a_bad_one)
    # Modulo 3 the first column vanishes, and the second would be the first pivot.
    (row,) = reduced_rows(np.array([[3, 1]]), [0])
    assert row.coefficients == (1, Fraction(1, 3))
    assert max(drawn) == 1
    assert integers.certificate(np.array([[3, 1]]), [3, 1]).weights == (1,)


ordinary = st.floats(-1e100, 1e100).filter(lambda x: x == 0 or abs(x) > 1e-100)


@given(ordinary, ordinary)
@settings(deadline=None)
def test_a_sum_and_a_product_come_with_their_exact_errors(a, b):
    left, right = np.array([a]), np.array([b])
    for found, exact in (
        (two_sum(left, right), Fraction(a) + Fraction(b)),
        (two_product(left, right), Fraction(a) * Fraction(b)),
    ):
        assert Fraction(float(found[0][0])) + Fraction(float(found[1][0])) == exact


def test_a_misfit_keeps_the_digits_that_cancel():
    generator = np.random.default_rng(3)
    matrix, coefficients = generator.standard_normal((9, 6)), generator.standard_normal((6, 2))
    target = matrix @ coefficients
    found = misfit(target, matrix, coefficients)
    for i in range(9):
        for j in range(2):
            products = (Fraction(matrix[i, k]) * Fraction(coefficients[k, j]) for k in range(6))
            exact = float(Fraction(target[i, j]) - sum(products))
            assert found[i, j] == pytest.approx(exact, rel=1e-12, abs=1e-30)
