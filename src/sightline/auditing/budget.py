"""The section on the budget: what the noise costs under every accountant, side by side."""

from __future__ import annotations

import math

from sightline.auditing.plan import Plan
from sightline.auditing.pricing import Pricing, budget_of, most_own_releases
from sightline.auditing.result import BudgetReport
from sightline.noise.pricing import shared_unit_noise
from sightline.privacy.accountant import Accountant, NoiseLaw
from sightline.privacy.registry import accountants, costs
from sightline.tables.membership import Membership

_USUAL_DELTA = 1e-6


def budget_report(plan: Plan, membership: Membership, pricing: Pricing) -> BudgetReport:
    """The cost of the noise that is used, and the noise that each accountant would have asked for."""
    delta = plan.privacy.delta or _USUAL_DELTA
    budget = budget_of(plan)
    sharing, name = pricing.releases, plan.privacy.accountant
    largest = pricing.record_costs.largest(membership) if pricing.law is NoiseLaw.GAUSSIAN else 0.0
    spent = costs(pricing.multipliers, largest_own=largest, delta=delta, law=pricing.law)
    needed, proven, note = {}, False, "no budget was given: the noise was chosen elsewhere"
    if budget is not None:
        note = "no release takes a share of the budget"
        if not sharing and name in spent:
            proven = spent[name] <= budget.epsilon
            kept = "keeps to the budget" if proven else "costs more than the budget"
            note += f": the noise was chosen elsewhere, and {kept}"
    if budget is not None and sharing:
        rules = accountants(budget)
        asked = shared_noise(rules, membership, pricing)
        needed = {one: math.sqrt(kappa) for one, kappa in asked.items()}
        validity = rules[name].validity(sharing)
        proven, note = validity.ok, validity.note
        if sharing < pricing.multipliers.size:
            proven, note = False, "releases with a noise of their own are outside the budget; " + note
    return BudgetReport(
        accountant=name if sharing else None,
        epsilon=plan.privacy.epsilon if sharing else None,
        delta=delta,
        delta_given=plan.privacy.delta is not None,
        releases=int(pricing.multipliers.size),
        sharing=sharing,
        noise_multiplier=needed.get(name),
        spent=spent,
        would_need=needed,
        proven=proven,
        note=note,
    )


def shared_noise(
    accountants: dict[str, Accountant], membership: Membership, pricing: Pricing
) -> dict[str, float]:
    """The squared noise scale that each accountant asks for, over the squared sensitivity."""
    own = most_own_releases(membership, shared=pricing.shared, times=pricing.times, limit=pricing.limit)
    return {
        name: shared_unit_noise(rule, releases=pricing.releases, own_releases=own)
        for name, rule in accountants.items()
    }
