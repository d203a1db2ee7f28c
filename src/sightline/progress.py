"""How long work reports on itself: one callback, called with a stage and the share of it that is done."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

Progress: TypeAlias = Callable[[str, float], None]


def silent(stage: str, share: float) -> None:
    """The default: report to nobody."""
