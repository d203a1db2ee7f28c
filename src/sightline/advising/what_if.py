"""What if: audit the plan with other noise, without a release, or against another attacker.

Each setting is a plan of its own, with one change, and goes through the same functions as an audit: prices,
brackets, what was not verified, verdict. Only the table is not read again, unless the attacker knows other
rows. Changes besides the noise are left out if all settings together are too much work, which depends on the
size of the design alone: equal plans give equal results.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace
from enum import StrEnum
from functools import partial
from typing import Any, NamedTuple, TypeVar

from sightline.arrays import FloatArray
from sightline.auditing.assumptions import unverified
from sightline.auditing.budget import proof_of_budget
from sightline.auditing.certain_people import certain_report
from sightline.auditing.exposed import ExposedSection
from sightline.auditing.findings import Findings, LinearFindings, find
from sightline.auditing.homogeneous import homogeneous_cells
from sightline.auditing.known_sums import Totals
from sightline.auditing.plan import Plan, Release
from sightline.auditing.result_parts import Fact, Setting, SettingKind, WhatIf, fact
from sightline.auditing.session import Session
from sightline.auditing.unit_findings import MOST_FACTORISED
from sightline.auditing.verdict import verdict
from sightline.bounds.priors import NUMBER_PRIORS
from sightline.errors import InvalidInput
from sightline.format import parameter
from sightline.progress import Progress, silent
from sightline.tables.membership import Membership, Partition
from sightline.tables.published import without_queries
from sightline.values import frozen

_STOPS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0)  # of epsilon, or of the factor on the noise

Answer = TypeVar("Answer")


class PlanChange(NamedTuple):
    """One change of a plan."""

    kind: SettingKind
    name: str
    amount: float = 1.0  # the epsilon, or the factor on the noise

    def plan(self, plan: Plan) -> Plan:
        """The plan of the setting: an audit of it says what the setting says."""
        match self.kind:
            case SettingKind.EPSILON:
                return plan.model_copy(update={"privacy": _updated(plan.privacy, epsilon=self.amount)})
            case SettingKind.FACTOR:
                releases = tuple(_scaled(release, self.amount) for release in plan.releases)
                return plan.model_copy(update={"releases": releases})
            case SettingKind.LEAVE_OUT:
                kept = tuple(one for one in plan.releases if one.name != self.name)
                return plan.model_copy(update={"releases": kept})
            case SettingKind.DOES_NOT_KNOW:
                knows = tuple(text for text in plan.attacker.knows if text != self.name)
                return plan.model_copy(update={"attacker": _updated(plan.attacker, knows=knows)})
            case SettingKind.PRIOR:
                return plan.model_copy(update={"attacker": _updated(plan.attacker, prior=self.name)})


def _updated(section: Any, **fields: object) -> object:
    return section.model_copy(update=fields)


def _scaled(release: Release, factor: float) -> Release:
    """The release with its own noise times a factor; what is out already keeps its noise."""
    if release.published:
        return release
    noise, stddev = tuple(one.times(factor) for one in release.noise), release.noise_stddev * factor
    return release.model_copy(update={"noise": noise, "noise_stddev": stddev})


class _Who(NamedTuple):
    """The most exposed record of a setting, or records that nothing tells apart."""

    places: tuple[int, ...]  # of their signatures, or of their kind in the table of persons
    kind: bool
    people: int
    category: str
    knows: tuple[str, ...]  # the attacker's conditions: whom they know is not among them


def what_if(
    session: Session,
    findings: Findings,
    *,
    also: tuple[float, ...] = (),
    names: bool = False,
    progress: Progress = silent,
) -> WhatIf | None:
    """The settings of a plan; none if ``why_no_what_if`` gives a reason.

    ``also`` are more amounts of noise, such as the one that keeps the limit. ``names`` names records.
    """
    if why_no_what_if(findings):
        return None
    variants = _Variants(session=session, plan=findings.plan, membership=findings.membership)
    noises, own = _noises(findings, also)
    changes = _changes(findings.plan)
    work = sum(part.linear.work for part in (findings, *findings.questions))
    if (len(noises) + len(changes)) * work > MOST_FACTORISED**3:
        changes = []
    settings: list[Setting] = []
    for place, change in enumerate((*noises, *changes)):
        progress("trying other settings", place / (len(noises) + len(changes)))
        try:
            there = variants.findings(change)
        except InvalidInput:  # an accountant that cannot price it, or noise that is no number
            continue
        settings.append(_setting(there, variants, change, own=place == own, names=names))
    return WhatIf(settings=tuple(settings))


class NoWhatIf(StrEnum):
    """Why a plan has no what-if."""

    NOTHING_DEPENDS = "what-if: nothing depends"
    TOO_LARGE = "what-if: too large"
    TOO_MANY_ROWS = "what-if: too many rows"
    SHARED_NOISE = "what-if: shared noise"
    FIT = "what-if: fit"
    NO_NOISE = "what-if: no noise"
    OWN_BUDGETS = "what-if: own budgets"
    STREAMED = "what-if: streamed"


def why_no_what_if(findings: Findings) -> Fact | None:
    """Why a plan has no what-if; none if it has one."""
    plan, sharing = findings.plan, findings.pricing.releases
    seen = [one.linear for one in (findings, *findings.questions)]
    if not any(seen) and not findings.has_nonlinear:
        return fact(NoWhatIf.NOTHING_DEPENDS, some_known=findings.membership.known_rows > 0)
    if not all(one.has_at_most(MOST_FACTORISED) for one in seen):
        return fact(NoWhatIf.TOO_LARGE, most=MOST_FACTORISED)
    if findings.has_nonlinear and findings.membership.rows > MOST_FACTORISED:
        return fact(NoWhatIf.TOO_MANY_ROWS, most=MOST_FACTORISED)
    if findings.pricing.strategies:
        return fact(NoWhatIf.SHARED_NOISE)
    if any(release.derived for release in plan.releases):
        return fact(NoWhatIf.FIT)
    stated = [noise for release in plan.releases for noise in release.noise]
    if findings.pricing.exact.all():
        return fact(NoWhatIf.NO_NOISE)
    if not sharing and any(one.epsilon for one in stated):
        return fact(NoWhatIf.OWN_BUDGETS)
    return None


def _changes(plan: Plan) -> list[PlanChange]:
    """Every release that can be left out, every condition, and every other prior of a number."""
    releases = [PlanChange(SettingKind.LEAVE_OUT, one.name) for one in plan.releases if not one.published]
    known = [PlanChange(SettingKind.DOES_NOT_KNOW, text) for text in plan.attacker.conditions]
    priors = [
        PlanChange(SettingKind.PRIOR, name)
        for name in NUMBER_PRIORS
        if name != plan.attacker.prior and plan.data.secret_kind.measured
    ]
    return [*(releases if len(plan.releases) > 1 else ()), *known, *priors]


def _noises(findings: Findings, also: tuple[float, ...]) -> tuple[list[PlanChange], int]:
    """Amounts of noise, by epsilon or by factor, ascending; and the place of the plan's own."""
    own = findings.plan.privacy.epsilon if findings.pricing.releases else 0.0
    kind = SettingKind.EPSILON if own else SettingKind.FACTOR
    stops = sorted({*_STOPS, *also, own or 1.0})
    return [PlanChange(kind, parameter(one), one) for one in stops], stops.index(own or 1.0)


@frozen
class _Variants:
    """The memberships, sums and values for every attacker, each fetched once."""

    session: Session
    plan: Plan
    membership: Membership  # against the plan's own attacker
    fetched: dict[tuple[str, tuple[str, ...], object], Any] = field(default_factory=dict)

    def findings(self, change: PlanChange) -> Findings:
        """The findings of one setting, as an audit has them."""
        plan = change.plan(self.plan)
        kept = {release.name for release in plan.releases}
        gone = {place for place, release in enumerate(self.plan.releases) if release.name not in kept}
        membership = without_queries(self._against(plan), gone)
        return find(plan, membership, values=lambda: self._once("values", plan, Session.values))

    def totals(self, plan: Plan, question: Partition | None) -> FloatArray:
        """The sums of the secrets that the attacker of a plan does not know, or of the answers."""
        return self._once("sums", plan, lambda session: session.totals(question), question)

    def name(self, who: _Who) -> str:
        """The keys of the most exposed."""
        attacker = _updated(self.plan.attacker, knows=who.knows)
        plan = self.plan.model_copy(update={"attacker": attacker})
        membership = self._against(plan)

        def ask(session: Session) -> str:
            keys = session.keys(membership)
            found = (keys.of_kinds if who.kind else keys.of_signatures)(who.places)
            return ", ".join(sorted({key for own in found.values() for key in own}))

        return self._once("name", plan, ask, who)

    def _against(self, plan: Plan) -> Membership:
        if plan.attacker.knows == self.plan.attacker.knows:
            return self.membership
        return self._once("membership", plan, Session.membership)

    def _once(self, what: str, plan: Plan, ask: Callable[[Session], Answer], about: object = None) -> Answer:
        """What the table says against the attacker of a plan, with all releases."""
        if (key := (what, plan.attacker.knows, about)) not in self.fetched:
            everything = plan.model_copy(update={"releases": self.plan.releases})
            self.fetched[key] = ask(replace(self.session, plan=everything))
        found: Answer = self.fetched[key]
        return found


def _setting(
    findings: Findings, variants: _Variants, change: PlanChange, *, own: bool, names: bool
) -> Setting:
    """What the audit says of one setting."""
    found = findings.linear
    section = ExposedSection(
        exposed=(),
        exposed_in_all=0,
        identifiable_records=found.identifiable_records,
    )
    totals: Totals = partial(variants.totals, findings.plan)
    open_questions = unverified(
        findings, homogeneous_cells(findings, totals), certain_report(findings, totals)
    )
    judged = verdict(findings, section, open_questions, publishable=False)
    noise, worst = findings.pricing.noise_stddev, fact(Worst.RECORD if findings.shows else Worst.NOBODY)
    if findings.worst.asked:
        worst = fact(Worst.OF_QUESTION, question=findings.worst.asked)
    elif found:
        worst = _whom(_worst(found, findings.plan.attacker.knows), variants if names else None)
    return Setting(
        kind=change.kind,
        name=change.name,
        own=own,
        status=None if judged.status is None else judged.status.value,
        proven=proof_of_budget(findings.plan, findings.membership, findings.pricing)[0],
        below_limit=judged.below_limit,
        least=findings.least if findings.shows else None,
        whom=worst,
        least_noise_stddev=float(noise.min()) if noise.size else None,
        most_noise_stddev=float(noise.max()) if noise.size else None,
    )


def _worst(found: LinearFindings, knows: tuple[str, ...]) -> _Who:
    """The most exposed, the first of the audit's list."""
    column = int(found.least_columns[0])
    return _Who(
        places=tuple(found.linear.records_of(column).tolist()),
        kind=found.linear.by_kind,
        people=int(found.counts[column]),
        category=found.linear.category(column) or "",
        knows=knows,
    )


class Worst(StrEnum):
    """Who keeps least."""

    NOBODY = "nobody"
    RECORD = "a record"
    OF_QUESTION = "a record, about a question"
    NAMED = "a named record"
    ALIKE = "one of several alike"


def _whom(who: _Who, named_by: _Variants | None) -> Fact:
    """Who it is: by key if that was asked for, else how many are alike.

    Of persons, where a release is left out, more may be alike than are of one kind.
    """
    if named_by is not None:
        return fact(Worst.NAMED, key=named_by.name(who), category=who.category)
    if who.people == 1 or who.kind:
        return fact(Worst.RECORD, category=who.category)
    return fact(Worst.ALIKE, people=who.people, category=who.category)
