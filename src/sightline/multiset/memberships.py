"""The subsets of a group whose means are published beside its symmetric releases, in order and repeated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sightline.arrays import FloatArray, IndexArray, Members, frozen_index
from sightline.errors import InvalidRelease, require
from sightline.releases.domain import positive_number, whole_number
from sightline.releases.subset_mean import SubsetMean


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Memberships:
    r"""Means over subsets of a group: the releases take the ``sets`` in turn, from the first again when all
    were used.

    Values lie within ``±bound``, so a mean of :math:`|C|` values has the sensitivity :math:`2R/|C|`, and its
    gradient over the sensitivity is :math:`1/2R` for members, whatever the size of the subset. ``least`` is
    the smallest subset that the publisher allows; a smaller one is refused.

    >>> pairs = Memberships(sets=[(0, 1), (1, 2)], least=2)
    >>> pairs.counts(3).tolist(), pairs.rows(3).tolist()
    ([2, 1], [[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]])
    """

    sets: tuple[IndexArray, ...]
    bound: float = 1.0
    least: int = 1

    if TYPE_CHECKING:  # the constructor accepts wider types than the fields have

        def __init__(self, *, sets: Sequence[Members], bound: float = 1.0, least: int = 1) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "bound", positive_number(self.bound, name="bound"))
        object.__setattr__(self, "least", whole_number(self.least, name="least"))
        sets = tuple(frozen_index(members, error=InvalidRelease) for members in self.sets)
        require(len(sets) > 0, "at least one subset", got=0, error=InvalidRelease)
        small = [place for place, members in enumerate(sets) if len(members) < self.least]
        require(
            not small,
            f"subsets of at least {self.least} members",
            got=f"a smaller one at place {small[:1]}",
            fix="leave it out, or lower the least size",
            error=InvalidRelease,
        )
        object.__setattr__(self, "sets", sets)

    @classmethod
    def with_and_without(
        cls, *, members: int, target: int, bound: float = 1.0, least: int = 1
    ) -> Memberships:
        """The mean of all but the target (OUT) and the mean of all (IN), in turn.

        A group of one has only the mean of all.

        >>> [members.tolist() for members in Memberships.with_and_without(members=3, target=1).sets]
        [[0, 2], [0, 1, 2]]
        """
        count = whole_number(members, name="members")
        require_target(target, count)
        everyone = range(count)
        others = [member for member in everyone if member != target]
        return cls(sets=[others, everyone] if others else [everyone], bound=bound, least=least)

    def counts(self, releases: int) -> IndexArray:
        """How often each subset is among the first ``releases``."""
        rounds, rest = divmod(releases, len(self.sets))
        return rounds + (np.arange(len(self.sets)) < rest)

    def rows(self, members: int) -> FloatArray:
        """The gradients over the sensitivities, a row for each subset of a group of ``members``."""
        largest = max(int(subset[-1]) for subset in self.sets)
        require(
            largest < members,
            f"subsets of the {members} records of the group",
            got=f"record {largest}",
            error=InvalidRelease,
        )
        rows = np.zeros((len(self.sets), members))
        for row, subset in zip(rows, self.sets, strict=True):
            row[subset] = 0.5 / self.bound
        return rows

    def queries(self, releases: int) -> list[SubsetMean]:
        """The first ``releases`` means as queries."""
        means = [SubsetMean(members=subset, radius=2.0 * self.bound) for subset in self.sets]
        return [means[place % len(means)] for place in range(releases)]

    def separated(self, target: int, members: int) -> NDArray[np.bool_]:
        """For each record of the group, whether some subset has only one of it and the target."""
        inside = self.rows(members) > 0
        separated: NDArray[np.bool_] = np.any(inside != inside[:, [target]], axis=0)
        return separated

    def singles_out(self, target: int, members: int) -> bool:
        """Whether every subset has all of the others or none: only the target and the sum of the rest
        matter."""
        others = np.delete(self.rows(members), target, axis=1)
        return bool(np.all(others == others[:, :1]))


def require_target(target: int, members: int) -> None:
    """Raise unless the target is a position in the group."""
    whole = isinstance(target, int | np.integer) and not isinstance(target, bool)
    require(
        whole and 0 <= target < members,
        f"a target in the group, from 0 to {members - 1}",
        got=target if whole else type(target).__name__,
    )
