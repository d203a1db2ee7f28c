"""What figures have in common: zooming that leaves scrolling alone, a labelled line, rows of data."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal

from sightline.report.style import FAINT, PALETTE, altair

CALM, ALARM = PALETTE[0], PALETTE[1]
WIDTH, HEIGHT = 560, 240


def rows(values: Sequence[dict[str, Any]]) -> Any:
    """Data for a chart, as one JSON text: Altair would check each of many values again and again.

    CSV would be shorter, but Vega reads it with code that it generates, which the page forbids.
    """
    text = json.dumps(list(values), separators=(",", ":"), allow_nan=False)
    return altair().Data(values=text, format={"type": "json"})


def zoom(*encodings: Literal["x", "y"]) -> Any:
    """Drag to move, Ctrl or Shift and the wheel to zoom, double click to go back."""
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
    """A line across the figure with its name; at ``before`` or beyond, the name stands to its left."""
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
