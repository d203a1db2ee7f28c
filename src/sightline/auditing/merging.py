"""Two groups of a release published as one: the membership and the plan after the merge."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sightline.auditing.plan import Plan
from sightline.auditing.release_noise import CellNoise
from sightline.tables.membership import Cell, Membership

Key = tuple[str, ...]


def merged(plan: Plan, membership: Membership, first: int, second: int) -> tuple[Plan, Membership] | None:
    """The plan and its membership if the groups of two cells of one partition were one group.

    All numbers that the release publishes of the two groups are merged. ``None`` where persons have several
    rows, whose table is not rewritten, and where ``noise`` lists the numbers one by one.
    """
    if membership.weights is not None:
        return None
    one, two = membership.cells[first], membership.cells[second]
    assert one.partition == two.partition  # groups of one partition
    query = membership.partitions[one.partition].query
    if membership.persons is not None or any(noise.cells for noise in plan.releases[query].noise):
        return None
    key = _joined(one.key, two.key)
    place = {(cell.partition, cell.key): i for i, cell in enumerate(membership.cells)}
    pairs = [
        (place[p, one.key], place[p, two.key])
        for p, part in enumerate(membership.partitions)
        if part.query == query and (p, one.key) in place and (p, two.key) in place
    ]
    cells, signatures, starts = list(membership.cells), membership.signatures.copy(), membership.starts
    for kept, gone in pairs:
        p = cells[kept].partition
        own, other = kept - starts[p], gone - starts[p]
        column = signatures[:, p]
        column[column == other] = own
        column[column > other] -= 1
        cells[kept] = _together(membership, kept, gone, key)
    gone_cells = {gone for _, gone in pairs}
    distinct, home = np.unique(signatures, axis=0, return_inverse=True)
    home = home.ravel()
    after = replace(
        membership,
        cells=tuple(cell for i, cell in enumerate(cells) if i not in gone_cells),
        signatures=distinct,
        counts=np.bincount(home, membership.counts, len(distinct)).astype(np.int64),
        known=np.bincount(home, membership.known, len(distinct)).astype(np.int64),
    )
    return _with_noise(plan, query, (one.key, two.key), key), after


def _together(membership: Membership, kept: int, gone: int, key: Key) -> Cell:
    one, two = membership.cells[kept], membership.cells[gone]
    shares = one.largest_share + two.largest_share
    return replace(
        one,
        key=key,
        rows=one.rows + two.rows,
        largest_share=min(shares, membership.contributions),
    )


def _joined(one: Key, two: Key) -> Key:
    """What the merged group is called.

    >>> _joined(("north", "1"), ("north", "2"))
    ('north', '1 + 2')
    """
    return tuple(a if a == b else f"{a} + {b}" for a, b in zip(one, two, strict=True))


def _with_noise(plan: Plan, query: int, keys: tuple[Key, Key], key: Key) -> Plan:
    """The plan with a noise for the merged group where it gives one to each group: the larger of the two."""
    release = plan.releases[query]
    if not release.noise_by_cell:
        return plan
    both: dict[str, float] = {}
    for noise in release.noise_by_cell:
        if noise.key in keys:
            both[noise.label] = max(noise.stddev, both.get(noise.label, 0.0))
    others = tuple(noise for noise in release.noise_by_cell if noise.key not in keys)
    new = tuple(CellNoise(key=key, label=label, stddev=stddev) for label, stddev in both.items())
    changed = release.model_copy(update={"noise_by_cell": (*others, *new)})
    releases = (*plan.releases[:query], changed, *plan.releases[query + 1 :])
    return plan.model_copy(update={"releases": releases})
