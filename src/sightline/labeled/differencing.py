"""Differencing attacks: two rows whose members differ by one record, or by one group that nothing splits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sightline.labeled.exposures import Groups
from sightline.labeled.incidence.protocol import BoolArray
from sightline.numerics.residues import Residues

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


def differencing_pairs(
    names: Sequence[str],
    *,
    images: Residues,
    totals: Residues,
    prime: int,
    groups: Groups,
    nested: BoolArray | None = None,
) -> tuple[DifferencingPair, ...]:
    """All pairs of different rows that differ by one group, found by their residues.

    ``images`` is the sum of random residues over each row, ``totals`` over each group: rows differ by a
    group iff their residues do. Of rows that repeat each other only the first is named. ``nested`` says which
    rows (lines) may have all members of which (columns), if that is known: only these are compared.
    """
    _, distinct = np.unique(images, axis=1, return_index=True)
    distinct.sort()
    order = np.argsort(totals[0], kind="stable")
    table = totals[0][order]
    pairs = []
    step = max(1, _BLOCK // distinct.size)
    for start in range(0, distinct.size, step):
        rows = distinct[start : start + step]
        compared = np.ones((rows.size, distinct.size), dtype=np.bool_)
        if nested is not None:
            compared = nested[np.ix_(rows, distinct)]
        places, others = np.nonzero(compared)
        larger, smaller = rows[places], distinct[others]
        differences = np.mod(images[:, larger] - images[:, smaller], np.int64(prime))
        group = order[np.minimum(np.searchsorted(table, differences[0]), table.size - 1)]
        hits = np.all(totals[:, group] == differences, axis=0) & np.any(differences != 0, axis=0)
        pairs += [
            DifferencingPair(
                larger=first,
                smaller=second,
                record=int(groups.first[own]),
                size=int(groups.sizes[own]),
                names=(names[first], names[second]),
            )
            for first, second, own in zip(
                larger[hits].tolist(), smaller[hits].tolist(), group[hits].tolist(), strict=True
            )
        ]
    return tuple(pairs)
