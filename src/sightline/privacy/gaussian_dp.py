"""Exact composition of Gaussian releases (Gaussian differential privacy)."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar

from sightline.arrays import FloatArray
from sightline.privacy.accountant import OUTWARD, Accountant
from sightline.privacy.budget import Budget
from sightline.privacy.gaussian_curve import largest_mu_squared, smallest_epsilon


@dataclass(frozen=True)
class GaussianDP(Accountant):
    r"""Gaussian releases, composed exactly: the least noise that meets the budget.

    :math:`L` releases of signal-to-noise ratio :math:`\Delta_2/\sigma` are together as distinguishable as one
    Gaussian pair at distance :math:`\mu = \sqrt{L}\,\Delta_2/\sigma` (Dong, Roth & Su 2022).
    With :math:`\mu_{\rm tot}` the largest distance that is :math:`(\epsilon, \delta)`-DP,
    :math:`\kappa_L = L/\mu_{\rm tot}^2`: linear in :math:`L`, and no valid accountant of equal Gaussian noise
    is below it. A share is a share of :math:`\mu_{\rm tot}^2`.

    >>> budget = Budget(epsilon=1.0, delta=1e-5)
    >>> round(GaussianDP(budget).kappa(20), 9)
    278.352247894
    """

    budget: Budget
    linear: ClassVar[bool] = True
    mu_squared: float = field(init=False)
    theorem: ClassVar[str] = "exact for independent Gaussian noise: composition loses nothing"

    def __post_init__(self) -> None:
        object.__setattr__(self, "mu_squared", largest_mu_squared(self.budget.epsilon, self.budget.delta))

    def _kappa_of_counts(self, counts: FloatArray) -> FloatArray:
        return counts / self.mu_squared * OUTWARD

    def _kappa_of_shares(self, shares: FloatArray) -> FloatArray:
        return 1 / (self.mu_squared * shares) * OUTWARD

    def _epsilon(self, releases: int, noise_multiplier: float) -> float:
        return smallest_epsilon(releases / Fraction(noise_multiplier) ** 2, self.budget.delta)
