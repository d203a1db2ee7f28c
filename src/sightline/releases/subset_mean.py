"""The mean of some records' values: the paper's labeled-target release."""

from __future__ import annotations

import numpy as np

from sightline.arrays import FloatArray
from sightline.releases.linear import LinearQuery


class SubsetMean(LinearQuery):
    r"""Mean of the member records' values, coordinate by coordinate.

    .. math:: q(x) = \frac{1}{|C|} \sum_{k \in C} x_k

    ``radius`` is the largest change of one record's value (for vectors: its L2 norm), so the answer changes
    by at most ``radius / len(members)``: the first row of ``tab:adjacency``. Its row of the design is eq.
    ``lever1_subavg_H``.

    >>> mean = SubsetMean(members=[3, 0, 7, 1], radius=2.0)
    >>> mean.members.tolist(), mean.sensitivity.tolist()
    ([0, 1, 3, 7], [0.5])
    >>> mean.value([1.0, 2.0, 9.0, 3.0, 9.0, 9.0, 9.0, 6.0]).tolist()
    [3.0]
    """

    __slots__ = ()

    def coefficients(self) -> FloatArray:
        r""":math:`1 / |C|` for each member."""
        return np.full(len(self.members), 1.0 / len(self.members))
