r"""The diagonal of :math:`A_L^{-1}` for every release count, from factorisations of the rows.

:math:`A_L = G_L^\top G_L` (``eq:lever2_A_def``) is never formed: :math:`G_L = Q R` gives
:math:`A_L^{-1} = R^{-1} R^{-\top}`, whose diagonal is the squared lengths of the rows of :math:`R^{-1}`.

In a nested family each release adds one row. There are two algorithms:

- many groups: plane rotations add the new row to the triangles of all groups together;
- one group: rows are added in blocks. With :math:`R` the triangle before the block and :math:`W = R^{-\top}
  B^\top` its new rows, whitened, the Cholesky factor :math:`C` of :math:`1 + W^\top W` is nested, and

  .. math:: A_j^{-1} = A_{\mathrm{end}}^{-1} + \sum_{i > j} y_i y_i^\top, \qquad Y = C^{-1} (R^{-1} W)^\top .

  Counted back from the end of the block, every term is positive, so no digits cancel. A block ends where
  :math:`\|W\|` becomes large, so that the Cholesky factor is well conditioned too.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import get_lapack_funcs, qr, solve_triangular

from sightline.arrays import FloatArray, IndexArray

_BLOCK = 48  # the most rows that are added at once
_HEAVY = 16.0  # ‖W‖² at which a block ends: rounding errors grow at most by about this factor


def triangles(rows: FloatArray) -> FloatArray:
    """The triangular factors of many row matrices ``(L, m, B)``, batch last: ``(m, m, B)``."""
    R = np.zeros((rows.shape[1], *rows.shape[1:]))
    for row in rows:
        rotate_in(R, row.copy())
    return R


def rotate_in(R: FloatArray, row: FloatArray) -> None:
    """Add one row ``(m, B)`` to each of the triangles ``(m, m, B)`` in place. Overwrites the row."""
    for j in range(R.shape[0]):
        length = np.sqrt(R[j, j] ** 2 + row[j] ** 2)
        if length.all():
            cosine, sine = R[j, j] / length, row[j] / length
        else:  # in some groups there is nothing to rotate
            empty = length == 0
            length[empty] = 1.0
            cosine, sine = np.where(empty, 1.0, R[j, j] / length), np.where(empty, 0.0, row[j] / length)
        turned = cosine * R[j, j:] + sine * row[j:]
        row[j:] = cosine * row[j:] - sine * R[j, j:]
        R[j, j:] = turned


def inverse_diagonals(R: FloatArray) -> FloatArray:
    """The diagonals ``(m, B)`` of the inverse of RᵀR for triangles ``(m, m, B)``; infinite where singular."""
    m = R.shape[0]
    X = np.zeros_like(R)
    diagonal = np.empty(R.shape[1:])
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for i in reversed(range(m)):
            X[i, i] = 1.0 / R[i, i]
            for k in range(i + 1, m):
                X[i, k:] -= R[i, k] * X[k, k:]
            X[i, i + 1 :] /= R[i, i]
            diagonal[i] = np.sum(X[i, i:] ** 2, axis=0)
    if not np.isfinite(diagonal).all():
        diagonal[np.isnan(diagonal)] = np.inf
    return diagonal


def nested_diagonals_of_many(rows: FloatArray, counts: IndexArray) -> FloatArray:
    """For rows ``(L, m, B)`` of a nested family: the diagonals at the counts, ``(len(counts), m, B)``."""
    _, m, B = rows.shape
    wanted = {int(count): where for where, count in enumerate(counts)}
    diagonals = np.full((len(counts), m, B), np.inf)
    R = np.zeros((m, m, B))
    for used, row in enumerate(rows, start=1):
        rotate_in(R, row.copy())
        if used in wanted and used >= m:
            diagonals[wanted[used]] = inverse_diagonals(R)
    return diagonals


def diagonal_of_one(rows: FloatArray) -> FloatArray:
    """For one row matrix ``(L, m)``, ``L >= m``: the diagonal of the inverse, ``(m,)``."""
    lengths = _column_lengths(rows)
    triangle = _triangle(rows / lengths)
    diagonal: FloatArray = np.sum(_inverse(triangle) ** 2, axis=1) / lengths**2
    return diagonal


def nested_diagonals_of_one(rows: FloatArray, counts: IndexArray) -> FloatArray:
    """For rows ``(L, m)`` of a nested family: the diagonals at the counts, ``(len(counts), m)``."""
    L, m = rows.shape
    diagonals = np.full((L + 1, m), np.inf)
    start = max(m, int(counts[0]))
    if start > L:
        return diagonals[counts]
    lengths = _column_lengths(rows)
    scaled = np.asfortranarray(rows / lengths)
    triangle = _triangle(scaled[:start])
    diagonals[start] = np.sum(_inverse(triangle) ** 2, axis=1)
    (join,) = get_lapack_funcs(("tpqrt",), (triangle,))
    done = start
    while done < L:
        block = scaled[done : done + _BLOCK]
        extra = np.zeros((1, m))
        if np.all(np.diagonal(triangle) != 0):
            W = solve_triangular(triangle, block.T, trans="T", check_finite=False)
            heavy = np.cumsum(np.sum(W**2, axis=0))
            light = int(np.searchsorted(heavy, _HEAVY))
            block = block[: max(1, light)]
            if light > 1:
                extra = _decreases(triangle, W[:, :light])
        else:
            block = block[:1]
        triangle, _, _, _ = join(0, min(m, 32), triangle, np.asfortranarray(block))
        end = np.sum(_inverse(triangle) ** 2, axis=1)
        # Row i is the decrease due to release i of the block: counts before it still include that amount.
        back = np.cumsum(extra[:0:-1], axis=0)[::-1] if len(block) > 1 else np.zeros((0, m))
        diagonals[done + 1 : done + len(block)] = end + back
        done += len(block)
        diagonals[done] = end
    return diagonals[counts] / lengths**2


def _decreases(triangle: FloatArray, W: FloatArray) -> FloatArray:
    """Squared rows of Y: the decrease of the diagonal of the inverse by each row of a block."""
    C = np.linalg.cholesky(np.eye(W.shape[1]) + W.T @ W)
    U = solve_triangular(triangle, W, check_finite=False)
    Y: FloatArray = solve_triangular(C, U.T, lower=True, check_finite=False)
    return Y**2


def _triangle(rows: FloatArray) -> FloatArray:
    (triangle,) = qr(rows, mode="r", check_finite=False)
    return np.asfortranarray(triangle[: rows.shape[1]])


def _inverse(triangle: FloatArray) -> FloatArray:
    (invert,) = get_lapack_funcs(("trtri",), (triangle,))
    inverse, singular = invert(triangle)
    return np.full_like(triangle, np.inf) if singular > 0 else np.triu(inverse)


def _column_lengths(rows: FloatArray) -> FloatArray:
    lengths: FloatArray = np.linalg.norm(rows, axis=0)
    return np.where(lengths > 0, lengths, 1.0)
