"""The same plan and the same budget under each accountant: other noise, the same geometry."""

from __future__ import annotations

import math

import numpy as np

from sightline.auditing.findings import Findings
from sightline.auditing.plan import Plan
from sightline.auditing.pricing import budget_of, price
from sightline.auditing.result import Alternative
from sightline.auditing.secret import Secret
from sightline.auditing.view import linear_view
from sightline.privacy.registry import accountants
from sightline.progress import Progress, silent
from sightline.tables.membership import Membership


def alternatives(
    plan: Plan, membership: Membership, own: Findings, *, sharing: int, progress: Progress
) -> tuple[Alternative, ...]:
    """What would be seen with each accountant's noise; nothing if no release shares a budget.

    ``own`` is what is seen with the plan's own. Accountants that ask for the same noise share an assessment.
    """
    budget = budget_of(plan)
    if budget is None or sharing == 0:
        return ()
    alone = all(release.noise_stddev is None for release in plan.releases)
    rules = {name: rule for name, rule in accountants(budget).items() if alone or name != "laplace"}
    key = {name: (rule.law, rule.kappa(sharing)) for name, rule in rules.items()}
    seen = {key[plan.privacy.accountant]: own}
    found = []
    for number, (name, rule) in enumerate(rules.items()):
        if key[name] not in seen:
            seen[key[name]] = _assessed(plan, membership, name)
        one = seen[key[name]]
        least = one.least
        assert least is not None  # somebody is unknown, or there would be no finding
        sharpest = one.exposures.rmse[one.exposures.identifiable]
        found.append(
            Alternative(
                accountant=name,
                noise_multiplier=math.sqrt(rule.kappa(sharing)),
                proven=rule.validity(sharing).ok,
                sharpest_rmse=float(np.min(sharpest)) if sharpest.size else None,
                least_remaining_uncertainty=least,
                below_limit=one.below_limit,
            )
        )
        progress("accountants", (number + 1) / len(rules))
    return tuple(found)


def _assessed(plan: Plan, membership: Membership, accountant: str) -> Findings:
    privacy = plan.privacy.model_copy(update={"accountant": accountant})
    other = plan.model_copy(update={"privacy": privacy})
    view = linear_view(other, membership, price(other, membership))
    assert view is not None  # the plan's own noise had one
    limit = plan.limits.remaining_uncertainty
    return Findings.of(view, secret=Secret.of(plan), limit=limit, progress=silent)
