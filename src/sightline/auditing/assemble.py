"""The result of an audit, section by section."""

from __future__ import annotations

from functools import cache
from importlib.metadata import version

from sightline.auditing.accuracy import release_accuracies
from sightline.auditing.alternatives import alternatives
from sightline.auditing.assumptions import assumptions, unverified
from sightline.auditing.budget import budget_report
from sightline.auditing.exposed import distribution, exposed_section
from sightline.auditing.findings import Findings, Keys
from sightline.auditing.homogeneous import Totals, homogeneous_cells, streamed_cells
from sightline.auditing.left_out import left_out
from sightline.auditing.losses import guaranteed_by_noise, losses
from sightline.auditing.noise_slack import noise_slack, slack_under
from sightline.auditing.plan_text import plan_text, public_source, publishable_plan_text
from sightline.auditing.questions import question_text
from sightline.auditing.release_map import release_map
from sightline.auditing.releases import release_reports
from sightline.auditing.remedies import remedies
from sightline.auditing.result import SCHEMA_VERSION, AuditResult, QuestionReport, Verdict
from sightline.auditing.sharpest import sharpest_view
from sightline.auditing.streamed_sums import StreamedTotals
from sightline.auditing.timeline import timeline
from sightline.auditing.verdict import verdict
from sightline.progress import Progress, silent

_TOP = 20  # exposed that are listed, unless another number is asked for
_MOST_HOMOGENEOUS = 100  # cells that are listed


def judged(findings: Findings, *, keys: Keys | None, totals: Totals | None) -> Verdict:
    """The owner's verdict alone, as :func:`assemble` has it."""
    section = exposed_section(findings, top=_TOP, names=False, keys=keys)
    open_questions = unverified(findings, homogeneous_cells(findings, totals))
    return verdict(findings, section, open_questions, publishable=False)


def assemble(
    findings: Findings,
    *,
    top: int = _TOP,
    names: bool = False,
    keys: Keys | None = None,
    totals: Totals | StreamedTotals | None = None,
    progress: Progress = silent,
) -> AuditResult:
    """The result, with the ``top`` most exposed, named if ``names``.

    ``keys`` fetches records' keys from the engine.
    ``totals`` fetches the sums of the secrets, to find groups whose values are nearly all alike.
    """
    plan, membership, found = findings.plan, findings.membership, findings.linear
    of_signatures = None if totals is None or isinstance(totals, StreamedTotals) else cache(totals)
    section = exposed_section(findings, top=top, names=names, keys=keys)
    local = None if findings.nonlinear is None else findings.nonlinear.report()
    budget = budget_report(plan, findings.membership, findings.pricing)
    accuracies = release_accuracies(findings, of_signatures)
    reports = tuple(
        report.model_copy(update={"accuracy": accuracy})
        for report, accuracy in zip(release_reports(findings), accuracies, strict=True)
    )
    homogeneous = (
        streamed_cells(findings, totals)
        if isinstance(totals, StreamedTotals)
        else homogeneous_cells(findings, of_signatures)
    )
    _, about = findings.least_about
    open_questions = unverified(findings, homogeneous)
    slack = noise_slack(findings)
    advice = remedies(findings, reports, section, slack)
    judged = verdict(findings, section, open_questions, publishable=False)
    owner_differs = local is not None or any(one.owner_only for one in open_questions)
    return AuditResult(
        schema_version=SCHEMA_VERSION,
        source=public_source(str(plan.data.source)),
        record=plan.data.record,
        secret=plan.data.secret,
        kind=plan.data.secret_kind.value,
        bounds=plan.data.domain,
        prior=findings.prior.values,
        rows=membership.rows,
        records=membership.records,
        known_rows=membership.known_rows,
        dropped=membership.dropped,
        clipped=membership.clipped,
        cells=len(membership.cells),
        signatures=membership.signature_count,
        rank=found.rank if found else 0,
        identifiable_records=section.identifiable_records,
        identifiable_groups=found.identifiable_groups if found else 0,
        least_remaining_uncertainty=findings.least,
        exposed=section.exposed,
        exposed_in_all=section.exposed_in_all,
        releases=reports,
        budget=budget,
        distribution=distribution(findings),
        local=local,
        guaranteed_by_noise=guaranteed_by_noise(findings),
        timeline=timeline(findings, progress),
        release_map=release_map(findings),
        losses=losses(findings, delta=budget.delta),
        alternatives=alternatives(findings, progress),
        verdict=judged,
        publishable_verdict=(
            verdict(findings, section, open_questions, publishable=True) if owner_differs else None
        ),
        sharpest=sharpest_view(findings),
        slack=slack_under(judged, slack),
        what_to_change=advice.changes,
        more_to_change=advice.more,
        assumptions=(*assumptions(findings), *left_out(findings)),
        owner_only=(
            "dropped",
            "clipped",
            "homogeneous",
            "releases: accuracy",
            *(("local", "exposed: local") if local else ()),
        ),
        relative_error=found.relative_error if found else 0.0,
        plan=plan_text(plan),
        version=version("sightline"),
        publishable_plan=publishable_plan_text(plan),
        category_count=None if plan.data.categories is None else len(plan.data.categories),
        unverified=open_questions,
        questions=_question_reports(findings),
        least_about=None if about is None else question_text(about, plan.data.secret),
        homogeneous=homogeneous[:_MOST_HOMOGENEOUS],
    )


def _question_reports(findings: Findings) -> tuple[QuestionReport, ...]:
    """One report for each yes-or-no question, worst first."""
    reports = [
        QuestionReport(
            text=question_text(one.question, findings.plan.data.secret),
            identifiable_records=0 if one.linear is None else one.linear.identifiable_records,
            least_remaining_uncertainty=one.least,
            below_limit=one.below_limit,
        )
        for one in findings.questions
        if one.question is not None
    ]
    return tuple(sorted(reports, key=_lower_end))


def _lower_end(report: QuestionReport) -> float:
    return 1.0 if report.least_remaining_uncertainty is None else report.least_remaining_uncertainty.lower
