"""Numbers as text: a few significant digits, separated thousands, an exponent only where zeros are longer."""

from __future__ import annotations

import math

from sightline.auditing.result import AuditResult, Uncertainty

_LARGEST, _SMALLEST = 1e15, 1e-6  # beyond these an exponent is shorter than zeros


def readable(value: float, digits: int = 4) -> str:
    """A number with some significant digits.

    >>> readable(1_001_234.5), readable(0.0001234567), readable(12.0), readable(3.2e20), readable(0.0)
    ('1,001,000', '0.0001235', '12', '3.2e+20', '0')
    """
    if value == 0 or not math.isfinite(value) or not _SMALLEST <= abs(value) < _LARGEST:
        return f"{value:.{digits}g}"
    rounded = float(f"{value:.{digits - 1}e}")
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(rounded))))
    text = f"{rounded:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if decimals else text


def counted(count: int, thing: str, things: str | None = None) -> str:
    """A number of things.

    >>> counted(1, "record"), counted(2000, "record"), counted(3, "category", "categories")
    ('1 record', '2,000 records', '3 categories')
    """
    return f"{count:,} {thing if count == 1 else things or thing + 's'}"


def remains(bracket: Uncertainty) -> str:
    """A bracket in percent, rounded outwards: to whole percent, and to hundredths below one percent.

    >>> remains(Uncertainty(lower=0.5361, upper=0.5699)), remains(Uncertainty(lower=3e-6, upper=4e-6))
    ('53–57 %', '< 0.01 %')
    >>> remains(Uncertainty(lower=0.00123, upper=0.034)), remains(Uncertainty(lower=1.0, upper=1.0))
    ('0.12–4 %', '100 %')
    """
    low, high = 100 * bracket.lower, 100 * bracket.upper
    low = math.floor(low) if low >= 1 else math.floor(100 * low) / 100
    high = math.ceil(high) if high > 1 else math.ceil(100 * high) / 100
    if 0 < high <= 0.01:
        return "< 0.01 %"
    return f"{low:g}–{high:g} %" if low < high else f"{high:g} %"


def domain(result: AuditResult) -> str:
    """What the secret can be, in words."""
    match result.kind:
        case "number":
            low, high = result.bounds
            return f"a number from {readable(low, 6)} to {readable(high, 6)}"
        case "boolean":
            return "yes or no"
        case _:
            count = result.category_count
            return f"one of {'several' if count is None else count} categories"
