"""A design in a terminal: what it costs, which numbers get more noise, and the attacks that ask for it."""

from __future__ import annotations

from collections.abc import Iterator

from sightline.designing.attacks import who
from sightline.designing.result import DesignedBudget, DesignedNoise, DesignResult, PricedAttack
from sightline.designing.task import Loss
from sightline.format import count, number, percent

_MOST_LINES = 12
_NOTHING = 1e-3

LOSSES = {
    Loss.VARIANCE: "the weighted sum of variances",
    Loss.RELATIVE: "the weighted sum of variances over today's",
    Loss.LARGEST: "the largest weighted standard deviation",
}


def lines(result: DesignResult) -> Iterator[str]:
    """The result, line by line."""
    share = percent(result.limit)
    yield from _suppressed(result)
    if not result.binds and result.budget is None:
        yield f"The plan keeps the limit of {share} as it is: no noise is added."
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
        yield _budget(result.budget)
    yield ""
    yield (
        f"A limit of {share} cannot bind below epsilon = {result.never_binds_below_epsilon:.3g} at delta = "
        f"{result.delta:g} (exact Gaussian accounting): there the budget alone keeps it."
    )
    yield ""
    word = "passes" if result.passed else "does NOT pass"
    yield f"The audit of the proposed plan {word}. {result.verdict}"


def _comparison(result: DesignResult) -> Iterator[str]:
    yield f"What is made small: {LOSSES[Loss(result.loss)]}, over the numbers that are not published yet"
    breaks = ", which breaks the limit" if result.binds else ""
    yield f"  before                  {number(result.loss_before)}{breaks}"
    common, factor = result.loss_with_common_factor, number(result.common_factor)
    estimated = "" if result.common_factor_audited else " (an estimate that was not audited)"
    yield f"  with a common factor    {number(common)}, all noise times {factor}{estimated}"
    share = percent(result.loss_designed / common)
    yield f"  designed                {number(result.loss_designed)}, {share} of the common factor's"
    if result.gap is None:
        yield "  No lower bound is proved for what the audit passes here: no gap is certified."
    else:
        yield (
            f"  at least                {number(result.loss_at_least or 0.0)} for the chosen bounds: "
            f"a certified gap of {result.gap:.1e}"
        )


def _suppressed(result: DesignResult) -> Iterator[str]:
    gone = result.suppressed
    if gone is None:
        return
    size = len(gone.withheld)
    fewest = "no fewer are enough" if gone.at_least == size else f"at least {gone.at_least} are needed"
    yield f"{count(size, 'number')} must be withheld, because no noise below the ceilings is enough; {fewest}"
    yield from (
        f"  {_quoted(one.release, one.cell)}, {count(one.rows, 'row')}" for one in gone.withheld[:_MOST_LINES]
    )
    if size > _MOST_LINES:
        yield f"  and {size - _MOST_LINES:,} more; the plan has all of them"
    yield f"  To withhold the smallest groups first would take {count(gone.smallest_first, 'number')}."
    yield ""


def _budget(budget: DesignedBudget) -> str:
    spent = (
        f"epsilon = {number(budget.epsilon_spent)} of {number(budget.epsilon)} at delta = {budget.delta:g}"
    )
    price = f"; {percent(budget.price)} of the noise is for the budget" if budget.price > _NOTHING else ""
    return f"The budget under {budget.accountant}: {spent}{price}."


def _noise(result: DesignResult) -> Iterator[str]:
    raised = sorted(result.raised, key=lambda one: -one.stddev / one.stddev_before)
    yield f"{count(len(raised), 'number')} of {len(result.noise):,} get more noise (standard deviation)"
    yield from (
        f"  {_name(one)}: {number(one.stddev_before)} -> {number(one.stddev)}" for one in raised[:_MOST_LINES]
    )
    if len(raised) > _MOST_LINES:
        yield f"  and {len(raised) - _MOST_LINES:,} more; the plan has all of them"


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
