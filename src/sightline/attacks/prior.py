r"""What an attacker believes of a record before any release: independent records on a stated domain."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from sightline.arrays import FloatArray
from sightline.attacks.estimates import checked_box
from sightline.labeled.bounds.cosine import CosineSquaredPrior


@runtime_checkable
class Prior(Protocol):
    """Independent records, all alike, on the domain from ``low`` to ``high``."""

    @property
    def low(self) -> float: ...

    @property
    def high(self) -> float: ...

    @property
    def mean(self) -> float: ...

    @property
    def variance(self) -> float:
        """The risk of an attacker who saw nothing."""

    @property
    def fisher_information(self) -> float:
        """What van Trees' inequality charges for the prior; infinite if the density jumps at a bound."""

    def density(self, values: FloatArray) -> FloatArray:
        """Inside the domain."""

    def cdf(self, values: FloatArray) -> FloatArray:
        """Inside the domain."""

    def sample(self, shape: tuple[int, ...], *, generator: np.random.Generator) -> FloatArray:
        """Independent draws."""


@dataclass(frozen=True, slots=True)
class UniformPrior:
    """Every value of the domain is as likely as any other.

    >>> UniformPrior(-1.0, 1.0).variance == 1 / 3
    True
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        checked_box((self.low, self.high))

    @property
    def mean(self) -> float:
        """The middle."""
        return 0.5 * (self.low + self.high)

    @property
    def variance(self) -> float:
        """A twelfth of the squared width."""
        return (self.high - self.low) ** 2 / 12

    @property
    def fisher_information(self) -> float:
        """Infinite: van Trees' inequality says nothing under this prior."""
        return math.inf

    def density(self, values: FloatArray) -> FloatArray:
        """Constant."""
        return np.full(np.shape(values), 1 / (self.high - self.low))

    def cdf(self, values: FloatArray) -> FloatArray:
        """A straight line."""
        return (values - self.low) / (self.high - self.low)

    def sample(self, shape: tuple[int, ...], *, generator: np.random.Generator) -> FloatArray:
        """Uniform draws."""
        return generator.uniform(self.low, self.high, shape)


@dataclass(frozen=True, slots=True)
class CosinePrior:
    r"""The density :math:`\frac2r\cos^2(\pi(x - c)/r)` on a domain of width r around c: the least informative
    one for van Trees' inequality, and the one behind the *remaining uncertainty* of membership designs.

    >>> prior = CosinePrior(-1.0, 1.0)
    >>> round(prior.variance, 6), round(prior.fisher_information, 6)
    (0.130691, 9.869604)
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        checked_box((self.low, self.high))

    @property
    def mean(self) -> float:
        """The middle."""
        return 0.5 * (self.low + self.high)

    @property
    def variance(self) -> float:
        r""":math:`r^2(1/12 - 1/(2\pi^2))`."""
        return CosineSquaredPrior(width=self.high - self.low).variance

    @property
    def fisher_information(self) -> float:
        r""":math:`4\pi^2/r^2`."""
        return CosineSquaredPrior(width=self.high - self.low).fisher_information

    def density(self, values: FloatArray) -> FloatArray:
        """The raised cosine."""
        width = self.high - self.low
        density: FloatArray = 2 / width * np.cos(np.pi * (values - self.mean) / width) ** 2
        return density

    def cdf(self, values: FloatArray) -> FloatArray:
        """Its integral."""
        t = (values - self.low) / (self.high - self.low)
        cdf: FloatArray = t - np.sin(2 * np.pi * t) / (2 * np.pi)
        return cdf

    def sample(self, shape: tuple[int, ...], *, generator: np.random.Generator) -> FloatArray:
        """Uniform draws through the inverse of the distribution function, by bisection."""
        wanted = generator.random(shape)
        low, high = np.full(shape, self.low), np.full(shape, self.high)
        for _ in range(53):
            middle = 0.5 * (low + high)
            above = self.cdf(middle) < wanted
            low, high = np.where(above, middle, low), np.where(above, high, middle)
        drawn: FloatArray = 0.5 * (low + high)
        return drawn


def order_means(prior: Prior, count: int) -> FloatArray:
    r"""Expected order statistics of ``count`` draws: the best guess at a multiset that was never seen.

    .. math:: \mathbb E[X_{(k)}] = m\tbinom{m-1}{k-1}\int x\,F^{k-1}(1-F)^{m-k} f\,dx

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
