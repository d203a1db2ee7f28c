"""A figure: its parameters, computation, drawing, comparison and claims; and the same when it is finished."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sightline.paper.claim import Claim
from sightline.paper.comparison import Comparison, JointTest


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table of text with a heading."""

    heading: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure or table of the paper. All have the same functions, so that one loop makes them all.

    ``compute`` returns a frozen dataclass of plain numbers, which can be written as JSON. ``draw`` returns an
    Altair chart for each panel, ``compare`` pairs our curves with the printed ones, and ``claims`` checks
    what the caption and the text say.
    """

    title: str
    about: str
    full: Any  # the parameters of a full run
    fast: Any
    result: type[Any]
    compute: Callable[[Any], Any]
    draw: Callable[[Any], Mapping[str, Any]]
    compare: Callable[[Any], tuple[Comparison, ...]]
    claims: Callable[[Any], tuple[Claim, ...]]
    tables: Callable[[Any], tuple[Table, ...]]

    def parameters(self, *, fast: bool, seed: int) -> Any:
        """Return the parameters of a run, with the seed if the figure uses random numbers."""
        chosen = self.fast if fast else self.full
        return replace(chosen, seed=seed) if hasattr(chosen, "seed") else chosen


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
    def beyond_the_paper(self) -> bool:
        """Whether the paper has no such figure."""
        return self.label.startswith("beyond:")

    @property
    def largest_relative_difference(self) -> float | None:
        """The largest over all printed curves without intervals; ``None`` if there are none."""
        exact = [c.largest_relative_difference for c in self.comparisons if not c.random]
        return max(exact) if exact else None
