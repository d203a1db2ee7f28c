r"""The inverse of a positive definite matrix, by matrix products.

A Cholesky factorisation with several threads waits for the slowest thread at every step: while another
program uses a core, OpenBLAS takes many times as long for it, but hardly longer for a product. So the
factorisation is written as products, with

.. math:: M = \begin{pmatrix} A & C^\top \\ C & D \end{pmatrix}, \quad
    W = \begin{pmatrix} W_A & 0 \\ -W_S X W_A & W_S \end{pmatrix}, \quad
    X = C W_A^\top, \quad S = D - X X^\top,

where :math:`W M W^\top = I` and :math:`M^{-1} = W^\top W`. An accelerator has a Cholesky factorisation
that is as fast as its products, so its arrays go there.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sightline.arrays import FloatArray, namespace

_LEAF = 128  # blocks up to this size are factorised directly
_PANEL = 128  # and so many rows or columns of a triangle are multiplied at a time


def positive_inverse(matrix: Any) -> Any:
    """The inverse; ``None`` if the matrix is not positive definite, to rounding. Overwrites the matrix.

    >>> positive_inverse(np.array([[4.0, 2.0], [2.0, 2.0]])).round(12).tolist()
    [[0.5, -0.5], [-0.5, 1.0]]
    >>> positive_inverse(np.array([[1.0, 2.0], [2.0, 1.0]]))
    """
    if not isinstance(matrix, np.ndarray):
        return _inverse_on_device(matrix)
    diagonal = np.diagonal(matrix)
    if np.count_nonzero(matrix) == len(matrix) and np.all(diagonal > 0):  # rows that share no record
        return np.diag(1 / diagonal)
    try:
        _whiten(matrix)
    except np.linalg.LinAlgError:
        return None
    return _products_of_columns(matrix)


def _inverse_on_device(matrix: Any) -> Any:
    """By the Cholesky factorisation of the library, which says in its own way that there is none."""
    xp = namespace(matrix)
    if xp.__name__ == "torch":
        lower, failed = xp.linalg.cholesky_ex(matrix)
        if int(failed):
            return None
        inverse = xp.cholesky_inverse(lower)
    else:
        try:
            whitening = xp.linalg.inv(xp.linalg.cholesky(matrix))
        except np.linalg.LinAlgError:
            return None
        inverse = whitening.T @ whitening
    if not bool(xp.all(xp.isfinite(inverse))):
        return None
    return (inverse + inverse.T) / 2


def _whiten(matrix: FloatArray) -> None:
    """Replace M by W."""
    size = len(matrix)
    if size <= _LEAF:
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
    for own in _panels(len(lower)):
        np.matmul(lower[own, : own.stop], right[: own.stop], out=product[own])
    return product


def _products_of_columns(lower: FloatArray) -> FloatArray:
    """``lower.T @ lower``, without the zeros above the diagonal of a lower triangle."""
    product = np.empty_like(lower)
    for own in _panels(len(lower)):
        panel = lower[own.start :, own]
        product[own, own] = panel.T @ panel  # symmetric to the last bit
        np.matmul(panel.T, lower[own.start :, : own.start], out=product[own, : own.start])
        product[: own.start, own] = product[own, : own.start].T
    return product


def _panels(size: int) -> list[slice]:
    """Rows or columns of a triangle that are multiplied together: few, so that few zeros are."""
    return [slice(start, min(start + _PANEL, size)) for start in range(0, size, _PANEL)]
