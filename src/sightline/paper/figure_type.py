"""The type of a figure: its parameters, computation, drawing, comparison and claims."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from sightline.paper.claim import Claim
from sightline.paper.comparison import Comparison
from sightline.progress import Progress


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
    compute: Callable[[Any, Progress], Any]
    draw: Callable[[Any], Mapping[str, Any]]
    compare: Callable[[Any], tuple[Comparison, ...]]
    claims: Callable[[Any], tuple[Claim, ...]]
    tables: Callable[[Any], tuple[Table, ...]]

    def parameters(self, *, fast: bool, seed: int) -> Any:
        """Return the parameters of a run, with the seed if the figure uses random numbers."""
        chosen = self.fast if fast else self.full
        return replace(chosen, seed=seed) if hasattr(chosen, "seed") else chosen
