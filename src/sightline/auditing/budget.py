"""The section on the budget: what the noise costs under every accountant, side by side."""

from __future__ import annotations

import math
from typing import Any

from sightline.auditing.plan import Plan
from sightline.auditing.pricing import Pricing
from sightline.auditing.result import BudgetReport
from sightline.auditing.shared_budget import as_budget, budget_of, most_own_releases, released_in
from sightline.noise.pricing import shared_unit_noise
from sightline.privacy.accountant import Accountant, NoiseLaw
from sightline.privacy.registry import accountant_named, accountants, costs
from sightline.tables.membership import Membership

_USUAL_DELTA = 1e-6
_EXACT = "gaussian-dp"  # it can say what any Gaussian noise costs


def budget_report(plan: Plan, membership: Membership, pricing: Pricing) -> BudgetReport:
    """The cost of the noise that is used, and the noise that each accountant would have asked for."""
    given = [one.delta for one in plan.privacy.budgets if one.delta is not None]
    delta = min(given, default=_USUAL_DELTA)
    budget = budget_of(plan)
    sharing, name = pricing.releases, plan.privacy.accountant
    largest = pricing.record_costs.largest(membership) if pricing.law is NoiseLaw.GAUSSIAN else 0.0
    spent = costs(pricing.multipliers, largest_own=largest, delta=delta, law=pricing.law)
    needed, proven, note = {}, False, "no budget was given: the noise was chosen elsewhere"
    if plan.privacy.epsilon is not None:
        note = "no release takes a share of the budget"
    if budget is not None and not sharing and name in spent:
        proven = spent[name] <= budget.epsilon
        kept = "keeps to the budget" if proven else "costs more than the budget"
        note += f": the noise was chosen elsewhere, and {kept}"
    if sharing:
        if budget is not None:
            asked = shared_noise(accountants(budget), membership, pricing)
            needed = {one: math.sqrt(kappa) for one, kappa in asked.items()}
        proven, note = _validity(plan, membership, pricing)
        if sharing < pricing.multipliers.size:
            proven, note = False, "releases with a noise of their own are outside the budget; " + note
    if not plan.attacker.knows_sizes:
        proven, note = False, f"it is for tables of the same groups, and group sizes are secret; {note}"
    epsilons = {one.epsilon for one in plan.privacy.budgets}
    return BudgetReport(
        accountant=name if sharing else None,
        epsilon=next(iter(epsilons)) if sharing and len(epsilons) == 1 else None,
        delta=delta,
        delta_given=bool(given),
        releases=int(pricing.multipliers.size),
        sharing=sharing,
        noise_multiplier=needed.get(name),
        spent=spent,
        would_need=needed,
        proven=proven,
        note=note,
        periods=len(plan.privacy.budgets) if sharing else 1,
        **_total(spent, name, sharing=sharing, several=len(plan.privacy.budgets) > 1, pricing=pricing),
    )


def _total(
    spent: dict[str, float], name: str, *, sharing: int, several: bool, pricing: Pricing
) -> dict[str, Any]:
    """The epsilon of everything that is published, where the plan's own epsilon does not cover it."""
    if not sharing or not spent or not (several or sharing < pricing.multipliers.size):
        return {}
    rule = name if name in spent else _EXACT
    return {"total_epsilon": spent[rule], "total_accountant": rule}


def _validity(plan: Plan, membership: Membership, pricing: Pricing) -> tuple[bool, str]:
    """Whether the noise is proven to keep to the budget, in every period; and by which theorem."""
    notes = {}
    for place, budget in enumerate(plan.privacy.budgets):
        own, times = released_in(plan, membership, pricing.shared, budget.period)
        if own:
            count = int(sum(times[bundle[0]] for bundle in own))
            rule = accountant_named(plan.privacy.accountant, as_budget(budget))
            notes[place] = rule.validity(count)
    wrong = [one for one in notes.values() if not one.ok]
    return not wrong, (wrong or list(notes.values()))[0].note


def shared_noise(
    accountants: dict[str, Accountant], membership: Membership, pricing: Pricing
) -> dict[str, float]:
    """The squared noise scale that each accountant asks for, over the squared sensitivity."""
    own = most_own_releases(
        membership, shared=pricing.shared, times=pricing.times, row_norms=pricing.row_norms
    )
    return {
        name: shared_unit_noise(rule, releases=pricing.releases, own_releases=own)
        for name, rule in accountants.items()
    }
