"""The noise that a plan states for a release: its law, and how much, for each number by itself if need be.

Noise by number is a list, or a CSV file beside the plan. A file has a header. One column is called
``stddev``, one may be called ``label``, and the others are the values of the group in the order of GROUP BY,
under the names of its columns. It is read when the plan is: from then on the plan holds the numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    WithJsonSchema,
    model_validator,
)

from sightline.auditing.plan_fields import LARGEST, SMALLEST, Positive, Section, without_default
from sightline.auditing.running import Mechanism, MechanismName, with_table
from sightline.errors import InvalidPlan, require
from sightline.noise.published import PublishedLaw, noise_stddev
from sightline.tables.engines.address import csv_lines, named_file
from sightline.tables.sql.reader import ReleaseQuery

_SIZES = ("stddev", "noise_multiplier", "epsilon", "by_cell")
_LARGEST_FILE = 64_000_000  # bytes: about a million numbers
_PLAIN_COLUMN = re.compile(r'"data"\."((?:[^"]|"")*)"')  # a key that is a column as it is
_ROW = "rows of the values of a group, the label of an aggregate where there are several, and a stddev"

_TEXT_OR_NUMBER = {"anyOf": [{"type": "string"}, {"type": "number"}]}

Name = tuple[str, ...]  # the values of a number's group; then its label, where the release has several


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseByCell:
    """The standard deviation of each number by its name, or the file that has them."""

    stddevs: tuple[tuple[Name, float], ...] = ()
    file: str = ""  # a CSV file that was not read yet
    columns: tuple[str, ...] = ()  # what the columns of the key are called in it; compared with GROUP BY

    def __bool__(self) -> bool:
        return bool(self.stddevs or self.file)

    def times(self, factor: float) -> NoiseByCell:
        """All of it times a factor."""
        return NoiseByCell(stddevs=tuple((name, stddev * factor) for name, stddev in self.stddevs))

    def without(self, numbers: Iterable[tuple[Name, str]]) -> NoiseByCell:
        """Without some numbers, each given by its key and label."""
        left = dict(self.stddevs)
        for key, label in numbers:
            popped(left, key, names_of(label, grouped=bool(key)))
        return replace(self, stddevs=tuple(left.items()))


def _by_cell(value: object) -> NoiseByCell:
    """A file's name, or rows that end with a standard deviation."""
    if isinstance(value, NoiseByCell):
        return value
    if isinstance(value, str) and value:
        return NoiseByCell(file=value)
    rows = value if isinstance(value, list | tuple) else ("",)
    good = all(isinstance(row, list | tuple) and row for row in rows)
    good = good and all(isinstance(text, str) for row in rows for text in row[:-1])
    good = good and all(isinstance(row[-1], int | float) for row in rows)
    require(bool(good), f"a file or {_ROW}", got="another value", error=InvalidPlan)
    return _checked([(tuple(row[:-1]), _number(row[-1], _ROW)) for row in rows], "by_cell")


def _checked(stddevs: list[tuple[Name, float]], where: str) -> NoiseByCell:
    require(
        len({name for name, _ in stddevs}) == len(stddevs),
        f"each published number once in {where}",
        got="one twice",
        error=InvalidPlan,
    )
    return NoiseByCell(stddevs=tuple(stddevs))


def _written(noise: NoiseByCell) -> str | list[list[str | float]]:
    return noise.file or [[*name, stddev] for name, stddev in noise.stddevs]


ByCell = Annotated[
    NoiseByCell,
    PlainValidator(_by_cell),
    PlainSerializer(_written, return_type=str | list[list[str | float]]),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "minLength": 1},
                {"type": "array", "items": {"type": "array", "items": _TEXT_OR_NUMBER}},
            ]
        }
    ),
]


_SCALE = "Of laplace or geometric noise its scale b, as libraries say it, in place of stddev."


def _stddev_or_scale(schema: dict[str, Any]) -> None:
    """Say in the JSON Schema that a scale may take the place of the standard deviation."""
    fields, scale = schema["properties"], {"description": _SCALE, "title": "Scale", "type": "number"}
    first = {name: fields.pop(name) for name in ("law", "label", "stddev")}
    schema["properties"] = {**first, "scale": {**scale, "exclusiveMinimum": 0}, **fields}


class ReleaseNoise(Section):
    """The noise on the numbers of a release, or of one of its aggregates."""

    model_config = ConfigDict(json_schema_extra=_stddev_or_scale)

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
    by_cell: ByCell = Field(
        default=NoiseByCell(),
        json_schema_extra=without_default,
        description="The standard deviation of each published number by itself: rows of the values of its "
        "group, its label where the release has several aggregates, and the stddev; or a CSV file with "
        "columns for the values of the group, one called stddev, and one called label. A relative path "
        "starts from the plan's folder.",
    )
    mechanism: MechanismName = Field(
        default=Mechanism(),
        json_schema_extra=without_default,
        description="What draws Gaussian noise that the numbers share: by name for running sums, or by the "
        "file of its strategy, a row for each noise and a column for each number in the order of its key. "
        "Then stddev is that of each noise.",
    )

    @model_validator(mode="before")
    @classmethod
    def _of_scale(cls, content: Any) -> Any:
        """A scale is another name of the standard deviation: √2 b for laplace, 1/(√2 sinh 1/2b) for
        geometric noise.
        """
        if not isinstance(content, dict) or "scale" not in content:
            return content
        given = {name: value for name, value in content.items() if name != "scale"}
        scale, law = content["scale"], given.get("law")
        pure = [one for one in PublishedLaw if one.pure]
        require(
            law in pure and "stddev" not in given,
            "scale with law = 'laplace' or 'geometric', in place of stddev",
            got="stddev and scale" if law in pure else f"law = {str(law or 'gaussian')[:40]!r}",
            fix="of gaussian noise say stddev",
            error=InvalidPlan,
        )
        b = np.array(_number(scale, "scale: a number"))
        return {**given, "stddev": float(noise_stddev(PublishedLaw(str(law)), b))}

    @model_validator(mode="after")
    def _mechanism_is_consistent(self) -> ReleaseNoise:
        require(
            not self.mechanism or (self.law is PublishedLaw.GAUSSIAN and not self.by_cell),
            "a mechanism with gaussian noise of one size",
            got="by_cell" if self.by_cell else f"law = {self.law.value!r}",
            error=InvalidPlan,
        )
        return self

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
        return self

    def on(self, names: tuple[str, ...]) -> bool:
        """Whether it is the noise on an aggregate, by any of its names (:func:`names_of`)."""
        return not self.label or self.label in names

    def times(self, factor: float) -> ReleaseNoise:
        """The noise times a factor; a share of a budget stays what it is."""
        sizes = {name: getattr(self, name) for name in ("stddev", "noise_multiplier")}
        scaled = {name: size * factor for name, size in sizes.items() if size is not None}
        return self.model_copy(update={**scaled, "by_cell": self.by_cell.times(factor)})


def names_of(label: str, *, grouped: bool) -> tuple[str, ...]:
    """What an aggregate may be called: its label, and for groups the label without the columns of GROUP BY.

    >>> names_of("total by region", grouped=True), names_of("total by region", grouped=False)
    (('total by region', 'total'), ('total by region',))
    """
    short = label.rpartition(" by ")[0] if grouped else ""
    return (label, short) if short else (label,)


def number_name(key: Name, label: str) -> Name:
    """What a plan calls a number: the values of its group, and its label if it has one."""
    return (*key, label) if label else key


def noise_on(noises: tuple[ReleaseNoise, ...], names: tuple[str, ...]) -> ReleaseNoise | None:
    """The noise on an aggregate: the one with its full label, if there is one."""
    own = [noise for noise in noises if noise.on(names)]
    return next((noise for noise in own if noise.label == names[0]), own[0] if own else None)


def _listed(value: Any) -> Any:
    """One section is a list of one; the name of a law alone says too little."""
    if isinstance(value, str):
        laws = [one.value for one in PublishedLaw]
        known = value if value in laws else "laplace"
        size = {"none": "", "laplace": ", scale = 10", "geometric": ", scale = 10"}.get(
            known, ", stddev = 10"
        )
        require(
            False,
            f'noise with how much of it: noise = {{ law = "{known}"{size} }}',
            got=f"the text {value[:40]!r}",
            fix=f"laws are {', '.join(laws)}; how much is scale, stddev, noise_multiplier or epsilon",
            error=InvalidPlan,
        )
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


def with_file(noise: ReleaseNoise, release: str, base: Path) -> ReleaseNoise:
    """The noise with the contents of its file, if it names one; relative paths start from ``base``."""
    if noise.mechanism.file:
        return noise.model_copy(update={"mechanism": with_table(noise.mechanism, release, base)})
    if not noise.by_cell.file:
        return noise
    where = f"release {release[:60]!r}: noise file {Path(noise.by_cell.file).name[:60]!r}"
    what = f"{where}: a CSV file"
    lines = csv_lines(named_file(noise.by_cell.file, base, what), what, most=_LARGEST_FILE)
    header = [name.strip() for name in lines[0]] if lines else []
    require(
        len(set(header)) == len(header) and "stddev" in header and "" not in header,
        f"{where}: a header with names of their own, one of them stddev",
        got=f"{len(header)} columns" + ("" if "stddev" in header else " without stddev"),
        error=InvalidPlan,
    )
    columns = [name for name in header if name not in ("stddev", "label")]
    stddevs = []
    for number, line in enumerate(lines[1:], start=2):
        if not line:
            continue
        require(
            len(line) == len(header),
            f"{where}: {len(header)} values in line {number}",
            got=len(line),
            error=InvalidPlan,
        )
        row = dict(zip(header, line, strict=True))
        name = number_name(tuple(row[column] for column in columns), row.get("label", ""))
        stddevs.append((name, _number(row["stddev"], f"{where}: line {number}: a stddev")))
    require(bool(stddevs), f"{where}: a line for each published number", got="none", error=InvalidPlan)
    read = _checked(stddevs, where)
    return noise.model_copy(update={"by_cell": NoiseByCell(stddevs=read.stddevs, columns=tuple(columns))})


def _number(given: object, where: str) -> float:
    """A standard deviation: a number of a plan, or a text of a file."""
    try:
        value = float(given) if isinstance(given, str | int | float) else float("nan")
    except (ValueError, OverflowError):
        value = float("nan")
    require(
        SMALLEST <= value <= LARGEST and not isinstance(given, bool),
        f"{where} between {SMALLEST:g} and {LARGEST:g}",
        got="another value" if value != value or isinstance(given, bool) else f"{value:g}",
        fix="a number that is published exactly has law = 'none'",
        error=InvalidPlan,
    )
    return value


def check_key_columns(release: str, noises: tuple[ReleaseNoise, ...], query: ReleaseQuery) -> None:
    """Refuse a noise file whose columns are not those of GROUP BY, in its order.

    A key that is an expression may have any name.
    """
    for noise in noises:
        columns = noise.by_cell.columns
        for part in query.partitions if columns else ():
            if noise_on(noises, names_of(part.label, grouped=bool(part.keys))) is not noise:
                continue
            plain = [_PLAIN_COLUMN.fullmatch(key) for key in part.keys]
            named = [None if one is None else one.group(1).replace('""', '"') for one in plain]
            agree = len(named) == len(columns) and all(
                name is None or name == given for name, given in zip(named, columns, strict=True)
            )
            require(
                agree,
                f"release {release[:60]!r}: a noise file with the columns of GROUP BY, in its order: "
                + (", ".join(name or "an expression" for name in named) or "none"),
                got=", ".join(columns)[:200],
                error=InvalidPlan,
            )


def popped(stddevs: dict[Name, float], key: Name, labels: tuple[str, ...]) -> float | None:
    """Take the standard deviation of a number out of some; none if there is none for it."""
    names = [*(number_name(key, label) for label in labels), key]
    return next((stddevs.pop(name) for name in names if name in stddevs), None)
