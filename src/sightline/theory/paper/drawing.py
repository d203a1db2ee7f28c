"""Draw the panels of the paper: lines over a count or a budget, printed points, and stars at minima."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from sightline.report.style import DASHES, INK, PALETTE, altair
from sightline.theory.paper.comparison import Line

_STAR = (
    "M0,-1L0.225,-0.309L0.951,-0.309L0.363,0.118L0.588,0.809L0,0.382L-0.588,0.809L-0.363,0.118"
    "L-0.951,-0.309L-0.225,-0.309Z"
)
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def panel(  # many parameters: the options of one chart, all but the lines optional
    lines: Sequence[Line],
    *,
    title: str,
    y_title: str,
    x_title: str = "releases L",
    subtitle: str = "",
    scatter: Sequence[Line] = (),
    published: Sequence[Line] = (),
    stars: Sequence[tuple[str, float, float]] = (),
    x_log: bool = False,
    y_log: bool = True,
    x_ticks: Sequence[float] = (),
    width: int = 285,
    height: int = 205,
) -> Any:
    """Draw lines, each in its own colour and dashes.

    ``scatter`` is drawn as dots with their intervals, ``published`` as circles in the colour of the line of
    the same name, and ``stars`` are (name, x, y).
    """
    alt = altair()
    drawn = [*lines, *scatter, *published]
    names = list(dict.fromkeys(line.name for line in drawn))
    # About 40 characters of a legend fit under a panel.
    columns = max(1, min(len(names), 44 // (max(map(len, names)) + 7)))
    colour = alt.Color(
        "series:N",
        title=None,
        scale=alt.Scale(domain=names, range=[PALETTE[i % len(PALETTE)] for i in range(len(names))]),
        legend=alt.Legend(symbolType="stroke", symbolSize=260, symbolStrokeWidth=2.4, columns=columns),
    )
    dash = alt.StrokeDash(
        "series:N",
        title=None,
        scale=alt.Scale(domain=names, range=[list(DASHES[i % len(DASHES)]) for i in range(len(names))]),
    )
    ends = [
        y + sign * width_
        for line in drawn
        for y, width_ in zip(line.y, line.half_widths or (0.0,) * len(line.y), strict=True)
        for sign in (-1, 1)
        if y + sign * width_ > 0 or not y_log
    ]
    x = axis("x", [x for line in drawn for x in line.x], title=x_title, log=x_log, ticks=x_ticks)
    y = axis("y", ends, title=y_title, log=y_log)
    tips = [
        alt.Tooltip("series:N", title="curve"),
        alt.Tooltip("x:Q", title=x_title, format="~g"),
        alt.Tooltip("y:Q", title=y_title, format=".6g"),
    ]

    def points(shown: Sequence[Line], **mark: Any) -> Any:
        chart = alt.Chart(_data(shown)).mark_point(**mark)
        return chart.encode(x=x, y=y, color=colour, tooltip=tips)

    layers = []
    if lines:
        layers += [
            alt.Chart(_data(lines)).mark_line(clip=True).encode(x=x, y=y, color=colour, strokeDash=dash),
            # Invisible points that carry the tooltips.
            alt.Chart(_data(lines)).mark_point(opacity=0, size=60).encode(x=x, y=y, tooltip=tips),
        ]
    uncertain = [line for line in [*lines, *scatter] if line.half_widths]
    if uncertain:
        layers.append(
            alt.Chart(_data(uncertain)).mark_rule(clip=True).encode(x=x, y="low:Q", y2="high:Q", color=colour)
        )
    dots = [*scatter, *(line for line in lines if line.half_widths)]
    if dots:
        layers.append(points(dots, filled=True, opacity=1, size=34))
    if published:
        layers.append(points(published, filled=False, size=42, strokeWidth=1, opacity=0.9))
    if stars:
        places = [{"series": name, "x": at, "y": height_} for name, at, height_ in stars]
        layers.append(
            alt.Chart(alt.Data(values=places))
            .mark_point(shape=_STAR, filled=True, size=190, opacity=1, stroke=INK, strokeWidth=0.6)
            .encode(x=x, y=y, color=colour, tooltip=tips)
        )
    heading = alt.TitleParams(text=title, subtitle=subtitle) if subtitle else title
    return alt.layer(*layers).properties(title=heading, width=width, height=height)


def stars_of(lines: Sequence[Line]) -> list[tuple[str, float, float]]:
    """The lowest point of each line, unless it is the last: the minimum may then lie beyond it."""
    return [(line.name, *line.lowest) for line in lines if line.lowest[0] != line.x[-1]]


def axis(field: str, values: Sequence[float], *, title: str, log: bool, ticks: Sequence[float] = ()) -> Any:
    """The x or y channel of ``field``, with few ticks and a scale a little wider than the values."""
    alt = altair()
    low, high = min(values), max(values)
    if not log:
        distinct = sorted(set(values))
        if not ticks and len(distinct) <= 8 and all(float(value).is_integer() for value in distinct):
            ticks = distinct  # whole numbers: no ticks between them
        scale = alt.Scale(zero=False, nice=not ticks, padding=6 if ticks or field == "y" else 0)
        marks = alt.Axis(format="~g", **({"values": list(ticks)} if ticks else {"tickCount": 6}))
    else:
        room = max((high / low) ** 0.04, 1.02)
        scale = alt.Scale(type="log", nice=False, domain=[low / room, high * room])
        places = list(ticks) or _log_ticks(low / room, high * room)
        labels = "".join(f"abs(datum.value / {at!r} - 1) < 1e-6 ? '{_label(at)}' : " for at in places)
        marks = alt.Axis(values=places, labelExpr=labels + "''")
    channel = alt.X if field.startswith("x") else alt.Y
    return channel(f"{field}:Q", title=title, scale=scale, axis=marks)


def _log_ticks(low: float, high: float) -> list[float]:
    decades = math.log10(high / low)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    factors = (1, 2, 5) if decades < 2.2 else (1,)
    places = [float(f"{factor}e{power}") for power in powers for factor in factors]
    inside = [place for place in places if low <= place <= high]
    return inside[:: max(1, round(len(inside) / 7))]


def _label(value: float) -> str:
    power = round(math.log10(value))
    if 1e-3 <= value < 1e4 or abs(value / 10.0**power - 1) > 1e-9:
        return f"{value:g}"
    return "10" + str(power).translate(_SUPERSCRIPTS)


def _data(lines: Sequence[Line]) -> Any:
    rows = []
    for line in lines:
        widths = line.half_widths or (0.0,) * len(line.x)
        for x, y, width in zip(line.x, line.y, widths, strict=True):
            # A logarithmic axis cannot show an end at or below zero.
            rows.append(
                {"series": line.name, "x": x, "y": y, "low": max(y - width, y / 1000), "high": y + width}
            )
    return altair().Data(values=rows)
