"""The exposure after each release, and the number of records that it newly singles out."""

from __future__ import annotations

from typing import Any

from sightline.auditing.result import AuditResult
from sightline.format import count, percent
from sightline.report.figures.parts import (
    EXPOSED,
    HEIGHT,
    NEUTRAL,
    WIDTH,
    labelled_line,
    rows,
    zoom,
)
from sightline.report.names import isolated, short, wrapped
from sightline.report.style import INK, altair


def draw(result: AuditResult) -> Any:
    """Draw what the most exposed record keeps after each release; orange if it singles out a new record."""
    alt = altair()
    stages = [
        {
            "at": at,
            "release": isolated(stage.release),
            "lower": 1.0 if (least := stage.least_remaining_uncertainty) is None else least.lower,
            "upper": 1.0 if least is None else least.upper,
            "new": stage.newly_identifiable,
            "effect": "singles out a new record" if stage.newly_identifiable else "singles out no new record",
            "text": f"+{stage.newly_identifiable:,}" if stage.newly_identifiable else "",
            "identifiable": stage.identifiable_records,
            "below": stage.below_limit,
        }
        for at, stage in enumerate(result.timeline, start=1)
    ]
    names = [wrapped(stage.release, 20) for stage in result.timeline]
    step = max(1, len(names) // 20)
    axis = alt.Axis(
        values=list(range(1, len(names) + 1, step)),
        labelExpr="stage_names[datum.value - 1]",
        labelAngle=-40 if len(names) > 3 else 0,
        labelOverlap=len(names) > 12,
        labelLimit=140,
        grid=False,
    )
    base = alt.Chart().encode(
        x=alt.X("at:Q")
        .title("published so far")
        .axis(axis)
        .scale(domain=[0.5, len(names) + 0.5], nice=False),
    )
    keeps = (
        alt.Y("lower:Q")
        .title("the most exposed record keeps")
        .axis(format="%")
        .scale(domain=[0, 1.05], nice=False)
    )
    tooltip = [
        alt.Tooltip("release:N", title="after"),
        alt.Tooltip("lower:Q", title="keeps at least", format=".1%"),
        alt.Tooltip("upper:Q", title="and at most", format=".1%"),
        alt.Tooltip("new:Q", title="newly singled out", format=",d"),
        alt.Tooltip("identifiable:Q", title="singled out so far", format=",d"),
        alt.Tooltip("below:Q", title="below the limit", format=",d"),
    ]
    line = base.mark_line(interpolate="step-after", color=NEUTRAL, strokeWidth=1.5).encode(y=keeps)
    bracket = base.mark_rule(color=NEUTRAL, opacity=0.45, strokeWidth=5).encode(y=keeps, y2="upper:Q")
    effects = {"singles out no new record": NEUTRAL, "singles out a new record": EXPOSED}
    points = base.mark_point(filled=True, opacity=1, size=70).encode(
        y=keeps,
        color=alt.Color("effect:N").legend(None).scale(domain=list(effects), range=list(effects.values())),
        shape=alt.Shape("effect:N").legend(None).scale(domain=list(effects), range=["circle", "diamond"]),
        tooltip=tooltip,
    )
    # Above a point near the axis, and below any other.
    texts = [
        base.transform_filter(condition)
        .mark_text(dy=dy, color=INK, fontWeight="bold")
        .encode(y=keeps, text="text:N")
        for condition, dy in (("datum.lower < 0.15", -14), ("datum.lower >= 0.15", 14))
    ]
    stage_names = alt.param(name="stage_names", value=names)
    layers = [line, bracket, points.properties(name="timeline").add_params(zoom("x"), stage_names), *texts]
    if result.verdict.limit is not None:
        limit = result.verdict.limit
        layers += labelled_line(limit, f"limit {percent(limit)}", axis="y", dashed=False, colour=EXPOSED)
    whole = alt.layer(*layers, data=rows(stages))
    return whole.properties(width=WIDTH, height=HEIGHT, description=describe(result))


def describe(result: AuditResult) -> str:
    """The figure in words."""
    sentences: list[str] = []
    for stage in result.timeline:
        if stage.newly_identifiable and len(sentences) < 3:
            sentences.append(
                f'"{short(stage.release)}" newly singles out {count(stage.newly_identifiable, "record")}.'
            )
    opening = sum(stage.newly_identifiable > 0 for stage in result.timeline)
    if opening > len(sentences):
        sentences.append(
            f"{count(opening - len(sentences), 'more release does', 'more releases do')} so too."
        )
    if not sentences:
        sentences.append("No release singles out anyone.")
    last = result.timeline[-1].least_remaining_uncertainty
    if last is not None:
        sentences.append(f"After all releases the most exposed record keeps {last} of its uncertainty.")
    return " ".join(sentences)


def drawable(result: AuditResult) -> bool:
    """Whether there is anything to draw."""
    return bool(result.timeline)
