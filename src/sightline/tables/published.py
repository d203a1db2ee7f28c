"""The numbers that are really published: without those withheld, and with merged cells as one.

Rows keep their signatures' places, so that an engine still finds them. Two signatures may then have the same
cells: ``Membership.distinct`` says so.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from sightline.arrays import IndexArray
from sightline.tables.membership import Cell, Membership


def published(
    membership: Membership, *, withheld: Collection[int] = (), merged: Sequence[Sequence[int]] = ()
) -> Membership:
    """The membership without some cells, and with some cells of a partition as one cell of all their rows.

    Cells are given by their positions; no cell may be given twice. A partition that is left without cells
    is left out.
    """
    if not withheld and not merged:
        return membership
    owner = np.array([cell.partition for cell in membership.cells], dtype=np.intp)
    head = np.arange(owner.size)
    for group in merged:
        head[list(group)] = min(group)
    head[list(withheld)] = -1
    heads = np.unique(head[head >= 0])
    kept = np.unique(owner[heads])
    new_partition = np.full(len(membership.partitions), -1, dtype=np.intp)
    new_partition[kept] = np.arange(kept.size)
    together = {min(group): sorted(group) for group in merged}
    cells = tuple(
        _cell(membership, together.get(int(one), [int(one)]), int(new_partition[owner[one]])) for one in heads
    )
    return replace(
        membership,
        partitions=tuple(membership.partitions[p] for p in kept),
        cells=cells,
        signatures=_signatures(membership, kept, head, heads),
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


def _cell(membership: Membership, group: list[int], partition: int) -> Cell:
    """One published cell of the rows of several."""
    members = [membership.cells[c] for c in group]
    most = sum(cell.largest_share for cell in members)
    return Cell(
        partition=partition,
        key=merged_key([cell.key for cell in members]),
        rows=sum(cell.rows for cell in members),
        largest_share=min(most, max(1, membership.contributions)),
    )


def merged_key(keys: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """The key of merged cells: in each column the different values, in the order of the cells.

    >>> merged_key([("north", "old"), ("south", "old")])
    ('north + south', 'old')
    """
    return tuple(" + ".join(dict.fromkeys(column)) for column in zip(*keys, strict=True))


def _signatures(
    membership: Membership, kept: IndexArray, head: IndexArray, heads: IndexArray
) -> np.ndarray[tuple[int, int], np.dtype[np.signedinteger]]:
    """The table of signatures over the partitions that are kept, with the new numbers of their cells."""
    starts, table = membership.starts, membership.signatures
    found = np.empty((len(kept), len(table)), dtype=table.dtype)
    for line, p in zip(found, kept, strict=True):
        own = head[starts[p] : starts[p + 1]]
        first = int(np.searchsorted(heads, starts[p]))
        number = np.where(own < 0, -1, np.searchsorted(heads, own) - first)
        line[:] = np.append(number, -1)[table[:, p]]  # the last entry is for rows in no cell
    found.setflags(write=False)
    return found.T
