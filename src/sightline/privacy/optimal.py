r"""Optimal composition of releases with pure epsilons, alone and beside Gaussian noise.

A release with a pure :math:`\epsilon` tells two neighbours apart no better than a coin whose odds are
:math:`e^{\epsilon}` (Kairouz, Oh & Viswanath 2015): its loss is :math:`\pm\epsilon`, and
:math:`+\epsilon` has the chance :math:`1/(1 + e^{-\epsilon})`. So all of them lose at worst a sum
:math:`\Lambda` of such losses, and beside Gaussian noise of signal-to-noise ratio :math:`\mu`

.. math:: \delta(\epsilon) = \mathbb{E}\,\delta_\mu(\epsilon - \Lambda), \qquad
          \delta_0(t) = \max(0, 1 - e^t),

with the exact curve :math:`\delta_\mu` of Gaussian noise. For geometric noise on a count this is exact.

Laplace noise loses less than the coin. Its loss is :math:`\epsilon` with the chance :math:`\frac12`,
:math:`-\epsilon` with :math:`\frac12 e^{-\epsilon}`, and between them it has the density :math:`\frac14
e^{-(\epsilon - l)/2}`. Cut that into intervals of the width 2h and move what is in each to its ends, so that
the chances of both neighbours stay what they are: of :math:`A_j = \frac12 e^{-(\epsilon - l_j)/2}`,
:math:`\tanh(h/2)` goes to the lower and :math:`e^h \tanh(h/2)` to the upper end (Doroshenko et al. 2022: the
result tells no less). One interval makes the coin.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from sightline.arrays import ROUNDING, FloatArray
from sightline.privacy.accountant import Accountant, Budget
from sightline.privacy.gaussian_dp import smallest_epsilon
from sightline.privacy.law import Law
from sightline.values import frozen

# All terms are positive: with ``ROUNDING`` this covers their roundings, and those of the normal distribution.
_ABSOLUTE = 1e-14
_LONGEST = 2**16  # steps of the grid to either side; where they do not suffice, losses are rounded up more
_WASTE = 2e-4  # of the sum of squared losses, at most, that a grid may add
_LAPLACE_WASTE = 1e-3  # of the noise, that the intervals of a Laplace loss may add: ε/(6 m²) for m of them
_MOST_POINTS = 4096  # of the losses of equal Laplace releases; more of them count as coins


@frozen(eq=True)
class Losses:
    """The law of a sum of losses: the values that it takes, and their chances."""

    values: FloatArray
    chances: FloatArray

    def delta(self, epsilon: float, *, mu: float = 0.0) -> float:
        """An upper bound on δ(ε), beside Gaussian noise of signal-to-noise ratio μ."""
        with np.errstate(over="ignore"):
            curve = _gaussian_curve(epsilon - self.values, mu)
        return float(self.chances @ curve) * (1 + ROUNDING) + (_ABSOLUTE if mu else 0.0)


def _gaussian_curve(at: FloatArray, mu: float) -> FloatArray:
    if mu == 0:
        return np.asarray(np.maximum(0.0, -np.expm1(np.minimum(at, 0.0))), dtype=np.float64)
    from scipy.special import log_ndtr, ndtr  # few plans mix laws, and it takes long to import

    tail = np.exp(np.minimum(at + log_ndtr(-mu / 2 - at / mu), 0.0))
    return np.asarray(np.maximum(0.0, ndtr(mu / 2 - at / mu) - tail), dtype=np.float64)


def losses_of(epsilons: FloatArray, laplace: ArrayLike = False) -> Losses:
    """The law of the total loss of some pure epsilons, each rounded up to a grid; which are Laplace noise.

    >>> two = losses_of(np.array([1.0, 1.0]))
    >>> two.values.tolist(), two.chances.round(4).tolist()
    ([-2.0, 0.0, 2.0], [0.0723, 0.3932, 0.5344])
    """
    kinds = np.stack([epsilons, np.broadcast_to(np.asarray(laplace, dtype=np.float64), epsilons.shape)])
    (distinct, law), times = np.unique(kinds, axis=1, return_counts=True)
    step, steps = _grid(distinct, times, law > 0)
    largest = int(np.argmax(times))
    order = [largest, *(place for place in range(len(distinct)) if place != largest)]
    chances = np.ones(1)
    for place in order:
        each = int(times[place]), int(steps[place])
        chances = _with_losses(chances, *each, step, _intervals(*each, step) if law[place] else 1)
    there = np.flatnonzero(chances)
    values = np.asarray((there - (len(chances) - 1) / 2) * step, dtype=np.float64)
    return Losses(values=values, chances=chances[there])


def _grid(
    distinct: FloatArray,
    times: np.ndarray[tuple[int], np.dtype[np.intp]],
    laplace: np.ndarray[tuple[int], np.dtype[np.bool_]],
) -> tuple[float, FloatArray]:
    """A step, half of which the sum of losses is counted in, and each loss in steps of twice that."""
    total, squares = float(times @ distinct), float(times @ distinct**2)
    for parts in (*range(1, 11), *(2**power for power in range(4, 17))):
        step = max(float(distinct[0]) / parts, total / _LONGEST)
        steps = np.ceil(distinct / step * (1 - 1e-14))
        fine = bool(np.all((distinct <= 24 * _LAPLACE_WASTE * steps**2) | ~laplace))
        little = float(times @ (steps * step) ** 2) <= (1 + _WASTE) * squares
        if (fine and little) or step > distinct[0] / parts:
            break
    return step, steps


def _intervals(times: int, steps: int, step: float) -> int:
    """How many intervals of whole steps a Laplace loss is cut into."""
    wanted = math.sqrt(steps * step / (6 * _LAPLACE_WASTE))
    few = [m for m in range(1, 2 * steps + 1) if 2 * steps % m == 0 and m <= max(2, 4 * wanted)]
    enough = next((m for m in few if m >= wanted), few[-1])
    return enough if times * enough <= _MOST_POINTS else 1


def _with_losses(chances: FloatArray, times: int, steps: int, step: float, intervals: int) -> FloatArray:
    """The law with the losses of some equal releases added, cut into intervals of twice as many steps."""
    added = np.zeros(len(chances) + 2 * steps * times)
    stride = 2 * steps // intervals
    losses = _coins(times, steps * step) if intervals == 1 else _laplace(times, steps * step, intervals)
    if len(chances) == 1:
        added[::stride] = losses
        return added
    for step_number, chance in enumerate(losses.tolist()):
        added[stride * step_number : stride * step_number + len(chances)] += chance * chances
    return added


def _coins(times: int, epsilon: float) -> FloatArray:
    """Binomial chances: how many of some coins lose ε."""
    up = -math.log1p(math.exp(-epsilon))
    heads = np.arange(times + 1)
    ways = np.concatenate([[0.0], np.cumsum(np.log((times - heads[:-1]) / (heads[:-1] + 1)))])
    return np.asarray(np.exp(ways + heads * up + (times - heads) * (up - epsilon)))


def _laplace(times: int, epsilon: float, intervals: int) -> FloatArray:
    """The law of the sum of equal Laplace losses, over ends of intervals: sums of positive terms."""
    h = epsilon / intervals
    within = 0.5 * np.exp(-epsilon + h * np.arange(intervals)) * math.tanh(h / 2)
    one = np.append(within, 0.5) + np.append(0.5 * math.exp(-epsilon), within * math.exp(h))
    total = np.ones(1)
    for bit in f"{times:b}":
        total = np.convolve(total, total)
        total = np.convolve(total, one) if bit == "1" else total
    return total


def optimal_epsilon(
    epsilons: FloatArray, *, delta: float, mu_squared: float = 0.0, laplace: ArrayLike = False
) -> float:
    r"""The least :math:`\epsilon` at ``delta`` of releases with pure epsilons beside Gaussian noise.

    ``laplace`` says which of them have Laplace noise.

    >>> round(optimal_epsilon(np.full(100, 0.1), delta=1e-6), 4)  # they add up to 10
    4.7746
    """
    gaussian = smallest_epsilon(mu_squared, delta) if mu_squared > 0 else 0.0
    high = float(np.sum(epsilons)) * (1 + (8 + epsilons.size) * 2**-52) + gaussian
    losses, low, mu = losses_of(epsilons, laplace), 0.0, math.sqrt(mu_squared)
    for _ in range(60):  # more than a double has bits
        middle = (low + high) / 2
        low, high = (low, middle) if losses.delta(middle, mu=mu) <= delta else (middle, high)
    return high


@dataclass(frozen=True)
class OptimalComposition(Accountant):
    r"""Laplace releases whose losses compose exactly, but for rounding up, at the budget's :math:`\delta`.

    A share is a share of the sum of the epsilons, :math:`\epsilon_\ell = c\,s_\ell` with the largest
    :math:`c` that keeps to the budget; :math:`b_\ell = \Delta_{1,\ell}/\epsilon_\ell` as under
    :class:`~sightline.privacy.composition.LaplaceComposition`, which asks for as much for few releases.

    >>> optimal = OptimalComposition(Budget(epsilon=1.0, delta=1e-6))
    >>> round(math.sqrt(optimal.kappa(1)), 4), round(math.sqrt(optimal.kappa(100)), 2)
    (1.0, 41.49)
    """

    budget: Budget
    law: ClassVar[Law] = Law.LAPLACE
    theorem: ClassVar[str] = "the privacy loss distribution of Laplace noise, rounded up"

    def _kappa_of_counts(self, counts: FloatArray) -> FloatArray:
        distinct, where = np.unique(counts, return_inverse=True)
        totals = [_largest_total(self.budget, (1 / count,), (int(count),)) for count in distinct.tolist()]
        return np.asarray(((distinct / np.array(totals)) ** 2 * (1 + 1e-15))[where])

    def _kappa_of_shares(self, shares: FloatArray) -> FloatArray:
        distinct, times = np.unique(shares, return_counts=True)
        total = _largest_total(self.budget, tuple(distinct.tolist()), tuple(times.tolist()))
        return np.asarray((shares * total) ** -2.0 * (1 + 1e-15))

    def _epsilon(self, releases: int, noise_multiplier: float) -> float:
        each = np.full(releases, 1 / noise_multiplier)
        return optimal_epsilon(each, delta=self.budget.delta, laplace=True)


@lru_cache(maxsize=256)
def _largest_total(budget: Budget, shares: tuple[float, ...], times: tuple[int, ...]) -> float:
    """The largest sum of pure epsilons in these shares that keeps to the budget."""
    each = np.repeat(np.array(shares), np.array(times))
    low = budget.epsilon / (float(np.sum(each)) * (1 + (8 + each.size) * 2**-52))
    high = max(2.0, 2 * each.size) * low
    for _ in range(60):  # more than a double has bits
        middle = (low + high) / 2
        within = losses_of(each * middle, laplace=True).delta(budget.epsilon) <= budget.delta
        low, high = (middle, high) if within else (low, middle)
    return low
