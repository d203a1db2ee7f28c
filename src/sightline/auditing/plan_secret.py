"""What a secret can be, where its values are, and a second secret of the same table."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Literal

from pydantic import Field, model_validator

from sightline.auditing.plan_fields import SMALLEST, Number, Positive, Section, Text
from sightline.errors import InvalidPlan, require

Bounds = Annotated[tuple[Number, Number], Field(strict=False)]
Categories = Annotated[tuple[str, ...], Field(strict=False, min_length=2)]
Kind = Literal["number", "boolean", "category"]


class OtherSecret(Section):
    """Another secret of the same table: audited if it says what its values can be, else only kept apart."""

    column: Text = Field(description="The column to protect.")
    bounds: Bounds | None = Field(default=None, description="The smallest and largest value of a number.")
    categories: Categories | None = Field(default=None, description="All values of a categorical secret.")
    kind: Kind | None = Field(default=None, description="As in [data].")
    bandwidth: Positive | None = Field(default=None, description="As in [data].")

    @property
    def audited(self) -> bool:
        """Whether releases of the plan are about it."""
        return bool(self.bounds or self.categories or self.kind)

    @model_validator(mode="after")
    def _kind_and_domain_agree(self) -> OtherSecret:
        if self.audited:
            checked_kind(self.kind, self.bounds, self.categories)
        return self


def checked_kind(
    kind: Kind | None, bounds: tuple[float, float] | None, categories: tuple[str, ...] | None
) -> Kind:
    """What a secret is, given or inferred; refuse a domain that does not go with it."""
    known = kind or ("number" if bounds else None) or ("category" if categories else None)
    if known is None:
        raise InvalidPlan(
            "expected bounds for a number, categories for a category, or kind = 'boolean', got none of them; "
            "a guess from the data would reveal them; say what the secret can be"
        )
    require(
        (bounds is not None) == (known == "number"),
        "bounds for a number and for nothing else",
        got=f"kind {known!r} {'with' if bounds else 'without'} bounds",
        error=InvalidPlan,
    )
    require(
        (categories is not None) == (known == "category"),
        "categories for a category and for nothing else",
        got=f"kind {known!r} {'with' if categories else 'without'} categories",
        error=InvalidPlan,
    )
    if bounds is not None:
        low, high = bounds
        require(low < high, "bounds [low, high] with low < high", got=[low, high], error=InvalidPlan)
        require(
            high - low >= SMALLEST,
            f"bounds at least {SMALLEST:g} apart",
            got=[low, high],
            fix="state the secret in another unit",
            error=InvalidPlan,
        )
    if categories is not None:
        twice = [name for name, times in Counter(categories).items() if times > 1]
        require(not twice, "distinct categories", got=f"{twice[:1]} twice", error=InvalidPlan)
    return known
