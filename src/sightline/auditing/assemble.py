"""The result of an audit, section by section: each is computed when it is first read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property, partial
from importlib.metadata import version

from sightline.arrays import FloatArray
from sightline.auditing.assumptions import assumptions, unverified
from sightline.auditing.budget import budget_report
from sightline.auditing.exposed import ExposedSection, exposed_section
from sightline.auditing.findings import Findings, Keys
from sightline.auditing.homogeneous import Totals, homogeneous_cells, streamed_cells
from sightline.auditing.noise_slack import noise_slack, slack_under
from sightline.auditing.plan_size import left_out
from sightline.auditing.questions import question_text
from sightline.auditing.reading import plan_text, public_source, publishable_plan_text
from sightline.auditing.result import (
    SCHEMA_VERSION,
    Alternative,
    AuditResult,
    BudgetReport,
    Change,
    Distribution,
    Exposed,
    HomogeneousCell,
    LossPoint,
    MapColumn,
    NoiseSlack,
    QuestionReport,
    ReleaseReport,
    SharpestView,
    Stage,
    Unverified,
    Verdict,
)
from sightline.auditing.streamed_sums import StreamedTotals
from sightline.auditing.verdict import sharpest_view, verdict
from sightline.numerics.one_thread import blas_threads_for

_TOP = 20  # exposed that are listed, unless another number is asked for
_MOST_HOMOGENEOUS = 100  # cells that are listed

# Noise that costs less than a common factor on all of it, and that factor; the room of designs has them.
DesignNoise = Callable[[Findings, Change | None], tuple[Change, ...]]


def judged(findings: Findings, *, totals: Totals | None) -> Verdict:
    """The owner's verdict alone, as :func:`assemble` has it."""
    return _sections(findings, top=_TOP, keys=None, totals=totals).verdict


def assemble(
    findings: Findings,
    *,
    top: int = _TOP,
    names: bool = False,
    keys: Keys | None = None,
    totals: Totals | StreamedTotals | None = None,
    design_noise: DesignNoise | None = None,
) -> AuditResult:
    """The result, with the ``top`` most exposed, named if ``names``.

    ``keys`` fetches records' keys from the engine.
    ``totals`` fetches the sums of the secrets, to find groups whose values are nearly all alike.
    What needs the engine is fetched here, so that it may be closed before the sections are read.
    """
    sections = _sections(
        findings, top=top, keys=keys if names else None, totals=totals, design_noise=design_noise
    )
    facts = _facts(findings)
    later = [name for name in (*AuditResult.model_fields, "reaching") if hasattr(Sections, name)]
    return AuditResult.on_demand(facts, {name: partial(_computed, sections, name) for name in later})


def _computed(sections: Sections, name: str) -> object:
    membership = sections.findings.membership
    with blas_threads_for(rows=len(membership.cells), columns=membership.signature_count):
        return getattr(sections, name)


def _facts(findings: Findings) -> dict[str, object]:
    """What the plan and its table are, and what is known of them without a computation."""
    plan, membership, linear = findings.plan, findings.membership, findings.linear
    local = None if findings.nonlinear is None else findings.nonlinear.report()
    _, about = findings.least_about
    return {
        "schema_version": SCHEMA_VERSION,
        "source": public_source(str(plan.data.source)),
        "record": plan.data.record,
        "secret": plan.data.secret,
        "kind": plan.data.secret_kind.value,
        "bounds": plan.data.domain,
        "category_count": None if plan.data.categories is None else len(plan.data.categories),
        "prior": findings.prior.values,
        "rows": membership.rows,
        "records": membership.records,
        "known_rows": membership.known_rows,
        "dropped": membership.dropped,
        "clipped": membership.clipped,
        "cells": len(membership.cells),
        "signatures": membership.signature_count,
        "rank": linear.rank if linear else 0,
        "identifiable_groups": findings.identifiable_groups,
        "relative_error": linear.relative_error if linear else 0.0,
        "least_remaining_uncertainty": findings.least,
        "least_about": None if about is None else question_text(about, plan.data.secret),
        "local": local,
        "owner_only": (
            "dropped",
            "clipped",
            "homogeneous",
            "releases: accuracy",
            *(("local", "exposed: local") if local else ()),
        ),
        "version": version("sightline"),
    }


def _sections(
    findings: Findings,
    *,
    top: int,
    keys: Keys | None,
    totals: Totals | StreamedTotals | None,
    design_noise: DesignNoise | None = None,
) -> Sections:
    """The sections, with all that they need of the engine."""
    sums = None
    if isinstance(totals, StreamedTotals):
        homogeneous = streamed_cells(findings, totals)
    else:
        of_signatures = None if totals is None else cache(totals)
        homogeneous = homogeneous_cells(findings, of_signatures)
        # The sums are those of the published numbers if the attacker knows no row of them.
        if of_signatures and findings.linear is not None and not findings.membership.known_rows:
            sums = of_signatures(None)
    return Sections(
        findings=findings,
        listed=exposed_section(findings, top=top, keys=keys),
        all_homogeneous=homogeneous,
        sums=sums,
        design_noise=design_noise,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Sections:
    """The sections of a result over the findings; a property has the name of a field of the result."""

    findings: Findings
    listed: ExposedSection
    all_homogeneous: tuple[HomogeneousCell, ...]
    sums: FloatArray | None  # of the secrets with each signature, if they are those of the published numbers
    design_noise: DesignNoise | None

    # Who is exposed, and whether the limit holds.

    @property
    def identifiable_records(self) -> int:
        return self.listed.identifiable_records

    @property
    def exposed(self) -> tuple[Exposed, ...]:
        return self.listed.exposed

    @property
    def exposed_in_all(self) -> int:
        return self.listed.exposed_in_all

    @property
    def sharpest(self) -> SharpestView | None:
        return sharpest_view(self.findings)

    @property
    def homogeneous(self) -> tuple[HomogeneousCell, ...]:
        return self.all_homogeneous[:_MOST_HOMOGENEOUS]

    @cached_property
    def unverified(self) -> tuple[Unverified, ...]:
        return unverified(self.findings, self.all_homogeneous)

    @cached_property
    def verdict(self) -> Verdict:
        return verdict(self.findings, self.listed, self.unverified, publishable=False)

    @property
    def publishable_verdict(self) -> Verdict | None:
        """Where the owner knows more than may be published."""
        if self.findings.nonlinear is None and not any(one.owner_only for one in self.unverified):
            return None
        return verdict(self.findings, self.listed, self.unverified, publishable=True)

    @property
    def questions(self) -> tuple[QuestionReport, ...]:
        """One report for each yes-or-no question, worst first."""
        reports = [
            QuestionReport(
                text=question_text(one.question, self.findings.plan.data.secret),
                identifiable_records=0 if one.linear is None else one.linear.identifiable_records,
                least_remaining_uncertainty=one.least,
                below_limit=one.below_limit,
            )
            for one in self.findings.questions
            if one.question is not None
        ]
        return tuple(sorted(reports, key=_lower_end))

    @property
    def assumptions(self) -> tuple[str, ...]:
        return (*assumptions(self.findings), *left_out(self.findings))

    # What the noise costs, and what to change.

    @cached_property
    def budget(self) -> BudgetReport:
        findings = self.findings
        return budget_report(findings.plan, findings.membership, findings.pricing)

    @property
    def guaranteed_by_noise(self) -> float | None:
        from sightline.auditing.losses import guaranteed_by_noise

        return guaranteed_by_noise(self.findings)

    @cached_property
    def _slack(self) -> NoiseSlack | None:
        return noise_slack(self.findings)

    @property
    def slack(self) -> NoiseSlack | None:
        return slack_under(self.verdict, self._slack)

    @cached_property
    def reaching(self) -> tuple[Change, ...]:
        from sightline.auditing.remedies import reaching

        return reaching(self.findings, self._slack)

    @property
    def what_to_change(self) -> tuple[Change, ...]:
        from sightline.auditing.remedies import more_noise

        common = more_noise(self.findings, self._slack)
        last: tuple[Change, ...] = () if common is None else (common,)
        if self.design_noise is not None and self.findings.not_shown:
            last = self.design_noise(self.findings, common)
        return (*self._fewer_numbers[0], *last)

    @property
    def more_to_change(self) -> str:
        return self._fewer_numbers[1]

    @cached_property
    def _fewer_numbers(self) -> tuple[tuple[Change, ...], str]:
        from sightline.auditing.remedies import fewer_numbers

        return fewer_numbers(self.findings, self.releases, self.listed)

    @property
    def plan(self) -> str:
        return plan_text(self.findings.plan)

    @property
    def publishable_plan(self) -> str:
        return publishable_plan_text(self.findings.plan)

    # What each release does, and what would be seen otherwise.

    @cached_property
    def releases(self) -> tuple[ReleaseReport, ...]:
        from sightline.auditing.accuracy import release_accuracies
        from sightline.auditing.releases import release_reports

        return tuple(
            report.model_copy(update={"accuracy": accuracy})
            for report, accuracy in zip(
                release_reports(self.findings), release_accuracies(self.findings, self.sums), strict=True
            )
        )

    @property
    def distribution(self) -> Distribution:
        from sightline.auditing.exposed import distribution

        return distribution(self.findings)

    @property
    def timeline(self) -> tuple[Stage, ...]:
        from sightline.auditing.timeline import timeline

        return timeline(self.findings)

    @property
    def release_map(self) -> tuple[MapColumn, ...]:
        from sightline.auditing.release_map import release_map

        return release_map(self.findings)

    @property
    def losses(self) -> tuple[LossPoint, ...]:
        from sightline.auditing.losses import losses

        return losses(self.findings, delta=self.budget.delta)

    @property
    def alternatives(self) -> tuple[Alternative, ...]:
        from sightline.auditing.alternatives import alternatives

        return alternatives(self.findings)


def _lower_end(report: QuestionReport) -> float:
    return 1.0 if report.least_remaining_uncertainty is None else report.least_remaining_uncertainty.lower
