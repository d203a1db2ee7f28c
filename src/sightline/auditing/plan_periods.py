"""Budgets over time: a plan whose epsilon is granted again in every period."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

from pydantic import BeforeValidator, Field

from sightline.auditing.plan_fields import PlanSection, Positive, Text

MOST_PERIODS = 10_000


class BudgetPeriod(PlanSection):
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
