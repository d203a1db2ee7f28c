"""From who is in which cell to who is exposed: the audit once the engine has done its part."""

from __future__ import annotations

from sightline.audit.findings import Findings, Naming
from sightline.audit.plan import Plan
from sightline.audit.pricing import price
from sightline.audit.recipes import Cookbook
from sightline.audit.releases import release_reports
from sightline.audit.remedies import remedies
from sightline.audit.result import EDGES, SCHEMA_VERSION, AuditResult, Distribution, Exposed
from sightline.audit.spending import spending
from sightline.audit.verdict import assumptions, verdict
from sightline.audit.view import linear_view
from sightline.labeled.contributions import Contributions
from sightline.labeled.pattern import Progress
from sightline.tables.membership import Membership


def examine(
    plan: Plan,
    membership: Membership,
    *,
    limit: float | None = None,
    top: int = 20,
    naming: Naming | None = None,
    progress: Progress | None = None,
) -> AuditResult:
    """The result of a plan whose memberships are known.

    ``limit`` replaces the plan's own. ``naming`` gives the keys of the records with a signature; without it
    nobody is named.
    """
    watch = progress or _silent
    limit = plan.limits.remaining_uncertainty if limit is None else limit
    pricing = price(plan, membership)
    view = linear_view(plan, membership, pricing)
    found: Findings | None = None
    contributions: Contributions | None = None
    exposed: tuple[Exposed, ...] = ()
    if view is not None:
        found = Findings.of(view, domain=plan.data.domain, limit=limit, progress=watch)
        contributions = found.contributions(watch)
        cookbook = Cookbook(
            plan=plan,
            membership=membership,
            view=view,
            exposures=found.exposures,
            contributions=contributions,
        )
        exposed = found.exposed(cookbook, top=top, naming=naming)
    reports = release_reports(plan, membership, pricing, view, contributions)
    return AuditResult(
        schema_version=SCHEMA_VERSION,
        source=plan.data.source,
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
        signatures=len(membership.signatures),
        rank=found.exposures.rank if found else 0,
        identifiable_records=found.identifiable_records if found else 0,
        identifiable_groups=found.identifiable_groups if found else 0,
        least_remaining_uncertainty=found.least if found else None,
        exposed=exposed,
        exposed_in_all=found.of_interest if found else 0,
        releases=reports,
        budget=spending(plan, pricing),
        distribution=Distribution(
            edges=EDGES, records=found.distribution if found else (0,) * (len(EDGES) - 1)
        ),
        verdict=verdict(plan, membership, exposed, found),
        what_to_change=remedies(plan, pricing, found, reports, exposed),
        assumptions=assumptions(plan, membership, pricing),
        owner_only=("dropped", "clipped"),
        relative_error=found.exposures.relative_error if found else 0.0,
    )


def _silent(stage: str, share: float) -> None:
    pass
