"""The parts that every section of a result is made of: frozen models, and the bracket on what remains."""

from __future__ import annotations

import math
from typing import Any

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    computed_field,
    model_validator,
)

from sightline.format import percent_bracket

_NOT_FINITE = ("Infinity", "-Infinity", "NaN")
Many = Field(strict=False)  # a JSON list is a tuple here


class ResultPart(BaseModel):
    """A frozen part of a result. Reading one back accepts no field that it does not know."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, defer_build=True)

    @model_validator(mode="before")
    @classmethod
    def _infinite(cls, content: Any) -> Any:
        """Numbers that are not finite, from the strings that JSON has for them."""
        if not isinstance(content, dict):
            return content
        found: dict[str, Any] = {}
        for name, value in content.items():
            if isinstance(value, str) and value in _NOT_FINITE and cls._is(name, float, float | None):
                found[name] = float(value)
            elif isinstance(value, dict) and cls._is(name, dict[str, float]):
                found[name] = {key: float(one) if one in _NOT_FINITE else one for key, one in value.items()}
        return content | found if found else content

    @classmethod
    def _is(cls, name: str, *annotations: Any) -> bool:
        field = cls.model_fields.get(name)
        return field is not None and field.annotation in annotations


class Uncertainty(ResultPart):
    """A bracket on the share of the prior variance that the best attack leaves; 1: nothing learned.

    No attack leaves less than ``lower``, on average over the result's ``prior``. Limits are shares of the
    variance. The same bracket as a share of the standard deviation is the square root of both ends: that is
    the share of the error bar.
    """

    lower: float
    upper: float

    @model_validator(mode="before")
    @classmethod
    def _recompute(cls, content: Any) -> Any:
        """The shares of the standard deviation follow from the others, whatever a file says they are."""
        if not isinstance(content, dict):
            return content
        return {key: value for key, value in content.items() if key not in cls.model_computed_fields}

    @computed_field  # type: ignore[prop-decorator]
    @property
    def stddev_lower(self) -> float:
        """The lower end as a share of the prior standard deviation."""
        return math.sqrt(max(self.lower, 0.0))

    @computed_field  # type: ignore[prop-decorator]
    @property
    def stddev_upper(self) -> float:
        """The upper end as a share of the prior standard deviation."""
        return math.sqrt(max(self.upper, 0.0))

    @property
    def of_stddev(self) -> str:
        """The share of the standard deviation in percent, rounded outwards.

        >>> Uncertainty(lower=0.25, upper=0.36).of_stddev
        '50–60 %'
        """
        return percent_bracket(self.stddev_lower, self.stddev_upper)

    def __str__(self) -> str:
        """The share of the variance in percent, rounded outwards.

        >>> str(Uncertainty(lower=0.5361, upper=0.5699))
        '53–57 %'
        """
        return percent_bracket(self.lower, self.upper)
