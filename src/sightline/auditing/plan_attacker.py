"""The section [attacker] of a plan: what the attacker knows before anything is published."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from pydantic import Field

from sightline.auditing.plan_fields import Positive, Section, Share, Text
from sightline.labeled.bounds.domain import NUMBER_PRIORS

if TYPE_CHECKING:
    PriorName: TypeAlias = str
else:
    PriorName = Literal[tuple(NUMBER_PRIORS)]


class Attacker(Section):
    """What the attacker knows besides who is in which group."""

    prior: PriorName = Field(
        default="uniform",
        description="How a number is spread over its bounds, as far as the attacker knows: evenly (uniform), "
        "likelier in the middle (cos2), or at either end (two-point). What remains is an average over it.",
    )
    knows: Annotated[tuple[Text, ...], Field(strict=False)] = Field(
        default=(), description="Conditions on public columns: the secrets of those rows are known."
    )
    may_know: Annotated[tuple[Text, ...], Field(strict=False)] = Field(
        default=(),
        description="More such conditions, which the audit leaves out and the report's what-if can add.",
    )
    knows_share: Share | None = Field(
        default=None,
        description="A share of the records, drawn by a hash of their keys, whose secrets are known.",
    )
    values_within: Positive | None = Field(
        default=None,
        description="Every value is known to within plus or minus this, before anything is published.",
    )
