"""The section on the budget: what the noise costs under every accountant."""

from __future__ import annotations

import math
from dataclasses import replace
from enum import StrEnum
from typing import Any

import numpy as np

from sightline.auditing.findings import Findings, LinearFindings, linear_findings
from sightline.auditing.plan import Plan
from sightline.auditing.pricing import Pricing, price
from sightline.auditing.questions import coin_kept
from sightline.auditing.record_costs import CellCosts, most_own_releases
from sightline.auditing.result import Alternative, BudgetReport
from sightline.auditing.result_parts import Fact, fact
from sightline.noise.pricing import shared_unit_noise
from sightline.privacy.accountant import Accountant
from sightline.privacy.law import Cost, Law
from sightline.privacy.registry import ACCOUNTANTS, accountant_named, accountants, costs_of_mix
from sightline.progress import report
from sightline.tables.membership import Membership

_EXACT = "gaussian-dp"  # it can say what any Gaussian noise costs
_FOR_PURE = "optimal"  # this one what Laplace and geometric noise cost, alone and in a mix
_FOR_DISCRETE = "zcdp"  # and this one what discrete Gaussian noise costs


class Proof(StrEnum):
    """Why the noise is proven to keep to the plan's budget, or not."""

    THEOREM = "theorem"  # behind the accountant
    OUTSIDE_THE_BUDGET = "outside the budget"
    NO_BUDGET = "no budget"
    NO_SHARE = "no share"
    NO_SHARE_KEPT = "no share, kept"
    NO_SHARE_EXCEEDED = "no share, exceeded"
    EXACT = "exact"


def budget_report(plan: Plan, membership: Membership, pricing: Pricing) -> BudgetReport:
    """The cost of the noise that is used, and the noise that each accountant would have asked for."""
    delta = plan.privacy.cost_delta
    sharing, name = pricing.releases, plan.privacy.accountant
    spent = _spent(plan, membership, pricing)
    needed = {}
    if sharing:
        asked = shared_noise(accountants(plan.privacy.budget), membership, pricing)
        needed = {one: math.sqrt(kappa) for one, kappa in asked.items()}
    proven, why = proof_of_budget(plan, membership, pricing)
    return BudgetReport(
        accountant=name if sharing else None,
        epsilon=plan.privacy.epsilon if sharing else None,
        delta=delta,
        delta_given=plan.privacy.delta > 0,
        releases=int(pricing.multipliers.size),
        sharing=sharing,
        noise_multiplier=needed.get(name),
        spent=spent,
        would_need=needed,
        proven=proven,
        facts=why,
        everyone=plan.privacy.covers_everyone,
        **_total(spent, name, sharing=sharing, pricing=pricing),
    )


def proof_of_budget(plan: Plan, membership: Membership, pricing: Pricing) -> tuple[bool, tuple[Fact, ...]]:
    """Whether the noise is proven to keep to the plan's budget; and why, or why not."""
    epsilon, name = plan.privacy.epsilon, plan.privacy.accountant
    if pricing.releases:
        validity = accountant_named(name, plan.privacy.budget).validity(pricing.releases)
        proven, why = validity.ok, [fact(Proof.THEOREM, note=validity.note)]
        if pricing.releases < pricing.multipliers.size:
            proven, why = False, [fact(Proof.OUTSIDE_THE_BUDGET), *why]
    else:
        proven = False
        spent = _spent(plan, membership, pricing) if epsilon else {}
        # Of other laws these say what the plan's own accountant cannot, or more sharply.
        proved = [spent[rule] for rule in (name, _FOR_PURE, _FOR_DISCRETE) if rule in spent]
        if proved:
            proven = min(proved) <= epsilon
            why = [fact(Proof.NO_SHARE_KEPT if proven else Proof.NO_SHARE_EXCEEDED)]
        else:
            why = [fact(Proof.NO_SHARE if epsilon else Proof.NO_BUDGET)]
    exact = int(pricing.copies[[law.exact for law in pricing.bundle_laws]].sum())
    if exact:
        why = [fact(Proof.EXACT, releases=exact), *why]
    return proven and not exact, tuple(why)


def _total(spent: dict[str, float], name: str, *, sharing: int, pricing: Pricing) -> dict[str, Any]:
    """The epsilon of everything that is published, where the plan's own epsilon does not cover it."""
    if not sharing or not spent or sharing == pricing.multipliers.size:
        return {}
    rule = next(rule for rule in (name, _EXACT, _FOR_PURE, _FOR_DISCRETE) if rule in spent)
    return {"total_epsilon": spent[rule], "total_accountant": rule}


def _spent(plan: Plan, membership: Membership, pricing: Pricing) -> dict[str, float]:
    """The epsilon of all noise under every accountant that can say; infinite if a number is exact.

    Without a frame it is that of anybody who might come: in every release, whoever is in the table.
    """
    kinds = [law.facts.cost for law in pricing.bundle_laws]
    if Cost.INFINITE in kinds:
        return dict.fromkeys((name for name, one in ACCOUNTANTS.items() if one.law is Law.GAUSSIAN), math.inf)
    pure = np.repeat([kind in (Cost.PURE, Cost.LAPLACE) for kind in kinds], pricing.copies).astype(np.bool_)
    gaussian = pricing.multipliers[~pure]
    own = float(np.sum(gaussian**-2.0))
    if gaussian.size and not plan.data.only_guarantee:
        own = costs_without_pure(pricing).largest(membership)
    return costs_of_mix(
        gaussian,
        1 / pricing.multipliers[pure],
        laplace=np.repeat([kind is Cost.LAPLACE for kind in kinds], pricing.copies)[pure],
        discrete=Cost.DISCRETE_GAUSSIAN in kinds,
        largest_own=own,
        delta=plan.privacy.cost_delta,
    )


def costs_without_pure(pricing: Pricing) -> CellCosts:
    """What numbers cost the records in them whose noise has no pure epsilon."""
    others = tuple(bundle for bundle in pricing.bundles if not pricing.laws[bundle[0]].pure)
    return replace(pricing.moves, bundles=others)


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


def guaranteed_by_noise(findings: Findings) -> float | None:
    r"""What everyone keeps even if the attacker knows all other records and all releases are about one.

    Linear releases carry information :math:`\sum 1/m_\ell^2` per squared width of the domain.
    """
    pricing, prior, law = findings.pricing, findings.prior, findings.pricing.bounding_law
    if findings.plan.data.only_guarantee:  # whatever is believed of whoever may come
        return findings.kept_by_noise
    multipliers = pricing.information_multipliers
    if multipliers.size == 0:
        return None
    if pricing.exact.any():  # nothing is left of a number that is exact, and something where chance rounds it
        return findings.kept_by_noise
    if findings.membership.by_person and (findings.has_nonlinear or law is Law.LAPLACE):
        return None  # these bounds are for one value
    if findings.has_nonlinear:
        kept = prior.kept_whatever_is_published(pricing.told_at_most())
        of_question = float(coin_kept(np.array([np.sum(multipliers**-2.0)]))[0])
        return min(kept, of_question) if findings.questions else kept
    low, high = prior.bounds
    information = float(np.sum(multipliers**-2.0)) / (high - low) ** 2
    all_laplace = all(one.laplace_answers == 1 for one in pricing.bundle_laws)
    answers = float(multipliers.size) if all_laplace else np.inf  # of a mix the information alone is used
    return prior.kept(information=information, law=law, answers=answers) * pricing.lattice_share


def alternatives(findings: Findings) -> tuple[Alternative, ...]:
    """What would be seen with each accountant's noise; empty if no release shares a budget.

    Accountants that ask for the same noise share an assessment.
    """
    plan, own, sharing = findings.plan, findings.linear, findings.pricing.releases
    if not own or not own.repeatable or sharing == 0:
        return ()
    # Beside noise that is given, Gaussian accountants are compared, and the plan's own.
    all_priced = not any(release.noise_given for release in plan.releases)
    rules = {
        name: rule
        for name, rule in accountants(plan.privacy.budget).items()
        if all_priced or rule.law is Law.GAUSSIAN or name == plan.privacy.accountant
    }
    asked = shared_noise(rules, findings.membership, findings.pricing)
    key = {name: (rule.law, asked[name]) for name, rule in rules.items()}
    assessed = {key[plan.privacy.accountant]: own}
    listed = []
    for number, (name, rule) in enumerate(rules.items()):
        if key[name] not in assessed:
            assessed[key[name]] = min(
                (_with_accountant(one, name) for one in findings.every_belief),
                key=lambda one: (not one, one.least.lower),
            )
        one = assessed[key[name]]
        listed.append(
            Alternative(
                accountant=name,
                noise_multiplier=math.sqrt(asked[name]),
                proven=rule.validity(sharing).ok,
                sharpest_rmse=one.sharpest_rmse,
                least_remaining_uncertainty=one.least,
                below_limit=one.below_limit,
            )
        )
        report("accountants", (number + 1) / len(rules))
    return tuple(listed)


def _with_accountant(findings: Findings, accountant: str) -> LinearFindings:
    privacy = findings.plan.privacy.model_copy(update={"accountant": accountant})
    other = findings.plan.model_copy(update={"privacy": privacy})
    return linear_findings(other, findings.membership, price(other, findings.membership))
