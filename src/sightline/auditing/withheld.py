"""Numbers of a plan's queries that are withheld before anything is published."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from sightline.auditing.plan import Plan
from sightline.errors import InvalidPlan, require
from sightline.tables.membership import Membership
from sightline.tables.published import published


def as_published(
    plan: Plan, membership: Membership, *, suppressed: Mapping[int, Sequence[int]] = MappingProxyType({})
) -> Membership:
    """The membership of the numbers that the plan really publishes.

    ``suppressed`` has the cells that each release's ``suppress`` leaves out.

    Which numbers are withheld is part of the plan, which the attacker knows: it says nothing about
    the secrets, because it was chosen from who is in which group and from the noise.
    """
    withheld: list[int] = []
    for query, release in enumerate(plan.releases):
        if not release.withhold and query not in suppressed:
            continue
        groups = _Groups.of(membership, query, release.name)
        for gone in release.withhold:
            withheld += groups.named(gone.label, gone.key)
        withheld += sorted(set(suppressed.get(query, ())) - set(withheld))
        require(
            not groups.everything <= set(withheld),
            f"release {release.name!r}: a number that is published",
            got="withhold or suppress for all of them",
            fix="leave out the release",
            error=InvalidPlan,
        )
    twice = [cell for cell, times in Counter(withheld).items() if times > 1]
    require(
        not twice,
        "each number at most once in withhold",
        got="one twice" if not twice else f"the group {', '.join(membership.cells[twice[0]].key)!r} twice",
        error=InvalidPlan,
    )
    return published(membership, withheld=withheld)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Groups:
    """The cells of one release, by partition and key."""

    release: str
    labels: dict[int, str]  # of each partition
    cells: dict[int, dict[tuple[str, ...], list[int]]]

    @classmethod
    def of(cls, membership: Membership, query: int, name: str) -> _Groups:
        """The cells of a release."""
        own = {p: part.label for p, part in enumerate(membership.partitions) if part.query == query}
        cells: dict[int, dict[tuple[str, ...], list[int]]] = {p: {} for p in own}
        for place, cell in enumerate(membership.cells):
            if cell.partition in own:
                cells[cell.partition].setdefault(cell.key, []).append(place)
        return cls(release=name, labels=own, cells=cells)

    @property
    def everything(self) -> set[int]:
        """All cells of the release."""
        return {cell for own in self.cells.values() for found in own.values() for cell in found}

    def named(self, label: str, key: tuple[str, ...]) -> list[int]:
        """The cells with a key, one for each partition that has it."""
        found = [
            cell
            for p, cells in self.cells.items()
            if label in ("", self.labels[p])
            for cell in cells.get(key, ())
        ]
        require(
            all(len(cells.get(key, ())) <= 1 for cells in self.cells.values()),
            f"release {self.release!r}: withhold for groups that their keys tell apart",
            got=f"two groups that read {', '.join(key)!r}",
            error=InvalidPlan,
        )
        require(
            bool(found),
            f"release {self.release!r}: withhold for groups that its query has",
            got=f"the group {', '.join(key)!r}" + (f" of {label}" if label else ""),
            fix="check the spelling of its key and label",
            error=InvalidPlan,
        )
        return found
