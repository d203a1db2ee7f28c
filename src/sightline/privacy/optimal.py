r"""Optimal composition of releases with pure epsilons, alone and beside Gaussian noise.

A release with a pure :math:`\epsilon` tells two neighbours apart no better than a coin whose odds are
:math:`e^{\epsilon}` (Kairouz, Oh & Viswanath 2015): its loss is :math:`\pm\epsilon`, and
:math:`+\epsilon` has the chance :math:`1/(1 + e^{-\epsilon})`. So all of them lose at worst a sum
:math:`\Lambda` of such losses, and beside Gaussian noise of signal-to-noise ratio :math:`\mu`

.. math:: \delta(\epsilon) = \mathbb{E}\,\delta_\mu(\epsilon - \Lambda), \qquad
          \delta_0(t) = \max(0, 1 - e^t),

with the exact curve :math:`\delta_\mu` of Gaussian noise. For geometric noise on a count this is exact.
Laplace noise loses a little less than the coin: nothing to speak of for small epsilons, and 6 % of the noise
at worst up to a total of 10 (``benchmarks/bench_accountants.py``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from sightline.arrays import FloatArray
from sightline.privacy.accountant import Accountant, Budget, NoiseLaw
from sightline.privacy.gaussian_dp import smallest_epsilon

# All terms are positive; these cover their roundings, and those of the normal distribution.
_RELATIVE, _ABSOLUTE = 1e-9, 1e-14
_LONGEST = 2**16  # steps of the grid to either side; where they do not suffice, losses are rounded up more
_WASTE = 2e-4  # of the sum of squared losses, at most, that a grid may add
_HALVINGS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Losses:
    """The law of a sum of losses: the values that it takes, and their chances."""

    values: FloatArray
    chances: FloatArray

    def delta(self, epsilon: float, *, mu: float = 0.0) -> float:
        """An upper bound on δ(ε), beside Gaussian noise of signal-to-noise ratio μ."""
        with np.errstate(over="ignore"):
            curve = _gaussian_curve(epsilon - self.values, mu)
        return float(self.chances @ curve) * (1 + _RELATIVE) + (_ABSOLUTE if mu else 0.0)


def _gaussian_curve(at: FloatArray, mu: float) -> FloatArray:
    if mu == 0:
        return np.asarray(np.maximum(0.0, -np.expm1(np.minimum(at, 0.0))), dtype=np.float64)
    from scipy.special import log_ndtr, ndtr  # few plans mix laws, and it takes long to import

    tail = np.exp(np.minimum(at + log_ndtr(-mu / 2 - at / mu), 0.0))
    return np.asarray(np.maximum(0.0, ndtr(mu / 2 - at / mu) - tail), dtype=np.float64)


def losses_of(epsilons: FloatArray) -> Losses:
    """The law of the total loss of some pure epsilons, each rounded up to a grid.

    >>> two = losses_of(np.array([1.0, 1.0]))
    >>> two.values.tolist(), two.chances.round(4).tolist()
    ([-2.0, 0.0, 2.0], [0.0723, 0.3932, 0.5344])
    """
    distinct, times = np.unique(epsilons, return_counts=True)
    step, steps = _grid(distinct, times)
    largest = int(np.argmax(times))
    order = [largest, *(place for place in range(len(distinct)) if place != largest)]
    chances = np.ones(1)
    for place in order:
        chances = _with_coins(chances, int(times[place]), int(steps[place]), step)
    there = np.flatnonzero(chances)
    values = np.asarray((there - (len(chances) - 1) / 2) * step, dtype=np.float64)
    return Losses(values=values, chances=chances[there])


def _grid(distinct: FloatArray, times: np.ndarray[tuple[int], np.dtype[np.intp]]) -> tuple[float, FloatArray]:
    """A step, half of which the sum of losses is counted in, and each loss in steps of twice that."""
    total, squares = float(times @ distinct), float(times @ distinct**2)
    for parts in (*range(1, 11), *(2**power for power in range(4, 17))):
        step = max(float(distinct[0]) / parts, total / _LONGEST)
        steps = np.ceil(distinct / step * (1 - 1e-14))
        if float(times @ (steps * step) ** 2) <= (1 + _WASTE) * squares or step > distinct[0] / parts:
            break
    return step, steps


def _with_coins(chances: FloatArray, times: int, steps: int, step: float) -> FloatArray:
    """The law with the losses of some equal coins added: binomial chances, two times the steps apart."""
    up = -math.log1p(math.exp(-steps * step))
    down = up - steps * step
    heads = np.arange(times + 1)
    ways = np.concatenate([[0.0], np.cumsum(np.log((times - heads[:-1]) / (heads[:-1] + 1)))])
    binomial = np.exp(ways + heads * up + (times - heads) * down)
    found = np.zeros(len(chances) + 2 * steps * times)
    for place, chance in enumerate(binomial.tolist()) if len(chances) > 1 else ():
        found[2 * steps * place : 2 * steps * place + len(chances)] += chance * chances
    if len(chances) == 1:
        found[:: 2 * steps] = binomial
    return found


def optimal_epsilon(epsilons: FloatArray, *, delta: float, mu_squared: float = 0.0) -> float:
    r"""The least :math:`\epsilon` at ``delta`` of releases with pure epsilons beside Gaussian noise.

    >>> round(optimal_epsilon(np.full(100, 0.1), delta=1e-6), 4)  # they add up to 10
    4.7746
    """
    gaussian = smallest_epsilon(mu_squared, delta) if mu_squared > 0 else 0.0
    high = float(np.sum(epsilons)) * (1 + (8 + epsilons.size) * 2**-52) + gaussian
    losses, low, mu = losses_of(epsilons), 0.0, math.sqrt(mu_squared)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if losses.delta(middle, mu=mu) <= delta else (middle, high)
    return high


@dataclass(frozen=True)
class OptimalComposition(Accountant):
    r"""Laplace releases whose pure epsilons compose optimally at the budget's :math:`\delta`.

    A share is a share of the sum of the epsilons, :math:`\epsilon_\ell = c\,s_\ell` with the largest
    :math:`c` that keeps to the budget; :math:`b_\ell = \Delta_{1,\ell}/\epsilon_\ell` as under
    :class:`~sightline.privacy.composition.LaplaceComposition`, which asks for as much for few releases.

    >>> optimal = OptimalComposition(Budget(epsilon=1.0, delta=1e-6))
    >>> round(math.sqrt(optimal.kappa(1)), 4), round(math.sqrt(optimal.kappa(100)), 2)
    (1.0, 41.65)
    """

    budget: Budget
    law: ClassVar[NoiseLaw] = NoiseLaw.LAPLACE
    theorem: ClassVar[str] = "optimal composition of pure epsilons (Kairouz, Oh and Viswanath 2015)"

    def _kappa_of_counts(self, counts: FloatArray) -> FloatArray:
        distinct, where = np.unique(counts, return_inverse=True)
        totals = [_largest_total(self.budget, (1 / count,), (int(count),)) for count in distinct.tolist()]
        return np.asarray(((distinct / np.array(totals)) ** 2 * (1 + 1e-15))[where])

    def _kappa_of_shares(self, shares: FloatArray) -> FloatArray:
        distinct, times = np.unique(shares, return_counts=True)
        total = _largest_total(self.budget, tuple(distinct.tolist()), tuple(times.tolist()))
        return np.asarray((shares * total) ** -2.0 * (1 + 1e-15))

    def _epsilon(self, releases: int, noise_multiplier: float) -> float:
        return optimal_epsilon(np.full(releases, 1 / noise_multiplier), delta=self.budget.delta)


@lru_cache(maxsize=256)
def _largest_total(budget: Budget, shares: tuple[float, ...], times: tuple[int, ...]) -> float:
    """The largest sum of pure epsilons in these shares that keeps to the budget."""
    each = np.repeat(np.array(shares), np.array(times))
    low = budget.epsilon / (float(np.sum(each)) * (1 + (8 + each.size) * 2**-52))
    high = max(2.0, 2 * each.size) * low
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        within = losses_of(each * middle).delta(budget.epsilon) <= budget.delta
        low, high = (middle, high) if within else (low, middle)
    return low
