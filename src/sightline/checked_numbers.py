"""Numbers that a caller gives, checked: real, positive, whole."""

from __future__ import annotations

import math
from numbers import Integral, Real

from sightline.arrays import LARGEST
from sightline.errors import InvalidRelease, require


def positive_number(value: object, *, name: str, fix: str = "") -> float:
    """``value`` as a float whose square neither underflows nor overflows, or :class:`InvalidRelease`.

    >>> positive_number(2, name="radius")
    2.0
    >>> positive_number(-1.0, name="radius")
    Traceback (most recent call last):
        ...
    sightline.errors.InvalidRelease: expected radius between 1e-130 and 1e+130, got -1.0
    """
    number = real_number(value, name=name)
    require(
        1 / LARGEST <= number <= LARGEST,
        f"{name} between {1 / LARGEST:g} and {LARGEST:g}",
        got=number,
        fix=fix,
        error=InvalidRelease,
    )
    return number


def real_number(value: object, *, name: str) -> float:
    """``value`` as a finite float, or :class:`InvalidRelease`."""
    if not isinstance(value, Real) or isinstance(value, bool):
        raise InvalidRelease(f"expected {name} to be a number, got {type(value).__name__}")
    number = float(value)
    require(math.isfinite(number), f"finite {name}", got=number, error=InvalidRelease)
    return number


def whole_number(value: object, *, name: str) -> int:
    """``value`` as an int of at least one, or :class:`InvalidRelease`.

    >>> whole_number(3, name="order")
    3
    >>> whole_number(0, name="order")
    Traceback (most recent call last):
        ...
    sightline.errors.InvalidRelease: expected order >= 1, got 0
    """
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise InvalidRelease(f"expected {name} to be a whole number, got {type(value).__name__}")
    number = int(value)
    require(number >= 1, f"{name} >= 1", got=number, error=InvalidRelease)
    return number
