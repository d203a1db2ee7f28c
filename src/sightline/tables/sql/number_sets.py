"""Sets of numbers as bands in order, which touch nowhere: what a condition on a number accepts.

A *cut* is a number and whether the cut lies just after it. A band runs from one cut to a later one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from sightline.tables.membership import Band

Bands = tuple[Band, ...]
EVERY_NUMBER: Bands = (Band(),)
Cut = tuple[float, bool]


def _cuts(band: Band) -> tuple[Cut, Cut]:
    return (band.low, not band.low_closed), (band.high, band.high_closed)


def _between(start: Cut, end: Cut) -> Band:
    return Band(low=start[0], low_closed=not start[1], high=end[0], high_closed=end[1])


def intersection(first: Bands, second: Bands) -> Bands:
    """The numbers in both sets.

    >>> intersection((Band(high=5.0),), (Band(low=3.0, low_closed=True),))
    (Band(low=3.0, high=5.0, low_closed=True, high_closed=False),)
    """
    ends = [(_cuts(one), _cuts(other)) for one in first for other in second]
    pairs = [(max(one[0], other[0]), min(one[1], other[1])) for one, other in ends]
    return tuple(_between(start, end) for start, end in sorted(pairs) if start < end)


def complement(bands: Bands) -> Bands:
    """The numbers that a set leaves out.

    >>> complement((Band(low=1.0, high=2.0),))
    (Band(low=-inf, high=1.0, low_closed=False, high_closed=True), Band(low=2.0, high=inf, low_closed=True, \
high_closed=False))
    """
    left, start = [], (-math.inf, True)
    for band in bands:
        own_start, own_end = _cuts(band)
        if start < own_start:
            left.append(_between(start, own_start))
        start = max(start, own_end)
    if start < (math.inf, False):
        left.append(_between(start, (math.inf, False)))
    return tuple(left)


def union(first: Bands, second: Bands) -> Bands:
    """The numbers in either set, as few bands as they make."""
    return complement(intersection(complement(first), complement(second)))


def union_of(sets: Iterable[Bands]) -> Bands:
    """The numbers in any of some sets."""
    found: Bands = ()
    for bands in sets:
        found = union(found, bands)
    return found
