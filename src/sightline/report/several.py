"""What is said of a plan about several secrets, beside the result of the worst."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sightline.arrays import ROUNDING
from sightline.auditing.result import AuditResult, Verdict
from sightline.format import number_ends, parameter


def all_secrets(results: Sequence[AuditResult], worst: AuditResult, *, epsilon: float, delta: float) -> str:
    """Which secrets there are, whose verdict counts, and what all of them cost together."""
    shown = number_ends(0.0, epsilon * (1 - ROUNDING), digits=4)[1]  # up, but for what finding it may add
    cost = f"epsilon = {shown}" if math.isfinite(epsilon) else "an infinite epsilon"
    stated = worst.budget.epsilon
    each = (
        "" if not stated else f" The plan's epsilon of {parameter(stated)} is that of each secret by itself."
    )
    return (
        f"The plan is about {len(results)} secrets: {', '.join(one.secret for one in results)}. "
        "Each is judged by itself, as if the others told nothing about it, and the verdict is that of the "
        f"worst: {worst.secret}.{each} The noise of all of them together costs at most {cost} at delta = "
        f"{parameter(delta)}, the sum over the secrets."
    )


def of_the_worst(verdict: Verdict, secret: str, *, secrets: int) -> Verdict:
    """The verdict of the worst secret as that of all."""
    return verdict.model_copy(update={"text": f"Of {secrets} secrets, {secret} fares worst. {verdict.text}"})
