"""The rows of the ledger's table: for each person and epoch the group of every release, as it is stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.arrays import FloatArray, IndexArray
from sightline.auditing.plan import Release
from sightline.ledger.entries import FrozenNumbers
from sightline.ledger.frozen import IN_NO_GROUP, Found, Groups

_MOST_IDS = 2**62  # combinations of groups that a number can stand for


@dataclass(frozen=True, kw_only=True, eq=False)
class PastRelease:
    """A release that counts: its numbers, who was in them, and what was found in its values."""

    number: int
    release: Release  # as it was written
    epoch: str
    numbers: tuple[FrozenNumbers, ...]
    groups: Groups
    found: Found | None  # none if the owner's file is missing
    public: tuple[str, ...]  # columns that it took as public and the head does not declare

    @property
    def name(self) -> str:
        """What people call it, with its number."""
        return f"{self.release.name} ({self.number})"

    def section_name(self, column: int) -> str:
        """What the section of one of its columns is called."""
        return self.name if len(self.numbers) == 1 else f"{self.name}, part {column + 1}"


@dataclass(frozen=True, kw_only=True, eq=False)
class FrozenRows:
    """The rows of the ledger's table: whose each is, and its group and its weight in each column."""

    person: IndexArray
    known: NDArray[np.bool_]
    codes: tuple[NDArray[np.int32], ...]  # by column: the group of each row, or none
    weights: tuple[FloatArray, ...]  # by column

    @classmethod
    def of(cls, releases: Sequence[PastRelease]) -> FrozenRows:
        """The rows of some releases: one for each person and epoch, or several where a person had several."""
        width = 1 + max(int(one.groups.place.max(initial=0)) for one in releases)
        size = width * max(one.groups.numbers for one in releases)
        there = {one.epoch: np.zeros(size, dtype=np.bool_) for one in releases}
        for one in releases:
            there[one.epoch][one.groups.row(width)] |= one.groups.inside
        person = [np.flatnonzero(rows) // width for rows in there.values()]
        ends = np.cumsum([own.size for own in person]).tolist()
        parts = dict(zip(there, map(slice, [0, *ends[:-1]], ends), strict=True))
        known = np.zeros(ends[-1], dtype=np.bool_)  # in an epoch: in another one, the value is another
        codes, weights = [], []
        for one in releases:
            rows, part, place = there[one.epoch], parts[one.epoch], one.groups.row(width)
            if one.groups.known.any():
                known[part] |= _placed(one.groups.known, False, place, rows)
            for line, numbers in enumerate(one.numbers):
                codes.append(np.full(known.size, IN_NO_GROUP, dtype=np.int32))
                codes[-1][part] = _placed(one.groups.codes[:, line], IN_NO_GROUP, place, rows)
                weights.append(np.broadcast_to(1.0, known.shape))
                if numbers.weight:
                    weights[-1] = np.zeros(known.size)
                    weights[-1][part] = _placed(one.groups.weights[:, line], 0.0, place, rows)
        return cls(person=np.concatenate(person), known=known, codes=tuple(codes), weights=tuple(weights))

    @cached_property
    def signatures(self) -> tuple[IndexArray, IndexArray]:
        """The signature of every row, and the first row of every signature."""
        listed = [(codes, int(codes.max(initial=0))) for codes in self.codes]
        for weights in self.weights:
            if weights.strides[0]:
                values, place = np.unique(weights, return_inverse=True)
                listed.append((place.astype(np.int32), values.size))
        # Who is in the group of the same code each time needs no comparison with the others.
        moved = np.zeros(self.person.size, dtype=np.bool_)
        for (one, _), (other, _) in pairwise(listed):
            moved |= one != other
        few = np.flatnonzero(moved)
        number, most = np.zeros(few.size, dtype=np.int64), 1
        for codes, largest in listed:
            if most > _MOST_IDS // (largest + 2):
                distinct, number = np.unique(number, return_inverse=True)
                most = distinct.size
            number = number * (largest + 2) + codes[few] + 1
            most *= largest + 2
        signature = listed[0][0].astype(np.intp) + 1
        signature[few] = listed[0][1] + 2 + np.unique(number, return_inverse=True)[1]
        signature = (np.cumsum(np.bincount(signature) > 0) - 1)[signature]
        first = np.zeros(int(signature.max(initial=-1)) + 1, dtype=np.intp)
        first[signature[::-1]] = np.arange(signature.size)[::-1]
        return signature, first


def _placed(
    values: NDArray[Any], otherwise: float, place: IndexArray | slice, rows: NDArray[np.bool_]
) -> NDArray[Any]:
    """Values at some places of all, where the rows are; in order, because memory is then read in order."""
    by_place = np.full(rows.size, otherwise, dtype=values.dtype)
    by_place[place] = values
    return by_place[rows]
