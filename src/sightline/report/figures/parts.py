"""Parts that several figures use: zooming that leaves scrolling alone, a labelled line, rows of data."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal

from sightline.report.style import FAINT, PALETTE, altair

NEUTRAL, EXPOSED = PALETTE[0], PALETTE[1]  # EXPOSED: the colour of what is exposed or below the limit
WIDTH, HEIGHT = 560, 240


def rows(values: Sequence[dict[str, Any]]) -> Any:
    """Return data for a chart as one JSON text, since Altair checks the values of a list again and again.

    CSV would be shorter, but Vega generates code to read it, which the page forbids.
    """
    text = json.dumps(list(values), separators=(",", ":"), allow_nan=False)
    return altair().Data(values=text, format={"type": "json"})


def lists(values: Sequence[dict[str, Any]]) -> Any:
    """Return data as one list for each name, a quarter as long as rows; the chart flattens the lists."""
    names = values[0] if values else {}
    return rows([{name: [row[name] for row in values] for name in names}])


def zoom(*encodings: Literal["x", "y"]) -> Any:
    """Drag to move, hold Ctrl or Shift and turn the wheel to zoom, double-click to reset."""
    return altair().selection_interval(
        name="zoom", bind="scales", encodings=list(encodings), zoom="wheel![event.ctrlKey || event.shiftKey]"
    )


def labelled_line(
    at: float,
    text: str,
    *,
    axis: Literal["x", "y"],
    dashed: bool,
    colour: str = FAINT,
    before: float = 0.7,
) -> list[Any]:
    """Draw a line across the figure with its name: to its right, or to its left from ``before`` on."""
    alt = altair()
    data = rows([{"at": at, "text": text}])
    dash = [4, 3] if dashed else [1, 0]
    line = alt.Chart(data).mark_rule(color=colour, strokeDash=dash, strokeWidth=1.5)
    if axis == "x":
        align, dx = ("left", 4) if at < before else ("right", -4)
        name = alt.Chart(data).mark_text(align=align, dx=dx, baseline="top", color=colour)
        return [line.encode(x="at:Q"), name.encode(x="at:Q", y=alt.value(2), text="text:N")]
    name = alt.Chart(data).mark_text(align="right", dy=-6, color=colour)
    return [line.encode(y="at:Q"), name.encode(y="at:Q", x=alt.value("width"), text="text:N")]
