"""The base class of linear releases: a weighted sum of the members' values in each coordinate."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self

import numpy as np
from numpy.typing import NDArray

from sightline.arrays import FloatArray, IndexArray, frozen_floats, frozen_index
from sightline.errors import InvalidRelease
from sightline.releases.domain import member_values, positive_number, whole_number
from sightline.releases.lift import coordinate_rows
from sightline.releases.query import Adjacency


class LinearQuery(ABC):
    r"""A release :math:`q(x) = \sum_{k \in C} a_k x_k` of records that change by at most ``radius``.

    For vector records the sum is taken coordinate by coordinate, and ``radius`` bounds the L2 norm of a
    change. A subclass is a frozen dataclass with these fields, and gives its coefficients.
    """

    __slots__ = ()

    members: IndexArray
    radius: float
    dimension: int

    @abstractmethod
    def coefficients(self) -> FloatArray:
        """:math:`a_k`, in the order of ``members``."""

    @abstractmethod
    def integer_rows(self) -> NDArray[np.int64] | None:
        """Whole numbers proportional to the coefficients, or ``None``."""

    @property
    def outputs(self) -> int:
        """One number per coordinate."""
        return self.dimension

    @property
    def adjacency(self) -> Adjacency:
        """One record's value changes, by at most ``radius``."""
        return Adjacency.VALUE

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
    def cells(self) -> tuple[Self]:
        """Itself."""
        return (self,)

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

    def _check_fields(self) -> None:
        """Check the common fields and lock them."""
        object.__setattr__(self, "members", frozen_index(self.members, error=InvalidRelease))
        object.__setattr__(self, "radius", positive_number(self.radius, name="radius"))
        object.__setattr__(self, "dimension", whole_number(self.dimension, name="dimension"))

    def _values(self, records: FloatArray) -> FloatArray:
        return member_values(records, members=self.members, dimension=self.dimension)
