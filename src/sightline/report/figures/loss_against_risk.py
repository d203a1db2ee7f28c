"""Every record's own privacy loss against its exposure: equal losses can have very different exposures."""

from __future__ import annotations

import math
from typing import Any

from sightline.auditing.result import AuditResult
from sightline.format import number, parameter, percent
from sightline.report.figures.parts import EXPOSED, NEUTRAL, WIDTH, labelled_line, lists, zoom
from sightline.report.style import altair

_LARGE_RATIO = 30.0  # if the losses differ by more than this factor, the axis is logarithmic


def draw(result: AuditResult) -> Any:
    """Draw the records as points: their privacy loss, and the uncertainty that remains."""
    alt = altair()
    points = [
        {
            "epsilon": _digits(point.epsilon),
            "lower": _digits(point.remaining_uncertainty.lower),
            "upper": _digits(point.remaining_uncertainty.upper),
            "records": point.records,
            "seen": int(point.identifiable),
        }
        for point in result.losses
    ]
    epsilons = [point.epsilon for point in result.losses if point.epsilon > 0]
    log = bool(epsilons) and len(epsilons) == len(points) and max(epsilons) > _LARGE_RATIO * min(epsilons)
    ticks: dict[str, Any] = {"values": _powers(min(epsilons), max(epsilons))} if log else {"tickCount": 6}
    colours = {"singled out": EXPOSED, "not singled out": NEUTRAL}
    status = alt.Color("status:N").title(None).scale(domain=list(colours), range=list(colours.values()))
    base = alt.Chart().encode(
        x=alt.X("epsilon:Q")
        .title(f"a record's own epsilon at delta = {parameter(result.budget.delta)}")
        .scale(type="log" if log else "linear", zero=False, padding=24)
        .axis(labelExpr="format(datum.value, ',.3~r')", **ticks),
        color=status,
    )
    keeps = alt.Y("upper:Q").title("remaining uncertainty").axis(format="%")
    keeps = keeps.scale(domain=[0, 1.05], nice=False)
    # A point is what the best linear attack leaves; no attack leaves less than the lower end of its line.
    bracket = base.mark_rule(opacity=0.35, strokeWidth=1.5).encode(y=keeps, y2="lower:Q")
    chart = (
        base.properties(name="loss_against_risk")
        .mark_point(filled=True, opacity=0.75, strokeWidth=0.5)
        .encode(
            y=keeps,
            size=alt.Size("records:Q").legend(None).scale(type="log", range=[80, 700], domain=[1, 100_000]),
            shape=alt.Shape("status:N").title(None).scale(domain=list(colours), range=["diamond", "circle"]),
            tooltip=[
                alt.Tooltip("records:Q", format=",d"),
                alt.Tooltip("epsilon:Q", title="own epsilon", format=".4g"),
                alt.Tooltip("lower:Q", title="keeps at least", format=".1%"),
                alt.Tooltip("upper:Q", title="and at most", format=".1%"),
                "status:N",
            ],
        )
        .add_params(zoom("x", "y"))
    )
    layers = [bracket, chart]
    if result.verdict.limit is not None:
        limit = result.verdict.limit
        layers += labelled_line(limit, f"limit {percent(limit)}", axis="y", dashed=False, colour=EXPOSED)
    return (
        alt.layer(*layers, data=lists(points))
        .transform_flatten(list(points[0]))
        .transform_calculate(status="datum.seen ? 'singled out' : 'not singled out'")
        .properties(width=WIDTH, height=260, description=describe(result))
    )


def _digits(value: float) -> float:
    """A coordinate with as many digits as a drawing can show; texts are written from the full numbers."""
    return float(f"{value:.5g}")


def describe(result: AuditResult) -> str:
    """The figure in words."""
    losses = result.losses
    low = min(losses, key=lambda point: point.remaining_uncertainty.upper)
    high = max(losses, key=lambda point: point.remaining_uncertainty.upper)
    least, most = min(p.epsilon for p in losses), max(p.epsilon for p in losses)
    cost = (
        f"every record has a privacy loss of epsilon = {number(most)}"
        if most - least <= 1e-9 * most
        else f"privacy losses range from epsilon = {number(least)} to {number(most)}"
    )
    return (
        f"According to the accountant, {cost}; what the best linear attack leaves ranges from "
        f"{percent(low.remaining_uncertainty.upper)} to {percent(high.remaining_uncertainty.upper)} of a "
        "record's uncertainty. No budget shows this difference: it depends on who shares a group with whom. "
        "A point is what that attack leaves; no attack leaves less than the lower end of the point's line."
    )


def _powers(low: float, high: float) -> list[float]:
    """Powers of ten around a range, few enough that their labels fit on a narrow page."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    step = -(-(last - first) // 5)
    return [10.0**power for power in range(first, last + 1, step)]


def drawable(result: AuditResult) -> bool:
    """Whether there is anything to draw."""
    return bool(result.losses)
