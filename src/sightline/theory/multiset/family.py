"""The interface of a family of releases on one fixed group; families of arbitrary queries."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sightline.arrays import FloatArray, IndexArray, frozen_floats
from sightline.errors import InvalidRelease, require
from sightline.theory.releases.query import Convention, Query


@runtime_checkable
class Family(Protocol):
    r"""A rule that says which L releases are made of a group, for every L.

    The geometry needs only the sensitivity-normalised gradients (``eq:lever2_g_def``)

    .. math:: g_\ell(z) = \Delta_\ell^{-1} \nabla_z q_\ell(z), \qquad \ell = 1, \ldots, L .

    A family that derives from this class gets the answers of one without a limit and without a theorem.
    """

    __slots__ = ()

    @property
    def nested(self) -> bool:
        """Whether the first L of L + 1 releases are the L releases, so that curves grow by rows."""

    @property
    def largest(self) -> float:
        """The largest possible number of releases; infinite if there is no limit."""
        return math.inf

    def rows(self, groups: FloatArray, releases: int) -> FloatArray:
        """The gradients for groups ``(B, m)`` of checked, sorted values: ``(B, releases, m)``."""

    def queries_of(self, members: int, releases: int) -> list[Query]:
        """The releases as queries on the records ``range(members)``."""

    def check(self, groups: FloatArray) -> None:
        """Raise unless every value of the groups ``(B, m)`` is in the family's domain."""

    def row_error(self, releases: int) -> float:
        """The error of an entry of the rows in units of 2⁻⁵³, relative to its column."""

    def edge_error(self, groups: FloatArray, releases: int) -> FloatArray | None:
        """Additional error in the same units for each column ``(B, m)``, where slopes vanish, or ``None``."""
        return None

    @property
    def convention(self) -> Convention | None:
        """How sensitivities are stated; ``None`` where each query states its own."""
        return None

    def full_rank_from(self, members: int) -> float:
        """The count from which a theorem makes distinct values identifiable; infinite without a theorem."""
        return math.inf


def rounding(family: Family, releases: int) -> float:
    r"""The relative perturbation :math:`\gamma` of the columns that represents all rounding.

    It is the error of the entries plus one unit for every row that is rotated into a triangle.
    """
    return 2.0**-53 * (family.row_error(releases) + releases)


def checked_group(values: ArrayLike, *, family: Family) -> FloatArray:
    """One group of values in the family's domain, sorted."""
    group = frozen_floats(values, name="values", ndim=1)
    require(group.size > 0, "at least one value in a group", got=f"shape {group.shape}")
    family.check(group[None, :])
    return np.sort(group)


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
class QueryFamily(Family):
    r"""Any queries on the group, added one by one: a list, or a rule that gives release 1, 2, …

    Each query has one output, all m records of the group as its members, and does not depend on their order.

    >>> from sightline import Moment
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
    def largest(self) -> float:
        """The length of the list."""
        return math.inf if callable(self.queries) else len(self.queries)

    def rows(self, groups: FloatArray, releases: int) -> FloatArray:
        """Jacobian over sensitivity of each query at each group."""
        queries = self.queries_of(groups.shape[1], releases)
        rows = np.empty((len(groups), releases, groups.shape[1]))
        for b, group in enumerate(groups):
            for i, query in enumerate(queries):
                _require_order_free(query, group, number=i + 1)
                rows[b, i] = query.jacobian(group)[0, :, 0] / query.sensitivity
        return rows

    def queries_of(self, members: int, releases: int) -> list[Query]:
        """The first queries of the list or rule."""
        return [self._query(number, members) for number in range(1, releases + 1)]

    def check(self, groups: FloatArray) -> None:
        """Nothing: each query checks its own domain when it is evaluated."""

    def row_error(self, releases: int) -> float:
        """An assumption: Jacobians are correct to a few units in the last place."""
        return 8.0

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
    """Raise if the answer depends on the order of the values: the sorted chart would not apply."""
    shuffled = np.roll(group, 1)
    forward, rotated = query.value(group), query.value(shuffled)
    backward = query.value(group[::-1].copy())
    scale = np.abs(forward) + np.abs(query.sensitivity)
    near = np.abs(rotated - forward) <= 1e-9 * scale
    require(
        bool(np.all(near & (np.abs(backward - forward) <= 1e-9 * scale))),
        "queries that do not depend on the order of the values",
        got=f"release {number}, whose answer changes when they are permuted",
        fix="for records that differ by name use a Transcript and its geometry",
        error=InvalidRelease,
    )


Counts = Sequence[int] | range | NDArray[np.integer]


def checked_counts(releases: Counts, *, family: Family) -> IndexArray:
    """Release counts as a locked array: whole, at least one, increasing, no more than the family has."""
    require(
        isinstance(family, Family) and not isinstance(family, type),
        "a family of releases (Moments, Thresholds, QueryFamily)",
        got=type(family).__name__,
    )
    raw = np.atleast_1d(np.asarray(releases))
    whole = raw.ndim == 1 and raw.size > 0 and np.issubdtype(raw.dtype, np.integer)
    require(whole, "release counts as whole numbers", got=f"shape {raw.shape}, dtype {raw.dtype}")
    require(int(raw.min()) >= 1, "release counts >= 1", got=int(raw.min()))
    require(bool(np.all(np.diff(raw) > 0)), "release counts that increase", got="repeated or unsorted counts")
    largest = family.largest
    require(
        int(raw[-1]) <= largest,
        f"at most the {largest} releases of the family",
        got=int(raw[-1]),
    )
    counts = raw.astype(np.intp)
    counts.setflags(write=False)
    return counts
