"""The sum of some records' values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sightline.arrays import FloatArray, IndexArray, Members
from sightline.releases.lift import coordinate_rows
from sightline.releases.linear import LinearQuery


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
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

    members: IndexArray
    radius: float
    dimension: int = 1

    if TYPE_CHECKING:  # the constructor accepts wider types than the fields have

        def __init__(self, *, members: Members, radius: float, dimension: int = 1) -> None: ...

    def __post_init__(self) -> None:
        self._check_fields()

    def coefficients(self) -> FloatArray:
        """One for each member."""
        return np.ones(len(self.members))

    def integer_rows(self) -> NDArray[np.int64]:
        """The memberships themselves: zeros and ones."""
        return coordinate_rows(np.ones(len(self.members), dtype=np.int64), dimension=self.dimension)
