"""The kinds of fields that a plan has.

A population that a plan states: the histogram in a CSV file with the columns low, high and weight.

It is what an attacker knows beforehand, from public statistics, and never made from the table. A line is a
bin of values, or one value if its ends are equal; weights are counts or shares.
"""

# Annotations are no texts here: Pydantic would compile each of them when an audit starts.

import math
import re
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self, TypeGuard

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    WithJsonSchema,
    model_validator,
)

from sightline.arrays import MOST_COMPARED
from sightline.bounds.by_pairs import LEAST_SPREAD, Bin, PopulationPrior
from sightline.errors import require_plan
from sightline.tables.engines.address import LARGEST_FILE, csv_lines, named_file
from sightline.tables.engines.local_tables import InMemoryTable, in_memory

# Squares and quotients of numbers between these stay far from the ends of what a double can hold.
SMALLEST, LARGEST = 1e-50, 1e50

Number = Annotated[float, Field(ge=-LARGEST, le=LARGEST, allow_inf_nan=False)]
Positive = Annotated[float, Field(ge=SMALLEST, le=LARGEST, allow_inf_nan=False)]
Text = Annotated[str, Field(min_length=1)]

SUFFIX = ".sql"
_BEGINS = re.compile(r"\s*(\(|--|/\*|(select|with|from|pivot)\s)", re.IGNORECASE)  # a query, no file


def is_query_file(sql: object) -> TypeGuard[str]:
    """Whether a release's sql is the name of a file that has it.

    >>> is_query_file("queries/with tax.sql"), is_query_file("SELECT SUM(x) FROM data.sql")
    (True, False)
    """
    return isinstance(sql, str) and sql.lower().endswith(SUFFIX) and _BEGINS.match(sql) is None


# That all of it remains can be shown of nothing that is published.
LARGEST_LIMIT = 0.999
MOST_TIMES = 100_000  # publications of one release


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
    require_plan(
        value != "drifting",
        'values = "any", "constant" or "independent"',
        got='"drifting"',
        fix="what an attacker leaves of rows that change slowly is not proved here. It takes a stated bound "
        "on the change from one row to the next, and features that compare rows would still keep nothing "
        'against an attacker who is told every change. "any" audits both ends: one level for all rows of a '
        "record, with every change known, and rows that have nothing in common",
    )
    return value


RowValuesKind = Annotated[Literal["any", "constant", "independent"], BeforeValidator(_row_values)]


def _source(value: object) -> str | InMemoryTable:
    """A file or an address as text, or a table that the caller holds in memory."""
    if isinstance(value, InMemoryTable):
        return value
    if isinstance(value, int | float | dict):  # what TOML can hold
        got = "a section" if isinstance(value, dict) else value
        require_plan(False, "text in quotes", got=got)
    if not isinstance(value, str):
        return in_memory(value)
    require_plan(bool(value), "text, not an empty string", got="''")
    return value


Source = Annotated[
    str | InMemoryTable,
    PlainValidator(_source),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "minLength": 1}),
]


def _number_name(value: Any) -> Any:
    """One text is a name of one part."""
    require_plan(
        not isinstance(value, dict),
        'the values of the group, and the label where there are several aggregates: ["north", "total"]',
        got="a section",
    )
    return (value,) if isinstance(value, str) else value


# A published number: the values of its group in the order of GROUP BY, and its label where there are several.
NumberName = Annotated[
    tuple[str, ...],
    BeforeValidator(_number_name, json_schema_input_type=str | list[str]),
    Field(strict=False),
]


UNSTATED: Any = ()  # of a pair, or a list, that nobody states


def without_default(schema: dict[str, Any]) -> None:
    """Leave a default out of the JSON Schema that JSON cannot say, or that nobody may write.

    Where nobody states a number it is 0, or what else changes nothing, and a text is empty.
    """
    schema.pop("default", None)


class Section(BaseModel):
    """A section of a plan: its fields are checked strictly, and no others are allowed."""

    model_config = ConfigDict(
        strict=True, extra="forbid", frozen=True, defer_build=True, populate_by_name=True
    )

    @model_validator(mode="before")
    @classmethod
    def _nothing_is_not_stated(cls, content: Any) -> Any:
        """A field that is None, or null in JSON, has its default."""
        if not isinstance(content, dict):
            return content
        return {name: value for name, value in content.items() if value is not None}

    def model_dump(self, **options: Any) -> dict[str, Any]:
        """What is stated: without defaults, which a plan may not state."""
        return super().model_dump(exclude_defaults=True, **options)


_COLUMNS = ("low", "high", "weight")


class Population(NamedTuple):
    """The file of a population, and its bins once it is read; or values that occur, with even chances."""

    file: str  # empty if the plan states the values
    bins: tuple[Bin, ...] = ()

    @property
    def name(self) -> str:
        """What results call it: the file without its folder."""
        return Path(self.file).name or "the stated values"

    @classmethod
    def of_points(cls, stated: object) -> Self:
        """Values that occur, each as likely as any other."""
        listed = stated if isinstance(stated, list | tuple) else ()
        numbers = [one for one in listed if isinstance(one, int | float) and not isinstance(one, bool)]
        points = sorted({float(one) for one in numbers if math.isfinite(one)})
        require_plan(
            len(points) == len(listed) and 1 < len(points) <= MOST_COMPARED,
            f"points: 2 to {MOST_COMPARED:,} different numbers",
            got=f"{len(points):,} among {len(listed):,} entries" if listed else "another value",
        )
        return cls("", tuple((one, one, 1.0) for one in points))

    @property
    def points(self) -> tuple[float, ...]:
        """The values that occur, if it lists single values alone; else none."""
        return tuple(low for low, high, _ in self.bins if low == high) if self.single else ()

    @property
    def single(self) -> bool:
        """Whether all of its bins are single values."""
        return bool(self.bins) and all(low == high for low, high, _ in self.bins)

    def prior(self, bounds: tuple[float, float]) -> PopulationPrior:
        """As a prior between the bounds of a secret."""
        low, high = map(float, bounds)
        return PopulationPrior(low, high, bins=self.bins, source=self.name)

    def covers(self, least: float, greatest: float) -> bool:
        """Whether some value between two others has a weight."""
        return any(low <= greatest and least <= high for low, high, _ in self.bins)

    def over(self, divisor: float) -> Self:
        """The population of a secret in a unit so many times as large; bins stay within its bounds."""
        return self._replace(
            bins=tuple((low / divisor, high / divisor, weight) for low, high, weight in self.bins)
        )


def read_population(stated: Population, base: Path, bounds: tuple[float, float]) -> Population:
    """The population with its bins; relative paths start from ``base``. Bins without weight are left out."""
    where = f"[attacker] prior: {stated.name[:60]!r}"
    what = f"{where}: a CSV file"
    lines = csv_lines(named_file(stated.file, base, what), what, most=LARGEST_FILE)
    header = [name.strip() for name in lines[0]] if lines else []
    missing = [name for name in _COLUMNS if header.count(name) != 1]
    require_plan(
        not missing,
        f"{where}: the columns low, high and weight, once each",
        got=f"a header without {' and '.join(missing)}" if header else "an empty file",
    )
    places = [header.index(name) for name in _COLUMNS]
    numbered = [
        (number, *_bin(line, places, f"{where}: line {number}", bounds))
        for number, line in enumerate(lines[1:], start=2)
        if line
    ]
    bins = sorted((low, high, weight, number) for number, low, high, weight in numbered)
    for (low, high, _, first), (after, end, _, second) in pairwise(bins):
        require_plan(
            high <= after and (low, high) != (after, end),
            f"{where}: bins that do not overlap",
            got=f"those of lines {min(first, second)} and {max(first, second)}",
        )
    kept = tuple((low, high, weight) for low, high, weight, _ in bins if weight > 0)
    require_plan(
        1 < len(kept) <= MOST_COMPARED,
        f"{where}: 2 to {MOST_COMPARED:,} bins of a weight above 0",
        got=f"{len(kept):,}",
    )
    read = stated._replace(bins=kept)
    require_plan(
        math.sqrt(read.prior(bounds).variance) >= LEAST_SPREAD * (bounds[1] - bounds[0]),
        f"{where}: values that differ by a millionth of the bounds or more",
        got="values that are all alike",
        fix="state narrower bounds",
    )
    return read


def _bin(line: list[str], places: list[int], where: str, bounds: tuple[float, float]) -> Bin:
    """The bin of one line."""
    require_plan(max(places) < len(line), f"{where}: a low, a high and a weight", got="fewer")
    low, high, weight = (_number(line[place], where) for place in places)
    require_plan(low <= high, f"{where}: low <= high", got=f"{low:g} and {high:g}")
    require_plan(
        bounds[0] <= low and high <= bounds[1],
        f"{where}: a bin within the bounds of the secret, {bounds[0]:g} to {bounds[1]:g}",
        got=f"{low:g} to {high:g}",
        fix="cut the bin, or state wider bounds",
    )
    require_plan(weight >= 0, f"{where}: a weight >= 0", got=f"{weight:g}")
    return low, high, weight


def _number(text: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    require_plan(math.isfinite(value), f"{where}: finite numbers", got=f"{text[:20]!r}")
    return value
