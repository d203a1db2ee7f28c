"""A statement of the paper, and the result of checking it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import numpy as np


class ClaimVerdict(Enum):
    """The result of a check."""

    HOLDS = "holds"
    REMARK = "holds with a remark"
    FAILS = "does not hold"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One statement: its label in the paper, its text, how it was checked, the number and the verdict."""

    label: str
    says: str
    checked: str
    value: float
    quantity: str  # the meaning of the value
    verdict: ClaimVerdict
    remark: str = ""


Check = Callable[[int, np.random.Generator], Claim]  # from a number of random cases and what draws them


def claim(  # many parameters: they are the columns of the table of claims
    label: str,
    says: str,
    *,
    checked: str,
    value: float,
    quantity: str = "largest relative difference",
    holds: bool,
    remark: str = "",
) -> Claim:
    """Make a claim; its verdict follows from ``holds`` and from whether there is a remark."""
    verdict = ClaimVerdict.FAILS if not holds else ClaimVerdict.REMARK if remark else ClaimVerdict.HOLDS
    return Claim(
        label=label,
        says=says,
        checked=checked,
        value=float(value),
        quantity=quantity,
        verdict=verdict,
        remark=remark,
    )
