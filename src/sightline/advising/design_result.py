"""The result of a design: the noise of every number, what it costs, the proof, the plan; and it in words."""

from __future__ import annotations

import math
from typing import Annotated

from sightline.auditing.result_parts import Many, ResultPart


class DesignedNoise(ResultPart):
    """The noise of one published number."""

    release: str
    cell: str  # the group, empty if there is only one
    stddev_before: float
    stddev: float
    published: bool  # it is out already, and its noise stays
    range: float = math.inf  # the most that the number can change if the secrets of all its rows do

    @property
    def raised(self) -> bool:
        """Whether the design gives it more noise than it had."""
        return self.stddev > self.stddev_before

    @property
    def withheld_in_effect(self) -> bool:
        """Whether the noise is more than all that the number could say."""
        return self.stddev > self.range


class PricedAttack(ResultPart):
    """An attack that the noise must hold off, and its share of the added noise. Owner-only."""

    record: str | None  # its key, only when asked for
    size: int  # records that share the signature
    recipe: str  # weights on the published numbers, of the best attack on the designed plan
    shortest: str | None  # one number or a difference of two that is the value or the sum, if there is one
    bound: str  # the bound that proves the limit for this record
    price: float  # its share of the loss that was added; all shares sum to 1


class WithheldNumber(ResultPart):
    """A number that the proposed plan does not publish."""

    release: str
    cell: str  # the group, empty if there is only one
    rows: int


class Suppressed(ResultPart):
    """What the proposed plan withholds, because no noise below the ceilings is enough. Owner-only."""

    withheld: Annotated[tuple[WithheldNumber, ...], Many]
    at_least: int  # no fewer are enough; 0 where nothing is known


class DesignedBudget(ResultPart):
    """What the designed noise costs of the budget, for the releases that the budget pays for."""

    accountant: str
    epsilon: float  # what the plan allows
    delta: float
    epsilon_spent: float  # of the designed noise, under the accountant
    price: float  # the budget's share of the noise; with the prices of the attacks it sums to 1
    everyone: (
        bool  # whether it holds for every conceivable person, or only for the kinds of people in this table
    )


class DesignResult(ResultPart):
    """The least noise with which everyone keeps the limit, and how it compares. Owner-only."""

    def __repr__(self) -> str:
        """One line: the limit, the loss, and whether the audit passes with it."""
        passed = "passes" if self.passed else "does not pass"
        return f"<DesignResult: limit {self.limit:g}, loss {self.loss_designed:.4g}, the audit {passed}>"

    limit: float
    grain: str
    loss: str
    binds: bool  # False: the plan keeps the limit as it is
    loss_before: float
    loss_with_common_factor: float
    common_factor: float  # the least on all standard deviations with which the audit passes
    common_factor_audited: bool  # else by estimates alone: the plan is too large to be audited for a rival
    loss_designed: float
    # No noise keeps the limit with less, for the bounds that were chosen; none if the audit, which may use
    # another bound for a record, passes with less.
    loss_at_least: float | None
    noise: Annotated[tuple[DesignedNoise, ...], Many]
    attacks: Annotated[tuple[PricedAttack, ...], Many]  # the dearest first
    attacks_in_all: int
    budget: DesignedBudget | None  # none if no noise can move within a budget
    never_binds_below_epsilon: float  # under exact Gaussian accounting, at the delta
    delta: float
    passed: bool  # whether the audit of the proposed plan passes
    verdict: str  # what that audit says
    rounds: int
    plan: str  # the proposed plan in TOML
    suppressed: Suppressed | None = None  # none if every number is published
    fitted: bool = False  # whether losses are those after the fit, which the plan publishes
    typical_before: float | None = None  # the median error of a number, as it is published
    typical_designed: float | None = None
    better_derived: Annotated[tuple[str, ...], Many] = ()  # releases to compute from the fit, not to measure
    periods: int = 1  # of a series: how often all of it is published, with this noise each time
    by_attacks: bool = False  # whether linear attacks give the lower bound: nothing passes with less
    digits: int | None = None  # that the noise is rounded to; none: as it was found
    secret: str = ""  # of a plan about several
    other_secrets: Annotated[tuple[DesignResult, ...], Many] = ()  # each designed by itself

    @property
    def gap(self) -> float | None:
        """How far the designed loss may be above the least one, over the designed loss."""
        if self.loss_at_least is None:
            return None
        return (self.loss_designed - self.loss_at_least) / self.loss_designed

    @property
    def raised(self) -> tuple[DesignedNoise, ...]:
        """The numbers that get more noise than they had."""
        return tuple(one for one in self.noise if one.raised)

    @property
    def withheld_in_effect(self) -> tuple[DesignedNoise, ...]:
        """The numbers that the noise says nothing of any more."""
        return tuple(one for one in self.noise if one.withheld_in_effect and not one.published)
