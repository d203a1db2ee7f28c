"""The exposure of a target: what of it can be singled out, how sharply, and by which recipe."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from sightline.arrays import FloatArray
from sightline.errors import require
from sightline.geometry.frame import Frame
from sightline.geometry.increment import Extension, Increment
from sightline.geometry.profile import Combination, Profile
from sightline.geometry.rows import WhitenedRows
from sightline.noise.laws import GaussianNoise
from sightline.numerics.decision import Decision, Evidence, Rank
from sightline.releases.query import Query


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
        """Whether every coordinate of the target can be told apart from the nuisance."""
        return self.profile.decision

    @property
    def evidence(self) -> Evidence:
        """What that decision rests on."""
        return self.profile.evidence

    @property
    def nuisance_rank(self) -> Rank:
        """How many directions of the answers the nuisance takes up."""
        return self.profile.nuisance

    @cached_property
    def information(self) -> FloatArray:
        """The profiled Fisher information of the target."""
        return self.profile.projection.information

    @property
    def relative_error(self) -> float:
        """Estimated relative error of the information from rounding."""
        return self.profile.projection.relative_error

    @cached_property
    def covariance(self) -> FloatArray:
        """The vector Cramér–Rao bound (``eq:crb_vector``), or all-infinite / all-NaN when there is none."""
        width = len(self.labels)
        if self.identifiable is Decision.UNDECIDED:
            return np.full((width, width), math.nan)
        if self.identifiable is Decision.NO:
            return np.full((width, width), math.inf)
        half = self._half_inverse @ np.eye(width)
        gram: FloatArray = half.T @ half
        return gram

    @property
    def crb(self) -> float:
        """Trace of the bound: the mean squared error no locally unbiased attack beats."""
        return float(np.trace(self.covariance))

    @property
    def rmse(self) -> float:
        """Square root of ``crb``."""
        return math.sqrt(self.crb)

    @cached_property
    def directions(self) -> tuple[Direction, ...]:
        """The revealed combinations of the target's coordinates, none if nothing is revealed."""
        found = []
        for combination in self.profile.combinations:
            half = self._half_inverse @ np.array(combination, dtype=np.float64)
            whitened = self.profile.projection.unrotate((self._left @ half)[:, None])[:, 0]
            direction = Direction(
                coefficients=combination,
                labels=self.labels,
                crb=float(half @ half),
                recipe=self.geometry.noise.recipe(whitened),
            )
            found.append(direction)
        return tuple(found)

    @property
    def recipe(self) -> FloatArray | None:
        """Weights over the answers of the best linear unbiased attack, a row for each coordinate.

        ``None`` unless the whole target is identifiable.
        """
        if self.identifiable is not Decision.YES:
            return None
        return np.stack([direction.recipe for direction in self.directions])

    def increment(self, query: Query, *, noise_stddev: ArrayLike) -> Increment:
        """What one more release would add, at its own noise, with the noise on the others as it is.

        ``noise_stddev`` is one number or one for each output. Under a fixed total budget a further release
        also raises the noise of all others: that comparison is another transcript, not an increment.
        """
        require(
            self.identifiable is not Decision.UNDECIDED,
            "a decided exposure to add to",
            got="an undecided one",
            fix="the rows have no singular-value gap",
        )
        stddevs = GaussianNoise(stddevs=np.broadcast_to(np.asarray(noise_stddev), (query.outputs,)))
        rows, integers = self.geometry.rows_of(query)
        return self._extension.increment(rows, integers, noise=stddevs)

    @cached_property
    def _extension(self) -> Extension:
        return Extension(
            frame=self.frame,
            profile=self.profile,
            jacobian=self.geometry.jacobian,
            integer_rows=self.geometry.integer_rows,
        )

    @cached_property
    def _factors(self) -> tuple[FloatArray, FloatArray]:
        """U and S⁻¹Vᵀ of the residual E = U S Vᵀ, on the revealed combinations only."""
        combinations = np.array(self.profile.combinations, dtype=np.float64).reshape(-1, len(self.labels))
        basis = np.eye(len(self.labels))
        if len(combinations) < len(self.labels):
            basis = np.linalg.qr(combinations.T)[0].T
        seen = self.profile.projection.residual @ basis.T
        lengths = np.linalg.norm(seen, axis=0)
        left, values, right = np.linalg.svd(seen / lengths, full_matrices=False)
        return left, (right / values[:, None] / lengths) @ basis

    @property
    def _left(self) -> FloatArray:
        return self._factors[0]

    @property
    def _half_inverse(self) -> FloatArray:
        return self._factors[1]


def _factor(coefficient: Fraction | float) -> str:
    size = abs(coefficient)
    if size == 1:
        return ""
    return f"{size}·" if isinstance(size, Fraction) else f"{size:.4g}·"
