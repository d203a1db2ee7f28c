"""A statement of the paper, and what became of it when it was computed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Verdict(Enum):
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
    verdict: Verdict
    remark: str = ""


def claim(
    label: str, says: str, *, checked: str, value: float, quantity: str, holds: bool, remark: str = ""
) -> Claim:
    """A claim with the verdict that its check and its remark amount to."""
    verdict = Verdict.FAILS if not holds else Verdict.REMARK if remark else Verdict.HOLDS
    return Claim(
        label=label,
        says=says,
        checked=checked,
        value=float(value),
        quantity=quantity,
        verdict=verdict,
        remark=remark,
    )
