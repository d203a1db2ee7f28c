"""Exact composition of Gaussian releases, where each record pays only for the releases that it is in."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar

from sightline.arrays import FloatArray
from sightline.privacy.accountant import OUTWARD, Accountant
from sightline.privacy.budget import Budget
from sightline.privacy.gaussian_curve import largest_mu_squared, smallest_epsilon


@dataclass(frozen=True)
class PerRecord(Accountant):
    r"""Gaussian releases with noise such that the record that is in most of them keeps the budget exactly.

    If who is in which release is public and fixed, a change of record j's secrets moves the answers by at
    most :math:`\Delta_{j\ell}`, which is zero where j takes no part. The two transcripts are a
    Gaussian pair at distance :math:`\mu_j`, :math:`\mu_j^2 = \sum_\ell \Delta_{j\ell}^2/\sigma_\ell^2`, so
    the budget holds exactly if :math:`\mu_j \le \mu_{\rm tot}` for every record. With noise in proportion to
    sensitivity this is :math:`\kappa = L/\mu_{\rm tot}^2`, where the count L is
    :math:`\max_j \sum_\ell \Delta_{j\ell}^2/\Delta_\ell^2`: the most releases that one record is in.

    >>> budget = Budget(epsilon=1.0, delta=1e-5)
    >>> round(PerRecord(budget).kappa(3), 9)
    41.752837184
    """

    budget: Budget
    mu_squared: float = field(init=False)
    theorem: ClassVar[str] = (
        "exact for independent Gaussian noise, if it is public and fixed who is in which release"
    )
    linear: ClassVar[bool] = True
    counts_own_releases: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "mu_squared", largest_mu_squared(self.budget.epsilon, self.budget.delta))

    def _kappa_of_counts(self, counts: FloatArray) -> FloatArray:
        return counts / self.mu_squared * OUTWARD

    def _kappa_of_shares(self, shares: FloatArray) -> FloatArray:
        return 1 / (self.mu_squared * shares) * OUTWARD

    def _epsilon(self, releases: int, noise_multiplier: float) -> float:
        return smallest_epsilon(releases / Fraction(noise_multiplier) ** 2, self.budget.delta)
