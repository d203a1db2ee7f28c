"""What a figure is: parameters, a computation, a drawing, a comparison and the claims of its caption."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from importlib import import_module
from typing import Any, Generic, TypeVar

from sightline.errors import InvalidInput
from sightline.paper.claim import Claim
from sightline.paper.comparison import Comparison
from sightline.progress import Progress

Parameters = TypeVar("Parameters")
Result = TypeVar("Result")

# Label -> the module that holds it, in the order of the paper; what it mentions and does not show comes last.
_MODULES = {
    "tab:adjacency": "adjacency",
    "tab:accountant_scaling_main": "accountant_scaling",
    "fig:inout": "inout",
    "fig:poly_synth": "poly_synth",
    "fig:realdata": "realdata",
    "fig:threshold": "threshold",
    "fig:mle": "mle",
    "fig:app_mle_vs_L": "mle_vs_releases",
    "diag:boundary": "boundary_sweeps",
    "diag:releases": "release_sweeps",
    "diag:bottleneck": "bottleneck",
    "diag:compact": "compact_control",
    "diag:calibration": "calibration",
    "diag:bounds": "lower_bounds",
    "claims": "statements",
}
LABELS = tuple(_MODULES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Cells of text under a heading."""

    heading: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def _no_charts(_result: Any) -> Mapping[str, Any]:
    return {}


def _nothing(_result: Any) -> tuple[Any, ...]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure(Generic[Parameters, Result]):
    """A figure or table: the same functions for every one, so that one loop makes them all.

    ``compute`` gives a frozen dataclass of plain numbers, which a JSON file can hold; ``draw`` gives an
    Altair chart for each panel; ``compare`` pairs our curves with the printed ones; ``claims`` are what the
    caption and the text say about it.
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
        """The parameters of a run; a figure without chance has no seed."""
        chosen: Any = self.fast if fast else self.full
        random = any(field.name == "seed" for field in fields(chosen))
        found: Parameters = replace(chosen, seed=seed) if random else chosen
        return found


def figure(label: str) -> Figure[Any, Any]:
    """The figure with a label of the paper.

    >>> figure("fig:poly_synth").title
    'Polynomial-moment bound under basic composition'
    >>> figure("fig:pol")
    Traceback (most recent call last):
        ...
    sightline.errors.InvalidInput: expected a figure or table of the paper, got 'fig:pol'; known: \
tab:adjacency, tab:accountant_scaling_main, fig:inout, fig:poly_synth, fig:realdata, fig:threshold, fig:mle, \
fig:app_mle_vs_L, diag:boundary, diag:releases, diag:bottleneck, diag:compact, diag:calibration, \
diag:bounds, claims
    """
    home = _MODULES.get(label)
    if home is None:
        raise InvalidInput(
            f"expected a figure or table of the paper, got {label!r}; known: {', '.join(LABELS)}"
        )
    found: Figure[Any, Any] = import_module(f"sightline.paper.{home}").FIGURE
    return found
