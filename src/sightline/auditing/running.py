"""Running sums, and the mechanism that draws their noise: as a plan states them.

``running = { over = "day", from = 1, to = 1024 }`` says that what is published of a release's groups are
their running sums over one column of GROUP BY, from its first step to its last: also of steps that nobody is
in, whose noise tells that of the next. The steps are whole numbers or days.
"""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from sightline.arrays import FloatArray
from sightline.errors import InvalidNoise, InvalidPlan, require_plan
from sightline.noise.strategies import MECHANISMS, Strategy
from sightline.tables.engines.address import named_file

MOST_STEPS = 20_000  # a matrix over them takes 3 GB
_LARGEST_FILE = 4_000_000_000  # bytes
_WHOLE = re.compile(r"-?\d+")
_Step = int | datetime.date


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """The steps of running sums: the values of a column of GROUP BY from the first to the last."""

    over: str
    first: _Step
    last: _Step
    min_separation: int = 0  # steps between two rows of a record, at least; 0 if nothing is said

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

    def place_of_text(self, text: str) -> int | None:
        """The place of a value of the column, as engines write it; none if it is no step of this kind."""
        step: _Step
        if isinstance(self.first, int):
            if _WHOLE.fullmatch(text) is None or len(text) > 20:
                return None
            step = int(text)
        else:
            day, _, time = text.partition(" ")
            try:
                step = datetime.date.fromisoformat(day)
            except ValueError:
                return None
            if time.strip("0:. "):  # a time of day is no step
                return None
        return self.place(step)

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
    found = Running(over=over, first=first, last=last, min_separation=separation)
    require_plan(
        1 <= found.steps <= MOST_STEPS,
        f"from one to {MOST_STEPS:,} steps",
        got=f"{found.steps:,}",
    )
    return found


def _written(running: Running) -> dict[str, Any]:
    ends = [end if isinstance(end, int) else end.isoformat() for end in (running.first, running.last)]
    separation = {"min_separation": running.min_separation} if running.min_separation else {}
    return {"over": running.over, "from": ends[0], "to": ends[1], **separation}


_STEP = {"anyOf": [{"type": "integer"}, {"type": "string", "format": "date"}]}
RunningSums = Annotated[
    Running,
    PlainValidator(_running),
    PlainSerializer(_written, return_type=dict[str, Any]),
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


@dataclass(frozen=True, kw_only=True, eq=False)
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
            path.stat().st_size <= _LARGEST_FILE,
            f"{where}: at most {_LARGEST_FILE:,} bytes",
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
