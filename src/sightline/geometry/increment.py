r"""What one more release adds (``thm:spine``, ``app:spine_rankone``), without a new profile.

A new release appends whitened rows :math:`[a^\top\ b^\top]` over target and nuisance. If the nuisance
block is invertible, the profiled information grows by (``eq:spine_update``)

.. math:: \frac{d\,d^\top}{1 + b^\top I_{\eta\eta}^{-1} b}, \qquad d = a - I_{\theta\eta} I_{\eta\eta}^{-1} b,

and several rows :math:`[A\ B]` add :math:`D^\top (I + B I_{\eta\eta}^{-1} B^\top)^{-1} D`.

Beyond the paper: a singular nuisance block. Its columns depend on a few independent ones,
:math:`\tilde J_\eta = \tilde J_P T`. A new row that keeps the dependence, :math:`b = T^\top b_P`, obeys the
formula with the independent columns only. A row that breaks it introduces a new nuisance direction, which
can explain the whole row, so the row adds nothing. Of a block of rows, only the combinations that keep the
dependence add information.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import cho_factor, cho_solve, lstsq, solve_triangular

from sightline.arrays import FloatArray, IndexArray
from sightline.geometry.frame import Frame, IntegerRows, WhitenedRows, dense
from sightline.geometry.profile import Profile
from sightline.geometry.projection import Projection
from sightline.noise.laws import GaussianNoise
from sightline.numerics import integers as exact
from sightline.numerics.rank import Decision, missing

_UNIT = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Increment:
    """The gain of one more release while the noise on the others stays the same.

    Entries of ``contrast`` that could be rounding are zero. Then ``helps`` and ``gain`` come from exact
    fractions, or ``helps`` is undecided if these would be too large.
    """

    contrast: FloatArray  # D: a row d for each combination of new answers that keeps the dependence
    gain: FloatArray  # the increase of the profiled information
    information: FloatArray  # the profiled information afterwards
    opens: int  # how many directions of the target become identifiable
    helps: Decision  # whether the profiled information grows at all (``eq:spine_iff``)
    relative_error: float  # bound on the relative error of the information afterwards, from rounding


@dataclass(frozen=True, kw_only=True, eq=False)
class Extension:
    """A profiled transcript, to which rows can be added."""

    frame: Frame
    profile: Profile
    rows: WhitenedRows

    def increment(self, rows: FloatArray, integers: IntegerRows | None, *, noise: GaussianNoise) -> Increment:
        """What rows over all records, with this noise, add."""
        projection = self.profile.projection
        nuisance = self.frame.nuisance(rows)
        exactly = self._broken_exactly(integers)
        breaking, broken = self._breaking(rows, nuisance, exactly)
        combinations = _keeping_dependence(_whiten(breaking, noise), broken=broken)
        contrast, gain, error = _contrast_and_gain(
            projection,
            combinations.T @ _whiten(self.frame.target(rows), noise),
            combinations.T @ _whiten(nuisance[:, self.profile.basis], noise)[:, projection.order],
            roundoff=self._roundoff,
        )
        opens = self._opens(integers, broken)
        if opens is None or (exactly is None and self.profile.basis.size < nuisance.shape[1]):
            # Real-valued rows may open a direction or break a dependence: that takes a new profile.
            opens, error = 0, math.inf
        elif opens == 0 and not self.profile.combinations:
            # Nothing was revealed before and nothing is now: the contrast is rounding.
            contrast, gain, error = np.zeros_like(contrast), np.zeros_like(gain), 0.0
        return Increment(
            contrast=contrast,
            gain=gain,
            information=projection.information + gain,
            opens=opens,
            helps=Decision.YES if np.any(contrast) else Decision.NO,
            relative_error=error,
        )

    def _breaking(self, rows: FloatArray, nuisance: FloatArray, broken: int | None) -> tuple[FloatArray, int]:
        """The part of new rows that breaks the dependence among nuisance columns, and its rank."""
        disagreement = self.frame.disagreement(rows)
        basis = self.profile.basis
        unexplained = np.zeros((len(rows), 0))
        if basis.size < nuisance.shape[1]:
            T = self._dependence
            unexplained = nuisance - nuisance[:, basis] @ T
            lengths = np.linalg.norm(self.frame.nuisance(self.rows.jacobian), axis=0)
            size = np.abs(nuisance) + np.abs(nuisance[:, basis]) @ (
                np.abs(T) + _ratios(lengths, lengths[basis])
            )
            unexplained[np.abs(unexplained) <= self._roundoff * size] = 0.0
        breaking = np.hstack([disagreement, unexplained])
        if broken is not None:
            return breaking, broken
        if not np.any(breaking):
            return breaking, 0
        lengths = np.linalg.norm(breaking, axis=1) + np.linalg.norm(nuisance, axis=1)
        values = np.linalg.svd(breaking / np.where(lengths > 0, lengths, 1.0)[:, None], compute_uv=False)
        return breaking, int(np.sum(values > missing(max(breaking.shape))))

    def _broken_exactly(self, integers: IntegerRows | None) -> int | None:
        if integers is None or self.rows.integer_rows is None or self.frame.coefficients is not None:
            return None
        disagreement = self.frame.disagreement(integers)
        if self.profile.basis.size == self.frame.representatives.size:
            return exact.rank(disagreement)
        return self._nuisance_rows.beyond(integers[:, self.frame.representatives], alongside=disagreement)

    def _opens(self, integers: IntegerRows | None, broken: int) -> int | None:
        """How many more directions of the target are identifiable afterwards, if that is known exactly."""
        if self.profile.decision is Decision.YES:
            return 0
        if self._broken_exactly(integers) is not None and integers is not None:
            columns = np.concatenate([self.frame.representatives, self.frame.support])
            disagreement = self.frame.disagreement(integers)
            return self._all_rows.beyond(integers[:, columns], alongside=disagreement) - broken
        return None

    @property
    def _roundoff(self) -> float:
        """Bound on the rounding error of a difference, relative to its terms.

        Each of n reflectors of length m errs by at most (8m + 41)u of a column (Higham, lemma 19.2, with the
        constants of its proof); applied in blocks the error has the same form (section 19.5).
        """
        projection = self.profile.projection
        columns, lines = max(8, self.profile.basis.size), self.rows.jacobian.shape[0]
        return float((4 * lines + 20) * columns * _UNIT * max(projection.nuisance_inverse_norm, 1.0))

    @cached_property
    def _dependence(self) -> FloatArray:
        """T: the nuisance columns as combinations of the independent ones."""
        nuisance = self.frame.nuisance(self.rows.jacobian)
        basis = self.profile.basis
        lengths = np.linalg.norm(nuisance, axis=0)
        unit = nuisance / np.where(lengths > 0, lengths, 1.0)
        solution: FloatArray = lstsq(unit[:, basis], unit, lapack_driver="gelsy")[0]
        solution *= _ratios(lengths, lengths[basis])
        solution[:, basis] = np.eye(basis.size)
        return solution

    @cached_property
    def _nuisance_rows(self) -> exact.RowEchelon:
        return self._echelon(self.frame.representatives)

    @cached_property
    def _all_rows(self) -> exact.RowEchelon:
        return self._echelon(np.concatenate([self.frame.representatives, self.frame.support]))

    def _echelon(self, columns: IndexArray) -> exact.RowEchelon:
        assert self.rows.integer_rows is not None  # only then is anything decided by elimination
        return exact.echelon(dense(self.rows.integer_rows[:, columns]))


def _ratios(of: FloatArray, to: FloatArray) -> FloatArray:
    """Ratios of the lengths of columns: the size of coefficients that express some by others."""
    ratios: FloatArray = of[None, :] / to[:, None]
    return ratios


def _whiten(rows: FloatArray, noise: GaussianNoise) -> FloatArray:
    return rows / noise.scales[:, None]


def _keeping_dependence(breaking: FloatArray, *, broken: int) -> FloatArray:
    """Orthonormal combinations of new rows (as columns) that keep the dependence of the nuisance.

    ``broken`` is the rank of ``breaking``, the part of the rows that the dependence does not explain.
    """
    lines = breaking.shape[0]
    if broken == 0:
        return np.eye(lines)
    # All left singular vectors are needed, but not all right ones: there are as many as records.
    left, _, _ = np.linalg.svd(breaking, full_matrices=breaking.shape[1] < lines)
    combinations: FloatArray = left[:, broken:]
    return combinations


def _contrast_and_gain(
    projection: Projection, target: FloatArray, independent: FloatArray, *, roundoff: float
) -> tuple[FloatArray, FloatArray, float]:
    """D, the gain and its relative error, of whitened rows: A is ``target``, B is ``independent``.

    The error is infinite if a column of D could be rounding only.
    """
    V = projection.coefficients
    contrast = target - independent @ V
    # A difference that is not larger than the rounding error of its terms is set to zero. Coefficients have
    # errors relative to the lengths of the columns: one that should be zero is not exactly zero.
    lengths, columns = projection.lengths, projection.order.size
    size = np.abs(target) + np.abs(independent) @ (np.abs(V) + _ratios(lengths[columns:], lengths[:columns]))
    unclear = (np.abs(contrast) <= roundoff * size) & (size > 0)
    contrast[unclear] = 0.0
    width = target.shape[1]
    if not np.any(contrast):
        return contrast, np.zeros((width, width)), math.inf if np.any(unclear) else 0.0
    rounding = np.linalg.norm(roundoff * size, axis=0)
    lengths = np.linalg.norm(contrast, axis=0)
    error = float(np.max(np.divide(2 * rounding, lengths, out=np.full(width, np.inf), where=lengths > 0)))
    reach = np.zeros((0, len(target)))
    if independent.shape[1]:
        reach = solve_triangular(projection.triangle, independent.T, trans="T", check_finite=False)
    spread = np.eye(len(target)) + reach.T @ reach
    gain: FloatArray = contrast.T @ cho_solve(cho_factor(spread), contrast)
    return contrast, gain, error + 2 * roundoff
