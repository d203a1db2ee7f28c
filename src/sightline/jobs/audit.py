"""The main jobs: audit a plan, check it, explain one record.

They stand to the right of the room of designs, because the advice of an audit comes from a design. What only
some audits need is imported where it is used, so that a small plan is answered sooner.
"""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from os import PathLike
from pathlib import Path

from sightline.advising.noise_slack import rounded
from sightline.advising.remedies import WhyUntried, coarser_groups, groups_untried
from sightline.auditing.certain_people import certain_report
from sightline.auditing.exposed import about_person, about_signatures
from sightline.auditing.findings import Findings, find
from sightline.auditing.plan import Plan
from sightline.auditing.plans_by_secret import plans_by_secret
from sightline.auditing.reading import PlanLike, file_name, read_plan, with_limit
from sightline.auditing.result import AuditResult, Change, ChangeKind, Explanation
from sightline.auditing.result_parts import WhatIf
from sightline.auditing.session import Session, opened, streamed_totals, table_of
from sightline.auditing.work import WorkLimits
from sightline.bounds.chance_of_error import Taken, one_budget
from sightline.errors import Interrupted, InvalidInput, InvalidPlan, TooMuchWork, require, require_plan
from sightline.jobs.assemble import Depth, OpenAudit, assemble, rules_of
from sightline.jobs.several_secrets import together
from sightline.progress import Progress, blas_threads_for, report, reporting, silent
from sightline.tables.engines.address import LARGEST_FILE, file_bytes
from sightline.tables.engines.local_tables import digest_later
from sightline.tables.membership import Membership
from sightline.tables.streamed import StreamedTable


@one_budget()
def audit(  # many parameters: the options of the command of the same name
    plan: PlanLike,
    *,
    limit: float | str | None = None,
    names: bool = False,
    top: int = 20,
    progress: Progress | None = None,
    max_memory: int | float | str | None = None,
    max_seconds: float | None = None,
    what_if: bool = False,
    full: bool = False,
    verdict_only: bool = False,
) -> AuditResult:
    """Audit a plan: a path to its TOML file, a mapping with the same sections, or a ``Plan``.

    ``limit`` replaces the plan's limit: the share of its uncertainty that every record must keep, as 0.5 or
    "50%". ``names`` names the exposed records by their keys. ``top`` is how many of them are listed.
    ``progress`` is called with a stage and the share of it that is done. A table whose signatures need more
    than ``max_memory`` (bytes, or "4GB"; by default most of what is free) is streamed if it can be. Otherwise
    an audit that needs more is refused, and one that takes longer than ``max_seconds`` ends: with the verdict
    if there is one by then, else with :class:`sightline.errors.TooMuchWork`. ``what_if`` adds audits of other
    settings, for the report's page.

    The result has the verdict, who is below the limit, what is seen of them, the budget and what reaches the
    limit. ``full`` adds what assesses the plan again and again: what each release adds, the timeline, other
    accountants, and designed noise. Without it these are empty, and ``not_computed`` names them;
    :func:`open_audit` computes any of them by itself. ``verdict_only`` leaves out what to change, too, and so
    does Ctrl-C after the verdict: :class:`sightline.errors.Interrupted` has the result as ``result``. It is a
    ``KeyboardInterrupt``.
    """
    require(top >= 1, "top >= 1", got=top)
    _check_progress(progress)
    checked, base = read_plan(plan)
    if limit is not None:
        checked = with_limit(checked, limit)
    limits = WorkLimits.of(max_memory, max_seconds)
    results, interrupted = [], False
    left_out = "the verdict alone was asked for" if verdict_only else ""
    with reporting(limits.watched(progress or silent)):
        for part in plans_by_secret(checked):
            with ExitStack() as stack:
                with limits.enforced():
                    report("opening the table", 0.0)
                    session = stack.enter_context(opened(part, base, limits=limits))
                    report("reading the table", 0.0)
                    table = table_of(session)
                    if isinstance(table, StreamedTable):
                        result = _audit_streamed(session, table, top, names)
                        reason = {"no_what_if": "the table is streamed"} if what_if else {}
                        results.append(result.model_copy(update=reason))
                        continue
                    threads = blas_threads_for(rows=len(table.cells), columns=table.signature_count)
                    stack.enter_context(threads)
                    findings = _find(session, table)
                    audited = _open(session, findings, top=top, names=names, coarser=True)
                    result = audited.result(Depth.VERDICT)
                if left_out:
                    result = audited.cut_short(left_out)
                else:
                    try:
                        result = _completed(audited, session, findings, limits, names, what_if, full)
                    except Interrupted as stopped:
                        # Of the secrets that follow, the verdict: that of all is the worst of them.
                        interrupted, left_out, result = True, str(stopped), stopped.result
                results.append(result)
    named = {"plan_name": file_name(str(plan)) if isinstance(plan, str | PathLike) else ""}
    result = together(results).model_copy(update=named)
    if interrupted:
        raise Interrupted(result)
    return result


def open_audit(plan: PlanLike, *, names: bool = False, top: int = 20) -> OpenAudit:
    """Audit a plan about one secret, and keep its findings: each section is computed when it is called.

    >>> from sightline.examples.shipped import example_plan
    >>> opened = open_audit(example_plan("microgrid"))
    >>> opened.verdict().passed, len(opened.timeline())
    (False, 8)

    It holds the memberships of the table, which :func:`audit` lets go. Coarser groups are not looked for. A
    table that is streamed is refused, since it is passed over once.
    """
    require(top >= 1, "top >= 1", got=top)
    checked, base = read_plan(plan)
    plans = plans_by_secret(checked)
    require_plan(
        len(plans) == 1,
        "a plan about one secret, to open its audit",
        got=f"{len(plans)} secrets",
        fix="audit it, or open a plan for each",
    )
    with opened(plans[0], base) as session:
        table = table_of(session)
        require_plan(
            not isinstance(table, StreamedTable),
            "a table that fits the memory, to open its audit",
            got="one that is streamed",
            fix="audit it",
        )
        membership = session.membership()
        with one_budget(membership.once(Taken)):
            findings = _find(session, membership)
        return _open(session, findings, top=top, names=names)


def _completed(  # many parameters: options of the audit
    audited: OpenAudit,
    session: Session,
    findings: Findings,
    limits: WorkLimits,
    names: bool,
    what_if: bool,
    full: bool,
) -> AuditResult:
    """The result with the sections that it is asked for, as far as there is time."""
    try:
        with limits.enforced():
            result = audited.result(Depth.FIRST_SCREEN)
            if what_if:
                settings = _settings(result, session, findings, names)
            if full:
                result = audited.result(Depth.ALL)
            return (
                result
                if not what_if
                else result.model_copy(update={**settings, "owner_only": (*result.owner_only, *settings)})
            )
    except TooMuchWork as over:
        if limits.left > 0:
            raise
        return audited.cut_short(str(over).partition(";")[0])
    except KeyboardInterrupt:
        raise Interrupted(audited.cut_short("the audit was interrupted")) from None


def _audit_streamed(session: Session, table: StreamedTable, top: int, names: bool) -> AuditResult:
    """The result for a table whose signatures stay in the engine."""
    from sightline.auditing.streamed_findings import MOST_KEPT, find_streamed

    with closing(table):
        findings = find_streamed(session.plan, table, most=max(MOST_KEPT, top))
        rules = rules_of(session, findings, table)
        report("describing what is exposed", 0.0)
        membership = findings.membership
        totals = streamed_totals(session, table, findings.row_by_row.membership)
        keys = session.keys(membership)
        audited = assemble(
            findings,
            top=top,
            names=names,
            keys=keys,
            totals=totals,
            rules=rules,
            coarser=partial(groups_untried, findings, WhyUntried.TOO_LARGE),
        )
        return audited.result()  # nothing is left that takes another pass


def _open(
    session: Session, findings: Findings, *, top: int = 20, names: bool = False, coarser: bool = False
) -> OpenAudit:
    """The open audit of an open table; its sections may be asked for after the table is closed, but for what
    reaches the limit by ``coarser`` groups.
    """
    return assemble(
        findings,
        top=top,
        names=names,
        keys=session.keys(findings.membership),
        totals=partial(session.totals, membership=findings.membership),
        design_noise=_design_noise,
        digest=digest_later(session.plan.data.source, session.base),
        true_totals=session.true_totals,
        rules=rules_of(session, findings),
        coarser=partial(coarser_groups, session, findings)
        if coarser
        else partial(groups_untried, findings, WhyUntried.TABLE_CLOSED),
    )


def _design_noise(findings: Findings, common: Change | None) -> tuple[Change, ...]:
    from sightline.advising.quick_design import noise_changes

    return noise_changes(findings, common)


def _settings(
    result: AuditResult, session: Session, findings: Findings, names: bool
) -> dict[str, WhatIf | str | None]:
    """The what-if of a plan, or why there is none."""
    from sightline.advising.what_if import what_if, why_no_what_if
    from sightline.report.what_if import no_what_if, what_if_in_words

    settings = what_if(session, findings, also=_stops(result), names=names, progress=report)
    why_not = no_what_if(why_no_what_if(findings))
    return {"what_if": what_if_in_words(settings), "no_what_if": why_not}


def _stops(result: AuditResult) -> tuple[float, ...]:
    """The noise that the advice asks for, in the unit of the what-if's noise."""
    priced = result.budget.epsilon is not None
    advised = [
        rounded(one.epsilon, up=False) if priced and one.epsilon is not None else one.noise_factor
        for one in result.what_to_change
        if one.kind is ChangeKind.NOISE and (one.epsilon is not None) == priced
    ]
    return tuple(stop for stop in advised if stop is not None)


def read_result(path: str | Path) -> AuditResult:
    """Read a result that ``--json`` or :meth:`AuditResult.to_json` wrote; its content is not trusted."""
    return AuditResult.from_json(
        file_bytes(Path(path), "the result of an audit", most=LARGEST_FILE, error=InvalidInput)
    )


def compare(result: AuditResult, last: AuditResult) -> AuditResult:
    """The result with what changed since the last one, in ``since``."""
    from sightline.report.comparison import with_comparison

    return with_comparison(result, last)


def check(plan: PlanLike) -> Plan:
    """Check a plan's fields, its table's columns and its SQL, and return it. No row is read."""
    checked, base = read_plan(plan)
    for part in plans_by_secret(checked):
        with opened(part, base):
            pass
    return checked


@one_budget()
def explain(plan: PlanLike, record: str | int, *, progress: Progress | None = None) -> Explanation:
    """Explain what is seen of one record, given by its key, and by which recipe.

    Of a plan about several secrets, all that the record has.
    """
    _check_progress(progress)
    checked, base = read_plan(plan)
    require_plan(
        not checked.data.only_guarantee,
        "a frame of everybody who might be there, to explain presence",
        got="none",
        fix="without one nothing is said of a person but what the noise guarantees to all; audit says that",
    )
    with reporting(progress):
        parts = [_explained(part, base, str(record)) for part in plans_by_secret(checked)]
    explained = [one for one in parts if isinstance(one, Explanation)]
    if not explained:
        raise next(one for one in parts if isinstance(one, InvalidPlan))
    return replace(explained[0], other_secrets=tuple(explained[1:]))


def _explained(plan: Plan, base: Path, record: str) -> Explanation | InvalidPlan:
    """The explanation of one secret; an error if the record has no value of it."""
    with ExitStack() as stack:
        report("opening the table", 0.0)
        session = stack.enter_context(opened(plan, base))
        report("looking for the record", 0.0)
        try:
            signatures = session.signatures_of(record)
        except InvalidPlan as error:
            return error
        membership = session.membership()
        stack.enter_context(blas_threads_for(rows=len(membership.cells), columns=membership.signature_count))
        findings = _find(session, membership)
        kinds = session.kinds_of(record, findings.membership)
        totals = partial(session.totals, membership=findings.membership)
        together = tuple(one for kind in kinds for one in about_person(findings, kind))
        return Explanation(
            record=record,
            exposed=together + about_signatures(findings, signatures),
            result=_open(session, findings).result(Depth.VERDICT),
            certain=certain_report(findings, totals, of=(signatures, kinds)) if signatures else None,
        )


def _find(session: Session, membership: Membership) -> Findings:
    report("finding who is exposed", 0.0)
    findings = find(session.plan, membership, values=session.values)
    report("describing what is exposed", 0.0)
    return findings


def _check_progress(progress: Progress | None) -> None:
    require(
        progress is None or callable(progress),
        "progress to be a function of a stage and the share of it that is done",
        got=repr(progress),
        fix="for example progress=print",
    )
