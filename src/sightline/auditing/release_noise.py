"""The noise that a plan states for a release: its law, and one of several ways to say how much."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, model_validator

from sightline.auditing.plan_fields import Positive, Section, Text
from sightline.errors import InvalidPlan, require
from sightline.noise.published import PublishedLaw

_SIZES = ("stddev", "noise_multiplier", "epsilon", "rho", "cells", "file")


class CellNoise(Section):
    """The noise on one published number of a release."""

    key: Annotated[tuple[str, ...], Field(strict=False)] = Field(
        default=(), description="The values of the group, in the order of GROUP BY; empty without one."
    )
    label: str = Field(
        default="", description="Which of the release's aggregates it is, if there are several."
    )
    stddev: Positive = Field(description="Standard deviation of the noise on it.")


class ReleaseNoise(Section):
    """The noise on the numbers of a release, or of one of its aggregates."""

    law: Annotated[PublishedLaw, Field(strict=False)] = Field(
        default=PublishedLaw.GAUSSIAN,
        description="gaussian, laplace, discrete-gaussian or geometric (whole numbers), or none: exact.",
    )
    label: str = Field(
        default="", description="Which of the release's aggregates it is on; all of them unless given."
    )
    stddev: Positive | None = Field(
        default=None,
        description="Its standard deviation on each number; of discrete-gaussian noise the parameter sigma.",
    )
    noise_multiplier: Positive | None = Field(
        default=None,
        description="Noise over sensitivity: the standard deviation or sigma in L2, the Laplace or geometric "
        "scale in L1.",
    )
    epsilon: Positive | None = Field(
        default=None,
        description="A share of the budget of its own, for all copies and aggregates that it is on.",
    )
    rho: Positive | None = Field(
        default=None, description="The same as a zCDP parameter, for gaussian and discrete-gaussian noise."
    )
    cells: Annotated[tuple[CellNoise, ...], Field(strict=False)] = Field(
        default=(), description="The standard deviation of each published number by itself."
    )
    file: Text | None = Field(
        default=None,
        description="A CSV file with these: columns for the values of the group, one called stddev, and "
        "one called label where the release has several aggregates. A relative path starts from the plan's "
        "folder.",
    )
    key_columns: Annotated[tuple[str, ...], Field(strict=False)] = Field(
        default=(), description="What the columns of the key are called in that file; compared with GROUP BY."
    )

    @model_validator(mode="after")
    def _says_how_much_once(self) -> ReleaseNoise:
        given = [name for name in _SIZES if getattr(self, name)]
        exact = self.law is PublishedLaw.NONE
        require(
            len(given) == (0 if exact else 1),
            "nothing but the law with law = 'none'" if exact else f"one of {', '.join(_SIZES)}",
            got=" and ".join(given) or "none",
            error=InvalidPlan,
        )
        require(
            self.rho is None or not self.law.pure,
            "rho with gaussian or discrete-gaussian noise",
            got=f"law = {self.law.value!r}",
            fix="say epsilon",
            error=InvalidPlan,
        )
        require_once(self.cells, "cells")
        return self

    def on(self, names: tuple[str, ...]) -> bool:
        """Whether it is the noise on an aggregate, by any of its names (:func:`names_of`)."""
        return not self.label or self.label in names


def names_of(label: str, *, grouped: bool) -> tuple[str, ...]:
    """What an aggregate may be called: its label, and for groups the label without the columns of GROUP BY.

    >>> names_of("total by region", grouped=True), names_of("total by region", grouped=False)
    (('total by region', 'total'), ('total by region',))
    """
    short = label.rpartition(" by ")[0] if grouped else ""
    return (label, short) if short else (label,)


def noise_on(noises: tuple[ReleaseNoise, ...], names: tuple[str, ...]) -> ReleaseNoise | None:
    """The noise on an aggregate: the one with its full label, if there is one."""
    own = [noise for noise in noises if noise.on(names)]
    return next((noise for noise in own if noise.label == names[0]), own[0] if own else None)


def require_once(cells: tuple[CellNoise, ...], field: str) -> None:
    """Refuse two entries for one published number."""
    times = Counter((cell.label, cell.key) for cell in cells)
    require(
        all(number == 1 for number in times.values()),
        f"each published number once in {field}",
        got="one twice",
        error=InvalidPlan,
    )


def _listed(value: Any) -> Any:
    """One section is a list of one."""
    return (value,) if isinstance(value, dict | ReleaseNoise) else value


ReleaseNoises = Annotated[
    tuple[ReleaseNoise, ...],
    BeforeValidator(_listed, json_schema_input_type=ReleaseNoise | list[ReleaseNoise]),
    Field(strict=False),
]


def require_labels(noises: tuple[ReleaseNoise, ...]) -> None:
    """Refuse two noises on one aggregate."""
    labels = [noise.label for noise in noises]
    require(
        len(set(labels)) == len(labels) and ("" not in labels or len(labels) == 1),
        "noise for all aggregates of a release, or once for each label",
        got="several for one",
        error=InvalidPlan,
    )
