"""Values are dataclasses like those that Python makes, only made faster."""

from __future__ import annotations

import copy
import inspect
import pickle
from dataclasses import FrozenInstanceError, dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import pytest

from sightline.values import frozen


@frozen
class Plain:
    """With slots, and equal to itself alone."""

    x: float
    many: list[int] = field(default_factory=list)
    label: str = "none"


@frozen(eq=True)
class Compared:
    """With slots, and equal to others with the same fields."""

    x: float
    note: str = field(default="", compare=False, repr=False)


@frozen(slots=False)
class Computing:
    """With a cached property."""

    x: float
    doubled: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "doubled", 2 * self.x)

    @cached_property
    def trebled(self) -> float:
        return 3 * self.x


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlainTwin:
    """As Python makes ``Plain``."""

    x: float
    many: list[int] = field(default_factory=list)
    label: str = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedTwin:
    """As Python makes ``Compared``."""

    x: float
    note: str = field(default="", compare=False, repr=False)


@dataclass(frozen=True, kw_only=True, eq=False)
class ComputingTwin:
    """As Python makes ``Computing``."""

    x: float
    doubled: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "doubled", 2 * self.x)

    @cached_property
    def trebled(self) -> float:
        return 3 * self.x


def by_pickle(one: object) -> object:
    return pickle.loads(pickle.dumps(one))


TWINS = [(Plain, PlainTwin), (Compared, ComparedTwin), (Computing, ComputingTwin)]


@pytest.mark.parametrize(("ours", "twin"), TWINS)
class TestEveryValueIsAsItsTwin:
    def test_fields_and_texts(self, ours: Any, twin: Any) -> None:
        assert [(f.name, f.type, f.init) for f in fields(ours)] == [
            (f.name, f.type, f.init) for f in fields(twin)
        ]
        assert repr(twin(x=1.5)) == repr(ours(x=1.5)).replace(ours.__name__, twin.__name__)
        assert ours.__init__.__qualname__ == f"{ours.__name__}.__init__"

    def test_what_it_takes(self, ours: Any, twin: Any) -> None:
        mine, his = inspect.signature(ours).parameters, inspect.signature(twin).parameters
        assert [(p.name, p.kind, p.annotation) for p in mine.values()] == [
            (p.name, p.kind, p.annotation) for p in his.values()
        ]
        for arguments in ({}, {"x": 1.0, "unknown": 2}):
            with pytest.raises(TypeError):
                ours(**arguments)
            with pytest.raises(TypeError):
                twin(**arguments)
        with pytest.raises(TypeError):
            ours(1.0)

    def test_equality_and_hashes(self, ours: Any, twin: Any) -> None:
        pairs = [(cls(x=1.0), cls(x=1.0)) for cls in (ours, twin)]
        assert (pairs[0][0] == pairs[0][1]) == (pairs[1][0] == pairs[1][1])
        assert (hash(pairs[0][0]) == hash(pairs[0][1])) == (hash(pairs[1][0]) == hash(pairs[1][1]))
        assert ours(x=1.0) != twin(x=1.0)
        assert ours(x=1.0) != ours(x=2.0)

    def test_it_stays_as_it_is(self, ours: Any, twin: Any) -> None:
        one = ours(x=1.0)
        for name in ("x", "unknown"):
            with pytest.raises(FrozenInstanceError):
                setattr(one, name, 2.0)
            with pytest.raises(FrozenInstanceError):
                delattr(one, name)
        assert one.x == 1.0
        assert hasattr(one, "__dict__") == hasattr(twin(x=1.0), "__dict__")

    @pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, by_pickle])
    def test_copies(self, ours: Any, twin: Any, copied: Any) -> None:
        one = ours(x=1.5)
        assert repr(copied(one)) == repr(one)
        assert repr(replace(one, x=2.5)) == repr(ours(x=2.5))


def test_fields_that_are_not_compared() -> None:
    assert Compared(x=1.0, note="a") == Compared(x=1.0, note="b")
    assert len({Compared(x=1.0, note="a"), Compared(x=1.0, note="b"), Compared(x=2.0)}) == 2


def test_defaults_are_made_for_each() -> None:
    assert Plain(x=1.0).many is not Plain(x=1.0).many
    assert Plain(x=1.0, many=[1]).many == [1]


def test_cached_properties() -> None:
    one = Computing(x=1.0)
    assert (one.doubled, one.trebled, vars(one)) == (2.0, 3.0, {"x": 1.0, "doubled": 2.0, "trebled": 3.0})
