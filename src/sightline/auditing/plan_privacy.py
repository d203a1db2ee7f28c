"""The section [privacy] of a plan: its budget, which may be granted again in every period."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypeAlias

from pydantic import BeforeValidator, Field, model_validator

from sightline.auditing.plan_fields import Positive, Section, Text
from sightline.errors import InvalidPlan, require
from sightline.privacy.registry import ACCOUNTANTS

MOST_PERIODS = 10_000


class BudgetPeriod(Section):
    """One period, such as a month, and the budget of what is published in it."""

    name: Text = Field(description="What releases call it.")
    epsilon: Positive | None = Field(default=None, description="Its epsilon, if not that of [privacy].")
    delta: Annotated[float, Field(gt=0, lt=1)] | None = Field(
        default=None, description="Its delta, if not that of [privacy]."
    )


class PeriodBudget(NamedTuple):
    """The budget that holds in a period."""

    period: str | None  # its name; none if the plan has no periods
    epsilon: float | None
    delta: float | None


def _written_out(value: Any) -> Any:
    """The periods that a number of them, or their names alone, stand for.

    >>> _written_out(2)
    [{'name': '1'}, {'name': '2'}]
    >>> _written_out(["January", {"name": "February", "epsilon": 0.5}])
    [{'name': 'January'}, {'name': 'February', 'epsilon': 0.5}]
    """
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MOST_PERIODS:
        return [{"name": str(number + 1)} for number in range(value)]
    if isinstance(value, list | tuple):
        return [{"name": one} if isinstance(one, str) else one for one in value]
    return value


BudgetPeriods = Annotated[
    tuple[BudgetPeriod, ...],
    BeforeValidator(_written_out, json_schema_input_type=int | list[str | BudgetPeriod]),
    Field(strict=False, max_length=MOST_PERIODS),
]

if TYPE_CHECKING:
    AccountantName: TypeAlias = str
else:
    AccountantName = Literal[tuple(ACCOUNTANTS)]


class Privacy(Section):
    """The budget that the releases without a noise of their own share."""

    epsilon: Positive | None = Field(
        default=None, description="The total epsilon of the plan; with periods, that of each."
    )
    delta: Annotated[float, Field(gt=0, lt=1)] | None = Field(
        default=None,
        description="The total delta; with periods, that of each. Laplace noise needs none.",
    )
    accountant: AccountantName = Field(
        default="zcdp", description="The rule that turns the budget into noise."
    )
    periods: BudgetPeriods = Field(
        default=(),
        description="Periods that each have a budget of their own: how many, their names, or for each its "
        "name, epsilon and delta. A release is published in every period, unless it names one.",
    )
    sensitivity: Literal["memberships", "declared"] = Field(
        default="memberships",
        description="Whether noise is priced for the rows that records have in the groups, which are "
        "public, or for any record of max_rows_per_record rows, wherever these are.",
    )

    @property
    def budgets(self) -> tuple[PeriodBudget, ...]:
        """The budget of every period; one without a name if there are no periods."""
        if not self.periods:
            return (PeriodBudget(None, self.epsilon, self.delta),)
        return tuple(
            PeriodBudget(one.name, one.epsilon or self.epsilon, one.delta or self.delta)
            for one in self.periods
        )

    @model_validator(mode="after")
    def _periods_have_names(self) -> Privacy:
        twice = [name for name, times in Counter(one.name for one in self.periods).items() if times > 1]
        require(not twice, "a name of its own for each period", got=f"{twice[:1]} twice", error=InvalidPlan)
        return self
