"""``claims``: one row for every theorem, lemma, proposition, corollary and remark that can be checked.

The captions are checked with their figures. The table on the page lists both kinds of claims.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sightline.paper.claims.framework import CHECKS as FRAMEWORK
from sightline.paper.claims.labeled import CHECKS as LABELED
from sightline.paper.claims.multiset import CHECKS as MULTISET
from sightline.paper.claims.regimes import CHECKS as REGIMES
from sightline.paper.comparison import Claim
from sightline.progress import reported


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """The number of random cases that a check draws, and the seed."""

    cases: int = 200
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The rows of the table of claims."""

    claims: tuple[Claim, ...]


def compute(parameters: Parameters) -> Result:
    """Run every check."""
    checks = (*FRAMEWORK, *LABELED, *MULTISET, *REGIMES)
    draws = (
        np.random.default_rng(parameters.seed) for _ in checks
    )  # each check draws the same numbers alone
    done = zip(reported(checks), draws, strict=True)
    return Result(claims=tuple(check(parameters.cases, generator) for check, generator in done))


def claims(result: Result) -> tuple[Claim, ...]:
    """Return the rows."""
    return result.claims


TITLE = "What the paper states"
ABOUT = "Every statement with a number that can be computed, computed."
FAST = Parameters(cases=40)
