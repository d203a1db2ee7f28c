"""The loss for each limit: designed, and with a common factor."""

from __future__ import annotations

from typing import Any

from sightline.designing.result import DesignResult
from sightline.format import number, percent
from sightline.report.figures.parts import EXPOSED, HEIGHT, NEUTRAL, WIDTH, labelled_line, rows, zoom
from sightline.report.style import altair

_COMMON, _DESIGNED = "all noise times a factor", "designed"


def draw(result: DesignResult) -> Any:
    """Draw the loss over today's for each limit, as two lines; the plan's own limit is marked."""
    alt = altair()
    points = [
        {"limit": one.limit, "way": way, "times": loss / result.loss_before}
        for one in result.trade_off
        for way, loss in ((_COMMON, one.loss_with_common_factor), (_DESIGNED, one.loss_designed))
    ]
    colours = {_COMMON: NEUTRAL, _DESIGNED: EXPOSED}
    lines = (
        alt.Chart(rows(points))
        .mark_line(point={"filled": True, "size": 55})
        .encode(
            x=alt.X("limit:Q")
            .title("limit: what everyone keeps at least")
            .axis(format="%", values=[one.limit for one in result.trade_off])
            .scale(domain=[0, 1], nice=False),
            y=alt.Y("times:Q")
            .title("loss, times today's")
            .axis(format="~g", tickCount=6)
            .scale(type="log", nice=False, padding=12),
            color=alt.Color("way:N").title(None).scale(domain=list(colours), range=list(colours.values())),
            strokeDash=alt.StrokeDash("way:N")
            .title(None)
            .scale(domain=list(colours), range=[[6, 3], [1, 0]]),
            tooltip=[
                alt.Tooltip("limit:Q", format=".0%"),
                alt.Tooltip("way:N", title="noise"),
                alt.Tooltip("times:Q", title="times today's loss", format=".4~g"),
            ],
        )
        .properties(name="trade_off")
        .add_params(zoom("x"))
    )
    mark = labelled_line(result.limit, f"this limit, {percent(result.limit)}", axis="x", dashed=True)
    return alt.layer(*mark, lines).properties(width=WIDTH, height=HEIGHT, description=describe(result))


def describe(result: DesignResult) -> str:
    """The figure in words."""
    shares = []
    for one in result.trade_off:
        designed, common = (
            number(loss / result.loss_before, 3) for loss in (one.loss_designed, one.loss_with_common_factor)
        )
        shares.append(f"{designed} ({common}) for {percent(one.limit)}")
    return f"Times today's loss, designed and in brackets with a common factor: {', '.join(shares)}."


def drawable(result: DesignResult) -> bool:
    """Whether there is anything to draw."""
    return len(result.trade_off) > 1
