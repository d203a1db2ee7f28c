"""Figures of the budget: the plan under each accountant, and privacy loss against risk."""

from __future__ import annotations

import math
from typing import Any

from sightline.auditing.result import AuditResult
from sightline.format import number, parameter, percent
from sightline.report.style import EXPOSED, INK, NEUTRAL, WIDTH, altair, labelled_line, lists, rows, zoom
from sightline.report.wording import spent_by_accountant


def draw_accountants(result: AuditResult) -> Any:
    """Draw what the most exposed record keeps under each accountant; without a budget, the epsilon spent."""
    return _alternatives(result) if result.alternatives else _spent(result)


def _alternatives(result: AuditResult) -> Any:
    alt = altair()
    own = result.budget.accountant
    bars = [
        {
            "accountant": alternative.accountant,
            "lower": alternative.least_remaining_uncertainty.lower,
            "upper": alternative.least_remaining_uncertainty.upper,
            "noise": alternative.noise_multiplier,
            "rmse": alternative.sharpest_rmse,
            "below": alternative.below_limit,
            "proven": "yes" if alternative.proven else "no",
            "own": "this plan" if alternative.accountant == own else "other",
            "text": f"noise × {number(alternative.noise_multiplier, 3)}"
            + ("" if alternative.proven else ", not proven"),
        }
        for alternative in result.alternatives
    ]
    order = [bar["accountant"] for bar in sorted(bars, key=lambda bar: (bar["noise"], bar["accountant"]))]
    base = alt.Chart(rows(bars)).encode(y=alt.Y("accountant:N").title(None).sort(order))
    colours = {"this plan": EXPOSED, "other": NEUTRAL}
    keeps = (
        alt.X("lower:Q")
        .title("the most exposed record keeps")
        .axis(format="%")
        .scale(domain=[0, 1], nice=False)
    )
    bracket = base.mark_bar(height=9, cornerRadius=4).encode(
        x=keeps.axis(format="%", values=[0, 0.2, 0.4, 0.6, 0.8, 1]),
        x2="upper:Q",
        color=alt.Color("own:N").legend(None).scale(domain=list(colours), range=list(colours.values())),
        tooltip=[
            "accountant:N",
            alt.Tooltip("noise:Q", title="noise over sensitivity", format=".4g"),
            alt.Tooltip("lower:Q", title="keeps at least", format=".1%"),
            alt.Tooltip("upper:Q", title="and at most", format=".1%"),
            alt.Tooltip("rmse:Q", title="sharpest error", format=".4g"),
            alt.Tooltip("below:Q", title="below the limit", format=",d"),
            alt.Tooltip("proven:N", title="keeps to the budget, proven"),
        ],
    )
    tick = base.mark_tick(thickness=2, size=14, color=INK).encode(x="lower:Q")
    # The text is above its bar: a narrow page has no room beside a bar that ends at the right.
    text = base.mark_text(align="right", dy=-12, color=INK).encode(x=alt.value("width"), text="text:N")
    layers = [bracket.properties(name="accountants").add_params(zoom("x")), tick, text]
    if result.verdict.limit is not None:
        limit = result.verdict.limit
        layers += labelled_line(limit, f"limit {percent(limit)}", axis="x", dashed=False, colour=EXPOSED)
    return alt.layer(*layers).properties(
        width=WIDTH, height=34 * len(bars) + 16, description=describe_accountants(result)
    )


def _spent(result: AuditResult) -> Any:
    alt = altair()
    bars = [
        {"accountant": name, "epsilon": epsilon, "text": number(epsilon)}
        for name, epsilon in spent_by_accountant(result.budget).items()
    ]
    order = [bar["accountant"] for bar in sorted(bars, key=lambda bar: (bar["epsilon"], bar["accountant"]))]
    most = max(result.budget.spent.values())
    base = alt.Chart(rows(bars)).encode(
        y=alt.Y("accountant:N").title(None).sort(order),
        x=alt.X("epsilon:Q")
        .title(f"epsilon at delta = {parameter(result.budget.delta)}")
        .axis(tickCount=4)
        .scale(domain=[0, 1.5 * most], nice=False),
    )
    bar = base.mark_bar(color=NEUTRAL, height=14).encode(
        tooltip=["accountant:N", alt.Tooltip("epsilon:Q", format=".6g")]
    )
    text = base.mark_text(align="left", dx=6, color=INK).encode(text="text:N")
    return alt.layer(bar.properties(name="accountants").add_params(zoom("x")), text).properties(
        width=WIDTH, height=30 * len(bars) + 10, description=describe_accountants(result)
    )


def describe_accountants(result: AuditResult) -> str:
    """The figure in words."""
    budget = result.budget
    if not result.alternatives:
        if not budget.spent:
            return "Nothing that is published costs any budget."
        low, high = min(budget.spent.values()), max(budget.spent.values())
        return (
            f"The noise amounts to epsilon = {number(low)} under the accountant that counts least and to "
            f"{number(high)} under the one that counts most, at delta = {parameter(budget.delta)}. "
            "The accountant changes what the noise is said to cost, not what an attacker sees."
        )
    assert budget.epsilon is not None  # there are no alternatives without a budget
    proven = [alternative for alternative in result.alternatives if alternative.proven] or list(
        result.alternatives
    )
    least = min(proven, key=lambda alternative: alternative.noise_multiplier)
    most = max(proven, key=lambda alternative: alternative.noise_multiplier)
    return (
        f"For the same budget of epsilon = {parameter(budget.epsilon)}, {least.accountant} asks for noise of "
        f"{number(least.noise_multiplier, 3)} times the sensitivity and leaves the most exposed record "
        f"{least.least_remaining_uncertainty}; {most.accountant} asks for "
        f"{number(most.noise_multiplier, 3)} and leaves {most.least_remaining_uncertainty}. "
        "A tighter accountant asks for less noise, and so the attacker sees more."
    )


def accountants_drawable(result: AuditResult) -> bool:
    """Whether there is anything to draw_accountants."""
    spent = result.budget.spent.values()
    return bool(result.alternatives or (spent and math.isfinite(max(spent))))


_LARGE_RATIO = 30.0  # if the losses differ by more than this factor, the axis is logarithmic


def draw_losses(result: AuditResult) -> Any:
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
        .properties(width=WIDTH, height=260, description=describe_losses(result))
    )


def _digits(value: float) -> float:
    """A coordinate with as many digits as a drawing can show; texts are written from the full numbers."""
    return float(f"{value:.5g}")


def describe_losses(result: AuditResult) -> str:
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
    ends = [percent(one.remaining_uncertainty.upper) for one in (low, high)]
    difference = " No budget shows this difference: it depends on who shares a group with whom."
    leaves = f"is {ends[0]}" if ends[0] == ends[1] else f"ranges from {ends[0]} to {ends[1]}"
    return (
        f"According to the accountant, {cost}; what the best linear attack leaves {leaves} of a "
        f"record's uncertainty.{difference * (ends[0] != ends[1])} A point is what that attack leaves; no "
        "attack leaves less than the lower end of the point's line."
    )


def _powers(low: float, high: float) -> list[float]:
    """Powers of ten around a range, few enough that their labels fit on a narrow page."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    step = -(-(last - first) // 5)
    return [10.0**power for power in range(first, last + 1, step)]
