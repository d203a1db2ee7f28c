"""What the budgets of a plan ask for: the noise of the releases that share them, period by period."""

from __future__ import annotations

import numpy as np

from sightline.arrays import FloatArray, IndexArray
from sightline.auditing.plan import Plan
from sightline.auditing.plan_sections import PeriodBudget
from sightline.auditing.record_costs import CellCosts
from sightline.errors import InvalidPlan, require
from sightline.noise.pricing import price
from sightline.privacy.accountant import Budget
from sightline.privacy.registry import accountant_named
from sightline.tables.membership import Membership

# For a Laplace budget, whose rules do not use it, and for plans without one.
_ANY_DELTA = 1e-6

Bundles = tuple[tuple[int, ...], ...]  # partitions that are paid for together


def budget_of(plan: Plan) -> Budget | None:
    """The one budget that a plan names; none if it names none, or several over time."""
    budgets = plan.privacy.budgets
    return as_budget(budgets[0]) if len(budgets) == 1 and budgets[0].epsilon is not None else None


def as_budget(one: PeriodBudget) -> Budget:
    """The budget of a period that has an epsilon."""
    assert one.epsilon is not None  # the plan was checked for it
    return Budget(epsilon=one.epsilon, delta=one.delta or _ANY_DELTA)


def released_in(
    plan: Plan, membership: Membership, shared: Bundles, period: str | None
) -> tuple[Bundles, IndexArray]:
    """The bundles that share the budget of a period, and how often each partition is published in it."""
    times = np.array([plan.releases[p.query].times for p in membership.partitions], dtype=np.intp)
    periods = [plan.releases[membership.partitions[bundle[0]].query].period for bundle in shared]
    own = tuple(one for one, named in zip(shared, periods, strict=True) if named in (None, period))
    return own, times


def scales_paid_by_budgets(
    plan: Plan, membership: Membership, shared: Bundles, *, sensitivity: FloatArray, row_norms: FloatArray
) -> FloatArray:
    """The noise scale of each cell that shares a budget; 0 for the others.

    A release of every period has one noise: all its periods must ask for the same.
    """
    starts, found = membership.starts, np.zeros(len(membership.cells))
    for budget in plan.privacy.budgets:
        own, times = released_in(plan, membership, shared, budget.period)
        if not own:
            continue
        rule = accountant_named(plan.privacy.accountant, as_budget(budget))
        count = int(sum(times[bundle[0]] for bundle in own))
        mine = None
        if rule.counts_own_releases:
            mine = most_own_releases(membership, shared=own, times=times, row_norms=row_norms)
        asked = price(rule, sensitivity, releases=count, own_releases=mine).scales
        for partition in (p for bundle in own for p in bundle):
            cells = slice(starts[partition], starts[partition + 1])
            release = plan.releases[membership.partitions[partition].query]
            require(
                not found[cells].any() or np.array_equal(found[cells], asked[cells]),
                f"release {release.name!r}: the same noise in every period that it is published in",
                got="periods with different budgets, or with other releases beside it",
                fix="write it as a release for each period, and name the period",
                error=InvalidPlan,
            )
            found[cells] = asked[cells]
    return found


def most_own_releases(
    membership: Membership, *, shared: Bundles, times: IndexArray, row_norms: FloatArray
) -> float:
    """The most releases of some that one record is in, rounded up; a part of its rows counts squared."""
    each = CellCosts(costs=np.ones(len(membership.cells)), bundles=shared, times=times, row_norms=row_norms)
    return each.largest(membership)
