"""Numbers as text: no digit is made up, bounds are rounded to the safe side, JSON is always JSON."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sightline as sl
from sightline.format import count, json_text, number, percent_at_least, percent_bracket, power_of_ten, weight
from tests.report.report_cases import microgrid

SHARES = st.floats(0, 1)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(FINITE, st.integers(1, 8))
def test_a_number_is_rounded_to_its_digits(value: float, digits: int) -> None:
    assert float(number(value, digits).replace(",", "")) == float(f"{value:.{digits - 1}e}")


@given(SHARES)
def test_a_lower_bound_is_rounded_down(share: float) -> None:
    shown = float(percent_at_least(share).removesuffix(" %")) / 100
    assert shown <= share * (1 + 1e-12)
    assert shown >= 0.9 * share - 0.01


@given(SHARES, SHARES)
def test_a_bracket_is_rounded_outwards(one: float, other: float) -> None:
    low, high = sorted((one, other))
    ends = percent_bracket(low, high).removesuffix(" %")
    if ends.startswith("<"):
        assert 100 * high <= float(ends.removeprefix("< "))
        return
    shown = [float(end) for end in ends.split("–")]
    assert shown[0] <= 100 * low * (1 + 1e-12)
    assert shown[-1] >= 100 * high * (1 - 1e-12)


@given(st.floats(1e-12, 1e12))
def test_a_weight_is_whole_or_has_four_digits(value: float) -> None:
    shown = float(weight(value).replace(",", ""))
    assert shown == pytest.approx(value, rel=5e-4)
    assert shown == value if float(value).is_integer() else True


@given(st.floats(1e-200, 1e200))
def test_a_power_of_ten_says_the_number(value: float) -> None:
    mantissa, _, power = power_of_ten(value).partition("·10")
    superscripts = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
    shown = float(mantissa) * 10.0 ** int(power.translate(superscripts) or 0)
    assert shown == pytest.approx(value, rel=0.06)


def test_one_of_a_thing_is_singular() -> None:
    assert [count(n, "row is", "rows are") for n in (0, 1, 1000)] == [
        "0 rows are",
        "1 row is",
        "1,000 rows are",
    ]


@given(ANY_JSON)
def test_json_is_what_every_reader_accepts(value: Any) -> None:
    def refuse(constant: str) -> None:
        pytest.fail(f"{constant} is not JSON")

    text = json_text(value, ascii_only=True)
    assert text.isascii()
    json.loads(text, parse_constant=refuse)


class TestInfiniteNumbers:
    def test_a_result_with_infinite_errors_is_read_back(self) -> None:
        (first, *others) = microgrid().exposed
        endless = first.model_copy(update={"rmse": math.inf, "record": "Infinity"})
        result = microgrid().model_copy(update={"exposed": (endless, *others)})
        again = sl.AuditResult.from_json(result.to_json())
        assert again == result
        assert again.exposed[0].rmse == math.inf
        assert again.exposed[0].record == "Infinity", "a name is a name"
