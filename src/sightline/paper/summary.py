"""Summarise a run in a few lines of text, or as JSON."""

from __future__ import annotations

from collections import Counter
from typing import Any

from sightline.format import power_of_ten
from sightline.paper.claim import ClaimVerdict
from sightline.paper.figure_type import MadeFigure
from sightline.paper.run import Regenerated


def lines(regenerated: Regenerated) -> list[str]:
    """Return a line for each figure, the number of claims that hold, those that fail, and the page."""
    width = max(len(made.label) for made in regenerated.made)
    summary = [f"{made.label:<{width}}  {_state(made)}" for made in regenerated.made]
    verdicts = Counter(claim.verdict for made in regenerated.made for claim in made.claims)
    if verdicts:
        counts = ", ".join(
            f"{verdicts[verdict]} {verdict.value}" for verdict in ClaimVerdict if verdicts[verdict]
        )
        summary.append(f"claims: {counts}")
    for made in regenerated.made:
        summary += [
            f"does not hold: {claim.label}: {claim.says}"
            for claim in made.claims
            if claim.verdict is ClaimVerdict.FAILS
        ]
    summary.append(f"open {regenerated.page}")
    return summary


def _state(made: MadeFigure) -> str:
    parts = ["computed" if made.computed else "found"]
    if made.largest_relative_difference is not None:
        parts.append(f"within {power_of_ten(made.largest_relative_difference)} of the printed curves")
    if made.agreement is not None:
        parts.append(str(made.agreement))
    return "; ".join(parts)


def document(regenerated: Regenerated) -> dict[str, Any]:
    """Return the numbers of a run, for JSON."""
    return {"page": str(regenerated.page), "figures": [made.document for made in regenerated.made]}
