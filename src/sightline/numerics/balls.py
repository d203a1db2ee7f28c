"""Ball arithmetic: real numbers and matrices as balls that provably contain them (FLINT's ``arb``).

A formula that could lose digits is evaluated on balls, from the exact rational values of its inputs, with as
much working precision as it needs. Only the result becomes a double: rounded up where a larger number is
safer, and down where a smaller one is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from flint import arb, arb_mat, ctx, fmpq

from sightline.arrays import FloatArray
from sightline.errors import InvalidInput

# In bits. A double has 53, so a ball this sharp decides nearly every rounding to a double.
_ACCURACY = 96

BALL_ROWS = 400  # rows of a matrix that is inverted in balls or over the rationals, at most: 2 s
BITS = (256, 1024, 4096, 16384)  # working precisions of matrices, one after the other


def ball(value: Fraction | float | int) -> arb:
    """The exact rational ``value`` as a ball, at the working precision in force."""
    exact = Fraction(value)
    return arb(fmpq(exact.numerator, exact.denominator))


def evaluate(formula: Callable[[], arb]) -> arb:
    """``formula()``, with the working precision doubled until the ball is sharp."""
    for doubling in range(1, 12):
        with ctx.workprec(_ACCURACY << doubling):
            value = formula()
        if value.rel_accuracy_bits() >= _ACCURACY:
            return value
    raise ArithmeticError(f"no sharp value at {_ACCURACY << doubling} bits, got {value}")


def rounded_up(value: arb) -> float:
    """The smallest double that is certainly not below ``value`` (infinity above the largest double).

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


def evaluate_matrix(formula: Callable[[], arb_mat]) -> FloatArray:
    """A matrix of balls as doubles, with more and more precision until 53 bits of every entry are correct.

    ``formula`` raises ``ZeroDivisionError`` if the precision cannot rule out that a matrix is singular. An
    entry that is exactly zero never gets 53 correct bits: at the last precision entries are returned as they
    are.
    """
    for bits in BITS:
        with ctx.workprec(bits):
            try:
                matrix = formula()
            except ZeroDivisionError:
                matrix = None
            if matrix is not None:
                entries = matrix.entries()
                if bits == BITS[-1] or all(entry.rel_accuracy_bits() >= 53 for entry in entries):
                    return np.array([float(entry) for entry in entries]).reshape(matrix.nrows(), -1)
    raise InvalidInput(f"expected a matrix that can be inverted, got one that is singular to {bits} bits")


def exact_trace_of_inverse(entries: list[list[fmpq]]) -> float:
    """The trace of the inverse of an exact matrix, correct to the last digit of a double.

    >>> exact_trace_of_inverse([[fmpq(2), fmpq(1)], [fmpq(1), fmpq(2)]])
    1.3333333333333333
    """

    def trace() -> arb_mat:
        return arb_mat([[arb_mat([[arb(entry) for entry in row] for row in entries]).inv().trace()]])

    return float(evaluate_matrix(trace)[0, 0])
