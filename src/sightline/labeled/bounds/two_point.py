r"""A target that is at either end of its domain: a coin, the least favourable prior by remaining uncertainty.

The lower end is the best of three bounds over :math:`v = r^2/4`, with the scalar risk :math:`f` and :math:`n`
records alike:

.. math:: f(G_{jj}), \qquad v\Bigl(1 - \frac1n\Bigr) + \frac1n f(n G_{jj}), \qquad
    v \cos^2 \Bigl(\frac{r \sqrt{I_j}}{2}\Bigr) \text{ for } r \sqrt{I_j} \le \pi .

The first holds whatever the others' values are, for Gaussian and Laplace noise alike: Laplace answers never
tell more of a coin than a Gaussian one with their information. The second needs a group of coins; under
Laplace noise its last term is left out. The third needs others with a density, whose precisions the engine
used.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sightline.arrays import FloatArray
from sightline.labeled.bounds.laplace import two_point_laplace_risk
from sightline.labeled.bounds.scalar_risk import MARGIN
from sightline.labeled.bounds.tables import two_point_table
from sightline.labeled.bounds.target import BoundedPrior, Seen, linear_upper


@dataclass(frozen=True, slots=True)
class TwoPointPrior(BoundedPrior):
    """``low`` or ``high``, each with probability one half.

    >>> seen = Seen(information=np.array([0.35**-2]), linear_information=np.array([0.35**-2]))
    >>> TwoPointPrior(0.0, 1.0).lower(seen).round(3).tolist()
    [0.225]
    """

    @property
    def name(self) -> str:
        return "two-point"

    @property
    def has_density(self) -> bool:
        return False

    @property
    def spread(self) -> str:
        return "at either end, with even chances,"

    @property
    def variance(self) -> float:
        return self.width**2 / 4

    def precision(self, information: FloatArray) -> FloatArray:
        return np.full_like(information, math.inf)

    def precision_excess(self, information: FloatArray) -> FloatArray:
        return np.zeros_like(information)

    def precision_slope(self, information: FloatArray) -> FloatArray:
        return np.zeros_like(information)

    def lower(self, seen: Seen) -> FloatArray:
        G, n = seen.information * self.width**2, np.asarray(seen.alike, dtype=np.float64)
        table = two_point_table()
        alone = 4 * table.lower(G)
        if (single := seen.one_laplace).any():
            exact = 4 * two_point_laplace_risk(G) * (1 - MARGIN)
            alone = np.where(single, np.maximum(alone, exact), alone)
        group = 1 - 1 / n + np.where(seen.gaussian, 4 * table.lower(n * G), 0.0) / n
        found = np.maximum(alone, group)
        if seen.hidden_information is not None:
            angle = np.sqrt(seen.hidden_information) * self.width / 2
            found = np.maximum(found, np.square(np.cos(np.minimum(angle, math.pi / 2))) * (1 - MARGIN))
        return np.where(G == 0, 1.0, np.minimum(found, self.upper(seen)))

    def upper(self, seen: Seen) -> FloatArray:
        return linear_upper(seen, self.variance)

    def lower_by_nats(self, nats: FloatArray) -> FloatArray:
        r"""After a mutual information of I nats: :math:`(1 - I/\ln 2)^{\ln 4}`, from the entropy left."""
        return np.asarray(np.maximum(1 - nats / math.log(2), 0.0) ** math.log(4))
