"""The rule k for published counts: small numbers, nobody and everybody, also in differences of counts.

Behind a count of those who are ill are all people in its group, and the number itself is of people, too. A
count of fewer than k of them, or of all but fewer than k, breaks the rule. Zero and all are disclosures of
the whole group, however large it is. Counts are known as far as rounding and blanks let them be known; what
chance rounds is not among them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

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


def small_counts(findings: Findings, totals: Totals, k: int) -> list[BrokenRule]:
    """Counts, and differences of up to three, that tell of fewer than k people, of nobody or of everybody."""
    broken: list[BrokenRule] = []
    for one in (findings, *findings.questions):
        if one.streamed or not one.linear or one.prior.kind is SecretKind.NUMBER:
            continue
        counts = PublishedCounts.of(one, totals(one.question))
        if isinstance(counts, PublishedCounts):
            broken += _of_counts(counts, k)
    return broken


def _of_counts(counts: PublishedCounts, k: int) -> Iterator[BrokenRule]:
    for alike, ends in _combinations(counts, np.arange(counts.cells.size), k):
        yield from _broken(counts, alike, ends, k)


def broken_combinations(counts: PublishedCounts, kept: IndexArray, k: int) -> Iterator[IndexArray]:
    """The cells of every combination of the counts at some places, all others being blank, that breaks k."""
    for alike, ends in _combinations(counts, kept, k):
        for one in alike:
            if any(_broken(counts, [one], ends, k)):
                yield np.array(one.cells, dtype=np.intp)


def _combinations(
    counts: PublishedCounts, kept: IndexArray, k: int
) -> Iterator[tuple[list[Sum], tuple[FloatArray, FloatArray]]]:
    """Combinations of the counts at some places, those about the same people together, and all intervals."""
    membership = counts.findings.membership
    low, high = np.full((2, len(membership.cells)), np.nan)
    known = kept[~counts.by_chance[kept]]
    low[counts.cells[known]] = counts.intervals.low[known] + counts.offsets[known]
    high[counts.cells[known]] = counts.intervals.high[known] + counts.offsets[known]
    chosen = ~np.isnan(low)
    for cell in np.flatnonzero(chosen).tolist():  # a weighted sum is no count
        chosen[cell] &= not membership.partitions[membership.cells[cell].partition].weighted
    found, _ = sums_over_same_rows(PeopleBehind.in_memory(membership), chosen)
    for alike in found:
        rows = int(membership.counts[alike[0].signatures].sum())
        if rows != alike[0].people:  # of two years, say: what each of them tells is looked at by itself
            continue
        if rows >= k:  # else the people behind it are too few, whatever they answer
            yield alike, (low, high)


def _known(counts: PublishedCounts, combination: Sum, ends: tuple[FloatArray, FloatArray]) -> tuple[int, int]:
    """The least and the most people that a difference of counts may count."""
    (low, high), (first, *others) = ends, combination.cells
    rows = [counts.findings.membership.cells[cell].rows for cell in combination.cells]
    least, most = low[first] - high[others].sum(), high[first] - low[others].sum()
    if rows[0] < sum(rows[1:]):  # the others, less the first
        least, most = -most, -least
    return max(0, math.ceil(least)), min(combination.people, math.floor(most))


def _broken(
    counts: PublishedCounts, alike: list[Sum], ends: tuple[FloatArray, FloatArray], k: int
) -> Iterator[BrokenRule]:
    """Whether what all combinations about the same people tell together breaks the rule.

    It is said of the one that tells most.
    """
    membership, people = counts.findings.membership, alike[0].people
    known = [_known(counts, one, ends) for one in alike]
    least, most = max(low for low, _ in known), min(high for _, high in known)
    best = min(zip(known, alike, strict=True), key=lambda one: one[0][1] - one[0][0])[1]
    seen = f"{least:,}" if least == most else f"{least:,} to {most:,}"
    if most == 0 or least == people:
        whom = "nobody" if most == 0 else "everybody"
        reason = f"{whom} of {count(people, 'person', 'people')} is counted, which tells it of all of them"
    elif least >= 1 and most < k:
        reason = f"{seen} of {people:,} people are counted, fewer than {k}"
    elif most < people and people - least < k:
        left = f"{people - most:,}" if least == most else f"{people - most:,} to {people - least:,}"
        reason = f"{left} of {people:,} people are not counted, fewer than {k}"
    else:
        return
    names = " − ".join(f'"{cell_name(membership, cell)}"' for cell in best.cells)
    about = f" ({counts.findings.asked})" if counts.findings.asked else ""
    yield BrokenRule(rule="k", people=people, text=f"k: {names}{about}: {reason}", owner_only=True)
