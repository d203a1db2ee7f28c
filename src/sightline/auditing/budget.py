r"""The section on the budget: what the noise costs under every accountant, and to each record by itself.

A release that a record is not in costs it nothing. The Gaussian releases with it in them cost it a
:math:`\mu^2`, which is an :math:`\epsilon` at the budget's :math:`\delta`; Laplace releases cost it an
:math:`\epsilon`, and a mix of laws costs it a zCDP parameter (``record_costs.py``). What other records'
releases reveal about it is not part of this sum.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.arrays import FloatArray, IndexArray
from sightline.auditing.findings import Findings, LinearFindings, linear_findings
from sightline.auditing.plan import Plan
from sightline.auditing.pricing import Pricing, price
from sightline.auditing.questions import coin_kept
from sightline.auditing.record_costs import CellCosts
from sightline.auditing.result import Alternative, BudgetReport, LossPoint, Uncertainty
from sightline.auditing.shared_budget import (
    budget_of,
    budget_of_a_period,
    most_own_releases,
    releases_of_a_period,
)
from sightline.noise.pricing import shared_unit_noise
from sightline.noise.published import PublishedLaw
from sightline.privacy.accountant import Accountant, NoiseLaw
from sightline.privacy.concentrated import tight_epsilon_of_rho
from sightline.privacy.gaussian_dp import smallest_epsilon
from sightline.privacy.registry import ACCOUNTANTS, accountant_named, accountants, costs_of_mix
from sightline.progress import report
from sightline.tables.membership import Membership

_USUAL_DELTA = 1e-6
_EXACT = "gaussian-dp"  # it can say what any Gaussian noise costs
_FOR_PURE = "optimal"  # this one what Laplace and geometric noise cost, alone and in a mix
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
        periods=plan.privacy.periods if sharing else 1,
        **_total(spent, name, sharing=sharing, several=plan.privacy.periods > 1, pricing=pricing),
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
        # Of other laws these say what the plan's own accountant cannot, or more sharply.
        proved = [spent[rule] for rule in (name, _FOR_PURE, _FOR_DISCRETE) if rule in spent]
        if budget is not None and proved:
            proven = min(proved) <= budget.epsilon
            kept = "keeps to the budget" if proven else "costs more than the budget"
            note += f": the noise was chosen elsewhere, and {kept}"
    exact = int(pricing.copies[[law is PublishedLaw.NONE for law in pricing.bundle_laws]].sum())
    if exact:
        are = "release is" if exact == 1 else "releases are"
        note = f"{exact} {are} published exactly: no budget covers that, epsilon is infinite; {note}"
    return proven and not exact, note


def _delta(plan: Plan) -> float:
    """The delta of the budget; the usual one if none is given."""
    return plan.privacy.delta or _USUAL_DELTA


def _total(
    spent: dict[str, float], name: str, *, sharing: int, several: bool, pricing: Pricing
) -> dict[str, Any]:
    """The epsilon of everything that is published, where the plan's own epsilon does not cover it."""
    if not sharing or not spent or not (several or sharing < pricing.multipliers.size):
        return {}
    rule = next(rule for rule in (name, _EXACT, _FOR_PURE, _FOR_DISCRETE) if rule in spent)
    return {"total_epsilon": spent[rule], "total_accountant": rule}


def _validity(plan: Plan, membership: Membership, pricing: Pricing) -> tuple[bool, str]:
    """Whether the noise is proven to keep to the budget, in every period; and by which theorem."""
    rule = accountant_named(plan.privacy.accountant, budget_of_a_period(plan))
    found = rule.validity(releases_of_a_period(plan, membership, pricing.shared)[1])
    return found.ok, found.note


def _spent(membership: Membership, pricing: Pricing, delta: float) -> dict[str, float]:
    """The epsilon of all noise under every accountant that can say; infinite if a number is exact."""
    laws = pricing.bundle_laws
    if PublishedLaw.NONE in laws:
        return dict.fromkeys(
            (name for name, one in ACCOUNTANTS.items() if one.law is NoiseLaw.GAUSSIAN), math.inf
        )
    pure = np.repeat(np.array([law.pure for law in laws], dtype=np.bool_), pricing.copies)
    return costs_of_mix(
        pricing.multipliers[~pure],
        1 / pricing.multipliers[pure],
        laplace=np.repeat([law is PublishedLaw.LAPLACE for law in laws], pricing.copies)[pure],
        discrete=PublishedLaw.DISCRETE_GAUSSIAN in laws,
        largest_own=0.0 if pure.all() else costs_without_pure(pricing).largest(membership),
        delta=delta,
    )


def costs_without_pure(pricing: Pricing) -> CellCosts:
    """What numbers cost the records in them whose noise has no pure epsilon."""
    others = tuple(bundle for bundle in pricing.bundles if not pricing.laws[bundle[0]].pure)
    return replace(pricing.record_costs, bundles=others, pure=None)


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


# What a scatter can show; beyond it records are counted in a grid of this many steps of loss × uncertainty.
_MOST_POINTS, _LOSS_STEPS, _UNCERTAINTY_STEPS = 1_000, 9, 99
# More rows than this go to the grid without looking for equal ones.
_WORTH_SORTING = 50_000


def losses(findings: Findings, *, delta: float) -> tuple[LossPoint, ...]:
    """Records by privacy loss and remaining uncertainty, gathered so that they can be drawn."""
    membership, pricing, found = findings.membership, findings.pricing, findings.linear
    # An exact number costs its records everything, and the records of a streamed table are not held.
    if found is None or pricing.exact.any() or findings.streamed:
        return ()
    cost = found.linear.of_records(pricing.record_costs.by_record(membership))
    lower, upper = found.per_unit(found.lower), found.per_unit(found.upper)
    worst = lower.argmin(axis=1)[:, None]  # of a record's categories, the one of which the least remains
    lower, upper = (np.take_along_axis(ends, worst, 1)[:, 0] for ends in (lower, upper))
    identifiable = np.asarray(found.per_unit(found.identifiable).any(axis=1))
    return _points([cost, lower, upper, identifiable], found.people, pricing, delta)


def _points(
    columns: list[NDArray[Any]], counts: IndexArray, pricing: Pricing, delta: float
) -> tuple[LossPoint, ...]:
    """Points of (cost, lower end, upper end, identifiable) with how many records each stands for."""
    points, records = gathered(columns, counts)
    distinct, back = np.unique(points[:, 0], return_inverse=True)
    epsilons = [_epsilon_of(float(value), pricing, delta) for value in distinct]
    return tuple(
        LossPoint(
            epsilon=epsilons[place],
            remaining_uncertainty=Uncertainty(lower=float(low), upper=float(high)),
            identifiable=bool(seen),
            records=int(number),
        )
        for place, (_, low, high, seen), number in zip(back, points, records, strict=True)
    )


def guaranteed_by_noise(findings: Findings) -> float | None:
    r"""What everyone keeps even if the attacker knows all other records and all releases are about one.

    Linear releases carry information :math:`\sum 1/m_\ell^2` per squared width of the domain.
    """
    pricing, prior, law = findings.pricing, findings.prior, findings.pricing.bounding_law
    multipliers = pricing.information_multipliers
    if multipliers.size == 0:
        return None
    if pricing.exact.any():
        return 0.0
    if findings.membership.persons is not None and (findings.has_nonlinear or law is NoiseLaw.LAPLACE):
        return None  # these bounds are for one value
    if findings.has_nonlinear:
        kept = prior.kept_whatever_is_published(pricing.told_at_most())
        of_question = float(coin_kept(np.array([np.sum(multipliers**-2.0)]))[0])
        return min(kept, of_question) if findings.questions else kept
    low, high = prior.bounds
    information = float(np.sum(multipliers**-2.0)) / (high - low) ** 2
    all_laplace = all(one is PublishedLaw.LAPLACE for one in pricing.bundle_laws)
    answers = float(multipliers.size) if all_laplace else np.inf  # of a mix the information alone is used
    return prior.kept(information=information, law=law, answers=answers) * pricing.lattice_share


def gathered(columns: Sequence[NDArray[Any]], counts: IndexArray) -> tuple[FloatArray, IndexArray]:
    """Records (cost, lower, upper, identifiable) that are alike counted together, in a grid if many."""
    if len(counts) > _WORTH_SORTING:
        return _gridded(columns, counts)
    distinct, back = np.unique(np.column_stack(columns), axis=0, return_inverse=True)
    together = np.bincount(back.ravel(), counts, len(distinct)).astype(np.intp)
    return (distinct, together) if len(distinct) <= _MOST_POINTS else _gridded(list(distinct.T), together)


def _gridded(columns: Sequence[NDArray[Any]], counts: IndexArray) -> tuple[FloatArray, IndexArray]:
    """A grid cell is drawn at its largest cost, its least lower and its largest upper end."""
    cost, lower, upper, identifiable = columns
    span = float(cost.max() - cost.min()) or 1.0
    step = np.floor((cost - cost.min()) / span * (_LOSS_STEPS - 1)).astype(np.intp)
    level = np.floor(np.clip(upper, 0.0, 1.0) * _UNCERTAINTY_STEPS).astype(np.intp)
    cell = (step * (_UNCERTAINTY_STEPS + 1) + level) * 2 + (identifiable > 0)
    cells = _LOSS_STEPS * (_UNCERTAINTY_STEPS + 1) * 2
    drawn = np.full((cells, 4), -np.inf)
    drawn[:, 1] = np.inf
    np.minimum.at(drawn[:, 1], cell, lower)
    for column in (0, 2, 3):
        np.maximum.at(drawn[:, column], cell, columns[column])
    together = np.bincount(cell, counts, cells).astype(np.intp)
    used = np.flatnonzero(np.bincount(cell, minlength=cells))
    return drawn[used], together[used]


def _epsilon_of(cost: float, pricing: Pricing, delta: float) -> float:
    """Of a total of ``record_costs``: a pure epsilon, a squared Gaussian-DP parameter, or twice zCDP's."""
    if cost == 0 or all(law.pure for law in pricing.bundle_laws):
        return cost
    return smallest_epsilon(cost, delta) if pricing.gaussian else tight_epsilon_of_rho(cost / 2, delta)


def alternatives(findings: Findings) -> tuple[Alternative, ...]:
    """What would be seen with each accountant's noise; empty if no release shares a budget.

    Accountants that ask for the same noise share an assessment.
    """
    plan, own, sharing = findings.plan, findings.linear, findings.pricing.releases
    budget = budget_of(plan)
    if own is None or not own.repeatable or budget is None or sharing == 0:
        return ()
    # Beside noise that is given, Gaussian accountants are compared, and the plan's own.
    all_priced = not any(release.noise_given for release in plan.releases)
    rules = {
        name: rule
        for name, rule in accountants(budget).items()
        if all_priced or rule.law is NoiseLaw.GAUSSIAN or name == plan.privacy.accountant
    }
    asked = shared_noise(rules, findings.membership, findings.pricing)
    key = {name: (rule.law, asked[name]) for name, rule in rules.items()}
    assessed = {key[plan.privacy.accountant]: own}
    found = []
    for number, (name, rule) in enumerate(rules.items()):
        if key[name] not in assessed:
            assessed[key[name]] = _with_accountant(findings, name)
        one = assessed[key[name]]
        least = one.least
        assert least is not None  # the attacker does not know everyone, or there would be no findings
        found.append(
            Alternative(
                accountant=name,
                noise_multiplier=math.sqrt(asked[name]),
                proven=rule.validity(sharing).ok,
                sharpest_rmse=one.sharpest_rmse,
                least_remaining_uncertainty=least,
                below_limit=one.below_limit,
            )
        )
        report("accountants", (number + 1) / len(rules))
    return tuple(found)


def _with_accountant(findings: Findings, accountant: str) -> LinearFindings:
    privacy = findings.plan.privacy.model_copy(update={"accountant": accountant})
    other = findings.plan.model_copy(update={"privacy": privacy})
    found = linear_findings(other, findings.membership, price(other, findings.membership))
    assert found is not None  # the plan has a linear part with its own noise
    return found
