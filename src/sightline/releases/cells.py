"""One release with many cells: a GROUP BY in which every record is in at most one cell."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sightline.arrays import FloatArray, IndexArray, frozen_floats
from sightline.errors import InvalidRelease, require
from sightline.releases.linear import Number
from sightline.releases.query import Adjacency, Query, record_array


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
    def adjacency(self) -> Adjacency:
        """One record's value changes; it stays in its cell."""
        return Adjacency.VALUE

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
