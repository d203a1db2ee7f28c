"""An open audit: its sections, each computed when it is asked for, and plain results of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from functools import cache, partial
from importlib.metadata import version
from typing import Any, TypeVar

import numpy as np

from sightline.advising.more_blanks import so_nobody_is_certain
from sightline.advising.noise_slack import noise_slack, slack_under
from sightline.advising.remedies import more_noise, reaching
from sightline.auditing.assumption_facts import NOT_ACCEPTED
from sightline.auditing.assumptions import unverified
from sightline.auditing.budget import alternatives, budget_report, guaranteed_by_noise
from sightline.auditing.certain_people import certain_report, with_likely
from sightline.auditing.declared_and_found import looks_odd
from sightline.auditing.exposed import distribution, exposed_section
from sightline.auditing.findings import NO_KEYS, Findings, Keys
from sightline.auditing.homogeneous import homogeneous_cells, streamed_cells
from sightline.auditing.known_sums import StreamedTotals, Totals
from sightline.auditing.plan import AssumptionName
from sightline.auditing.reading import plan_text, public_source, publishable_plan_text
from sightline.auditing.releases import left_out, release_reports, timeline
from sightline.auditing.rests_on import rests_on
from sightline.auditing.result import (
    NOT_ALL,
    SCHEMA_VERSION,
    Alternative,
    AuditResult,
    BeliefReport,
    BudgetReport,
    Change,
    ChangeKind,
    Distribution,
    Explained,
    Exposed,
    HomogeneousCell,
    NoiseSlack,
    QuestionReport,
    ReleaseReport,
    RulesReport,
    SharpestView,
    Stage,
    TrueTotals,
    Unverified,
    Verdict,
)
from sightline.auditing.result_parts import MOST_LISTED, TOP
from sightline.auditing.session import Session
from sightline.auditing.verdict import NO_RULES, accepts_what_is_alike, sharpest_view, verdict
from sightline.bounds.chance_of_error import Taken, one_budget
from sightline.errors import require
from sightline.format import count
from sightline.progress import blas_threads_for
from sightline.report.advice import changes_in_words, slack_in_words
from sightline.report.basis import sentences
from sightline.report.beliefs import expected
from sightline.report.judgement import in_words, view_in_words
from sightline.report.reasons import with_reason
from sightline.report.told import budget_in_words, cells_in_words, releases_in_words, rules_in_words
from sightline.tables.streamed import StreamedTable
from sightline.values import frozen

T = TypeVar("T")
# Noise that costs less than a common factor on all of it, and that factor; the room of designs has them.
DesignNoise = Callable[[Findings, Change | None], tuple[Change, ...]]


def rules_of(session: Session, findings: Findings, table: StreamedTable | None = None) -> RulesReport:
    """Whether the plan's rules hold, of a table that is open."""
    if not session.plan.rules.given:
        return NO_RULES
    from sightline.auditing.rules import rules_report
    from sightline.tables.overlaps import PeopleBehind

    findings = findings.row_by_row
    listed = PeopleBehind.in_memory(findings.membership)
    behind = listed if table is None else PeopleBehind.in_store(table)
    totals = None if table is not None else partial(session.totals, membership=findings.membership)
    return rules_report(findings, session.contributions, behind, totals)


def judged(findings: Findings, *, totals: Totals, rules: RulesReport) -> Verdict:
    """The owner's verdict alone, as :func:`assemble` has it."""
    listed = exposed_section(findings, top=TOP)
    open_questions = unverified(
        findings, homogeneous_cells(findings, totals), certain_report(findings, totals)
    )
    return in_words(verdict(findings, listed, open_questions, publishable=False, rules=rules))


class Depth(IntEnum):
    """How much of an audit a result has."""

    VERDICT = 0  # whether the limit holds, of whom it does not, and what the noise costs
    FIRST_SCREEN = 1  # and what reaches the limit, or how much less noise would do
    ALL = 2  # and what assesses the plan again: what each release adds, other accountants, designed noise


@frozen(slots=False)
class OpenAudit:
    """An audit whose findings are at hand: every section of its result is computed when it is asked for.

    Each section is a function that computes it the first time it is called, and then has it. What it needs of
    the engine was fetched before, but for coarser groups, which are audited while the table is open:
    :attr:`enough` says nothing of these later. :meth:`result` makes a plain result of some sections.
    """

    facts: Mapping[str, Any]  # what the plan and its table are: fields of every result
    rules: RulesReport
    # Whether the limit holds.
    verdict: Callable[[], Verdict]
    publishable_verdict: Callable[[], Verdict | None]
    unverified: Callable[[], tuple[Unverified, ...]]
    assumptions: Callable[[], tuple[str, ...]]
    questions: Callable[[], tuple[QuestionReport, ...]]
    beliefs: Callable[[], tuple[BeliefReport, ...]]
    sharpest: Callable[[], SharpestView | None]
    distribution: Callable[[], Distribution]
    # What the noise costs.
    budget: Callable[[], BudgetReport]
    guaranteed_by_noise: Callable[[], float | None]
    # What to change.
    slack: Callable[[], NoiseSlack | None]
    enough: Callable[[], tuple[Change, ...]]  # what reaches the limit, and what was tried and does not
    common_noise: Callable[[], tuple[Change, ...]]  # one factor on all noise
    designed_noise: Callable[[], tuple[Change, ...]]  # and noise that costs less
    so_nobody_is_certain: Callable[[], tuple[Change, ...]]
    # What each release does, and what would be seen otherwise.
    rank: Callable[[], int]
    releases_alone: Callable[[], tuple[ReleaseReport, ...]]  # without what each adds to the others
    releases: Callable[[], tuple[ReleaseReport, ...]]
    timeline: Callable[[], tuple[Stage, ...]]
    alternatives: Callable[[], tuple[Alternative, ...]]
    table_digest: Callable[[], str | None]
    texts: Callable[[], Mapping[str, str]]  # of the plan, and of the version

    def __repr__(self) -> str:
        """One line, without a key of a record, and nothing is computed for it."""
        return f"<OpenAudit of {self.facts['source']!r}: {count(self.facts['records'], 'record')}>"

    def result(self, depth: Depth = Depth.ALL) -> AuditResult:
        """A plain result: its sections up to a depth, and in ``not_computed`` the names of the others."""
        require(
            isinstance(depth, Depth),
            "a Depth of sightline.jobs.assemble",
            got=repr(depth)[:60],
            fix="result() has every section; one section is a method, such as timeline()",
        )
        sections: dict[str, Any] = {
            "verdict": self.verdict(),
            "publishable_verdict": self.publishable_verdict(),
            "unverified": self.unverified(),
            "assumptions": self.assumptions(),
            "questions": self.questions(),
            "beliefs": self.beliefs(),
            "sharpest": self.sharpest(),
            "distribution": self.distribution(),
            "budget": self.budget(),
            "guaranteed_by_noise": self.guaranteed_by_noise(),
            **self.texts(),
        }
        if depth >= Depth.FIRST_SCREEN:
            enough = self.enough()
            groups = [one for one in enough if one.kind is not ChangeKind.NOISE and one.reaches_limit]
            noise = self.designed_noise if depth is Depth.ALL else self.common_noise
            sections |= {
                "slack": self.slack(),
                "tried": tuple(one for one in enough if not one.reaches_limit),
                "so_nobody_is_certain": self.so_nobody_is_certain(),
                "what_to_change": (*groups, *noise()),
            }
        if depth is Depth.ALL:
            sections |= {
                "rank": self.rank(),
                "releases": self.releases(),
                "timeline": self.timeline(),
                "alternatives": self.alternatives(),
                "table_digest": self.table_digest(),
            }
        else:
            sections["releases"] = self.releases_alone()
        return self._plain(sections)

    def cut_short(self, why: str) -> AuditResult:
        """The verdict, and what was computed besides, where there was no more time."""
        sections: dict[str, Any] = {"more_to_change": f"{NOT_ALL}: {why}."}
        if _asked(self.slack):
            sections["slack"] = self.slack()
        if _asked(self.enough):
            reached = [one for one in self.enough() if one.reaches_limit]
            if _asked(self.designed_noise):
                groups = [one for one in reached if one.kind is not ChangeKind.NOISE]
                reached = [*groups, *self.designed_noise()]
            sections["what_to_change"] = tuple(reached)
            sections["tried"] = tuple(one for one in self.enough() if not one.reaches_limit)
        if _asked(self.so_nobody_is_certain):
            sections["so_nobody_is_certain"] = self.so_nobody_is_certain()
        result = self.result(Depth.VERDICT)
        missing = tuple(name for name in result.not_computed if name not in sections)
        return result.model_copy(update={**sections, "not_computed": missing})

    def _plain(self, sections: Mapping[str, Any]) -> AuditResult:
        missing = [name for name in _LATER if name not in sections]
        if "timeline" not in sections:
            missing += _IN_PART
        known = {**self.facts, **sections, "not_computed": tuple(missing)}
        return AuditResult.model_construct(
            **{name: known[name] for name in AuditResult.model_fields if name in known}
        )


_LATER = (
    *("slack", "tried", "so_nobody_is_certain", "what_to_change"),
    *("rank", "timeline", "alternatives", "table_digest"),
)
# What sections lack where the plan was not assessed again.
_IN_PART = ("what_to_change: designed noise", "releases: newly_exposes, exposes_alone, accuracy")


def _asked(section: Callable[[], Any]) -> bool:
    """Whether a section was computed already."""
    return bool(section.cache_info().currsize)  # type: ignore[attr-defined]  # a function of functools.cache


def assemble(  # many parameters: what a table and its session give
    findings: Findings,
    *,
    top: int = TOP,
    names: bool = False,
    keys: Keys = NO_KEYS,
    totals: Totals | StreamedTotals | None = None,
    design_noise: DesignNoise | None = None,
    rules: RulesReport = NO_RULES,
    coarser: Callable[[], tuple[Change, ...]] = tuple,
    also: Callable[[tuple[Unverified, ...]], tuple[Unverified, ...]] = lambda _: (),
    digest: Callable[[], str | None] = lambda: None,
    true_totals: Callable[[str | None], TrueTotals] | None = None,
) -> OpenAudit:
    """The open audit of some findings, with the ``top`` most exposed, named if ``names``.

    ``keys`` fetches records' keys from the engine.
    ``totals`` fetches the sums of the secrets, to find groups whose values are nearly all alike.
    ``coarser`` audits coarser groups; it needs the engine, too, and is asked while the table is open.
    ``also`` says what a pass needs besides what the table shows, which it gets. ``digest`` is of its file.
    ``true_totals`` are those of records' rows, and that of one by its key.
    """
    sums, homogeneous, certain = np.zeros((0, 0)), tuple[HomogeneousCell, ...](), None
    advice_from: Totals | None = None
    if isinstance(totals, StreamedTotals):
        homogeneous = streamed_cells(findings, totals)
    elif totals:
        fetched = cache(totals)
        homogeneous = homogeneous_cells(findings, fetched)
        certain, advice_from = certain_report(findings, fetched, keys=keys if names else NO_KEYS), fetched
        certain = with_likely(certain, findings, fetched)
        # The sums are those of the published numbers if the attacker knows no row of them.
        if findings.linear and not findings.membership.known_rows:
            sums = fetched(None)
    listed = exposed_section(findings, top=top, keys=keys if names else NO_KEYS)
    plan, membership, pricing = findings.plan, findings.membership, findings.pricing
    once = partial(_once, findings)

    @cache
    def open_questions() -> tuple[Unverified, ...]:
        raised = unverified(findings, homogeneous, certain)
        return (*raised, *also(raised))

    def judged_for(*, publishable: bool) -> Verdict:
        return in_words(verdict(findings, listed, open_questions(), publishable=publishable, rules=rules))

    def for_readers() -> Verdict | None:
        differs = (
            findings.has_nonlinear
            or any(one.owner_only for one in open_questions())
            or any(one.owner_only for one in rules.broken)
            or accepts_what_is_alike(findings)
        )
        return judged_for(publishable=True) if differs else None

    judgement = once(lambda: judged_for(publishable=False))
    slack = once(lambda: noise_slack(findings))
    facts = {
        **_facts(findings),
        "identifiable_records": listed.identifiable_records,
        "exposed": listed.exposed,
        "exposed_in_all": listed.exposed_in_all,
        "homogeneous": cells_in_words(homogeneous[:MOST_LISTED]),
        "rules": rules_in_words(rules) if plan.rules.given else None,
        "certain": certain,
    }
    if true_totals is not None and listed.exposed and listed.exposed[0].total is not None:
        facts["true_totals"] = true_totals(_first_key(listed.exposed[0]))

    def common_noise() -> tuple[Change, ...]:
        common = more_noise(findings, slack())
        return () if common is None else (common,)

    return OpenAudit(
        facts=facts,
        rules=rules,
        verdict=judgement,
        publishable_verdict=once(for_readers),
        unverified=once(lambda: tuple(map(with_reason, open_questions()))),
        assumptions=once(lambda: sentences([*rests_on(findings), *left_out(findings)])),
        questions=once(lambda: _question_reports(findings)),
        beliefs=once(lambda: _belief_reports(findings)),
        sharpest=once(lambda: view_in_words(sharpest_view(findings))),
        distribution=once(lambda: distribution(findings)),
        budget=once(lambda: budget_in_words(budget_report(plan, membership, pricing))),
        guaranteed_by_noise=once(lambda: guaranteed_by_noise(findings)),
        slack=once(lambda: slack_in_words(slack_under(judgement(), slack()))),
        enough=once(lambda: changes_in_words(reaching(findings, slack(), coarser))),
        common_noise=once(lambda: changes_in_words(common_noise())),
        designed_noise=once(
            lambda: changes_in_words(_noise_changes(findings, more_noise(findings, slack()), design_noise))
        ),
        so_nobody_is_certain=once(
            lambda: changes_in_words(so_nobody_is_certain(findings, advice_from, certain, rules))
        ),
        rank=once(lambda: findings.row_by_row.linear.rank),
        releases_alone=once(
            lambda: releases_in_words(release_reports(findings, np.zeros((0, 0)), compared=False))
        ),
        releases=once(lambda: releases_in_words(release_reports(findings, sums))),
        timeline=once(lambda: timeline(findings)),
        alternatives=once(lambda: alternatives(findings)),
        table_digest=digest,
        texts=once(
            lambda: {
                "plan": plan_text(plan),
                "publishable_plan": publishable_plan_text(plan),
                "version": version("sightline"),
            }
        ),
    )


def _first_key(exposed: Exposed) -> str | None:
    """The key of the first of those who are alike, if they were named and no key has a comma."""
    keys = [exposed.record or ""] if exposed.size == 1 else (exposed.record or "").split(", ")
    return keys[0] or None if len(keys) == exposed.size else None


def _once(findings: Findings, section: Callable[[], T]) -> Callable[[], T]:
    """A section that is computed the first time, on as many threads as its size is worth."""

    @cache
    def computed() -> T:
        membership = findings.membership
        threads = blas_threads_for(rows=len(membership.cells), columns=membership.signature_count)
        with threads, one_budget(membership.once(Taken)):
            return section()

    return computed


def _facts(findings: Findings) -> dict[str, object]:
    """What the plan and its table are, and what is known of them without a computation."""
    plan, membership, linear = findings.plan, findings.membership, findings.linear
    local = next((one.report() for one in findings.nonlinear), None)
    known = membership.explained
    return {
        "schema_version": SCHEMA_VERSION,
        "source": public_source(str(plan.data.source)),
        "record": plan.data.record,
        "secret": plan.data.secret,
        "kind": plan.data.secret_kind.value,
        "presence": plan.data.presence,
        "frame": public_source(plan.data.frame) if plan.data.frame else "",
        "accepts": tuple(name for name in AssumptionName if name in set(plan.limits.accept) - NOT_ACCEPTED),
        "bounds": plan.data.domain,
        "category_count": len(plan.data.categories) or None,
        "prior": expected(findings.row_by_row.prior.fact),
        "rows": membership.rows,
        "records": membership.records,
        "known_rows": membership.known_rows,
        "dropped": membership.dropped,
        "clipped": membership.clipped,
        "cells": len(membership.cells),
        "signatures": membership.signature_count,
        "identifiable_groups": findings.identifiable_groups,
        "relative_error": linear.relative_error,
        "least_remaining_uncertainty": findings.least if findings.shows else None,
        "least_about": findings.worst.asked or None,
        "local": local,
        "taken_as_public": membership.taken_as_public,
        "declared_public": tuple(plan.data.public or ()),
        "explained": Explained(columns=known.columns, share=known.share) if known.columns else None,
        "looks_odd": sentences(looks_odd(findings)),
        "owner_only": (
            "dropped",
            "clipped",
            "explained",
            "looks_odd",
            "homogeneous",
            "certain",
            "true_totals",
            "so_nobody_is_certain",
            "releases: accuracy",
            "table_digest",
            *(("local", "exposed: local") if local else ()),
        ),
    }


def _noise_changes(
    findings: Findings, common: Change | None, design_noise: DesignNoise | None
) -> tuple[Change, ...]:
    """What to do with the noise, if not everyone is shown to keep the limit."""
    if design_noise is not None and findings.not_shown and not findings.plan.data.only_guarantee:
        return design_noise(findings, common)
    return () if common is None else (common,)


def _belief_reports(findings: Findings) -> tuple[BeliefReport, ...]:
    """One report for each belief, worst first; none if the plan leaves one open."""
    if not findings.others:
        return ()
    return tuple(
        BeliefReport(
            name=one.belief.name,  # type: ignore[arg-type]  # the model checks it
            holds=not one.not_shown if one.limit else None,
            below_limit=one.below_limit,
            least_remaining_uncertainty=one.least if one.shows else None,
            total=next((one.linear.total(column) for column in one.linear.least_columns.tolist()), None),
            level=one.prior.level,
            block=one.belief.block or None,
        )
        for one in findings.every_belief
    )


def _question_reports(findings: Findings) -> tuple[QuestionReport, ...]:
    """One report for each yes-or-no question, worst first."""
    return tuple(
        QuestionReport(
            text=one.asked,
            identifiable_records=one.linear.identifiable_records,
            least_remaining_uncertainty=one.least if one.shows else None,
            below_limit=one.below_limit,
        )
        for one in sorted(findings.questions, key=lambda one: one.least.lower)
    )
