r"""Eigenvalues of the signal :math:`A_L`: the least determined combination of values, and its growth.

.. math:: \mathrm{CRB}(L) = \kappa_L \sum_k \lambda_k(A_L)^{-1}

(``rem:lever2_mixed_regime``). One direction whose eigenvalue does not grow faster than :math:`\kappa_L` is
enough to make the curve rise for large L. Eigenvalues are squared singular values of the rows.

What theory predicts for many releases: :math:`\mathrm{CRB}(L) \approx C\,\kappa_L L^p`.

Moments: the information on an interior value converges, so :math:`p = 0` if there is one. Only if all values
are on the boundary, :math:`p = -3`. Thresholds on a dense grid: :math:`p = -1`. The growth of
:math:`\kappa_L` then decides whether the curve rises, stays or falls (``cor:lever2_spectral_consequences``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

import numpy as np

from sightline.arrays import FloatArray, IndexArray
from sightline.errors import require
from sightline.noise.pricing import unit_noise
from sightline.privacy.accountant import Accountant
from sightline.theory.multiset.family import Family, rounding
from sightline.theory.multiset.moments import Moments, moment_limit_trace
from sightline.theory.multiset.thresholds import Thresholds, dense_grid_trace


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Bottleneck:
    """The least determined unit combination of sorted values; NaN if no digit is reliable."""

    releases: int
    direction: FloatArray  # coefficients of the sorted values; the largest is positive
    eigenvalue: float
    share: float  # of the whole bound

    def __str__(self) -> str:
        parts = [f"{c:+.3f}·z{k + 1}" for k, c in enumerate(self.direction) if abs(c) >= 5e-4]
        return f"{' '.join(parts)} carries {100 * self.share:.1f} % of the bound at {self.releases} releases"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Growth:
    r"""The smallest eigenvalue against the noise: the bound falls where the ratio's exponent is positive.

    ``exponent`` is the slope of :math:`\ln(\lambda_{\min}(A_L)/\kappa_L)` over :math:`\ln L` from one count
    to the next (``cor:lever2_spectral_consequences``).
    """

    releases: IndexArray
    smallest_eigenvalue: FloatArray
    kappa: FloatArray

    @property
    def ratio(self) -> FloatArray:
        r""":math:`\lambda_{\min}(A_L)/\kappa_L`."""
        return self.smallest_eigenvalue / self.kappa

    @property
    def exponent(self) -> FloatArray:
        """The slopes between neighbouring counts; NaN where an eigenvalue is zero or unreliable."""
        with np.errstate(divide="ignore", invalid="ignore"):
            steps: FloatArray = np.diff(np.log(self.ratio)) / np.diff(np.log(self.releases))
        return steps


def eigenvalues(values: FloatArray, *, family: Family, counts: IndexArray) -> FloatArray:
    """Eigenvalues of the signal of one sorted group, descending, ``(counts, m)``.

    Counts below m leave m - L eigenvalues exactly zero; NaN where rounding is as large as the singular value.
    """
    m = len(values)
    table = np.zeros((len(counts), m))
    nested = family.rows(values[None], int(counts[-1]))[0] if family.nested else None
    triangle = np.zeros((0, m))
    before = 0
    for i, count in enumerate(counts):
        if nested is None:
            rows = family.rows(values[None], int(count))[0]
        else:
            # The triangle replaces all earlier rows: the singular values are the same, with at most 2m rows.
            rows = np.concatenate([triangle, nested[before:count]])
            triangle = np.asarray(np.linalg.qr(rows, mode="r"))
            before = int(count)
        singular = np.linalg.svd(rows, compute_uv=False)
        resolved = singular > _resolution(family, int(count)) * singular[0]
        table[i, : len(singular)] = np.where(resolved, singular**2, np.nan)
    table.setflags(write=False)
    return table


def _resolution(family: Family, count: int) -> float:
    """The relative singular value below which the error of an eigenvalue may exceed one per cent."""
    return 200 * rounding(family, count)


def bottleneck(values: FloatArray, *, family: Family, count: int) -> Bottleneck:
    """The right singular vector of the smallest singular value of the rows."""
    require(
        count >= len(values),
        f"at least as many releases as values ({len(values)})",
        got=count,
        fix="with fewer, the releases do not determine some combination",
    )
    _, singular, right = np.linalg.svd(family.rows(values[None], count)[0], full_matrices=False)
    direction = right[-1] * np.sign(right[-1][np.argmax(np.abs(right[-1]))])
    if 0 < singular[-1] <= _resolution(family, count) * singular[0]:
        direction, singular = np.full(len(values), np.nan), np.full(len(values), np.nan)
    direction.setflags(write=False)
    with np.errstate(divide="ignore", invalid="ignore"):
        weights = (singular[-1] / singular) ** 2
    return Bottleneck(
        releases=count,
        direction=direction,
        eigenvalue=float(singular[-1] ** 2),
        share=1.0 if singular[-1] == 0 else float(1.0 / np.sum(weights)),
    )


_FAR = 2**20  # the release count at which the growth of kappa is measured
_FLAT = 0.01  # a smaller slope of ln CRB over ln L counts as zero
# At this many bandwidths the squared slope of a logistic step has fallen to about 1/1000.
_LOGISTIC_REACH = 4.0


class Regime(Enum):
    """Where the values lie in their domain."""

    INTERIOR = "interior"
    MIXED = "mixed"
    BOUNDARY = "boundary"


class Trend(Enum):
    """What the curve does for large L."""

    RISES = "rises"
    FLAT = "stays"
    FALLS = "falls"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asymptotics:
    r"""The prediction :math:`\mathrm{CRB}(L) \approx C\,\kappa_L L^p` for large L."""

    regime: Regime
    constant: float
    power: int
    noise_power: float  # d ln κ_L / d ln L at a large L

    @property
    def trend(self) -> Trend:
        """What the curve does for large L under the given accountant."""
        slope = self.noise_power + self.power
        if abs(slope) <= _FLAT:
            return Trend.FLAT
        return Trend.RISES if slope > 0 else Trend.FALLS

    def crb(self, kappa: FloatArray, releases: FloatArray) -> FloatArray:
        """The predicted curve."""
        return np.asarray(self.constant * np.asarray(kappa) * np.asarray(releases, np.float64) ** self.power)


def regime(values: FloatArray, *, family: Moments | Thresholds) -> Regime:
    """Boundary values are ±R for moments; for thresholds, those whose step reaches beyond the domain."""
    if isinstance(family, Moments):
        edge = np.abs(values) >= family.bound
    else:
        reach = family.bandwidth * (1.0 if family.kernel == "compact" else _LOGISTIC_REACH)
        edge = np.abs(values) > family.bound - reach
    if edge.all():
        return Regime.BOUNDARY
    return Regime.MIXED if edge.any() else Regime.INTERIOR


def asymptotics(values: FloatArray, *, family: Family, accountant: Accountant) -> Asymptotics | None:
    """The prediction for one sorted group of different values; ``None`` for families without a theorem."""
    if len(np.unique(values)) < len(values):
        return None
    if isinstance(family, Moments):
        where = regime(values, family=family)
        if where is Regime.BOUNDARY:
            constant, power = _boundary_constant(len(values), family), -3
        else:
            constant, power = moment_limit_trace(values, family=family), 0
    elif isinstance(family, Thresholds) and isinstance(family.grid, str):
        where = regime(values, family=family)
        constant, power = 2 * family.bound * dense_grid_trace(values, family=family), -1
    else:
        return None
    near, far = unit_noise(accountant, _FAR), unit_noise(accountant, 2 * _FAR)
    return Asymptotics(regime=where, constant=constant, power=power, noise_power=math.log2(far / near))


def _boundary_constant(members: int, family: Moments) -> float:
    r"""lim L³ tr A_L⁻¹ for {R}, {-R} or {-R, R}, from Σ_{odd ℓ} ℓ² ≈ Σ_{even ℓ} ℓ² ≈ L³/6.

    One value: 4R²/(Σ w_ℓ), with Σ w_ℓ ≈ L³/3 (uniform) or 5L³/6 (tight). A pair: odd orders depend only on
    the sum of the values, even orders only on their difference. So the two eigenvalues are
    Σ_{odd} w_ℓ/(2R²) and Σ_{even} w_ℓ/(2R²).
    """
    even = 1.0 if family.convention == "uniform" else 4.0
    R2 = family.bound**2
    return 24 * R2 / (1 + even) if members == 1 else 12 * R2 * (1 + 1 / even)
