r"""The prior of a yes or no, and the lower bounds that it gives. They also hold for attackers who round.

A record's value :math:`x \in \{0, 1\}` is one with probability :math:`p`. If all other records are known,
the releases say as much as :math:`y = x + n` with noise of variance :math:`1/G`. The best guess is the
posterior probability, and its risk is

.. math:: f(G) = \mathbb E\,[\pi(1 - \pi)]
    = p\,\mathbb E\,\sigma\bigl(-\lambda - \sqrt G\,t - \tfrac{G}{2}\bigr), \qquad
    \lambda = \ln\tfrac{p}{1-p},\ t \sim N(0, 1)

with the logistic function :math:`\sigma`. An attacker who knows less does no better. Laplace answers never
tell more of a coin than Gaussian ones with their information, so the bound holds for them, too: see the
theory page on priors. No sharper bound holds without more assumptions: far fewer releases than records can
determine sums of zeros and ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from sightline.arrays import FloatArray
from sightline.bounds.scalar_risk import REACH
from sightline.errors import require
from sightline.units.target import BoolArray, NoDensity, Seen, linear_upper

# The logarithm of the risk is concave in the logarithm of the information, so interpolation between nodes is
# a lower bound. Below the first node a chord from zero information is used, beyond the last one zero.
_LEAST, _MOST, _NODES = 1e-9, 5e3, 6_000
_FINEST = 0.25  # steps of the integral in standard deviations


@dataclass(frozen=True, slots=True, kw_only=True)
class CoinPrior(NoDensity):
    """A value that is one with probability ``share``, else zero.

    >>> seen = Seen(information=np.array([0.0, 4.0, 100.0]), linear_information=np.zeros(3))
    >>> CoinPrior().variance, CoinPrior().lower(seen).round(4).tolist()
    (0.25, [1.0, 0.4496, 0.0])
    """

    share: float = 0.5

    def __post_init__(self) -> None:
        require(0 < self.share < 1, "a share between 0 and 1", got=self.share)

    @property
    def width(self) -> float:
        """From no to yes."""
        return 1.0

    @property
    def variance(self) -> float:
        """v: the risk of an attacker who saw nothing."""
        return self.share * (1 - self.share)

    @property
    def name(self) -> str:
        return "coin"

    @property
    def fair(self) -> bool:
        """No: bounds that need even chances are those of :class:`~sightline.bounds.priors.TwoPointPrior`."""
        return False

    def lower(self, seen: Seen) -> FloatArray:
        r"""The better of two bounds, for n records with the target's signature.

        .. math:: \frac{f(G_{jj})}{v}, \qquad 1 - \frac1n + \frac{f(n G_{jj})}{n v} .

        The first is exactly the risk if all other records are known. The second holds because the best guess
        is the same for the whole group, and splitting the noise of their sum among them only helps the
        attacker; under Laplace noise its last term is left out.
        """
        alone, together = self.lower_bounds(seen.information, np.asarray(seen.alike), seen.gaussian)
        return np.minimum(np.maximum(alone, together), self.upper(seen))

    def upper(self, seen: Seen) -> FloatArray:
        return linear_upper(seen, self.variance)

    def lower_bounds(
        self, information: FloatArray, alike: FloatArray, gaussian: BoolArray | bool
    ) -> tuple[FloatArray, FloatArray]:
        """The bound if the others of the group are known, and the bound if they are not."""
        split = np.where(gaussian, self._risk(alike * information), 0.0)
        return self._risk(information), np.asarray(1 - 1 / alike + split / alike)

    def _risk(self, information: FloatArray) -> FloatArray:
        """f over v."""
        nodes, logarithms = _table(self.share)
        position = np.log(np.clip(information, _LEAST, _MOST))
        risk = np.exp(np.interp(position, nodes, logarithms))
        # Below the first node a chord from zero information; beyond the last one nothing is sure to remain.
        first = -np.expm1(logarithms[0])
        risk = np.where(information < _LEAST, 1 - first * (np.asarray(information) / _LEAST), risk)
        return np.where(information > _MOST, 0.0, risk)


@lru_cache(maxsize=64)
def _table(share: float) -> tuple[FloatArray, FloatArray]:
    nodes = np.linspace(math.log(_LEAST), math.log(_MOST), _NODES)
    logarithms = np.array([math.log(coin_risk(math.exp(node), share=share)) for node in nodes])
    for array in (nodes, logarithms):
        array.setflags(write=False)
    return nodes, logarithms


def coin_risk(information: float, *, share: float = 0.5) -> float:
    r"""The least risk of a guess at a coin seen in Gaussian noise, over its variance.

    By the trapezoidal rule, which converges faster than any power: the nearest poles are
    :math:`\pi/\sqrt G` from the line. The integrand is written around its peak at :math:`-\sqrt G/2`.

    >>> round(coin_risk(0.0), 12), round(coin_risk(1.0), 12)
    (1.0, 0.795945734366)
    """
    g = math.sqrt(information)
    step = _FINEST / max(1.0, g / 2)
    u = np.arange(-2 * REACH, 2 * REACH + step, step)
    tilt = math.log(share / (1 - share))
    # p φ(t) σ(−λ − g t − g²/2) with t = u − g/2: symmetric up to λ, and never the product of 0 and ∞.
    half = (tilt + g * u) / 2
    weights = np.exp(-(u**2) / 2 - g**2 / 8 + tilt / 2 - np.logaddexp(half, -half))
    return float((1 - share) * step * np.sum(weights) / math.sqrt(2 * math.pi) / (share * (1 - share)))


def logistic_upper(remaining: FloatArray, *, gaussian: bool, values: int = 2) -> FloatArray:
    r"""At least what a soft rounding of the best linear attack leaves, whose own share is :math:`\rho`.

    Of one of k values with even chances. The linear guess over its weight on the indicator x is
    :math:`t = x + e` with e of variance :math:`V = v\, \rho/(1 - \rho)`, made of other rows and of noise, and
    :math:`v = (k - 1)/k^2`. The attack guesses :math:`\sigma(\lambda(t - \tau))`. Since
    :math:`\sigma(z)^2 \le \tfrac14 e^z`, its share is at most :math:`e^{-\lambda/2}/(2 \sqrt v)` times a
    geometric mean of :math:`\mathbb E\, e^{\pm \lambda e}`, which is at most :math:`e^{\kappa \lambda^2 V/2}`
    under Gaussian noise, :math:`1/(1 - \kappa \lambda^2 V/2)` beside Laplace noise. With the best
    :math:`\lambda`:

    .. math:: \frac{k}{2\sqrt{k - 1}} \Bigl\{e^{-m^2/2}, \; \frac{e^{-cm}}{1 - c^2/2}\Bigr\}, \quad
        m^2 = \frac{k \ln(k - 1)}{2(k - 2)} \frac{1 - \rho}{\rho}, \quad c = \frac{\sqrt{1 + 2m^2} - 1}{m} .

    >>> logistic_upper(np.array([0.0, 0.1, 1.0]), gaussian=True).round(4).tolist()
    [0.0, 0.0111, 1.0]
    >>> logistic_upper(np.array([0.1]), gaussian=True, values=3).round(4).tolist()
    [0.0099]
    """
    share, k = np.clip(remaining, 1e-9, 1 - 1e-9), values
    rate = 1.0 if k == 2 else k * math.log(k - 1) / (2 * (k - 2))
    m = np.sqrt(rate * (1 - share) / share)
    c = (np.sqrt(1 + 2 * m**2) - 1) / m
    risk = np.exp(-(m**2) / 2) if gaussian else np.exp(-c * m) / (1 - c**2 / 2)
    return np.minimum(risk * (k / (2 * math.sqrt(k - 1)) * (1 + 1e-9)), 1.0)
