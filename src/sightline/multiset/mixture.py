"""A family that takes its releases from several families in turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from flint import fmpq

from sightline.arrays import FloatArray, IndexArray
from sightline.errors import InvalidRelease, require
from sightline.multiset.family import Balls, Family
from sightline.releases.query import Convention, Query


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Mixture:
    """Releases from several families: first those of ``lead``, then those of ``turns``, repeated.

    Both name families by position. By default the families alternate; ``lead=(0, 0, 0), turns=(1,)`` makes
    three releases of the first family and all others of the second.

    >>> from sightline import Moments, Thresholds
    >>> both = Mixture(families=(Moments(), Thresholds(bandwidth=0.2)), lead=(0,), turns=(1, 0))
    >>> both.whose(5).tolist()
    [0, 1, 0, 1, 0]
    """

    families: Sequence[Family]
    turns: Sequence[int] = ()
    lead: Sequence[int] = ()

    def __post_init__(self) -> None:
        families = tuple(self.families)
        require(
            len(families) > 0 and all(isinstance(f, Family) and not isinstance(f, type) for f in families),
            "at least one family, and nothing but families",
            got=f"({', '.join(type(family).__name__ for family in families)})",
            error=InvalidRelease,
        )
        turns = tuple(self.turns) or tuple(range(len(families)))
        lead = tuple(self.lead)
        require(
            all(turn in range(len(families)) for turn in turns + lead),
            f"turns from 0 to {len(families) - 1}",
            got=turns + lead,
            error=InvalidRelease,
        )
        for name, value in (("families", families), ("turns", turns), ("lead", lead)):
            object.__setattr__(self, name, value)

    @property
    def nested(self) -> bool:
        """Whether all families are nested."""
        return all(family.nested for family in self.families)

    @property
    def largest(self) -> int | None:
        """The count before the first release that its family cannot make."""
        stops = {turn: family.largest for turn, family in enumerate(self.families)}
        longest = max((stop for stop in stops.values() if stop is not None), default=0)
        whose = self.whose(len(self.lead) + len(self.turns) * (longest + 1))
        places = {turn: np.flatnonzero(whose == turn) for turn in stops}
        late = [places[t][stop] for t, stop in stops.items() if stop is not None and len(places[t]) > stop]
        return int(min(late)) if late else None

    def whose(self, releases: int) -> IndexArray:
        """The family of each release."""
        rounds = -(-max(0, releases - len(self.lead)) // len(self.turns))
        return np.array((*self.lead, *(tuple(self.turns) * rounds)), dtype=np.intp)[:releases]

    def rows(self, groups: FloatArray, releases: int) -> FloatArray:
        """Each family's rows at the places of its turns."""
        whose = self.whose(releases)
        rows = np.empty((len(groups), releases, groups.shape[1]))
        for turn, family in enumerate(self.families):
            own = whose == turn
            if own.any():
                rows[:, own] = family.rows(groups, int(own.sum()))
        return rows

    def queries_of(self, members: int, releases: int) -> list[Query]:
        """Each family's queries at the places of its turns."""
        whose = self.whose(releases)
        supply = [
            iter(family.queries_of(members, int(np.sum(whose == turn))))
            for turn, family in enumerate(self.families)
        ]
        return [next(supply[turn]) for turn in whose]

    def check(self, groups: FloatArray) -> None:
        """Values lie in every family's domain."""
        for family in self.families:
            family.check(groups)

    def row_error(self, releases: int) -> float:
        """The largest error of the families."""
        return max(family.row_error(releases) for family in self.families)

    def edge_error(self, groups: FloatArray, releases: int) -> FloatArray | None:
        """For each value, the largest error of the families."""
        counts = np.bincount(self.whose(releases), minlength=len(self.families))
        errors = [
            error
            for family, own in zip(self.families, counts.tolist(), strict=True)
            if own and (error := family.edge_error(groups, own)) is not None
        ]
        return np.max(errors, axis=0) if errors else None

    @property
    def convention(self) -> Convention | None:
        """The convention that all families share, or ``None``."""
        conventions = {family.convention for family in self.families}
        return conventions.pop() if len(conventions) == 1 else None

    def full_rank_from(self, members: int) -> int | None:
        """The count at which one family alone has made enough releases."""
        enough = []
        for turn, family in enumerate(self.families):
            needed = family.full_rank_from(members)
            if needed is not None and turn in (*self.lead, *self.turns):
                whose = self.whose(len(self.lead) + len(self.turns) * needed)
                own = np.flatnonzero(whose == turn)
                if len(own) >= needed:
                    enough.append(int(own[needed - 1]) + 1)
        return min(enough, default=None)

    def balls(self, values: Sequence[fmpq], releases: int) -> Balls:
        """Each family's rows at the places of its turns."""
        whose = self.whose(releases)
        rows = [
            iter(family.balls(values, int(np.sum(whose == turn))))
            for turn, family in enumerate(self.families)
        ]
        return [next(rows[turn]) for turn in whose]
