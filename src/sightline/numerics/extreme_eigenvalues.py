r"""The largest eigenvalue of each of many symmetric matrices, from below and from above.

From below any vector will do: :math:`x^\top S x / x^\top x` is at most the largest eigenvalue. Krylov spaces
of all matrices are built side by side, so that each step is a product of matrices. From above a Cholesky
factorisation of :math:`\tau I - S` is the proof, as in
:func:`~sightline.numerics.residuals.eigenvalues_at_most`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy

from sightline.arrays import FloatArray
from sightline.numerics.residuals import gamma

# S x of every matrix, one a column; a product with all of them at once.
Product = Callable[[FloatArray], FloatArray]
_UNIT = float(np.finfo(np.float64).eps)


def krylov_vectors(product: Product, start: FloatArray, steps: int) -> FloatArray:
    """Vectors whose quotients are near the largest eigenvalues: the best of the Krylov spaces, one a column.

    >>> S = np.diag([1.0, 2.0, 5.0])
    >>> x = krylov_vectors(lambda x: S @ x, np.ones((3, 1)), 3)[:, 0]
    >>> round(float(x @ S @ x / (x @ x)), 9)
    5.0
    """
    steps = min(steps, len(start))
    basis = [start / _lengths(start)]
    images = []
    for step in range(steps):
        images.append(product(basis[-1]))
        if step + 1 == steps:
            break
        rest = images[-1]
        for _ in range(2):  # once is not enough where the space is nearly invariant
            V = np.stack(basis)
            rest = rest - np.einsum("kdn,kn->dn", V, np.einsum("kdn,dn->kn", V, rest))
        # Where a space is exhausted, only rounding is left: no direction.
        left, before = np.linalg.norm(rest, axis=0), np.linalg.norm(images[-1], axis=0)
        basis.append(np.where(left > 1e-10 * before, rest / _lengths(rest), 0.0))
    V, SV = np.stack(basis), np.stack(images)
    inner = np.einsum("kdn,ldn->nkl", V, SV, optimize=True)
    inner = (inner + inner.transpose(0, 2, 1)) / 2
    best = np.linalg.eigh(inner)[1][:, :, -1]
    found = np.einsum("kdn,nk->dn", V, best)
    return np.asarray(found / _lengths(found))


def quotients(product: Product, vectors: FloatArray) -> tuple[FloatArray, FloatArray]:
    """At most the largest eigenvalues, up to the rounding of a product; and how far they may be off.

    Quotients are off by about the square of the residual over their distance to other eigenvalues, for which
    a tenth of the quotient stands here: a first guess for a proof.
    """
    images = product(vectors)
    found = np.sum(vectors * images, axis=0) / np.sum(vectors**2, axis=0)
    squares = np.sum((images - found * vectors) ** 2, axis=0)
    return np.asarray(found), np.asarray(10 * squares / np.where(found > 0, found, 1.0))


def at_most(matrix: FloatArray, near: float, off: float = 0.0) -> float:
    """At least the largest eigenvalue of one matrix, and little more if it is ``near`` + ``off`` or less.

    >>> bool(3 <= at_most(np.array([[2.0, 1.0], [1.0, 2.0]]), 2.9, 0.2) < 3.3)
    True
    """
    size, scale = len(matrix), float(np.linalg.norm(matrix)) + float(np.finfo(np.float64).tiny)
    room = max(8 * size * _UNIT * scale, 1e-9 * near, off)
    while True:
        tau = near + room
        shifted = -matrix
        shifted[np.diag_indices(size)] += tau
        traces = float(np.sum(np.abs(np.diagonal(shifted))))
        try:
            scipy.linalg.cholesky(shifted, lower=True, overwrite_a=True, check_finite=False)
        except np.linalg.LinAlgError:
            room *= 16
            continue
        return tau + gamma(size + 4) * (traces + scale)


def _lengths(vectors: FloatArray) -> FloatArray:
    lengths = np.linalg.norm(vectors, axis=0)
    return np.where(lengths > 0, lengths, 1.0)
