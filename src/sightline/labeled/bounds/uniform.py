"""The uniform prior: every value between the bounds is as likely."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sightline.arrays import FloatArray
from sightline.labeled.bounds.smooth import DensityBounds, DensityPrior
from sightline.labeled.bounds.tables import uniform_laplace_table, uniform_table
from sightline.labeled.bounds.van_trees import (
    UNIFORM_VARIANCE,
    uniform_bound,
    uniform_precision,
    uniform_precision_excess,
    uniform_precision_slope,
)
from sightline.labeled.bounds.weiss_weinstein import UNIFORM_AFFINITY

_BOUNDS = DensityBounds(
    scalar=uniform_table,
    laplace=uniform_laplace_table,
    van_trees=uniform_bound,
    added_precision=uniform_precision,
    precision_excess=uniform_precision_excess,
    precision_change=uniform_precision_slope,
    affinity=UNIFORM_AFFINITY,
    v=UNIFORM_VARIANCE,
    entropy_power=1 / (2 * math.pi * math.e),
)


@dataclass(frozen=True, slots=True)
class UniformPrior(DensityPrior):
    """Every value from ``low`` to ``high`` is as likely: what "knows only the bounds" means.

    >>> from sightline.labeled.bounds.target import Seen
    >>> noise = 0.35
    >>> seen = Seen(information=np.array([noise**-2]), linear_information=np.array([noise**-2]))
    >>> prior = UniformPrior(0.0, 1.0)
    >>> prior.lower(seen).round(3).tolist(), prior.upper(seen).round(3).tolist()
    ([0.587], [0.595])
    >>> UniformPrior(-1.0, 1.0).variance == 1 / 3
    True
    """

    bounds = _BOUNDS

    @property
    def name(self) -> str:
        return "uniform"

    @property
    def spread(self) -> str:
        return "spread evenly"

    @property
    def fisher_information(self) -> float:
        """J: infinite, since the density jumps at the bounds."""
        return math.inf

    def density(self, values: FloatArray) -> FloatArray:
        """Constant."""
        return np.full(np.shape(values), 1 / self.width)

    def cdf(self, values: FloatArray) -> FloatArray:
        """A straight line."""
        return (values - self.low) / self.width

    def sample(self, shape: tuple[int, ...], *, generator: np.random.Generator) -> FloatArray:
        """Independent draws."""
        return generator.uniform(self.low, self.high, shape)
