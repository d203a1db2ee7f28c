"""Risks and recipes of a few records by least squares: QR factorisations of whitened columns."""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import qr, solve_triangular

from sightline.arrays import FloatArray, IndexArray
from sightline.numerics.residuals import gamma, orthonormality_error


def variances(
    columns: FloatArray, precision: float, *, targets: int, errors: FloatArray | float = 0.0
) -> tuple[FloatArray, float]:
    r"""Diagonal of :math:`(C^\top C + cI)^{-1}` for the first ``targets`` columns of whitened C, and its
    error.

    ``errors`` bounds the relative error of each column. The second result bounds the relative error of the
    square roots of the variances; it is infinite where nothing can be said. Why it is a bound: with any
    inverse factor X, :math:`|Cz| = |Wy|` for :math:`W = CX` and :math:`z = Xy`, so that every length
    :math:`|Cz|` is :math:`|X^{-1}z|` to a factor between :math:`\sqrt{1 \pm \|W^\top W - I\|}`. An error E
    of the columns changes it by at most :math:`\|EX\|\,|y|`. A variance is :math:`1/\min |Cz|^2` over z with
    :math:`z_j = 1`, and over :math:`|X^{-1}z|` that is the squared length of a row of X.
    """
    found = inverse_factor(columns, precision)
    if found is None:
        return np.zeros(targets), math.inf
    X, deviation = found
    lengths = np.linalg.norm(X, axis=1)
    each = np.zeros(columns.shape[1])
    each[:] = errors
    moved = float(np.sum(each * np.linalg.norm(columns, axis=0) * lengths)) * (1 + gamma(len(columns)))
    eta = deviation + moved + gamma(len(X))
    return lengths[:targets] ** 2, eta / (1 - 2 * eta) if eta < 1 / 4 else math.inf


def inverse_factor(columns: FloatArray, precision: float) -> tuple[FloatArray, float] | None:
    r"""X with :math:`XX^\top = (C^\top C + cI)^{-1}`, and a bound on the relative error of every length
    :math:`|X^\top b|`; ``None`` for columns that depend on each other, to rounding.

    The error is that of :math:`W = [C; \sqrt c I]\,X`, whose columns should be orthonormal.
    """
    R, order = factorise(columns, precision)
    width = len(R)
    if not np.all(np.isfinite(R)) or np.any(np.diagonal(R) == 0):
        return None
    X = np.empty((width, width))
    X[order] = solve_triangular(R, np.eye(width), check_finite=False)
    if not np.all(np.isfinite(X)):
        return None
    W = np.concatenate([columns @ X, math.sqrt(precision) * X]) if precision > 0 else columns @ X
    lengths = np.linalg.norm(X, axis=1)
    # |C||X| is a sum of outer products of columns of C and rows of X.
    size = float(np.sum(np.linalg.norm(columns, axis=0) * lengths))
    size += math.sqrt(precision) * float(np.linalg.norm(lengths))
    rounding, deviation = gamma(width) * size, orthonormality_error(W)
    deviation += rounding * (2 * math.sqrt(1 + deviation) + rounding)
    return X, deviation if math.isfinite(deviation) else math.inf


def best_recipes(columns: FloatArray, *, targets: int) -> FloatArray:
    """Weights on whitened answers of the best unbiased attack on each target, one a row."""
    row_count, width = columns.shape
    sizes = np.max(np.abs(columns), axis=1, initial=0.0)
    rows = np.argsort(-sizes, kind="stable")
    Q, R, order = qr(columns[rows], mode="economic", pivoting=True, check_finite=False)
    if len(R) < width or np.any(np.diagonal(R) == 0):  # dependent to rounding: the best that doubles can do
        return np.asarray(np.linalg.pinv(columns)[:targets])
    place = np.empty(width, dtype=np.intp)
    place[order] = np.arange(width)
    wanted = np.zeros((width, targets))
    wanted[place[:targets], np.arange(targets)] = 1.0
    weights = np.empty((row_count, targets))
    weights[rows] = Q @ solve_triangular(R, wanted, trans="T", check_finite=False)
    return weights.T


def factorise(columns: FloatArray, precision: float) -> tuple[FloatArray, IndexArray]:
    r"""R and the order of columns with :math:`R^\top R = (C^\top C + cI)` in that order.

    With rows sorted by size and columns pivoted the factorisation is backward stable row by row: a release
    with very little noise does not cost the digits of one with a lot.
    """
    width = columns.shape[1]
    ridge = np.sqrt(precision) * np.eye(width) if precision > 0 else np.zeros((0, width))
    stacked = np.concatenate([columns, ridge])
    sizes = np.max(np.abs(stacked), axis=1, initial=0.0)
    ordered = stacked[np.argsort(-sizes, kind="stable")]
    R, order = qr(ordered, mode="r", pivoting=True, check_finite=False)
    square = np.zeros((width, width))
    square[: min(len(R), width)] = R[:width]
    return square, order.astype(np.intp)
