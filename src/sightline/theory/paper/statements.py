"""``claims``: one row for every theorem, lemma, proposition, corollary and remark that can be checked.

The captions are checked with their figures. The table on the page lists both kinds of claims.
"""

from __future__ import annotations

import numpy as np

from sightline.progress import reported
from sightline.theory.paper.claims.framework import CHECKS as FRAMEWORK
from sightline.theory.paper.claims.labeled import CHECKS as LABELED
from sightline.theory.paper.claims.multiset import CHECKS as MULTISET
from sightline.theory.paper.comparison import Claim, Effort, Figure


def compute(effort: Effort) -> tuple[Claim, ...]:
    """Run every check. Each has a generator of its own, and so draws the same numbers alone."""
    checks = reported((*FRAMEWORK, *LABELED, *MULTISET))
    return tuple(check(effort.trials, np.random.default_rng(effort.seed)) for check in checks)


FIGURES = {
    "claims": Figure(
        title="What the paper states",
        about="Every statement with a number that can be computed, computed.",
        compute=compute,
        claims=tuple,
    )
}
