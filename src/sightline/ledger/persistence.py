"""Whether people have the values that they had in another epoch, by the true sums over the same people."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from sightline.arrays import COARSE, FloatArray, IndexArray
from sightline.ledger.history import PastRelease
from sightline.values import frozen


@frozen(eq=True)
class Unchanged:
    """How many people of a release have the value that they had, of those whom an earlier sum tells about."""

    people: int = 0
    compared: int = 0


NOBODY = Unchanged()


@frozen
class _Sums:
    """True sums over groups of people, one for each code: arrays."""

    feature: tuple[object, ...]  # what is added up
    total: FloatArray
    size: IndexArray  # people of each group whom the attacker does not know
    mark: NDArray[np.int64]  # two sums of random marks: equal for the same people with the same weights
    other_mark: NDArray[np.int64]
    person: IndexArray  # of every row in a group, and its group
    code: IndexArray


def unchanged(releases: tuple[PastRelease, ...]) -> Unchanged:
    """Of the people of the last release, those in a group whose sum is what it was in another epoch.

    A sum of several people that has not changed is taken for values that have not. The last sum over the same
    people counts.
    """
    *before, last = releases
    earlier = [one for one in reversed(before) if one.epoch != last.epoch and not one.lost]
    if last.lost or not earlier:
        return NOBODY
    numbers = max(one.groups.numbers for one in releases)
    marks = np.random.default_rng(0).integers(1, 1 << 62, size=(2, numbers)) | 1
    compared, same = np.zeros((2, numbers), dtype=np.bool_)
    for now in _sums(last, marks):
        totals_before = np.full(now.total.size, np.nan)
        for past in (sums for one in earlier for sums in _sums(one, marks) if sums.feature == now.feature):
            order = np.argsort(past.mark, kind="stable")
            place = order[np.minimum(np.searchsorted(past.mark[order], now.mark), order.size - 1)]
            alike = (past.mark[place] == now.mark) & (past.other_mark[place] == now.other_mark)
            alike &= (past.size[place] == now.size) & (now.size > 0) & np.isnan(totals_before)
            totals_before[alike] = past.total[place[alike]]
        known = ~np.isnan(totals_before)
        kept = known & (
            np.abs(totals_before - now.total) <= COARSE * np.maximum(np.abs(totals_before), np.abs(now.total))
        )
        compared[now.person[known[now.code]]] = True
        same[now.person[kept[now.code]]] = True
    return Unchanged(people=int(same.sum()), compared=int(compared.sum()))


def _sums(release: PastRelease, marks: NDArray[np.int64]) -> Iterator[_Sums]:
    """The true sums of a release over the people whom the attacker does not know."""
    groups = release.groups
    for line, numbers in enumerate(release.numbers):
        inside = np.flatnonzero((groups.codes[:, line] >= 0) & ~groups.known)
        code, person = groups.codes[inside, line].astype(np.intp), groups.person[inside]
        bits = np.ascontiguousarray(groups.weights[inside, line], dtype=np.float64).view(np.int64)
        summed = np.zeros((2, len(numbers.groups)), dtype=np.int64)
        with np.errstate(over="ignore"):
            for own, mark in zip(summed, marks, strict=True):
                np.add.at(own, code, (mark[person] ^ bits) * mark[person])
        for place, aggregate in enumerate(numbers.aggregates):
            yield _Sums(
                feature=(aggregate.feature, aggregate.levels, aggregate.above, aggregate.categories),
                total=np.array(release.found.sums[line][place]),
                size=np.bincount(code, minlength=len(numbers.groups)),
                mark=summed[0],
                other_mark=summed[1],
                person=person,
                code=code,
            )
