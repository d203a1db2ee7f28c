"""A weighted sum of some records' values: survey weights, differences, portfolio totals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sightline.arrays import FloatArray, Members, frozen_floats, frozen_index
from sightline.errors import InvalidRelease, require
from sightline.releases.domain import positive_number
from sightline.releases.linear import LinearQuery, coordinate_rows

# Up to this a double holds every whole number, so a weight that is whole was not rounded to it.
_LARGEST_WHOLE = 2.0**53


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WeightedSum(LinearQuery):
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

    weights: FloatArray

    if TYPE_CHECKING:  # the constructor accepts wider types than the fields have

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
        LinearQuery.__post_init__(self)  # super() fails: a dataclass with slots is created twice
        positive_number(self.sensitivity[0].item(), name="largest weight times radius")

    def coefficients(self) -> FloatArray:
        """The weights."""
        return self.weights

    def integer_rows(self) -> NDArray[np.int64] | None:
        """The weights if all of them are whole numbers, else ``None``."""
        whole = (self.weights == np.rint(self.weights)) & (np.abs(self.weights) <= _LARGEST_WHOLE)
        if not whole.all():
            return None
        return coordinate_rows(self.weights.astype(np.int64), dimension=self.dimension)
