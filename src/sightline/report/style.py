"""The style of the figures; charts as files, and inside pages that need no network.

Altair makes a chart, and :func:`specification` adds the style; nothing is registered globally. vl-convert
turns the specification into SVG, PDF or PNG without a browser.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from html import escape
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from sightline.errors import InvalidInput, MissingExtra
from sightline.report.files import write_new

Specification = dict[str, Any]

INK, FAINT, GRID = "#1b2733", "#6b7885", "#e5e9ee"
# Okabe and Ito's colours, which people with any colour vision can distinguish; yellow is too faint on paper.
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#1b2733")
DASHES = ((1, 0), (6, 3), (2, 2), (8, 2, 2, 2), (1, 0), (6, 3), (2, 2))
FONT = "Helvetica Neue, Arial, Liberation Sans, DejaVu Sans, sans-serif"


def altair() -> Any:
    """Import Altair, or raise an error that says how to install it."""
    try:
        import altair as module
    except ImportError:
        raise MissingExtra(
            'figures need Altair and vl-convert, which are not installed; pip install "sightline[report]"'
        ) from None
    return module


def _converter() -> Any:
    try:
        import vl_convert as module
    except ImportError:
        raise MissingExtra(
            'figures need vl-convert, which is not installed; pip install "sightline[report]"'
        ) from None
    return module


def configuration() -> Specification:
    """Return the style as a Vega-Lite configuration."""
    text = {"font": FONT, "color": INK}
    labels = {"labelFont": FONT, "labelFontSize": 11, "labelColor": INK}
    titles = {"titleFont": FONT, "titleFontSize": 12, "titleFontWeight": "normal", "titleColor": INK}
    return {
        "font": FONT,
        "background": "white",
        "view": {"stroke": None, "continuousWidth": 320, "continuousHeight": 220},
        "title": {
            **text,
            "fontSize": 13,
            "fontWeight": "bold",
            "anchor": "start",
            "offset": 8,
            "subtitleFont": FONT,
            "subtitleColor": FAINT,
            "subtitleFontSize": 11,
        },
        "axis": {
            **labels,
            **titles,
            "domainColor": FAINT,
            "tickColor": FAINT,
            "tickSize": 4,
            "gridColor": GRID,
            "gridWidth": 0.8,
            "titlePadding": 8,
        },
        "legend": {
            **labels,
            **titles,
            "titleFontSize": 11,
            "symbolStrokeWidth": 2,
            "symbolSize": 60,
            "orient": "bottom",
            "direction": "horizontal",
            "labelLimit": 400,
        },
        "header": {**labels, **titles},
        "line": {"strokeWidth": 1.8},
        "point": {"size": 36, "strokeWidth": 1.2},
        "rule": {"strokeWidth": 1.2},
        "bar": {"color": PALETTE[0]},
        "text": {**text, "fontSize": 11},
        "range": {"category": list(PALETTE)},
    }


def specification(chart: Any) -> Specification:
    """Return a chart as a Vega-Lite specification, with the style and the data in it.

    >>> chart = altair().Chart(altair().Data(values=[{"x": 1, "y": 2}])).mark_point().encode(x="x:Q")
    >>> specification(chart)["config"]["axis"]["gridColor"]
    '#e5e9ee'
    """
    without_style: Specification = chart.to_dict()
    return {**without_style, "config": configuration()}


def for_print(chart: Specification) -> Specification:
    """The chart for a file, with room for wider letters: SVG is shown in the fonts of whoever opens it."""
    axis = {**chart["config"]["axis"], "titlePadding": 26}
    padding = {"left": 28, "right": 14, "top": 8, "bottom": 8}
    return {**chart, "padding": padding, "config": {**chart["config"], "axis": axis}}


def svg(chart: Specification) -> str:
    """Draw the chart as SVG; equal specifications give equal bytes."""
    text: str = _converter().vegalite_to_svg(chart)
    # Vega numbers the clip paths of all drawings of the process; number them from 0 in each drawing.
    clips = list(dict.fromkeys(re.findall(r"\bid=\"(clip\d+)\"", text)))
    numbered = {name: f"clip{place}" for place, name in enumerate(clips)}
    text = re.sub(r"(\bid=\"|url\(#)(clip\d+)\b", lambda match: match[1] + numbered[match[2]], text)
    return text.rstrip("\n") + "\n"


def svg_source(chart_svg: str) -> str:
    """Return a drawing as the source of an image in HTML."""
    return "data:image/svg+xml," + quote(chart_svg.strip(), safe=" =:/,;()'")


def png(chart: Specification, *, scale: float = 2.0) -> bytes:
    """Draw the chart as PNG."""
    return bytes(_converter().vegalite_to_png(chart, scale=scale))


def pdf(chart: Specification) -> bytes:
    """Draw the chart as PDF."""
    return bytes(_converter().vegalite_to_pdf(chart))


def save(chart: Specification, path: Path, *, force: bool = True, owner_only: bool = False) -> None:
    """Write the chart as ``.svg``, ``.pdf`` or ``.png``, by the ending of the file's name."""
    match path.suffix.lower():
        case ".svg":
            content = svg(chart).encode()
        case ".png":
            content = png(chart)
        case ".pdf":
            content = pdf(chart)
        case suffix:
            raise InvalidInput(f"expected a figure named .svg, .pdf or .png, got {suffix!r}")
    write_new(path, content, force=force, owner_only=owner_only)


@cache
def bundle() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script, which needs no network."""
    script: str = _converter().javascript_bundle()
    return script


def live_charts(charts: Mapping[str, Specification]) -> str:
    """Write scripts, Vega included, that turn each element with one of these ids into a live chart."""
    # A script element ends at the first "</", even inside a string.
    specifications = json.dumps(dict(charts), separators=(",", ":"), ensure_ascii=False).replace("</", "<\\/")
    return (
        f"<script>{bundle()}</script>\n"
        f"<script>for (const [id, chart] of Object.entries({specifications})) {{\n"
        '  vegaEmbed(document.getElementById(id), chart, {renderer: "svg", actions: false});\n'
        "}</script>\n"
    )


def static_chart(chart_svg: str, *, identifier: str, description: str) -> str:
    """Write an element that shows the drawing without scripts; :func:`live_charts` makes it interactive."""
    source = svg_source(chart_svg)
    return f'<div id="{escape(identifier)}"><img alt="{escape(description)}" src="{source}"></div>'


NEUTRAL, EXPOSED, *_ = PALETTE  # EXPOSED: the colour of what is exposed or below the limit
WIDTH, HEIGHT = 560, 240


def rows(values: Sequence[dict[str, Any]]) -> Any:
    """Return data for a chart as one JSON text, since Altair checks the values of a list again and again.

    CSV would be shorter, but Vega generates code to read it, which the page forbids.
    """
    text = json.dumps(list(values), separators=(",", ":"), allow_nan=False)
    return altair().Data(values=text, format={"type": "json"})


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
