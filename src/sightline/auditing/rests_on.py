"""What the numbers of an audit rest on, as facts: no decision.

:mod:`sightline.report.basis` has the sentences.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

from sightline.auditing.beliefs import LEVEL, ONE_VALUE
from sightline.auditing.declared_and_found import how_computed
from sightline.auditing.findings import Findings
from sightline.auditing.lowering import LINEAR
from sightline.auditing.plan import Plan
from sightline.auditing.result_parts import Fact, Figure, fact
from sightline.privacy.law import Law
from sightline.tables.membership import YES_OR_NO, PersonTable


class Basis(StrEnum):
    """What the numbers of an audit may rest on."""

    EVERYBODY_ELSE_KNOWN = "everybody else known"  # without a frame
    NO_FRAME = "nothing but the noise counts"
    BENCHMARK = "benchmark"
    GROUPS_KNOWN = "groups known"
    AVERAGE = "average"
    GROUP_KNOWLEDGE = "group knowledge"
    SEVERAL_ROWS = "several rows"
    SENSITIVITY_DECLARED = "sensitivity declared"
    SENSITIVITY_OF_TABLE = "sensitivity of table"
    SENSITIVITY_BOUNDED = "sensitivity bounded"
    UNEVEN_ROWS = "uneven rows"
    REPEATED = "repeated"
    TAKEN_AS_PUBLIC = "taken as public"
    ROWS_MADE = "rows made"
    SHARE_OF_BOUNDS = "share of bounds"
    ERROR_LIMIT = "error limit"
    KNOWN_SHARE = "known share"
    KNOWN_WITHIN = "known within"
    FEW_VALUES = "few values to round to"
    LAW = "law"
    COPIES = "copies"
    WEIGHTS = "weights"
    QUESTIONS = "questions"
    MOMENTS = "moments"


def _rows(plan: Plan) -> Fact:
    """How many rows a record may have, and what they have in common."""
    category = not plan.data.secret_kind.summed
    belief: dict[str, Figure] = {"belief": "apart", "by_category": category}
    if plan.belief == ONE_VALUE:
        belief = {"belief": "one value"}
    elif plan.belief == LEVEL:
        belief = {"belief": "level", "beliefs": len(plan.data.beliefs)}
    elif plan.belief.block:
        belief = {"belief": "block", "block": plan.belief.block, "beliefs": len(plan.data.beliefs)}
    return fact(Basis.SEVERAL_ROWS, most=plan.data.max_rows_per_record, **belief)


def _priced_for(plan: Plan) -> Fact:
    """Whose rows the sensitivities are for."""
    if plan.privacy.sensitivity == "declared":
        return fact(Basis.SENSITIVITY_DECLARED, rows=plan.data.max_rows_per_record)
    return fact(Basis.SENSITIVITY_OF_TABLE)


def _limits(findings: Findings) -> Iterator[Fact]:
    """Which of the limits depends on the bounds."""
    plan = findings.plan
    if not plan.data.secret_kind.measured:
        return
    if plan.limits.remaining_uncertainty:
        yield fact(Basis.SHARE_OF_BOUNDS)
    if plan.limits.known_to:
        known: dict[str, Figure] = {"known_to": plan.limits.known_to, "secret": plan.data.secret}
        yield fact(Basis.ERROR_LIMIT, findings.prior.fact, **known)


def _knowledge(plan: Plan) -> Iterator[Fact]:
    """What the plan says about the attacker's knowledge, and what the audit makes of it."""
    if plan.attacker.known_share:
        yield fact(Basis.KNOWN_SHARE, share=plan.attacker.known_share)
    if plan.attacker.values_within is not None:
        yield fact(Basis.KNOWN_WITHIN, within=plan.attacker.values_within)


def _uneven_rows(people: PersonTable) -> Iterator[Fact]:
    """Gaps, and times that somebody has two rows for."""
    total, most = sum(people.by_rows.values()), max(people.by_rows, default=0)
    if len(people.by_rows) > 1:
        fewer = total - people.by_rows[most]
        yield fact(Basis.UNEVEN_ROWS, least=min(people.by_rows), most=most, fewer=fewer, of=total)
    column, times = people.repeated
    if times:
        yield fact(Basis.REPEATED, times=times, column=column)


def _bounded_sensitivities(findings: Findings) -> Iterator[Fact]:
    """Mechanisms whose sensitivity is a bound that nobody may attain: over all places of rows, or where three
    rows of this table would have to change against each other.
    """
    plan, parts, most = findings.plan, findings.membership.partitions, findings.membership.contributions
    declared = plan.privacy.sensitivity == "declared"
    for p, strategy in findings.pricing.strategies.items():
        apart = plan.releases[parts[p].query].running.min_separation
        exact = strategy.sensitivity(plan.data.max_rows_per_record, apart).exact
        if not (exact if declared else most <= 2 or float(strategy.gram.min()) >= 0):
            yield fact(Basis.SENSITIVITY_BOUNDED, release=parts[p].name, declared=declared)


def _of_whoever_might_be_there(findings: Findings) -> Iterator[Fact]:
    """What the answer rests on where there is no frame."""
    taken = findings.membership.taken_as_public
    yield fact(Basis.EVERYBODY_ELSE_KNOWN)
    yield fact(Basis.NO_FRAME)
    yield fact(Basis.BENCHMARK)
    if taken:
        yield fact(Basis.TAKEN_AS_PUBLIC, columns=", ".join(taken), secret="")
    yield from how_computed(findings)


def rests_on(findings: Findings) -> Iterator[Fact]:
    """What the numbers rest on."""
    plan, membership, pricing = findings.plan, findings.membership, findings.pricing
    if plan.data.only_guarantee:
        yield from _of_whoever_might_be_there(findings)
        return
    yield fact(Basis.GROUPS_KNOWN)
    yield fact(Basis.AVERAGE, findings.prior.fact)
    yield fact(Basis.BENCHMARK)
    if findings.guaranteed:
        yield fact(Basis.GROUP_KNOWLEDGE)
    if membership.contributions > 1 or plan.data.max_rows_per_record > 1:
        yield _rows(plan)
        yield _priced_for(plan)
        yield from _bounded_sensitivities(findings)
        yield from _uneven_rows(membership.persons)
    if membership.taken_as_public:
        columns = ", ".join(membership.taken_as_public)
        yield fact(Basis.TAKEN_AS_PUBLIC, columns=columns, secret=plan.data.secret)
    if plan.data.sql:
        yield fact(Basis.ROWS_MADE)
    yield from _limits(findings)
    yield from _knowledge(plan)
    if not plan.data.secret_kind.measured:
        yield fact(Basis.FEW_VALUES)
    laws = set(pricing.bundle_laws)
    yield from (fact(Basis.LAW, law=law.value) for law in Law if law in laws)
    if any(release.times > 1 for release in plan.releases):
        yield fact(Basis.COPIES)
    yield from how_computed(findings)
    if any(partition.weighted for partition in membership.partitions):
        yield fact(Basis.WEIGHTS)
    if findings.questions:
        yield fact(Basis.QUESTIONS, secret=plan.data.secret)
    if any(partition.feature not in LINEAR | YES_OR_NO for partition in membership.partitions):
        yield fact(Basis.MOMENTS)
