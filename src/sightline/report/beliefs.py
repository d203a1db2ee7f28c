"""What an attacker expects beforehand, in words: what remaining uncertainty is an average over."""

from __future__ import annotations

from collections.abc import Callable

from sightline.auditing.result_parts import Fact
from sightline.auditing.secret_prior import Expected
from sightline.format import number, percent_stated

# How values are spread, by the prior's own name for it; a population is named.
SPREADS = {
    "even": "spread evenly",
    "cosine": "spread as cos², likelier in the middle,",
    "ends": "at either end, with even chances,",
    "whole": "that are whole and spread evenly",
    "population": "spread as in {source}",
}


def expected(fact: Fact) -> str:
    """What an attacker expects, after "on average over".

    >>> from sightline.auditing.secret_prior import SecretPrior
    >>> from sightline.tables.subject import SecretKind
    >>> expected(SecretPrior(kind=SecretKind.NUMBER, bounds=(0.0, 9000.0)).fact)
    'values spread evenly from 0 to 9,000'
    """
    return WORDS[Expected(fact.name)](**fact.figures)


def _spread(spread: str, source: str) -> str:
    return SPREADS[spread].format(source=source)


def _between(what: str) -> Callable[..., str]:
    def words(low: float, high: float, spread: str, source: str) -> str:
        return f"{what} {_spread(spread, source)} from {number(low, 6)} to {number(high, 6)}"

    return words


def _near(within: float, spread: str, source: str) -> str:
    return f"values {_spread(spread, source)} within ± {number(within, 6)} of what the attacker knows"


def _yes_or_no(yes: float) -> str:
    chances = "even chances" if yes == 0.5 else f"a chance of {percent_stated(yes)} of yes"
    return f"values that are yes or no with {chances}"


WORDS: dict[Expected, Callable[..., str]] = {
    Expected.VALUES: _between("values"),
    Expected.LEVELS: _between("levels of a record's rows"),
    Expected.NEAR: _near,
    Expected.YES_OR_NO: _yes_or_no,
    Expected.CATEGORIES: lambda: "categories with even chances",
}
