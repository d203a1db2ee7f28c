r"""Removing the nuisance: the projector form of the profiled information, from a factorisation of the rows.

.. math::
    I_{\mathrm{eff}} = \tilde J_\theta^\top (I - P_\eta) \tilde J_\theta = E^\top E, \qquad
    Q^\top \tilde J_\eta = \begin{bmatrix} R \\ 0 \end{bmatrix}, \quad
    Q^\top \tilde J_\theta = \begin{bmatrix} R V \\ E \end{bmatrix}

(``eq:Ieff_projector``). Nothing goes through a Gram matrix. Rows are sorted by size, and pivoted when their
sizes differ much: Householder QR is then backward stable row by row (Cox & Higham 1998), so that a release
with very little noise does not drown one with a lot.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import get_lapack_funcs, qr, solve_triangular

from sightline.arrays import FloatArray, IndexArray

# Above this ratio of row sizes the unpivoted factorisation may lose the small rows.
_STIFF = 1e3


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Projection:
    """Target columns split into what independent nuisance columns explain and what escapes them."""

    triangle: FloatArray  # R, of the nuisance columns in ``order``
    order: IndexArray  # the pivot order of the nuisance columns
    coefficients: FloatArray  # V, in ``order``: the explained part of the target
    residual: FloatArray  # E: L - r rows in rotated coordinates
    stiff: bool  # whether rows differ so much in size that the factorisation was pivoted
    _reflectors: FloatArray
    _scales: FloatArray
    _rows: IndexArray

    @property
    def information(self) -> FloatArray:
        """The profiled information of the target."""
        gram: FloatArray = self.residual.T @ self.residual
        return gram

    def keep(self, directions: int) -> Projection:
        """The same with what is known to be rounding removed: E of exactly this many directions."""
        if directions == 0:
            return replace(self, residual=np.zeros_like(self.residual))
        lengths = np.linalg.norm(self.residual, axis=0)
        lengths[lengths == 0] = 1.0
        left, values, right = np.linalg.svd(self.residual / lengths, full_matrices=False)
        kept = (left[:, :directions] * values[:directions]) @ right[:directions]
        return replace(self, residual=kept * lengths)

    def unrotate(self, residual: FloatArray) -> FloatArray:
        """Residual coordinates (``L - r`` rows) back to whitened answers (``L`` rows)."""
        return _unrotate(self._reflectors, self._scales, self._rows, residual)

    def relative_error(self, target: FloatArray, nuisance: FloatArray) -> float:
        """First-order estimate of the information's relative error from rounding each row once.

        A row perturbed in its last bit changes its misfit by that bit times its own size; the sum over rows
        of misfit times size, over the sum of squared misfits, is the condition number of the information.
        """
        escaped = np.abs(self.unrotate(self.residual))
        sizes = np.abs(target) + np.abs(nuisance[:, self.order]) @ np.abs(self.coefficients)
        information = np.sum(escaped**2, axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            amplification = np.sum(escaped * sizes, axis=0) / information
        worst = float(np.max(np.where(information > 0, amplification, 0.0), initial=0.0))
        return 2 * worst * float(np.finfo(float).eps) * max(4, self.order.size)


def project(target: FloatArray, nuisance: FloatArray) -> Projection:
    """Project whitened target columns off linearly independent whitened nuisance columns."""
    lines, columns = nuisance.shape
    sizes = np.max(np.abs(np.hstack([nuisance, target])), axis=1, initial=0.0)
    rows = np.argsort(-sizes, kind="stable")
    positive = sizes[sizes > 0]
    stiff = positive.size > 0 and float(positive.max()) > _STIFF * float(positive.min())
    order = np.arange(columns, dtype=np.intp)
    if columns == 0:
        reflectors, scales = np.zeros((lines, 0)), np.zeros(0)
        triangle = np.zeros((0, 0))
        rotated = target[rows]
    else:
        if stiff:
            (reflectors, scales), triangle, order = qr(
                nuisance[rows], mode="raw", pivoting=True, check_finite=False
            )
        else:
            (reflectors, scales), triangle = qr(nuisance[rows], mode="raw", check_finite=False)
        triangle = triangle[:columns]
        rotated = _apply(reflectors, scales, target[rows], transpose=True)
    return Projection(
        triangle=triangle,
        order=order.astype(np.intp),
        coefficients=_back_substitute(triangle, rotated[:columns]),
        residual=rotated[columns:],
        stiff=stiff,
        _reflectors=reflectors,
        _scales=scales,
        _rows=rows,
    )


def _back_substitute(triangle: FloatArray, right: FloatArray) -> FloatArray:
    if triangle.shape[0] == 0:
        return np.zeros((0, right.shape[1]))
    solution: FloatArray = solve_triangular(triangle, right, check_finite=False)
    return solution


def _apply(reflectors: FloatArray, scales: FloatArray, block: FloatArray, *, transpose: bool) -> FloatArray:
    ormqr = get_lapack_funcs("ormqr", (reflectors, block))
    side, trans = "L", "T" if transpose else "N"
    *_, work, _ = ormqr(side, trans, reflectors, scales, block, -1)
    product, _, _ = ormqr(side, trans, reflectors, scales, block, int(work[0]))
    result: FloatArray = product
    return result


def _unrotate(
    reflectors: FloatArray, scales: FloatArray, rows: IndexArray, residual: FloatArray
) -> FloatArray:
    lines = rows.size
    padded = np.vstack([np.zeros((lines - residual.shape[0], residual.shape[1])), residual])
    if scales.size:
        padded = _apply(reflectors, scales, padded, transpose=False)
    whitened = np.empty_like(padded)
    whitened[rows] = padded
    return whitened
