"""Linear releases, a weighted sum of the members' values in each coordinate: means, sums, cells."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sightline.arrays import EXACT, FloatArray, IndexArray, Members, frozen_floats, frozen_index
from sightline.checked_numbers import positive_number, whole_number
from sightline.errors import InvalidRelease, require
from sightline.theory.releases.query import OneCell, Query, member_values, record_array

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
        # Up to this a weight that is whole was not rounded to it.
        whole = (self.weights == np.rint(self.weights)) & (np.abs(self.weights) <= EXACT)
        if not whole.all():
            return None
        return coordinate_rows(self.weights.astype(np.int64), dimension=self.dimension)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cells:
    r"""Queries with disjoint members, published together at the price of one release.

    .. math:: q(x) = \bigl(q_1(x_{C_1}), \ldots, q_G(x_{C_G})\bigr), \qquad C_g \cap C_h = \emptyset

    One record's value changes the answers of its own cell only, so each cell has its own sensitivity and the
    whole release costs as much as one (parallel composition). This holds while memberships are fixed. If the
    grouping column itself must be protected, a record can move to another cell, and this price is too low.

    :meth:`jacobian` is block diagonal and dense; if there are many cells, read the blocks from :attr:`cells`.

    >>> from sightline import SubsetMean
    >>> streets = Cells(cells=[SubsetMean(members=[0, 2], radius=1.0), SubsetMean(members=[1], radius=1.0)])
    >>> streets.members.tolist(), streets.sensitivity.tolist()
    ([0, 1, 2], [0.5, 1.0])
    >>> streets.jacobian(None)[:, :, 0].tolist()
    [[0.5, 0.0, 0.5], [0.0, 1.0, 0.0]]
    """

    cells: tuple[Query, ...]
    members: IndexArray = field(init=False)

    if TYPE_CHECKING:  # the constructor accepts wider types than the fields have

        def __init__(self, *, cells: Iterable[Query]) -> None: ...

    def __post_init__(self) -> None:
        # A cell that is itself a many-cell release is replaced by its cells.
        cells = tuple(leaf for cell in self.cells for leaf in cell.cells)
        require(len(cells) > 0, "at least one cell", got="none", error=InvalidRelease)
        dimensions = sorted({cell.dimension for cell in cells})
        require(
            len(dimensions) == 1, "cells over records of one dimension", got=dimensions, error=InvalidRelease
        )
        members = np.concatenate([cell.members for cell in cells])
        owner = np.repeat(np.arange(len(cells)), [len(cell.members) for cell in cells])
        order = np.argsort(members, kind="stable")
        members, owner = members[order], owner[order]
        twice = np.flatnonzero(members[1:] == members[:-1])[:1]
        both = np.concatenate([owner[twice], owner[twice + 1]])
        require(
            twice.size == 0,
            "every record in at most one cell",
            got=f"record {members[twice].tolist()} in cells {both.tolist()}",
            fix="publish overlapping queries as separate releases",
            error=InvalidRelease,
        )
        members.setflags(write=False)
        object.__setattr__(self, "cells", cells)
        object.__setattr__(self, "members", members)

    @property
    def dimension(self) -> int:
        """The cells' common record length."""
        return self.cells[0].dimension

    @property
    def outputs(self) -> int:
        """The number of outputs of all cells together."""
        return sum(cell.outputs for cell in self.cells)

    @property
    def sensitivity(self) -> FloatArray:
        """The sensitivities of the cells, one after the other."""
        return frozen_floats(np.concatenate([cell.sensitivity for cell in self.cells]), name="sensitivity")

    @property
    def sensitivity_l1(self) -> FloatArray:
        """The sensitivities of the cells, one after the other."""
        return frozen_floats(
            np.concatenate([cell.sensitivity_l1 for cell in self.cells]), name="sensitivity_l1"
        )

    @property
    def linear(self) -> bool:
        """Whether every cell is linear."""
        return all(cell.linear for cell in self.cells)

    def value(self, records: FloatArray) -> FloatArray:
        """The cells' answers, one after the other."""
        array = record_array(records, dimension=self.dimension)
        return np.concatenate([cell.value(array) for cell in self.cells])

    def jacobian(self, records: FloatArray | None) -> FloatArray:
        """The cells' Jacobians as diagonal blocks."""
        array = None if records is None else record_array(records, dimension=self.dimension)
        rows = np.zeros((self.outputs, len(self.members), self.dimension))
        return self._fill(rows, [cell.jacobian(array) for cell in self.cells])

    def integer_rows(self) -> NDArray[np.int64] | None:
        """The cells' integer rows as diagonal blocks; ``None`` if some cell has none."""
        blocks = [block for block in (cell.integer_rows() for cell in self.cells) if block is not None]
        if len(blocks) < len(self.cells):
            return None
        rows = np.zeros((self.outputs, len(self.members), self.dimension), dtype=np.int64)
        return self._fill(rows, blocks)

    def _fill(self, rows: NDArray[Number], blocks: list[NDArray[Number]]) -> NDArray[Number]:
        start = 0
        for cell, block in zip(self.cells, blocks, strict=True):
            stop = start + cell.outputs
            rows[start:stop, np.searchsorted(self.members, cell.members)] = block
            start = stop
        return rows
