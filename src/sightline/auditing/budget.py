"""The section on the budget: what the noise costs under every accountant, side by side."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from sightline.auditing.plan import Plan
from sightline.auditing.pricing import Pricing, budget_of, most_own_releases
from sightline.auditing.result import BudgetReport
from sightline.noise.pricing import shared_unit_noise
from sightline.noise.published import PublishedLaw
from sightline.privacy.accountant import Accountant, NoiseLaw
from sightline.privacy.registry import ACCOUNTANTS, accountants, costs_of_mix
from sightline.tables.membership import Membership

_USUAL_DELTA = 1e-6


def budget_report(plan: Plan, membership: Membership, pricing: Pricing) -> BudgetReport:
    """The cost of the noise that is used, and the noise that each accountant would have asked for."""
    delta = plan.privacy.delta or _USUAL_DELTA
    budget = budget_of(plan)
    sharing, name = pricing.releases, plan.privacy.accountant
    spent = _spent(membership, pricing, delta)
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
    exact = int(sum(law is PublishedLaw.NONE for law in pricing.release_laws))
    if exact:
        are = "release is" if exact == 1 else "releases are"
        proven, note = (
            False,
            f"{exact} {are} published exactly: no budget covers that, epsilon is infinite; {note}",
        )
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


def _spent(membership: Membership, pricing: Pricing, delta: float) -> dict[str, float]:
    """The epsilon of all noise under every accountant that can say; infinite if a number is exact."""
    laws = pricing.release_laws
    if PublishedLaw.NONE in laws:
        return dict.fromkeys(
            (name for name, one in ACCOUNTANTS.items() if one.law is NoiseLaw.GAUSSIAN), math.inf
        )
    pure = np.array([law.pure for law in laws], dtype=np.bool_)
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
    own = most_own_releases(membership, shared=pricing.shared, times=pricing.times, limit=pricing.limit)
    return {
        name: shared_unit_noise(rule, releases=pricing.releases, own_releases=own)
        for name, rule in accountants.items()
    }
