"""Sums and products of doubles with their rounding errors: arithmetic in twice the working precision."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sightline.arrays import FloatArray


def two_sum(a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The rounded sum and its rounding error (Knuth): together they are a + b exactly."""
    total = a + b
    b_rounded = total - a
    return total, (a - (total - b_rounded)) + (b - b_rounded)


def two_product(a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The rounded product and its rounding error (Dekker 1971): together they are a · b exactly.

    >>> from fractions import Fraction
    >>> product, error = two_product(np.array([0.1]), np.array([0.1]))
    >>> Fraction(product[0]) + Fraction(error[0]) == Fraction(0.1) ** 2
    True
    """
    product = a * b
    a_high, b_high = _upper_half(a), _upper_half(b)
    a_low, b_low = a - a_high, b - b_high
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def root_times(square: ArrayLike, factors: ArrayLike) -> FloatArray:
    r""":math:`\sqrt{s}\,f` for non-negative numbers, rounded up: never too small, exact if possible.

    >>> from fractions import Fraction
    >>> root_times(16.0, [1.0, 0.5]).tolist()
    [4.0, 2.0]
    >>> Fraction(root_times(2.0, 1.0).item()) ** 2 > 2
    True
    """
    s, f = np.asarray(square, dtype=np.float64), np.asarray(factors, dtype=np.float64)
    root = np.sqrt(s)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        product, error = two_product(root, root)
        root = np.where(_not_too_small(product - s + error, product), root, np.nextafter(root, np.inf))
        scaled, error = two_product(root, f)
        return np.where(_not_too_small(-error, scaled), scaled, np.nextafter(scaled, np.inf))


def _not_too_small(surplus: FloatArray, size: FloatArray) -> NDArray[np.bool_]:
    """Whether a rounded value is certainly not too small; at extreme sizes the error terms are not exact."""
    exact = (size == 0) | ((size > 1e-280) & (size < 1e290))
    reached: NDArray[np.bool_] = exact & (surplus >= 0)
    return reached


def misfit(target: FloatArray, matrix: FloatArray, coefficients: FloatArray) -> FloatArray:
    """``target - matrix @ coefficients`` in about twice the precision (Ogita, Rump & Oishi 2005)."""
    total, errors = target.copy(), 0.0 * target
    for column, weights in zip(matrix.T, coefficients, strict=True):
        product, product_error = two_product(-column[:, None], weights[None, :])
        total, sum_error = two_sum(total, product)
        errors += sum_error + product_error
    return total + errors


def _upper_half(a: FloatArray) -> FloatArray:
    """The leading 26 bits, so that products of halves are exact (Veltkamp's split)."""
    shifted = a * 134217729.0  # 2**27 + 1
    upper: FloatArray = shifted - (shifted - a)
    return upper
