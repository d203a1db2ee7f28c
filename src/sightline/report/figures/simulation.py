"""An attack's risk with its interval, the bounds, and the risk of ignoring the answers."""

from __future__ import annotations

import math
from typing import Any

from sightline.attacks.monte_carlo import Simulation
from sightline.format import number
from sightline.report.figures.parts import EXPOSED, NEUTRAL, WIDTH, rows, zoom
from sightline.report.names import isolated
from sightline.report.style import INK, altair


def draw(result: Simulation) -> Any:
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
