"""A finished figure: its numbers, its panels and their comparison with the paper."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sightline.paper.claim import Claim
from sightline.paper.comparison import Comparison, JointTest
from sightline.paper.figure_type import Figure


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Panel:
    """A drawn panel: its Vega-Lite specification and the SVG file that shows it."""

    name: str
    file: Path
    specification: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MadeFigure:
    """A finished figure: its result, panels, comparisons with the printed curves, and claims."""

    label: str
    figure: Figure
    document: dict[str, Any]  # the content of its JSON file
    result: Any
    panels: tuple[Panel, ...]
    comparisons: tuple[Comparison, ...]
    agreement: JointTest | None
    claims: tuple[Claim, ...]
    computed: bool  # True if this run computed it, False if an earlier run did

    @property
    def largest_relative_difference(self) -> float | None:
        """The largest over all printed curves without intervals; ``None`` if there are none."""
        exact = [c.largest_relative_difference for c in self.comparisons if not c.random]
        return max(exact) if exact else None
