"""The base class of moments and thresholds: the mean of a feature of the members' values."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from sightline.arrays import FloatArray, IndexArray
from sightline.releases.domain import member_values
from sightline.releases.query import OneCell


class FeatureMean(OneCell, ABC):
    r"""A release :math:`q(z) = \frac{1}{m} \sum_{k \in C} \phi(z_k)` of scalar records within ``bound``.

    A subclass is a frozen dataclass with these fields, and gives its feature.
    """

    __slots__ = ()

    members: IndexArray
    bound: float

    @abstractmethod
    def feature(self, values: FloatArray) -> FloatArray:
        r""":math:`\phi(z)`."""

    @abstractmethod
    def slope(self, values: FloatArray) -> FloatArray:
        r""":math:`\phi'(z)`."""

    @property
    @abstractmethod
    def sensitivity(self) -> FloatArray:
        """The largest change of the mean when one record's value changes."""

    @property
    def dimension(self) -> int:
        """Records are scalars."""
        return 1

    @property
    def outputs(self) -> int:
        """One number."""
        return 1

    @property
    def sensitivity_l1(self) -> FloatArray:
        """The same: there is one output."""
        return self.sensitivity

    def value(self, records: FloatArray) -> FloatArray:
        """The mean of the feature."""
        mean: FloatArray = self.feature(self._values(records)).mean(axis=0)
        return mean

    def jacobian(self, records: FloatArray | None) -> FloatArray:
        r""":math:`\phi'(z_k) / m` for member k."""
        return self.slope(self._values(records))[np.newaxis] / len(self.members)

    def _values(self, records: FloatArray | None) -> FloatArray:
        return member_values(records, members=self.members, dimension=1, bound=self.bound)
