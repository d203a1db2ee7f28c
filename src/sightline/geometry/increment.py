r"""What one more release adds (``thm:spine``, ``eq:spine_update``), without profiling again.

A new release appends whitened rows :math:`[a^\top\ b^\top]` over target and nuisance. If the nuisance
block is invertible, the profiled information grows by

.. math:: \frac{d\,d^\top}{1 + b^\top I_{\eta\eta}^{-1} b}, \qquad d = a - I_{\theta\eta} I_{\eta\eta}^{-1} b,

and several rows :math:`[A\ B]` add :math:`D^\top (I + B I_{\eta\eta}^{-1} B^\top)^{-1} D`.

Beyond the paper: a singular nuisance block. Its columns depend on a few independent ones,
:math:`\tilde J_\eta = \tilde J_P T`. A new row that keeps the dependence, :math:`b = T^\top b_P`, obeys the
formula with the independent columns alone. A row that breaks it opens a new nuisance direction, and
that direction can explain the whole row: the row adds nothing. Of a block of rows, only the combinations that
keep the dependence add information.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve, lstsq, solve_triangular

from sightline.arrays import FloatArray
from sightline.geometry.frame import Frame, IntegerRows, dense
from sightline.geometry.profile import Profile
from sightline.geometry.projection import Projection
from sightline.noise.laws import GaussianNoise
from sightline.numerics import integers as exact
from sightline.numerics.decision import Decision
from sightline.numerics.rank import missing

_UNIT = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Increment:
    """The gain of appending a release to a transcript whose other noise stays as it is.

    Entries of ``contrast`` that rounding cannot tell from zero are zero. Then ``helps`` and ``gain`` come
    from exact fractions, or ``helps`` is undecided where these would be too large.
    """

    contrast: (
        FloatArray  # D: a row d for each new answer, or combination of them, that the nuisance lets through
    )
    gain: FloatArray  # what the profiled information grows by
    information: FloatArray  # the profiled information afterwards
    opens: int  # how many hidden directions of the target it reveals
    helps: Decision  # whether the profiled information grows at all (``eq:spine_iff``)
    relative_error: float  # bound on the relative error of the information afterwards, from rounding


@dataclass(frozen=True, kw_only=True, eq=False)
class Extension:
    """A profiled transcript, ready to be asked what further rows would add."""

    frame: Frame
    profile: Profile
    jacobian: Any
    integer_rows: Any

    def increment(self, rows: FloatArray, integers: IntegerRows | None, *, noise: GaussianNoise) -> Increment:
        """What rows (over all records) with this noise on them add."""
        projection = self.profile.projection
        nuisance = self.frame.nuisance(rows)
        broken = self._broken_exactly(integers)
        breaking, broken = self._breaking(rows, nuisance, broken)
        kept = _surviving(_whiten(breaking, noise), broken=broken)
        contrast, gain, error = _contrast_and_gain(
            projection,
            kept.T @ _whiten(self.frame.target(rows), noise),
            kept.T @ _whiten(nuisance[:, self.profile.basis], noise)[:, projection.order],
            roundoff=self._roundoff,
        )
        opens = self._opens(integers, broken)
        if opens is None:
            opens, error = 0, math.inf  # real-valued rows may open a direction: that takes a new profile
        elif opens == 0 and not self.profile.combinations:
            # Nothing was revealed and nothing is: what is left of the contrast is rounding.
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
        """The part of new rows that the dependence among nuisance columns does not explain, and its rank."""
        disagreement = self.frame.disagreement(rows)
        basis = self.profile.basis
        unexplained = np.zeros((len(rows), 0))
        if basis.size < nuisance.shape[1]:
            T = self._dependence
            unexplained = nuisance - nuisance[:, basis] @ T
            lengths = np.linalg.norm(self.frame.nuisance(self.jacobian), axis=0)
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
        if integers is None or self.integer_rows is None or self.frame.coefficients is not None:
            return None
        disagreement = self.frame.disagreement(integers)
        if self.profile.basis.size == self.frame.kept.size:
            return exact.rank(disagreement)
        return self._nuisance_rows.beyond(integers[:, self.frame.kept], alongside=disagreement)

    def _opens(self, integers: IntegerRows | None, broken: int) -> int | None:
        """How many more directions of the target are identifiable afterwards, if that is known exactly."""
        if self.profile.decision is Decision.YES:
            return 0
        if self._broken_exactly(integers) is not None and integers is not None:
            columns = np.concatenate([self.frame.kept, self.frame.support])
            disagreement = self.frame.disagreement(integers)
            return self._all_rows.beyond(integers[:, columns], alongside=disagreement) - broken
        return None

    @property
    def _roundoff(self) -> float:
        """What rounding leaves of a difference that is zero, relative to its parts."""
        columns = max(8, self.profile.basis.size)
        return 8 * columns * _UNIT * max(self.profile.projection.nuisance_inverse_norm, 1.0)

    @cached_property
    def _dependence(self) -> FloatArray:
        """T: the nuisance columns as combinations of the independent ones."""
        nuisance = self.frame.nuisance(self.jacobian)
        basis = self.profile.basis
        solution: FloatArray = lstsq(nuisance[:, basis], nuisance, lapack_driver="gelsy")[0]
        solution[:, basis] = np.eye(basis.size)
        return solution

    @cached_property
    def _nuisance_rows(self) -> exact.RowEchelon:
        return exact.echelon(dense(self.integer_rows[:, self.frame.kept]))

    @cached_property
    def _all_rows(self) -> exact.RowEchelon:
        columns = np.concatenate([self.frame.kept, self.frame.support])
        return exact.echelon(dense(self.integer_rows[:, columns]))


def _ratios(of: FloatArray, to: FloatArray) -> FloatArray:
    """How large coefficients naturally are that express columns by others: the ratios of their lengths."""
    ratios: FloatArray = of[None, :] / to[:, None]
    return ratios


def _whiten(rows: FloatArray, noise: GaussianNoise) -> FloatArray:
    return rows / noise.scales[:, None]


def _surviving(breaking: FloatArray, *, broken: int) -> FloatArray:
    """Orthonormal combinations of new rows (as columns) that keep the dependence of the nuisance.

    ``broken`` is the rank of ``breaking``, the part of the rows that the dependence does not explain.
    """
    lines = breaking.shape[0]
    if broken == 0:
        return np.eye(lines)
    # All left singular vectors; the right ones are as many as there are records.
    left, _, _ = np.linalg.svd(breaking, full_matrices=breaking.shape[1] < lines)
    kept: FloatArray = left[:, broken:]
    return kept


def _contrast_and_gain(
    projection: Projection, target: FloatArray, independent: FloatArray, *, roundoff: float
) -> tuple[FloatArray, FloatArray, float]:
    """D, the gain and its relative error, of whitened rows: A is ``target``, B is ``independent``.

    The error is infinite if some entry of D is neither exactly zero nor clear of rounding.
    """
    V = projection.coefficients
    contrast = target - independent @ V
    # A difference no larger than the rounding of its parts is none. Coefficients are rounded relative to the
    # lengths of the columns: one that should be zero is not.
    lengths, columns = projection.lengths, projection.order.size
    size = np.abs(target) + np.abs(independent) @ (np.abs(V) + _ratios(lengths[columns:], lengths[:columns]))
    unclear = (np.abs(contrast) <= roundoff * size) & (size > 0)
    contrast[unclear] = 0.0
    width = target.shape[1]
    if not np.any(contrast):
        return contrast, np.zeros((width, width)), math.inf if np.any(unclear) else 0.0
    lost = np.linalg.norm(roundoff * size, axis=0)
    left = np.linalg.norm(contrast, axis=0)
    error = float(np.max(np.divide(2 * lost, left, out=np.full(width, np.inf), where=left > 0)))
    reach = np.zeros((0, len(target)))
    if independent.shape[1]:
        reach = solve_triangular(projection.triangle, independent.T, trans="T", check_finite=False)
    spread = np.eye(len(target)) + reach.T @ reach
    gain: FloatArray = contrast.T @ cho_solve(cho_factor(spread), contrast)
    return contrast, gain, error + 2 * roundoff
