r"""A factor F of the Gram matrix :math:`M = A A^\top = F F^\top`, with as many columns as M has rank.

Then :math:`A = F Q` with orthonormal rows :math:`Q`: the releases see the records only through
:math:`z = Q x`. Record j enters through its reduced coordinates :math:`\zeta_j`, the j-th column of Q. They
solve :math:`F \zeta_j = a_j`, for which as many rows of F as its rank are enough.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import get_lapack_funcs, qr, solve_triangular

from sightline.arrays import FloatArray, IndexArray
from sightline.numerics.decision import Evidence, Rank
from sightline.numerics.rank import missing, present, smallest_singular
from sightline.numerics.residuals import gamma

_UNIT = float(np.finfo(np.float64).eps)
_ROUNDINGS, _STEPS = 8, 20
BLOCK = 4096  # records whose columns are dense at a time
_CHUNK = 256  # of them whose products are summed at a time


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GramFactor:
    """F with ``F Fᵀ = A Aᵀ``, and how to solve with it."""

    factor: FloatArray  # F: rows × rank
    pivots: IndexArray  # rows of F that are independent
    inverse: FloatArray  # of those rows
    estimated_error: float  # of the coordinates: an estimate, by which a method is chosen
    certain_error: float  # a bound on the relative error of forms of the inverse: below 1 it proves full rank
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

    def checked(self, blocks: Iterable[tuple[FloatArray, FloatArray]], scale: FloatArray) -> GramFactor:
        r"""The same factor held against the rows, with bounds on its errors.

        ``blocks`` are columns and how many records each stands for; ``scale`` makes the rows unit length.
        With :math:`Q = F_P^{-1} A_P` as it comes out, :math:`AQ^\top` is the factor, and both are corrected
        by :math:`QQ^\top - I`.
        """
        rank, row_count = self.rank, len(scale)
        products, factor, chunks = np.zeros((rank, rank)), np.zeros((row_count, rank)), 0
        for columns, counts in blocks:
            # Short sums, then sums of these: their rounding is that of a chunk.
            part, own = np.zeros_like(products), np.zeros_like(factor)
            for start in range(0, columns.shape[1], _CHUNK):
                a = columns[:, start : start + _CHUNK]
                Q = self.inverse @ a[self.pivots]
                counted = Q * counts[start : start + _CHUNK]
                part += counted @ Q.T
                own += (a * scale[:, None]) @ counted.T
            products += part
            factor += own
            chunks += 1
        # What Q misses is known: half of it is taken off (Newton's step), and its square is left.
        off = (products - np.eye(rank)) / 2
        if not float(np.linalg.norm(off)) < 1 / 8:
            return self
        inverse, factor = self.inverse - off @ self.inverse, factor - factor @ off
        norm = float(np.linalg.norm(inverse / np.where(scale > 0, scale, 1.0)[self.pivots]))
        terms = gamma(_CHUNK + BLOCK // _CHUNK + chunks + 4)
        moved = gamma(rank + 4) * norm * math.sqrt(rank)  # what rounding does to Q
        apart = 4 * float(np.linalg.norm(off)) ** 2 + 1.2 * terms * rank + moved * (2.2 + moved)
        if not apart < 1 / 4:
            apart = math.inf
        return replace(
            self,
            factor=_divided(factor, scale),
            inverse=inverse,
            coordinate_error=apart + 2 * gamma(row_count) * rank * norm,
            column_errors=np.full(rank, apart + moved + 1.2 * terms * math.sqrt(rank)),
        )


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
        # A Gram matrix squares the condition number.
        estimate = _ROUNDINGS * (_norm(corner) * _norm(inverse)) ** 2 * _UNIT if rank else 0.0
        # Cholesky in any order (Higham, theorem 10.3): F̂F̂ᵀ = M + Δ with |Δ| ≤ γ |F̂||F̂ᵀ|, whose rows have
        # length 1. So M⁻¹ is off by ‖F̂⁻¹ΔF̂⁻ᵀ‖, and substitution leaves |F̂X − I| ≤ γ|F̂||X|.
        certain = 4 * gamma(kept + 4) * max(kept, 1) * norm**2
        coordinates = certain + 2 * gamma(len(gram)) * kept * norm
    return GramFactor(
        factor=_unscaled(lower, order, scale),
        pivots=pivots,
        inverse=inverse * scale[pivots][None, :],
        estimated_error=estimate,
        certain_error=certain,
        coordinate_error=coordinates,
        # Cholesky: F̂ F̂ₚᵀ = M + Δ with |Δ| below k + 1 roundings of 1, so that F̂ is exact but for Δ F̂ₚ⁻ᵀ.
        column_errors=2 * gamma(kept + 4) * np.sqrt(kept) * np.linalg.norm(inverse, axis=1),
    )


def factor_of_rows(triangle: FloatArray, scale: FloatArray, rank: int | None) -> tuple[GramFactor, Rank]:
    """From R of a QR factorisation of the scaled rows; the rank by gap unless it is given.

    Nothing is known of the errors until the factor is held against the rows (:meth:`GramFactor.checked`).
    """
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
    if np.any(np.diagonal(corner) == 0):  # fewer directions than the given rank, to rounding
        inverse = np.zeros((count, count))
    else:
        inverse = solve_triangular(corner, np.eye(count), lower=True, check_finite=False)
    factor = GramFactor(
        factor=_unscaled(lower, order, scale),
        pivots=pivots,
        inverse=inverse * scale[pivots][None, :],
        estimated_error=row_count * _UNIT / kept if kept > 0 else np.inf,
        certain_error=np.inf,
        coordinate_error=np.inf,
        column_errors=np.full(count, np.inf),
    )
    return factor, decision


def _unscaled(lower: FloatArray, order: IndexArray, scale: FloatArray) -> FloatArray:
    """The factor of the rows as they are, in their own order."""
    factor = np.zeros_like(lower)
    factor[order] = lower
    return _divided(factor, scale)


def _divided(factor: FloatArray, scale: FloatArray) -> FloatArray:
    """Rows divided by what made them unit length; rows without records stay zero."""
    return np.where(scale[:, None] > 0, factor / np.where(scale > 0, scale, 1.0)[:, None], 0.0)


def _norm(matrix: FloatArray) -> float:
    """The 2-norm by power iteration: slightly too small."""
    vector: FloatArray = np.asarray(np.random.default_rng(0).standard_normal(matrix.shape[1]))
    for _ in range(_STEPS):
        vector = matrix.T @ (matrix @ (vector / np.linalg.norm(vector)))
    return float(np.sqrt(np.linalg.norm(vector)))
