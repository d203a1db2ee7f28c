"""The exposure of a target: which combinations of it are revealed, how precisely, and by which recipe."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sightline.arrays import FloatArray, IndexArray
from sightline.errors import require
from sightline.geometry.frame import Frame, IntegerRows, WhitenedRows, dense, kinds
from sightline.geometry.increment import Extension, Increment
from sightline.geometry.profile import Combination, Profile, Question, profile
from sightline.geometry.projection import (
    ENCLOSED_ERROR,
    Enclosed,
    as_doubles,
    enclose,
    exact_information,
)
from sightline.noise.laws import GaussianNoise
from sightline.numerics.integers import decide_columns
from sightline.numerics.rank import Decision, Evidence, Rank
from sightline.releases.query import Query

# Above this bound on the relative error, ball arithmetic replaces double precision.
_POOR = 1e-6


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


@dataclass(frozen=True, kw_only=True, eq=False)
class Exposure:
    r"""What the transcript reveals of a target when everything else is nuisance.

    ``information`` is :math:`I_{\mathrm{eff}}^{(\theta)}` (``eq:Ieff_def``). ``crb`` is the trace of its
    inverse (``eq:crb_trace``): finite only where ``identifiable`` is yes, infinite where it is no, and NaN
    where the rows do not decide. Part of a target may be revealed while the whole is not: see ``directions``.
    """

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
    def recipe(self) -> FloatArray | None:
        """Weights over the answers of the best linear unbiased attack, a row for each coordinate.

        ``None`` unless the whole target is identifiable.
        """
        if self.identifiable is not Decision.YES:
            return None
        return np.stack([direction.recipe for direction in self.directions])

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
        step = self._extension.increment(rows, integers, noise=stddevs)
        # Another profile does not help where this one is as poor and too large for ball arithmetic.
        if step.relative_error < max(_POOR, 4 * self.relative_error) < 1:
            return replace(
                step,
                information=self.information + step.gain,
                relative_error=self.relative_error + step.relative_error,
            )
        return self._profiled_again(step, rows, integers, stddevs)

    def _profiled_again(
        self, step: Increment, rows: FloatArray, integers: IntegerRows | None, noise: GaussianNoise
    ) -> Increment:
        """The increment from a profile of all rows, for when the update formula loses digits."""
        after = self._extended(rows, integers, noise)
        if after.identifiable is Decision.UNDECIDED:
            return replace(step, helps=Decision.UNDECIDED, relative_error=math.inf)
        helps, gain = Decision.UNDECIDED, step.gain
        if step.relative_error == 0.0:
            helps = step.helps  # the contrast is exactly zero
        elif self._exact_information is not None and after._exact_information is not None:
            difference = after._exact_information - self._exact_information
            helps, gain = Decision.YES if difference else Decision.NO, as_doubles(difference)
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
        whole = None
        if integers is not None and old.integer_rows is not None:
            whole = np.vstack([dense(old.integer_rows), integers])
        law = old.noise if old.noise.correlated else GaussianNoise(stddevs=old.noise.scales)
        together = WhitenedRows(
            jacobian=np.vstack([dense(old.jacobian), rows]),
            noise=law.append(noise.stddevs),
            dimension=old.dimension,
            integer_rows=whole,
        )
        representatives, place = kinds(together.pattern, self.frame.others)
        frame = replace(self.frame, representatives=representatives, place=place)
        profiled = profile(Question(frame=frame, rows=together))
        return Exposure(labels=self.labels, geometry=together, frame=frame, profile=profiled)

    @cached_property
    def _exact_information(self) -> Any:
        """The information in exact fractions; ``None`` if these would be too large, or for a functional."""
        if self.frame.coefficients is not None or self.identifiable is Decision.UNDECIDED:
            return None
        jacobian, own = self.geometry.jacobian, self._own_noise
        nuisance = self.frame.nuisance(jacobian)[own][:, self.profile.basis]
        return exact_information(self.frame.target(jacobian)[own], nuisance, self._noise)

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
        noise, own = self.geometry.noise, self._own_noise
        return noise.covariance[np.ix_(own, own)] if noise.correlated else noise.scales

    @cached_property
    def _combinations(self) -> FloatArray:
        return np.array(self.profile.combinations, dtype=np.float64).reshape(-1, len(self.labels))

    @cached_property
    def _rounding(self) -> float:
        """Bound on the relative error in double precision."""
        if self.identifiable is Decision.UNDECIDED:
            return math.inf
        along, _, inverse = self._factors
        rounding = self.frame.rounding(self.geometry.whitened)
        if rounding is not None:  # of the independent nuisance columns, then of the target's
            target = rounding[rounding.size - len(self.labels) :]
            rounding = np.concatenate([rounding[self.profile.basis], target])
        return self.profile.projection.error_bound(
            along, inverse, noise_error=self.geometry.noise.relative_error, cancelled=rounding
        )

    @cached_property
    def _enclosed(self) -> Enclosed | None:
        """The result in ball arithmetic, if double precision may have lost too many digits."""
        combinations = self.profile.combinations
        exact = [[Fraction(entry) for entry in row] for row in combinations if isinstance(row[0], Fraction)]
        if self._rounding < _POOR or len(exact) < max(len(combinations), 1):
            return None
        frame = self.frame
        functional, nuisance = exact, frame.representatives
        if frame.coefficients is None:
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
    def _extension(self) -> Extension:
        return Extension(frame=self.frame, profile=self.profile, rows=self.geometry)

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
