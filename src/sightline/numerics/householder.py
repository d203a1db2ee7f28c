"""Householder QR in LAPACK's form: reflectors below the diagonal, and their scales."""

from __future__ import annotations

from scipy.linalg import get_lapack_funcs

from sightline.arrays import FloatArray


def factorise(matrix: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Reflectors below the diagonal, R on and above it, and the scales. Overwrites the matrix."""
    geqrf = get_lapack_funcs("geqrf", (matrix,))
    *_, work, _ = geqrf(matrix, lwork=-1)
    reflectors, scales, _, _ = geqrf(matrix, lwork=int(work[0]), overwrite_a=True)
    return reflectors, scales


def apply_reflectors(
    reflectors: FloatArray, scales: FloatArray, block: FloatArray, *, transpose: bool
) -> FloatArray:
    """``Q @ block``, or ``Q.T @ block``."""
    ormqr = get_lapack_funcs("ormqr", (reflectors, block))
    side, trans = "L", "T" if transpose else "N"
    used = reflectors[:, : scales.size]
    *_, work, _ = ormqr(side, trans, used, scales, block, -1)
    product, _, _ = ormqr(side, trans, used, scales, block, int(work[0]))
    result: FloatArray = product
    return result
