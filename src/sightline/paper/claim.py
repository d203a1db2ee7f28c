"""A statement of the paper, and what became of it when it was computed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class ClaimVerdict(Enum):
    """What a check found."""

    HOLDS = "holds"
    REMARK = "holds with a remark"
    FAILS = "does not hold"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One statement: its label in the paper, what it says, how it was checked, the number, the verdict."""

    label: str
    says: str
    checked: str
    value: float
    quantity: str  # what the value is
    verdict: ClaimVerdict
    remark: str = ""


def claim(  # many parameters: they are the columns of the table of claims
    label: str, says: str, *, checked: str, value: float, quantity: str, holds: bool, remark: str = ""
) -> Claim:
    """A claim with the verdict that its check and its remark amount to."""
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
