"""The numbers that are really published: without those withheld.

Rows keep their signatures' places, so that an engine still finds them. Two signatures may then have the same
cells: ``Membership.distinct`` says so.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from sightline.arrays import IndexArray
from sightline.tables.membership import Cell, Membership


def published(membership: Membership, *, withheld: Collection[int] = ()) -> Membership:
    """The membership without some cells, given by their positions; partitions without cells are left out."""
    if not withheld:
        return membership
    kept_cells = np.setdiff1d(np.arange(len(membership.cells)), np.array(list(withheld), dtype=np.intp))
    owner = np.array([cell.partition for cell in membership.cells], dtype=np.intp)
    kept = np.unique(owner[kept_cells])
    new_partition = np.full(len(membership.partitions), -1, dtype=np.intp)
    new_partition[kept] = np.arange(kept.size)
    cells = tuple(
        replace(membership.cells[c], partition=int(new_partition[owner[c]])) for c in kept_cells.tolist()
    )
    return replace(
        membership,
        partitions=tuple(membership.partitions[p] for p in kept),
        cells=cells,
        signatures=_signatures(membership, kept, kept_cells),
        weights=None if membership.weights is None else membership.weights[:, kept],
        distinct=False,
    )


def without_queries(membership: Membership, dropped: Collection[int]) -> Membership:
    """The membership without some of the plan's releases, and the others numbered anew."""
    if not dropped:
        return membership
    gone = [c for c, cell in enumerate(membership.cells) if _query(membership, cell) in dropped]
    found = published(membership, withheld=gone)
    kept = [query for query in range(_queries(membership)) if query not in dropped]
    place = {query: number for number, query in enumerate(kept)}
    return replace(
        found,
        partitions=tuple(
            replace(part, query=place[part.query]) for part in found.partitions if part.query in place
        ),
        unaudited=tuple(rows for query, rows in enumerate(membership.unaudited) if query in place),
    )


def _query(membership: Membership, cell: Cell) -> int:
    return membership.partitions[cell.partition].query


def _queries(membership: Membership) -> int:
    return max(len(membership.unaudited), 1 + max((part.query for part in membership.partitions), default=-1))


def _signatures(
    membership: Membership, kept: IndexArray, kept_cells: IndexArray
) -> np.ndarray[tuple[int, int], np.dtype[np.signedinteger]]:
    """The table of signatures over the partitions that are kept, with the new numbers of their cells."""
    starts, table = membership.starts, membership.signatures
    found = np.empty((len(kept), len(table)), dtype=table.dtype)
    for line, p in zip(found, kept, strict=True):
        stays = np.isin(np.arange(starts[p], starts[p + 1]), kept_cells)
        number = np.where(stays, np.cumsum(stays) - 1, -1)
        line[:] = np.append(number, -1)[table[:, p]]  # the last entry is for rows in no cell
    found.setflags(write=False)
    return found.T
