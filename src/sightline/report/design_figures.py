"""Figures of a design: the noise before and after, and what the noise is for."""

from __future__ import annotations

from statistics import median
from typing import Any

from sightline.designing.result import DesignResult, who
from sightline.format import count, number, percent
from sightline.report.figures import ReportFigure
from sightline.report.style import EXPOSED, INK, NEUTRAL, WIDTH, altair, rows, zoom
from sightline.report.wording import isolated, one_line, short

_MOST_RELEASES = 40  # the ones whose noise rises most
_BAND = 44  # pixels for one release
_BEFORE, _AFTER = "today", "designed"


def draw_noise(result: DesignResult) -> Any:
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
    least = alt.X("least:Q").title(["noise on a number", "(standard deviation)"]).scale(scale).axis(axis)
    span = base.mark_rule(strokeWidth=3, opacity=0.7).encode(x=least, x2="largest:Q")
    mark = base.mark_point(filled=True, opacity=1, size=60).encode(
        x=alt.X("median:Q").scale(scale).axis(axis),
        shape=alt.Shape("when:N").title("noise").scale(domain=list(colours), range=["circle", "diamond"]),
    )
    return alt.layer(span, mark.properties(name="noise_by_release").add_params(zoom("x"))).properties(
        width=WIDTH, height={"step": _BAND / 2}, description=describe_noise(result)
    )


def _releases(result: DesignResult) -> list[tuple[str, list[Any]]]:
    """The numbers of every release, those first whose noise rises most."""
    found: dict[str, list[Any]] = {}
    for one in result.noise:
        found.setdefault(one.release, []).append(one)
    return sorted(found.items(), key=lambda item: -max(one.stddev / one.stddev_before for one in item[1]))


def describe_noise(result: DesignResult) -> str:
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


_BAR = 26


def draw_prices(result: DesignResult) -> Any:
    """Draw a bar for each of the dearest attacks, one for all others, and one for the budget."""
    alt = altair()
    bars = _bars(result)
    order = [bar["attack"] for bar in bars]
    base = alt.Chart(rows(bars)).encode(
        y=alt.Y("attack:N").title(None).sort(order).axis(labelLimit=320, ticks=False),
        tooltip=[
            alt.Tooltip("on:N", title="attack on"),
            alt.Tooltip("recipe:N"),
            alt.Tooltip("bound:N", title="who knows"),
            alt.Tooltip("price:Q", format=".1%"),
        ],
    )
    share = (
        alt.X("price:Q")
        .title("share of the added noise")
        .axis(format="%", tickCount=4, labelOverlap=True)
        .scale(domain=[0, 1.25 * max(bar["price"] for bar in bars)], nice=False)
    )
    colours = {"attack": EXPOSED, "rest": NEUTRAL}
    bar = base.mark_bar().encode(
        x=share,
        color=alt.Color("kind:N").legend(None).scale(domain=list(colours), range=list(colours.values())),
    )
    text = base.mark_text(align="left", dx=4, color=INK).encode(
        x=share, text=alt.Text("price:Q", format=".0%")
    )
    return alt.layer(bar.properties(name="prices").add_params(zoom("x")), text).properties(
        width=WIDTH, height={"step": _BAR}, description=describe_prices(result)
    )


def _bars(result: DesignResult) -> list[dict[str, Any]]:
    bars: list[dict[str, Any]] = []
    for place, one in enumerate(result.attacks, start=1):
        recipe = one_line(one.shortest or one.recipe)
        bars.append(
            {
                "attack": isolated(f"{place}. {one.record or 'attack'}: {recipe}", 56),
                "on": isolated(who(one), 80),
                "recipe": isolated(recipe, 160),
                "bound": one.bound,
                "price": one.price,
                "kind": "attack",
            }
        )
    budget = 0.0 if result.budget is None else result.budget.price
    others = {
        f"{result.attacks_in_all - len(bars):,} other attacks": 1 - budget - sum(b["price"] for b in bars),
        "the budget": budget,
    }
    for name, price in others.items():
        if price > 0.0005:
            bars.append(
                {"attack": name, "on": name, "recipe": "", "bound": "", "price": price, "kind": "rest"}
            )
    return bars


def describe_prices(result: DesignResult) -> str:
    """The figure in words."""
    first = result.attacks[0]
    recipe = short(first.shortest or first.recipe, 160)
    return (
        f"The added noise holds off {count(result.attacks_in_all, 'attack')}. The dearest, "
        f"{percent(first.price)} of it, is on {short(who(first))}, by {recipe}."
    )


DESIGN_FIGURES: tuple[ReportFigure[DesignResult], ...] = (
    ReportFigure(
        name="noise-by-release",
        title="Noise before and after",
        draw=draw_noise,
        describe=describe_noise,
        drawable=lambda result: bool(result.noise),
    ),
    ReportFigure(
        name="prices",
        title="What the added noise is for",
        draw=draw_prices,
        describe=describe_prices,
        drawable=lambda result: bool(result.attacks),
    ),
)
