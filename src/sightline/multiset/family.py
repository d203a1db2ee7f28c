"""What every family of releases on one fixed group can be asked, and families of any queries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from flint import arb, fmpq

from sightline.arrays import FloatArray
from sightline.errors import InvalidInput, InvalidRelease, require
from sightline.releases.query import Convention, Query

Balls = list[list[arb]]


@runtime_checkable
class Family(Protocol):
    r"""A rule that says which L releases are made of a group, for every L.

    What the geometry needs of it is the sensitivity-normalised gradients (``eq:lever2_g_def``)

    .. math:: g_\ell(z) = \Delta_\ell^{-1} \nabla_z q_\ell(z), \qquad \ell = 1, \ldots, L .
    """

    @property
    def nested(self) -> bool:
        """Whether the first L of L + 1 releases are the L releases, so that curves grow by rows."""

    @property
    def largest(self) -> int | None:
        """The largest number of releases there is, if there is one."""

    def rows(self, groups: FloatArray, releases: int) -> FloatArray:
        """The gradients for groups ``(B, m)`` of checked, sorted values: ``(B, releases, m)``."""

    def check(self, groups: FloatArray) -> None:
        """Raise unless every value of the groups ``(B, m)`` is in the family's domain."""

    def row_error(self, releases: int) -> float:
        """How many units of rounding (2⁻⁵³) an entry of the rows can be off by, relative to its column."""

    def edge_error(self, groups: FloatArray, releases: int) -> FloatArray | None:
        """Further units of rounding in each column ``(B, m)`` where slopes fall to zero, or ``None``."""

    @property
    def convention(self) -> Convention | None:
        """How sensitivities are stated; ``None`` where each query states its own or families differ."""

    def full_rank_from(self, members: int) -> int | None:
        """The count from which on distinct values are identifiable by a theorem, if there is one."""

    def balls(self, values: Sequence[fmpq], releases: int) -> Balls:
        """The gradients at exact values as balls of the precision now in force, a list for each release."""


def rounding(family: Family, releases: int) -> float:
    r"""The relative perturbation :math:`\gamma` of the rows' columns that stands for all rounding.

    That of the entries, and up to one unit for every row that is rotated into a triangle.
    """
    return 2.0**-53 * (family.row_error(releases) + releases)


def in_domain(groups: FloatArray, bound: float) -> None:
    """Raise unless every value is within ``±bound``; the message names a position."""
    outside = np.argwhere(np.abs(groups) > bound)
    require(
        outside.size == 0,
        f"values within ±{bound:g}",
        got=f"{len(outside)} outside, the first in group {outside[:1, 0].tolist()}",
        fix="clip to the bound or give a larger one",
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class QueryFamily:
    r"""Any queries on the group, added one by one: a list, or a rule that gives release 1, 2, …

    Each query has one output, all m records of the group as its members, and does not care about their order.

    >>> from sightline.releases.moment import Moment
    >>> family = QueryFamily(queries=lambda order: Moment(order=order, members=range(2), bound=1.0))
    >>> family.rows(np.array([[-0.5, 0.5]]), 2).tolist()
    [[[0.5, 0.5], [-1.0, 1.0]]]
    """

    queries: Sequence[Query] | Callable[[int], Query]

    def __post_init__(self) -> None:
        if callable(self.queries):
            return
        try:
            object.__setattr__(self, "queries", tuple(self.queries))
        except TypeError:
            raise InvalidRelease(
                f"expected queries or a rule that gives them, got {type(self.queries).__name__}"
            ) from None
        require(len(self.queries) > 0, "at least one query", got=0, error=InvalidRelease)

    @property
    def nested(self) -> bool:
        """Always: queries are added one by one."""
        return True

    @property
    def largest(self) -> int | None:
        """The length of the list."""
        return None if callable(self.queries) else len(self.queries)

    def rows(self, groups: FloatArray, releases: int) -> FloatArray:
        """Jacobian over sensitivity of each query at each group."""
        queries = [self._query(number, groups.shape[1]) for number in range(1, releases + 1)]
        rows = np.empty((len(groups), releases, groups.shape[1]))
        for b, group in enumerate(groups):
            for i, query in enumerate(queries):
                _require_order_free(query, group, number=i + 1)
                rows[b, i] = query.jacobian(group)[0, :, 0] / query.sensitivity
        return rows

    def check(self, groups: FloatArray) -> None:
        """Each query checks its own domain when it is asked."""

    def row_error(self, releases: int) -> float:
        """Jacobians are taken to be right to a few units in the last place."""
        return 8.0

    def edge_error(self, groups: FloatArray, releases: int) -> FloatArray | None:
        """None: see :meth:`row_error`."""
        return None

    @property
    def convention(self) -> Convention | None:
        """None: each query states its own sensitivity."""
        return None

    def full_rank_from(self, members: int) -> int | None:
        """Nothing is known in advance."""
        return None

    def balls(self, values: Sequence[fmpq], releases: int) -> Balls:
        """Not available: a query is asked in double precision."""
        raise InvalidInput(
            "expected a family of moments or thresholds for a certified curve, got queries, whose Jacobians "
            "are doubles; use release_curve"
        )

    def _query(self, number: int, members: int) -> Query:
        query = self.queries(number) if callable(self.queries) else self.queries[number - 1]
        require(
            query.outputs == 1 and query.dimension == 1,
            "queries with one output on scalar records",
            got=f"{query.outputs} output(s) of records of dimension {query.dimension} in release {number}",
            error=InvalidRelease,
        )
        require(
            len(query.members) == members and int(query.members[-1]) == members - 1,
            f"queries whose members are the {members} values of the group",
            got=f"{len(query.members)} members up to position {int(query.members[-1])} in release {number}",
            fix="use members=range(m)",
            error=InvalidRelease,
        )
        return query


def _require_order_free(query: Query, group: FloatArray, *, number: int) -> None:
    """The sorted chart holds only for answers that do not depend on the order of the values."""
    shuffled = np.roll(group, 1)
    forward, turned = query.value(group), query.value(shuffled)
    swapped = query.value(group[::-1].copy())
    scale = np.abs(forward) + np.abs(query.sensitivity)
    near = np.abs(turned - forward) <= 1e-9 * scale
    require(
        bool(np.all(near & (np.abs(swapped - forward) <= 1e-9 * scale))),
        "queries that do not depend on the order of the values",
        got=f"release {number}, whose answer changes when they are permuted",
        fix="for records that differ by name use a Transcript and its geometry",
        error=InvalidRelease,
    )
