"""The result of a design: the noise of every number, what it costs, the proof, and the plan to publish."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Many = Field(strict=False)


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, defer_build=True)


class DesignedNoise(_Part):
    """The noise of one published number."""

    release: str
    cell: str  # the group, empty if there is only one
    stddev_before: float
    stddev: float
    published: bool  # it is out already, and its noise stays

    @property
    def raised(self) -> bool:
        """Whether the design gives it more noise than it had."""
        return self.stddev > self.stddev_before


class PricedAttack(_Part):
    """An attack that the noise must hold off, and its share of the added noise. Owner-only."""

    record: str | None  # its key, only when asked for
    size: int  # records that share the signature
    recipe: str  # weights on the published numbers, of the best attack on the designed plan
    shortest: str | None  # one number or a difference of two that is the value or the sum, if there is one
    bound: str  # the bound that proves the limit for this record
    price: float  # its share of the loss that was added; all shares sum to 1


class WithheldNumber(_Part):
    """A number that the proposed plan does not publish."""

    release: str
    cell: str  # the group, empty if there is only one
    rows: int


class Suppressed(_Part):
    """What the proposed plan withholds, because no noise below the ceilings is enough. Owner-only."""

    withheld: Annotated[tuple[WithheldNumber, ...], Many]
    at_least: int  # no fewer are enough
    smallest_first: int  # how many it takes if the numbers of the fewest rows are withheld first


class DesignedBudget(_Part):
    """What the designed noise costs of the budget, for the releases that the budget pays for."""

    accountant: str
    epsilon: float  # what the plan allows
    delta: float
    epsilon_spent: float  # of the designed noise, under the accountant
    price: float  # the budget's share of the noise; with the prices of the attacks it sums to 1


class TradeOff(_Part):
    """The loss with which everyone keeps another limit, by a quick design and by a common factor."""

    limit: float
    loss_designed: float
    loss_with_common_factor: float


class DesignResult(_Part):
    """The least noise with which everyone keeps the limit, and how it compares. Owner-only."""

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
    trade_off: Annotated[tuple[TradeOff, ...], Many] = ()  # by limit; empty unless it was asked for

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
