"""The section on the sharpest view: what an attacker knows before and after, in the secret's own units."""

from __future__ import annotations

import math

from sightline.auditing.findings import Findings
from sightline.auditing.result_part import Uncertainty
from sightline.auditing.result_summary import SharpestView
from sightline.format import number, number_ends, percent, percent_at_most
from sightline.tables.subject import SecretKind


def sharpest_view(findings: Findings) -> SharpestView | None:
    """What is known of the record that may keep least; none if nothing that is published shows a value."""
    least = findings.least
    if least is None:
        return None
    prior = findings.prior
    variance = float(prior.of_column.variance)
    before = math.sqrt(variance)
    lower, upper = least.stddev_lower * before, least.stddev_upper * before
    several = findings.membership.persons is not None and findings.plan.data.values != "constant"
    right_before = right_after = None
    if prior.kind is not SecretKind.NUMBER:
        right_before, right_after = (_most_often_right(variance * share) for share in (1.0, least.lower))
    return SharpestView(
        of="rows" if several else "value",
        before=before,
        after_lower=lower,
        after_upper=upper,
        right_before=right_before,
        right_after=right_after,
        text=_text(findings, before, least, (right_before, right_after), several),
    )


def _most_often_right(variance: float) -> float:
    """How often a yes or no can be guessed right at most, if the mean of its posterior variance is this.

    >>> round(_most_often_right(0.25), 3), round(_most_often_right(0.0), 3)
    (0.5, 1.0)
    """
    return (1 + math.sqrt(max(0.0, 1 - 4 * variance))) / 2


def _text(
    findings: Findings,
    before: float,
    least: Uncertainty,
    right: tuple[float | None, float | None],
    several: bool,
) -> str:
    data, prior = findings.plan.data, findings.prior
    knows = (
        f"who knows who is in which group (epsilon covers the values, not that) and expects {prior.values}"
    )
    whose = f"{data.secret} of the most exposed {data.record}"
    if several:
        whose = f"the best seen combination of the rows of one {data.record}, scaled like one row,"
    right_before, right_after = right
    if right_before is not None and right_after is not None:
        what = "yes or no" if prior.kind is SecretKind.BOOLEAN else "one category, yes or no,"
        return (
            f"An attacker {knows} guesses {what} right {percent(right_before)} of the time before the "
            f"releases. With them, for the most exposed {data.record}, at most "
            f"{percent_at_most(right_after)} of the time, whatever the attack."
        )
    lower, upper = number_ends(least.stddev_lower * before, least.stddev_upper * before)
    return (
        f"An attacker {knows} knows each {data.secret} to ± {number(before, 3)} before the releases. With "
        f"them no attack knows {whose} better than to ± {lower}; the best one knows it at least to ± {upper}."
    )
