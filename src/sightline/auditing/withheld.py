"""Numbers of a plan's queries by name, and those that are withheld before anything is published."""

from __future__ import annotations

from collections import Counter

from sightline.auditing.plan import Plan
from sightline.auditing.release_noise import names_of
from sightline.errors import InvalidPlan, require
from sightline.tables.membership import Membership
from sightline.tables.published import published


def as_published(plan: Plan, membership: Membership) -> Membership:
    """The membership of the numbers that the plan really publishes, without those that it withholds.

    Which numbers are withheld is part of the plan, which the attacker knows: it says nothing about the
    secrets, because it was chosen from who is in which group and from the noise.
    """
    withheld: list[int] = []
    for query, release in enumerate(plan.releases):
        if not release.withhold:
            continue
        where = f"release {release.name!r}: withhold"
        for name in release.withhold:
            if release.suppress is None or _is_listed(membership, query, name):
                withheld += cells_named(membership, query, name, where)
        require(
            not _cells_of(membership, query) <= set(withheld),
            f"release {release.name!r}: a number that is published",
            got="withhold for all of them",
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


def _cells_of(membership: Membership, query: int) -> set[int]:
    """All cells of a release."""
    parts = membership.partitions
    return {c for c, cell in enumerate(membership.cells) if parts[cell.partition].query == query}


def _is_listed(membership: Membership, query: int, name: tuple[str, ...]) -> bool:
    """Whether a group of that name is left: ``suppress`` may leave out a group that is also withheld."""
    keys = {membership.cells[c].key for c in _cells_of(membership, query)}
    return name in keys or name[:-1] in keys


def cells_named(membership: Membership, query: int, name: tuple[str, ...], where: str) -> list[int]:
    """The cells of a release that a name means; a mistake is refused with ``where`` in front.

    A name is the values of a group, for all aggregates of the release, or these and the label of one.
    """
    groups, labeled = [], []
    for c in sorted(_cells_of(membership, query)):
        cell = membership.cells[c]
        label = membership.partitions[cell.partition].label
        if cell.key == name:
            groups.append(c)
        elif cell.key == name[:-1] and name[-1] in names_of(label, grouped=bool(cell.key)):
            labeled.append(c)
    found = groups or labeled
    parts = [membership.cells[c].partition for c in found]
    require(
        not (groups and labeled) and len(set(parts)) == len(parts),
        f"{where} for groups that their keys tell apart",
        got=f"two that read {', '.join(name)!r}",
        error=InvalidPlan,
    )
    require(
        bool(found),
        f"{where} for numbers that its query has",
        got=repr(", ".join(name)[:60]),
        fix="check the spelling of its key and label",
        error=InvalidPlan,
    )
    return found
