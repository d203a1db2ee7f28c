"""The same plan under each accountant: what its noise would leave, or what the given noise costs."""

from __future__ import annotations

import math
from typing import Any

from sightline.auditing.result import AuditResult
from sightline.format import number, parameter, percent
from sightline.report.figures.parts import EXPOSED, NEUTRAL, WIDTH, labelled_line, rows, zoom
from sightline.report.style import INK, altair
from sightline.report.wording import spent_by_accountant


def draw(result: AuditResult) -> Any:
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
        width=WIDTH, height=34 * len(bars) + 16, description=describe(result)
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
        width=WIDTH, height=30 * len(bars) + 10, description=describe(result)
    )


def describe(result: AuditResult) -> str:
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


def drawable(result: AuditResult) -> bool:
    """Whether there is anything to draw."""
    spent = result.budget.spent.values()
    return bool(result.alternatives or (spent and math.isfinite(max(spent))))
