"""Whole powers of a number: their slopes, and their ranges over an interval."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from sightline.arrays import FloatArray


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
