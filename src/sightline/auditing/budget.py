"""The section on the budget: what the noise costs under every accountant, side by side."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from sightline.auditing.plan import Plan
from sightline.auditing.pricing import Pricing
from sightline.auditing.result import BudgetReport
from sightline.auditing.shared_budget import as_budget, budget_of, most_own_releases, released_in
from sightline.noise.pricing import shared_unit_noise
from sightline.noise.published import PublishedLaw
from sightline.privacy.accountant import Accountant, NoiseLaw
from sightline.privacy.registry import ACCOUNTANTS, accountant_named, accountants, costs_of_mix
from sightline.tables.membership import Membership

_USUAL_DELTA = 1e-6
_EXACT = "gaussian-dp"  # it can say what any Gaussian noise costs
_FOR_DISCRETE = "zcdp"  # and this one what discrete Gaussian noise costs


def budget_report(plan: Plan, membership: Membership, pricing: Pricing) -> BudgetReport:
    """The cost of the noise that is used, and the noise that each accountant would have asked for."""
    delta = _delta(plan)
    budget = budget_of(plan)
    sharing, name = pricing.releases, plan.privacy.accountant
    spent = _spent(membership, pricing, delta)
    needed = {}
    if sharing and budget is not None:
        asked = shared_noise(accountants(budget), membership, pricing)
        needed = {one: math.sqrt(kappa) for one, kappa in asked.items()}
    proven, note = proof_of_budget(plan, membership, pricing)
    epsilons = {one.epsilon for one in plan.privacy.budgets}
    return BudgetReport(
        accountant=name if sharing else None,
        epsilon=next(iter(epsilons)) if sharing and len(epsilons) == 1 else None,
        delta=delta,
        delta_given=any(one.delta is not None for one in plan.privacy.budgets),
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


def proof_of_budget(plan: Plan, membership: Membership, pricing: Pricing) -> tuple[bool, str]:
    """Whether the noise is proven to keep to the plan's budget; and why, or why not."""
    budget, name = budget_of(plan), plan.privacy.accountant
    if pricing.releases:
        proven, note = _validity(plan, membership, pricing)
        if pricing.releases < pricing.multipliers.size:
            proven, note = False, "releases with a noise of their own are outside the budget; " + note
    else:
        proven, note = False, "no budget was given: the noise was chosen elsewhere"
        if plan.privacy.epsilon is not None:
            note = "no release takes a share of the budget"
        spent = {} if budget is None else _spent(membership, pricing, _delta(plan))
        if budget is not None and name in spent:
            proven = spent[name] <= budget.epsilon
            kept = "keeps to the budget" if proven else "costs more than the budget"
            note += f": the noise was chosen elsewhere, and {kept}"
    exact = int(pricing.copies[[law is PublishedLaw.NONE for law in pricing.bundle_laws]].sum())
    if exact:
        are = "release is" if exact == 1 else "releases are"
        note = f"{exact} {are} published exactly: no budget covers that, epsilon is infinite; {note}"
    return proven and not exact, note


def _delta(plan: Plan) -> float:
    """The smallest delta of a budget; the usual one if none is given."""
    return min((one.delta for one in plan.privacy.budgets if one.delta is not None), default=_USUAL_DELTA)


def _total(
    spent: dict[str, float], name: str, *, sharing: int, several: bool, pricing: Pricing
) -> dict[str, Any]:
    """The epsilon of everything that is published, where the plan's own epsilon does not cover it."""
    if not sharing or not spent or not (several or sharing < pricing.multipliers.size):
        return {}
    rule = next(rule for rule in (name, _EXACT, _FOR_DISCRETE) if rule in spent)
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


def _spent(membership: Membership, pricing: Pricing, delta: float) -> dict[str, float]:
    """The epsilon of all noise under every accountant that can say; infinite if a number is exact."""
    laws = pricing.bundle_laws
    if PublishedLaw.NONE in laws:
        return dict.fromkeys(
            (name for name, one in ACCOUNTANTS.items() if one.law is NoiseLaw.GAUSSIAN), math.inf
        )
    pure = np.repeat(np.array([law.pure for law in laws], dtype=np.bool_), pricing.copies)
    others = tuple(bundle for bundle in pricing.bundles if not pricing.laws[bundle[0]].pure)
    return costs_of_mix(
        pricing.multipliers[~pure],
        1 / pricing.multipliers[pure],
        discrete=PublishedLaw.DISCRETE_GAUSSIAN in laws,
        largest_own=0.0
        if pure.all()
        else replace(pricing.record_costs, bundles=others, pure=None).largest(membership),
        delta=delta,
    )


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
