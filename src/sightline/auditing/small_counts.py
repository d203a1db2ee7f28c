"""The rule k for published counts: small numbers, nobody and everybody, also in differences of counts.

Behind a count of those who are ill are all people in its group, and the number itself is of people, too. A
count of fewer than k of them, or of all but fewer than k, breaks the rule. Zero and all are disclosures of
the whole group, however large it is. Counts are known as far as rounding and blanks let them be known: that
they are fewer than k, which is what a blank tells, may be known, and nothing more. So 0 to 9 of 30 people
keeps k = 10, and 0 to 2, 3 to 7 and 1 break it. Where chance rounds, some draw may break it.

Answers of the same people are looked at together: of 60 people of whom 20 have a flu and 39 have nothing, one
has something else, whether that count is blank or not published at all.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

import numpy as np

from sightline.arrays import FloatArray, IndexArray
from sightline.auditing.certain_people import PublishedCounts
from sightline.auditing.differences import Sum, sums_over_same_rows
from sightline.auditing.findings import Findings
from sightline.auditing.known_sums import Totals
from sightline.auditing.lowering import cell_name
from sightline.auditing.result_parts import BrokenRule
from sightline.format import count
from sightline.tables.overlaps import PeopleBehind
from sightline.tables.subject import SecretKind

_MOST_DRAWS = 4_096  # of the counts about the same people, tried one by one; beyond, all at once as one draw
_ROUNDING = 1e-6  # of the ends of a linear program

Answers = frozenset[str]
Ends = tuple[FloatArray, FloatArray]  # the least and the most of every cell; NaN for what is not known


def small_counts(findings: Findings, totals: Totals, k: int) -> list[BrokenRule]:
    """Counts, and differences of up to three, that tell of fewer than k people, of nobody or of everybody."""
    broken: list[BrokenRule] = []
    of_categories = bool(findings.plan.data.categories)  # then questions are about the same counts
    for one in (findings,) if of_categories else (findings, *findings.questions):
        if one.streamed or not one.linear or one.prior.kind is SecretKind.NUMBER:
            continue
        counts = PublishedCounts.of(one, totals(one.question))
        if isinstance(counts, PublishedCounts):
            broken += [_described(counts, told, k) for told in _all_broken(counts, None, k)]
    return broken


def broken_combinations(counts: PublishedCounts, kept: IndexArray, k: int) -> Iterator[IndexArray]:
    """The cells of combinations of the counts at some places, all others being blank, that break k."""
    for told in _all_broken(counts, kept, k):
        enough = told.by_most if told._replace(least=0).breaks(k) else told.by
        yield np.unique([cell for one in enough for cell in one.cells]).astype(np.intp)


class _Told(NamedTuple):
    """What some counts tell: at least and at most how many of some people give some answers."""

    answers: Answers
    people: int
    least: int
    most: int
    by_least: tuple[Sum, ...]
    by_most: tuple[Sum, ...]
    by_draw: bool = False

    def breaks(self, k: int) -> bool:
        """Whether fewer than k people are told of, and more than that they are fewer."""
        return (self.most < k and (self.least, self.most) != (0, k - 1)) or self.most == 0

    @property
    def others(self) -> tuple[int, int, tuple[Sum, ...], tuple[Sum, ...]]:
        """The same of those who give no such answer."""
        return self.people - self.most, self.people - self.least, self.by_most, self.by_least

    @property
    def by(self) -> tuple[Sum, ...]:
        """The combinations that tell it."""
        every = (*self.by_most, *(self.by_least if self.least else ()))
        return tuple({one.cells: one for one in every}.values())


def _all_broken(counts: PublishedCounts, kept: IndexArray | None, k: int) -> Iterator[_Told]:
    """Of all people whom a combination is about, what breaks the rule: once for each answer of few."""
    membership = counts.findings.membership
    places = np.arange(counts.cells.size) if kept is None else kept
    low, high = np.full((2, len(membership.cells)), np.nan)
    for ends, known in zip((low, high), counts.known, strict=True):
        ends[counts.cells[places]] = known[places]
    chosen = ~np.isnan(low)
    for cell in np.flatnonzero(chosen).tolist():  # a weighted sum is no count
        chosen[cell] &= not membership.partitions[membership.cells[cell].partition].weighted
    found, _ = sums_over_same_rows(PeopleBehind.in_memory(membership), chosen)
    same_people: dict[bytes, list[Sum]] = {}
    for alike in found:
        rows = int(membership.counts[alike[0].signatures].sum())
        if rows != alike[0].people:  # of two years, say: what each of them tells is looked at by itself
            continue
        if rows >= k:  # else the people behind it are too few, whatever they answer
            same_people.setdefault(alike[0].signatures.tobytes(), []).extend(alike)
    draws = {
        int(counts.cells[p]): _draws(counts, p)
        for p in np.flatnonzero(counts.by_chance[: len(counts.cells)]).tolist()
    }
    for sums in same_people.values():
        yield from _broken(counts, sums, (low, high), draws, k)


def _draws(counts: PublishedCounts, place: int) -> list[tuple[float, float]]:
    """The intervals that chance may leave of a count."""
    rule, true = counts.rules[place], int(counts.true_counts[place])
    values = [math.nan if value < 0 else float(value) for value in rule.line(true)]
    low, high = rule.known_of_values(np.array(values))
    return list(dict.fromkeys(zip(low.tolist(), high.tolist(), strict=True)))


def _broken(
    counts: PublishedCounts,
    sums: list[Sum],
    ends: Ends,
    draws: dict[int, list[tuple[float, float]]],
    k: int,
) -> Iterator[_Told]:
    """What all combinations about the same people tell together and that breaks the rule.

    What chance leaves at most tells more than any draw: only what breaks the rule by it is tried draw by
    draw.
    """
    found = _few(counts, sums, ends, k)
    drawn = sorted({cell for one in sums for cell in one.cells} & draws.keys())
    if not found or not drawn:
        yield from found.values()
        return
    if math.prod(len(draws[cell]) for cell in drawn) > _MOST_DRAWS:
        yield from (told._replace(by_draw=True) for told in found.values())
        return
    low, high = ends[0].copy(), ends[1].copy()
    by_draw: dict[Answers, _Told] = {}
    for draw in product(*(draws[cell] for cell in drawn)):
        low[drawn], high[drawn] = np.array(draw).T
        by_draw = _few(counts, sums, (low, high), k) | by_draw
    yield from (told._replace(by_draw=True) for told in by_draw.values())


def _few(counts: PublishedCounts, sums: list[Sum], ends: Ends, k: int) -> dict[Answers, _Told]:
    """The answers of fewer than k of some people, as far as that breaks the rule."""
    every, found = _answers(counts), dict[Answers, _Told]()
    for told in _told_together(counts, sums, ends):
        rest = _Told(every - told.answers, told.people, *told.others)
        for one in (told, rest):
            if one.breaks(k):
                found.setdefault(one.answers, one)
            if found and len(every) == 2:  # of a yes or no, one of them is enough
                return found
    return found


def _answers(counts: PublishedCounts) -> Answers:
    return frozenset(counts.findings.plan.data.categories) or frozenset({"yes", "no"})


def _answers_of(counts: PublishedCounts, combination: Sum) -> Answers:
    """The answers that a combination counts."""
    membership = counts.findings.membership
    part, every = membership.partitions[membership.cells[combination.cells[0]].partition], _answers(counts)
    own = frozenset(part.categories) if counts.categories > 1 else frozenset({"yes"})
    return own & every if part.above else every - own


def _known(counts: PublishedCounts, combination: Sum, ends: Ends) -> tuple[int, int]:
    """The least and the most people that a difference of counts may count."""
    (low, high), (first, *others) = ends, combination.cells
    rows = [counts.findings.membership.cells[cell].rows for cell in combination.cells]
    least, most = low[first] - high[others].sum(), high[first] - low[others].sum()
    if rows[0] < sum(rows[1:]):  # the others, less the first
        least, most = -most, -least
    return max(0, math.ceil(least)), min(combination.people, math.floor(most))


def _told_together(counts: PublishedCounts, sums: list[Sum], ends: Ends) -> list[_Told]:
    """What some combinations about the same people tell of each answer, and of what they leave.

    Everybody gives one answer.
    """
    people, by_answers = sums[0].people, dict[Answers, list[tuple[int, int, Sum]]]()
    for one in sums:
        by_answers.setdefault(_answers_of(counts, one), []).append((*_known(counts, one, ends), one))
    stated = []
    for answers, known in by_answers.items():
        least, most = max(known, key=lambda one: one[0]), min(known, key=lambda one: one[1])
        if least[:2] == most[:2]:
            least = most
        stated.append(
            _Told(
                answers,
                people,
                least[0],
                most[1],
                (least[2],) if least[0] else (),
                (most[2],) if most[1] < people else (),
            )
        )
    patterns: dict[tuple[int, ...], set[str]] = {}
    for answer in sorted(_answers(counts)):
        pattern = tuple(place for place, told in enumerate(stated) if answer in told.answers)
        patterns.setdefault(pattern, set()).add(answer)
    if all(len(pattern) <= 1 for pattern in patterns):
        parts = [*stated, *(_Told(frozenset(rest), people, 0, people, (), ()) for rest in _left(patterns))]
        return [_among_others(place, parts) for place in range(len(parts))]
    return _by_programs(stated, {frozenset(answers): pattern for pattern, answers in patterns.items()})


def _left(patterns: dict[tuple[int, ...], set[str]]) -> list[set[str]]:
    """The answers that no combination counts."""
    return [answers for pattern, answers in patterns.items() if not pattern]


def _among_others(place: int, parts: list[_Told]) -> _Told:
    """What is told of one answer if everybody gives one of some."""
    own, others = parts[place], [*parts[:place], *parts[place + 1 :]]
    least, most = own.people - sum(one.most for one in others), own.people - sum(one.least for one in others)
    if least > own.least:
        own = own._replace(least=least, by_least=tuple(by for one in others for by in one.by_most))
    if most < own.most:
        own = own._replace(most=most, by_most=tuple(by for one in others for by in one.by_least))
    return own


def _by_programs(stated: list[_Told], parts: dict[Answers, tuple[int, ...]]) -> list[_Told]:
    """The same where answers are counted in several ways, such as one of them, and one of two of them."""
    from scipy.optimize import linprog

    people, every = stated[0].people, tuple(by for one in stated for by in (*one.by_least, *one.by_most))
    inside = np.array([[place in own for own in parts.values()] for place in range(len(stated))], dtype=float)
    limits = np.array([one.most for one in stated] + [-one.least for one in stated], dtype=float)
    wanted = {answers: np.array([answers == one for one in parts], dtype=float) for answers in parts}
    wanted |= {one.answers: inside[place] for place, one in enumerate(stated)}
    found = []
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
        found.append(own if own is not None and alone else _Told(answers, people, least, most, every, every))
    return found


def _described(counts: PublishedCounts, told: _Told, k: int) -> BrokenRule:
    """What breaks the rule, in words."""
    membership, people = counts.findings.membership, told.people
    names = [" − ".join(f'"{cell_name(membership, cell)}"' for cell in one.cells) for one in told.by]
    seen = f"{told.least:,}" if told.least == told.most else f"{told.least:,} to {told.most:,}"
    stated = [_answers_of(counts, one) for one in told.by]
    if all(one == told.answers for one in stated):
        whom, few = "nobody", f"{seen} of {people:,} people are counted"
    elif all(one == _answers(counts) - told.answers for one in stated):
        whom, few = "everybody", f"{seen} of {people:,} people are not counted"
    else:
        answers = " or ".join(one for one in counts.findings.plan.data.categories if one in told.answers)
        whom, few = "", f"{seen} of {people:,} people are left for {answers or ' or '.join(told.answers)}"
    reason = f"{few}, fewer than {k}"
    if told.most == 0 and whom:
        reason = f"{whom} of {count(people, 'person', 'people')} is counted, which tells it of all of them"
    about = f" ({counts.findings.asked})" if counts.findings.asked else ""
    chance = ", after some draw" if told.by_draw else ""
    text = f"k: {' and '.join(names)}{about}: {reason}{chance}"
    return BrokenRule(rule="k", people=people, text=text, owner_only=True)
