"""A weighted sum of some records' values: survey weights, differences, portfolio totals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sightline.arrays import FloatArray, IndexArray, Members, frozen_floats, frozen_index
from sightline.errors import InvalidRelease, require
from sightline.releases.domain import member_values, positive_number, whole_number
from sightline.releases.lift import coordinate_rows
from sightline.releases.query import Adjacency

# Up to here a double holds every whole number, so a weight that looks whole is the one that was meant.
_LARGEST_WHOLE = 2.0**53


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WeightedSum:
    r"""Weighted sum of the member records' values, coordinate by coordinate.

    .. math:: q(x) = \sum_{k \in C} a_k x_k, \qquad \Delta = \max_k |a_k| \cdot \text{radius}

    ``weights`` follow the order in which the members are given; both are then sorted by member. ``radius`` is
    the largest change of one record's value (for vectors: its L2 norm). No weight is zero: a record with
    weight zero is not a member.

    >>> net = WeightedSum(members=[4, 0], weights=[3.0, -1.0], radius=2.0)
    >>> net.members.tolist(), net.weights.tolist(), net.sensitivity.tolist()
    ([0, 4], [-1.0, 3.0], [6.0])
    >>> net.value([5.0, 0.0, 0.0, 0.0, 2.0]).tolist()
    [1.0]
    """

    members: IndexArray
    weights: FloatArray
    radius: float
    dimension: int = 1

    if TYPE_CHECKING:  # what goes in is wider than what is kept

        def __init__(
            self, *, members: Members, weights: ArrayLike, radius: float, dimension: int = 1
        ) -> None: ...

    def __post_init__(self) -> None:
        given = self.members if isinstance(self.members, np.ndarray) else np.asarray(list(self.members))
        members = frozen_index(given, error=InvalidRelease)
        weights = frozen_floats(self.weights, name="weights", ndim=1, error=InvalidRelease)
        require(
            len(weights) == len(members),
            f"one weight for each of {len(members)} members",
            got=f"{len(weights)} weights",
            error=InvalidRelease,
        )
        require(
            bool((weights != 0).all()),
            "nonzero weights",
            got=f"zero for member {given[weights == 0][:1].tolist()}",
            fix="leave out members that carry no weight",
            error=InvalidRelease,
        )
        sorted_weights = frozen_floats(weights[np.argsort(given)], name="weights")
        object.__setattr__(self, "members", members)
        object.__setattr__(self, "weights", sorted_weights)
        object.__setattr__(self, "radius", positive_number(self.radius, name="radius"))
        object.__setattr__(self, "dimension", whole_number(self.dimension, name="dimension"))
        positive_number(self.sensitivity[0].item(), name="largest weight times radius")

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
        delta = float(np.abs(self.weights).max()) * self.radius
        return frozen_floats(np.full(self.outputs, delta), name="sensitivity", error=InvalidRelease)

    @property
    def sensitivity_l1(self) -> FloatArray:
        r""":math:`\sqrt p` times the L2 one: the largest L1 norm of a change of L2 norm ``radius``."""
        return frozen_floats(np.sqrt(self.dimension) * self.sensitivity, name="sensitivity_l1")

    @property
    def cells(self) -> tuple[WeightedSum]:
        """Itself."""
        return (self,)

    @property
    def linear(self) -> bool:
        """Always."""
        return True

    def value(self, records: FloatArray) -> FloatArray:
        """The weighted sum of each coordinate."""
        return self.weights @ self._values(records)

    def jacobian(self, records: FloatArray | None = None) -> FloatArray:
        """Each member's weight, in its own coordinate."""
        if records is not None:
            self._values(records)
        return coordinate_rows(self.weights, dimension=self.dimension)

    def integer_rows(self) -> NDArray[np.int64] | None:
        """The weights where all of them are whole numbers; else none."""
        whole = (self.weights == np.rint(self.weights)) & (np.abs(self.weights) <= _LARGEST_WHOLE)
        if not whole.all():
            return None
        return coordinate_rows(self.weights.astype(np.int64), dimension=self.dimension)

    def _values(self, records: FloatArray) -> FloatArray:
        return member_values(records, members=self.members, dimension=self.dimension)
