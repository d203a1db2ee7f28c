"""What a check says, in lines for a terminal."""

from __future__ import annotations

from sightline.auditing.result import Exposed
from sightline.format import count, number, percent_at_most
from sightline.ledger.decision import MOST_MORE, Decision, Standing
from sightline.report.first_screen import odd_lines, public_line

_NO_ONE = "nobody"


def lines(decision: Decision, *, full: bool) -> list[str]:
    """The verdict, who is newly seen and by what, the budget, and what would pass.

    The searches for noise and for further copies audit everything again and again: only if ``full``, or where
    the design is small.
    """
    before, after, verdict = decision.before, decision.after, decision.result.verdict
    status = "no limit is set" if verdict.status is None else verdict.status.value.upper()
    limit = "" if verdict.limit is None else f", limit {percent_at_most(verdict.limit)}"
    return [
        f"{decision.name}: {status}{limit}.",
        f"Identifiable: {before.identifiable} before, {after.identifiable} with it. "
        f"Not shown to keep the limit: {before.below or _NO_ONE} before, {after.below or _NO_ONE} with it.",
        f"The most exposed person keeps {_kept(before)} before, {_kept(after)} with it.",
        *_people("Becomes identifiable", decision.newly_identifiable),
        *_people("Falls below the limit", decision.newly_below),
        *_people("Was below the limit already", decision.already_below),
        *dict.fromkeys(
            f"Not verified: {one.reason}." for one in decision.result.unverified if not one.accepted
        ),
        f"Epsilon: {_epsilons(before, after)}.",
        *_searches(decision, full=full),
        *filter(None, [public_line(decision.result)]),
        *odd_lines(decision.result),
        *(f"Noted: {one}." for one in decision.despite),
    ]


def _kept(standing: Standing) -> str:
    return "everything" if standing.least is None else str(standing.least)


def _people(what: str, people: tuple[Exposed, ...]) -> list[str]:
    told = []
    for one in people:
        recipe = one.recipe.text if one.recipe is not None else one.attack.text if one.attack else ""
        told.append(
            f"{what}: {one.record} keeps {one.remaining_uncertainty}" + (f". {recipe}" if recipe else "")
        )
    return told


def _epsilons(before: Standing, after: Standing) -> str:
    told = [
        f"{name} {number(before.epsilon.get(name, 0.0))} → {number(value)}"
        for name, value in after.epsilon.items()
    ]
    return ", ".join(told) or "none can be stated"


def _searches(decision: Decision, *, full: bool) -> list[str]:
    found = decision.findings.linear
    if decision.passed is None or not (full or found is None or found.repeatable):
        return []
    if decision.passed:
        more = decision.more_like_it
        least = "At least " if more >= MOST_MORE else ""
        return [f"{least}{count(more, 'more release')} like it {'fits' if more == 1 else 'fit'}."]
    if decision.before.below:
        return ["What was published before does not keep the limit: no noise on this release changes that."]
    factor = decision.noise_factor
    if factor is None:
        return ["No noise on this release alone is enough."]
    return [f"With {number(factor)} times its noise everyone keeps the limit."] if factor > 1 else []
