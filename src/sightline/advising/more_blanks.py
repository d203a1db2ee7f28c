"""What to blank in addition, or to what base to round, so that nobody is certain and the rule k holds.

Whoever is certain is so by some counts, and a broken rule is a combination of some: unless one of them is
blank, it stays. The fewest counts that hit all of these sets are looked for, and the rest is decided again,
until it tells nothing (:mod:`sightline.advising.suppression`). A blank of this kind is a number
that is withheld: nothing is known of it but how many people it is about.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sightline.advising.remedies import Do, Price, Then
from sightline.arrays import IndexArray
from sightline.auditing.certain_people import PublishedCounts
from sightline.auditing.findings import Findings
from sightline.auditing.known_sums import Totals
from sightline.auditing.lowering import cell_name
from sightline.auditing.plan import Plan
from sightline.auditing.result import CertainReport, Change, ChangeKind
from sightline.auditing.result_parts import RulesReport, fact
from sightline.auditing.small_counts import broken_combinations
from sightline.bounds.certain import CountIntervals, decide
from sightline.privacy.law import Law
from sightline.progress import report

# Entries × tests of what is left: 200 tests of a thousand people in some hundred counts, and 10 of 100,000.
_MOST_WORK, _MOST_TRIES, _LEAST_TRIES = 5_000_000, 200, 10
_MOST_CONFLICTS = 40  # of one round: more of them say the same again
_BASES = (2, 3, 5, 10, 20, 25, 50, 100, 200, 250, 500, 1000)


def so_nobody_is_certain(
    findings: Findings, totals: Totals | None, certain: CertainReport | None, rules: RulesReport
) -> tuple[Change, ...]:
    """Blanks, and a coarser base, after which nobody is certain; none if nobody is, or nothing was found.

    ``rules`` says whether the rule k is broken.
    """
    rows = findings.row_by_row
    if totals is None or certain is None or rows.prior.kind.measured:
        return ()
    if not certain.people and not any(one.rule == "k" for one in rules.broken):
        return ()
    if any(release.numbers for release in rows.plan.releases):  # these are out, and stay what they are
        return ()
    counts = PublishedCounts.of(rows, totals(None))
    if not isinstance(counts, PublishedCounts) or counts.by_chance.any():
        return ()
    return (*(_coarser_base(rows, totals) if certain.people else ()), *_blanks(counts))


def conflicts(counts: PublishedCounts, kept: IndexArray, k: int) -> list[IndexArray]:
    """Sets of counts, by their places, of which one must go: by whom they make certain, and by the rule k."""
    chosen, cells = _with_sizes(counts, kept), counts.cells.size
    found = decide(_published(counts, chosen))
    sets: list[IndexArray] = []
    for place in np.flatnonzero(counts.told(found)).tolist():
        used = [chosen[i] for i in found.proofs.get(place, {}) if chosen[i] < cells]
        sets.append(np.array(sorted(used), dtype=np.intp) if used else kept)
    if k > 1:
        sets += [np.sort(np.searchsorted(counts.cells, one)) for one in broken_combinations(counts, kept, k)]
    unlike = {one.tobytes(): one for one in sorted(sets, key=len)}
    disjoint, seen = list[IndexArray](), set[int]()
    for one in unlike.values():
        if seen.isdisjoint(one.tolist()):
            disjoint.append(one)
            seen.update(one.tolist())
    return disjoint[:_MOST_CONFLICTS]


def _with_sizes(counts: PublishedCounts, kept: IndexArray) -> IndexArray:
    """Some counts, and how many people there are, which is known."""
    return np.concatenate([kept, np.arange(counts.cells.size, counts.intervals.low.size)]).astype(np.intp)


def _published(counts: PublishedCounts, chosen: IndexArray) -> CountIntervals:
    own = counts.intervals
    return replace(own, weights=own.weights[chosen], low=own.low[chosen], high=own.high[chosen])


def _blanks(counts: PublishedCounts) -> tuple[Change, ...]:
    """The fewest counts to withhold."""
    from sightline.advising.suppression import smallest_hitting_set  # loads what a small audit does not need

    rules, cells = counts.findings.plan.rules, counts.cells.size

    def find(kept: IndexArray) -> list[IndexArray]:
        report("looking for the fewest blanks", 0.0)
        return conflicts(counts, kept, rules.k)

    tries = max(_LEAST_TRIES, min(_MOST_TRIES, _MOST_WORK // max(1, int(counts.intervals.weights.nnz))))
    found = smallest_hitting_set(cells, find, tries=tries)
    if not found or found[0].chosen.size in (0, cells):
        return ()
    (best,) = found
    membership = counts.findings.membership
    names = [f'"{cell_name(membership, int(counts.cells[place]))}"' for place in best.chosen.tolist()]
    kept = np.setdiff1d(np.arange(cells), best.chosen)
    undecided = counts.people(decide(_published(counts, _with_sizes(counts, kept))).undecided)
    return (
        Change(
            kind=ChangeKind.BLANK,
            what=fact(Do.WITHHOLD, names=", ".join(names)),
            then=fact(Then.NOBODY_CERTAIN, undecided=undecided, k=rules.k),
            price=fact(Price.BLANKS, counts=int(best.chosen.size), of=cells, at_least=best.at_least),
        ),
    )


def _with_base(plan: Plan, base: int) -> Plan:
    releases = tuple(
        release.model_copy(
            update={
                "noise": tuple(
                    noise.model_copy(update={"law": Law.ROUNDING, "to": max(base, noise.to)})
                    if noise.law in (Law.NONE, Law.ROUNDING)
                    else noise
                    for noise in release.noise
                )
            }
        )
        for release in plan.releases
    )
    return plan.model_copy(update={"releases": releases})


def _coarser_base(findings: Findings, totals: Totals) -> tuple[Change, ...]:
    """The next base for all counts that are exact or rounded, with which nobody is certain."""
    laws = {noise.law for release in findings.plan.releases for noise in release.noise}
    today = max((noise.to for release in findings.plan.releases for noise in release.noise), default=1)
    if not laws & {Law.NONE, Law.ROUNDING} or findings.pricing.shared:
        return ()
    larger = (one for one in _BASES if one > today)
    base = next((one for one in larger if _nobody_is_certain(findings, totals, one)), 0)
    if not base:
        return ()
    return (
        Change(
            kind=ChangeKind.ROUND,
            what=fact(Do.ROUND, base=base, today=today),
            then=fact(Then.NOBODY_CERTAIN, undecided=0, k=1),
            price=fact(Price.WITHIN, within=base // 2),
        ),
    )


def _nobody_is_certain(findings: Findings, totals: Totals, base: int) -> bool:
    changed = replace(findings, plan=_with_base(findings.plan, base), made={})
    counts = PublishedCounts.of(changed, totals(None))
    if not isinstance(counts, PublishedCounts):
        return False
    found = decide(counts.intervals)
    return not (counts.told(found).any() or found.undecided.any())
