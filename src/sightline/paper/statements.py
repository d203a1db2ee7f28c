"""``claims``: one row for every theorem, lemma, proposition, corollary and remark that can be checked.

The captions are checked with their figures. The table on the page lists both kinds of claims.
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
    """The number of random cases that a check draws, and the seed."""

    cases: int = 200
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The rows of the table of claims."""

    claims: tuple[Claim, ...]


def compute(parameters: Parameters, progress: Progress) -> Result:
    """Run every check."""
    checks = (*FRAMEWORK, *LABELED, *MULTISET, *REGIMES)
    checked = []
    for done, check in enumerate(checks):
        progress("computing", done / len(checks))
        checked.append(check(parameters.cases, parameters.seed))
    progress("computing", 1.0)
    return Result(claims=tuple(checked))


def claims(result: Result) -> tuple[Claim, ...]:
    """Return the rows."""
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
