r"""The features of one record's value that a release can average: value, derivatives and range of each.

- the identity :math:`\phi(z) = z`, with slope 1 and range :math:`b - a` on a domain :math:`[a, b]`;
- an indicator, 0 or 1, with range 1;
- a power :math:`\phi_\ell(z) = z^\ell` (``eq:poly_query_new``);
- a smooth step :math:`h_\tau(z - t)` (``eq:threshold_query``), where :math:`h_\tau: \mathbb R \to [0, 1]` has
  bandwidth :math:`\tau` and :math:`h_\tau(0) = 1/2`. There are two kernels:

  - ``logistic`` (``app:logistic_smoothing``): :math:`h_\tau(u) = 1/(1 + e^{-u/\tau})`, with tails;
  - ``compact``: :math:`h_\tau(u) = \frac{1}{2} + \frac{u}{2\tau} + \frac{1}{2\pi}\sin\frac{\pi u}{\tau}` on
    :math:`[-\tau, \tau]`, the integral of a raised cosine. It is 0 to the left and 1 to the right, so
    :math:`h_\tau'` is supported on :math:`[-\tau, \tau]`, as ``prop:threshold_truncation`` assumes.

The range of a feature is the largest change of one record's feature while its value stays in the domain: the
sensitivity of a mean of :math:`m` features is the range over :math:`m`. The identity and the indicator need
no function of their own.

Releases use NumPy. Attacks need two derivatives on arrays of any library (:class:`Powers`,
:func:`smooth_step_derivatives`). Curves of many moments need powers without accumulated rounding
(:func:`ratio_powers`), and certified curves need balls (``feature_balls``).
"""

from __future__ import annotations

from typing import Any, Literal, assert_never

import numpy as np
from numpy.typing import ArrayLike

from sightline.arrays import FloatArray
from sightline.numerics.residuals import two_product

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


def ratio_powers(values: FloatArray, bound: float, count: int) -> FloatArray:
    r"""The powers :math:`(z/R)^0, \ldots, (z/R)^{n-1}`, stacked first, with an error of about one unit.

    Repeated products in twice the working precision: as accurate as the library's ``pow`` and ten times
    faster. The rounding of z/R, which the n-th power would multiply by n, is carried along: ill-conditioned
    rows turn every lost unit into lost digits.
    """
    ratio = values / bound
    # z - R·ratio exactly, by Dekker's product, so that ratio + remainder is z/R to twice the precision.
    product, error = two_product(ratio, np.full_like(ratio, bound))
    remainder = ((values - product) - error) / bound
    powers = np.empty((count, *values.shape))
    powers[0] = 1.0
    high, low = powers[0, ...], np.zeros_like(ratio)
    for n in range(1, count):
        product, error = two_product(high, ratio)
        error += low * ratio + high * remainder
        high = np.add(product, error, out=powers[n, ...])
        low = error - (high - product)
    return powers


class Powers:
    r"""The powers :math:`u, u^2, \ldots` of one array of any library, each computed once when first needed.

    >>> powers = Powers(np.array([2.0, -3.0]))
    >>> [term.tolist() for term in powers.derivatives(3)]
    [[8.0, -27.0], [12.0, 27.0], [12.0, -18.0]]
    """

    def __init__(self, u: Any) -> None:
        self._powers = [u]

    def __getitem__(self, order: int) -> Any:
        while len(self._powers) < order:
            self._powers.append(self._powers[-1] * self._powers[0])
        return self._powers[order - 1]

    def derivatives(self, order: int) -> tuple[Any, Any, Any]:
        r""":math:`u^\ell` and its first two derivatives."""
        u = self._powers[0]
        match order:
            case 1:
                return u, 1.0 + 0.0 * u, 0.0 * u
            case 2:
                return self[2], 2.0 * u, 2.0 + 0.0 * u
            case _:
                first, second = float(order), float(order * (order - 1))
                return self[order], first * self[order - 1], second * self[order - 2]


def _logistic(w: Any, xp: Any) -> tuple[Any, Any]:
    """h(w) and h(-w) = 1 - h(w), without overflow and accurate in both tails."""
    tail = xp.exp(-xp.abs(w))  # importing scipy.special takes longer than all that an audit does with it
    one = xp.ones_like(w)
    return xp.where(w < 0, tail, one) / (1.0 + tail), xp.where(w > 0, tail, one) / (1.0 + tail)


def _distance_to_end(w: Any, xp: Any) -> Any:
    """How far inside the support [-1, 1] of a compact step w lies: 1 at its middle, 0 outside."""
    return xp.clip(1.0 - xp.abs(w), 0.0, 1.0)


def _compact_step(w: Any, xp: Any) -> Any:
    v = _distance_to_end(w, xp)
    # ½(v − sin(πv)/π), written so that no rounding leaves [0, 1].
    tail = 0.5 * v * (1.0 - xp.sinc(v))
    return xp.where(w < 0, tail, 1.0 - tail)


def _compact_slope(w: Any, xp: Any) -> Any:
    return xp.sin(0.5 * np.pi * _distance_to_end(w, xp)) ** 2


def smooth_step(offsets: ArrayLike, *, bandwidth: float, kernel: Kernel = "logistic") -> FloatArray:
    r"""The step :math:`h_\tau(u)` at offsets :math:`u = z - t`.

    >>> smooth_step([-1.0, 0.0, 1.0], bandwidth=1.0, kernel="compact").tolist()
    [0.0, 0.5, 1.0]
    """
    w = np.asarray(offsets, np.float64) / bandwidth
    match kernel:
        case "logistic":
            return np.asarray(_logistic(w, np)[0])
        case "compact":
            return np.asarray(_compact_step(w, np))
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
            above, below = _logistic(w, np)
            return np.asarray(above * below / bandwidth)
        case "compact":
            return np.asarray(_compact_slope(w, np) / bandwidth)
    assert_never(kernel)


def smooth_step_derivatives(
    offsets: Any, *, bandwidth: float, kernel: Kernel, xp: Any = np
) -> tuple[Any, Any, Any]:
    r"""The step :math:`h_\tau(u)` and its first two derivatives, on arrays of the library ``xp``.

    >>> [term.tolist() for term in smooth_step_derivatives(np.zeros(1), bandwidth=0.5, kernel="logistic")]
    [[0.5], [0.5], [0.0]]
    """
    w = offsets / bandwidth
    match kernel:
        case "logistic":
            above, below = _logistic(w, xp)
            slope = above * below / bandwidth
            return above, slope, slope * (below - above) / bandwidth
        case "compact":
            curvature = xp.sin(np.pi * _distance_to_end(w, xp)) * (0.5 * np.pi / bandwidth**2)
            slope = _compact_slope(w, xp) / bandwidth
            return _compact_step(w, xp), slope, xp.where(w < 0, curvature, -curvature)
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
            return np.asarray(_logistic(b, np)[0] * _logistic(a, np)[1] * -np.expm1(a - b))
        case "compact":
            a, b = np.clip(a, -1.0, 1.0), np.clip(b, -1.0, 1.0)
            half, middle = 0.5 * (b - a), 0.5 * (a + b)
            return np.asarray(half + np.cos(np.pi * middle) * np.sin(np.pi * half) / np.pi)
    assert_never(kernel)
