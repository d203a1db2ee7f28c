"""``claims``: one row for every theorem, lemma, proposition, corollary and remark that can be checked.

The captions are checked with their figures. The table on the page lists both kinds of claims.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sightline.paper.claims.framework import CHECKS as FRAMEWORK
from sightline.paper.claims.labeled import CHECKS as LABELED
from sightline.paper.claims.multiset import CHECKS as MULTISET
from sightline.paper.comparison import Claim, Effort, Figure
from sightline.progress import reported


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The rows of the table of claims."""

    claims: tuple[Claim, ...]


def compute(effort: Effort) -> Result:
    """Run every check."""
    checks = (*FRAMEWORK, *LABELED, *MULTISET)
    # Each check has a generator of its own, and so draws the same numbers alone.
    return Result(
        claims=tuple(check(effort.trials, np.random.default_rng(effort.seed)) for check in reported(checks))
    )


def claims(result: Result) -> tuple[Claim, ...]:
    """Return the rows."""
    return result.claims


FIGURES = {
    "claims": Figure(
        title="What the paper states",
        about="Every statement with a number that can be computed, computed.",
        full=Effort(trials=200),
        fast=Effort(trials=40),
        result=Result,
        compute=compute,
        claims=claims,
    )
}
