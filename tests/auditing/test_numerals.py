"""Numbers for people are the numbers: no digit is made up, and brackets are rounded outwards."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.auditing.result import Uncertainty
from sightline.format import number

SHARES = st.floats(0, 1)


@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(1, 8))
def test_a_number_is_rounded_to_its_digits(value: float, digits: int) -> None:
    text = number(value, digits)
    assert float(text.replace(",", "")) == float(f"{value:.{digits - 1}e}")


@given(st.floats(1e-6, 1e15, exclude_max=True), st.integers(1, 8))
def test_an_ordinary_number_has_no_exponent_and_no_idle_zeros(value: float, digits: int) -> None:
    text = number(value, digits)
    assert re.fullmatch(r"\d{1,3}(,\d{3})*(\.\d*[1-9])?", text)


@pytest.mark.parametrize("value", [math.inf, math.nan])
def test_what_is_not_finite_is_said_so(value: float) -> None:
    assert number(value) == str(value)


@given(SHARES, SHARES)
def test_what_remains_is_rounded_outwards(one: float, other: float) -> None:
    low, high = sorted((one, other))
    text = str(Uncertainty(lower=low, upper=high))
    assert text.endswith(" %")
    numbers = [float(part) for part in text.removeprefix("< ").removesuffix(" %").split("–")]
    if text.startswith("<"):
        assert 100 * high <= numbers[0]
    else:
        assert numbers[0] <= 100 * low * (1 + 1e-12)
        assert 100 * high <= numbers[-1] * (1 + 1e-12)
