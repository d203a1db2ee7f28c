"""The figures and tables of the paper by their labels.

Each is a module: ``TITLE``, ``ABOUT``, ``Result``, ``compute`` and ``claims``; and, where it has them,
``FULL`` and ``FAST`` (how many random cases a run draws), ``draw``, ``compare`` and ``tables``.
"""

from __future__ import annotations

from importlib import import_module

from sightline.errors import InvalidInput
from sightline.paper.comparison import Effort, Figure

# Label -> its module, in the order of the paper; then figures that it mentions and does not show, and
# figures that go beyond it.
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
    "beyond:hybrid": "hybrid_allocation",
    "claims": "statements",
}
LABELS = tuple(_MODULES)


def figure(label: str) -> Figure:
    """Return the figure with a label of the paper.

    >>> figure("fig:poly_synth").title
    'Polynomial-moment bound under basic composition'
    >>> figure("fig:pol")
    Traceback (most recent call last):
        ...
    sightline.errors.InvalidInput: expected a figure or table of the paper, got 'fig:pol'; known: \
tab:adjacency, tab:accountant_scaling_main, fig:inout, fig:poly_synth, fig:realdata, fig:threshold, fig:mle, \
fig:app_mle_vs_L, diag:boundary, diag:releases, diag:bottleneck, diag:compact, diag:calibration, \
diag:bounds, beyond:hybrid, claims
    """
    module = _MODULES.get(label)
    if module is None:
        raise InvalidInput(
            f"expected a figure or table of the paper, got {label!r}; known: {', '.join(LABELS)}"
        )
    own = import_module(f"sightline.paper.{module}")
    return Figure(
        title=own.TITLE,
        about=own.ABOUT,
        full=getattr(own, "FULL", Effort()),
        fast=getattr(own, "FAST", Effort()),
        result=own.Result,
        compute=own.compute,
        draw=getattr(own, "draw", lambda _: {}),
        compare=getattr(own, "compare", lambda _: ()),
        claims=own.claims,
        tables=getattr(own, "tables", lambda _: ()),
    )
