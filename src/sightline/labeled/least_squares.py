"""Risks and recipes of a few records by least squares: QR factorisations of whitened columns."""

from __future__ import annotations

import numpy as np
from scipy.linalg import qr, solve_triangular

from sightline.arrays import FloatArray, IndexArray


def variances(columns: FloatArray, precision: float, *, targets: int) -> FloatArray:
    r"""Diagonal of :math:`(C^\top C + cI)^{-1}` for the first ``targets`` columns of whitened C."""
    R, order = factorise(columns, precision)
    inverse = solve_triangular(R, np.eye(len(R)), check_finite=False)
    lengths = np.empty(len(R))
    lengths[order] = np.sum(inverse**2, axis=1)
    return lengths[:targets]


def best_recipes(columns: FloatArray, *, targets: int) -> FloatArray:
    """Weights on whitened answers of the best unbiased attack on each target, one a row."""
    row_count, width = columns.shape
    sizes = np.max(np.abs(columns), axis=1, initial=0.0)
    rows = np.argsort(-sizes, kind="stable")
    Q, R, order = qr(columns[rows], mode="economic", pivoting=True, check_finite=False)
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
    return R[:width], order.astype(np.intp)
