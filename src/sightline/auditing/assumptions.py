"""The assumptions of an audit: what its numbers rest on, and what a pass needs that was not verified.

A pass is a proof. Whatever the proof needs and the audit cannot verify turns it into *not shown*, unless the
plan accepts it by name in ``[limits] accept``.
"""

from __future__ import annotations

from sightline.auditing.design import LINEAR
from sightline.auditing.findings import Findings
from sightline.auditing.numerals import counted
from sightline.auditing.plan import AssumptionName, SecretKind
from sightline.auditing.result import HomogeneousCell, Unverified
from sightline.privacy.accountant import NoiseLaw
from sightline.tables.membership import Feature


def prior_words(kind: SecretKind) -> str:
    """The prior that the bracket averages over."""
    match kind:
        case SecretKind.NUMBER:
            return "a cos² prior over the bounds"
        case SecretKind.BOOLEAN:
            return "an even chance of yes and no"
        case SecretKind.CATEGORY:
            return "an even chance of every category"


def unverified(findings: Findings, homogeneous: tuple[HomogeneousCell, ...]) -> tuple[Unverified, ...]:
    """The assumptions that a pass needs and that are not verified, accepted or not."""
    membership, nonlinear = findings.membership, findings.nonlinear
    data = findings.plan.data
    filled = {membership.partitions[cell.partition].query for cell in membership.cells}
    empty = {part.query for part in membership.partitions} - filled
    undecided = 0 if findings.linear is None else int(findings.linear.exposures.undecided.sum())
    undecided += 0 if nonlinear is None else nonlinear.report().undecided
    domain = "bounds" if data.secret_kind is SecretKind.NUMBER else "categories"
    told = sum(cell.rows for cell in homogeneous)
    cells = counted(len(homogeneous), "number tells", "numbers tell")
    name = AssumptionName
    cases: tuple[tuple[AssumptionName, int, str, bool], ...] = (
        (name.DROPPED, membership.dropped, "without a secret or a record key are not audited", True),
        (name.CLIPPED, membership.clipped, f"are outside the {domain}: nothing is shown of them", True),
        (
            name.PUBLISHED_BUT_DROPPED,
            membership.published_but_dropped,
            "are left out of the audit but not of what is published",
            True,
        ),
        (
            name.EMPTY,
            max(len(empty), membership.empty_releases),
            "aggregate no row: check their conditions",
            False,
        ),
        (name.UNDECIDED, undecided, "could not be decided to be identifiable or not", nonlinear is not None),
        (
            name.LOCAL,
            findings.not_shown if findings.has_nonlinear else 0,
            "are not shown to keep the limit against moments and thresholds of the secret: attacks on these "
            "are only bounded near the true values",
            False,
        ),
        (name.HOMOGENEOUS, told, f"have values that {cells}, because they are nearly all alike", True),
    )
    things = {name.EMPTY: "release", name.UNDECIDED: "record", name.LOCAL: "record"}
    return tuple(
        Unverified(
            name=which,
            count=count,
            reason=f"{counted(count, things.get(which, 'row'))} {reason}",
            accepted=which in findings.plan.limits.accept
            and not (which is name.LOCAL and nonlinear is None),  # then nothing was bounded at all
            owner_only=owner_only,
        )
        for which, count, reason, owner_only in cases
        if count
    )


def assumptions(findings: Findings) -> tuple[str, ...]:
    """What the numbers rest on, in plain words."""
    plan, membership, pricing = findings.plan, findings.membership, findings.pricing
    said = [
        "The attacker knows who is in which group, the noise levels and the bounds, and sees every number.",
        "rmse is that of the best unbiased attack. Remaining uncertainty is an average over the records' "
        "possible values and the noise; its lower end holds for every attack, also biased and constrained "
        f"ones, on records that are independent with {prior_words(plan.data.secret_kind)}.",
        "This is a benchmark of what is seen, not a differential-privacy guarantee; the budget is that.",
    ]
    if membership.contributions > 1 or plan.data.max_rows_per_record > 1:
        said.append(
            f"A record has up to {plan.data.max_rows_per_record} rows; values are told apart row by row, "
            "and a record is as exposed as its most exposed row."
        )
    if plan.data.secret_kind is not SecretKind.NUMBER:
        said.append(
            "There are few values, so attackers can round, and tell records apart that no sum tells apart: "
            "the lower end holds even if they know all other records."
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
        said.append(
            f"Near the true values, logistic steps of bandwidth {plan.data.bandwidth} stand for thresholds; "
            "noise is priced for the sharp count."
        )
    if any(part.feature not in LINEAR for part in membership.partitions):
        said.append("Moments and thresholds are linearised at the true values: local and owner-only.")
    return tuple(said)
