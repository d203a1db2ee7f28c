r"""The best weighted van Trees bound on the risk of a guess at one number, in closed form.

For any weight :math:`q` with :math:`\mathbb E\,q = 1` whose product with the prior density :math:`p` vanishes
at the ends of the domain, every guess at a number that is seen with Fisher information :math:`I` has the risk

.. math:: R \ge \frac{1}{I\,\mathbb E\,q^2 + \mathbb E\,[((qp)'/p)^2]} .

The best weight solves :math:`-(g'/p)' + I g/p = 1` for :math:`g = qp`, and then the bound is :math:`w(I) =
\int g`. It needs nothing but the information: it holds for every noise with that information, and for records
that are unknown, whose effect is to lower it. The *precision* :math:`D(I) = 1/w(I) - I` is what the prior
adds to the information; it rises from :math:`1/v` to the prior's own Fisher information. The domain here has
width 1. Derivations: the theory page on priors.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from sightline.arrays import FloatArray
from sightline.labeled.bounds.scalar_risk import MARGIN

UNIFORM_VARIANCE = 1 / 12
COSINE_VARIANCE = 1 / 12 - 1 / (2 * math.pi**2)
COSINE_INFORMATION = 4 * math.pi**2

# Below these informations the closed forms cancel: the weight that is best for no information serves there,
# and gives 1/(1/v + a I) with its own a = E q², which is at most w.
_LITTLE_UNIFORM, _SLOPE_UNIFORM = 1e-3, 1.2
_LITTLE_COSINE = 0.05


def uniform_bound(information: FloatArray) -> FloatArray:
    r"""For a uniform number.

    .. math:: w(I) = \frac1I \Bigl(1 - \frac{2}{\sqrt I} \tanh \frac{\sqrt I}{2}\Bigr)

    The best weight is :math:`q \propto 1 - \cosh(\sqrt I x) / \cosh(\sqrt I/2)` on :math:`[-1/2, 1/2]`.

    >>> (12 * uniform_bound(np.array([0.0, 1.0, 100.0]))).round(4).tolist()
    [1.0, 0.9092, 0.096]
    """
    little = information < _LITTLE_UNIFORM
    safe = np.where(little, 1.0, information)
    half = np.sqrt(safe) / 2
    closed = (1 - np.tanh(half) / half) / safe * (1 - MARGIN)
    return np.where(little, 1 / (1 / UNIFORM_VARIANCE + _SLOPE_UNIFORM * information), closed)


def uniform_precision(information: FloatArray) -> FloatArray:
    r""":math:`D(I) = 1/w(I) - I` of a uniform number, rounded up: about :math:`2\sqrt I`, not a difference.

    >>> uniform_precision(np.array([0.0, 1e8])).round(3).tolist()
    [12.0, 20004.001]
    """
    little = information < _LITTLE_UNIFORM
    safe = np.where(little, 1.0, information)
    half = np.sqrt(safe) / 2
    share = np.tanh(half) / half
    closed = safe * share / (1 - share) * (1 + MARGIN)
    return np.where(little, 1 / UNIFORM_VARIANCE + (_SLOPE_UNIFORM - 1) * information, closed)


def cosine_precision(information: FloatArray) -> FloatArray:
    r""":math:`D(I) = 1/w(I) - I` of a number with the cos² density, rounded up: at most its information."""
    return np.minimum(1 / cosine_bound(information) - information, COSINE_INFORMATION)


def cosine_bound(information: FloatArray) -> FloatArray:
    r"""For the cos² density, with :math:`k = \sqrt{I - \pi^2}`, which is imaginary below :math:`\pi^2`.

    .. math:: w(I) = \frac1I\Bigl(1 - \frac{4\pi^2}{I} + \frac{16\pi^2 k \coth(k/2)}{I^2}\Bigr)

    The weight 1 gives van Trees' own bound :math:`1/(I + 4\pi^2)`, which is below it.

    >>> (cosine_bound(np.array([0.0, 10.0, 1e4])) / COSINE_VARIANCE).round(4).tolist()
    [1.0, 0.7489, 0.003]
    """
    little = information < _LITTLE_COSINE
    safe = np.where(little, 1.0, information)
    square = safe - math.pi**2
    k = np.sqrt(np.abs(square))
    half = np.maximum(k / 2, 1e-8)  # k coth(k/2) and k cot(k/2) are both 2 to the last digit here
    ratio = 2 * half / np.where(square >= 0, np.tanh(half), np.tan(half))
    closed = (1 - COSINE_INFORMATION / safe + 4 * COSINE_INFORMATION * ratio / safe**2) / safe
    # The terms in brackets reach (4π²/I)², so that the last digits of the closed form are lost at small I.
    rounding = 16 * np.finfo(np.float64).eps * (1 + (COSINE_INFORMATION / safe) ** 2) / safe
    return np.where(little, 1 / (1 / COSINE_VARIANCE + cosine_slope() * information), closed - rounding)


@cache
def cosine_slope() -> float:
    r""":math:`\mathbb E\,q^2 / (\mathbb E\,q)^2` of the weight that is best for no information, rounded up.

    That weight is :math:`q(x) = \frac{1}{p(x)} \int_x^{1/2} t\,p(t)\,dt`, and :math:`\mathbb E\,q = v`.
    """
    x, masses = np.polynomial.legendre.leggauss(200)
    x, masses = x / 2, masses / 2
    density = 2 * np.square(np.cos(np.pi * x))
    # ∫ t p dt from x to 1/2, with p = 1 + cos 2πt.
    tail = (0.25 - x**2) / 2 - (x * np.sin(2 * np.pi * x)) / (2 * np.pi)
    tail -= (1 + np.cos(2 * np.pi * x)) / (4 * np.pi**2)
    return float(masses @ (tail**2 / density)) / COSINE_VARIANCE**2 * (1 + MARGIN)
