"""What published counts, and their differences, tell of the answers of the same people.

Every combination that is a sum over some people tells at least and at most how many of them give some
answers, as far as rounding and blanks let counts be known. Everybody gives one answer, so that what is told
of some of them tells of the others: of 60 people of whom 20 have a flu and 39 nothing, one has another.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from sightline.arrays import IndexArray
from sightline.auditing.certain_people import PublishedCounts
from sightline.auditing.differences import Ends, Sum, sums_over_same_rows
from sightline.auditing.lowering import cell_name
from sightline.tables.membership import Feature, Membership, Partition
from sightline.tables.overlaps import PeopleBehind

YES = "yes"
YES_OR_NO_ANSWERS = frozenset({YES, "no"})
_ROUNDING = 1e-6  # of the ends of a linear program

Answers = frozenset[str]


class Told(NamedTuple):
    """What some counts tell: at least and at most how many of some people give some answers."""

    answers: Answers
    people: int
    least: int
    most: int
    by_least: tuple[Sum, ...]
    by_most: tuple[Sum, ...]
    by_draw: bool = False

    def of_others(self, every: Answers) -> Told:
        """The same of those who give no such answer."""
        return self._replace(
            answers=every - self.answers,
            least=self.people - self.most,
            most=self.people - self.least,
            by_least=self.by_most,
            by_most=self.by_least,
        )

    @property
    def by(self) -> tuple[Sum, ...]:
        """The combinations that tell it."""
        every = (*self.by_most, *(self.by_least if self.least else ()))
        return tuple({one.cells: one for one in every}.values())


def one_side(own: Answers, every: Answers) -> Answers:
    """Some answers, or all others if these are fewer; of a yes or no, the yes.

    So counts of those who are ill and of those who are not can be subtracted.
    """
    first = YES if every == YES_OR_NO_ANSWERS else min(every)
    return min(own, every - own, key=lambda one: (len(one), first not in one))


def as_one_side(membership: Membership, every: Answers) -> Membership:
    """The same counts, each of the answers of :func:`one_side`."""
    parts = list[Partition]()
    for part in membership.partitions:
        if part.feature is Feature.INDICATOR:
            own = frozenset(part.categories) & every
            side = one_side(own, every)
            above = part.above if side == own else not part.above
            part = replace(part, parameter=tuple(sorted(side)), above=above)
        parts.append(part)
    return replace(membership, partitions=tuple(parts)).of_the_rows_of(membership)


def known_ends(counts: PublishedCounts, places: IndexArray | None = None) -> Ends:
    """What is known of the counts at some places, or of all of them; what chance leaves at most."""
    membership = counts.findings.membership
    chosen = np.arange(counts.cells.size) if places is None else places
    low, high = np.full((2, len(membership.cells)), np.nan)
    for ends, known in zip((low, high), counts.known, strict=True):
        ends[counts.cells[chosen]] = known[chosen]
    people = np.array([cell.rows for cell in membership.cells], dtype=np.float64)
    return np.maximum(low, 0.0), np.minimum(high, people)  # where nobody has two rows in a number


def sums_of_people(counts: PublishedCounts, ends: Ends) -> tuple[list[list[Sum]], int]:
    """All combinations of known counts, those about the same people together; and how many were compared at a
    time.
    """
    membership = as_one_side(counts.findings.membership, answers_in(counts))
    chosen = ~np.isnan(ends[0])
    for cell in np.flatnonzero(chosen).tolist():  # a weighted sum is no count
        chosen[cell] &= not membership.partitions[membership.cells[cell].partition].weighted
    same_people: dict[bytes, list[Sum]] = {}
    sides = _on_one_side(counts, ends)
    over_same_rows, numbers = sums_over_same_rows(PeopleBehind.in_memory(membership), chosen, sides)
    for alike in over_same_rows:
        rows = int(membership.counts[alike[0].signatures].sum())
        if rows == alike[0].people:  # else of two years, say: what each of them tells is looked at by itself
            same_people.setdefault(alike[0].signatures.tobytes(), []).extend(alike)
    return list(same_people.values()), numbers


def _on_one_side(counts: PublishedCounts, ends: Ends) -> Ends:
    """What is known of every cell, as the number of those who give the answers of :func:`one_side`."""
    every = answers_in(counts)
    low, high = ends[0].copy(), ends[1].copy()
    for cell in np.flatnonzero(~np.isnan(low)).tolist():
        side = _answers_of_cell(counts, cell)
        if side != one_side(side, every):
            size = counts.findings.membership.cells[cell].rows
            low[cell], high[cell] = size - ends[1][cell], size - ends[0][cell]
    return low, high


def answers_in(counts: PublishedCounts) -> Answers:
    """Every answer that somebody may give; of a yes or no, the yes is first."""
    return frozenset(counts.findings.plan.data.categories) or YES_OR_NO_ANSWERS


def _answers_of_cell(counts: PublishedCounts, cell: int) -> Answers:
    """The answers that a published number counts."""
    membership, every = counts.findings.membership, answers_in(counts)
    part = membership.partitions[membership.cells[cell].partition]
    own = frozenset(part.categories) & every if counts.categories > 1 else frozenset({YES})
    return own if part.above else every - own


def _known(counts: PublishedCounts, combination: Sum, ends: Ends) -> tuple[int, int]:
    """The least and the most people that a difference of counts may count."""
    cells = combination.cells
    rows = [counts.findings.membership.cells[cell].rows for cell in cells]
    every, sides = answers_in(counts), [_answers_of_cell(counts, cell) for cell in cells]
    own = [one == one_side(one, every) for one in sides]
    low, high = (
        [
            float(end[cell]) if mine else size - float(other[cell])
            for cell, size, mine in zip(cells, rows, own, strict=True)
        ]
        for end, other in (ends, ends[::-1])
    )
    least, most = low[0] - sum(high[1:]), high[0] - sum(low[1:])
    if rows[0] < sum(rows[1:]):  # the others, less the first
        least, most = -most, -least
    return max(0, math.ceil(least)), min(combination.people, math.floor(most))


def told_together(counts: PublishedCounts, sums: list[Sum], ends: Ends) -> list[Told]:
    """What some combinations about the same people tell of each answer, and of what they leave.

    Everybody gives one answer.
    """
    people, every = sums[0].people, answers_in(counts)
    by_answers = dict[Answers, list[tuple[int, int, Sum]]]()
    for one in sums:
        by_answers.setdefault(one_side(_answers_of_cell(counts, one.cells[0]), every), []).append(
            (*_known(counts, one, ends), one)
        )
    stated = []
    for answers, known in by_answers.items():
        least, most = max(known, key=lambda one: one[0]), min(known, key=lambda one: one[1])
        if least[:2] == most[:2]:
            least = most
        stated.append(
            Told(
                answers,
                people,
                least[0],
                most[1],
                (least[2],) if least[0] else (),
                (most[2],) if most[1] < people else (),
            )
        )
    patterns: dict[tuple[int, ...], set[str]] = {}
    for answer in sorted(answers_in(counts)):
        pattern = tuple(place for place, told in enumerate(stated) if answer in told.answers)
        patterns.setdefault(pattern, set()).add(answer)
    if all(len(pattern) <= 1 for pattern in patterns):
        counted_by_none = (answers for pattern, answers in patterns.items() if not pattern)
        others = (Told(frozenset(rest), people, 0, people, (), ()) for rest in counted_by_none)
        parts = [*stated, *others]
        return [_among_others(place, parts) for place in range(len(parts))]
    return _by_programs(stated, {frozenset(answers): pattern for pattern, answers in patterns.items()})


def _among_others(place: int, parts: list[Told]) -> Told:
    """What is told of one answer if everybody gives one of some."""
    own, others = parts[place], [*parts[:place], *parts[place + 1 :]]
    least, most = own.people - sum(one.most for one in others), own.people - sum(one.least for one in others)
    if least > own.least:
        own = own._replace(least=least, by_least=tuple(by for one in others for by in one.by_most))
    if most < own.most:
        own = own._replace(most=most, by_most=tuple(by for one in others for by in one.by_least))
    return own


def _by_programs(stated: list[Told], parts: dict[Answers, tuple[int, ...]]) -> list[Told]:
    """The same where answers are counted in several ways, such as one of them, and one of two of them."""
    from scipy.optimize import linprog  # takes long to import, and few plans need it

    people, every = stated[0].people, tuple(by for one in stated for by in (*one.by_least, *one.by_most))
    inside = np.array([[place in own for own in parts.values()] for place in range(len(stated))], dtype=float)
    limits = np.array([one.most for one in stated] + [-one.least for one in stated], dtype=float)
    wanted = {answers: np.array([answers == one for one in parts], dtype=float) for answers in parts}
    wanted |= {one.answers: inside[place] for place, one in enumerate(stated)}
    tells = []
    for answers, weights in wanted.items():
        ends = [
            linprog(
                sign * weights,
                A_ub=np.vstack([inside, -inside]),
                b_ub=limits,
                A_eq=np.ones((1, len(parts))),
                b_eq=[people],
                bounds=(0, people),
                integrality=1,
                method="highs",
            )
            for sign in (1.0, -1.0)
        ]
        # The true counts are among what is possible: without an answer nothing is claimed.
        low, high = (one.fun if one.status == 0 else -np.inf for one in ends)
        least = max(0, math.ceil(low - _ROUNDING)) if np.isfinite(low) else 0
        most = min(people, math.floor(-high + _ROUNDING)) if np.isfinite(high) else people
        own = next((one for one in stated if one.answers == answers), None)
        alone = own is not None and (own.least, own.most) == (least, most)
        tells.append(own if own is not None and alone else Told(answers, people, least, most, every, every))
    return tells


def names_of(counts: PublishedCounts, told: Told) -> str:
    """The combinations that tell something, the first two by their names."""
    membership = counts.findings.membership
    names = []
    for one in told.by:
        between = " − " if len({_answers_of_cell(counts, cell) for cell in one.cells}) == 1 else " and "
        first, *others = (f'"{cell_name(membership, cell)}"' for cell in one.cells)
        if len(others) > 2:  # all others are parts of the first, in one release
            release = membership.partitions[membership.cells[one.cells[1]].partition].name
            others = [f'{len(others)} numbers of "{release}"']
        names.append(between.join([first, *others]))
    if len(names) > 2:
        names = [names[0], f"{len(names) - 1} other numbers"]
    return " and ".join(names)


def is_left(counts: PublishedCounts, told: Told) -> bool:
    """Whether answers are not counted, but left by what others give."""
    return any(_answers_of_cell(counts, cell) != told.answers for one in told.by for cell in one.cells)
