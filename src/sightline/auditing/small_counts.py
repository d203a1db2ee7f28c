"""The rule k for published counts: small numbers, nobody and everybody, also in differences of counts.

Behind a count of those who are ill are all people in its group, and the number itself is of people, too. A
count of fewer than k of them, or of all but fewer than k, breaks the rule. Zero and all are disclosures of
the whole group, however large it is. Counts are known as far as rounding and blanks let them be known: that
they are fewer than k, which is what a blank tells, may be known, and nothing more. So 0 to 9 of 30 people
keeps k = 10, and 0 to 2, 3 to 7 and 1 break it. Where chance rounds, some draw may break it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from enum import StrEnum
from itertools import product

import numpy as np

from sightline.arrays import IndexArray
from sightline.auditing.certain_people import PublishedCounts
from sightline.auditing.differences import Ends, Sum
from sightline.auditing.findings import Findings
from sightline.auditing.known_sums import Totals
from sightline.auditing.result_parts import BrokenRule, Figure, fact
from sightline.auditing.told_of_people import (
    Answers,
    Told,
    answers_in,
    is_left,
    known_ends,
    names_of,
    sums_of_people,
    told_together,
)

_MOST_DRAWS = 4_096  # of the counts about the same people, tried one by one; beyond, all at once as one draw


class Few(StrEnum):
    """What tells of fewer than k people."""

    COUNTED = "few counted"
    NOT_COUNTED = "few not counted"
    LEFT_FOR = "few left for"
    NOBODY_COUNTED = "nobody counted"
    ALL_COUNTED = "all counted"


def small_counts(findings: Findings, totals: Totals, k: int) -> tuple[list[BrokenRule], list[int]]:
    """Counts, and differences, that tell of fewer than k people, of nobody or of everybody; and how many were
    compared at a time, each time; nothing where no count is published that a rule is about.
    """
    broken, reach = list[BrokenRule](), list[int]()
    of_categories = bool(findings.plan.data.categories)  # then questions are about the same counts
    for one in (findings,) if of_categories else (findings, *findings.questions):
        if one.streamed or not one.linear or one.prior.kind.measured:
            continue
        counts = PublishedCounts.of(one, totals(one.question))
        if isinstance(counts, PublishedCounts):
            together, numbers = sums_of_people(counts, known_ends(counts))
            broken += [_described(counts, told, k) for told in _all_broken(counts, None, together, k)]
            reach.append(numbers)
    return broken, reach


def broken_combinations(counts: PublishedCounts, kept: IndexArray, k: int) -> Iterator[IndexArray]:
    """The cells of combinations of the counts at some places, all others being blank, that break k."""
    for told in _all_broken(counts, kept, sums_of_people(counts, known_ends(counts, kept))[0], k):
        enough = told.by_most if _breaks(told._replace(least=0), k) else told.by
        yield np.unique([cell for one in enough for cell in one.cells]).astype(np.intp)


def _breaks(told: Told, k: int) -> bool:
    """Whether fewer than k people are told of, and more than that they are fewer."""
    return (told.most < k and (told.least, told.most) != (0, k - 1)) or told.most == 0


def _all_broken(
    counts: PublishedCounts, kept: IndexArray | None, together: list[list[Sum]], k: int
) -> Iterator[Told]:
    """Of all people whom a combination is about, what breaks the rule: once for each answer of few."""
    ends, chance = known_ends(counts, kept), counts.by_chance[: counts.cells.size]
    draws = {int(counts.cells[p]): _draws(counts, p) for p in np.flatnonzero(chance).tolist()}
    for sums in together:
        if sums[0].people >= k:  # else the people behind it are too few, whatever they answer
            yield from _broken(counts, sums, ends, draws, k)


def _draws(counts: PublishedCounts, place: int) -> list[tuple[float, float]]:
    """The intervals that chance may leave of a count."""
    rule, true = counts.rules[place], int(counts.true_counts[place])
    people = counts.findings.membership.cells[int(counts.cells[place])].rows
    values = [math.nan if value < 0 else float(value) for value in rule.line(true)]
    low, high = rule.known_of_values(np.array(values))
    high = np.minimum(high, people)
    return list(dict.fromkeys(zip(low.tolist(), high.tolist(), strict=True)))


def _broken(
    counts: PublishedCounts,
    sums: list[Sum],
    ends: Ends,
    draws: dict[int, list[tuple[float, float]]],
    k: int,
) -> Iterator[Told]:
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
    by_draw: dict[Answers, Told] = {}
    for draw in product(*(draws[cell] for cell in drawn)):
        low[drawn], high[drawn] = np.array(draw).T
        by_draw = _few(counts, sums, (low, high), k) | by_draw
    yield from (told._replace(by_draw=True) for told in by_draw.values())


def _few(counts: PublishedCounts, sums: list[Sum], ends: Ends, k: int) -> dict[Answers, Told]:
    """The answers of fewer than k of some people, as far as that breaks the rule."""
    every, found = answers_in(counts), dict[Answers, Told]()
    for told in told_together(counts, sums, ends):
        rest = told.of_others(every)
        for one in (told, rest):
            if _breaks(one, k):
                found.setdefault(one.answers, one)
            if found and len(every) == 2:  # of a yes or no, one of them is enough
                return found
    # Of 1 person who has a cold or a rash, at most 1 has a cold: that says no more.
    return {
        answers: told
        for answers, told in found.items()
        if told.least or not any(answers < more and told.most == one.most for more, one in found.items())
    }


def _described(counts: PublishedCounts, told: Told, k: int) -> BrokenRule:
    """What breaks the rule, as an entry."""
    figures: dict[str, Figure] = {"people": told.people, "k": k, "some_draw": told.by_draw}
    seen: dict[str, Figure] = {"least": told.least, "most": told.most, **figures}
    answers = " or ".join(sorted(told.answers))
    if not is_left(counts, told):
        why = fact(Few.NOBODY_COUNTED, **figures) if told.most == 0 else fact(Few.COUNTED, **seen)
    elif not is_left(counts, told.of_others(answers_in(counts))):
        why = fact(Few.ALL_COUNTED, **figures) if told.most == 0 else fact(Few.NOT_COUNTED, **seen)
    else:
        why = fact(Few.LEFT_FOR, answers=answers, **seen)
    about = f" ({counts.findings.asked})" if counts.findings.asked else ""
    combination = f"{names_of(counts, told)}{about}"
    return BrokenRule(rule="k", people=told.people, combination=combination, why=why, owner_only=True)
