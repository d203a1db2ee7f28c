"""The section on assumptions: what the numbers of an audit rest on."""

from __future__ import annotations

from sightline.auditing.design import LINEAR
from sightline.auditing.findings import Findings
from sightline.privacy.accountant import NoiseLaw
from sightline.tables.membership import Feature
from sightline.tables.subject import SecretKind


def _prior(kind: SecretKind) -> str:
    match kind:
        case SecretKind.NUMBER:
            return "a cos² prior over the bounds"
        case SecretKind.BOOLEAN:
            return "an even chance of yes and no"
        case SecretKind.CATEGORY:
            return "an even chance of every category"


def assumptions(findings: Findings) -> tuple[str, ...]:
    """What the numbers rest on, in plain words."""
    plan, membership, pricing = findings.plan, findings.membership, findings.pricing
    said = [
        "The attacker knows who is in which group, the noise levels and the bounds, and sees every number.",
        "rmse is that of the best unbiased attack. Remaining uncertainty holds for every attack, also biased "
        f"and constrained ones, on records that are independent with {_prior(plan.data.secret_kind)}.",
        "This is a benchmark of what is seen, not a differential-privacy guarantee; the budget is that.",
    ]
    if membership.contributions > 1 or plan.data.max_rows_per_record > 1:
        said.append(
            f"A record has up to {plan.data.max_rows_per_record} rows; values are told apart row by row, "
            "and a record is as exposed as its most exposed row."
        )
    if plan.data.secret_kind is not SecretKind.NUMBER:
        said.append(
            "An attacker who knows that there are few values can round, and tell records apart that no sum "
            "tells apart: the lower end allows for one who knows all other records."
        )
    if pricing.law is NoiseLaw.LAPLACE:
        bound = (
            "van Trees' bound"
            if plan.data.secret_kind is SecretKind.NUMBER
            else "what the privacy loss leaves"
        )
        said.append(f"Laplace noise: the lower end is {bound}, the upper end a linear attack's risk.")
    if any(release.times > 1 for release in plan.releases):
        said.append("Copies of a release have fresh noise and the same rows; a recipe takes their mean.")
    if any(part.feature is Feature.THRESHOLD for part in membership.partitions):
        said.append(f"Thresholds are logistic steps of bandwidth {plan.data.bandwidth}.")
    if any(part.feature not in LINEAR for part in membership.partitions):
        said.append("Moments and thresholds are linearised at the true values: local and owner-only.")
    return tuple(said)
