"""The verdict in plain language."""

from __future__ import annotations

import math

from sightline.auditing.exposed import ExposedSection
from sightline.auditing.findings import Findings, LinearFindings
from sightline.auditing.numerals import counted, readable, remains
from sightline.auditing.result import Exposed, LocalReport, Verdict
from sightline.tables.subject import SecretKind

# A share of values outside the domain that looks like a mistake in the plan.
_MANY = 0.05


def verdict(
    findings: Findings, section: ExposedSection, *, guaranteed: float | None, publishable: bool
) -> Verdict:
    """Who is exposed and whether the limit holds, in a few sentences.

    ``guaranteed`` is what everyone keeps through the noise alone. A ``publishable`` verdict uses nothing that
    is for the owner only.
    """
    plan, membership, found = findings.plan, findings.membership, findings.linear
    local = None if publishable or findings.nonlinear is None else findings.nonlinear.report()
    clipped = 0 if publishable else membership.clipped
    nonlinear = findings.has_nonlinear
    limit = plan.limits.remaining_uncertainty
    percent = "" if limit is None else f"{readable(100 * limit)} %"
    # The view near the true values includes the linear releases: these are the same records, not others.
    below = max(0 if found is None else found.below_limit, 0 if local is None else local.below_limit)
    sentences = []
    if membership.rows == 0:
        sentences.append("The table has no row with a secret: nothing can be exposed.")
    elif found is None and not nonlinear:
        sentences.append("Nothing that is published depends on the secret.")
    if found is not None:
        sentences += _linear(findings, section, found)
    if local is not None:
        sentences += _local(plan.data.secret, local)
    elif nonlinear:
        sentences.append("What moments and thresholds show near the true values is for the owner only.")
    # Moments and thresholds have no bracket: only the noise itself can show that a limit holds.
    shown = limit is not None and below == 0 and (not nonlinear or (guaranteed or 0.0) >= limit)
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


def _linear(findings: Findings, section: ExposedSection, found: LinearFindings) -> list[str]:
    data, membership = findings.plan.data, findings.membership
    sentences, count, of = [], section.identifiable_records, membership.records
    if count:
        alone = (one for one in section.exposed if one.identifiable and one.size == 1)
        sharpest = min(alone, key=_error, default=None)
        sentences.append(f"{counted(count, 'record')} of {of:,} can be told apart from everything else.")
        if sharpest is not None and sharpest.rmse is not None:
            sentences.append(
                f"The sharpest view of one has an error of {readable(sharpest.rmse)} in {data.secret}"
                + (
                    f" ({readable(sharpest.rmse_percent_of_range or 0.0, 3)} % of its range)."
                    if data.secret_kind is SecretKind.NUMBER
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


def _local(secret: str, local: LocalReport) -> list[str]:
    """Owner-only sentences."""
    if not local.identifiable:
        return ["Near their true values no row is identifiable from the moments or thresholds."]
    whose = " as one of a set, not whose it is" if local.fixed_group else ""
    error = readable(local.sharpest_rmse or 0.0)
    return [
        f"Near their true values {counted(local.identifiable, 'value')} of {local.rows:,} can be seen"
        f"{whose}, the sharpest with an error of {error} in {secret}; "
        "this is for the owner only."
    ]


def _error(one: Exposed) -> float:
    return math.inf if one.rmse is None else one.rmse
