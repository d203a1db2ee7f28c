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
    relative_error: float  # of the coordinates, first order: an estimate
    certain_error: float  # never below it

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
    factored, order, found, _ = pstrf(gram * np.outer(scale, scale), tol=0.0, lower=1)
    order = order.astype(np.intp) - 1
    if found < rank:  # the last directions are below rounding
        return _factor(np.tril(factored)[:, :found], order, scale, errors=(np.inf, np.inf))
    return _factor(np.tril(factored)[:, :rank], order, scale, errors=None)


def factor_of_rows(triangle: FloatArray, scale: FloatArray, rank: int | None) -> tuple[GramFactor, Rank]:
    """From R of a QR factorisation of the scaled rows; the rank by gap unless it is given."""
    count_of_rows = len(scale)
    R, order = qr(triangle, mode="r", pivoting=True, check_finite=False)
    squares = np.sum(R**2, axis=1)
    largest = float(np.sqrt(np.sum(squares))) or 1.0
    tails = np.sqrt(np.append(np.cumsum(squares[::-1])[::-1], 0.0)) / largest
    count = int(np.argmax(tails <= missing(count_of_rows))) if rank is None else rank
    kept = smallest_singular(R[:count, :count]) / largest
    evidence = Evidence.GAP if kept > present(count_of_rows) else Evidence.NONE
    decision = Rank(rank=count, evidence=evidence, smallest_kept=kept, largest_dropped=float(tails[count]))
    error = count_of_rows * _UNIT / kept if kept > 0 else np.inf
    factor = _factor(np.ascontiguousarray(R[:count].T), order.astype(np.intp), scale, errors=(error, error))
    return factor, decision


def _factor(
    lower: FloatArray, order: IndexArray, scale: FloatArray, *, errors: tuple[float, float] | None
) -> GramFactor:
    rank = lower.shape[1]
    pivots = order[:rank]
    corner = lower[:rank]
    inverse: FloatArray = solve_triangular(corner, np.eye(rank), lower=True, check_finite=False)
    factor = np.zeros_like(lower)
    factor[order] = lower
    with np.errstate(divide="ignore"):
        factor = np.where(scale[:, None] > 0, factor / np.where(scale > 0, scale, 1.0)[:, None], 0.0)
    if errors is None:
        # A Gram matrix squares the condition number. The 2-norm is at most the geometric mean of the 1- and
        # ∞-norms.
        near = _ROUNDINGS * (_norm(corner) * _norm(inverse)) ** 2
        far = np.prod([np.linalg.norm(entry, kind) for entry in (corner, inverse) for kind in (1, np.inf)])
        errors = (near * _UNIT, float(far) * _UNIT) if rank else (0.0, 0.0)
    return GramFactor(
        factor=factor,
        pivots=pivots,
        inverse=inverse * scale[pivots][None, :],
        relative_error=errors[0],
        certain_error=errors[1],
    )


def _norm(matrix: FloatArray) -> float:
    """The 2-norm by power iteration: slightly too small."""
    vector: FloatArray = np.asarray(np.random.default_rng(0).standard_normal(matrix.shape[1]))
    for _ in range(_STEPS):
        vector = matrix.T @ (matrix @ (vector / np.linalg.norm(vector)))
    return float(np.sqrt(np.linalg.norm(vector)))
