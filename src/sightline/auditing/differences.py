r"""Published numbers and their differences, x − y and x − y − z, and who is behind them.

Behind a combination is whoever has a row whose coefficient is not zero. With :math:`W_a(S)` the weight of the
people of a whose rows in a are in S (:mod:`sightline.tables.overlaps`), nobody is missed by these filters:

- a difference a − b has at least :math:`\max(W_a(a \setminus b), W_b(b \setminus a))` people behind it;
- a − b − c has those, and at least :math:`W_a(a \setminus (b \cup c)) + W_a(a \cap b \cap c) \ge
  |W_a(a) - W_a(a \cap b) - W_a(a \cap c)|`.

Where b has no row in common with a, the people behind a − b − c include those behind a − c: only numbers that
overlap are compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field, replace
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from sightline.arrays import AT_A_TIME, MOST_SQUARE, FloatArray, IndexArray
from sightline.auditing.unit_findings import MOST_FACTORISED
from sightline.progress import reported
from sightline.tables.membership import Membership
from sightline.tables.overlaps import (
    PeopleBehind,
    PeopleInMemory,
)
from sightline.values import frozen

BoolArray = NDArray[np.bool_]
Ends = tuple[FloatArray, FloatArray]  # the least and the most of every cell; NaN for what is not known


def comparable(membership: Membership, chosen: BoolArray) -> Iterator[IndexArray]:
    """Of the chosen cells those whose numbers can be subtracted: of one feature, with the same weights.

    Those who have it and those who have not are one feature: how many people there are is public.
    """

    def feature(p: int) -> str:
        part = membership.partitions[p]
        weights = part.weight or (f"{p}" if part.weighted else "")  # of a ledger, which keeps no SQL of them
        return repr((part.feature.value, part.parameter, part.closed, weights))

    starts = membership.starts
    for _, parts in groupby(sorted(range(len(membership.partitions)), key=feature), key=feature):
        cells = np.concatenate([np.arange(starts[p], starts[p + 1]) for p in parts]).astype(np.intp)
        yield cells[chosen[cells]]


@frozen
class FewPeople:
    """Combinations with few people behind them; of those that are a multiple of another one, the first."""

    cells: list[tuple[int, ...]]  # the first is added, the others are subtracted
    people: list[int]
    numbers: int  # how many at a time were compared: all up to this
    marks: set[int] = field(default_factory=set)  # of the combinations, times ±1 and ±2, modulo 2**64

    def tells(self, mark: int) -> bool:
        """Whether a combination is a multiple of the one with this sum of marks: coefficients are 1 or 2."""
        return mark in self.marks or 2 * mark % 2**64 in self.marks


def with_few_people(membership: Membership, behind: PeopleBehind, most: int) -> FewPeople:
    """Every number, and every difference of two or three that overlap, with fewer than ``most`` people."""
    behind_few = FewPeople(cells=[], people=[], numbers=3 if len(membership.cells) <= MOST_SQUARE else 1)
    sizes, marks = behind.sizes, behind.marks
    for cells in comparable(membership, np.ones(len(membership.cells), dtype=np.bool_)):
        asked = [cells[:, None]]
        if behind_few.numbers > 1:
            weight = behind.together[np.ix_(cells, cells)]
            threes, numbers = _few_threes(weight, most - 0.5, behind.least / 2)
            asked += [cells[_few_pairs(weight, most - 0.5, behind.least / 2)], cells[threes]]
            behind_few = replace(behind_few, numbers=min(numbers, behind_few.numbers))
        for one in asked:
            people = sizes[one[:, 0]] if one.shape[1] == 1 else behind.people(one)
            few = np.flatnonzero((people > 0) & (people < most))
            first, *others = marks[one[few]].T
            for place, mark in zip(few.tolist(), (first - sum(others)).tolist(), strict=True):
                if not behind_few.tells(mark):
                    behind_few.marks.update(times * mark % 2**64 for times in (1, -1, 2, -2))
                    behind_few.cells.append(tuple(one[place].tolist()))
                    behind_few.people.append(int(people[place]))
    return behind_few


def _few_pairs(weight: FloatArray, most: float, nothing: float) -> IndexArray:
    """Pairs that overlap, with less than ``most`` of each outside the other; the larger first."""
    size = np.diagonal(weight)
    outside = size[:, None] - weight  # of the first, outside the second
    few = (
        (weight > nothing)
        & (np.maximum(outside, outside.T) < most)
        & (np.maximum(outside, outside.T) > nothing)
    )
    pairs = np.argwhere(np.triu(few, 1))
    swap = size[pairs[:, 0]] < size[pairs[:, 1]]
    pairs[swap] = pairs[swap, ::-1]
    return pairs


def _few_threes(weight: FloatArray, most: float, nothing: float) -> tuple[IndexArray, int]:
    """Numbers a, b, c of which a − b − c may have few people behind it; and how many are compared."""
    size, parts = np.diagonal(weight), [np.zeros((0, 3), dtype=np.intp)]
    near = (weight > nothing) & (size[:, None] - weight < most)  # b overlaps a, and few of it are outside
    np.fill_diagonal(near, False)
    if float(np.square(near.sum(axis=0, dtype=np.float64)).sum()) > MOST_FACTORISED**3:
        return parts[0], 2
    counted = 0
    for a in reported(range(len(weight)), "looking for differences of three"):
        others = np.flatnonzero(near[:, a])
        left = size[a] - weight[a, others][:, None] - weight[a, others][None, :]
        pairs = np.argwhere(np.triu(np.abs(left) < most, 1))
        parts.append(np.column_stack([np.full(len(pairs), a), others[pairs]]))
        counted += len(pairs)
        if counted > AT_A_TIME:  # people are counted behind each
            return parts[0], 2
    return np.concatenate(parts), 3


@frozen
class Sum:
    """A combination that is the sum over some signatures, each times its weight, or minus it."""

    cells: tuple[int, ...]
    signatures: IndexArray
    weights: FloatArray
    people: int


def sums(behind: PeopleBehind, chosen: BoolArray) -> tuple[list[Sum], int]:
    """Every number and difference of the chosen cells that is a sum, of those over the same rows the first;
    how many were compared at a time.
    """
    over_same_rows, numbers = sums_over_same_rows(behind, chosen)
    # Weights of 1 are a weight too: a plain sum and a weighted one over the same rows are one.
    first: dict[tuple[bytes, bytes], Sum] = {}
    for alike in over_same_rows:
        first.setdefault((alike[0].signatures.tobytes(), alike[0].weights.tobytes()), alike[0])
    return list(first.values()), numbers


def sums_over_same_rows(
    behind: PeopleBehind, chosen: BoolArray, ends: Ends | None = None
) -> tuple[list[list[Sum]], int]:
    """Every number and difference of the chosen cells that is a sum, those over the same rows together; how
    many were compared at a time.

    With what is known of every cell, ``ends``, also totals less all of their parts but one.
    """
    by_rows: dict[tuple[int, bytes, bytes], list[Sum]] = {}
    numbers, listed = 3 if len(chosen) <= MOST_SQUARE else 1, PeopleInMemory(membership=behind.membership)
    for feature, cells in enumerate(comparable(behind.membership, chosen)):
        asked, weights = [cells[:, None]], _weights_in(behind.membership, cells)
        if numbers > 1:
            weight = behind.together[np.ix_(cells, cells)]
            threes, compared = _threes_of_sums(weight, behind.least / 2)
            asked += [cells[np.argwhere(_inside(weight, behind.least / 2).T)], cells[threes]]
            if ends is not None:
                asked += _totals_less_others(behind, cells, weight, ends)
            numbers = min(compared, numbers)
        for one in asked:
            for each in _sums_among(listed, one, weights):
                same = (feature, each.signatures.tobytes(), each.weights.tobytes())
                by_rows.setdefault(same, []).append(each)
    return list(by_rows.values()), numbers


def _sums_among(listed: PeopleInMemory, combinations: IndexArray, weights: FloatArray) -> Iterator[Sum]:
    """The combinations, one a line, that are sums over some rows."""
    for some, coefficients, kinds in listed.behind(combinations):
        people, ends = kinds.T @ listed.kinds, coefficients.indptr
        for place, cells in enumerate(combinations[some].tolist()):
            own = slice(ends[place], ends[place + 1])
            if np.unique(coefficients.data[own]).size == 1:
                signatures = np.sort(coefficients.indices[own])
                yield Sum(
                    cells=tuple(cells),
                    signatures=signatures,
                    weights=weights[signatures],
                    people=int(people[place]),
                )


def _totals_less_others(
    behind: PeopleBehind, cells: IndexArray, weight: FloatArray, ends: Ends
) -> Iterator[IndexArray]:
    r"""A number less all others of a release that are parts of it, more than two of them: combinations that
    tell more of what is left than its own number does.

    With :math:`c = r + \sum_i x_i`, r of the people of c who are in none of these parts, one part has at
    least :math:`l_c - h_r - \sum_{j \ne i} h_j` and at most :math:`h_c - \sum_{j \ne i} l_j`. Where parts
    may be 0, and where some people are in none, what is left by all others is known together, too.
    """
    (low, high), nothing, size = ends, behind.least / 2, np.diagonal(weight)
    owner = np.array([behind.membership.cells[cell].partition for cell in cells.tolist()], dtype=np.intp)
    for p in np.unique(owner).tolist():
        parts = np.flatnonzero(owner == p)
        inside = size[parts, None] - weight[parts] <= nothing
        whole = inside.sum(axis=0) == np.count_nonzero(weight[parts] > nothing, axis=0)
        for total in np.flatnonzero(whole & (inside.sum(axis=0) > 2) & (owner != p)).tolist():
            own = parts[inside[:, total]]
            least = low[cells[total]] - (high[cells[own]].sum() - high[cells[own]])
            most = high[cells[total]] - (low[cells[own]].sum() - low[cells[own]])
            rest = size[total] - size[own].sum() > nothing  # of people in none of the parts
            if not rest:
                for place in np.flatnonzero((least > low[cells[own]]) | (most < high[cells[own]])).tolist():
                    yield cells[[total, *np.delete(own, place)]][None, :]
            may_be_none = (low[cells[own]] == 0) & (high[cells[own]] > 0)
            if may_be_none.sum() + rest > 1 or (rest and not may_be_none.any()):
                yield cells[[total, *own[~may_be_none]]][None, :]


def _weights_in(membership: Membership, cells: IndexArray) -> FloatArray:
    """The weight of every signature in numbers that have the same weights."""
    weights = np.ones(len(membership.counts))
    for p in {membership.cells[cell].partition for cell in cells.tolist()} & membership.weights.keys():
        inside = membership.positions(p) >= 0
        weights[inside] = membership.weights_in(p)[inside]
    return weights


def _inside(weight: FloatArray, nothing: float) -> BoolArray:
    """Whether the first of two cells is a part of the second, and not all of it."""
    outside = np.diagonal(weight)[:, None] - weight
    return np.asarray((outside <= nothing) & (nothing < outside.T))


def _threes_of_sums(weight: FloatArray, nothing: float) -> tuple[IndexArray, int]:
    """Numbers a, b, c of which a − b − c or b + c − a is a sum; and how many are compared.

    The first is if b and c are parts of a without a row in common. The second is if every row of a is in b or
    in c, and every row in both of them in a.
    """
    size, parts = np.diagonal(weight), _inside(weight, nothing)
    threes, counted = [np.zeros((0, 3), dtype=np.intp)], 0
    if float(len(weight)) ** 3 > MOST_FACTORISED**3:
        return threes[0], 2
    for a in reported(range(len(weight)), "looking for sums"):
        split = parts[:, a][:, None] & parts[:, a] & (weight <= nothing)
        cover = (weight[a][:, None] + weight[a] >= size[a] - nothing) & (
            weight <= weight[:, a][:, None] + nothing
        )
        cover[a] = cover[:, a] = False
        pairs = np.argwhere(np.triu(split | (cover & cover.T), 1))
        threes.append(np.column_stack([np.full(len(pairs), a), pairs]))
        counted += len(pairs)
        if counted > AT_A_TIME:  # people are counted behind each
            return threes[0], 2
    return np.concatenate(threes), 3
