"""``claims``: one row for every theorem, lemma, proposition, corollary and remark that can be checked.

What the captions say is checked with the figures; the table on the page has both.
"""

from __future__ import annotations

from dataclasses import dataclass

from sightline.paper.claim import Claim
from sightline.paper.claims.framework import CHECKS as FRAMEWORK
from sightline.paper.claims.labeled import CHECKS as LABELED
from sightline.paper.claims.multiset import CHECKS as MULTISET
from sightline.paper.claims.regimes import CHECKS as REGIMES
from sightline.paper.figure_type import Figure
from sightline.progress import Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """How many random cases a check draws."""

    cases: int = 200
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The rows."""

    claims: tuple[Claim, ...]


def compute(parameters: Parameters, progress: Progress) -> Result:
    """Run every check."""
    checks = (*FRAMEWORK, *LABELED, *MULTISET, *REGIMES)
    found = []
    for done, check in enumerate(checks):
        progress("computing", done / len(checks))
        found.append(check(parameters.cases, parameters.seed))
    progress("computing", 1.0)
    return Result(claims=tuple(found))


def claims(result: Result) -> tuple[Claim, ...]:
    """The rows themselves."""
    return result.claims


FIGURE = Figure(
    title="What the paper states",
    about="Every statement with a number that can be computed, computed.",
    full=Parameters(),
    fast=Parameters(cases=40),
    result=Result,
    compute=compute,
    claims=claims,
)
