"""The least factor on all noise with which everyone keeps the limit: above 1 it is needed, below it is slack.

Enough noise against an attacker who knows all other records is a closed form. Below it the labeled engine
searches with a few factorisations. No search is trusted: the audit has the last word, at the factor as it is
printed.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from sightline.auditing.brackets import least_category_bound, most_information, scaled_noise
from sightline.auditing.findings import Findings, LinearFindings, linear_findings
from sightline.auditing.nonlinear import kept_with_nonlinear, nonlinear_information
from sightline.auditing.questions import coin_kept
from sightline.noise.published import LEAST_DISCRETE_STDDEV
from sightline.privacy.budget import Budget
from sightline.privacy.registry import accountants

# Up to this much work for one assessment (numbers³ + numbers × columns) a search takes seconds.
_SEARCHABLE = 2e9
_MOST = 1e12  # a factor beyond which more noise changes nothing
_LEAST = 1e-6  # a factor below which nobody asks for how much less would do
_SMALLER = 10.0  # steps in which the slack is looked for
_LARGEST_EPSILON = 1e6  # beyond this a budget says nothing
_CLOSE = 0.01  # how near the least factor a search by audits ends


def noise_factor(findings: Findings, found: LinearFindings, limit: float) -> float | None:
    """A factor on all noise, to three digits, with which the audit finds that every record keeps the limit.

    From 1 on if the limit does not hold as it is, else from a millionth to 1. The least one up to about 1 %
    if the search is affordable. ``None`` if no factor is enough. It is enough for the secret and for every
    yes-or-no question about it.
    """
    factors = [_own_factor(findings, found, limit)]
    for one in findings.questions:
        factors.append(1.0 if one.linear is None else _own_factor(one, one.linear, limit))
    return None if None in factors else max(factor for factor in factors if factor is not None)


def _own_factor(findings: Findings, found: LinearFindings, limit: float) -> float | None:
    if not findings.not_shown:
        return _slack_factor(findings, found, limit)
    enough = _enough(findings, found, limit)
    if found.persons is not None or _on_lattice(findings):  # the closed form is for one value: audit it
        while enough is not None and lowest(findings, enough) < limit:
            enough = 2 * enough if 2 * enough <= _MOST else None
    if enough is None:
        return None
    if _is_large(found):
        return rounded(enough, up=True)
    guess = _least(findings, found, limit, low=1.0, high=enough)
    tried = (rounded(factor, up=True) for factor in (guess, enough, 2 * enough))
    return next((factor for factor in tried if lowest(findings, factor) >= limit), None)


def _slack_factor(findings: Findings, found: LinearFindings, limit: float) -> float:
    """About the least factor up to 1 with which everyone still keeps the limit, as the audit finds."""
    high = 1.0
    if found.persons is None and not _on_lattice(findings):
        told = _enough(findings, found, limit, low=_LEAST)
        high = 1.0 if told is None else min(1.0, told)
    if _is_large(found):
        return rounded(high, up=True)
    steps = [high / _SMALLER]
    while steps[-1] > _LEAST:
        steps.append(steps[-1] / _SMALLER)
    for place, low in enumerate(steps):
        if lowest(findings, low) < limit:
            break
        high = low
        # What holds with the least noise holds with more: then the steps between need no audit.
        if place == len(steps) - 1 or (place == 0 and lowest(findings, steps[-1]) >= limit):
            return rounded(steps[-1], up=True)
    guess = _least(findings, found, limit, low=low, high=high)
    tried = (rounded(factor, up=True) for factor in (guess, high))
    return next((factor for factor in tried if factor < 1 and lowest(findings, factor) >= limit), 1.0)


def _is_large(found: LinearFindings) -> bool:
    design = found.linear.design
    return design.row_count**3 + design.row_count * design.size > _SEARCHABLE


def _on_lattice(findings: Findings) -> bool:
    """Whether some noise is of whole numbers: its information is not in proportion to 1/factor²."""
    return any(law.on_lattice for law in findings.pricing.bundle_laws)


def _least(findings: Findings, found: LinearFindings, limit: float, *, low: float, high: float) -> float:
    """About the least factor between two: by a few factorisations, by closed forms, or by audits."""
    if found.persons is not None or _on_lattice(findings):
        return _bisected(lambda factor: lowest(findings, factor) >= limit, low, high, close=_CLOSE)
    if findings.has_nonlinear:
        return _bisected(lambda f: _least_with_nonlinear(findings, found, f) >= limit, low, high)
    scaled = scaled_noise(found.linear, found.exposures)
    if scaled is None:
        return _bisected(lambda f: least_category_bound(found.linear, f) >= limit, low, high)
    return scaled.least_factor(limit, enough=high, above=low)


def _least_with_nonlinear(findings: Findings, found: LinearFindings, factor: float) -> float:
    """What everyone keeps through linear and nonlinear releases, with all noise multiplied by a factor."""
    pricing, exposures = findings.pricing.scaled(factor), found.exposures
    if findings.question is not None:
        return lowest(findings, factor)
    carried = found.linear.of_columns(nonlinear_information(findings.membership, pricing))
    information = exposures.information / factor**2
    left = kept_with_nonlinear(found.linear.prior.number, information, carried, pricing.bounding_law)
    return float(np.min(left[~exposures.known]))


def lowest(findings: Findings, factor: float) -> float:
    """What the audit says that everyone keeps with all noise multiplied by a factor.

    Nothing, if discrete Gaussian noise would be less than its bounds are for.
    """
    pricing = findings.pricing.scaled(factor)
    if pricing.discrete.size and float(pricing.discrete.min()) < LEAST_DISCRETE_STDDEV:
        return 0.0
    found = linear_findings(findings.plan, findings.membership, pricing, attacks=False)
    assert found is not None  # the plan has a linear part
    least = found.least
    assert least is not None  # the attacker does not know everyone
    return least.lower


def _enough(findings: Findings, found: LinearFindings, limit: float, *, low: float = 1.0) -> float | None:
    """Noise that is enough against an attacker who knows all other records: a factor from ``low`` on."""
    rows = 1 if found.persons is None else int(found.persons.seen.kinds.rows_of_person.max())
    # Of any feature of a person at most this many times as much as of a row.
    information = rows * most_information(found.linear, found.exposures)
    pricing, prior = findings.pricing, findings.prior

    def safe(factor: float) -> bool:
        if findings.question is not None:
            distance = np.array([np.sum((pricing.information_multipliers * factor) ** -2.0)])
            return float(coin_kept(distance)[0]) >= limit
        if findings.has_nonlinear:
            return prior.kept_whatever_is_published(pricing.told_at_most(factor)) >= limit
        kept = prior.kept(information=information / factor**2, law=pricing.bounding_law)
        return kept >= limit

    if not safe(_MOST):
        return None
    # Room for the roundings of the bound itself.
    return _bisected(safe, low, _MOST, close=1e-9) * (1 + 1e-9)


def _bisected(safe: Callable[[float], bool], low: float, high: float, *, close: float = 1e-4) -> float:
    """The least safe number between one that is not safe and one that is, from above."""
    while high > (1 + close) * low:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if safe(middle) else (middle, high)
    return high


def epsilon_for(findings: Findings, factor: float) -> float | None:
    """The largest epsilon, up to 0.1 %, with which the accountant asks for that many times the noise."""
    plan, pricing = findings.plan, findings.pricing
    epsilon, delta = plan.privacy.epsilon, plan.privacy.delta or 1e-6
    if (
        epsilon is None
        or plan.privacy.periods
        or pricing.releases == 0
        or pricing.releases < pricing.multipliers.size
    ):
        return None
    name, count = plan.privacy.accountant, pricing.releases

    def kappa(value: float) -> float:
        return accountants(Budget(epsilon=value, delta=delta))[name].kappa(count)

    wanted = kappa(epsilon) * factor**2
    low, high = epsilon, epsilon
    while kappa(low) < wanted:
        low /= 2
    while kappa(high) >= wanted:
        high *= 2
        if high > _LARGEST_EPSILON:
            return None
    return 1 / _bisected(lambda value: kappa(1 / value) >= wanted, 1 / high, 1 / low, close=0.001)


def rounded(value: float, *, up: bool) -> float:
    """A value to three digits, on the safe side, so that the advice holds as it is printed.

    >>> rounded(5.1301, up=True), rounded(0.12399, up=False)
    (5.14, 0.123)
    """
    step = 10.0 ** (math.floor(math.log10(value)) - 2)
    steps = math.ceil(value / step) if up else math.floor(value / step)
    return float(f"{steps * step:.3g}")
