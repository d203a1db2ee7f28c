"""The exposure of a target: which combinations of it are revealed, how precisely, and by which recipe."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import cho_factor, cho_solve, lstsq, solve_triangular

from sightline.arrays import COARSE, FloatArray, IndexArray
from sightline.errors import require
from sightline.noise.laws import GaussianNoise
from sightline.numerics import integers as exact
from sightline.numerics.integers import decide_columns
from sightline.numerics.rank import Decision, Evidence, Rank, missing
from sightline.numerics.residuals import UNIT
from sightline.theory.geometry.frame import Frame, FunctionalFrame, IntegerRows, WhitenedRows, dense, kinds
from sightline.theory.geometry.profile import Combination, Profile, Question, profile
from sightline.theory.geometry.projection import (
    ENCLOSED_ERROR,
    Enclosed,
    Projection,
    as_doubles,
    enclose,
    exact_information,
)
from sightline.theory.releases.query import Query
from sightline.values import short_repr


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Increment:
    """The gain of one more release while the noise on the others stays the same.

    Entries of ``contrast`` that could be rounding are zero. Then ``helps`` and ``gain`` come from exact
    fractions, or ``helps`` is undecided if these would be too large.
    """

    __repr__ = short_repr

    contrast: FloatArray  # D: a row d for each combination of new answers that keeps the dependence
    gain: FloatArray  # the increase of the profiled information
    information: FloatArray  # the profiled information afterwards
    opens: int  # how many directions of the target become identifiable
    helps: Decision  # whether the profiled information grows at all (``eq:spine_iff``)
    relative_error: float  # bound on the relative error of the information afterwards, from rounding


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


def _rank_of_breaking(breaking: FloatArray, nuisance: FloatArray) -> int:
    """The rank, to rounding, of the part of new rows that breaks the dependence."""
    if not np.any(breaking):
        return 0
    lengths = np.linalg.norm(breaking, axis=1) + np.linalg.norm(nuisance, axis=1)
    values = np.linalg.svd(breaking / np.where(lengths > 0, lengths, 1.0)[:, None], compute_uv=False)
    return int(np.sum(values > missing(max(breaking.shape))))


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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Direction:
    """One signed combination of the target's coordinates that the answers reveal."""

    coefficients: Combination
    labels: tuple[str, ...]
    crb: float  # variance bound of a locally unbiased estimate of the combination
    recipe: FloatArray  # weights over the answers of the best linear unbiased estimate

    @property
    def rmse(self) -> float:
        """Square root of the bound: the estimate's standard error."""
        return math.sqrt(self.crb)

    def __str__(self) -> str:
        text = "".join(
            f" {'−' if c < 0 else '+'} {_factor(c)}{label}"
            for c, label in zip(self.coefficients, self.labels, strict=True)
            if c
        )
        return text[3:] if text.startswith(" +") else text[1:]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Exposure:
    r"""What the transcript reveals of a target when everything else is nuisance.

    ``information`` is :math:`I_{\mathrm{eff}}^{(\theta)}` (``eq:Ieff_def``). ``crb`` is the trace of its
    inverse (``eq:crb_trace``): finite only where ``identifiable`` is yes, infinite where it is no, and NaN
    where the rows do not decide. Part of a target may be revealed while the whole is not: see ``directions``.
    """

    __repr__ = short_repr

    labels: tuple[str, ...]
    geometry: WhitenedRows
    frame: Frame
    profile: Profile

    @property
    def identifiable(self) -> Decision:
        """Whether the answers determine every coordinate of the target, whatever the nuisance."""
        return self.profile.decision

    @property
    def evidence(self) -> Evidence:
        """The evidence for that decision."""
        return self.profile.evidence

    @property
    def nuisance_rank(self) -> Rank:
        """The rank of the nuisance columns."""
        return self.profile.nuisance

    @cached_property
    def information(self) -> FloatArray:
        """The profiled Fisher information of the target."""
        return self.profile.projection.information if self._enclosed is None else self._enclosed.information

    @property
    def relative_error(self) -> float:
        """Bound on the relative error of the information and of the bounds from rounding.

        The error of a matrix entry is relative to the square roots of its two diagonal entries. Infinite if
        double precision loses all digits and the problem is too large for ball arithmetic, or if undecided.
        """
        return self._rounding if self._enclosed is None else ENCLOSED_ERROR

    @cached_property
    def covariance(self) -> FloatArray:
        """The vector Cramér–Rao bound (``eq:crb_vector``), or all infinite / all NaN if there is none."""
        width = len(self.labels)
        if self.identifiable is Decision.UNDECIDED:
            return np.full((width, width), math.nan)
        if self.identifiable is Decision.NO:
            return np.full((width, width), math.inf)
        if self._enclosed is not None:
            return self._enclosed.covariance
        half = self._half_inverse @ np.eye(width)
        gram: FloatArray = half.T @ half
        return gram

    @property
    def crb(self) -> float:
        """The least mean squared error of a locally unbiased attack (``eq:crb_trace``, ``eq:crb_scalar``)."""
        return float(np.trace(self.covariance))

    @property
    def rmse(self) -> float:
        """Square root of ``crb``."""
        return math.sqrt(self.crb)

    @cached_property
    def directions(self) -> tuple[Direction, ...]:
        """The revealed combinations of the target's coordinates; empty if nothing is revealed."""
        directions = []
        for place, combination in enumerate(self.profile.combinations):
            if self._enclosed is not None:
                crb = float(self._enclosed.covariance[place, place])
                recipe = np.zeros(self.geometry.noise.outputs)
                recipe[self._own_noise] = self._enclosed.recipes[place]
            else:
                left, half_inverse = self._factors[1], self._half_inverse
                half = half_inverse @ np.array(combination, dtype=np.float64)
                whitened = self.profile.projection.unrotate((left @ half)[:, None])[:, 0]
                crb, recipe = float(half @ half), self.geometry.noise.recipe(whitened)
            directions.append(Direction(coefficients=combination, labels=self.labels, crb=crb, recipe=recipe))
        return tuple(directions)

    @property
    def recipe(self) -> FloatArray:
        """Weights over the answers of the best linear unbiased attack, a row for each coordinate.

        No rows unless the whole target is identifiable.
        """
        known = self.directions if self.identifiable is Decision.YES else ()
        return np.array([direction.recipe for direction in known]).reshape(-1, self.geometry.noise.outputs)

    def increment(self, query: Query, *, noise_stddev: ArrayLike) -> Increment:
        """What one more release would add while the noise on the others stays the same (``thm:spine``).

        ``noise_stddev`` is one number or one for each output. Under a fixed total budget one more release
        raises the noise on all others: for that comparison build another transcript.
        """
        require(
            self.identifiable is not Decision.UNDECIDED,
            "a decided exposure to add to",
            got="an undecided one",
            fix="the rows have no singular-value gap",
        )
        stddevs = GaussianNoise(stddevs=np.broadcast_to(np.asarray(noise_stddev), (query.outputs,)))
        rows, integers = self.geometry.rows_of(query)
        step = self._update(rows, integers, stddevs)
        # Another profile does not help where this one is as poor and too large for ball arithmetic.
        if step.relative_error < max(COARSE, 4 * self.relative_error) < 1:
            return replace(
                step,
                information=self.information + step.gain,
                relative_error=self.relative_error + step.relative_error,
            )
        return self._profiled_again(step, rows, integers, stddevs)

    def _update(self, rows: FloatArray, integers: IntegerRows | None, noise: GaussianNoise) -> Increment:
        r"""What rows over all records, with this noise, add, without a new profile.

        They append whitened rows :math:`[A\ B]` over target and nuisance. If the nuisance block is
        invertible, the information grows by :math:`D^\top (I + B I_{\eta\eta}^{-1} B^\top)^{-1} D` with
        :math:`D = A - B I_{\eta\eta}^{-1} I_{\eta\theta}` (``eq:spine_update``, there for one row).

        Beyond the paper: a singular nuisance block. Its columns depend on a few independent ones,
        :math:`\tilde J_\eta = \tilde J_P T`. A new row that keeps the dependence, :math:`b = T^\top b_P`,
        obeys the formula with the independent columns only. A row that breaks it introduces a new nuisance
        direction, which can explain the whole row, so the row adds nothing. Of a block of rows, only the
        combinations that keep the dependence add information.
        """
        projection = self.profile.projection
        nuisance = self.frame.nuisance(rows)
        exactly = integers is not None and not isinstance(self.frame, FunctionalFrame)
        breaking = self._breaking(rows, nuisance)
        broken = self._broken_exactly(integers) if exactly else _rank_of_breaking(breaking, nuisance)
        combinations = _keeping_dependence(_whiten(breaking, noise), broken=broken)
        contrast, gain, error = _contrast_and_gain(
            projection,
            combinations.T @ _whiten(self.frame.target(rows), noise),
            combinations.T @ _whiten(nuisance[:, self.profile.basis], noise)[:, projection.order],
            roundoff=self._roundoff,
        )
        some_hidden = self.profile.decision is not Decision.YES
        opens = self._opens(integers, broken) if exactly and some_hidden else 0
        if not exactly and (some_hidden or self.profile.basis.size < nuisance.shape[1]):
            # Real-valued rows may open a direction or break a dependence: that takes a new profile.
            error = math.inf
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

    def _breaking(self, rows: FloatArray, nuisance: FloatArray) -> FloatArray:
        """The part of new rows that breaks the dependence among nuisance columns."""
        disagreement = self.frame.disagreement(rows)
        basis = self.profile.basis
        unexplained = np.zeros((len(rows), 0))
        if basis.size < nuisance.shape[1]:
            T = self._dependence
            unexplained = nuisance - nuisance[:, basis] @ T
            lengths = np.linalg.norm(self.frame.nuisance(self.geometry.jacobian), axis=0)
            size = np.abs(nuisance) + np.abs(nuisance[:, basis]) @ (
                np.abs(T) + _ratios(lengths, lengths[basis])
            )
            unexplained[np.abs(unexplained) <= self._roundoff * size] = 0.0
        return np.hstack([disagreement, unexplained])

    def _broken_exactly(self, integers: Any) -> int:
        disagreement = self.frame.disagreement(integers)
        if self.profile.basis.size == self.frame.representatives.size:
            return exact.rank(disagreement)
        return self._nuisance_rows.beyond(integers[:, self.frame.representatives], alongside=disagreement)

    def _opens(self, integers: Any, broken: int) -> int:
        """How many more directions of the target are identifiable afterwards."""
        columns = np.concatenate([self.frame.representatives, self.frame.support])
        disagreement = self.frame.disagreement(integers)
        return self._all_rows.beyond(integers[:, columns], alongside=disagreement) - broken

    @property
    def _roundoff(self) -> float:
        """Bound on the rounding error of a difference, relative to its terms.

        Each of n reflectors of length m errs by at most (8m + 41)u of a column (Higham, lemma 19.2, with the
        constants of its proof); applied in blocks the error has the same form (section 19.5).
        """
        projection = self.profile.projection
        columns, lines = max(8, self.profile.basis.size), self.geometry.jacobian.shape[0]
        return float((4 * lines + 20) * columns * UNIT * max(projection.nuisance_inverse_norm, 1.0))

    @cached_property
    def _dependence(self) -> FloatArray:
        """T: the nuisance columns as combinations of the independent ones."""
        nuisance = self.frame.nuisance(self.geometry.jacobian)
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
        return exact.echelon(dense(self.geometry.pattern[:, columns]))

    def _profiled_again(
        self, step: Increment, rows: FloatArray, integers: IntegerRows | None, noise: GaussianNoise
    ) -> Increment:
        """The increment from a profile of all rows, for when the update formula loses digits."""
        after = self._extended(rows, integers, noise)
        if after.identifiable is Decision.UNDECIDED:
            return replace(step, helps=Decision.UNDECIDED, relative_error=math.inf)
        helps, gain = step.helps, step.gain
        if step.relative_error:  # else the contrast is exactly zero
            helps = Decision.UNDECIDED
            for before, now in zip(self._exact_information, after._exact_information, strict=False):
                helps, gain = Decision.YES if now - before else Decision.NO, as_doubles(now - before)
        return Increment(
            contrast=step.contrast,
            gain=gain,
            information=self.information if helps is Decision.NO else after.information,
            opens=max(len(after.profile.combinations) - len(self.profile.combinations), 0),
            helps=helps,
            relative_error=self.relative_error + after.relative_error,
        )

    def _extended(self, rows: FloatArray, integers: IntegerRows | None, noise: GaussianNoise) -> Exposure:
        old = self.geometry
        whole = None if integers is None else np.vstack([dense(old.pattern), integers])
        law = old.noise if old.noise.correlated else GaussianNoise(stddevs=old.noise.scales)
        together = WhitenedRows(
            jacobian=np.vstack([dense(old.jacobian), rows]),
            noise=law.append(noise.stddevs),
            dimension=old.dimension,
            integer_rows=whole,
        )
        representatives, kind_of = kinds(together.pattern, self.frame.others)
        frame = replace(self.frame, representatives=representatives, place=kind_of)
        profiled = profile(Question(frame=frame, rows=together))
        return Exposure(labels=self.labels, geometry=together, frame=frame, profile=profiled)

    @cached_property
    def _exact_information(self) -> list[Any]:
        """The information in exact fractions, unless these would be too large; not for a functional."""
        if isinstance(self.frame, FunctionalFrame) or self.identifiable is Decision.UNDECIDED:
            return []
        jacobian, own_noise = self.geometry.jacobian, self._own_noise
        nuisance = self.frame.nuisance(jacobian)[own_noise][:, self.profile.basis]
        return exact_information(self.frame.target(jacobian)[own_noise], nuisance, self._noise)

    @cached_property
    def _own_noise(self) -> IndexArray:
        """The answers whose noise is not a combination of the noise on others."""
        noise = self.geometry.noise
        if not noise.singular:
            return np.arange(noise.outputs)
        return np.flatnonzero(noise.whitener.any(axis=1))

    @property
    def _noise(self) -> FloatArray:
        """Scales of the noise on these answers, or its covariance matrix."""
        noise, own_noise = self.geometry.noise, self._own_noise
        return noise.covariance[np.ix_(own_noise, own_noise)] if noise.correlated else noise.scales

    @cached_property
    def _combinations(self) -> FloatArray:
        return np.array(self.profile.combinations, dtype=np.float64).reshape(-1, len(self.labels))

    @cached_property
    def _rounding(self) -> float:
        """Bound on the relative error in double precision."""
        if self.identifiable is Decision.UNDECIDED:
            return math.inf
        along, _, inverse = self._factors
        # Of the independent nuisance columns, then of the target's.
        nuisance, target = np.split(self.frame.rounding(self.geometry.whitened), [-len(self.labels)])
        rounding = np.concatenate([nuisance[self.profile.basis], target])
        return self.profile.projection.error_bound(
            along, inverse, noise_error=self.geometry.noise.relative_error, cancelled=rounding
        )

    @cached_property
    def _enclosed(self) -> Enclosed | None:
        """The result in ball arithmetic, if double precision may have lost too many digits."""
        combinations = self.profile.combinations
        exact = [[Fraction(entry) for entry in row] for row in combinations if isinstance(row[0], Fraction)]
        if self._rounding < COARSE or len(exact) < max(len(combinations), 1):
            return None
        frame = self.frame
        functional, nuisance = exact, frame.representatives
        if not isinstance(frame, FunctionalFrame):
            nuisance = nuisance[self.profile.basis]
        elif self.identifiable is Decision.YES:
            functional = [[Fraction(entry) for entry in row] for row in frame.coefficients.tolist()]
        else:
            return None
        columns = np.concatenate([nuisance, frame.support])
        whole = [[Fraction(0)] * nuisance.size + row for row in functional]
        pivots = decide_columns(dense(self.geometry.pattern[:, columns])[self._own_noise]).pivots
        rows = dense(self.geometry.jacobian[:, columns[pivots]])[self._own_noise].astype(np.float64)
        return enclose(rows, [[row[p] for p in pivots] for row in whole], exact, self._noise)

    @cached_property
    def _factors(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """What takes revealed combinations to the target's columns, and U and V S⁻¹ of E = U S Vᵀ on them."""
        along = np.eye(len(self.labels))
        if len(self._combinations) < len(self.labels):
            along = self.profile.projection.right_inverse(self._combinations)
        seen = self.profile.projection.residual @ along
        lengths = np.linalg.norm(seen, axis=0)
        left, values, right = np.linalg.svd(seen / np.where(lengths > 0, lengths, 1.0), full_matrices=False)
        with np.errstate(all="ignore"):  # where all digits are lost there is no bound
            return along, left, (right / values[:, None] / lengths).T

    @property
    def _half_inverse(self) -> FloatArray:
        along, _, inverse = self._factors
        return np.asarray(inverse.T @ along.T)


def _factor(coefficient: Fraction | float) -> str:
    size = abs(coefficient)
    if size == 1:
        return ""
    return f"{size}·" if isinstance(size, Fraction) else f"{size:.4g}·"
