"""The noise that a plan states for a release; running sums, and the mechanism that draws noise they share.

Noise has a law, and a size: for each number by itself if need be.

``running = { over = "day", from = 1, to = 1024 }`` says that what is published of a release's groups are
their running sums over one column of GROUP BY, from its first step to its last: also of steps that nobody is
in, whose noise tells that of the next. The steps are whole numbers or days.
"""

# Annotations are no texts here: Pydantic would compile each of them when an audit starts.

import datetime
import math
import re
from collections.abc import Collection, Iterable
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Self

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

from sightline.arrays import FloatArray
from sightline.auditing.plan_fields import LARGEST, SMALLEST, Positive, Section, without_default
from sightline.errors import InvalidNoise, InvalidPlan, require_plan
from sightline.noise.count_rules import CountRule, PerturbationTable, Rounding
from sightline.noise.strategies import MECHANISMS, Strategy
from sightline.privacy.law import Law
from sightline.tables.engines.address import LARGEST_FILE, csv_lines, named_file
from sightline.values import frozen

MOST_STEPS = 20_000  # a matrix over them takes 3 GB
_WHOLE = re.compile(r"-?\d+")
_Step = int | datetime.date


@frozen(eq=True)
class Running:
    """The steps of running sums: the values of a column of GROUP BY from the first to the last."""

    over: str = ""  # none: the numbers themselves are published
    first: _Step = 0
    last: _Step = 0
    min_separation: int = 0  # steps between two rows of a record, at least; 0 if nothing is said

    def __bool__(self) -> bool:
        return bool(self.over)

    @property
    def steps(self) -> int:
        """How many there are."""
        return self.place(self.last) + 1

    def place(self, step: _Step) -> int:
        """The place of a step among all."""
        if isinstance(step, int) and isinstance(self.first, int):
            return step - self.first
        assert isinstance(step, datetime.date)
        assert isinstance(self.first, datetime.date)
        return (step - self.first).days

    def place_of_text(self, text: str) -> int:
        """The place of a value of the column, as engines write it: a ValueError if it is no step."""
        if isinstance(self.first, int):
            if not _WHOLE.fullmatch(text) or len(text) > 20:
                raise ValueError
            return self.place(int(text))
        day, _, time = text.partition(" ")
        if time.strip("0:. "):  # a time of day is no step
            raise ValueError
        return self.place(datetime.date.fromisoformat(day))

    def text(self, place: int) -> str:
        """What the column holds in a step."""
        if isinstance(self.first, int):
            return str(self.first + place)
        return (self.first + datetime.timedelta(days=place)).isoformat()


def _step(value: object, name: str) -> _Step:
    if isinstance(value, str):
        try:
            value = datetime.date.fromisoformat(value)
        except ValueError:
            value = None
    good = isinstance(value, int | datetime.date) and not isinstance(value, bool | datetime.datetime)
    require_plan(
        good and (not isinstance(value, int) or abs(value) < 10**15),
        f"{name}: a whole number or a day, such as 1 or 2026-01-31",
        got="another value",
        fix="steps need an order without gaps; number them in the table",
    )
    assert isinstance(value, int | datetime.date)
    return value


def _running(value: object) -> Running:
    """The section as it is written."""
    if isinstance(value, Running):
        return value
    names = {"over", "from", "to", "min_separation"}
    given = set(value) if isinstance(value, dict) else set()
    require_plan(
        isinstance(value, dict) and given <= names and {"over", "from", "to"} <= given,
        'over, from and to, such as { over = "day", from = 1, to = 365 }, and perhaps min_separation',
        got=", ".join(sorted(map(str, given)))[:80] or "another value",
    )
    assert isinstance(value, dict)
    over, separation = value["over"], value.get("min_separation", 0)
    require_plan(isinstance(over, str) and bool(over), "over: a column of GROUP BY", got="another")
    first, last = _step(value["from"], "from"), _step(value["to"], "to")
    require_plan(
        isinstance(first, int) == isinstance(last, int),
        "from and to of one kind",
        got="a whole number and a day",
    )
    require_plan(
        isinstance(separation, int) and not isinstance(separation, bool) and 0 <= separation <= 10**9,
        "min_separation: a whole number of steps",
        got="another value",
    )
    running = Running(over=over, first=first, last=last, min_separation=separation)
    require_plan(
        1 <= running.steps <= MOST_STEPS,
        f"from one to {MOST_STEPS:,} steps",
        got=f"{running.steps:,}",
    )
    return running


def _written(running: Running) -> dict[str, Any] | None:
    if not running:
        return None
    ends = [end if isinstance(end, int) else end.isoformat() for end in (running.first, running.last)]
    separation = {"min_separation": running.min_separation} if running.min_separation else {}
    return {"over": running.over, "from": ends[0], "to": ends[1], **separation}


_STEP = {"anyOf": [{"type": "integer"}, {"type": "string", "format": "date"}]}
RunningSums = Annotated[
    Running,
    PlainValidator(_running),
    PlainSerializer(_written, return_type=dict[str, Any] | None),
    WithJsonSchema(
        {
            "type": "object",
            "properties": {
                "over": {"type": "string", "minLength": 1},
                "from": _STEP,
                "to": _STEP,
                "min_separation": {"type": "integer", "minimum": 0},
            },
            "required": ["over", "from", "to"],
            "additionalProperties": False,
        }
    ),
]


@frozen(slots=False)
class Mechanism:
    """A mechanism by its name, or by the file that has its strategy."""

    name: str = ""
    file: str = ""
    table: FloatArray | None = None  # read from the file

    def __bool__(self) -> bool:
        return bool(self.name or self.file)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mechanism) and (self.name, self.file) == (other.name, other.file)

    def __hash__(self) -> int:
        return hash((self.name, self.file))

    def strategy(self, steps: int, *, running: bool) -> Strategy:
        """Over so many steps; a mistake is one line."""
        if (key := (steps, running)) not in self._made:
            self._made[key] = (
                Strategy.named(self.name, steps)
                if self.table is None
                else Strategy(table=self.table, running=running, checked=True)
            )
        strategy = self._made[key]
        require_plan(
            strategy.steps == steps,
            f"a strategy with a column for each of {steps:,} numbers, also of those that nobody is in",
            got=f"{strategy.steps:,} columns",
        )
        return strategy

    @cached_property
    def _made(self) -> dict[tuple[int, bool], Strategy]:
        return {}


def _mechanism(value: object) -> Mechanism:
    if isinstance(value, Mechanism):
        return value
    if is_strategy_file(value):
        return Mechanism(file=str(value))
    require_plan(
        isinstance(value, str) and value in (*MECHANISMS, ""),
        f"one of {', '.join(MECHANISMS)}, or the .npy file of its strategy",
        got=repr(value[:40]) if isinstance(value, str) else "another value",
    )
    return Mechanism(name=str(value))


class Perturbation(NamedTuple):
    """The file of a p-table, and its lines once it is read."""

    file: str = ""
    table: PerturbationTable = PerturbationTable()

    def __bool__(self) -> bool:
        return bool(self.file)


def _perturbation(value: object) -> Perturbation:
    if isinstance(value, Perturbation):
        return value
    require_plan(
        isinstance(value, str) and value.lower().endswith(".csv"),
        "the .csv file of a p-table",
        got=repr(value[:40]) if isinstance(value, str) else "another value",
    )
    return Perturbation(str(value))


PerturbationFile = Annotated[
    Perturbation,
    PlainValidator(_perturbation),
    PlainSerializer(lambda one: one.file, return_type=str),
    WithJsonSchema({"type": "string", "pattern": "\\.[cC][sS][vV]$"}),
]
_COLUMNS = ("count", "change", "chance")


def with_perturbation(stated: Perturbation, release: str, base: Path) -> Perturbation:
    """The p-table of the file, if one is named; relative paths start from ``base``."""
    if not stated or stated.table:
        return stated
    where = f"release {release[:60]!r}: p-table {Path(stated.file).name[:60]!r}"
    lines = csv_lines(named_file(stated.file, base, f"{where}: a CSV file"), where, most=LARGEST_FILE)
    header = [name.strip() for name in lines[0]] if lines else []
    require_plan(
        all(header.count(name) == 1 for name in _COLUMNS),
        f"{where}: the columns count, change and chance, once each",
        got="another header" if header else "an empty file",
    )
    places = [header.index(name) for name in _COLUMNS]
    entries: dict[int, dict[int, float]] = {}
    for number, line in enumerate(lines[1:], start=2):
        if not line:
            continue
        try:
            count, change, chance = (float(line[place]) for place in places)
        except (ValueError, IndexError):
            count = change = chance = math.nan
        require_plan(
            count >= 0 and count.is_integer() and change.is_integer() and abs(change) <= 1e6 and count <= 1e5,
            f"{where}: line {number}: a count from 0 on, a whole change and a chance",
            got="others",
        )
        changes = entries.setdefault(int(count), {})
        require_plan(int(change) not in changes, f"{where}: each change of a count once", got="one twice")
        changes[int(change)] = chance
    return stated._replace(table=PerturbationTable.of(entries, where))


def is_strategy_file(mechanism: object) -> bool:
    """Whether a mechanism is given by the file of its strategy."""
    return isinstance(mechanism, str) and mechanism.lower().endswith(".npy")


MechanismName = Annotated[
    Mechanism,
    PlainValidator(_mechanism),
    PlainSerializer(lambda one: one.file or one.name, return_type=str),
    WithJsonSchema(
        {"anyOf": [{"enum": list(MECHANISMS)}, {"type": "string", "pattern": "\\.[nN][pP][yY]$"}]}
    ),
]


def with_table(mechanism: Mechanism, release: str, base: Path) -> Mechanism:
    """The mechanism with the table of its file, if it names one; relative paths start from ``base``."""
    if not mechanism.file or mechanism.table is not None:
        return mechanism
    where = f"release {release[:60]!r}: strategy file {Path(mechanism.file).name[:60]!r}"
    path = named_file(mechanism.file, base, f"{where}: a .npy file")
    try:
        require_plan(path.is_file(), f"{where}: a file", got="none")
        require_plan(
            path.stat().st_size <= 10 * MOST_STEPS**2,  # a square table of doubles, and some more
            f"{where}: at most {10 * MOST_STEPS**2:,} bytes",
            got=f"{path.stat().st_size:,}",
        )
        table = np.load(path, allow_pickle=False, mmap_mode=None)
    except InvalidPlan:
        raise
    except OSError as error:
        raise InvalidPlan(f"{where}: expected a file that can be read, got: {error.strerror}") from None
    except (ValueError, EOFError, OverflowError, MemoryError):
        raise InvalidPlan(f"{where}: expected an array as numpy.save writes it, got another file") from None
    good = isinstance(table, np.ndarray) and table.ndim == 2 and table.dtype.kind in "fiub"
    require_plan(good, f"{where}: a table of numbers", got="another array")
    try:
        read = Strategy(table=np.asarray(table, dtype=np.float64)).table
    except (InvalidNoise, ValueError, np.linalg.LinAlgError) as error:
        raise InvalidPlan(f"{where}: {error}") from None
    return replace(mechanism, table=read)


_SIZES = ("stddev", "noise_multiplier", "epsilon", "by_cell")
_ROW = "rows of the values of a group, the label of an aggregate where there are several, and a stddev"

_TEXT_OR_NUMBER = {"anyOf": [{"type": "string"}, {"type": "number"}]}

Name = tuple[str, ...]  # the values of a number's group; then its label, where the release has several


StddevByNumber = tuple[tuple[Name, float], ...]  # of each number by its name


def _by_cell(value: object) -> StddevByNumber:
    """Rows that end with a standard deviation."""
    rows = value if isinstance(value, list | tuple) else ("",)
    if rows and all(isinstance(row, tuple) and len(row) == 2 and isinstance(row[0], tuple) for row in rows):
        return tuple(rows)  # as it was read before
    good = all(isinstance(row, list | tuple) and row for row in rows)
    good = good and all(isinstance(text, str) for row in rows for text in row[:-1])
    good = good and all(isinstance(row[-1], int | float) for row in rows)
    require_plan(bool(good), _ROW, got="another value", fix="of a file of noise, write its rows here")
    stddevs = [(tuple(row[:-1]), _number(row[-1], _ROW)) for row in rows]
    names = {name for name, _ in stddevs}
    require_plan(len(names) == len(stddevs), "each published number once in by_cell", got="one twice")
    return tuple(stddevs)


ByCell = Annotated[
    StddevByNumber,
    PlainValidator(_by_cell),
    PlainSerializer(
        lambda rows: [[*name, stddev] for name, stddev in rows], return_type=list[list[str | float]]
    ),
    WithJsonSchema({"type": "array", "items": {"type": "array", "items": _TEXT_OR_NUMBER}}),
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

    law: Annotated[Law, Field(strict=False)] = Field(
        default=Law.GAUSSIAN,
        description="gaussian, laplace, discrete-gaussian or geometric (whole numbers), or none: exact. Of "
        "counts also rounding, within (nothing is known but the interval) and cell-key.",
    )
    label: str = Field(
        default="", description="Which of the release's aggregates it is on; all of them unless given."
    )
    stddev: Positive = Field(
        default=0.0,
        json_schema_extra=without_default,
        description="Its standard deviation on each number; of discrete-gaussian noise the parameter sigma.",
    )
    noise_multiplier: Positive = Field(
        default=0.0,
        json_schema_extra=without_default,
        description="Noise over sensitivity: the standard deviation or sigma in L2, the Laplace or geometric "
        "scale in L1.",
    )
    epsilon: Positive = Field(
        default=0.0,
        json_schema_extra=without_default,
        description="A share of the budget of its own, for all copies and aggregates that it is on.",
    )
    by_cell: ByCell = Field(
        default=(),
        json_schema_extra=without_default,
        description="The standard deviation of each published number by itself: rows of the values of its "
        "group, its label where the release has several aggregates, and the stddev.",
    )
    to: Annotated[int, Field(ge=2, le=1_000_000)] = Field(
        default=1,
        json_schema_extra=without_default,
        description="Of law = 'rounding' the base: counts are published as multiples of it.",
    )
    how: Annotated[Rounding, Field(strict=False)] = Field(
        default=Rounding.NEAREST,
        description="Where rounding takes a count: to the nearest multiple (half of the base goes up), up, "
        "down, or at random to either neighbour with chances that keep the mean.",
    )
    of: Positive = Field(
        default=0.0,
        json_schema_extra=without_default,
        description="Of law = 'within': a published number is known to be within plus or minus this.",
    )
    ptable: PerturbationFile = Field(
        default=Perturbation(),
        json_schema_extra=without_default,
        description="Of law = 'cell-key': a CSV file with the columns count, change and chance, a line for "
        "each change that a count may get; the largest count stands for all above it.",
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
        pure = [one for one in Law if one.pure]
        require_plan(
            law in pure and "stddev" not in given,
            "scale with law = 'laplace' or 'geometric', in place of stddev",
            got="stddev and scale" if law in pure else f"law = {str(law or 'gaussian')[:40]!r}",
            fix="of gaussian noise say stddev",
        )
        b = np.array(_number(scale, "scale: a number"))
        return {**given, "stddev": float(Law(str(law)).facts.stddev(b))}

    @model_validator(mode="after")
    def _mechanism_is_consistent(self) -> Self:
        require_plan(
            not self.mechanism or (self.law is Law.GAUSSIAN and not self.by_cell),
            "a mechanism with gaussian noise of one size",
            got="by_cell" if self.by_cell else f"law = {self.law.value!r}",
        )
        return self

    @model_validator(mode="after")
    def _says_how_much_once(self) -> Self:
        given = [name for name in _SIZES if getattr(self, name)]
        given += [name for name in ("of", "ptable") if getattr(self, name)] + ["to"] * (self.to > 1)
        size = self.law.facts.size
        expected = f"one of {', '.join(_SIZES)}"
        if self.law.exact:
            expected = f"{size or 'nothing but the law'} with law = {self.law.value!r}"
        require_plan(
            given == [size] * bool(size) if self.law.exact else len(given) == 1 and given[0] in _SIZES,
            expected,
            got=" and ".join(given) or "none",
        )
        require_plan(
            self.law is Law.ROUNDING or self.how is Rounding.NEAREST,
            "how with law = 'rounding'",
            got=f"law = {self.law.value!r}",
        )
        return self

    @property
    def exact(self) -> bool:
        """Whether no noise is added, though a rule may change counts."""
        return self.law.exact

    @property
    def count_rule(self) -> CountRule:
        """How counts are published, apart from blanks."""
        return CountRule(to=self.to, how=self.how, within=self.of, table=self.ptable.table)

    @property
    def sized(self) -> bool:
        """Whether it says how much noise there is; else it is exact, or what a budget buys."""
        return any(getattr(self, name) for name in _SIZES)

    def on(self, names: tuple[str, ...]) -> bool:
        """Whether it is the noise on an aggregate, by any of its names (:func:`names_of`)."""
        return not self.label or self.label in names

    def times(self, factor: float) -> Self:
        """The noise times a factor; a share of a budget stays what it is."""
        scaled = {name: getattr(self, name) * factor for name in ("stddev", "noise_multiplier")}
        by_cell = tuple((name, stddev * factor) for name, stddev in self.by_cell)
        return self.model_copy(update={**scaled, "by_cell": by_cell})

    def not_on(self, labels: Collection[str]) -> Self:
        """Without the noise by cell of some aggregates."""
        left = (row for row in self.by_cell if not is_about(row[0], labels))
        return self.model_copy(update={"by_cell": tuple(left)})

    def without(self, numbers: Iterable[tuple[Name, str]]) -> Self:
        """Without the noise by cell of some numbers, each given by its key and label."""
        left = dict(self.by_cell)
        for key, label in numbers:
            popped(left, key, names_of(label, grouped=bool(key)))
        return self.model_copy(update={"by_cell": tuple(left.items())})


def names_of(label: str, *, grouped: bool) -> tuple[str, ...]:
    """What an aggregate may be called: its label, and for groups the label without the columns of GROUP BY.

    >>> names_of("total by region", grouped=True), names_of("total by region", grouped=False)
    (('total by region', 'total'), ('total by region',))
    """
    short = label.rpartition(" by ")[0] if grouped else ""
    return (label, short) if short else (label,)


def is_about(name: Name, labels: Collection[str]) -> bool:
    """Whether the name of a number ends with one of some labels.

    >>> is_about(("north", "total by region"), {"total"}), is_about(("north",), {"total"})
    (True, False)
    """
    return any(label in labels for label in names_of(name[-1], grouped=True))


def number_name(key: Name, label: str) -> Name:
    """What a plan calls a number: the values of its group, and its label if it has one."""
    return (*key, label) if label else key


def noise_on(noises: tuple[ReleaseNoise, ...], names: tuple[str, ...]) -> list[ReleaseNoise]:
    """The noise on an aggregate, if there is one: the one with its full label first."""
    stated = [noise for noise in noises if noise.on(names)]
    return sorted(stated, key=lambda noise: noise.label != names[0])[:1]


def _listed(value: Any) -> Any:
    """One section is a list of one; the name of a law alone says too little."""
    if isinstance(value, str):
        laws = [one.value for one in Law]
        known = value if value in laws else "laplace"
        size = {"none": "", "laplace": ", scale = 10", "geometric": ", scale = 10"}.get(
            known, ", stddev = 10"
        )
        require_plan(
            False,
            f'noise with how much of it: noise = {{ law = "{known}"{size} }}',
            got=f"the text {value[:40]!r}",
            fix=f"laws are {', '.join(laws)}; how much is scale, stddev, noise_multiplier or epsilon",
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
    require_plan(
        len(set(labels)) == len(labels) and ("" not in labels or len(labels) == 1),
        "noise for all aggregates of a release, or once for each label",
        got="several for one",
    )


def _number(given: object, where: str) -> float:
    """A standard deviation, or a scale."""
    try:
        value = float(given) if isinstance(given, int | float) else float("nan")
    except OverflowError:
        value = float("nan")
    require_plan(
        SMALLEST <= value <= LARGEST and not isinstance(given, bool),
        f"{where} between {SMALLEST:g} and {LARGEST:g}",
        got="another value" if value != value or isinstance(given, bool) else f"{value:g}",
        fix="a number that is published exactly has law = 'none'",
    )
    return value


def popped(stddevs: dict[Name, float], key: Name, labels: tuple[str, ...]) -> list[float]:
    """Take the standard deviation of a number out of some, if there is one for it."""
    names = [*(number_name(key, label) for label in labels), key]
    return [stddevs.pop(name) for name in names if name in stddevs][:1]
