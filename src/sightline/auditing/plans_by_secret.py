"""A plan about several secrets as one plan for each: a table without the columns of the others, and the
releases that are about the secret.
"""

from __future__ import annotations

from collections.abc import Sequence

from sightline.auditing.plan import Plan, Release
from sightline.auditing.plan_sections import OtherSecret
from sightline.auditing.reading import checked_plan
from sightline.errors import InvalidPlan
from sightline.tables.engines.address import dialect_of
from sightline.tables.sql.edited_releases import labels_of, part_about, uses


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
