r"""The cos² prior on a domain, and the lower bounds that it gives.

On a domain of width :math:`r` the density :math:`\tfrac{2}{r}\cos^2(\pi x / r)` has the least Fisher
information of all densities: :math:`J = 4\pi^2/r^2`. Its variance is :math:`v = r^2(1/12 - 1/(2\pi^2))` and
its entropy :math:`\ln(2r) - 1`, an entropy power of :math:`N = 2r^2/(\pi e^3)`. Derivations: the theory page.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sightline.arrays import FloatArray
from sightline.errors import require


@dataclass(frozen=True, slots=True, kw_only=True)
class CosineSquaredPrior:
    """The cos² prior on a domain of a given width.

    >>> prior = CosineSquaredPrior(width=1.0)
    >>> round(prior.variance, 6), round(prior.fisher_information * prior.variance, 4)
    (0.032673, 1.2899)
    >>> round(prior.entropy_power / prior.variance, 4)
    0.9701
    """

    width: float
    low: float = 0.0  # where the domain begins; risks depend on the width alone

    @classmethod
    def between(cls, low: float, high: float) -> CosineSquaredPrior:
        """The prior on the domain from ``low`` to ``high``."""
        return cls(width=float(high) - float(low), low=float(low))

    def __post_init__(self) -> None:
        require(
            1e-130 <= self.width <= 1e130,
            "a domain (low, high) of finite width > 0",
            got=f"width {self.width}",
            fix="give the smallest and the largest value a record can have",
        )

    @property
    def high(self) -> float:
        """Where the domain ends."""
        return self.low + self.width

    @property
    def mean(self) -> float:
        """The middle of the domain."""
        return self.low + 0.5 * self.width

    def density(self, values: FloatArray) -> FloatArray:
        r""":math:`\tfrac{2}{r}\cos^2(\pi(x - c)/r)`, where c is the middle of the domain."""
        density: FloatArray = 2 / self.width * np.cos(np.pi * (values - self.mean) / self.width) ** 2
        return density

    def cdf(self, values: FloatArray) -> FloatArray:
        r""":math:`t - \sin(2\pi t)/(2\pi)` with :math:`t = (x - \text{low})/r`."""
        t = (values - self.low) / self.width
        cdf: FloatArray = t - np.sin(2 * np.pi * t) / (2 * np.pi)
        return cdf

    def sample(self, shape: tuple[int, ...], *, generator: np.random.Generator) -> FloatArray:
        """Independent draws: uniform numbers through the inverse of the cdf, by bisection."""
        wanted = generator.random(shape)
        low, high = np.full(shape, self.low), np.full(shape, self.high)
        for _ in range(53):
            middle = 0.5 * (low + high)
            above = self.cdf(middle) < wanted
            low, high = np.where(above, middle, low), np.where(above, high, middle)
        drawn: FloatArray = 0.5 * (low + high)
        return drawn

    @property
    def fisher_information(self) -> float:
        """J."""
        return 4 * math.pi**2 / self.width**2

    @property
    def variance(self) -> float:
        """v: the risk of an attacker who saw nothing."""
        return self.width**2 * (1 / 12 - 1 / (2 * math.pi**2))

    @property
    def entropy_power(self) -> float:
        """N: the variance of the Gaussian with the prior's entropy."""
        return 2 * self.width**2 / (math.pi * math.e**3)

    def group_bound(self, information: FloatArray, group_size: FloatArray | float = 1.0) -> FloatArray:
        r"""Lower bound on the risk over v of a record in a group of ``group_size`` with one signature.

        .. math:: \frac{N}{v} \cdot \frac{1 + (n - 1) N G_{jj}}{1 + n v G_{jj}},

        for every attack, even if all records outside the group are known. The attacker may also know the
        others of the group, so the bound is never below its value at :math:`n = 1`.
        """
        N, v, G = self.entropy_power, self.variance, information
        alone: FloatArray = N / v / (1 + v * G)
        together: FloatArray = N / v * (1 + (group_size - 1) * N * G) / (1 + group_size * v * G)
        return np.maximum(alone, together)

    def bound_by_loss(self, loss: FloatArray, group_size: FloatArray | float = 1.0) -> FloatArray:
        """None under this prior: zero."""
        return np.zeros_like(loss)
