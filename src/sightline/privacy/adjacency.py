r"""Which two tables are neighbours: one value changes, or one record is added or removed.

The budget is stated for one of them, and noise is priced by the largest change between neighbours. For values
in :math:`[l, h]`:

===========================  ===============  =======================
published                    a value changes  a record comes or goes
===========================  ===============  =======================
a sum                        h − l            max(\|l\|, \|h\|)
a mean of m records          (h − l)/m        (h − l)/m
a histogram of a category    √2 (L2), 2 (L1)  1 and 1
===========================  ===============  =======================

A mean loses :math:`(x - \bar x)/m` if x is one of its m records and goes, where :math:`\bar x` is the mean of
the others; if one comes, there are m + 1. Audits take who is in the table as public, and their bounds are
about values; presence has its own (``secret = "presence"``).
"""

from __future__ import annotations

import math
from enum import StrEnum

from sightline.errors import require


class Adjacency(StrEnum):
    """What neighbours differ in."""

    VALUE = "value"  # one record's value; who is in the table is public
    ADD_REMOVE = "add-remove"  # one record is there or not


def sum_sensitivity(low: float, high: float, adjacency: Adjacency = Adjacency.VALUE) -> float:
    """The largest change of a sum of values between two bounds.

    >>> [sum_sensitivity(-1.0, 3.0, adjacency) for adjacency in Adjacency]
    [4.0, 3.0]
    """
    _check(low, high)
    match adjacency:
        case Adjacency.VALUE:
            return high - low
        case Adjacency.ADD_REMOVE:
            return max(abs(low), abs(high))


def mean_sensitivity(
    low: float, high: float, *, records: int, adjacency: Adjacency = Adjacency.VALUE
) -> float:
    """The largest change of a mean of so many values between two bounds; the same for both.

    >>> [mean_sensitivity(-1.0, 3.0, records=8, adjacency=adjacency) for adjacency in Adjacency]
    [0.5, 0.5]
    """
    _check(low, high)
    alone = adjacency is Adjacency.ADD_REMOVE and records < 2
    require(
        records >= 1 and not alone,
        "a mean of two records or more, of which one may go" if alone else "records >= 1",
        got=records,
    )
    return (high - low) / records


def histogram_sensitivity(adjacency: Adjacency = Adjacency.VALUE) -> tuple[float, float]:
    """The largest change of all counts of a category together, in L2 and in L1 norm.

    >>> histogram_sensitivity(Adjacency.ADD_REMOVE)
    (1.0, 1.0)
    """
    match adjacency:
        case Adjacency.VALUE:  # a record leaves one count and enters another
            return math.sqrt(2.0), 2.0
        case Adjacency.ADD_REMOVE:
            return 1.0, 1.0


def _check(low: float, high: float) -> None:
    require(math.isfinite(low) and math.isfinite(high) and low < high, "bounds low < high", got=(low, high))
