"""The noise of every release before and after a design."""

from __future__ import annotations

from statistics import median
from typing import Any

from sightline.designing.result import DesignResult
from sightline.format import count, number
from sightline.report.figures.parts import EXPOSED, NEUTRAL, WIDTH, rows, zoom
from sightline.report.names import isolated, short
from sightline.report.style import altair

_MOST_RELEASES = 40  # the ones whose noise rises most
_BAND = 44  # pixels for one release
_BEFORE, _AFTER = "today", "designed"


def draw(result: DesignResult) -> Any:
    """Draw two lines for each release, from its least to its largest noise, with a mark at the median."""
    alt = altair()
    lines, names = [], []
    for name, numbers in _releases(result)[:_MOST_RELEASES]:
        names.append(isolated(name, 48))
        for when, noise in (
            (_BEFORE, [one.stddev_before for one in numbers]),
            (_AFTER, [one.stddev for one in numbers]),
        ):
            lines.append(
                {
                    "release": names[-1],
                    "when": when,
                    "least": min(noise),
                    "median": median(noise),
                    "largest": max(noise),
                    "numbers": len(noise),
                }
            )
    colours = {_BEFORE: NEUTRAL, _AFTER: EXPOSED}
    base = alt.Chart(rows(lines)).encode(
        y=alt.Y("release:N").title(None).sort(names).axis(labelLimit=300, ticks=False),
        yOffset=alt.YOffset("when:N").sort(list(colours)),
        color=alt.Color("when:N").title("noise").scale(domain=list(colours), range=list(colours.values())),
        tooltip=[
            alt.Tooltip("release:N"),
            alt.Tooltip("when:N", title="noise"),
            alt.Tooltip("least:Q", format=".4~g"),
            alt.Tooltip("median:Q", format=".4~g"),
            alt.Tooltip("largest:Q", format=".4~g"),
            alt.Tooltip("numbers:Q", title="published numbers", format=",d"),
        ],
    )
    scale = alt.Scale(type="log", nice=False, padding=12)
    axis = alt.Axis(format="~g", tickCount=6)
    least = alt.X("least:Q").title("noise on a number (standard deviation)").scale(scale).axis(axis)
    span = base.mark_rule(strokeWidth=3, opacity=0.7).encode(x=least, x2="largest:Q")
    mark = base.mark_point(filled=True, opacity=1, size=60).encode(
        x=alt.X("median:Q").scale(scale).axis(axis),
        shape=alt.Shape("when:N").title("noise").scale(domain=list(colours), range=["circle", "diamond"]),
    )
    return alt.layer(span, mark.properties(name="noise_by_release").add_params(zoom("x"))).properties(
        width=WIDTH, height={"step": _BAND / 2}, description=describe(result)
    )


def _releases(result: DesignResult) -> list[tuple[str, list[Any]]]:
    """The numbers of every release, those first whose noise rises most."""
    found: dict[str, list[Any]] = {}
    for one in result.noise:
        found.setdefault(one.release, []).append(one)
    return sorted(found.items(), key=lambda item: -max(one.stddev / one.stddev_before for one in item[1]))


def describe(result: DesignResult) -> str:
    """The figure in words."""
    releases = _releases(result)
    raised = len(result.raised)
    if not raised:
        return f"No number of the {count(len(releases), 'release')} gets more noise than it has today."
    most = max(result.raised, key=lambda one: one.stddev / one.stddev_before)
    shown = ""
    if len(releases) > _MOST_RELEASES:
        shown = f" The figure shows the {_MOST_RELEASES} releases whose noise rises most."
    return (
        f"{raised:,} of {count(len(result.noise), 'number')} get more noise. "
        f'It rises most in "{short(most.release)}", '
        f"{number(most.stddev / most.stddev_before, 3)} times.{shown}"
    )


def drawable(result: DesignResult) -> bool:
    """Whether there is anything to draw."""
    return bool(result.noise)
