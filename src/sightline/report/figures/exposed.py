"""Figures of who is exposed: what an attacker knows before and after, and how many records keep how much."""

from __future__ import annotations

from typing import Any

from sightline.auditing.result import AuditResult
from sightline.format import count, percent, percent_at_least
from sightline.report.style import EXPOSED, HEIGHT, INK, NEUTRAL, WIDTH, altair, labelled_line, rows, zoom
from sightline.report.wording import sharpest_numbers, short, span_ends, spans

_BARS_HEIGHT = 92


def draw_before_after(result: AuditResult) -> Any:
    """Draw two bars: one error on either side of a guess, before and after; or how often a guess is right."""
    alt = altair()
    shown, numbers = spans(result), sharpest_numbers(result)
    assert shown is not None  # else it is not drawn
    assert numbers is not None
    low, high = (0.0, 1.0) if _is_guess(result) else span_ends(result)
    before, after, inner = (tuple(low + share * (high - low) for share in span) for span in shown)
    texts = [
        {"row": row, "text": f"{row} the releases: {text}" if row == "before" else f"with them: {text}"}
        for row, text in zip(("before", "after"), numbers, strict=True)
    ]
    axis = alt.Axis(format=".0%", tickCount=5)
    if not _is_guess(result):
        axis = alt.Axis(labelExpr="format(datum.value, ',.4~r')", tickCount=5)
    across = alt.X("from:Q").title(_title(result)).scale(domain=[low, high], nice=False).axis(axis)
    down = alt.Y("row:N").title(None).sort(["before", "after"]).axis(None)
    bars = [
        alt.Chart(rows([{"row": row, "from": span[0], "to": span[1]}]))
        .mark_bar(height=18, clip=True, color=colour, opacity=opacity)
        .encode(x=across, x2="to:Q", y=down)
        for row, span, colour, opacity in (
            ("before", before, NEUTRAL, 1.0),
            ("after", after, EXPOSED, 0.5),
            *((("after", inner, EXPOSED, 1.0),) if not _is_guess(result) else ()),
        )
    ]
    # At the left edge, above the bar, a text fits on a narrow page, too.
    words = (
        alt.Chart(rows(texts))
        .mark_text(color=INK, fontWeight="bold", align="left", dy=-17)
        .encode(x=alt.value(0), y=down, text="text:N")
    )
    return alt.layer(*bars, words).properties(
        width=WIDTH, height=_BARS_HEIGHT, description=describe_before_after(result)
    )


def describe_before_after(result: AuditResult) -> str:
    """The figure in words."""
    numbers = sharpest_numbers(result)
    assert numbers is not None  # else it is not drawn
    if _is_guess(result):
        return (
            f"How often an attacker guesses right: {numbers[0]} of the time before the releases, "
            f"{numbers[1]} with them, for the most exposed {short(result.record, 40)}."
        )
    return (
        f"One error on either side of a guess, {numbers[0]} before and {numbers[1]} with the releases, drawn "
        "around the middle of the range. Dark: no attack is closer; light: the best attack is no wider."
    )


def _is_guess(result: AuditResult) -> bool:
    return result.sharpest is not None and result.sharpest.right_before is not None


def _title(result: AuditResult) -> str:
    if _is_guess(result):
        return "guesses that are right"
    total = result.sharpest is not None and result.sharpest.total is not None
    return f"{'total ' * total}{short(result.secret, 40)}{', around the guess' * total}"


# A line beyond this place has its name to its left. The first of two lines uses _LEFT, so names do not meet.
_LEFT, _RIGHT = 0.3, 0.7
_LETTER = 0.029  # the share of a narrow page's axis that a digit takes


def draw_distribution(result: AuditResult) -> Any:
    """Draw the histogram of remaining uncertainty, the limit, and what the noise alone guarantees."""
    alt = altair()
    edges, counts = result.distribution.edges, result.distribution.records
    limit = result.verdict.limit
    bars = [
        {
            "low": low,
            "high": high,
            "records": count,
            "place": "may be below the limit" if limit is not None and low < limit else "keeps the limit",
            "keeps": f"{percent(low)} to {percent(high)}",
        }
        for low, high, count in zip(edges, edges[1:], counts, strict=False)
        if count
    ]
    free = 0.0  # from where on the next number has room on a narrow page
    for bar in bars:
        text = f"{bar['records']:,d}"
        middle, half = (bar["low"] + bar["high"]) / 2, _LETTER * len(text) / 2
        bar["text"] = text if middle - half >= free else ""
        free = middle + half if bar["text"] else free
    powers = [10**power for power in range(len(str(max(counts))))]
    # Logarithmic, so that two exposed records are visible beside a hundred thousand others.
    height = (
        alt.Y("records:Q")
        .title("records")
        .scale(type="symlog", constant=1, domain=[0, 3 * max(counts)], nice=False)
        .axis(values=[0, *powers], format=",d")
    )
    base = alt.Chart(rows(bars)).encode(
        x=alt.X("low:Q")
        .title("remaining uncertainty, lower end")
        .axis(format="%", tickCount=10)
        .scale(domain=[0, 1]),
    )
    place = alt.Color("place:N").legend(None)
    colours = {"may be below the limit": EXPOSED, "keeps the limit": NEUTRAL}
    shown = base.mark_rect(xOffset=0.5, x2Offset=-0.5).encode(
        x2="high:Q",
        y=height,
        y2=alt.Y2Datum(0),
        color=place.scale(domain=list(colours), range=list(colours.values())),
        tooltip=[alt.Tooltip("keeps:N"), alt.Tooltip("records:Q", format=",d")],
    )
    # The number on a bar at the right edge is right-aligned: a narrow page would cut it off.
    places = {"center": ("datum.high < 1", "(datum.low + datum.high) / 2"), "right": ("datum.high >= 1", "1")}
    numbers = [
        base.transform_filter(condition)
        .transform_calculate(at=at)
        .mark_text(dy=-6, color=INK, align=align)
        .encode(x="at:Q", y="records:Q", text="text:N")
        for align, (condition, at) in places.items()
    ]
    layers = [shown.properties(name="distribution").add_params(zoom("x")), *numbers]
    noise = result.guaranteed_by_noise
    if noise is not None:
        before = _LEFT if limit is not None and noise < limit else _RIGHT
        layers += labelled_line(noise, "noise alone", axis="x", dashed=True, before=before)
    if limit is not None:
        name, before = f"limit {percent(limit)}", _LEFT if noise is not None and limit < noise else _RIGHT
        layers += labelled_line(limit, name, axis="x", dashed=False, colour=EXPOSED, before=before)
    return alt.layer(*layers).properties(
        width=WIDTH, height=HEIGHT, description=describe_distribution(result)
    )


def describe_distribution(result: AuditResult) -> str:
    """The figure in words."""
    least, verdict = result.least_remaining_uncertainty, result.verdict
    sentences = []
    if least is not None:
        sentences.append(
            f"The most exposed record keeps at least {percent_at_least(least.lower)} of its uncertainty."
        )
    if verdict.limit is not None:
        limit = percent(verdict.limit)
        below = sum(
            count
            for low, count in zip(result.distribution.edges, result.distribution.records, strict=False)
            if low < verdict.limit
        )
        if verdict.below_limit:
            sentences.append(
                f"{count(verdict.below_limit, 'record')} may keep less than the limit of {limit}."
            )
        else:
            sentences.append(f"No record's lower bound is below the limit of {limit}.")
        if below != verdict.below_limit:
            sentences.append("The bar that contains the limit has the colour of the records below it.")
    if result.guaranteed_by_noise is not None:
        sentences.append(
            f"The noise alone guarantees {percent_at_least(result.guaranteed_by_noise)} to every record, "
            "even against an attacker who knows all other records; a privacy budget counts only this."
        )
    return " ".join(sentences)
