"""Real numbers as balls that provably contain them, and the double on their safe side.

A privacy figure that was rounded to the wrong side is a wrong figure. Every formula of this room that is
solved or that could lose digits is therefore evaluated in ball arithmetic (FLINT's ``arb``) from the exact
rational values of its inputs, and only its result becomes a double: rounded up where more is safer, down
where less is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from flint import arb, ctx, fmpq

# A double has 53 bits; balls this sharp decide every rounding but a hair's breadth beside a double.
_ACCURACY = 96


def ball(value: Fraction | float | int) -> arb:
    """The exact rational ``value`` at the precision now in force."""
    exact = Fraction(value)
    return arb(fmpq(exact.numerator, exact.denominator))


def evaluate(formula: Callable[[], arb]) -> arb:
    """``formula()`` at as much working precision as makes its ball sharp, however badly it cancels."""
    for doubling in range(1, 12):
        with ctx.workprec(_ACCURACY << doubling):
            value = formula()
        if value.rel_accuracy_bits() >= _ACCURACY:
            return value
    raise ArithmeticError(f"no sharp value at {_ACCURACY << doubling} bits, got {value}")


def rounded_up(value: arb) -> float:
    """The smallest double that is certainly not below ``value`` (infinity beyond the largest).

    >>> rounded_up(ball(0.5)), rounded_up(ball(Fraction(1, 3))) > Fraction(1, 3)
    (0.5, True)
    """
    double = math.nextafter(float(value), -math.inf)
    while not arb(double) >= value:
        double = math.nextafter(double, math.inf)
    return double + 0.0  # no negative zero


def rounded_down(value: arb) -> float:
    """The largest double that is certainly not above ``value``.

    >>> rounded_down(ball(0.5)), rounded_down(ball(Fraction(1, 3))) < Fraction(1, 3)
    (0.5, True)
    """
    double = math.nextafter(float(value), math.inf)
    while not arb(double) <= value:
        double = math.nextafter(double, -math.inf)
    return double + 0.0
