"""Words that only an audit needs, beside :mod:`sightline.format`: what remains, what a secret can be."""

from __future__ import annotations

from sightline.auditing.result import AuditResult, Uncertainty
from sightline.format import count as counted
from sightline.format import number as readable
from sightline.format import percent_at_least, percent_at_most, percent_bracket

__all__ = ["counted", "domain", "ends", "readable", "remains"]


def remains(bracket: Uncertainty) -> str:
    """A bracket on what remains in percent, rounded outwards.

    >>> remains(Uncertainty(lower=0.5361, upper=0.5699))
    '53–57 %'
    """
    return percent_bracket(bracket.lower, bracket.upper)


def ends(bracket: Uncertainty) -> tuple[str, str]:
    """Both ends of a bracket in percent, rounded outwards.

    >>> ends(Uncertainty(lower=0.5361, upper=0.5699)), ends(Uncertainty(lower=1e-9, upper=3e-9))
    (('53 %', '57 %'), ('0 %', '0.01 %'))
    """
    least = 1e-4
    lower = percent_at_least(bracket.lower if bracket.lower >= least else 0.0)
    return lower, percent_at_most(max(bracket.upper, least))


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
