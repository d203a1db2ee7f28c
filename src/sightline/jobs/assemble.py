"""The result of an audit, section by section: each is computed when it is first read."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from importlib.metadata import version

import numpy as np

from sightline.advising.more_blanks import so_nobody_is_certain
from sightline.advising.noise_slack import noise_slack, slack_under
from sightline.advising.remedies import more_noise, reaching
from sightline.auditing.assumptions import unverified
from sightline.auditing.budget import alternatives, budget_report, guaranteed_by_noise
from sightline.auditing.certain_people import certain_report, with_likely
from sightline.auditing.declared_and_found import looks_odd
from sightline.auditing.exposed import distribution, exposed_section
from sightline.auditing.findings import NO_KEYS, Findings, Keys
from sightline.auditing.homogeneous import homogeneous_cells, streamed_cells
from sightline.auditing.known_sums import StreamedTotals, Totals
from sightline.auditing.reading import plan_text, public_source, publishable_plan_text
from sightline.auditing.releases import left_out, release_reports, timeline
from sightline.auditing.rests_on import rests_on
from sightline.auditing.result import (
    NOT_ALL,
    SCHEMA_VERSION,
    AuditResult,
    BeliefReport,
    Change,
    ChangeKind,
    Explained,
    Exposed,
    HomogeneousCell,
    QuestionReport,
    RulesReport,
    Section,
    TrueTotals,
    Unverified,
    Verdict,
)
from sightline.auditing.result_parts import MOST_LISTED, TOP
from sightline.auditing.session import Session
from sightline.auditing.verdict import NO_RULES, accepts_what_is_alike, sharpest_view, verdict
from sightline.progress import blas_threads_for
from sightline.report.advice import changes_in_words, slack_in_words
from sightline.report.basis import sentences
from sightline.report.beliefs import expected
from sightline.report.judgement import in_words, view_in_words
from sightline.report.reasons import with_reason
from sightline.report.told import budget_in_words, cells_in_words, releases_in_words, rules_in_words
from sightline.tables.streamed import StreamedTable

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
) -> AuditResult:
    """The result, with the ``top`` most exposed, named if ``names``.

    ``keys`` fetches records' keys from the engine.
    ``totals`` fetches the sums of the secrets, to find groups whose values are nearly all alike.
    ``coarser`` audits coarser groups; it needs the engine, too, and is asked while the table is open.
    ``also`` says what a pass needs besides what the table shows, which it gets. ``digest`` is of its file.
    ``true_totals`` are those of records' rows, and that of one by its key.
    What needs the engine is fetched here, so that it may be closed before the sections are read.
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

    @cache
    def open_questions() -> tuple[Unverified, ...]:
        raised = unverified(findings, homogeneous, certain)
        return (*raised, *also(raised))

    def judged_for(*, publishable: bool) -> Verdict:
        return in_words(verdict(findings, listed, open_questions(), publishable=publishable, rules=rules))

    judgement = cache(lambda: judged_for(publishable=False))
    budget = cache(
        lambda: budget_in_words(budget_report(findings.plan, findings.membership, findings.pricing))
    )
    slack = cache(lambda: noise_slack(findings))
    releases = cache(lambda: releases_in_words(release_reports(findings, sums)))
    enough = cache(lambda: changes_in_words(reaching(findings, slack(), coarser)))
    facts = {
        **_facts(findings),
        "identifiable_records": listed.identifiable_records,
        "exposed": listed.exposed,
        "exposed_in_all": listed.exposed_in_all,
        "homogeneous": cells_in_words(homogeneous[:MOST_LISTED]),
        "rules": rules_in_words(rules) if findings.plan.rules.given else None,
        "certain": certain,
    }
    if true_totals is not None and listed.exposed and listed.exposed[0].total is not None:
        facts["true_totals"] = true_totals(_first_key(listed.exposed[0]))
    sections: dict[str, Section] = {
        # Whether the limit holds.
        "verdict": judgement,
        "publishable_verdict": lambda: (
            judged_for(publishable=True)
            if findings.has_nonlinear
            or any(one.owner_only for one in open_questions())
            or any(one.owner_only for one in rules.broken)
            or accepts_what_is_alike(findings)
            else None
        ),
        "unverified": lambda: tuple(map(with_reason, open_questions())),
        "assumptions": lambda: sentences([*rests_on(findings), *left_out(findings)]),
        "questions": lambda: _question_reports(findings),
        "beliefs": lambda: _belief_reports(findings),
        "sharpest": lambda: view_in_words(sharpest_view(findings)),
        "distribution": lambda: distribution(findings),
        # What the noise costs, and what to change.
        "budget": budget,
        "guaranteed_by_noise": lambda: guaranteed_by_noise(findings),
        "slack": lambda: slack_in_words(slack_under(judgement(), slack())),
        "reaching": lambda: tuple(one for one in enough() if one.reaches_limit),
        "tried": lambda: tuple(one.action for one in enough() if not one.reaches_limit),
        "what_to_change": lambda: (
            *(one for one in enough() if one.kind is not ChangeKind.NOISE and one.reaches_limit),
            *changes_in_words(_noise_changes(findings, more_noise(findings, slack()), design_noise)),
        ),
        "more_to_change": lambda: "",
        "so_nobody_is_certain": lambda: changes_in_words(
            so_nobody_is_certain(findings, advice_from, certain, rules)
        ),
        # What each release does, and what would be seen otherwise.
        "rank": lambda: findings.row_by_row.linear.rank,
        "releases": releases,
        "timeline": lambda: timeline(findings),
        "alternatives": lambda: alternatives(findings),
        "plan": lambda: plan_text(findings.plan),
        "publishable_plan": lambda: publishable_plan_text(findings.plan),
        "version": lambda: version("sightline"),
        "table_digest": digest,
    }
    on_few_threads = {name: partial(_computed, findings, section) for name, section in sections.items()}
    return AuditResult.on_demand(facts, on_few_threads)


def _first_key(exposed: Exposed) -> str | None:
    """The key of the first of those who are alike, if they were named and no key has a comma."""
    keys = [exposed.record or ""] if exposed.size == 1 else (exposed.record or "").split(", ")
    return keys[0] or None if len(keys) == exposed.size else None


def without_the_rest(
    findings: Findings, result: AuditResult, reached: tuple[Change, ...], reason: str
) -> AuditResult:
    """The result with the sections that were computed, and without those that take long."""
    stand_ins = {
        "slack": None,
        "what_to_change": reached,
        "so_nobody_is_certain": (),
        "tried": (),
        "more_to_change": f"{NOT_ALL}: {reason}.",
        "releases": releases_in_words(release_reports(findings, np.zeros((0, 0)), compared=False)),
        **dict.fromkeys(("timeline", "alternatives"), ()),
    }
    return result.given(stand_ins)


def _computed(findings: Findings, section: Section) -> object:
    membership = findings.membership
    with blas_threads_for(rows=len(membership.cells), columns=membership.signature_count):
        return section()


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
