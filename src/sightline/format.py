"""Write numbers as text, for people and as JSON. No other module does this."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

_LARGEST, _SMALLEST = 1e15, 1e-6  # outside this range numbers are written with an exponent
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def number(value: float, digits: int = 4) -> str:
    """Write a number with ``digits`` significant digits and thousands separators, without trailing zeros.

    >>> number(1_001_234.5), number(0.0001234567), number(12.0), number(3.2e20), number(0.0)
    ('1,001,000', '0.0001235', '12', '3.2e+20', '0')
    """
    if value == 0 or not math.isfinite(value) or not _SMALLEST <= abs(value) < _LARGEST:
        return f"{value:.{digits}g}"
    rounded = float(f"{value:.{digits - 1}e}")
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(rounded))))
    text = f"{rounded:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if decimals else text


def number_bracket(lower: float, upper: float) -> str:
    """Write a bracket on a number, rounded outwards to three significant digits.

    >>> number_bracket(118.42, 146.03), number_bracket(0.0, 0.05001), number_bracket(500.0, 500.0)
    ('118–147', '0–0.0501', '500')
    """
    low, high = number_ends(lower, upper)
    return low if low == high else f"{low}–{high}"


def number_at_most(value: float, digits: int = 3) -> str:
    """Write a number that must not be written smaller than it is, such as a cost.

    >>> number_at_most(10.147), number_at_most(10.1), number_at_most(0.0)
    ('10.2', '10.1', '0')
    """
    return number(_rounded(value, digits, math.ceil), digits)


def number_ends(lower: float, upper: float, digits: int = 3) -> tuple[str, str]:
    """Write both ends of a bracket on a number, rounded outwards.

    >>> number_ends(118.42, 146.03)
    ('118', '147')
    """
    low, high = _rounded(lower, digits, math.floor), _rounded(upper, digits, math.ceil)
    return number(low, digits), number(high, digits)


def _rounded(value: float, digits: int, way: Callable[[float], int]) -> float:
    if value <= 0 or not math.isfinite(value):
        return value
    power = math.floor(math.log10(value)) - digits + 1
    # A number that has so many digits already stays as it is, whatever the division rounds to.
    tidy = float(f"{value:.{digits - 1}e}")
    return tidy if math.isclose(tidy, value, rel_tol=1e-12) else float(f"{way(value / 10.0**power)}e{power}")


def parameter(value: float) -> str:
    """Write a parameter as a person would write it.

    >>> parameter(1.0), parameter(1e-5), parameter(0.12)
    ('1', '1e-05', '0.12')
    """
    return f"{value:g}"


def power_of_ten(value: float) -> str:
    """Write a number with two or three digits, and a very small or large one with a power of ten.

    >>> power_of_ten(2.0), power_of_ten(0.12345), power_of_ten(3.9e-12)
    ('2', '0.123', '3.9·10⁻¹²')
    """
    if value == 0 or 1e-3 <= abs(value) < 1e5:
        if float(value).is_integer():
            return f"{value:.0f}"
        return f"{value:.3g}" if abs(value) < 1e3 else f"{value:.1f}"
    mantissa, power = f"{value:.1e}".split("e")
    return f"{mantissa}·10{str(int(power)).translate(_SUPERSCRIPTS)}"


def weight(value: float) -> str:
    """Write the weight of a published number in a recipe: a whole number in full, others to four digits.

    >>> weight(1234567.0), weight(12.0000000000001), weight(0.123456)
    ('1,234,567', '12', '0.1235')
    """
    tidy = without_rounding(value)
    return f"{int(tidy):,}" if tidy == int(tidy) and abs(tidy) < _LARGEST else f"{tidy:.4g}"


def without_rounding(value: float) -> float:
    """Return the nearest whole number if ``value`` differs from it by rounding only, else ``value``.

    >>> without_rounding(11.9999999999999), without_rounding(11.9)
    (12.0, 11.9)
    """
    whole = round(value)
    return float(whole) if whole and abs(value - whole) <= 1e-9 * abs(value) else value


def count(how_many: int, thing: str, things: str | None = None) -> str:
    """Write a number of things, with the noun in the singular or plural.

    >>> count(1, "record"), count(2000, "record"), count(3, "category", "categories")
    ('1 record', '2,000 records', '3 categories')
    """
    return f"{how_many:,} {thing if how_many == 1 else things or thing + 's'}"


def shown_memory(size: float) -> str:
    """Bytes for people.

    >>> shown_memory(4_200_000_000), shown_memory(3e6), shown_memory(12)
    ('4.2 GB', '3 MB', '12 bytes')
    """
    for unit, least in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= least:
            return f"{size / least:,.3g} {unit}"
    return f"{size:,.0f} bytes"


def shown_seconds(seconds: float) -> str:
    """A duration that is estimated, for people.

    >>> shown_seconds(0.0004), shown_seconds(0.31), shown_seconds(132.0), shown_seconds(9000.0)
    ('less than 0.1 s', '0.31 s', '130 s', '2.5 h')
    """
    if seconds < 0.1:
        return "less than 0.1 s"
    if seconds < 3600:
        return f"{float(f'{seconds:.2g}'):g} s"
    return f"{float(f'{seconds / 3600:.2g}'):g} h"


def percent(share: float) -> str:
    """Write a share in percent: whole percent, or two digits below 10 %.

    >>> percent(0.5), percent(0.1234), percent(0.00123)
    ('50 %', '12 %', '0.12 %')
    """
    return f"{100 * share:.0f} %" if share >= 0.1 or share == 0 else f"{100 * share:.2g} %"


def covered(*, everyone: bool) -> str:
    """Whom a budget covers.

    >>> covered(everyone=True), covered(everyone=False)
    ('every conceivable person', 'the kinds of people in this table, and no others')
    """
    return "every conceivable person" if everyone else "the kinds of people in this table, and no others"


def percent_stated(share: float) -> str:
    """Write a share that somebody stated, such as a limit: it reads as it was given, up to four digits.

    >>> percent_stated(0.5), percent_stated(0.125), percent_stated(0.55), percent_stated(1 / 3)
    ('50 %', '12.5 %', '55 %', '33.33 %')
    """
    return f"{number(100 * share)} %"


def percent_at_least(share: float) -> str:
    """Write a lower bound in percent, rounded down.

    >>> percent_at_least(0.1299), percent_at_least(0.00778), percent_at_least(0.29), percent_at_least(0.0)
    ('12 %', '0.77 %', '29 %', '0 %')
    """
    return _rounded_percent(share, math.floor)


def percent_at_most(share: float) -> str:
    """Write an upper bound in percent, rounded up.

    >>> percent_at_most(0.1201), percent_at_most(0.00771), percent_at_most(0.55), percent_at_most(0.0)
    ('13 %', '0.78 %', '55 %', '0 %')
    """
    return _rounded_percent(share, math.ceil)


def _rounded_percent(share: float, rounded: Callable[[float], int]) -> str:
    whole = _in_percent(share)
    if whole >= 10 or whole <= 0:
        return f"{rounded(whole)} %"
    unit = 10.0 ** (math.floor(math.log10(whole)) - 1)
    return f"{rounded(_whole(whole / unit)) * unit:.2g} %"


def _in_percent(share: float) -> float:
    """A share in percent: 55 for 0.55, where the product is a little more."""
    return _whole(100 * share)


def _whole(value: float) -> float:
    """The nearest whole number if a multiplication or two alone made the difference, else the value."""
    return float(round(value)) if math.isclose(value, round(value), rel_tol=1e-15) else value


def percent_bracket(lower: float, upper: float) -> str:
    """Write a bracket on a share in percent, rounded outwards: to whole percent, or hundredths below 1 %.

    >>> percent_bracket(0.5361, 0.5699), percent_bracket(3e-6, 4e-6)
    ('53–57 %', '< 0.01 %')
    >>> percent_bracket(0.00123, 0.034), percent_bracket(1.0, 1.0)
    ('0.12–4 %', '100 %')
    >>> percent_bracket(0.07, 0.07)
    '7 %'
    """
    low, high = _in_percent(lower), _in_percent(upper)
    low = math.floor(low) if low >= 1 else math.floor(_in_percent(low)) / 100
    high = math.ceil(high) if high > 1 else math.ceil(_in_percent(high)) / 100
    if 0 < high <= 0.01:
        return "< 0.01 %"
    return f"{low:g}–{high:g} %" if low < high else f"{high:g} %"


def json_text(value: Any, *, indent: int | None = 2, ascii_only: bool = False) -> str:
    """Write JSON that every reader accepts: a number that is not finite becomes a string.

    >>> json_text({"noise": math.inf, "values": (1.5, -math.inf)}, indent=None)
    '{"noise": "Infinity", "values": [1.5, "-Infinity"]}'
    """
    return json.dumps(_finite(value), indent=indent, ensure_ascii=ascii_only, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Mapping):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    return value
