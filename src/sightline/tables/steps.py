"""Cells of all steps of running sums: also of those that no row is in, which are published all the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from sightline.tables.membership import Cell, Membership


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
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
    if not steps:
        return membership
    cells: list[Cell] = []
    largest = int(np.iinfo(membership.signatures.dtype).max)
    wide = any(len(membership.cells) * own.count > largest for own in steps.values())
    signatures = membership.signatures.astype(np.int32 if wide else membership.signatures.dtype)
    for p in range(len(membership.partitions)):
        present = membership.cells[membership.starts[p] : membership.starts[p + 1]]
        if p not in steps:
            cells += present
            continue
        own = steps[p]
        block: dict[tuple[str, ...], int] = {}
        number = np.full(
            len(present) + 1, -1, dtype=signatures.dtype
        )  # the last entry is for rows in no cell
        filled: dict[int, Cell] = {}
        for place, cell in enumerate(present):
            others = cell.key[: own.column] + cell.key[own.column + 1 :]
            position = block.setdefault(others, len(block)) * own.count + own.place(cell.key[own.column])
            number[place] = position
            filled[position] = cell
        signatures[:, p] = number[membership.signatures[:, p]]
        for others, first in block.items():
            for step in range(own.count):
                key = (*others[: own.column], own.text(step), *others[own.column :])
                empty = Cell(partition=p, key=key, rows=0, largest_share=0)
                cells.append(filled.get(first * own.count + step, empty))
    return replace(membership, cells=tuple(cells), signatures=signatures, made={})
