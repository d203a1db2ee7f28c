"""The section on the budget: what the noise costs under every accountant, side by side."""

from __future__ import annotations

import math

import numpy as np

from sightline.auditing.plan import Plan
from sightline.auditing.pricing import Pricing, budget_of
from sightline.auditing.result import BudgetReport
from sightline.privacy.accountant import NoiseLaw
from sightline.privacy.budget import Budget
from sightline.privacy.registry import accountants
from sightline.privacy.spending import account

_USUAL_DELTA = 1e-6


def budget_report(plan: Plan, pricing: Pricing) -> BudgetReport:
    """The cost of the noise that is used, and the noise that each accountant would have asked for."""
    delta = plan.privacy.delta or _USUAL_DELTA
    budget = budget_of(plan)
    sharing = pricing.releases
    needed, proven, note = {}, False, "no budget was given: the noise was chosen elsewhere"
    if budget is not None:
        note = "no release takes a share of the budget"
    if budget is not None and sharing:
        rules = accountants(budget)
        needed = {name: math.sqrt(rule.kappa(sharing)) for name, rule in rules.items()}
        validity = rules[plan.privacy.accountant].validity(sharing)
        proven, note = validity.ok, validity.note
        if sharing < pricing.multipliers.size:
            proven, note = False, "releases with a noise of their own are outside the budget; " + note
    return BudgetReport(
        accountant=plan.privacy.accountant if sharing else None,
        epsilon=plan.privacy.epsilon if sharing else None,
        delta=delta,
        delta_given=plan.privacy.delta is not None,
        releases=int(pricing.multipliers.size),
        sharing=sharing,
        noise_multiplier=needed.get(plan.privacy.accountant),
        spent=_spent(pricing, delta),
        would_need=needed,
        proven=proven,
        note=note,
    )


def _spent(pricing: Pricing, delta: float) -> dict[str, float]:
    multipliers = pricing.multipliers
    if multipliers.size == 0:
        return {}
    if pricing.law is NoiseLaw.LAPLACE:
        return {"laplace": float(np.sum(1 / multipliers))}
    cost = account(multipliers, delta=delta)
    spent = {
        "gaussian-dp": cost.epsilon_exact,
        "zcdp": cost.epsilon_zcdp,
        "renyi": cost.epsilon_renyi,
        "basic": cost.epsilon_basic,
    }
    if np.all(multipliers == multipliers[0]):  # the strong theorem is implemented for equal releases
        rule = accountants(Budget(epsilon=1.0, delta=delta))["advanced"]
        spent["advanced"] = rule.epsilon(int(multipliers.size), noise_multiplier=float(multipliers[0]))
    return spent
