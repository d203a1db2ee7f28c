"""The interface of every release: its answer, its Jacobian and its sensitivity.

A query describes what is published and contains no algorithm; geometry, bounds and attacks read it.
"""

from __future__ import annotations

from enum import Enum
from typing import Literal, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from sightline.arrays import FloatArray, IndexArray


class Adjacency(Enum):
    """Which pairs of data sets count as neighbours when a sensitivity is taken."""

    VALUE = "value"
    """One record's value changes anywhere in its domain; memberships are fixed.

    The paper's record-level radius, and its swap at fixed cardinality (``tab:adjacency``).
    """


Convention = Literal["tight", "uniform"]
"""How a family with a bounded domain states its sensitivity.

``tight``: the largest change over all neighbours, which some neighbours attain. ``uniform``: the paper's
table, one formula for the whole family, never smaller. Both are safe; tight gives the same guarantee with
less noise.
"""


class Query(Protocol):
    r"""One release :math:`q(x) = \rho\bigl(\sum_{k \in C} \phi(x_k)\bigr)`, eq. ``deepsets_general``.

    The attributes and the zero pattern of the Jacobian are public: they depend on the query only. The
    results of :meth:`value` and, unless the query is linear, of :meth:`jacobian` depend on the records.
    """

    @property
    def members(self) -> IndexArray:
        """Sorted distinct positions of the records that the answer depends on."""

    @property
    def dimension(self) -> int:
        """Length p of one record's value; 1 is a scalar record."""

    @property
    def outputs(self) -> int:
        """How many numbers the release publishes."""

    @property
    def adjacency(self) -> Adjacency:
        """The neighbours that the sensitivities are taken over."""

    @property
    def sensitivity(self) -> FloatArray:
        r"""Per output :math:`\Delta_i` with :math:`\sum_i (q_i(x) - q_i(x'))^2 / \Delta_i^2 \le 1` for all
        neighbours: Gaussian noise of stddev :math:`\sqrt{\kappa}\,\Delta_i` costs one release in all."""

    @property
    def sensitivity_l1(self) -> FloatArray:
        r"""Per output :math:`\Delta_i` with :math:`\sum_i |q_i(x) - q_i(x')| / \Delta_i \le 1` for all
        neighbours: the scale that Laplace noise needs."""

    @property
    def cells(self) -> tuple[Query, ...]:
        """The parts with disjoint members: the query alone, except for a many-cell release."""

    @property
    def linear(self) -> bool:
        """Whether the Jacobian is the same at all records."""

    def value(self, records: FloatArray) -> FloatArray:
        """The exact answer, shape ``(outputs,)``, at records of shape ``(N,)`` or ``(N, dimension)``."""

    def jacobian(self, records: FloatArray | None) -> FloatArray:
        """Derivatives by the members' values, shape ``(outputs, len(members), dimension)``.

        A linear query accepts ``None``.
        """

    def integer_rows(self) -> NDArray[np.int64] | None:
        """Integers proportional, row by row, to the Jacobian of a linear query, or ``None``.

        Same shape as the Jacobian. Rank decisions over these rows are exact.
        """


class OneCell:
    """What releases that are not divided into cells have in common. By default they are not linear."""

    __slots__ = ()

    @property
    def adjacency(self) -> Adjacency:
        """One record's value changes, within the domain that the sensitivity is for."""
        return Adjacency.VALUE

    @property
    def cells(self) -> tuple[Self]:
        """Itself."""
        return (self,)

    @property
    def linear(self) -> bool:
        """False, unless a subclass says otherwise."""
        return False

    def integer_rows(self) -> NDArray[np.int64] | None:
        """``None``: the rows depend on the records."""
        return None
