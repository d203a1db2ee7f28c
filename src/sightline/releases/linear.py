"""The base class of linear releases: a weighted sum of the members' values in each coordinate."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from sightline.arrays import FloatArray, IndexArray, Members, frozen_floats, frozen_index
from sightline.errors import InvalidRelease
from sightline.releases.domain import member_values, positive_number, whole_number
from sightline.releases.query import OneCell

Number = TypeVar("Number", np.float64, np.int64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LinearQuery(OneCell, ABC):
    r"""A release :math:`q(x) = \sum_{k \in C} a_k x_k` of records that change by at most ``radius``.

    For vector records the sum is taken coordinate by coordinate, and ``radius`` bounds the L2 norm of a
    change. A subclass gives its coefficients.
    """

    members: IndexArray
    radius: float
    dimension: int = 1

    if TYPE_CHECKING:  # the constructor accepts wider types than the fields have

        def __init__(self, *, members: Members, radius: float, dimension: int = 1) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "members", frozen_index(self.members, error=InvalidRelease))
        object.__setattr__(self, "radius", positive_number(self.radius, name="radius"))
        object.__setattr__(self, "dimension", whole_number(self.dimension, name="dimension"))

    @abstractmethod
    def coefficients(self) -> FloatArray:
        """:math:`a_k`, in the order of ``members``."""

    def integer_rows(self) -> NDArray[np.int64] | None:
        """The memberships themselves: zeros and ones. Means and sums are proportional to them."""
        return coordinate_rows(np.ones(len(self.members), dtype=np.int64), dimension=self.dimension)

    @property
    def outputs(self) -> int:
        """One number per coordinate."""
        return self.dimension

    @property
    def sensitivity(self) -> FloatArray:
        r""":math:`\max_k |a_k| \cdot \text{radius}` in each coordinate."""
        delta = float(np.abs(self.coefficients()).max()) * self.radius
        return frozen_floats(np.full(self.outputs, delta), name="sensitivity", error=InvalidRelease)

    @property
    def sensitivity_l1(self) -> FloatArray:
        r""":math:`\sqrt p` times the L2 one: the largest L1 norm of a change with L2 norm ``radius``."""
        return frozen_floats(np.sqrt(self.dimension) * self.sensitivity, name="sensitivity_l1")

    @property
    def linear(self) -> bool:
        """Always."""
        return True

    def value(self, records: FloatArray) -> FloatArray:
        """The weighted sum of each coordinate."""
        return self.coefficients() @ self._values(records)

    def jacobian(self, records: FloatArray | None = None) -> FloatArray:
        """Each member's coefficient, in its own coordinate."""
        if records is not None:
            self._values(records)
        return coordinate_rows(self.coefficients(), dimension=self.dimension)

    def _values(self, records: FloatArray) -> FloatArray:
        return member_values(records, members=self.members, dimension=self.dimension)


def coordinate_rows(weights: NDArray[Number], *, dimension: int) -> NDArray[Number]:
    r"""The rows :math:`a^\top \otimes I_p` of one weighted sum (``app:block_jacobians``).

    Output i is the weighted sum of coordinate i, so it depends only on coordinate i of the members. The
    shape is ``(p, len(weights), p)``.

    >>> coordinate_rows(np.array([1, 2]), dimension=2).reshape(2, 4).tolist()
    [[1, 0, 2, 0], [0, 1, 0, 2]]
    """
    identity = np.eye(dimension, dtype=weights.dtype)
    rows: NDArray[Number] = identity[:, np.newaxis, :] * weights[:, np.newaxis]
    return rows
