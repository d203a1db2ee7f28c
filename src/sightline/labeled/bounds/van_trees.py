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
_NEAR_SQUARE = 0.05  # |k²| below which k coth(k/2) is a short series
_LITTLE_SLOPE = 0.03  # below this information two terms of the slope's series are as good as its closed form


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


def uniform_precision_slope(information: FloatArray) -> FloatArray:
    r""":math:`D'(I)` of a uniform number: with :math:`r = \sqrt I/2`,

    .. math:: D' = D^2\,\frac{r \coth r + r^2/\sinh^2 r - 2}{32\, r^4} .

    >>> uniform_precision_slope(np.array([0.0, 1e8])).round(6).tolist()
    [0.2, 0.0001]
    """
    little = information < _LITTLE_SLOPE
    r = np.where(little, 1.0, np.sqrt(information) / 2)
    sinh = np.sinh(np.minimum(r, 300.0))  # its square does not overflow there, and r²/sinh² is nothing
    closed = (r / np.tanh(r) + (r / sinh) ** 2 - 2) / (32 * r**4)
    return np.where(little, 0.2 - information / 350, uniform_precision(information) ** 2 * closed)


def uniform_precision_excess(information: FloatArray) -> FloatArray:
    """How far :func:`uniform_precision` may be above the exact D, over it: it is rounded up."""
    return np.full_like(information, 2 * MARGIN)


def cosine_precision_excess(information: FloatArray) -> FloatArray:
    """How far :func:`cosine_precision` may be above the exact D, over it: it is rounded up.

    Below the closed form D is replaced by its tangent at 0, whose error grows with the square.
    """
    safe = np.maximum(information, _LITTLE_COSINE)
    rounding = 32 * np.finfo(np.float64).eps * (1 + (COSINE_INFORMATION / safe) ** 2) / safe
    closed = rounding / cosine_bound(safe) ** 2 * COSINE_VARIANCE  # D is at least 1/v
    tangent = 2e-6 * (information / _LITTLE_COSINE) ** 2
    return np.where(information < _LITTLE_COSINE, tangent, closed) + 1e-12


def cosine_precision_slope(information: FloatArray) -> FloatArray:
    r""":math:`D'(I) = -w'/w^2 - 1` of a number with the cos² density, from the derivative of its w."""
    little = information < _LITTLE_COSINE
    safe, J = np.where(little, 1.0, information), COSINE_INFORMATION
    square = safe - math.pi**2
    near, real = np.abs(square) < _NEAR_SQUARE, square >= 0
    half = np.where(near, 1.0, np.sqrt(np.abs(square)) / 2)
    ratio = 2 * half / np.where(real, np.tanh(half), np.tan(half))
    series = 2 + square / 6 - square**2 / 360
    sine = np.where(real, np.sinh(np.minimum(half, 300.0)), np.sin(half))
    # Of k coth(k/2) by I; of k cot(k/2) where k is imaginary.
    change = np.where(real, 1.0, -1.0) * (ratio / (2 * half) - half / sine**2) / (4 * half)
    ratio, change = np.where(near, series, ratio), np.where(near, 1 / 6 - square / 180, change)
    slope = (-1 + 2 * J / safe - 12 * J * ratio / safe**2 + 4 * J * change / safe) / safe**2
    found = -slope / cosine_bound(safe) ** 2 - 1
    return np.where(little, cosine_slope() - 1, np.maximum(found, 0.0))


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
