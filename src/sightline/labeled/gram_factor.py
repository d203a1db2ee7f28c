r"""A factor F of the Gram matrix :math:`M = A A^\top = F F^\top`, with as many columns as M has rank.

Then :math:`A = F Q` with orthonormal rows :math:`Q`: the releases see the records only through
:math:`z = Q x`. Record j enters through its reduced coordinates :math:`\zeta_j`, the j-th column of Q. They
solve :math:`F \zeta_j = a_j`, for which as many rows of F as its rank are enough.
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
class GramFactor:
    """F with ``F Fᵀ = A Aᵀ``, and how to solve with it."""

    factor: FloatArray  # F: rows × rank
    pivots: IndexArray  # rows of F that are independent
    inverse: FloatArray  # of those rows
    estimated_error: float  # of the coordinates: an estimate, by which a method is chosen
    certain_error: float  # a bound on the relative error of the factored matrix
    coordinate_error: float  # a bound on the error of a record's coordinates, which have length 1 at most
    column_errors: FloatArray  # bounds on the errors of F's columns when its rows have unit length

    @property
    def rank(self) -> int:
        return int(self.factor.shape[1])

    def coordinates(self) -> FloatArray:
        r"""The matrix that takes a column :math:`a_j` to its coordinates :math:`\zeta_j`: rank × rows."""
        full = np.zeros((self.rank, self.factor.shape[0]))
        full[:, self.pivots] = self.inverse
        return full


def factor_of_gram(gram: FloatArray, rank: int) -> GramFactor:
    """From an exact Gram matrix and its exact rank: pivoted Cholesky of rows scaled to unit length."""
    diagonal = np.diagonal(gram)
    scale = np.where(diagonal > 0, 1 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0)), 0.0)
    pstrf = get_lapack_funcs("pstrf", (gram,))
    factored, order, count, _ = pstrf(gram * np.outer(scale, scale), tol=0.0, lower=1)
    order = order.astype(np.intp) - 1
    kept = min(count, rank)
    lower = np.tril(factored)[:, :kept]
    pivots, corner = order[:kept], lower[:kept]
    inverse: FloatArray = solve_triangular(corner, np.eye(kept), lower=True, check_finite=False)
    norm = float(np.linalg.norm(inverse))
    if count < rank:  # the last directions are below rounding
        estimate = certain = coordinates = np.inf
    else:
        # A Gram matrix squares the condition number. The 2-norm is at most the geometric mean of the 1- and
        # the ∞-norm.
        estimate = _ROUNDINGS * (_norm(corner) * _norm(inverse)) ** 2 * _UNIT if rank else 0.0
        norms = [np.linalg.norm(entry, kind) for entry in (corner, inverse) for kind in (1, np.inf)]
        certain = float(np.prod(norms)) * _UNIT if rank else 0.0
        coordinates = 8 * (kept + 2) * kept**1.5 * _UNIT * norm**2
    return GramFactor(
        factor=_unscaled(lower, order, scale),
        pivots=pivots,
        inverse=inverse * scale[pivots][None, :],
        estimated_error=estimate,
        certain_error=certain,
        coordinate_error=coordinates,
        # Cholesky: F̂ F̂ₚᵀ = M + Δ with |Δ| below k + 1 roundings of 1, so that F̂ is exact but for Δ F̂ₚ⁻ᵀ.
        column_errors=2 * (kept + 1) * np.sqrt(kept) * _UNIT * np.linalg.norm(inverse, axis=1),
    )


def factor_of_rows(
    triangle: FloatArray, scale: FloatArray, rank: int | None, *, blocks: int = 1
) -> tuple[GramFactor, Rank]:
    """From R of a QR factorisation of the scaled rows in some blocks; the rank by gap unless it is given."""
    row_count = len(scale)
    R, order = qr(triangle, mode="r", pivoting=True, check_finite=False)
    squares = np.sum(R**2, axis=1)
    largest = float(np.sqrt(np.sum(squares))) or 1.0
    tails = np.sqrt(np.append(np.cumsum(squares[::-1])[::-1], 0.0)) / largest
    count = int(np.argmax(tails <= missing(row_count))) if rank is None else rank
    kept = smallest_singular(R[:count, :count]) / largest
    evidence = Evidence.GAP if kept > present(row_count) else Evidence.NONE
    decision = Rank(rank=count, evidence=evidence, smallest_kept=kept, largest_dropped=float(tails[count]))
    order = order.astype(np.intp)
    lower = np.zeros((row_count, count))
    lower[:, : min(count, len(R))] = R[:count].T
    pivots, corner = order[:count], lower[:count]
    roundings = 8 * (row_count + 64 + blocks) * _UNIT
    if np.any(np.diagonal(corner) == 0):  # fewer directions than the given rank, to rounding
        inverse, norm = np.zeros((count, count)), np.inf
    else:
        inverse = solve_triangular(corner, np.eye(count), lower=True, check_finite=False)
        norm = float(np.linalg.norm(inverse))
    error = row_count * _UNIT / kept if kept > 0 else np.inf
    factor = GramFactor(
        factor=_unscaled(lower, order, scale),
        pivots=pivots,
        inverse=inverse * scale[pivots][None, :],
        estimated_error=error,
        certain_error=error,
        coordinate_error=roundings * np.sqrt(count) * norm + 8 * count**1.5 * _UNIT * norm**2,
        column_errors=np.full(count, roundings),
    )
    return factor, decision


def _unscaled(lower: FloatArray, order: IndexArray, scale: FloatArray) -> FloatArray:
    """The factor of the rows as they are, in their own order."""
    factor = np.zeros_like(lower)
    factor[order] = lower
    return np.where(scale[:, None] > 0, factor / np.where(scale > 0, scale, 1.0)[:, None], 0.0)


def _norm(matrix: FloatArray) -> float:
    """The 2-norm by power iteration: slightly too small."""
    vector: FloatArray = np.asarray(np.random.default_rng(0).standard_normal(matrix.shape[1]))
    for _ in range(_STEPS):
        vector = matrix.T @ (matrix @ (vector / np.linalg.norm(vector)))
    return float(np.sqrt(np.linalg.norm(vector)))
