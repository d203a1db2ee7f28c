"""The kinds of fields that a plan has."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

# Squares and quotients of numbers between these stay far from the ends of what a double can hold.
SMALLEST, LARGEST = 1e-50, 1e50

Number = Annotated[float, Field(ge=-LARGEST, le=LARGEST, allow_inf_nan=False)]
Positive = Annotated[float, Field(ge=SMALLEST, le=LARGEST, allow_inf_nan=False)]
Text = Annotated[str, Field(min_length=1)]


class PlanSection(BaseModel):
    """A section of a plan: its fields are checked strictly, and no others are allowed."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, populate_by_name=True)
