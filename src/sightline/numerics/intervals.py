"""Half the width of a confidence interval, in standard errors, for what is known of the law of the error."""

from __future__ import annotations

import math
from statistics import NormalDist


def gaussian_factor(confidence: float) -> float:
    """Half the width of an interval, in standard errors, for a normal law.

    >>> round(gaussian_factor(0.95), 3)
    1.96
    """
    return NormalDist().inv_cdf(0.5 + confidence / 2)


def unimodal_factor(confidence: float) -> float:
    r"""The same for a symmetric law with one mode.

    Gauss's inequality: :math:`P(|X| \ge k\sigma) \le 4/(9k^2)` for :math:`k^2 \ge 4/3`.

    >>> round(unimodal_factor(0.95), 3)
    2.981
    """
    return max(math.sqrt(4 / (9 * (1 - confidence))), math.sqrt(4 / 3))


def any_law_factor(confidence: float) -> float:
    r"""The same for any law (Chebyshev's inequality): :math:`P(|X| \ge k\sigma) \le 1/k^2`.

    >>> round(any_law_factor(0.95), 3)
    4.472
    """
    return math.sqrt(1 / (1 - confidence))
