r"""How sharply: risks of best attacks on records, from whitened reduced coordinates.

With :math:`B = \Sigma^{-1/2} F` the attacker sees :math:`B z` in unit noise. Under a Gaussian prior of
precision :math:`c` for each record the risk of the best attack is

.. math:: [(G + cI)^{-1}]_{jj}
    = \frac1c\bigl(1 - \|\zeta_j\|^2\bigr) + \zeta_j^\top (B^\top B + cI)^{-1} \zeta_j ,

one product with each record's column for every :math:`c` at once after :math:`B^\top B = V\Lambda V^\top`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh, qr, solve_triangular

from sightline.arrays import FloatArray, IndexArray
from sightline.labeled.forms import QuadraticForms
from sightline.labeled.prior import CosineSquaredPrior
from sightline.labeled.root import Root

Whiten = Callable[[FloatArray], FloatArray]

_UNIT = float(np.finfo(np.float64).eps)
# Eigenvalues of a Gram matrix are off by their largest times rounding; below this it does not matter.
_MILD = 1e-11

# Order of the quadratic forms: three risks, in the order of the prior's precisions, between two others.
INFORMATION, VAN_TREES, LINEAR, ENTROPIC, LEVERAGE = range(5)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Lens:
    """The forms that read every record's risks off its column, and what the entropic risk is times."""

    forms: QuadraticForms
    entropic_factor: float


def record_lens(root: Root, whiten: Whiten, prior: CosineSquaredPrior, *, linear: FloatArray) -> Lens:
    r"""Each record's information, its risks over v and its leverage, as forms of its column.

    The entropic factor is :math:`\det(I + N B^\top B) / \det(I + v B^\top B)`.
    """
    v, precisions = prior.variance, prior.precisions
    B = whiten(root.factor)
    coordinates = root.coordinates()
    offsets = np.array([0.0, *(1 / (c * v) for c in precisions), 0.0])
    if float(np.linalg.norm(B)) ** 2 * root.rank * _UNIT * v <= _MILD:
        values, vectors = eigh(B.T @ B, check_finite=False)
        spectrum = np.maximum(values, 0.0)
        risks = [-spectrum / (c * (c + spectrum) * v) for c in precisions]
        shrink = np.log1p(prior.entropy_power * spectrum) - np.log1p(v * spectrum)
        forms = QuadraticForms(
            projection=vectors.T @ coordinates,
            weights=np.stack([spectrum, *risks, np.ones(root.rank)]),
            offsets=offsets,
            linear=linear,
        )
        return Lens(forms=forms, entropic_factor=float(np.exp(np.sum(shrink))))
    # Noise over many orders of magnitude: one factorisation for each precision, none through a Gram matrix.
    blocks, logarithms = [B @ coordinates], []
    for c in precisions:
        R, order = _factorise(B, c)
        blocks.append(solve_triangular(R, coordinates[order], trans="T", check_finite=False))
        logarithms.append(float(np.sum(2 * np.log(np.abs(np.diagonal(R))) - np.log(c))))
    blocks.append(coordinates)
    starts = np.cumsum([0, *(len(block) for block in blocks)])
    weights = np.zeros((5, starts[-1]))
    for i in range(5):
        weights[i, starts[i] : starts[i + 1]] = 1.0
    for i, c in zip((VAN_TREES, LINEAR, ENTROPIC), precisions, strict=True):
        weights[i] /= v
        weights[i, starts[LEVERAGE] :] = -1 / (c * v)
    forms = QuadraticForms(projection=np.concatenate(blocks), weights=weights, offsets=offsets, linear=linear)
    return Lens(forms=forms, entropic_factor=float(np.exp(logarithms[2] - logarithms[1])))


def variances(columns: FloatArray, precision: float, *, targets: int) -> FloatArray:
    r"""Diagonal of :math:`(C^\top C + cI)^{-1}` for the first ``targets`` columns of whitened C."""
    R, order = _factorise(columns, precision)
    inverse = solve_triangular(R, np.eye(len(R)), check_finite=False)
    lengths = np.empty(len(R))
    lengths[order] = np.sum(inverse**2, axis=1)
    return lengths[:targets]


def best_recipes(columns: FloatArray, *, targets: int) -> FloatArray:
    """Weights on whitened answers of the best unbiased attack on each target, one a row."""
    lines, width = columns.shape
    sizes = np.max(np.abs(columns), axis=1, initial=0.0)
    rows = np.argsort(-sizes, kind="stable")
    Q, R, order = qr(columns[rows], mode="economic", pivoting=True, check_finite=False)
    place = np.empty(width, dtype=np.intp)
    place[order] = np.arange(width)
    wanted = np.zeros((width, targets))
    wanted[place[:targets], np.arange(targets)] = 1.0
    weights = np.empty((lines, targets))
    weights[rows] = Q @ solve_triangular(R, wanted, trans="T", check_finite=False)
    return weights.T


def _factorise(columns: FloatArray, precision: float) -> tuple[FloatArray, IndexArray]:
    r"""R and the order of columns with :math:`R^\top R = (C^\top C + cI)` in that order.

    Rows sorted by size and columns pivoted: backward stable row by row, so that a release with very little
    noise does not drown one with a lot.
    """
    width = columns.shape[1]
    ridge = np.sqrt(precision) * np.eye(width) if precision > 0 else np.zeros((0, width))
    stacked = np.concatenate([columns, ridge])
    sizes = np.max(np.abs(stacked), axis=1, initial=0.0)
    ordered = stacked[np.argsort(-sizes, kind="stable")]
    R, order = qr(ordered, mode="r", pivoting=True, check_finite=False)
    return R[:width], order.astype(np.intp)
