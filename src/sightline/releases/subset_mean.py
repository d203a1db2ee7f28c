"""The mean of some records' values: the paper's labeled-target release."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sightline.arrays import FloatArray, IndexArray, Members, frozen_floats, frozen_index
from sightline.errors import InvalidRelease
from sightline.releases.domain import member_values, positive_number, whole_number
from sightline.releases.lift import coordinate_rows
from sightline.releases.query import Adjacency


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SubsetMean:
    r"""Mean of the member records' values, coordinate by coordinate.

    .. math:: q(x) = \frac{1}{|C|} \sum_{k \in C} x_k

    ``radius`` is the largest change of one record's value (for vectors: its L2 norm), so the answer moves by
    at most ``radius / len(members)``: the first row of ``tab:adjacency``. Its row of the design is eq.
    ``lever1_subavg_H``.

    >>> mean = SubsetMean(members=[3, 0, 7, 1], radius=2.0)
    >>> mean.members.tolist(), mean.sensitivity.tolist()
    ([0, 1, 3, 7], [0.5])
    >>> mean.value([1.0, 2.0, 9.0, 3.0, 9.0, 9.0, 9.0, 6.0]).tolist()
    [3.0]
    """

    members: IndexArray
    radius: float
    dimension: int = 1

    if TYPE_CHECKING:  # what goes in is wider than what is kept

        def __init__(self, *, members: Members, radius: float, dimension: int = 1) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "members", frozen_index(self.members, error=InvalidRelease))
        object.__setattr__(self, "radius", positive_number(self.radius, name="radius"))
        object.__setattr__(self, "dimension", whole_number(self.dimension, name="dimension"))

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
        r""":math:`\Delta / |C|` in each coordinate."""
        return frozen_floats(np.full(self.outputs, self.radius / len(self.members)), name="sensitivity")

    @property
    def sensitivity_l1(self) -> FloatArray:
        r""":math:`\sqrt p` times the L2 one: the largest L1 norm of a change of L2 norm ``radius``."""
        return frozen_floats(np.sqrt(self.dimension) * self.sensitivity, name="sensitivity_l1")

    @property
    def cells(self) -> tuple[SubsetMean]:
        """Itself."""
        return (self,)

    @property
    def linear(self) -> bool:
        """Always."""
        return True

    def value(self, records: FloatArray) -> FloatArray:
        """The mean of each coordinate."""
        values: FloatArray = self._values(records).mean(axis=0)
        return values

    def jacobian(self, records: FloatArray | None = None) -> FloatArray:
        r""":math:`1 / |C|` for each member, in its own coordinate."""
        if records is not None:
            self._values(records)
        return coordinate_rows(np.full(len(self.members), 1.0 / len(self.members)), dimension=self.dimension)

    def integer_rows(self) -> NDArray[np.int64]:
        """The memberships themselves: zeros and ones."""
        return coordinate_rows(np.ones(len(self.members), dtype=np.int64), dimension=self.dimension)

    def _values(self, records: FloatArray) -> FloatArray:
        return member_values(records, members=self.members, dimension=self.dimension)
