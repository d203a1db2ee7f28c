"""The numbers that are really published: without those withheld, and with those of steps that nobody is in.

Rows keep their signatures' places, so that an engine still finds them. Two signatures may then have the same
cells: ``Membership.distinct`` says so.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

import numpy as np

from sightline.arrays import IndexArray
from sightline.tables.membership import Cell, Membership
from sightline.values import frozen


def published(membership: Membership, *, withheld: Collection[int]) -> Membership:
    """The membership without some cells, given by their positions; partitions without cells are left out."""
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
        weights={int(new_partition[p]): own for p, own in membership.weights.items() if p in kept},
        distinct=False,
    )


def without_queries(membership: Membership, dropped: Collection[int]) -> Membership:
    """The membership without some of the plan's releases, and the others numbered anew."""
    if not dropped:
        return membership
    parts = membership.partitions
    gone = [c for c, cell in enumerate(membership.cells) if parts[cell.partition].query in dropped]
    left = published(membership, withheld=gone) if gone else membership
    with_numbers = 1 + max((part.query for part in membership.partitions), default=-1)
    queries = max(len(membership.unaudited), with_numbers)
    kept = [query for query in range(queries) if query not in dropped]
    number_of = {query: number for number, query in enumerate(kept)}
    whole = membership.with_derived
    return replace(
        left,
        with_derived=None if whole is None else without_queries(whole, dropped),
        partitions=tuple(
            replace(part, query=number_of[part.query]) for part in left.partitions if part.query in number_of
        ),
        unaudited=tuple(rows for query, rows in enumerate(membership.unaudited) if query in number_of),
    )


def _signatures(
    membership: Membership, kept: IndexArray, kept_cells: IndexArray
) -> np.ndarray[tuple[int, int], np.dtype[np.signedinteger]]:
    """The table of signatures over the partitions that are kept, with the new numbers of their cells."""
    starts, table = membership.starts, membership.signatures
    signatures = np.empty((len(kept), len(table)), dtype=table.dtype)
    for line, p in zip(signatures, kept, strict=True):
        stays = np.isin(np.arange(starts[p], starts[p + 1]), kept_cells)
        number = np.where(stays, np.cumsum(stays) - 1, -1)
        line[:] = np.append(number, -1)[table[:, p]]  # the last entry is for rows in no cell
    signatures.setflags(write=False)
    return signatures.T


@frozen
class Steps:
    """The steps of one column of GROUP BY."""

    column: int  # its place in the key
    count: int
    place: Callable[[str], int]  # of a value of the column; it refuses those that are no step
    text: Callable[[int], str]  # of a step, as a value of the column


def with_steps(membership: Membership, steps: Mapping[int, Steps]) -> Membership:
    """The membership with a cell for every step of some partitions, for every value of the other columns.

    The cells of one value of the others lie together, in the order of the steps.
    """
    cells: list[Cell] = []
    largest = int(np.iinfo(membership.signatures.dtype).max)
    wide = any(len(membership.cells) * own.count > largest for own in steps.values())
    signatures = membership.signatures.astype(np.int32 if wide else membership.signatures.dtype)
    for p in range(len(membership.partitions)):
        present = membership.cells[membership.starts[p] : membership.starts[p + 1]]
        if p not in steps:
            cells += present
            continue
        axis = steps[p]
        block: dict[tuple[str, ...], int] = {}
        number = np.full(
            len(present) + 1, -1, dtype=signatures.dtype
        )  # the last entry is for rows in no cell
        filled: dict[int, Cell] = {}
        for place, cell in enumerate(present):
            others = cell.key[: axis.column] + cell.key[axis.column + 1 :]
            position = block.setdefault(others, len(block)) * axis.count + axis.place(cell.key[axis.column])
            number[place] = position
            filled[position] = cell
        signatures[:, p] = number[membership.signatures[:, p]]
        for others, first in block.items():
            for step in range(axis.count):
                key = (*others[: axis.column], axis.text(step), *others[axis.column :])
                empty = Cell(partition=p, key=key, rows=0)
                cells.append(filled.get(first * axis.count + step, empty))
    return replace(membership, cells=tuple(cells), signatures=signatures)
