r"""Reduced coordinates: a factor of :math:`M = A A^\top` with as many columns as the design has directions.

All that the releases see of the records is :math:`z = Q x` with orthonormal rows :math:`Q`, because
:math:`A = F Q`. Records enter only through :math:`\zeta_j`, the column of :math:`Q`: it solves
:math:`F \zeta_j = a_j`, and a few rows of :math:`F` are enough for that.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import get_lapack_funcs, qr, solve_triangular

from sightline.arrays import FloatArray, IndexArray
from sightline.numerics.decision import Evidence, Rank
from sightline.numerics.rank import missing, present, smallest_singular

_UNIT = float(np.finfo(np.float64).eps)
_ROUNDINGS, _STEPS = 8, 20


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Root:
    """F with ``F Fᵀ = A Aᵀ``, and how to solve with it."""

    factor: FloatArray  # F: lines × rank
    pivots: IndexArray  # rows of F that are independent
    inverse: FloatArray  # of those rows
    relative_error: float  # of the coordinates, first order: an estimate
    certain_error: float  # never below it

    @property
    def rank(self) -> int:
        return int(self.factor.shape[1])

    def coordinates(self) -> FloatArray:
        r"""The matrix that takes a column :math:`a_j` to its coordinates :math:`\zeta_j`: rank × lines."""
        full = np.zeros((self.rank, self.factor.shape[0]))
        full[:, self.pivots] = self.inverse
        return full


def root_of_products(products: FloatArray, rank: int) -> Root:
    """From exact products of rows and their exact rank, by pivoted Cholesky on rows of equal length."""
    diagonal = np.diagonal(products)
    scale = np.where(diagonal > 0, 1 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0)), 0.0)
    pstrf = get_lapack_funcs("pstrf", (products,))
    factored, order, found, _ = pstrf(products * np.outer(scale, scale), tol=0.0, lower=1)
    order = order.astype(np.intp) - 1
    if found < rank:  # the last directions are below rounding
        return _root(np.tril(factored)[:, :found], order, scale, errors=(np.inf, np.inf))
    return _root(np.tril(factored)[:, :rank], order, scale, errors=None)


def root_of_rows(triangle: FloatArray, scale: FloatArray, rank: int | None) -> tuple[Root, Rank]:
    """From R of the scaled rows, without products of entries; the rank by gap unless it is known."""
    lines = len(scale)
    R, order = qr(triangle, mode="r", pivoting=True, check_finite=False)
    squares = np.sum(R**2, axis=1)
    largest = float(np.sqrt(np.sum(squares))) or 1.0
    tails = np.sqrt(np.append(np.cumsum(squares[::-1])[::-1], 0.0)) / largest
    count = int(np.argmax(tails <= missing(lines))) if rank is None else rank
    kept = smallest_singular(R[:count, :count]) / largest
    evidence = Evidence.GAP if kept > present(lines) else Evidence.NONE
    decision = Rank(rank=count, evidence=evidence, smallest_kept=kept, largest_dropped=float(tails[count]))
    error = lines * _UNIT / kept if kept > 0 else np.inf
    root = _root(np.ascontiguousarray(R[:count].T), order.astype(np.intp), scale, errors=(error, error))
    return root, decision


def _root(
    lower: FloatArray, order: IndexArray, scale: FloatArray, *, errors: tuple[float, float] | None
) -> Root:
    rank = lower.shape[1]
    pivots = order[:rank]
    corner = lower[:rank]
    inverse: FloatArray = solve_triangular(corner, np.eye(rank), lower=True, check_finite=False)
    factor = np.zeros_like(lower)
    factor[order] = lower
    with np.errstate(divide="ignore"):
        factor = np.where(scale[:, None] > 0, factor / np.where(scale > 0, scale, 1.0)[:, None], 0.0)
    if errors is None:
        # Products square the condition number. The 2-norm is below the mean of the 1- and the ∞-norm.
        near = _ROUNDINGS * (_norm(corner) * _norm(inverse)) ** 2
        far = np.prod([np.linalg.norm(entry, kind) for entry in (corner, inverse) for kind in (1, np.inf)])
        errors = (near * _UNIT, float(far) * _UNIT) if rank else (0.0, 0.0)
    return Root(
        factor=factor,
        pivots=pivots,
        inverse=inverse * scale[pivots][None, :],
        relative_error=errors[0],
        certain_error=errors[1],
    )


def _norm(matrix: FloatArray) -> float:
    """The 2-norm, by power iteration: from below, and close."""
    vector: FloatArray = np.asarray(np.random.default_rng(0).standard_normal(matrix.shape[1]))
    for _ in range(_STEPS):
        vector = matrix.T @ (matrix @ (vector / np.linalg.norm(vector)))
    return float(np.sqrt(np.linalg.norm(vector)))
