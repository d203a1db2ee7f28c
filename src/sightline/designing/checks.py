"""What a plan must be for a design: each mistake has one message."""

from __future__ import annotations

import numpy as np

from sightline.arrays import FloatArray, IndexArray
from sightline.auditing.nonlinear import is_nonlinear
from sightline.auditing.plan import Plan
from sightline.designing.paid import PaidReleases
from sightline.errors import InvalidPlan, require
from sightline.tables.membership import Membership
from sightline.tables.subject import SecretKind


def check_plan(plan: Plan, membership: Membership) -> None:
    """Refuse plans that cannot be designed."""
    require(
        plan.correlation is None,
        "a plan without [correlation]",
        got="one with it",
        fix="a design starts from independent noise; leave it out",
        error=InvalidPlan,
    )
    require(
        not is_nonlinear(membership),
        "means, sums and counts",
        got="a plan with moments or thresholds",
        fix="how much noise hides a record in them depends on the values; design the others without them",
        error=InvalidPlan,
    )
    category = plan.data.secret_kind is SecretKind.CATEGORY
    others = [part for part in membership.partitions if part.weighted or isinstance(part.parameter, tuple)]
    require(
        not (category and others),
        "counts of one category each, without weights per row",
        got="others",
        fix="design the other releases without them, and audit all of them together",
        error=InvalidPlan,
    )
    require(
        bool(membership.cells) and bool(np.any(membership.counts > membership.known)),
        "a plan that publishes something about a secret that the attacker does not know",
        got="none",
        error=InvalidPlan,
    )
    several = _release_with_twins(membership)
    require(
        several is None,
        "numbers that their key and label tell apart",
        got=f"two alike in release {plan.releases[several or 0].name!r}",
        fix="make them two releases",
        error=InvalidPlan,
    )


def _release_with_twins(membership: Membership) -> int | None:
    """A release two of whose numbers have the same key and label; none if there is none."""
    seen = set()
    for cell in membership.cells:
        part = membership.partitions[cell.partition]
        mark = (part.query, part.label, cell.key)
        if mark in seen:
            return part.query
        seen.add(mark)
    return None


def check_bounds(plan: Plan, queries: IndexArray, floor: FloatArray, most: FloatArray) -> None:
    """Refuse a ceiling below a floor."""
    for place in np.flatnonzero(floor > most)[:1]:
        release = plan.releases[queries[place]]
        raise InvalidPlan(
            f"release {release.name!r}: expected noise_within of at least its noise of "
            f"{floor[place]:.6g}, got {most[place]:.6g}; a design only adds noise: say a least one, too"
        )


def check_ceilings(paid: PaidReleases | None, most: FloatArray) -> None:
    """Refuse ceilings with which the budget cannot be kept."""
    if paid is not None and np.isfinite(most[paid.cells]).any():
        require(
            paid.cost(most) <= paid.most,
            "ceilings with which the budget can be kept",
            got="noise_within that costs more than epsilon allows",
            fix="raise its upper end, or epsilon",
            error=InvalidPlan,
        )
