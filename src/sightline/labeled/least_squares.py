"""Risks and recipes of a few records by least squares: QR factorisations of whitened columns."""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import qr, solve_triangular

from sightline.arrays import FloatArray, IndexArray

_UNIT = float(np.finfo(np.float64).eps)


def variances(
    columns: FloatArray, precision: float, *, targets: int, errors: FloatArray | float = 0.0
) -> tuple[FloatArray, float]:
    r"""Diagonal of :math:`(C^\top C + cI)^{-1}` for the first ``targets`` columns of whitened C, and its
    error.

    ``errors`` bounds the relative error of each column. The second result bounds the relative error of the
    square roots of the variances; it is infinite where nothing can be said. Why it is a bound: QR is exact
    for some :math:`C + E` with small columns of E, and :math:`C + E = (I + EC^+)C`, so that every length
    :math:`|Cz|` changes by a factor between :math:`1 \pm \eta` with :math:`\eta = \|EC^+\|`. A variance is
    :math:`1/\min |Cz|^2` over z with :math:`z_j = 1`.
    """
    R, order = factorise(columns, precision)
    width = len(R)
    if not np.all(np.isfinite(R)) or np.any(np.diagonal(R) == 0):
        return np.zeros(targets), math.inf
    inverse = solve_triangular(R, np.eye(width), trans="T", check_finite=False)
    squares = np.sum(inverse**2, axis=0)
    each = np.zeros(width)
    each[: columns.shape[1]] = errors
    roundings = 8 * (len(columns) + 3 * width) * _UNIT
    eta = math.sqrt(float(np.sum((each + roundings) ** 2))) * math.sqrt(
        float(np.sum(np.sum(R**2, axis=0) * squares))
    )
    lengths = np.empty(width)
    lengths[order] = squares
    return lengths[:targets], eta / (1 - 2 * eta) if eta < 1 / 4 else math.inf


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


def factorisation_error(R: FloatArray, row_count: int) -> float:
    r"""Bound on the relative error of :math:`|R^{-\top} b|` for every b; infinite if there is none."""
    width = len(R)
    if width == 0:
        return 0.0
    if not np.all(np.isfinite(R)) or np.any(np.diagonal(R) == 0):
        return math.inf
    inverse = solve_triangular(R, np.eye(width), trans="T", check_finite=False)
    spread = math.sqrt(float(np.sum(np.sum(R**2, axis=0) * np.sum(inverse**2, axis=0))))
    eta = 8 * (row_count + 3 * width) * _UNIT * math.sqrt(width) * spread
    return eta / (1 - 2 * eta) if eta < 1 / 4 else math.inf
