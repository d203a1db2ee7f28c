"""The verdict in plain language, and what it rests on."""

from __future__ import annotations

import math

from sightline.auditing.findings import Findings
from sightline.auditing.local import is_local
from sightline.auditing.numerals import counted, readable, remains
from sightline.auditing.plan import Plan, SecretKind
from sightline.auditing.pricing import Pricing
from sightline.auditing.result import Exposed, LocalReport, Verdict
from sightline.auditing.view import LINEAR
from sightline.privacy.accountant import NoiseLaw
from sightline.tables.membership import Feature, Membership

# A share of values outside the domain that looks like a mistake in the plan.
_MANY = 0.05


def verdict(
    plan: Plan,
    membership: Membership,
    exposed: tuple[Exposed, ...],
    found: Findings | None,
    local: LocalReport | None,
    count: int,
    guaranteed: float | None,
    clipped: int,
) -> Verdict:
    """Who is exposed and whether the limit holds, in a sentence or two.

    ``guaranteed`` is what everyone keeps through the noise alone; ``clipped`` how many values are outside the
    domain, if that may be told.
    """
    limit = plan.limits.remaining_uncertainty
    percent = "" if limit is None else f"{readable(100 * limit)} %"
    bent = is_local(membership)
    # The local view sees what the linear releases show, and more: the same records, not others.
    below = max(0 if found is None else found.below_limit, 0 if local is None else local.below_limit)
    sentences = []
    if membership.rows == 0:
        sentences.append("The table has no row with a secret: nothing can be exposed.")
    elif found is None and not bent:
        sentences.append("Nothing that is published depends on the secret.")
    if found is not None:
        sentences += _linear(plan, membership, exposed, found, count)
    if local is not None:
        sentences += _local(plan, local)
    elif bent:
        sentences.append("What moments and thresholds show near the true values is for the owner only.")
    # Moments and thresholds have no bracket: only the noise itself can show that a limit holds.
    shown = limit is not None and below == 0 and (not bent or (guaranteed or 0.0) >= limit)
    if limit is not None and membership.rows:
        unit = "row" if membership.contributions > 1 else "record"
        if below:
            sentences.append(f"{counted(below, unit)} may keep less than the limit of {percent}.")
        elif shown:
            sentences.append(f"Everyone keeps at least the limit of {percent}.")
        else:
            sentences.append(
                f"Nobody is shown to keep the limit of {percent}: against moments and thresholds only the "
                "noise itself protects, and it is too little for that."
            )
    if clipped and clipped >= _MANY * membership.rows:
        domain = "bounds" if plan.data.secret_kind is SecretKind.NUMBER else "categories"
        sentences.append(
            f"But {clipped:,} of {membership.rows:,} values are outside the {domain}, and none of this is "
            f"about what they are: check {domain} in [data]."
        )
    return Verdict(
        passed=None if limit is None else shown,
        limit=limit,
        below_limit=below,
        text=" ".join(sentences),
    )


def _linear(
    plan: Plan, membership: Membership, exposed: tuple[Exposed, ...], found: Findings, count: int
) -> list[str]:
    sentences, of = [], membership.records
    if count:
        sharpest = min(
            (one for one in exposed if one.identifiable and one.size == 1), key=_error, default=None
        )
        sentences.append(f"{counted(count, 'record')} of {of:,} can be told apart from everything else.")
        if sharpest is not None and sharpest.rmse is not None:
            sentences.append(
                f"The sharpest view of one has an error of {readable(sharpest.rmse)} in {plan.data.secret}"
                + (
                    f" ({readable(sharpest.rmse_percent_of_range or 0.0, 3)} % of its range)."
                    if plan.data.secret_kind is SecretKind.NUMBER
                    else "."
                )
            )
    else:
        sentences.append(f"No single record of {of:,} can be told apart from all others.")
    groups = found.identifiable_groups
    if groups:
        several = "rows" if membership.contributions > 1 else "records"
        sentences.append(f"{groups:,} group{'s' if groups > 1 else ''} of several {several} can, by the sum.")
    least = found.least
    if least is not None:
        sentences.append(
            f"Of the most exposed record's uncertainty {remains(least)} remains, whatever the attacker does."
        )
    return sentences


def _local(plan: Plan, local: LocalReport) -> list[str]:
    """Owner-only sentences."""
    if not local.identifiable:
        return ["Near their true values no row is identifiable from the moments or thresholds."]
    whose = " as one of a set, not whose it is" if local.fixed_group else ""
    error = readable(local.sharpest_rmse or 0.0)
    return [
        f"Near their true values {counted(local.identifiable, 'value')} of {local.rows:,} can be seen"
        f"{whose}, the sharpest with an error of {error} in {plan.data.secret}; "
        "this is for the owner only."
    ]


def _error(one: Exposed) -> float:
    return math.inf if one.rmse is None else one.rmse


def _prior(plan: Plan) -> str:
    match plan.data.secret_kind:
        case SecretKind.NUMBER:
            return "a cos² prior over the bounds"
        case SecretKind.BOOLEAN:
            return "an even chance of yes and no"
        case SecretKind.CATEGORY:
            return "an even chance of every category"


def assumptions(plan: Plan, membership: Membership, pricing: Pricing) -> tuple[str, ...]:
    """What the numbers rest on, in plain words."""
    said = [
        "The attacker knows who is in which group, the noise levels and the bounds, and sees every number.",
        "rmse is that of the best unbiased attack. Remaining uncertainty holds for every attack, also biased "
        f"and constrained ones, on records that are independent with {_prior(plan)}.",
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
