"""What the added noise is for: the attacks and their prices."""

from __future__ import annotations

from typing import Any

from sightline.designing.attacks import who
from sightline.designing.result import DesignResult
from sightline.format import count, percent
from sightline.report.figures.parts import EXPOSED, NEUTRAL, WIDTH, rows, zoom
from sightline.report.names import isolated, one_line, short
from sightline.report.style import INK, altair

_BAR = 26


def draw(result: DesignResult) -> Any:
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
        width=WIDTH, height={"step": _BAR}, description=describe(result)
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


def describe(result: DesignResult) -> str:
    """The figure in words."""
    first = result.attacks[0]
    recipe = short(first.shortest or first.recipe, 160)
    return (
        f"The added noise holds off {count(result.attacks_in_all, 'attack')}. The dearest, "
        f"{percent(first.price)} of it, is on {short(who(first))}, by {recipe}."
    )


def drawable(result: DesignResult) -> bool:
    """Whether there is anything to draw."""
    return bool(result.attacks)
