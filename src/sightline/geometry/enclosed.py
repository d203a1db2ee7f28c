r"""The profiled information in ball arithmetic, for targets that double precision cannot resolve.

With the inverse :math:`S` of the noise's covariance, or of its squared scales,

.. math::
    I_{\mathrm{eff}} = J_\theta^\top S M, \qquad M = J_\theta - J_\eta V, \qquad
    J_\eta^\top S J_\eta V = J_\eta^\top S J_\theta

(``eq:Ieff_def``). The input doubles are treated as exact numbers, and the working precision is doubled until
the result is sharp. Revealed combinations :math:`C\theta` have the covariance
:math:`K^{-1}` with :math:`I_{\mathrm{eff}} = C^\top K C`, and their best linear unbiased recipes are
:math:`S M C^+ K^{-1}`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from flint import arb_mat, ctx, fmpq, fmpq_mat

from sightline.arrays import FloatArray
from sightline.labeled.routes.columns import decide_columns
from sightline.numerics.balls import FIRST_BITS, ball

# Error of an entry, relative to the square roots of its two diagonal entries: rounding to doubles.
ENCLOSED_ERROR = 2.0**-49
_SHARP_BITS = 56
_LAST_BITS = 4096
# The most columns for ball arithmetic and for exact rational arithmetic, whose time grows with their cube.
_MOST_BALLS, _MOST_RATIONALS = 200, 40


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Weighted:
    """Target and independent nuisance columns before noise, and the noise on these answers."""

    target: FloatArray
    nuisance: FloatArray
    noise: FloatArray  # scales of independent noise, or a regular covariance matrix

    @property
    def columns(self) -> int:
        return int(self.target.shape[1] + self.nuisance.shape[1])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Enclosed:
    """The revealed part of a target, with errors below :data:`ENCLOSED_ERROR`."""

    information: FloatArray
    covariance: FloatArray  # of the revealed combinations
    recipes: FloatArray  # over the answers, a row for each combination


def enclose(rows: Weighted, combinations: Sequence[Sequence[Fraction]]) -> Enclosed | None:
    """The information and the revealed combinations; ``None`` if too large or never sharp."""
    if rows.columns > _MOST_BALLS:
        return None
    bits = FIRST_BITS
    while bits <= _LAST_BITS:
        with ctx.workprec(bits):
            enclosed = _attempt(rows, combinations)
        if enclosed is not None:
            return enclosed
        bits *= 2
    return None


def enclose_functional(rows: FloatArray, functional: FloatArray, noise: FloatArray) -> Enclosed | None:
    r"""The same for an identifiable functional C of the records, from independent columns B of all rows.

    C is a combination of the rows, so that its entries :math:`C_B` at these columns say all. Its covariance
    is :math:`C_B (B^\top S B)^{-1} C_B^\top` and its recipes are :math:`C_B (B^\top S B)^{-1} B^\top S`.
    """
    pivots = decide_columns(rows).pivots
    if pivots.size > _MOST_BALLS:
        return None
    bits = FIRST_BITS
    while bits <= _LAST_BITS:
        with ctx.workprec(bits):
            B, C = arb_mat(rows[:, pivots].tolist()), arb_mat(functional[:, pivots].tolist())
            try:
                S = _precision(noise)
                half = C * (B.transpose() * S * B).inv()
                covariance = half * C.transpose()
                recipes, information = half * B.transpose() * S, covariance.inv()
            except ZeroDivisionError:  # not certified invertible at this precision
                recipes = None
            if recipes is not None and _sharp(covariance) and _sharp(information) and _sharp_rows(recipes):
                found = (_doubles(matrix) for matrix in (information, covariance, recipes))
                return Enclosed(**dict(zip(("information", "covariance", "recipes"), found, strict=True)))
        bits *= 2
    return None


def exact_information(rows: Weighted) -> Any:
    """The information as a matrix of fractions (``fmpq_mat``); ``None`` if too large."""
    if rows.columns > _MOST_RATIONALS:
        return None
    target, nuisance = (_rational(block) for block in (rows.target, rows.nuisance))
    if rows.noise.ndim == 1:
        S = _diagonal(fmpq_mat, [1 / _fmpq(scale) ** 2 for scale in rows.noise.tolist()])
    else:
        S = _rational(rows.noise).inv()
    return target.transpose() * S * _misfit(target, nuisance, S)


def _misfit(target: Any, nuisance: Any, S: Any) -> Any:
    """M: the target less the part of it that the nuisance explains, in either arithmetic."""
    if nuisance.ncols() == 0:
        return target
    across = nuisance.transpose() * S
    return target - nuisance * (across * nuisance).solve(across * target)


def _attempt(rows: Weighted, combinations: Sequence[Sequence[Fraction]]) -> Enclosed | None:
    target, nuisance = arb_mat(rows.target.tolist()), arb_mat(rows.nuisance.tolist())
    try:
        S = _precision(rows.noise)
        misfit = _misfit(target, nuisance, S)
        C = arb_mat([[ball(entry) for entry in row] for row in combinations])
        inverse = C.transpose() * (C * C.transpose()).inv()  # C⁺
        K = inverse.transpose() * (target.transpose() * S * misfit) * inverse
        covariance = K.inv()
        recipes = (S * misfit * inverse * covariance).transpose()
    except ZeroDivisionError:  # not certified invertible at this precision
        return None
    if not (_sharp(K) and _sharp(covariance) and _sharp_rows(recipes)):
        return None
    return Enclosed(
        information=_doubles(C.transpose() * K * C),
        covariance=_doubles(covariance),
        recipes=_doubles(recipes),
    )


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
