"""What the budget of a plan asks for: the noise of the releases that share it, in each period."""

from __future__ import annotations

import numpy as np

from sightline.arrays import FloatArray, IndexArray
from sightline.auditing.plan import Plan
from sightline.auditing.record_costs import CellCosts
from sightline.noise.pricing import price
from sightline.privacy.accountant import Budget
from sightline.privacy.registry import accountant_named
from sightline.tables.membership import Membership

# For a Laplace budget, whose rules do not use it, and for plans without one.
_ANY_DELTA = 1e-6

Bundles = tuple[tuple[int, ...], ...]  # partitions that are paid for together


def budget_of(plan: Plan) -> Budget | None:
    """The budget of everything; none if a plan names none, or grants it several times."""
    return None if plan.privacy.epsilon is None or plan.privacy.periods > 1 else budget_of_a_period(plan)


def budget_of_a_period(plan: Plan) -> Budget:
    """The budget of each period, of a plan that has one."""
    assert plan.privacy.epsilon is not None  # the plan was checked for it
    return Budget(epsilon=plan.privacy.epsilon, delta=plan.privacy.delta or _ANY_DELTA)


def releases_of_a_period(plan: Plan, membership: Membership, shared: Bundles) -> tuple[IndexArray, int]:
    """How often each partition is published in one period, and how many releases share its budget."""
    times = np.array([plan.releases[p.query].times for p in membership.partitions], dtype=np.intp)
    return times, int(sum(times[bundle[0]] for bundle in shared))


def scales_paid_by_budget(
    plan: Plan, membership: Membership, shared: Bundles, *, sensitivity: FloatArray, row_norms: FloatArray
) -> FloatArray:
    """The noise scale of each cell, if it shares the budget."""
    times, count = releases_of_a_period(plan, membership, shared)
    rule, mine = accountant_named(plan.privacy.accountant, budget_of_a_period(plan)), None
    if rule.counts_own_releases:
        mine = most_own_releases(membership, shared=shared, times=times, row_norms=row_norms)
    return price(rule, sensitivity, releases=count, own_releases=mine).scales


def most_own_releases(
    membership: Membership, *, shared: Bundles, times: IndexArray, row_norms: FloatArray
) -> float:
    """The most releases of some that one record is in, rounded up; a part of its rows counts squared."""
    each = CellCosts(costs=np.ones(len(membership.cells)), bundles=shared, times=times, row_norms=row_norms)
    return each.largest(membership)
