"""A run in a few lines of text."""

from __future__ import annotations

from collections import Counter
from typing import Any

from sightline.paper.claim import ClaimVerdict
from sightline.paper.made import MadeFigure
from sightline.paper.page import number
from sightline.paper.run import Regenerated


def lines(regenerated: Regenerated) -> list[str]:
    """A line for each figure, then how many claims hold, the joint tests, and where the page is."""
    width = max(len(made.label) for made in regenerated.made)
    found = [f"{made.label:<{width}}  {_state(made)}" for made in regenerated.made]
    verdicts = Counter(claim.verdict for made in regenerated.made for claim in made.claims)
    if verdicts:
        told = ", ".join(
            f"{verdicts[verdict]} {verdict.value}" for verdict in ClaimVerdict if verdicts[verdict]
        )
        found.append(f"claims: {told}")
    for made in regenerated.made:
        found += [
            f"not so: {claim.label}: {claim.says}"
            for claim in made.claims
            if claim.verdict is ClaimVerdict.FAILS
        ]
    found.append(f"open {regenerated.page}")
    return found


def _state(made: MadeFigure) -> str:
    parts = ["computed" if made.computed else "found"]
    if made.largest_relative_difference is not None:
        parts.append(f"within {number(made.largest_relative_difference)} of the printed curves")
    if made.agreement is not None:
        parts.append(f"{made.agreement}")
    return "; ".join(parts)


def document(regenerated: Regenerated) -> dict[str, Any]:
    """The numbers of a run."""
    return {
        "page": str(regenerated.page),
        "figures": [made.document for made in regenerated.made],
    }
