r"""The inverse of a positive definite matrix, by matrix products.

A Cholesky factorisation with several threads waits for the slowest thread at every step: while another
program uses a core, OpenBLAS takes many times as long for it, but hardly longer for a product. So the
factorisation is written as products, with

.. math:: M = \begin{pmatrix} A & C^\top \\ C & D \end{pmatrix}, \quad
    W = \begin{pmatrix} W_A & 0 \\ -W_S X W_A & W_S \end{pmatrix}, \quad
    X = C W_A^\top, \quad S = D - X X^\top,

where :math:`W M W^\top = I` and :math:`M^{-1} = W^\top W`.
"""

from __future__ import annotations

import numpy as np

from sightline.arrays import FloatArray

# Rows or columns of a triangle that are multiplied at a time; a block of so many is factorised directly.
PANEL = 160


def positive_inverse(matrix: FloatArray) -> FloatArray | None:
    """The inverse; ``None`` if the matrix is not positive definite, to rounding. Overwrites the matrix.

    >>> positive_inverse(np.array([[4.0, 2.0], [2.0, 2.0]])).round(12).tolist()
    [[0.5, -0.5], [-0.5, 1.0]]
    >>> positive_inverse(np.array([[1.0, 2.0], [2.0, 1.0]]))
    """
    diagonal = np.diagonal(matrix)
    if np.count_nonzero(matrix) == len(matrix) and np.all(diagonal > 0):  # rows that share no record
        return np.diag(1 / diagonal)
    try:
        _whiten(matrix)
    except np.linalg.LinAlgError:
        return None
    return _products_of_columns(matrix)


def _whiten(matrix: FloatArray) -> None:
    """Replace M by W."""
    size = len(matrix)
    if size <= PANEL:
        matrix[:] = np.linalg.inv(np.linalg.cholesky(matrix))
        return
    half = size // 2
    A, C, D = matrix[:half, :half], matrix[half:, :half], matrix[half:, half:]
    _whiten(A)
    X = _times_lower(C, A, transposed=True)
    D -= X @ X.T
    _whiten(D)
    np.negative(_lower_times(D, _times_lower(X, A)), out=C)
    matrix[:half, half:] = 0.0


def _times_lower(left: FloatArray, lower: FloatArray, *, transposed: bool = False) -> FloatArray:
    """``left @ lower`` or ``left @ lower.T``, without the zeros above the diagonal of a lower triangle."""
    product = np.empty_like(left)
    for own in _panels(len(lower)):
        if transposed:
            np.matmul(left[:, : own.stop], lower[own, : own.stop].T, out=product[:, own])
        else:
            np.matmul(left[:, own.start :], lower[own.start :, own], out=product[:, own])
    return product


def _lower_times(lower: FloatArray, right: FloatArray) -> FloatArray:
    """``lower @ right``, without the zeros above the diagonal of a lower triangle."""
    product = np.empty_like(right)
    for rows in _panels(len(lower)):
        np.matmul(lower[rows, : rows.stop], right[: rows.stop], out=product[rows])
    return product


def _products_of_columns(lower: FloatArray) -> FloatArray:
    """``lower.T @ lower``, without the zeros above the diagonal of a lower triangle, in its place.

    The rows of a panel are in no product of those that follow.
    """
    for inside in _panels(len(lower)):
        panel = lower[inside.start :, inside]
        square = panel.T @ panel  # symmetric to the last bit
        beside = panel.T @ lower[inside.start :, : inside.start]
        lower[inside, inside], lower[inside, : inside.start], lower[: inside.start, inside] = (
            square,
            beside,
            beside.T,
        )
    return lower


def _panels(size: int) -> list[slice]:
    """Rows or columns of a triangle that are multiplied together: few, so that few zeros are."""
    return [slice(start, min(start + PANEL, size)) for start in range(0, size, PANEL)]
