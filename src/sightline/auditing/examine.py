"""From who is in which cell to who is exposed: the audit once the engine has done its part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version

import numpy as np

from sightline.auditing.alternatives import alternatives
from sightline.auditing.findings import Findings, Keys
from sightline.auditing.key_columns import key_columns
from sightline.auditing.local import LocalFindings, is_local, local_findings
from sightline.auditing.losses import guaranteed_by_noise, losses
from sightline.auditing.plan import Plan
from sightline.auditing.plan_text import plan_text, public_source
from sightline.auditing.pricing import Pricing, price
from sightline.auditing.recipes import Cookbook
from sightline.auditing.release_map import release_map
from sightline.auditing.releases import release_reports
from sightline.auditing.remedies import remedies
from sightline.auditing.result import (
    EDGES,
    SCHEMA_VERSION,
    AuditResult,
    Distribution,
    Exposed,
    LocalReport,
    Verdict,
)
from sightline.auditing.secret import Secret
from sightline.auditing.spending import spending
from sightline.auditing.timeline import timeline
from sightline.auditing.verdict import assumptions, verdict
from sightline.auditing.view import linear_view
from sightline.labeled.contributions import Contributions
from sightline.progress import Progress, silent
from sightline.tables.membership import Membership, RowValues

# Rows, and columns × rows, of a design that is assessed again for each release and for each accountant.
_MOST_ROWS, _MOST_ENTRIES = 400, 3e7


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Examination:
    """A plan, its memberships and prices, and what they expose."""

    plan: Plan
    membership: Membership
    pricing: Pricing
    findings: Findings | None  # none if nothing linear in the secret is published
    contributions: Contributions | None
    local: LocalFindings | None

    @classmethod
    def of(
        cls,
        plan: Plan,
        membership: Membership,
        *,
        values: Callable[[], RowValues] | None = None,
        progress: Progress | None = None,
    ) -> Examination:
        """Examine memberships. ``values`` fetches the secrets, for releases that are not linear in them."""
        watch = progress or silent
        limit = plan.limits.remaining_uncertainty
        pricing = price(plan, membership)
        view = linear_view(plan, membership, pricing)
        findings = (
            None if view is None else Findings.of(view, secret=Secret.of(plan), limit=limit, progress=watch)
        )
        local = None
        if values is not None and is_local(membership):
            local = local_findings(plan, membership, pricing, values(), watch)
        return cls(
            plan=plan,
            membership=membership,
            pricing=pricing,
            findings=findings,
            contributions=None if findings is None else findings.contributions(watch),
            local=local,
        )

    def about(self, signatures: Sequence[int]) -> tuple[Exposed, ...]:
        """What is seen of the rows with some signatures."""
        found = self.findings
        if found is None:
            return ()
        wanted = np.isin(found.view.column_signature, found.view.signature_of[list(signatures)])
        columns = np.flatnonzero(wanted & ~found.view.known)
        return found.describe(columns, self._cookbook(found), keys=None)

    def result(
        self,
        *,
        top: int = 20,
        names: bool = False,
        keys: Keys | None = None,
        progress: Progress | None = None,
    ) -> AuditResult:
        """The result, with the ``top`` most exposed, named if ``names``.

        ``keys`` asks the engine for records' keys: to name them, and to count those with several rows once.
        """
        watch = progress or silent
        plan, membership, found = self.plan, self.membership, self.findings
        exposed: tuple[Exposed, ...] = ()
        if found is not None:
            exposed = found.describe(found.worst(top), self._cookbook(found), keys=keys if names else None)
        listed = 0 if found is None else found.of_interest
        local = None if self.local is None else self.local.report()
        if self.local is not None and local is not None:
            exposed += self.local.worst(top - len(exposed))
            listed += local.identifiable
        several = membership.contributions > 1 and keys is not None
        identifiable = found.identifiable_records(keys if several else None) if found else 0
        view = None if found is None else found.view
        budget = spending(plan, self.pricing)
        # Every stage of the timeline and every accountant is an assessment of its own.
        again = view is not None and (
            view.design.lines <= _MOST_ROWS and view.design.size * view.design.lines <= _MOST_ENTRIES
        )
        reports = release_reports(plan, membership, self.pricing, view, self.contributions)
        bent = is_local(membership)
        guaranteed = guaranteed_by_noise(self.pricing, Secret.of(plan), linear=not bent)

        def judged(seen: LocalReport | None, clipped: int) -> Verdict:
            return verdict(plan, membership, exposed, found, seen, identifiable, guaranteed, clipped)

        return AuditResult(
            schema_version=SCHEMA_VERSION,
            source=public_source(plan.data.source),
            record=plan.data.record,
            secret=plan.data.secret,
            kind=plan.data.secret_kind.value,
            bounds=plan.data.domain,
            rows=membership.rows,
            records=membership.records,
            known_rows=int(membership.known.sum()),
            dropped=membership.dropped,
            clipped=membership.clipped,
            cells=len(membership.cells),
            signatures=len(membership.signatures) if membership.rows else 0,
            rank=found.exposures.rank if found else 0,
            identifiable_records=identifiable,
            identifiable_groups=found.identifiable_groups if found else 0,
            least_remaining_uncertainty=found.least if found else None,
            exposed=exposed,
            exposed_in_all=listed,
            releases=reports,
            budget=budget,
            distribution=Distribution(
                edges=EDGES, records=found.distribution if found else (0,) * (len(EDGES) - 1)
            ),
            local=local,
            guaranteed_by_noise=guaranteed,
            timeline=timeline(plan, found, watch) if found and again else (),
            release_map=release_map(plan, membership, found, self.contributions) if found else (),
            losses=losses(membership, self.pricing, found, delta=budget.delta) if found else (),
            alternatives=alternatives(plan, membership, found, sharing=self.pricing.releases, progress=watch)
            if found and again
            else (),
            verdict=judged(local, membership.clipped),
            publishable_verdict=judged(None, 0) if bent or membership.clipped else None,
            what_to_change=remedies(plan, self.pricing, found, reports, exposed),
            assumptions=assumptions(plan, membership, self.pricing),
            owner_only=("dropped", "clipped", *(("local", "exposed: local") if local else ())),
            relative_error=found.exposures.relative_error if found else 0.0,
            plan=plan_text(plan),
            version=version("sightline"),
        )

    def _cookbook(self, found: Findings) -> Cookbook:
        return Cookbook(
            plan=self.plan,
            membership=self.membership,
            view=found.view,
            exposures=found.exposures,
            contributions=self.contributions,
            key_columns=key_columns(self.membership),
        )
