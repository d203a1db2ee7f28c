r"""The cos² prior: values near the middle of the bounds are likelier.

On a domain of width :math:`r` the density :math:`\tfrac{2}{r}\cos^2(\pi x / r)` has the least Fisher
information of all densities: :math:`J = 4\pi^2/r^2`. Its variance is :math:`v = r^2(1/12 - 1/(2\pi^2))` and
its entropy :math:`\ln(2r) - 1`, an entropy power of :math:`N = 2r^2/(\pi e^3)`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sightline.arrays import FloatArray
from sightline.labeled.bounds.smooth import DensityBounds, DensityPrior
from sightline.labeled.bounds.tables import cosine_laplace_table, cosine_table
from sightline.labeled.bounds.van_trees import (
    COSINE_INFORMATION,
    COSINE_VARIANCE,
    cosine_bound,
    cosine_precision,
    cosine_precision_excess,
    cosine_precision_slope,
)
from sightline.labeled.bounds.weiss_weinstein import COSINE_AFFINITY

_BOUNDS = DensityBounds(
    scalar=cosine_table,
    laplace=cosine_laplace_table,
    van_trees=cosine_bound,
    added_precision=cosine_precision,
    precision_excess=cosine_precision_excess,
    precision_change=cosine_precision_slope,
    affinity=COSINE_AFFINITY,
    v=COSINE_VARIANCE,
    entropy_power=2 / (math.pi * math.e**3),
)


@dataclass(frozen=True, slots=True)
class CosineSquaredPrior(DensityPrior):
    """The cos² density from ``low`` to ``high``.

    >>> prior = CosineSquaredPrior(0.0, 1.0)
    >>> round(prior.variance, 6), round(prior.fisher_information * prior.variance, 4)
    (0.032673, 1.2899)
    """

    bounds = _BOUNDS

    @property
    def name(self) -> str:
        return "cos2"

    @property
    def spread(self) -> str:
        return "spread as cos², likelier in the middle,"

    @property
    def fisher_information(self) -> float:
        """J."""
        return COSINE_INFORMATION / self.width**2

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
