r"""What an attacker believes about the records before any release, as a density that can be sampled.

Two such priors are ``sl.labeled.UniformPrior`` and ``sl.labeled.CosineSquaredPrior``.
"""

from __future__ import annotations

import math
from typing import Protocol, runtime_checkable

import numpy as np

from sightline.arrays import FloatArray


@runtime_checkable
class PriorDensity(Protocol):
    """The density of one record on the domain from ``low`` to ``high``. Records are independent."""

    @property
    def low(self) -> float: ...

    @property
    def high(self) -> float: ...

    @property
    def mean(self) -> float: ...

    @property
    def variance(self) -> float:
        """The risk of an attacker before any release."""

    @property
    def fisher_information(self) -> float:
        """J in van Trees' inequality; infinite if the density is not 0 at the bounds."""

    def density(self, values: FloatArray) -> FloatArray:
        """The density at values inside the domain."""

    def cdf(self, values: FloatArray) -> FloatArray:
        """The distribution function at values inside the domain."""

    def sample(self, shape: tuple[int, ...], *, generator: np.random.Generator) -> FloatArray:
        """Independent draws."""


def order_means(prior: PriorDensity, count: int) -> FloatArray:
    r"""Expected order statistics of ``count`` draws: the best guess at a multiset before any release.

    .. math:: \mathbb E[X_{(k)}] = m\tbinom{m-1}{k-1}\int x\,F^{k-1}(1-F)^{m-k} f\,dx

    >>> from sightline.labeled.bounds.uniform import UniformPrior
    >>> order_means(UniformPrior(-1.0, 1.0), 3).round(9).tolist()
    [-0.5, 0.0, 0.5]
    """
    nodes, weights = np.polynomial.legendre.leggauss(256)
    half = 0.5 * (prior.high - prior.low)
    x = prior.mean + half * nodes
    F, mass = prior.cdf(x), half * weights * prior.density(x)
    means = [
        count * math.comb(count - 1, k) * np.sum(x * F**k * (1 - F) ** (count - 1 - k) * mass)
        for k in range(count)
    ]
    return np.array(means)
