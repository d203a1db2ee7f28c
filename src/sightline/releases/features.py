r"""The features of one record's value that a release can average: value, slope and range of each.

- the identity :math:`\phi(z) = z`, with slope 1 and range :math:`b - a` on a domain :math:`[a, b]`;
- an indicator, 0 or 1, with range 1;
- a power :math:`\phi_\ell(z) = z^\ell` (``eq:poly_query_new``);
- a smooth step :math:`h_\tau(z - t)` (``eq:threshold_query``), where :math:`h_\tau: \mathbb R \to [0, 1]` has
  bandwidth :math:`\tau` and :math:`h_\tau(0) = 1/2`. There are two kernels:

  - ``logistic`` (``app:logistic_smoothing``): :math:`h_\tau(u) = 1/(1 + e^{-u/\tau})`, with tails;
  - ``compact``: :math:`h_\tau(u) = \frac{1}{2} + \frac{u}{2\tau} + \frac{1}{2\pi}\sin\frac{\pi u}{\tau}` on
    :math:`[-\tau, \tau]`, the integral of a raised cosine. It is 0 to the left and 1 to the right, so
    :math:`h_\tau'` is supported on :math:`[-\tau, \tau]`, as ``prop:threshold_truncation`` assumes.

The range of a feature is how far one record's feature can change while the value stays in its domain: the
sensitivity of a mean of :math:`m` features is the range over :math:`m`. The identity and the
indicator need no function of their own.
"""

from __future__ import annotations

from typing import Literal, assert_never

import numpy as np
from numpy.typing import ArrayLike

from sightline.arrays import FloatArray

Kernel = Literal["logistic", "compact"]


def power(values: ArrayLike, order: ArrayLike) -> FloatArray:
    r"""The feature :math:`\phi_\ell(z) = z^\ell`; the two arguments broadcast.

    >>> power([2.0, -3.0], 3).tolist()
    [8.0, -27.0]
    """
    powers: FloatArray = np.power(np.asarray(values, np.float64), np.asarray(order, np.float64))
    return powers


def power_slope(values: ArrayLike, order: ArrayLike) -> FloatArray:
    r"""The derivative :math:`\phi_\ell'(z) = \ell z^{\ell-1}`; the two arguments broadcast.

    >>> power_slope([[0.0], [2.0]], [1, 2, 3]).tolist()
    [[1.0, 0.0, 0.0], [1.0, 4.0, 12.0]]
    """
    ell = np.asarray(order, np.float64)
    slopes: FloatArray = ell * power(values, ell - 1)
    return slopes


def power_range(order: ArrayLike, *, low: float, high: float) -> FloatArray:
    r"""The range of a whole power :math:`z^\ell` over :math:`[low, high]`; vectorised over ``order``.

    An even power of a domain that contains 0 starts at 0.

    >>> power_range([1, 2, 3], low=-1.0, high=3.0).tolist(), power_range(2, low=1.0, high=3.0).item()
    ([4.0, 9.0, 28.0], 8.0)
    """
    even = np.asarray(order) % 2 == 0
    # Powers of the absolute value: a power function need not round z and -z alike.
    first, last = (power(abs(end), order) * np.where(even | (end >= 0), 1.0, -1.0) for end in (low, high))
    inside = even & (low < 0 < high)
    least = np.where(inside, 0.0, np.minimum(first, last))
    return np.asarray(np.maximum(first, last) - least)


def _logistic(w: FloatArray) -> FloatArray:
    """Without overflow, and with all digits in both tails."""
    tail = np.exp(-np.abs(w))  # importing scipy.special takes longer than all that an audit does with it
    return np.where(w < 0, tail, 1.0) / (1.0 + tail)


def smooth_step(offsets: ArrayLike, *, bandwidth: float, kernel: Kernel = "logistic") -> FloatArray:
    r"""The step :math:`h_\tau(u)` at offsets :math:`u = z - t`.

    >>> smooth_step([-1.0, 0.0, 1.0], bandwidth=1.0, kernel="compact").tolist()
    [0.0, 0.5, 1.0]
    """
    w = np.asarray(offsets, np.float64) / bandwidth
    match kernel:
        case "logistic":
            steps: FloatArray = _logistic(w)
            return steps
        case "compact":
            v = np.maximum(1.0 - np.abs(w), 0.0)
            # ½(v − sin(πv)/π), written so that no rounding leaves [0, 1].
            tail = 0.5 * v * (1.0 - np.sinc(v))
            return np.where(w < 0, tail, 1.0 - tail)
    assert_never(kernel)


def smooth_step_slope(offsets: ArrayLike, *, bandwidth: float, kernel: Kernel = "logistic") -> FloatArray:
    r"""The derivative :math:`h_\tau'(u)` at offsets :math:`u = z - t`.

    Logistic: :math:`\frac{1}{4\tau}\operatorname{sech}^2\frac{u}{2\tau}`; compact:
    :math:`\frac{1}{2\tau}\bigl(1 + \cos\frac{\pi u}{\tau}\bigr)` on :math:`[-\tau, \tau]`, else 0.

    >>> smooth_step_slope([-2.0, 0.0], bandwidth=0.5, kernel="compact").tolist()
    [0.0, 2.0]
    """
    w = np.asarray(offsets, np.float64) / bandwidth
    match kernel:
        case "logistic":
            slopes: FloatArray = _logistic(w) * _logistic(-w) / bandwidth
            return slopes
        case "compact":
            v = np.maximum(1.0 - np.abs(w), 0.0)
            return np.asarray(np.sin(0.5 * np.pi * v) ** 2 / bandwidth)
    assert_never(kernel)


def smooth_step_rise(
    start: ArrayLike, stop: ArrayLike, *, bandwidth: float, kernel: Kernel = "logistic"
) -> FloatArray:
    r"""The rise :math:`h_\tau(b) - h_\tau(a)` from ``start`` a to ``stop`` b, accurate also where small.

    >>> print(f"{smooth_step_rise(-1e-9, 1e-9, bandwidth=1.0):.12e}")
    5.000000000000e-10
    """
    a, b = (np.asarray(u, np.float64) / bandwidth for u in (start, stop))
    match kernel:
        case "logistic":
            rise: FloatArray = _logistic(b) * _logistic(-a) * -np.expm1(a - b)
            return rise
        case "compact":
            a, b = np.clip(a, -1.0, 1.0), np.clip(b, -1.0, 1.0)
            half, middle = 0.5 * (b - a), 0.5 * (a + b)
            return np.asarray(half + np.cos(np.pi * middle) * np.sin(np.pi * half) / np.pi)
    assert_never(kernel)
