"""Numbers of a plan's queries that are withheld or merged before anything is published."""

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

    Which numbers are withheld or merged is part of the plan, which the attacker knows: it says nothing about
    the secrets, because it was chosen from who is in which group and from the noise.
    """
    withheld: list[int] = []
    merged: list[list[int]] = []
    for query, release in enumerate(plan.releases):
        if not release.withhold and not release.merge and query not in suppressed:
            continue
        groups = _Groups.of(membership, query, release.name)
        for gone in release.withhold:
            withheld += [cell for own in groups.named("withhold", gone.label, [gone.key]) for cell in own]
        withheld += sorted(set(suppressed.get(query, ())) - set(withheld))
        for together in release.merge:
            merged += groups.named("merge", together.label, list(together.keys))
        require(
            not groups.everything <= set(withheld),
            f"release {release.name!r}: a number that is published",
            got="withhold or suppress for all of them",
            fix="leave out the release",
            error=InvalidPlan,
        )
    named = Counter([*withheld, *(cell for group in merged for cell in group)])
    twice = [cell for cell, times in named.items() if times > 1]
    require(
        not twice,
        "each number at most once in withhold and merge, and none in merge that is suppressed",
        got="one twice" if not twice else f"the group {', '.join(membership.cells[twice[0]].key)!r} twice",
        error=InvalidPlan,
    )
    result = published(membership, withheld=withheld, merged=merged)
    marks = Counter((cell.partition, cell.key) for cell in result.cells)
    same = [key for (_, key), times in marks.items() if times > 1]
    require(
        not merged or not same,
        "merged groups whose keys tell them from others",
        got=f"{', '.join(same[0])!r} twice" if same else "",
        error=InvalidPlan,
    )
    return result


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

    def named(self, field: str, label: str, keys: list[tuple[str, ...]]) -> list[list[int]]:
        """The cells with some keys, for each partition that has all of them."""
        found = [
            [cell for key in keys for cell in own[key]]
            for p, own in self.cells.items()
            if label in ("", self.labels[p]) and all(key in own for key in keys)
        ]
        several = next(
            (key for own in self.cells.values() for key in keys if len(own.get(key, ())) > 1), None
        )
        require(
            several is None,
            f"release {self.release!r}: {field} for groups that their keys tell apart",
            got=f"two groups that read {', '.join(several or ())!r}",
            error=InvalidPlan,
        )
        wrong = next((key for key in keys if not any(key in own for own in self.cells.values())), keys[0])
        require(
            bool(found),
            f"release {self.release!r}: {field} for groups that its query has",
            got=f"the group {', '.join(wrong)!r}" + (f" of {label}" if label else ""),
            fix="check the spelling of its key and label",
            error=InvalidPlan,
        )
        return found
