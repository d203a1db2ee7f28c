"""The kinds of fields that a plan has."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    WithJsonSchema,
)

from sightline.errors import InvalidPlan, require
from sightline.tables.engines.local_tables import InMemoryTable, in_memory

# Squares and quotients of numbers between these stay far from the ends of what a double can hold.
SMALLEST, LARGEST = 1e-50, 1e50

Number = Annotated[float, Field(ge=-LARGEST, le=LARGEST, allow_inf_nan=False)]
Positive = Annotated[float, Field(ge=SMALLEST, le=LARGEST, allow_inf_nan=False)]
Text = Annotated[str, Field(min_length=1)]

# That all of it remains can be shown of nothing that is published.
LARGEST_LIMIT = 0.999


def _share(value: Any) -> Any:
    """50 % as "50%" or 0.5."""
    if isinstance(value, str) and value.strip().endswith("%"):
        try:
            value = round(float(value.strip()[:-1]) / 100, 15)  # 99.9 over 100 is above 0.999 by rounding
        except ValueError:
            return value
    return value


Share = Annotated[
    float,
    BeforeValidator(_share, json_schema_input_type=float | str),
    Field(gt=0, le=LARGEST_LIMIT, allow_inf_nan=False),
]


def _row_values(value: Any) -> Any:
    """How the values of one record's rows hang together."""
    require(
        value != "drifting",
        'values = "constant" or "independent"',
        got='"drifting"',
        fix="what an attacker leaves of rows that change slowly is not proved here. It takes a stated bound "
        "on the change from one row to the next, and features that compare rows would still keep nothing "
        'against an attacker who is told every change. "constant" is for that one, of one value a record; '
        '"independent" is for one who does not use that neighbours are alike',
        error=InvalidPlan,
    )
    return value


RowValuesKind = Annotated[Literal["constant", "independent"] | None, BeforeValidator(_row_values)]


def _source(value: object) -> str | InMemoryTable:
    """A file or an address as text, or a table that the caller holds in memory."""
    if isinstance(value, InMemoryTable):
        return value
    if isinstance(value, int | float | dict):  # what TOML can hold
        got = "a section" if isinstance(value, dict) else value
        require(False, "text in quotes", got=got, error=InvalidPlan)
    if not isinstance(value, str):
        return in_memory(value)
    require(bool(value), "text, not an empty string", got="''", error=InvalidPlan)
    return value


Source = Annotated[
    str | InMemoryTable,
    PlainValidator(_source),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "minLength": 1}),
]


def _number_name(value: Any) -> Any:
    """One text is a name of one part."""
    require(
        not isinstance(value, dict),
        'the values of the group, and the label where there are several aggregates: ["north", "total"]',
        got="a section",
        error=InvalidPlan,
    )
    return (value,) if isinstance(value, str) else value


# A published number: the values of its group in the order of GROUP BY, and its label where there are several.
NumberName = Annotated[
    tuple[str, ...],
    BeforeValidator(_number_name, json_schema_input_type=str | list[str]),
    Field(strict=False),
]


def without_default(schema: dict[str, Any]) -> None:
    """Leave a default out of the JSON Schema that JSON cannot say."""
    schema.pop("default", None)


class Section(BaseModel):
    """A section of a plan: its fields are checked strictly, and no others are allowed."""

    model_config = ConfigDict(
        strict=True, extra="forbid", frozen=True, defer_build=True, populate_by_name=True
    )
