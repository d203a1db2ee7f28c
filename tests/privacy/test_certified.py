"""Doubles on the safe side of real numbers."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from flint import arb
from hypothesis import given
from hypothesis import strategies as st

from sightline.numerics.balls import ball, evaluate, rounded_down, rounded_up

positive = st.fractions(min_value=Fraction(1, 10**30), max_value=10**30)


@given(positive)
def test_a_rational_lies_between_its_two_roundings(value: Fraction) -> None:
    exact = evaluate(lambda: ball(value))
    low, high = rounded_down(exact), rounded_up(exact)
    assert low <= value <= high
    assert high <= math.nextafter(low, math.inf)  # neighbours, or the same


@given(st.floats(min_value=5e-324, allow_infinity=False))
def test_a_double_is_its_own_rounding(value: float) -> None:
    assert rounded_down(evaluate(lambda: ball(value))) == value == rounded_up(evaluate(lambda: ball(value)))


def test_rounding_at_the_ends_of_the_doubles() -> None:
    tiny, huge = evaluate(lambda: arb(10) ** -400), evaluate(lambda: arb(10) ** 400)
    assert (rounded_down(tiny), rounded_up(tiny)) == (0.0, 5e-324)
    assert (rounded_down(huge), rounded_up(huge)) == (1.7976931348623157e308, math.inf)
    assert math.copysign(1, rounded_up(ball(0))) == 1


def test_a_cancelling_formula_is_evaluated_until_it_is_sharp() -> None:
    # sin(10^100) needs more than 300 bits before it has a first digit.
    value = evaluate(lambda: (arb(10) ** 100).sin())
    assert float(value) == pytest.approx(-0.372376123661276688262086695553, rel=1e-15)


def test_a_formula_without_a_value_is_an_error() -> None:
    with pytest.raises(ArithmeticError, match="no sharp value"):
        evaluate(lambda: arb(0) / arb(0))
