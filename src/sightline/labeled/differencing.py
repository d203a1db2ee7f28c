"""Differencing attacks: two rows whose members differ by one record, or by one group that nothing splits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sightline.arrays import IndexArray
from sightline.numerics.residues import Residues


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


def differencing_pairs(
    names: Sequence[str],
    *,
    images: Residues,
    totals: Residues,
    prime: int,
    first: IndexArray,
    sizes: IndexArray,
) -> tuple[DifferencingPair, ...]:
    """All pairs of different rows that differ by one group, found by their residues.

    ``images`` is the sum of random residues over each row, ``totals`` over each group: rows differ by a
    group iff their residues do. Of rows that repeat each other only the first is named.
    """
    _, distinct = np.unique(images, axis=1, return_index=True)
    distinct.sort()
    order = np.argsort(totals[0], kind="stable")
    table = totals[0][order]
    pairs = []
    for larger in distinct:
        differences = np.mod(images[:, [larger]] - images[:, distinct], np.int64(prime))
        place = np.minimum(np.searchsorted(table, differences[0]), table.size - 1)
        group = order[place]
        hits = np.flatnonzero(
            np.all(totals[:, group] == differences, axis=0) & np.any(differences != 0, axis=0)
        )
        for hit in hits:
            smaller = int(distinct[hit])
            pairs.append(
                DifferencingPair(
                    larger=int(larger),
                    smaller=smaller,
                    record=int(first[group[hit]]),
                    size=int(sizes[group[hit]]),
                    names=(names[larger], names[smaller]),
                )
            )
    return tuple(pairs)
