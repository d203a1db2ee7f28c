r"""How much slack a plan has: by how much all noise could be smaller, or must be larger, to keep the limit.

What remains, L, is about :math:`1/(1 + I/f^2)` with all noise times f. So :math:`\ln L/(1 - L)` is nearly
linear in :math:`\ln f`, and a few audits find the least factor. Each is at a factor as it is printed: the
audit has the last word.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from sightline.arrays import COARSE, IndexArray
from sightline.auditing.findings import Findings, LinearFindings, linear_findings
from sightline.auditing.lowering import lower
from sightline.auditing.pricing import kept_of_anything, price
from sightline.auditing.result import NoiseSlack, Verdict, VerdictStatus
from sightline.auditing.result_parts import Fact, fact
from sightline.auditing.unit_findings import MOST_FACTORISED
from sightline.bounds.assessment import lower_of_some
from sightline.bounds.lines import FEW_ROWS, MOST_KINDS
from sightline.privacy.accountant import Budget
from sightline.privacy.registry import accountant_named
from sightline.values import frozen

# Factors beyond which nobody asks how much more or less would do. At the least one noise does not matter.
MOST_FACTOR, LEAST_FACTOR = 1e12, 1e-5
_LARGEST_EPSILON = 1e6  # beyond this a budget says nothing
_PROGRESS = 0.1  # in log-odds, by which a try tells the slope of the curve
_COARSE_STEP = 0.05  # in the logarithm of the factor, where each try takes long
_FEW = 256  # kinds that a search looks at, and as many of those that are told most


class Slack(StrEnum):
    """What is said of how much more or less noise would do."""

    HOLDS = "holds"  # with less
    NEEDS = "needs"  # more
    BY_NOISE = "by noise"  # what the noise alone would have to be
    NO_FACTOR = "no factor"
    WITHOUT_NOISE = "without noise"


def noise_slack(findings: Findings) -> NoiseSlack | None:
    """The slack of a plan; none without a limit, or if noise does not decide.

    Noise does not decide if nothing linear is published, and what is published already keeps the noise that
    it has. A plan that holds with exact numbers has no slack either: less noise on the others was not looked
    at. Nor has one whose table is streamed: it is assessed once, with the noise as it is.
    """
    if not findings.limit or findings.streamed or any(one.published for one in findings.plan.releases):
        return None
    worst, *others = findings.every_belief
    slack = _slack(worst)
    return _of_all([slack, *(_slack(one) for one in others if not _enough_for(one, slack))])


def _enough_for(findings: Findings, slack: NoiseSlack | None) -> bool:
    """Whether the noise that the worst belief needs is enough under this one: then none is looked for."""
    if slack is None or slack.noise_factor is None or not findings.linear or findings.pricing.exact.any():
        return False
    if slack.holds and findings.not_shown:
        return False
    factor, limit = slack.noise_factor, findings.limit
    if _is_large(findings.linear) or lowest(findings, factor) < limit:
        return False
    return slack.epsilon is None or _audited_epsilon(findings, factor, limit) == slack.epsilon


def _slack(findings: Findings) -> NoiseSlack | None:
    """The slack under one belief."""
    found, limit = findings.linear, findings.limit
    if not found or (findings.plan.data.only_guarantee and not findings.pricing.exact.any()):
        return _by_the_noise_alone(findings, limit)
    holds, share = not findings.not_shown, findings.plan.limits.text
    if holds and findings.least.lower < limit:  # by bounds on guesses, which no factor was tried for
        return None
    if findings.pricing.exact.any():
        if holds:
            return None
        return _none_is_enough(fact(Slack.WITHOUT_NOISE, by_rule=findings.pricing.by_count_rule, limit=share))
    factor = noise_factor(findings, limit)
    epsilon = None if factor is None else _audited_epsilon(findings, factor, limit)
    if factor is None:
        return _none_is_enough(fact(Slack.NO_FACTOR, limit=share))
    return _by_factor(factor, epsilon, holds=holds)


def _by_the_noise_alone(findings: Findings, limit: float) -> NoiseSlack | None:
    r"""A factor with which the noise alone keeps the limit, where it publishes nothing linear or is all that
    counts.

    With S how far a record moves all numbers in units of the noise, :math:`e^{-S/(4f^2)}` remains.
    """
    kept = findings.guaranteed if findings.plan.data.only_guarantee else not findings.not_shown
    if kept or findings.pricing.exact.any() or not findings.most_moved < math.inf:
        return None
    factor = rounded(math.sqrt(findings.most_moved / (4 * math.log(1 / limit))), up=True)
    after = replace(findings, pricing=findings.pricing.scaled(factor), made={})
    if after.kept_by_noise < limit:  # laws for which another factor is needed
        return None
    by_noise = fact(Slack.BY_NOISE, factor=factor)
    return NoiseSlack(holds=False, noise_factor=factor, epsilon=None, fact=by_noise)


def slack_under(verdict: Verdict, slack: NoiseSlack | None) -> NoiseSlack | None:
    """The slack as it may be stated beside a verdict.

    Slack speaks of the average over the prior. Beside a verdict that fails for another reason there is none,
    and beside one that is not shown it depends on what was not verified.
    """
    if slack is None or not slack.holds or verdict.passed is not False:
        return slack
    if verdict.status is VerdictStatus.FAILED:
        return None
    return slack.model_copy(update={"if_verified": True})


def slack_of_all(verdict: Verdict, slacks: Sequence[NoiseSlack | None]) -> NoiseSlack | None:
    """The slack of several secrets under the worst verdict: the noise that all of them need."""
    return slack_under(verdict, _of_all(slacks))


def _of_all(slacks: Sequence[NoiseSlack | None]) -> NoiseSlack | None:
    """The noise that several secrets need, or one secret under several beliefs.

    None if nothing is known of one, and the others hold: less noise was not looked at for it.
    """
    if len(slacks) == 1:
        return slacks[0]
    known = [one for one in slacks if one is not None]
    holds = all(one.holds for one in known)
    if not known or (holds and len(known) < len(slacks)):
        return None
    factors = [one.noise_factor for one in known if one.noise_factor is not None]
    if len(factors) < len(known):  # no factor is enough for one of them
        return next(one for one in known if one.noise_factor is None)
    epsilons = [one.epsilon for one in known if one.epsilon is not None]
    factor, epsilon = max(factors), min(epsilons) if len(epsilons) == len(slacks) else None
    return _by_factor(factor, epsilon, holds=holds)


def _by_factor(factor: float, epsilon: float | None, *, holds: bool) -> NoiseSlack:
    budget = {} if epsilon is None else {"epsilon": epsilon}
    found = fact(Slack.HOLDS if holds else Slack.NEEDS, factor=factor, **budget)
    return NoiseSlack(holds=holds, noise_factor=factor, epsilon=epsilon, fact=found)


def _none_is_enough(why: Fact) -> NoiseSlack:
    return NoiseSlack(holds=False, noise_factor=None, epsilon=None, fact=why)


def _audited_epsilon(findings: Findings, factor: float, limit: float) -> float | None:
    """The epsilon that asks for so much noise, to three digits, if an audit at it finds the limit kept."""
    epsilon = epsilon_for(findings, factor)
    if epsilon is None:
        return None
    epsilon = rounded(epsilon, up=False)
    if _is_large(findings.linear) and _by_bound(findings, findings.linear):
        return epsilon  # with at least so much noise, the bound of the factor holds
    privacy = findings.plan.privacy.model_copy(update={"epsilon": epsilon})
    plan = findings.plan.model_copy(update={"privacy": privacy})
    pricing = price(plan, findings.membership)
    least = linear_findings(plan, findings.membership, pricing, least=True).least
    return epsilon if least.lower >= limit else None


def noise_factor(findings: Findings, limit: float) -> float | None:
    """A factor on all noise, to three digits, with which the audit finds that every record keeps the limit.

    From 1 on if the limit does not hold as it is, else from a hundred-thousandth to 1. The least one of three
    digits if the search is affordable. ``None`` if no factor is enough. It is enough for the secret and for
    every yes-or-no question about it.
    """
    least, few = findings.least, _Few.of(findings)
    if _is_large(findings.linear):
        enough = _enough(findings, findings.linear, limit)
        if few is None or enough is None or findings.not_shown == 0:
            return enough
        # An attacker who knows all others needs far more noise than one who does not: look at the kinds that
        # keep least, with few tries.
        search = Search(most=enough, digits=2, close=_COARSE_STEP)
        factor = least_factor(few.lowest, limit, now=least.lower, search=search)
        return enough if factor is None or lowest(findings, factor) < limit else min(factor, enough)
    if few is not None:
        factor = least_factor(few.lowest, limit, now=least.lower)
        if factor is None or lowest(findings, factor) >= limit:
            return factor
    return least_factor(lambda factor: lowest(findings, factor), limit, now=least.lower)


@frozen(slots=False)
class _Few:
    """The kinds that keep least, of many: the search is theirs, and all kinds have the last word."""

    findings: Findings
    kinds: IndexArray

    @classmethod
    def of(cls, findings: Findings) -> _Few | None:
        """``None`` where other kinds of bounds, which look at all units, decide."""
        found = findings.linear
        many = len(found.lower) > MOST_KINDS or _is_large(found)
        if not many or findings.questions or findings.has_nonlinear:
            return None
        if not found.linear.design.prior.density or found.linear.design.noise.exact.any():
            return None
        lowest, sharpest = np.argsort(found.lower)[:_FEW], np.argsort(-found.exposure.information)[:_FEW]
        return cls(findings=findings, kinds=np.union1d(lowest, sharpest))

    def lowest(self, factor: float) -> float:
        """What these kinds keep with all noise multiplied by a factor."""
        pricing = self.findings.pricing.scaled(factor)
        lowered = lower(self.findings.plan, self.findings.membership, pricing)
        moved = lowered.of_records(pricing.moved(lowered.membership))[self.kinds]
        ends = lower_of_some(lowered.design, self.kinds).ravel()
        return float(np.maximum(ends, kept_of_anything(moved)).min())


class Search(NamedTuple):
    """Where a least factor is looked for, to how many digits, and how near it the search ends."""

    least: float = LEAST_FACTOR
    most: float = MOST_FACTOR
    digits: int = 3
    close: float = 2.5e-3  # in the factor's logarithm


_FACTORS = Search()


def least_factor(
    kept: Callable[[float], float],
    limit: float,
    *,
    now: float,
    search: Search = _FACTORS,
) -> float | None:
    """About the least factor, to three digits and from above, with which so much is ``kept``.

    Above 1 if what is kept ``now``, with factor 1, is less than the limit; else a hundred-thousandth or more.
    None if the most is not enough.

    >>> least_factor(lambda factor: 1 / (1 + 3 / factor**2), 0.5, now=0.25)
    1.74
    >>> least_factor(lambda factor: 1 / (1 + 3 / factor**2), 0.5, now=0.25, search=Search(1, 9, 9, 1e-8))
    1.73205082
    """
    target, holds, close = log_odds(limit), now >= limit, search.close
    end, least, beside = math.log(search.least if holds else search.most), close, close
    odds = {1.0: log_odds(now)}  # of what is kept, for every factor that was tried
    widths = [math.inf, math.inf]  # of the interval that is left, before each try
    while True:
        below = max((factor for factor, one in odds.items() if one < target), default=0.0)
        above = min((factor for factor, one in odds.items() if one >= target), default=math.inf)
        if above < math.inf and (above <= (1 + 2 * close) * below or _is_least(odds, above, target, close)):
            return above
        low, high = math.log(below) if below else -math.inf, math.log(above)
        guess = _guess({math.log(factor): one for factor, one in odds.items()}, target, close)
        guess += close if math.isinf(high) else close / 4  # rather above than below again
        if math.isinf(low) or math.isinf(high):  # nothing on the other side yet
            last = math.log(below or above)
            guess = max(end, min(guess, last - least)) if holds else min(end, max(guess, last + least))
            least *= 4  # a guess that falls short again and again goes further
        elif target - odds[below] < close and low + beside < high:  # nearly enough: a little more is
            guess, beside = low + beside, 4 * beside
        elif not low + close / 4 < guess < high - close / 4 or high - low > widths[-2] / 2:
            guess = (low + high) / 2  # also where two guesses came from one side
        widths.append(high - low)
        factor = rounded(math.exp(guess), up=True, digits=search.digits)
        factor = rounded(math.exp(guess), up=False, digits=search.digits) if factor in odds else factor
        factor = search.least if holds and guess <= end else factor
        if factor in odds:
            return above
        odds[factor] = log_odds(kept(factor))
        if abs(odds[factor] - odds.get(below or above, target)) > _PROGRESS:
            least = close  # the curve is no longer flat: its slope guesses well
        if holds and odds[factor] >= target and factor <= search.least:
            return factor
        if not holds and odds[factor] < target and factor >= search.most:
            return None


def _is_least(odds: dict[float, float], above: float, target: float, close: float) -> bool:
    """Whether a factor is close to the least one, by the slope to the nearest one tried."""
    others = [factor for factor, one in odds.items() if factor != above and math.isfinite(one)]
    if not others:
        return False
    near = min(others, key=lambda factor: abs(factor - above))
    slope = (odds[above] - odds[near]) / (math.log(above) - math.log(near))
    return odds[above] - target < close * slope


def _guess(points: dict[float, float], target: float, close: float) -> float:
    """Where the curve through the nearest points meets the target: x as a polynomial of y.

    Of one point, with the slope 2; of three, where that is no guess, through two.
    """
    finite = {x: y for x, y in points.items() if math.isfinite(y)}
    nearest = sorted(finite, key=lambda x: abs(finite[x] - target))[:3]
    if len(nearest) < 2:
        x = next(iter(points))
        return x + (target - points[x]) / 2
    first, second = nearest[:2]
    slope = (finite[first] - finite[second]) / (first - second)
    # Bounds take turns, so that the curve has steps, and on one of them two tries say little of its slope.
    if min(finite.values()) >= target or max(finite.values()) < target:
        steepest = max((finite[first] - y) / (first - x) for x, y in finite.items() if x != first)
        slope = max(slope, steepest / 2)
    # Behind a flat part of the curve, which says nothing of what follows, the slope is about 2.
    before = [y for x, y in finite.items() if x != first]
    flat = len(before) > 1 and max(before) < min(target, min(before) + close)
    guess = first + (target - finite[first]) / (slope if slope > flat else 2)
    if len(nearest) == 3 and len({finite[x] for x in nearest}) == 3:
        curved = 0.0
        for x in nearest:
            others = [one for one in nearest if one != x]
            curved += x * math.prod((target - finite[one]) / (finite[x] - finite[one]) for one in others)
        guess = curved if abs(curved - first) < 2 * abs(guess - first) + close else guess
    return guess


def log_odds(share: float) -> float:
    """ln L/(1 - L)."""
    return math.log(share / (1 - share)) if 0 < share < 1 else math.copysign(math.inf, share - 0.5)


def lowest(findings: Findings, factor: float) -> float:
    """What the audit says that everyone keeps, with all noise multiplied by a factor.

    Nothing, if some noise would be less than the bounds of its law are for.
    """
    pricing = findings.pricing.scaled(factor)
    if pricing.too_little:
        return 0.0
    kept = [1.0]
    for one in (findings, *findings.questions):
        # Lines through rows, which need the upper ends, are for units of few rows.
        persons = one.linear.linear.rows_of_unit.min(initial=np.iinfo(np.intp).max) > FEW_ROWS
        kept.append(
            linear_findings(one.plan, one.membership, pricing, upper=not persons, least=True).least.lower
        )
    return min(kept)


def _is_large(found: LinearFindings) -> bool:
    """Whether a search, which takes several assessments, would take long."""
    return found.work > MOST_FACTORISED**3


def _most_information(found: LinearFindings) -> float:
    """The most that is told of a record if all others are known, as ``SecretPrior.kept`` takes it."""
    linear, seen = found.linear, found.exposure.information
    # Of categories it is told of one column: of any feature at most so many times as much, and of two sides.
    most = seen if linear.columns_of_unit == 1 else 2 * seen * linear.rows_of_unit
    return float(most.max()) * (1 + COARSE)


def _enough(findings: Findings, found: LinearFindings, limit: float) -> float | None:
    """Noise that is enough against an attacker who knows all other records: without another assessment,
    unless a law or a kind of secret needs one.
    """
    most, pricing, prior = _most_information(found), findings.pricing, findings.prior

    def kept(factor: float) -> float:
        if findings.has_nonlinear:
            return prior.kept_whatever_is_published(pricing.told_at_most(factor))
        return prior.kept(information=most / factor**2, law=pricing.bounding_law)

    factor = least_factor(kept, limit, now=kept(1.0))
    if factor is None or _by_bound(findings, found) or lowest(findings, factor) >= limit:
        return factor
    return None


def _by_bound(findings: Findings, found: LinearFindings) -> bool:
    """Whether the audit's lower ends are at least what an attacker leaves who knows all other records."""
    linear = found.linear.columns_of_unit == 1 and not findings.has_nonlinear
    return findings.pricing.gaussian and linear and not findings.questions


def epsilon_for(findings: Findings, factor: float) -> float | None:
    """The largest epsilon, up to 0.1 %, with which the accountant asks for that many times the noise."""
    plan, pricing = findings.plan, findings.pricing
    epsilon, delta = plan.privacy.epsilon, plan.privacy.cost_delta
    if pricing.releases == 0 or pricing.releases < pricing.multipliers.size:
        return None
    name, count = plan.privacy.accountant, pricing.releases

    def kappa(value: float) -> float:
        return accountant_named(name, Budget(epsilon=value, delta=delta)).kappa(count)

    wanted = kappa(epsilon) * factor**2
    low, high = epsilon, epsilon
    while kappa(low) < wanted:
        low /= 2
    while kappa(high) >= wanted:
        high *= 2
        if high > _LARGEST_EPSILON:
            return None
    while high > 1.001 * low:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if kappa(middle) >= wanted else (low, middle)
    return low


def rounded(value: float, *, up: bool, digits: int = 3) -> float:
    """A value to some digits, on the safe side, so that the advice holds as it is printed.

    >>> rounded(5.1301, up=True), rounded(0.12399, up=False)
    (5.14, 0.123)
    >>> rounded(1e-5, up=True)  # what has three digits stays as it is
    1e-05
    """
    if float(f"{value:.{digits}g}") == value:
        return value
    step = 10.0 ** (math.floor(math.log10(value)) + 1 - digits)
    steps = math.ceil(value / step) if up else math.floor(value / step)
    return float(f"{steps * step:.{digits}g}")
