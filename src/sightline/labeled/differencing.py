"""Differencing attacks: two rows whose members differ by one record, or by one group that nothing splits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from sightline.arrays import FloatArray, IndexArray

_BLOCK = 1 << 18  # pairs of rows that are compared at once


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferencingPair:
    """Two rows, one of which has exactly one group of records more."""

    larger: int
    smaller: int
    record: int  # the record, or one record of the group
    size: int  # how many records the difference is
    names: tuple[str, str]

    def __str__(self) -> str:
        whom = f"record {self.record}" if self.size == 1 else f"{self.size} records around {self.record}"
        return f"{self.names[0]!r} minus {self.names[1]!r} leaves {whom}"


def differencing_pairs(  # many parameters: the rows, the groups and their residues
    names: Sequence[str],
    *,
    images: FloatArray,
    totals: FloatArray,
    first: IndexArray,
    sizes: IndexArray,
    among: tuple[IndexArray, IndexArray] | None = None,
) -> tuple[DifferencingPair, ...]:
    """All pairs of different rows that differ by one group, found by sums of random whole numbers.

    ``images`` are their sums over each row, ``totals`` over each group: rows differ by a group iff these
    do. Of rows that repeat each other only the first is named. ``among`` are the pairs of a larger and a
    smaller row that come into question; by default all pairs do.
    """
    _, distinct = np.unique(images, axis=1, return_index=True)
    distinct.sort()
    order = np.argsort(totals[0], kind="stable")
    table = totals[0][order]
    pairs = []
    for larger, smaller in _candidates(distinct, images.shape[1], among):
        differences = images[:, larger] - images[:, smaller]
        place = np.minimum(np.searchsorted(table, differences[0]), table.size - 1)
        group = order[place]
        hits = np.all(totals[:, group] == differences, axis=0) & np.any(differences != 0, axis=0)
        pairs += [
            DifferencingPair(
                larger=one,
                smaller=two,
                record=int(first[own]),
                size=int(sizes[own]),
                names=(names[one], names[two]),
            )
            for one, two, own in zip(
                larger[hits].tolist(), smaller[hits].tolist(), group[hits].tolist(), strict=True
            )
        ]
    return tuple(pairs)


def _candidates(
    distinct: IndexArray, rows: int, among: tuple[IndexArray, IndexArray] | None
) -> Iterator[tuple[IndexArray, IndexArray]]:
    """Pairs of rows that repeat no earlier row, some at a time, ordered by the larger and the smaller."""
    if among is None:
        step = max(1, _BLOCK // distinct.size)
        for start in range(0, distinct.size, step):
            some = distinct[start : start + step]
            yield np.repeat(some, distinct.size), np.tile(distinct, some.size)
        return
    usable = np.zeros(rows, dtype=np.bool_)
    usable[distinct] = True
    larger, smaller = among
    kept = usable[larger] & usable[smaller]
    larger, smaller = larger[kept], smaller[kept]
    order = np.lexsort((smaller, larger))
    yield larger[order], smaller[order]
