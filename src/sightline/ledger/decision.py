"""Whether one more release may follow: what is seen with it and without it, and what a check says of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import Any

import numpy as np

from sightline.advising.noise_slack import least_factor
from sightline.arrays import FloatArray, IndexArray
from sightline.auditing.assumption_facts import COVERED_BY_NOISE, NOT_ACCEPTED, OPEN_WITHOUT_THE_TABLE
from sightline.auditing.assumptions import unverified
from sightline.auditing.budget import budget_report
from sightline.auditing.certain_people import certain_report
from sightline.auditing.declared_and_found import MOST_ROUNDING, rounding_decides
from sightline.auditing.exposed import describe
from sightline.auditing.findings import Findings, LinearFindings, find
from sightline.auditing.homogeneous import homogeneous_cells
from sightline.auditing.known_sums import Totals
from sightline.auditing.plan import AssumptionName
from sightline.auditing.pricing import price
from sightline.auditing.result import AuditResult, Exposed, Uncertainty, Unverified, VerdictStatus
from sightline.auditing.result_parts import FEW, NAMED, RulesReport
from sightline.auditing.rules import rules_report
from sightline.auditing.verdict import NO_RULES, status_of
from sightline.format import count, covered, number, number_at_most
from sightline.jobs.assemble import Depth, OpenAudit, assemble
from sightline.ledger.history import History, PastRelease
from sightline.ledger.persistence import NOBODY, Unchanged, unchanged
from sightline.ledger.turnover import OneMoves, one_moves
from sightline.progress import one_blas_thread, report
from sightline.report.first_screen import odd_lines, public_line
from sightline.report.wording import said
from sightline.tables.overlaps import PeopleBehind
from sightline.tables.published import without_queries
from sightline.values import frozen

MOST_MORE = 1_000  # copies that are looked for


@frozen(eq=True)
class Standing:
    """Where everyone stands after some releases."""

    identifiable: int
    below: int
    least: Uncertainty | None
    epsilon: dict[str, float]  # under every accountant that can say
    least_epsilon: float | None = None  # by the accountant that says the least
    everyone: bool = True  # whether it is that of every conceivable person, or of the kinds in the table


@dataclass(frozen=True, kw_only=True, eq=False)
class ReleaseDecision:
    """What a release would do, after all others. For the owner of the table only."""

    name: str
    audited: OpenAudit  # everything, with the release
    result: AuditResult  # its verdict; the audit has the other sections
    before: Standing
    after: Standing
    newly_identifiable: tuple[Exposed, ...]  # the first of them
    newly_below: tuple[Exposed, ...]
    already_below: tuple[Exposed, ...]  # through what was published before
    findings: Findings
    first: int  # the place of the release's first section in the plan
    despite: tuple[str, ...]  # what was added although it did not pass, and why
    passes: Callable[[Findings], bool]  # whether a check would pass, with all that a pass needs verified
    moves: Callable[[], OneMoves]  # what one person who joins or leaves would add
    kept: Unchanged = NOBODY  # whose value is what it was in another epoch

    @property
    def passed(self) -> bool | None:
        """Whether the limit holds with it; none if there is no limit."""
        return self.result.verdict.passed

    @property
    def held_back(self) -> bool:
        """Whether it may not go out: the limit is not shown to hold, or a person has yet to decide."""
        return self.passed is False or self.result.verdict.waits_for_a_person

    @cached_property
    def noise_factor(self) -> float | None:
        """The factor on this release's noise alone with which everyone keeps the limit; none if none does.

        An audit has found that everyone does. It is about the least one.
        """
        if self.before.below:
            return None
        if not self.after.below:
            return 1.0
        return least_factor(
            lambda factor: self.with_noise(factor).least.lower,
            self.findings.limit,
            now=self.findings.least.lower,
        )

    @cached_property
    def more_like_it(self) -> int:
        """How many more copies of it would pass together, of up to a thousand.

        Who keeps the limit is not all: the mean of many copies may show that a group is all alike.
        """
        low, high = 0, MOST_MORE + 1
        while high - low > 1:
            middle = min(max(1, 2 * low), (low + high) // 2) if low else 1
            low, high = (middle, high) if self.passes(self._with(copies=1 + middle)) else (low, middle)
        return low

    def with_noise(self, factor: float) -> Findings:
        """What all releases show with this one's noise times a factor."""
        return self._with(factor=factor)

    def with_copies(self, copies: int) -> Findings:
        """What all releases show if this one is published so many times."""
        return self._with(copies=copies)

    def _with(self, *, factor: float = 1.0, copies: int = 1) -> Findings:
        """What all releases show with other noise on this one, or with more copies of it."""
        plan = self.findings.plan
        releases = list(plan.releases)
        for place in range(self.first, len(releases)):
            own = releases[place]
            noise = tuple(one.times(factor) for one in own.noise)
            releases[place] = own.model_copy(update={"noise": noise, "times": own.times * copies})
        changed = plan.model_copy(update={"releases": tuple(releases)})
        return find(changed, self.findings.membership)


def decide(
    past: History,
    *,
    number: int,
    despite: tuple[str, ...],
    top: int,
    followed: Callable[[PastRelease], History],
    worth: FloatArray,
) -> ReleaseDecision:  # many parameters: each is of another file
    """Assess everything with the release of a number, which is the last, and everything before it.

    ``despite`` has what was added despite a check. ``followed`` is the history with one more release.
    ``worth`` is the number that each person has in the table, for rules about values.
    """
    plan, membership = past.plan, past.membership
    first = past.sections_before(number)
    with one_blas_thread():  # the products of a ledger are small: more threads wait for each other
        report("finding who is exposed", 0.0)
        findings = find(plan, membership)
        needed = _Needed.of(past, findings)
        also = partial(needed.beside, findings)
        rules = _rules(past, findings, needed.sums, worth)
        audited = assemble(findings, top=top, totals=needed.sums, also=also, rules=rules)
        report("comparing with what was published before", 0.5)
        pairs = [(one, one.up_to(first - 1)) for one in (findings, *findings.questions)]
        listed: list[list[Exposed]] = [[], [], []]
        for one, before in pairs:
            seen = (one.linear, one.linear, before)
            for place, (found, columns) in enumerate(zip(seen, _changed(before, one.linear), strict=True)):
                if columns.size:
                    chosen = found.most_exposed(columns, top)
                    listed[place] += describe(one, found, chosen, past.keys)
        result = audited.result(Depth.VERDICT)

    def passes(changed: Findings) -> bool:
        # Noise and copies change nothing in how many people a combination of numbers is about.
        return status_of(changed, needed.by(changed), rules) is VerdictStatus.PASSED

    return ReleaseDecision(
        name=past.releases[-1].name,
        audited=audited,
        result=result,
        before=_standing(findings, [before for _, before in pairs], sections=first),
        after=_standing(findings, [one.linear for one, _ in pairs], sections=len(plan.releases)),
        newly_identifiable=tuple(listed[0]),
        newly_below=tuple(listed[1]),
        already_below=tuple(listed[2]),
        findings=findings,
        first=first,
        despite=despite,
        passes=passes,
        moves=cache(lambda: one_moves(past, followed)),
        kept=unchanged(past.releases) if _tells_people(past) else NOBODY,
    )


def standing(past: History) -> Standing:
    """Where everyone stands after all releases."""
    findings = find(past.plan, past.membership)
    seen = [one.linear for one in (findings, *findings.questions)]
    return _standing(findings, seen, sections=len(past.plan.releases))


def _rules(past: History, findings: Findings, totals: Totals | None, worth: FloatArray) -> RulesReport:
    """Whether the head's rules hold for all releases together."""
    if not findings.plan.rules.given:
        return NO_RULES
    rows = findings.row_by_row
    each = partial(past.contributions, worth)
    return rules_report(rows, each, PeopleBehind.in_memory(rows.membership), totals)


@frozen(slots=False)
class _Needed:
    """What a pass of all releases needs that is not verified: by the audit of all, and by each of them."""

    past: History
    sums: Totals | None  # true sums by signature; none where a file of them is lost
    unfit: int  # numbers that fit no values of the people in an epoch

    @classmethod
    def of(cls, past: History, findings: Findings) -> _Needed:
        if not past.values_found:
            return cls(past=past, sums=None, unfit=0)
        totals, asked = cache(past.totals), {one.question for one in findings.questions} | {None}
        unfit = sum(totals(one)[1] for one in asked)
        return cls(past=past, sums=lambda question: totals(question)[0], unfit=unfit)

    def by(self, findings: Findings, *, whatever_the_noise: bool = False) -> tuple[Unverified, ...]:
        """All of it for some findings."""
        alike = homogeneous_cells(findings, self.sums) if self.sums else ()
        certain = certain_report(findings, self.sums) if self.sums else None
        raised = unverified(findings, alike, certain, whatever_the_noise=whatever_the_noise)
        return (*raised, *self.beside(findings, raised, whatever_the_noise=whatever_the_noise))

    def beside(
        self, findings: Findings, raised: tuple[Unverified, ...], *, whatever_the_noise: bool = False
    ) -> tuple[Unverified, ...]:
        """What is needed beside that which the audit of all releases has raised."""
        covered = COVERED_BY_NOISE if findings.guaranteed and not whatever_the_noise else frozenset()
        assumptions = (
            *_not_found(self.past, findings, self.unfit),
            *_carried_over(self.past, findings, raised),
        )
        return tuple(one for one in assumptions if one.name not in covered)


def needed_whatever_the_noise(past: History) -> tuple[AssumptionName, ...]:
    """The assumptions that a plan of all releases has to list, since its table cannot show them."""
    findings = find(past.plan, past.membership)
    needed = {one.name for one in _Needed.of(past, findings).by(findings, whatever_the_noise=True)}
    counts = findings.pricing.exact.any() and not past.plan.data.secret_kind.measured
    if counts and past.whole_answers() is None:  # then its table has other counts than were published
        needed.add(AssumptionName.COUNT_RULES)
    return tuple(sorted(needed))


def _changed(before: LinearFindings, after: LinearFindings) -> tuple[IndexArray, IndexArray, IndexArray]:
    """Columns that become identifiable, those that fall below the limit, and those below it before."""
    identified, below, nobody = after.identifiable, after.not_shown, np.zeros(0, dtype=np.intp)
    if not before:
        return np.flatnonzero(identified), np.flatnonzero(below), nobody
    newly = np.flatnonzero(identified & ~before.identifiable), np.flatnonzero(below & ~before.not_shown)
    return *newly, np.flatnonzero(before.not_shown)


def _standing(findings: Findings, seen: Sequence[LinearFindings], *, sections: int) -> Standing:
    """Where people stand after some sections of the plan: of the secret, and of the worst question about it.

    ``seen`` has what is seen then, of the secret and of each question.
    """
    plan, membership, pricing = findings.plan, findings.membership, findings.pricing
    if not sections:
        return Standing(identifiable=0, below=0, least=None, epsilon={})
    if sections < len(plan.releases):
        plan = plan.model_copy(update={"releases": plan.releases[:sections]})
        membership = without_queries(membership, range(sections, len(findings.plan.releases)))
        pricing = price(plan, membership)
    below, brackets = 0, [one.least for one in seen if one]
    if not findings.linear:  # then what powers of the secret leave counts
        alone = replace(findings, plan=plan, membership=membership, pricing=pricing, questions=(), made={})
        below, brackets = alone.not_shown, [*([alone.least] if alone.shows else []), *brackets]
    budget = budget_report(plan, membership, pricing)
    return Standing(
        identifiable=max(one.identifiable_records for one in seen),
        below=max([below, *(one.not_shown_records for one in seen)]),
        least=min(brackets, key=lambda one: (one.lower, one.upper), default=None),
        epsilon=budget.spent,
        least_epsilon=budget.least_spent,
        everyone=budget.everyone,
    )


def _not_found(past: History, findings: Findings, unfit: int) -> tuple[Unverified, ...]:
    """What the values of the releases would have to show, and do not."""
    missing = [one.number for one in past.releases if one.lost]
    cases = []
    if missing:
        lost = f"the owner's file of entry {missing[0]} is missing, so that nothing is known of its values"
        cases += [(name, len(missing), lost) for name in AssumptionName if name in OPEN_WITHOUT_THE_TABLE]
        if findings.pricing.exact.any():
            cases.append((AssumptionName.COUNT_RULES, len(missing), lost))
    elif not past.values_found:
        others = "the attacker knows people in some releases and not in others: sums are not compared"
        cases.append((AssumptionName.HOMOGENEOUS, len(past.releases), others))
    kept = unchanged(past.releases)
    if kept.people and findings.plan.data.values == "independent" and _tells_people(past):
        cases.append((AssumptionName.VALUES, kept.people, f"{_same_values(kept)}: epochs are not apart"))
    if unfit:
        changed = "do not fit one value of each person in an epoch: values have changed within it"
        cases.append((AssumptionName.VALUES, unfit, f"{count(unfit, 'number')} {changed}"))
    accepted = set(findings.plan.limits.accept) - NOT_ACCEPTED
    return tuple(
        Unverified(name=name, count=number, reason=reason, accepted=name in accepted, owner_only=True)
        for name, number, reason in cases
    )


def _tells_people(past: History) -> bool:
    """Whether values are so many that a sum that has not changed is no chance."""
    return past.plan.data.secret_kind.measured and not past.membership.occurring.few


def _same_values(kept: Unchanged) -> str:
    people = count(kept.compared, "person", "people")
    return f"{kept.people:,} of {people} have the value that they had in another epoch"


_ROUNDED_TOGETHER = (
    "releases are rounded, each finely beside its noise and all of them together coarsely: safe only if the "
    "noise is added before"
)


def _carried_over(
    past: History, findings: Findings, raised: tuple[Unverified, ...]
) -> tuple[Unverified, ...]:
    """What entries had to assume when they were made, and the audit of all of them does not ask again.

    A check may only add to what its entries assume: an assumption without a rule over several of them, such
    as noise that comes first, stays open as it was.
    """
    asked = {one.name for one in raised}
    entries: dict[AssumptionName, list[tuple[int, dict[str, Any]]]] = {}
    for release in past.releases:
        for assumption in release.found.assumptions:
            entries.setdefault(AssumptionName(assumption["name"]), []).append((release.number, assumption))
    rounded = [one.number for one in past.releases if one.found.rounding > 0]
    squares = math.fsum(one.found.rounding for one in past.releases)
    more = squares + 2 * math.sqrt(squares * findings.most_moved) if squares else 0.0
    if squares > MOST_ROUNDING or rounding_decides(findings, more):
        steps = {"count": len(rounded), "reason": _ROUNDED_TOGETHER, "owner_only": False}
        entries.setdefault(AssumptionName.NOISE_FIRST, [(number, steps) for number in rounded])
    accepted = set(findings.plan.limits.accept) - NOT_ACCEPTED
    return tuple(
        Unverified(
            name=name,
            count=sum(each["count"] for _, each in assumptions),
            reason=f"{assumptions[0][1]['reason']} ({_entries([number for number, _ in assumptions])})",
            accepted=name in accepted,
            owner_only=any(each["owner_only"] for _, each in assumptions),
        )
        for name, assumptions in entries.items()
        if name not in asked
    )


def _entries(numbers: Sequence[int]) -> str:
    """Some entries by number, each once, the first few of many."""
    numbers = sorted(set(numbers))
    listed = ", ".join(map(str, numbers[:FEW])) + (", …" if len(numbers) > FEW else "")
    return f"{'entry' if len(numbers) == 1 else 'entries'} {listed}"


_NO_ONE = "nobody"


def lines(decision: ReleaseDecision, *, full: bool) -> list[str]:
    """The verdict, who is newly seen and by what, the budget, and what would pass.

    The searches for noise and for further copies audit everything again and again: only if ``full``, or where
    the design is small.
    """
    before, after, verdict = decision.before, decision.after, decision.result.verdict
    status = "no limit is set" if verdict.status is None else verdict.status.value.upper()
    if verdict.accepts_groups:
        by = (
            f"decided by {verdict.set_by}" if verdict.set_by else "a person has to decide, in [limits] set_by"
        )
        status = f"ACCEPTED, NOT SHOWN, {by}"
    limit = "" if verdict.limit is None else f", limit {verdict.limit_text}"
    return [
        f"{decision.name}: {status}{limit}.",
        f"Identifiable: {before.identifiable} before, {after.identifiable} with it. "
        f"Not shown to keep the limit: {before.below or _NO_ONE} before, {after.below or _NO_ONE} with it.",
        f"Of the uncertainty about the most exposed person {_kept(before)} is left before, and "
        f"{_kept(after)} with it.",
        *_people("Becomes identifiable", decision.newly_identifiable),
        *_people("Falls below the limit", decision.newly_below),
        *_people("Was below the limit already", decision.already_below),
        *_broken_rules(decision.result),
        *([f"{_same_values(decision.kept)}."] if decision.kept.people else []),
        *dict.fromkeys(
            f"Not verified: {one.reason}." for one in decision.result.unverified if not one.accepted
        ),
        f"Epsilon for {covered(everyone=after.everyone)}: {_epsilons(before, after)}.",
        *_searches(decision, full=full),
        *filter(None, [public_line(decision.result)]),
        *odd_lines(decision.result),
        *_noted(decision.despite),
    ]


def _broken_rules(result: AuditResult) -> list[str]:
    """The first combinations of numbers that break a rule of the head."""
    broken = result.rules.broken if result.rules else ()
    more = result.rules.in_all - NAMED if result.rules else 0
    rest = (
        [f"{count(more, 'more combination breaks', 'more combinations break')} a rule."] if more > 0 else []
    )
    return [f"Breaks a rule: {one.text}." for one in broken[:NAMED]] + rest


def _noted(despite: tuple[str, ...]) -> list[str]:
    """What was added despite a check, or changed what is asked: the first few, or how many."""
    if len(despite) <= NAMED:
        return [f"Noted: {one}." for one in despite]
    return [
        f"Noted: {len(despite)} entries were added despite their check or changed what is asked, the last as "
        f"{despite[-1]}. sightline ledger log lists them."
    ]


def _kept(standing: Standing) -> str:
    return said("", standing.least) or "all"


def _people(what: str, people: tuple[Exposed, ...]) -> list[str]:
    lines = []
    for one in people:
        texts = [f". {seen.text}" for seen in (one.recipe, one.attack) if seen]
        lines.append(f"{what}: {one.record} keeps {one.remaining_uncertainty}{''.join(texts[:1])}")
    return lines


def _epsilons(before: Standing, after: Standing) -> str:
    costs = [
        f"{name} {number_at_most(before.epsilon.get(name, 0.0), 4)} → {number_at_most(value, 4)}"
        for name, value in after.epsilon.items()
    ]
    return ", ".join(costs) or "none can be stated"


def _if_one_moves(decision: ReleaseDecision) -> list[str]:
    """What happens if the same is published again and one person has joined or left the smallest group."""
    moves = decision.moves()
    people = count(moves.size, "person", "people")
    verb = "joins" if moves.joins else "leaves"
    case = f"If one person {verb} the smallest group ({moves.group}, {people}) and it is published again"
    if moves.keeps:
        return [f"{case}, everyone still keeps the limit: {moves.least} at least."]
    factor = moves.noise_factor
    noise = "no noise is enough" if factor is None else f"it would take {number(factor)} times its noise"
    return [f"{case}, somebody may keep only {moves.least}: {noise}."]


def _searches(decision: ReleaseDecision, *, full: bool) -> list[str]:
    found = decision.findings.linear
    if decision.passed is None or not (full or found.repeatable):
        return []
    if decision.passed:
        more = decision.more_like_it
        least = "At least " if more >= MOST_MORE else ""
        fits = f"{least}{count(more, 'more release')} like it {'fits' if more == 1 else 'fit'}"
        return [f"{fits}, if the same people are in the same groups each time.", *_if_one_moves(decision)]
    if decision.before.below:
        before = "What was published before is not shown to keep the limit"
        return [f"{before}: no noise on this release changes that."]
    factor = decision.noise_factor
    if factor is None:
        return ["No noise on this release alone is enough."]
    if factor <= 1:
        return []
    kept = "everyone keeps the limit"
    if not decision.passes(decision.with_noise(factor)):
        kept = "nobody is found below the limit; what was not verified has to be settled, too"
    return [f"With {number(factor)} times its noise {kept}."]
