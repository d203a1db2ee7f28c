"""Sums and products of doubles with their rounding errors: arithmetic in twice the working precision."""

from __future__ import annotations

from sightline.arrays import FloatArray


def two_sum(a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The rounded sum and its rounding error (Knuth): together they are a + b exactly."""
    total = a + b
    shadow = total - a
    return total, (a - (total - shadow)) + (b - shadow)


def two_product(a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The rounded product and its rounding error (Dekker 1971): together they are a · b exactly.

    >>> import numpy as np
    >>> from fractions import Fraction
    >>> product, error = two_product(np.array([0.1]), np.array([0.1]))
    >>> Fraction(product[0]) + Fraction(error[0]) == Fraction(0.1) ** 2
    True
    """
    product = a * b
    a_high, b_high = _upper_half(a), _upper_half(b)
    a_low, b_low = a - a_high, b - b_high
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def misfit(target: FloatArray, matrix: FloatArray, coefficients: FloatArray) -> FloatArray:
    """``target - matrix @ coefficients`` as if in doubled precision (Ogita, Rump & Oishi 2005)."""
    total, lost = target.copy(), 0.0 * target
    for column, weights in zip(matrix.T, coefficients, strict=True):
        product, below = two_product(-column[:, None], weights[None, :])
        total, missed = two_sum(total, product)
        lost += missed + below
    return total + lost


def _upper_half(a: FloatArray) -> FloatArray:
    """The leading 26 bits, so that products of halves are exact (Veltkamp's split)."""
    shifted = a * 134217729.0  # 2**27 + 1
    upper: FloatArray = shifted - (shifted - a)
    return upper
