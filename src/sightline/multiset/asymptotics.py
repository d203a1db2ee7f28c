r"""What theory predicts for many releases: :math:`\mathrm{CRB}(L) \approx C\,\kappa_L L^p`.

Moments: the information on an interior value converges, so :math:`p = 0` if there is one. Only if all values
are on the boundary, :math:`p = -3`. Thresholds on a dense grid: :math:`p = -1`. The growth of
:math:`\kappa_L` then decides whether the curve rises, stays or falls (``cor:lever2_spectral_consequences``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

import numpy as np

from sightline.arrays import FloatArray
from sightline.multiset.family import Family
from sightline.multiset.moment_family import Moments
from sightline.multiset.moments import moment_limit_trace
from sightline.multiset.threshold_family import Thresholds
from sightline.multiset.thresholds import dense_grid_trace
from sightline.noise.pricing import unit_noise
from sightline.privacy.accountant import Accountant

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
