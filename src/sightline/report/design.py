"""The result of a design in words: the noise of every number, what it costs, the proof, the plan."""

from __future__ import annotations

import math
from collections.abc import Iterator

from sightline.advising.design_result import DesignedBudget, DesignedNoise, DesignResult, PricedAttack
from sightline.arrays import NOTICEABLE
from sightline.auditing.result_parts import TOP
from sightline.format import count, covered, number, number_at_most, number_ends, percent, percent_stated

LOSSES = {
    "size": "the weighted sum of variances, each relative to its size class (10, 20, 50, 100, ... rows)",
    "variance": "the weighted sum of variances",
    "relative": "the weighted sum of variances over today's",
}


def lines(result: DesignResult) -> Iterator[str]:
    """The result, line by line."""
    share = percent_stated(result.limit)
    if result.secret:
        yield f"The releases about {result.secret}, by themselves:"
    if result.periods > 1:
        yield (
            f"A series of {result.periods:,} periods, each with this noise and the same people in the same "
            "groups: losses add up over all of them, and the limit is for values that stay the same."
        )
    yield from _suppressed(result)
    if not result.binds and result.budget is None:
        keeps = "The plan keeps" if result.suppressed is None else "Without what is withheld the plan keeps"
        yield f"{keeps} the limit of {share} as it is: no noise is added."
    elif not result.binds:
        yield f"The budget alone keeps the limit of {share}: noise only moves between releases within it."
        yield from _comparison(result)
    else:
        yield from _comparison(result)
        yield ""
        yield from _noise(result)
        yield ""
        yield from _attacks(result)
    if result.budget is not None:
        yield ""
        yield _budget(result.budget, result.periods)
    yield ""
    below, _ = number_ends(result.never_binds_below_epsilon, result.never_binds_below_epsilon)
    yield (
        f"A limit of {share} cannot bind below epsilon = {below} at delta = {result.delta:g} (exact Gaussian "
        "accounting): there the budget alone keeps it."
    )
    yield ""
    word = "passes" if result.passed else "does NOT pass"
    yield f"The audit of the proposed plan {word}. {result.verdict}"
    for other in result.other_secrets:
        yield ""
        yield from lines(other)


def _comparison(result: DesignResult) -> Iterator[str]:
    over = "after the fit" if result.fitted else "over the numbers that are not published yet"
    yield f"What is made small: {LOSSES[result.loss]}, {over}"
    breaks = ", which breaks the limit" if result.binds else ""
    yield f"  before                  {number(result.loss_before)}{breaks}"
    common, factor = result.loss_with_common_factor, _at_least(result.common_factor)
    estimated = "" if result.common_factor_audited else " (an estimate that was not audited)"
    yield f"  with a common factor    {number(common)}, all noise times {factor}{estimated}"
    share = percent(result.loss_designed / common)
    digits = "" if result.digits is None else f", rounded to {count(result.digits, 'digit')}"
    yield f"  designed                {number(result.loss_designed)}, {share} of the common factor's{digits}"
    if result.gap is None:
        yield "  No lower bound is proved for what the audit passes here: no gap is certified."
    else:
        yield f"  at least                {number(result.loss_at_least or 0.0)} {_proof(result, result.gap)}"
    yield from _typical(result)


_PROVED = 0.01  # a gap up to which the optimum is said to be proved


def _proof(result: DesignResult, gap: float) -> str:
    """What the lower bound is over, and how far the loss may be above it."""
    budget = result.fitted and not result.binds
    over = "for any noise within the budget" if budget else "for the chosen bounds"
    if result.by_attacks and not budget:
        over = "for any noise, since linear attacks break the limit with less"
    share = percent(max(gap, 0.0))
    if gap > _PROVED:
        return f"{over}; the design stands still, at most {share} of its loss above the bound"
    return f"{over}: " + (
        f"at most {share} could be saved" if result.fitted else f"a certified gap of {gap:.1e}"
    )


def _typical(result: DesignResult) -> Iterator[str]:
    """The error of a typical number, and what is better not measured."""
    if result.typical_before is not None and result.typical_designed is not None:
        before, after = number(result.typical_before, 3), number(result.typical_designed, 3)
        fit = " after the fit" if result.fitted else ""
        yield f"  error of a typical number{fit}: from ± {before} to ± {after}"
        if result.periods > 1:
            total = number(math.sqrt(result.periods) * result.typical_designed, 3)
            yield f"  of its total over the {result.periods:,} periods, which is derived: ± {total}"
    for name in result.better_derived:
        yield f'  "{name}" gets less than 1 % of the budget and follows from the others: say derived = true'


def _suppressed(result: DesignResult) -> Iterator[str]:
    gone = result.suppressed
    if gone is None:
        return
    size = len(gone.withheld)
    fewest = "no fewer are enough" if gone.at_least == size else f"at least {gone.at_least} are needed"
    fewest = fewest if gone.at_least else "fewer may be enough"
    yield f"{count(size, 'number')} must be withheld, because no noise below the ceilings is enough; {fewest}"
    yield from (
        f"  {_quoted(one.release, one.cell)}, {count(one.rows, 'row')}" for one in gone.withheld[:TOP]
    )
    if size > TOP:
        yield f"  and {size - TOP:,} more; the plan has all of them"
    yield ""


def _budget(budget: DesignedBudget, periods: int) -> str:
    cost = number_at_most(budget.epsilon_spent, 4)
    spent = f"epsilon = {cost} of {number(budget.epsilon)} at delta = {budget.delta:g}"
    price = f"; {percent(budget.price)} of the noise is for the budget" if budget.price > NOTICEABLE else ""
    whom = covered(everyone=budget.everyone)
    whole = f" of all {periods:,} periods" if periods > 1 else ""
    return f"The budget{whole} under {budget.accountant}, for {whom}: {spent}{price}."


def _noise(result: DesignResult) -> Iterator[str]:
    raised = sorted(result.raised, key=lambda one: -one.stddev / one.stddev_before)
    gets = "gets" if len(raised) == 1 else "get"
    yield f"{count(len(raised), 'number')} of {len(result.noise):,} {gets} more noise (standard deviation)"
    yield from (
        f"  {_name(one)}: {number(one.stddev_before)} -> {_at_least(one.stddev)}" for one in raised[:TOP]
    )
    if len(raised) > TOP:
        yield f"  and {len(raised) - TOP:,} more; the plan has all of them"
    if gone := result.withheld_in_effect:
        named = ", ".join(map(_name, gone[:3])) + f" and {len(gone) - 3:,} more" * (len(gone) > 3)
        yield f"  Withheld in effect, because the noise exceeds the number's whole range: {named}"


def _at_least(noise: float) -> str:
    """Noise to four digits that is enough as it is printed."""
    return number_ends(noise, noise, 4)[1]


def _name(one: DesignedNoise) -> str:
    return _quoted(one.release, one.cell)


def _quoted(release: str, cell: str) -> str:
    return f'"{release}: {cell}"' if cell else f'"{release}"'


def _attacks(result: DesignResult) -> Iterator[str]:
    if not result.attacks:
        return
    yield f"What the added noise is for: {count(result.attacks_in_all, 'attack')}, the dearest first"
    yield from (f"  {percent(one.price):>6}  {_attack(one)}" for one in result.attacks)


def _attack(one: PricedAttack) -> str:
    knows = ", to someone who knows all other records" if one.bound == "all other records known" else ""
    return f"{who(one)}, by {one.shortest or one.recipe}{knows}"


def who(attack: PricedAttack) -> str:
    """Whom an attack is on: the key, if it was asked for."""
    alone = "one record" if attack.size == 1 else f"one of {attack.size:,} records that nothing tells apart"
    return attack.record or alone
