"""The same plan and budget under each accountant: other noise, the same geometry."""

from __future__ import annotations

import math

from sightline.auditing.budget import shared_noise
from sightline.auditing.findings import Findings, LinearFindings, linear_findings
from sightline.auditing.pricing import price
from sightline.auditing.result import Alternative
from sightline.auditing.shared_budget import budget_of
from sightline.privacy.accountant import NoiseLaw
from sightline.privacy.registry import accountants
from sightline.progress import report


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
