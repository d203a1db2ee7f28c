r"""What a design makes small: a weighted sum of variances.

Numbers have different units and sizes. By default a variance counts relative to the size of its number: over
:math:`w^2 n`, where w is by how much one row can move a sum and n the size class of its group: the next of
10, 20, 50, 100, 200, 500 and so on. That is noise over the spread that n rows have by themselves, up to a
factor. A mean of m rows counts like the sum that it is m times.
"""

from __future__ import annotations

from enum import StrEnum

import numpy as np

from sightline.arrays import FloatArray
from sightline.auditing.plan import Plan
from sightline.auditing.pricing import feature_range
from sightline.tables.membership import Membership, Statistic


class Loss(StrEnum):
    """What a design makes small: the sum over the numbers of their weights times..."""

    SIZE = "size"  # the variance, relative to the size class of the number
    RELATIVE = "relative"  # the variance over that before
    VARIANCE = "variance"  # the variance


def size_class(rows: int) -> int:
    """The next of 10, 20, 50, 100, 200, 500, and so on.

    >>> [size_class(rows) for rows in (1, 10, 11, 49, 50, 51, 4321)]
    [10, 10, 20, 50, 50, 100, 5000]
    """
    place: int = 10 ** max(1, len(str(rows)) - 1)
    return next(times * place for times in (1, 2, 5, 10) if times * place >= rows)


def sizes(plan: Plan, membership: Membership) -> FloatArray:
    """What the variance of every number is relative to."""
    parts = [membership.partitions[cell.partition] for cell in membership.cells]
    reach = np.array([feature_range(part, plan.data.domain) for part in parts]) * membership.largest_weights
    rows = np.array([cell.rows for cell in membership.cells], dtype=np.float64)
    mean = np.array([part.statistic is Statistic.MEAN for part in parts])
    classes = np.array([size_class(cell.rows) for cell in membership.cells], dtype=np.float64)
    return np.asarray((reach / np.where(mean, rows, 1.0)) ** 2 * classes)
