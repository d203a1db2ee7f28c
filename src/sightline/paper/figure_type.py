"""The type of a figure: its parameters, computation, drawing, comparison and claims."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Generic, TypeVar

from sightline.paper.claim import Claim
from sightline.paper.comparison import Comparison
from sightline.progress import Progress

Parameters = TypeVar("Parameters")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table of text with a heading."""

    heading: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def _no_charts(_result: Any) -> Mapping[str, Any]:
    return {}


def _nothing(_result: Any) -> tuple[Any, ...]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure(Generic[Parameters, Result]):
    """A figure or table of the paper. All have the same functions, so that one loop makes them all.

    ``compute`` returns a frozen dataclass of plain numbers, which can be written as JSON. ``draw`` returns an
    Altair chart for each panel, ``compare`` pairs our curves with the printed ones, and ``claims`` checks
    what the caption and the text say.
    """

    title: str
    about: str
    full: Parameters
    fast: Parameters
    result: type[Result]
    compute: Callable[[Parameters, Progress], Result]
    draw: Callable[[Result], Mapping[str, Any]] = _no_charts
    compare: Callable[[Result], tuple[Comparison, ...]] = _nothing
    claims: Callable[[Result], tuple[Claim, ...]] = _nothing
    tables: Callable[[Result], tuple[Table, ...]] = _nothing

    def parameters(self, *, fast: bool, seed: int) -> Parameters:
        """Return the parameters of a run, with the seed if the figure uses random numbers."""
        chosen: Any = self.fast if fast else self.full
        random = any(field.name == "seed" for field in fields(chosen))
        parameters: Parameters = replace(chosen, seed=seed) if random else chosen
        return parameters
