r"""What the prior of several rows adds to their information if a field moves them and keeps their sum.

Van Trees' bound for one row (:mod:`~sightline.bounds.van_trees`) needs a weight q of its value that vanishes
at both ends of the domain. The weight fluctuates, and a number that tells the row precisely charges for that:
:math:`D = (\mathbb E\,q^2 - 1)\,G + \dots`. Of m uniform rows that such numbers see as a sum it
need not. Take :math:`q = 6x(1 - x)` on a domain of width 1, :math:`s = \sum_j q_j`, and for a direction c
the field

.. math:: b = \operatorname{diag}(q)\Bigl(c - \frac{q^\top c}{s} 1\Bigr) + (1^\top c)\,\frac qs, \qquad
    1^\top b = 1^\top c .

It vanishes where a row is at an end, and its sum is constant. With :math:`P = 11^\top/m`, :math:`Q = I - P`
and :math:`\lambda \ge \lambda_{\max}(Q G Q)` for the rows of every group,

.. math:: \mathbb E \operatorname{Cov}(x \mid y) \succeq
    \Bigl(G + \bigoplus_{\text{groups}} (D_\parallel P + D_\perp Q)\Bigr)^{-1}, \qquad
    D_\parallel = J_\parallel + \lambda\,\tau_\parallel, \quad
    D_\perp = (J_\perp + \lambda\,\tau_\perp)/\mu^2 .

The proof and the constants are on the theory page on named records (*Rows that are seen as a sum*). They are
means of powers of s, which :math:`s^{-k} = \int_0^\infty t^{k-1} e^{-ts}\,dt/(k-1)!` makes integrals over one
variable. D is 13.7 for four rows, 12.2 for 24, and falls to 1/v = 12.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from sightline.arrays import FloatArray, IndexArray

LEAST_MEMBERS = 4  # of a group: of two rows the powers of 1/s have no mean, of three the rules are coarse
# Larger groups are cut into parts of at least this size, whose sums are kept as well.
_MOST_MEMBERS = 200
# Both rules agree with finer ones to 1e-7 (a test); D is rounded up by more, and to one of few values, so
# that it does not depend on the order of a sum.
_ROUNDED, _GRID = 1e-6, math.log1p(2e-4)


def grouped_precision(members: IndexArray, weak: FloatArray) -> FloatArray:
    """At least the larger of both D for groups of so many uniform rows of width 1, whose differences are seen
    with an information of at most ``weak``.

    Infinite for groups that are too small.

    >>> grouped_precision(np.array([3, 4, 24, 8760]), np.zeros(4)).round(2).tolist()
    [inf, 13.63, 12.12, 12.01]
    """
    sizes, size_of = np.unique(np.clip(members, LEAST_MEMBERS, _MOST_MEMBERS), return_inverse=True)
    along, slope, across, across_slope = np.array([_constants(m) for m in sizes.tolist()]).T[
        :, size_of.ravel()
    ]
    largest = np.maximum(along + slope * weak, across + across_slope * weak) * (1 + _ROUNDED)
    precision = np.exp(np.ceil(np.log(largest) / _GRID) * _GRID)
    return np.where(members >= LEAST_MEMBERS, precision, np.inf)


@cache
def _nodes(values: int = 200, powers: int = 600) -> tuple[FloatArray, ...]:
    """Rules for x on (0, 1) and t on (0, ∞), with q, its squared slope and exp(−tq)."""
    x, mass = np.polynomial.legendre.leggauss(values)
    x, mass = (x + 1) / 2, mass / 2
    q, slope = 6 * x * (1 - x), 6 * (1 - 2 * x)
    u, weight = np.polynomial.legendre.leggauss(powers)
    u = (u + 1) / 2
    t = 2 * u / (1 - u)
    return mass, q, slope**2, t, weight / (1 - u) ** 2, np.exp(-np.outer(t, q))


@cache
def _constants(m: int, rules: tuple[int, int] = (200, 600)) -> tuple[float, float, float, float]:
    """J and τ along the sum, and J/μ² and τ/μ² across it."""
    mass, q, d, t, weight, decay = _nodes(*rules)
    decayed = decay @ mass

    def mean(first: FloatArray, power: int, second: FloatArray | None = None) -> float:
        """Of a function of one row, times one of another row, over a power of s."""
        if power == 0:
            return float(mass @ first) * (1.0 if second is None else float(mass @ second))
        rest = decayed ** (m - 1) if second is None else (decay @ (mass * second)) * decayed ** (m - 2)
        heights = t ** (power - 1) / math.factorial(power - 1) * (decay @ (mass * first)) * rest
        return float(weight @ heights)

    def across(first: FloatArray, power: int) -> float:
        """Times 1 − 2q/s + Σq²/s², of the same row."""
        own = mean(first, power) - 2 * mean(first * q, power + 1) + mean(first * q**2, power + 2)
        return own + (m - 1) * mean(first, power + 2, q**2)

    along = m**2 * (mean(d, 2) - 2 * mean(d * q, 3) + mean(d * q**2, 4))
    spread = m**2 * mean(q**2, 2) - 1
    kept = (1 - mean(q**2, 1)) * m / (m - 1)
    each = m / (m - 1)
    moved = each * (across(d, 0) - 2 * across(d * q, 1) + across(d * q**2, 2))
    varied = each * across(q**2, 0) - kept**2
    return along, spread, moved / kept**2, varied / kept**2
