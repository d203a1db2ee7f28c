r"""The projector form of the profiled information, from a QR factorisation of the rows.

.. math::
    I_{\mathrm{eff}} = \tilde J_\theta^\top (I - P_\eta) \tilde J_\theta = E^\top E, \qquad
    Q^\top \tilde J_\eta = \begin{bmatrix} R \\ 0 \end{bmatrix}, \quad
    Q^\top \tilde J_\theta = \begin{bmatrix} R V \\ E \end{bmatrix}

(``eq:Ieff_projector``). No Gram matrix is formed. If the rows differ much in size, they are sorted by size
and the columns are pivoted: Householder QR is then backward stable row by row (Cox & Higham 1998), and rows
with little noise do not spoil the digits of rows with much. If the nuisance explains nearly all of the
target, digits cancel, and a second projection recovers them:
:math:`(I - P_\eta)\tilde J_\theta = (I - P_\eta)(\tilde J_\theta - \tilde J_\eta V)` for every :math:`V`, so
the misfit at the first :math:`V`, summed in doubled precision, is projected again.

For targets that double precision cannot resolve the same is computed in ball arithmetic.
With the inverse :math:`S` of the noise's covariance, or of its squared scales,

.. math::
    I_{\mathrm{eff}} = J_\theta^\top S M, \qquad M = J_\theta - J_\eta V, \qquad
    J_\eta^\top S J_\eta V = J_\eta^\top S J_\theta

(``eq:Ieff_def``). The input doubles are treated as exact numbers, and the working precision is raised until
the result is sharp. Revealed combinations :math:`C\theta` have the covariance
:math:`K^{-1}` with :math:`I_{\mathrm{eff}} = C^\top K C`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from flint import arb_mat, ctx, fmpq, fmpq_mat
from scipy.linalg import get_lapack_funcs, qr, solve_triangular

from sightline.arrays import ROUNDING, FloatArray, IndexArray
from sightline.numerics.balls import BALL_ROWS, BITS, ball
from sightline.numerics.rank import inverse_norm
from sightline.numerics.residuals import UNIT, misfit, product_error


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


# Above this ratio of row sizes the unpivoted factorisation may lose the small rows.
_STIFF = 1e3


@dataclass(frozen=True, kw_only=True, eq=False)
class Projection:
    """Target columns as the sum of a part that the nuisance columns explain and a residual."""

    joint: FloatArray  # the triangle of nuisance, in ``order``, and target together
    order: IndexArray  # the pivot order of the nuisance columns
    explained: FloatArray  # R V: the part of the target that the nuisance explains, in rotated coordinates
    residual: FloatArray  # E: the rest of the target, in rotated coordinates
    stiff: bool  # whether the rows differ so much in size that the nuisance was pivoted
    estimate: float  # of the relative error of the information: it decides whether to refine
    _target: FloatArray
    _nuisance: FloatArray  # in ``order``
    _reflectors: FloatArray
    _scales: FloatArray
    _rows: IndexArray

    @property
    def triangle(self) -> FloatArray:
        """R of the nuisance columns, in ``order``."""
        columns = self.order.size
        return self.joint[:columns, :columns]

    @property
    def information(self) -> FloatArray:
        """The profiled information of the target."""
        gram: FloatArray = self.residual.T @ self.residual
        return gram

    @cached_property
    def coefficients(self) -> FloatArray:
        """V, in ``order``: the target's explained part as a combination of nuisance columns."""
        if self.triangle.shape[0] == 0:
            return np.zeros_like(self.explained)
        solution: FloatArray = solve_triangular(self.triangle, self.explained, check_finite=False)
        return solution

    @cached_property
    def lengths(self) -> FloatArray:
        """Lengths of the nuisance columns, in ``order``, and of the target columns."""
        lengths: FloatArray = np.linalg.norm(self.joint, axis=0)
        return lengths

    def keep(self, combinations: FloatArray) -> Projection:
        """The same with E confined to some combinations of the target: all else in it is rounding."""
        if combinations.size == 0:
            return replace(self, residual=np.zeros_like(self.residual))
        return replace(self, residual=self.residual @ self.right_inverse(combinations) @ combinations)

    def right_inverse(self, combinations: FloatArray) -> FloatArray:
        """A matrix X with ``combinations @ X = I``, of the least size where the target's columns are long."""
        lengths = np.where(self._target_lengths > 0, self._target_lengths, 1.0)
        scaled = combinations / lengths
        sizes = np.linalg.norm(scaled, axis=1)
        inverse: FloatArray = np.linalg.pinv(scaled / sizes[:, None]) / sizes / lengths[:, None]
        return inverse

    @property
    def _target_lengths(self) -> FloatArray:
        return self.lengths[self.order.size :]

    def error_bound(
        self,
        along: FloatArray,
        inverse: FloatArray,
        *,
        noise_error: float,
        cancelled: FloatArray,
    ) -> float:
        r"""Bound on the relative error of the information along revealed combinations, and of its inverse.

        ``along`` takes the combinations to target columns and ``inverse`` is Y with :math:`YY^\top` the
        computed inverse of their information. With C the nuisance columns and the combined target columns and

        .. math:: X = \begin{bmatrix} R^{-1} & -R^{-1}(RV)Y \\ 0 & Y \end{bmatrix},

        the columns of :math:`W = CX` should be orthonormal. No quadratic form of :math:`(C^\top C)^{-1}` is
        off by more than :math:`\|W^\top W - I\|` of it, and whitening adds ``noise_error`` to every column.
        ``cancelled`` bounds the rounding of columns that are sums of others, nuisance before target.
        """
        columns, width = self.order.size, inverse.shape[1]
        if width == 0:
            return 0.0
        if len(self.residual) < width or np.any(np.diagonal(self.triangle) == 0):
            return math.inf
        if not np.all(np.isfinite(inverse)):
            return math.inf
        seen = self.residual @ along
        X = np.zeros((columns + width, columns + width))
        if columns:
            X[:columns, :columns] = solve_triangular(self.triangle, np.eye(columns), check_finite=False)
            X[:columns, columns:] = -X[:columns, :columns] @ (self.explained @ (along @ inverse))
        X[columns:, columns:] = inverse
        C = np.hstack([self._nuisance, self._target @ along])
        # The lengths of the columns before they are combined, because those are rounded.
        lengths = np.concatenate([self.lengths[:columns], self._target_lengths @ np.abs(along)])
        off = product_error(C, X, lengths=lengths)
        rounding = product_error(seen, inverse, lengths=np.linalg.norm(self.residual, axis=0) @ np.abs(along))
        rows = np.linalg.norm(X, axis=1)
        before = np.concatenate([cancelled[:columns][self.order], cancelled[columns:] @ np.abs(along)])
        eta = off + rounding + float(np.sum((noise_error * lengths + before) * rows))
        return (1 - 2 * eta) ** -2 - 1 if eta < 0.25 else math.inf

    @cached_property
    def nuisance_inverse_norm(self) -> float:
        """The norm of the inverse of R with unit columns: the condition number of the nuisance, up to √n."""
        return inverse_norm(self.triangle, lengths=np.linalg.norm(self.triangle, axis=0))

    def unrotate(self, residual: FloatArray) -> FloatArray:
        """Turn residual coordinates back into whitened answers."""
        rotated = np.zeros((self._rows.size, residual.shape[1]))
        start = self.order.size
        rotated[start : start + len(residual)] = residual
        whitened = np.empty_like(rotated)
        whitened[self._rows] = apply_reflectors(self._reflectors, self._scales, rotated, transpose=False)
        return whitened


def project(target: FloatArray, nuisance: FloatArray) -> Projection:
    """Project whitened target columns off linearly independent whitened nuisance columns."""
    lines, columns = nuisance.shape
    sizes = np.maximum(_largest(nuisance), _largest(target))
    positive = sizes[sizes > 0]
    stiff = positive.size > 0 and float(positive.max()) > _STIFF * float(positive.min())
    rows, order = np.arange(lines), np.arange(columns)
    if stiff and columns:
        rows = np.argsort(-sizes, kind="stable")
        _, order = qr(nuisance[rows], mode="r", pivoting=True, check_finite=False)
        nuisance = nuisance[:, order]
    together = np.empty((lines, columns + target.shape[1]), order="F")
    together[:, :columns] = nuisance[rows] if stiff else nuisance
    together[:, columns:] = target[rows]
    reflectors, scales = factorise(together)
    joint = np.triu(reflectors[: together.shape[1]])
    first = Projection(
        joint=joint,
        order=order.astype(np.intp),
        explained=joint[:columns, columns:],
        residual=joint[columns:, columns:],
        stiff=stiff,
        estimate=0.0,
        _target=target,
        _nuisance=nuisance,
        _reflectors=reflectors,
        _scales=scales,
        _rows=rows,
    )
    if columns == 0 or columns == lines or np.any(np.diagonal(first.triangle) == 0):
        return first
    return _refined(first, target, nuisance)


def _largest(rows: FloatArray) -> FloatArray:
    biggest: FloatArray = np.maximum(rows.max(axis=1, initial=0.0), -rows.min(axis=1, initial=0.0))
    return biggest


def _refined(projection: Projection, target: FloatArray, nuisance: FloatArray) -> Projection:
    """The projection with the cancelled digits recovered, and an estimate of the remaining error.

    A relative change of a row changes its misfit by that share of the row's size. So misfit times size, over
    the sum of squared misfits, is the condition number of the information. Roundings add up like a random
    walk, along a row and over the rows, hence Euclidean lengths; the factor 8 is a safety margin.
    """
    columns = nuisance.shape[1]
    V = projection.coefficients
    lengths = np.sqrt(np.einsum("ij,ij->i", nuisance, nuisance))[:, None]
    sizes = np.abs(target) + lengths * np.linalg.norm(V, axis=0)
    first = replace(projection, estimate=_condition_number(projection, sizes) * UNIT)
    if first.estimate < ROUNDING:
        return first
    left = misfit(target, nuisance, V)
    rotated = apply_reflectors(
        projection._reflectors, projection._scales, left[projection._rows], transpose=True
    )
    again = replace(projection, explained=rotated[:columns], residual=rotated[columns:])
    remaining = np.abs(left) + lengths * np.linalg.norm(again.coefficients, axis=0) + UNIT * sizes
    error = _condition_number(again, remaining) * UNIT
    return replace(
        projection,
        explained=projection.explained + again.explained,
        residual=again.residual,
        estimate=error,
    )


def _condition_number(projection: Projection, sizes: FloatArray) -> float:
    residual = np.abs(projection.unrotate(projection.residual))
    information = np.sum(residual**2, axis=0)
    worst = np.divide(
        2 * np.linalg.norm(residual * sizes, axis=0),
        information,
        out=np.zeros(len(information)),
        where=information > 0,
    )
    return 8 * float(np.max(worst, initial=0.0))


# Error of an entry, relative to the square roots of its two diagonal entries: rounding to doubles.
ENCLOSED_ERROR = 2.0**-49
_SHARP_BITS = 56
_MOST_RATIONALS = 40  # columns for exact rational arithmetic, whose time grows with their cube


Fractions: TypeAlias = Sequence[Sequence[Fraction]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Enclosed:
    """The revealed part of a target, with errors below :data:`ENCLOSED_ERROR`."""

    information: FloatArray
    covariance: FloatArray  # of the revealed combinations
    recipes: FloatArray  # over the answers, a row for each combination


def enclose(
    rows: FloatArray, functional: Fractions, combinations: Fractions, noise: FloatArray
) -> Enclosed | None:
    r"""A functional C of the records that the rows reveal, from independent columns B of theirs.

    C is a combination of the rows, so that its entries at these columns say all. Its covariance is
    :math:`C (B^\top S B)^{-1} C^\top` and its recipes are :math:`C (B^\top S B)^{-1} B^\top S`.
    ``combinations`` are the same over the target's coordinates, whose information is returned. ``noise`` are
    the scales of independent noise, or a regular covariance matrix. ``None`` if too large or never sharp.
    """
    if rows.shape[1] > BALL_ROWS:
        return None
    for bits in BITS:
        with ctx.workprec(bits):
            B = arb_mat(rows.tolist())
            C, along = (
                arb_mat([[ball(x) for x in row] for row in one]) for one in (functional, combinations)
            )
            try:
                S = _precision(noise)
                half = C * (B.transpose() * S * B).inv()
                covariance = half * C.transpose()
                recipes, inverse = half * B.transpose() * S, covariance.inv()
                information = along.transpose() * inverse * along  # large coefficients may cancel in it
                sharp = all(map(_sharp, (covariance, inverse, information))) and _sharp_rows(recipes)
            except ZeroDivisionError:  # not certified invertible at this precision
                sharp = False
            if sharp:
                return Enclosed(
                    information=_doubles(information),
                    covariance=_doubles(covariance),
                    recipes=_doubles(recipes),
                )
    return None


def exact_information(target: FloatArray, nuisance: FloatArray, noise: FloatArray) -> list[Any]:
    """The information of target columns beside independent ones of the nuisance, before noise, as a matrix of
    fractions (``fmpq_mat``), if that is not too large. ``noise`` as for :func:`enclose`.
    """
    if target.shape[1] + nuisance.shape[1] > _MOST_RATIONALS:
        return []
    J_theta, J_eta = _rational(target), _rational(nuisance)
    if noise.ndim == 1:
        S = _diagonal(fmpq_mat, [1 / _fmpq(scale) ** 2 for scale in noise.tolist()])
    else:
        S = _rational(noise).inv()
    information = J_theta.transpose() * S * J_theta
    if nuisance.shape[1] == 0:
        return [information]
    across = J_eta.transpose() * S
    coupling = across * J_theta
    return [information - coupling.transpose() * (across * J_eta).solve(coupling)]


def _precision(noise: FloatArray) -> arb_mat:
    """The inverse of the covariance, or of the squared scales."""
    if noise.ndim == 1:
        squares: arb_mat = _diagonal(arb_mat, [1 / ball(scale) ** 2 for scale in noise.tolist()])
        return squares
    return arb_mat(noise.tolist()).inv()


def _sharp(matrix: arb_mat) -> bool:
    """Whether every entry is sharp relative to the square roots of its two diagonal entries."""
    roots = [abs(float(matrix[i, i])) ** 0.5 for i in range(matrix.nrows())]
    return all(
        float(matrix[i, j].rad()) <= 2.0**-_SHARP_BITS * roots[i] * roots[j]
        for i in range(len(roots))
        for j in range(len(roots))
    )


def _sharp_rows(matrix: arb_mat) -> bool:
    """Whether every entry is sharp relative to itself, or negligible beside the largest of its row."""
    for row in matrix.table():
        largest = max(abs(float(entry)) for entry in row)
        for entry in row:
            rad = float(entry.rad())
            if rad > 2.0**-_SHARP_BITS * abs(float(entry)) and rad > 2.0**-200 * largest:
                return False
    return True


def _diagonal(kind: Any, entries: Sequence[Any]) -> Any:
    size = len(entries)
    return kind(size, size, [entries[i] if i == k else 0 for i in range(size) for k in range(size)])


def _rational(block: FloatArray) -> Any:
    entries = [_fmpq(entry) for entry in block.ravel().tolist()]
    return fmpq_mat(block.shape[0], block.shape[1], entries)


def _fmpq(value: float) -> fmpq:
    return fmpq(*Fraction(value).as_integer_ratio())


def as_doubles(matrix: Any) -> FloatArray:
    """A matrix of fractions, each rounded to the nearest double."""
    entries = [float(Fraction(int(entry.p), int(entry.q))) for entry in matrix.entries()]
    return np.array(entries).reshape(matrix.nrows(), matrix.ncols())


def _doubles(matrix: arb_mat) -> FloatArray:
    return np.array([float(entry) for entry in matrix.entries()]).reshape(matrix.nrows(), matrix.ncols())
