"""What every figure has: zooming that leaves scrolling alone, a labelled line, percent, rows of data."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any, Literal

from sightline.report.style import FAINT, PALETTE, altair

CALM, ALARM = PALETTE[0], PALETTE[1]
WIDTH, HEIGHT = 560, 240


def rows(values: Sequence[dict[str, Any]]) -> Any:
    """Data for a chart, as one text: Altair would look at each of many values again and again.

    Not as CSV, which is shorter: Vega reads that with a function it makes of a text, and the page forbids it.
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
    """A line across the figure with its name at the end; from ``before`` on, the name stands before it."""
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


def percent(share: float) -> str:
    """A share in percent with as many digits as it deserves.

    >>> percent(0.5), percent(0.1234), percent(0.00123)
    ('50 %', '12 %', '0.12 %')
    """
    return f"{100 * share:.0f} %" if share >= 0.1 or share == 0 else f"{100 * share:.2g} %"


def at_least(share: float) -> str:
    """A lower bound in percent, rounded down.

    >>> at_least(0.1299), at_least(0.00778), at_least(0.0)
    ('12 %', '0.77 %', '0 %')
    """
    whole = 100 * share
    if whole >= 10 or whole <= 0:
        return f"{math.floor(whole)} %"
    unit = 10.0 ** (math.floor(math.log10(whole)) - 1)
    return f"{math.floor(whole / unit) * unit:.2g} %"
