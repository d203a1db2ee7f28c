r"""Bounds on what a factorisation got wrong, from its residual: LAPACK's own error constants are not needed.

A computed factor is taken as it is, and what it should satisfy is checked by products of matrices. Only the
rounding of sums of products enters: a sum of k products errs by at most :math:`\gamma_k = ku/(1 - ku)` times
the sum of their absolute values, in any order of summation (Higham, *Accuracy and Stability of Numerical
Algorithms*, section 3.1).

Where a whole product of matrices would cost too much, the norm of a residual is probed. For a standard normal
vector x, :math:`|Rx| \ge \|R\|\,|g|` with a standard normal number g. So :math:`\|R\| \le 2 \max_k |R x_k|`
unless 48 independent normal numbers are all below one half: a chance of :math:`10^{-20}`.
"""

from __future__ import annotations

import hashlib
import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sightline.arrays import FloatArray, parts
from sightline.numerics.device import Device

UNIT = float(np.finfo(np.float64).eps)
_PROBES, _SHARE = 48, 0.5  # the chance that all are below the share: 0.3829 ** 48
TINY = float(np.finfo(np.float64).tiny)


def gamma(terms: int) -> float:
    """A bound on the relative rounding of a sum of so many products, and of the bound's own evaluation."""
    return 1.01 * (terms + 2) * UNIT


def absolute_product(matrix: Any, block: Any) -> Any:
    """``abs(matrix) @ block``, on the host without a copy of the matrix."""
    if not isinstance(matrix, np.ndarray):
        return abs(matrix) @ block
    if len(matrix) == 0:
        return np.zeros((0, *block.shape[1:]))
    return np.concatenate([np.abs(matrix[own]) @ block for own in parts(len(matrix), each=matrix.shape[1])])


def probes(size: int, seed: FloatArray) -> FloatArray:
    """Standard normal vectors, one a column, drawn by hashing: nobody can choose a matrix to fit them."""
    digest = hashlib.sha256(np.ascontiguousarray(seed).tobytes()).digest()
    drawn: FloatArray = np.random.default_rng(list(digest)).standard_normal((size, _PROBES))
    return drawn


def probed_norm(images: FloatArray, roundings: FloatArray) -> float:
    """A bound on the norm of a matrix from its images of the probes, each of them off by some length."""
    lengths = np.linalg.norm(images, axis=0) + roundings
    return float(np.max(lengths, initial=0.0)) / _SHARE * (1 + gamma(len(images)))


def inverse_error(matrix: FloatArray, inverse: FloatArray) -> float:
    r"""A bound on :math:`\|PY - I\|` for a computed inverse Y of the matrix P.

    Both are symmetric. Then every quadratic form of Y is that of :math:`P^{-1}` to this relative error: P has
    a root, and :math:`P^{1/2} Y P^{1/2} - I` has the eigenvalues of :math:`PY - I`. Below 1 it proves that P
    is not singular.

    >>> M = np.array([[2.0, 1.0], [1.0, 3.0]])
    >>> inverse_error(M, np.linalg.inv(M)) < 1e-13, inverse_error(M, np.eye(2)) > 1
    (True, True)
    """
    return inverse_error_and_spread(matrix, inverse)[0]


def inverse_error_and_spread(matrix: Any, inverse: Any) -> tuple[float, float]:
    r"""The same, and :math:`\||P||Y|\|_\infty`, which it needs. Computed where the matrices lie."""
    size, device = len(matrix), Device.holding(matrix)
    if size == 0:
        return 0.0, 0.0
    x, everyone = probes(size, device.get(inverse.diagonal())), device.put(np.ones((size, 1)))
    solved = inverse @ device.put(x)
    sizes = absolute_product(inverse, everyone)  # row sums of |Y|, then of |P||Y| and of |Y||P|
    back, above, sums = matrix @ solved, absolute_product(matrix, sizes), absolute_product(matrix, everyone)
    across = absolute_product(inverse, sums)
    # The 2-norm of |P||Y| is at most the geometric mean of its 1- and its ∞-norm.
    product = math.sqrt(float(above.max()) * float(across.max()))
    lengths = np.linalg.norm(x, axis=0)
    error = probed_norm(device.get(back) - x, gamma(2 * size + 6) * (1 + product) * lengths)
    return error, float(above.max())


def product_error(columns: FloatArray, factor: FloatArray, *, lengths: FloatArray) -> float:
    r"""A bound on :math:`\|W^\top W - I\|` for :math:`W = CX`, by probing.

    ``lengths`` are at least those of the columns of C, and of what they were computed from.
    """
    count, width = columns.shape
    x = probes(width, np.diagonal(factor))
    with np.errstate(over="ignore", invalid="ignore"):
        images = columns @ (factor @ x)
        back = factor.T @ (columns.T @ images)
        # |C||X| is a sum of outer products of columns of C and rows of X.
        size = float(np.sum(lengths * np.linalg.norm(factor, axis=1)))
        rounding = 2 * gamma(count + 3 * width) * size
        off = probed_norm(back - x, rounding * np.linalg.norm(x, axis=0))
    return off * 1.5 if off < 1 else math.inf


def eigenvalues_at_most(blocks: FloatArray) -> FloatArray:
    r"""At least the largest eigenvalue of each symmetric matrix of a stack, proved by Cholesky.

    :math:`\tau I - S` factorises only if :math:`\tau I - S + \Delta` is positive definite for some
    :math:`|\Delta| \le \gamma_{n+1} |L||L^\top|` (Higham, theorem 10.3), whose norm is at most
    :math:`(n + 1) u` times the trace.

    >>> bool(2 <= eigenvalues_at_most(np.array([[[1.0, 1.0], [1.0, 1.0]]]))[0] <= 2 + 1e-12)
    True
    """
    count, size = blocks.shape[:2]
    if count == 0 or size == 0:
        return np.zeros(count)
    largest = np.linalg.eigvalsh(blocks)[:, -1]
    scale = np.linalg.norm(blocks, axis=(1, 2)) + TINY
    diagonal = np.arange(size)
    room = 8 * size * UNIT
    while True:
        tau = largest + room * scale
        shifted = -blocks
        shifted[:, diagonal, diagonal] += tau[:, None]
        try:
            np.linalg.cholesky(shifted)
        except np.linalg.LinAlgError:
            room *= 16
            continue
        traces = np.sum(np.abs(shifted[:, diagonal, diagonal]), axis=1)
        # Rounding of the diagonal, the factorisation, and the sum.
        return np.asarray(tau + gamma(size + 4) * (traces + scale))


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
