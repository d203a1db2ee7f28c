"""The sum of some records' values."""

from __future__ import annotations

import numpy as np

from sightline.arrays import FloatArray
from sightline.releases.linear import LinearQuery


class SubsetSum(LinearQuery):
    r"""Sum of the member records' values, coordinate by coordinate.

    .. math:: q(x) = \sum_{k \in C} x_k

    ``radius`` is the largest change of one record's value (for vectors: its L2 norm) and of the answer.

    >>> total = SubsetSum(members=[0, 2], radius=1.0, dimension=2)
    >>> total.value([[1.0, 10.0], [5.0, 5.0], [2.0, 20.0]]).tolist()
    [3.0, 30.0]
    >>> total.sensitivity.tolist(), total.sensitivity_l1.round(3).tolist()
    ([1.0, 1.0], [1.414, 1.414])
    """

    __slots__ = ()

    def coefficients(self) -> FloatArray:
        """One for each member."""
        return np.ones(len(self.members))
