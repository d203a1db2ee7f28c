"""Show release curves and simulations in a notebook: as a chart, and as a piece of HTML without scripts."""

from __future__ import annotations

import math
from collections.abc import Callable
from html import escape
from typing import Any

import numpy as np

from sightline.errors import InvalidInput
from sightline.format import number
from sightline.report.notebook import picture
from sightline.report.style import EXPOSED, FAINT, HEIGHT, INK, NEUTRAL, WIDTH, altair, rows, zoom
from sightline.report.wording import isolated
from sightline.theory.attacks.monte_carlo import Simulation
from sightline.theory.multiset.curve import ReleaseCurve


def plot(result: object) -> Any:
    """Draw a result as an Altair chart."""
    draw, _ = _shown(result)
    return draw(result)


def html(result: object) -> str:
    """Write a result as a piece of HTML: a text, then a drawing."""
    draw, text = _shown(result)
    return f"<div><p>{escape(text(result))}</p>{picture(draw(result))}</div>"


def _shown(result: object) -> tuple[Callable[[Any], Any], Callable[[Any], str]]:
    """What draws a result, and what says it."""
    match result:
        case ReleaseCurve():
            return draw_curve, describe_curve
        case Simulation():
            return draw_simulation, str
        case _:
            raise InvalidInput(f"expected a result that can be shown, got {type(result).__name__}")


def draw_curve(curve: ReleaseCurve) -> Any:
    """Draw the bound by the number of releases; the smallest, which is best for the attacker, in orange."""
    alt, finite = altair(), np.isfinite(curve.crb)
    points = [
        {"releases": int(count), "crb": float(crb), "place": "smallest" if count == curve.best else "other"}
        for count, crb in zip(curve.releases[finite], curve.crb[finite], strict=True)
    ]
    base = alt.Chart(rows(points)).encode(
        x=alt.X("releases:Q")
        .title("releases")
        .axis(tickMinStep=1, format="d")
        .scale(zero=False, nice=False, padding=8),
        y=alt.Y("crb:Q").title("Cramér–Rao bound").scale(type="log").axis(format="~g"),
    )
    places = {"other": NEUTRAL, "smallest": EXPOSED}
    dots = base.mark_point(filled=True, opacity=1).encode(
        color=alt.Color("place:N").legend(None).scale(domain=list(places), range=list(places.values())),
        size=alt.Size("place:N").legend(None).scale(domain=list(places), range=[22, 90]),
        tooltip=["releases:Q", alt.Tooltip("crb:Q", format=".6g")],
    )
    line = base.mark_line(color=FAINT, strokeWidth=1.2)
    return alt.layer(line, dots.properties(name="release_curve").add_params(zoom("x"))).properties(
        width=WIDTH, height=HEIGHT, description=describe_curve(curve)
    )


def describe_curve(curve: ReleaseCurve) -> str:
    """The curve in words."""
    if not curve.best:
        return "No number of releases in the range makes the values identifiable."
    lowest = curve.crb[list(curve.releases).index(curve.best)]
    after = ", at the end of the range: it may still fall" if curve.still_falling else ""
    return (
        f"The values are identifiable from {curve.first_identifiable} releases on; the bound is smallest, "
        f"{number(float(lowest))}, at {curve.best}{after}."
    )


def draw_simulation(result: Simulation) -> Any:
    """Draw mean squared errors on one axis; leave out those that are not finite."""
    alt = altair()
    attack = isolated(result.attack)
    low, high = result.interval
    bars: list[dict[str, Any]] = [
        {"what": attack, "low": low, "at": result.mse, "high": high, "kind": "attack"},
        {"what": "Cramér–Rao bound", "at": result.crb, "kind": "bound"},
        {
            "what": "Bayes bracket",
            "low": result.bayes_lower,
            "at": result.bayes_lower,
            "high": result.bayes_upper,
            "kind": "bound",
        },
        {"what": "ignoring the answers", "at": result.trivial_mse, "kind": "bound"},
    ]
    shown = [
        {**bar, "text": number(bar["at"])}
        for bar in bars
        if all(math.isfinite(value) and value > 0 for value in bar.values() if isinstance(value, float))
    ]
    base = alt.Chart(rows(shown)).encode(
        y=alt.Y("what:N").title(None).sort([bar["what"] for bar in shown]).axis(labelLimit=200)
    )
    colours = {"attack": EXPOSED, "bound": NEUTRAL}
    points = base.mark_point(filled=True, opacity=1, size=90).encode(
        x=alt.X("at:Q").title("mean squared error").scale(type="log", padding=40).axis(format="~g"),
        color=alt.Color("kind:N").legend(None).scale(domain=list(colours), range=list(colours.values())),
        tooltip=[
            "what:N",
            alt.Tooltip("at:Q", format=".6g"),
            alt.Tooltip("low:Q", format=".6g"),
            alt.Tooltip("high:Q", format=".6g"),
        ],
    )
    interval = base.mark_rule(color=INK, strokeWidth=2).encode(x="low:Q", x2="high:Q")
    text = base.mark_text(dy=-10, color=INK).encode(x="at:Q", text="text:N")
    return alt.layer(interval, points.properties(name="simulation").add_params(zoom("x")), text).properties(
        width=WIDTH, height=44 * len(shown), description=str(result)
    )
