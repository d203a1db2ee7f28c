"""Values: frozen dataclasses with keyword-only fields, of which a small audit defines two hundred.

Python up to 3.12 compiles each of the six methods of a frozen dataclass by itself, 0.4 ms a class: a seventh
of a small audit. Here only ``__init__`` is compiled; the other methods are the same functions for all.
Classes that others derive from, and those that no audit loads, are ordinary dataclasses.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, FrozenInstanceError, dataclass, field, fields
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform, overload

T = TypeVar("T")
_LONG = 60  # characters of a field that a result still shows whole


@overload
def frozen(cls: type[T], /) -> type[T]: ...
@overload
def frozen(*, eq: bool = False, slots: bool = True) -> Callable[[type[T]], type[T]]: ...
@dataclass_transform(
    eq_default=False, kw_only_default=True, frozen_default=True, field_specifiers=(field,)
)  # what type checkers read
def frozen(
    cls: type[T] | None = None, /, *, eq: bool = False, slots: bool = True
) -> type[T] | Callable[[type[T]], type[T]]:
    """``@dataclass(frozen=True, kw_only=True, eq=eq, slots=slots)``, made in a quarter of the time.

    Slots are for classes without cached properties. With ``eq``, values of equal fields are equal.

    >>> @frozen(eq=True)
    ... class Point:
    ...     '''A point.'''
    ...     x: float
    ...     y: float = 0.0
    >>> Point(x=1.0), Point(x=1.0) == Point(x=1.0, y=0.0)
    (Point(x=1.0, y=0.0), True)
    """
    if cls is None:
        return lambda given: _made(given, eq, slots)
    return _made(cls, eq, slots)


def _made(cls: type[T], eq: bool, slots: bool) -> type[T]:
    cls = dataclass(init=False, repr=False, eq=False, kw_only=True, slots=slots)(cls)
    methods = [_init(cls), __setattr__, __delattr__]
    if "__repr__" not in vars(cls):  # a result with arrays has a short one
        methods.append(__repr__)
    if slots:
        methods += [__getstate__, __setstate__]
    if eq:
        methods += _compared(cls)
    for method in methods:
        setattr(cls, method.__name__, method)
    return cls


def _init(cls: type[Any]) -> Callable[..., None]:
    taken, body, names = [], [], {"_set": object.__setattr__, "_missing": MISSING}
    for each in filter(attrgetter("init"), fields(cls)):
        name, source = each.name, each.name
        if each.default is not MISSING:
            names[f"_default_{name}"] = each.default
            default = f"=_default_{name}"
        elif each.default_factory is not MISSING:
            names[f"_make_{name}"] = each.default_factory
            default, source = "=_missing", f"_make_{name}() if {name} is _missing else {name}"
        else:
            default = ""
        taken.append(f"{name}{default}")
        body.append(f" _set(self, {name!r}, {source})\n")
    if hasattr(cls, "__post_init__"):
        body.append(" self.__post_init__()\n")
    exec(f"def __init__(self, *, {', '.join(taken)}):\n{''.join(body)}", names)
    init: Any = names["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    init.__module__ = cls.__module__
    init.__annotations__ = {each.name: each.type for each in fields(cls)} | {"return": None}
    return init  # type: ignore[no-any-return]


def _compared(cls: type[Any]) -> list[Callable[..., Any]]:
    values = attrgetter(*(each.name for each in fields(cls) if each.compare))

    def __eq__(self: Any, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return bool(values(self) == values(other))

    def __hash__(self: Any) -> int:
        return hash(values(self))

    return [__eq__, __hash__]


def __repr__(self: Any) -> str:
    shown = [f"{each.name}={getattr(self, each.name)!r}" for each in fields(self) if each.repr]
    return f"{self.__class__.__qualname__}({', '.join(shown)})"


def short_repr(self: Any) -> str:
    """The ``repr`` of a result with arrays: of each its type and shape, of long fields their length."""
    shown = [f"{each.name}={_short(getattr(self, each.name))}" for each in fields(self) if each.repr]
    return f"{self.__class__.__qualname__}({', '.join(shown)})"


def _short(value: Any) -> str:
    if getattr(value, "shape", ()) and hasattr(value, "dtype"):
        return f"<{value.dtype} {'×'.join(map(str, value.shape))}>"
    text = repr(value)
    if isinstance(value, str | list | tuple | dict) and len(text) > _LONG:
        return f"<{type(value).__name__} of {len(value)}>"
    return text if len(text) <= _LONG and "\n" not in text else f"<{type(value).__name__}>"


def __setattr__(self: object, name: str, value: object) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def __delattr__(self: object, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def __getstate__(self: Any) -> list[object]:
    return [getattr(self, each.name) for each in fields(self)]


def __setstate__(self: Any, state: list[object]) -> None:
    for each, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, each.name, value)
