"""A plan about several secrets: one plan for each of them, and their results as one.

Each secret is audited by itself, on a table without the columns of the others, with the releases that are
about it. The result is that of the worst, with the others' beside it. What a record loses in all is at most
the sum of what it loses for each secret (basic composition, ``eq:basic``): a record whose values all change
passes through one mechanism for each.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from sightline.arrays import ROUNDING
from sightline.auditing.noise_slack import slack_of_all
from sightline.auditing.plan import Limits, Plan, Release
from sightline.auditing.plan_sections import OtherSecret
from sightline.auditing.reading import checked_plan
from sightline.auditing.remedies import with_factor
from sightline.auditing.result import AllSecrets, AuditResult, Change, ChangeKind, NoiseSlack, VerdictStatus
from sightline.errors import InvalidPlan
from sightline.format import number_ends, parameter
from sightline.tables.engines.address import dialect_of
from sightline.tables.sql.edited_releases import labels_of, part_about, uses

_STANDING = (VerdictStatus.FAILED, VerdictStatus.NOT_SHOWN, VerdictStatus.PASSED, None)  # the worst first


def plans_by_secret(plan: Plan) -> tuple[Plan, ...]:
    """One plan for each secret, in the order of the file; the plan itself if it has one secret."""
    if not any(one.audited for one in plan.secrets):
        return (plan,)
    first = OtherSecret.model_construct(
        column=plan.data.secret,
        **{name: getattr(plan.data, name) for name in ("bounds", "categories", "kind")},
    )
    secrets = (first, *(one for one in plan.secrets if one.audited))
    return tuple(_plan_about(plan, secret, [o for o in secrets if o is not secret]) for secret in secrets)


def _plan_about(plan: Plan, secret: OtherSecret, others: Sequence[OtherSecret]) -> Plan:
    releases = tuple(part for one in plan.releases for part in _part(plan, one, secret, others))
    if not any(uses(one.sql, [secret.column], dialect=dialect_of(plan.data.source)) for one in releases):
        raise InvalidPlan(
            f"[secret] column: expected a release about each secret, got none about {secret.column[:60]!r}; "
            "give its section the column alone instead"
        )
    hidden = (*plan.other_secrets, *(other.column for other in others))
    apart = tuple(OtherSecret(column=column) for column in hidden)
    data = plan.data.model_copy(
        update={
            "secret": secret.column,
            **{name: getattr(secret, name) for name in ("bounds", "categories", "kind")},
        }
    )
    # The checks of a plan again: attacker and releases have to go with this secret, too.
    given = {name: one for name in data.model_fields_set if (one := getattr(data, name))}
    content = {name: getattr(plan, name) for name in plan.model_fields_set - {"secrets"}}
    return checked_plan(
        {**content, "data": given, "releases": releases, "secrets": apart},
        f"secret {secret.column[:60]!r}",
    )


def _part(plan: Plan, release: Release, secret: OtherSecret, others: Sequence[OtherSecret]) -> list[Release]:
    dialect = dialect_of(plan.data.source)
    try:
        sql = part_about(
            release.sql, secret=[secret.column], others=[other.column for other in others], dialect=dialect
        )
    except InvalidPlan as error:
        raise InvalidPlan(f"release {release.name!r}: {error}") from None
    if not sql:
        return []
    gone = labels_of(release.sql, dialect) - labels_of(sql, dialect) if sql != release.sql else set()
    return [release.about(sql, gone)]


def together(results: Sequence[AuditResult]) -> AuditResult:
    """The result of the worst secret, with those of the others and what all of them cost together."""
    if len(results) == 1:
        return results[0]
    worst = min(results, key=_standing)
    epsilon = math.fsum(map(_epsilon, results))
    delta = math.fsum(one.budget.delta for one in results)
    shown = number_ends(0.0, epsilon * (1 - ROUNDING), digits=4)[1]  # up, but for what finding it may add
    cost = f"epsilon = {shown}" if math.isfinite(epsilon) else "an infinite epsilon"
    own = worst.budget.epsilon
    each = "" if not own else f" The plan's epsilon of {parameter(own)} is that of each secret by itself."
    text = (
        f"The plan is about {len(results)} secrets: {', '.join(one.secret for one in results)}. "
        "Each is judged by itself, as if the others told nothing about it, and the verdict is that of the "
        f"worst: {worst.secret}.{each} The noise of all of them together costs at most {cost} at delta = "
        f"{parameter(delta)}, the sum over the secrets."
    )
    verdicts = {
        name: one.model_copy(
            update={"text": f"Of {len(results)} secrets, {worst.secret} fares worst. {one.text}"}
        )
        for name in ("verdict", "publishable_verdict")
        if (one := getattr(worst, name)) is not None
    }
    slack = slack_of_all(worst.verdict, [one.slack for one in results])
    others = tuple(one for one in results if one is not worst)
    update = {
        **verdicts,
        "slack": slack,
        "other_secrets": others,
        "all_secrets": AllSecrets(epsilon=epsilon, delta=delta, text=text),
    }
    return worst.changed(update, lambda changes: tuple(_of_all(changes, worst, others, slack)))


def _of_all(
    changes: Sequence[Change], worst: AuditResult, others: Sequence[AuditResult], slack: NoiseSlack | None
) -> Iterator[Change]:
    """What to change about the worst secret, as far as it is known of the others that they keep the limit.

    All noise is multiplied by what all secrets need. Anything else reaches the limit if the others keep it
    already; what leaves a release out does so only if no other secret has less noise then.
    """
    alone = all(one.verdict.status is not VerdictStatus.FAILED for one in others)
    sharing = any(one.budget.sharing for one in others)
    for change in changes:
        if change.kind is not ChangeKind.NOISE:
            reaches = change.reaches_limit and alone and not (sharing and change.kind is ChangeKind.DROP)
            named = {"text": f"for {worst.secret}: {change.text}", "reaches_limit": reaches}
            if change.publishable_text is not None:
                named["publishable_text"] = f"for {worst.secret}: {change.publishable_text}"
            yield change.model_copy(update=named)
        elif slack is not None:
            yield with_factor(slack, Limits(remaining_uncertainty=worst.verdict.limit or 0.0).text)


def _standing(result: AuditResult) -> tuple[int, int, float]:
    """Smaller is worse: by the verdict, then by what is publishable of it, then by what remains."""
    least = result.least_remaining_uncertainty
    shown = result.publishable_verdict or result.verdict
    return (
        _STANDING.index(result.verdict.status),
        _STANDING.index(shown.status),
        math.inf if least is None else least.lower,
    )


def _epsilon(result: AuditResult) -> float:
    """What the noise of one secret's releases costs: an upper bound, by the plan's own rule if it has one."""
    budget = result.budget
    if budget.total_epsilon is not None:
        return budget.total_epsilon
    return budget.spent.get(budget.accountant or "", min(budget.spent.values(), default=0.0))
