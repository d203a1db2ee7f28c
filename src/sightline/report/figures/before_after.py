"""What an attacker knows of the most exposed value before and after the releases, on the secret's range."""

from __future__ import annotations

from typing import Any

from sightline.auditing.result import AuditResult
from sightline.report.figures.parts import EXPOSED, NEUTRAL, WIDTH, rows
from sightline.report.first_screen import sharpest_numbers, spans
from sightline.report.names import short
from sightline.report.style import INK, altair

_HEIGHT = 92


def draw(result: AuditResult) -> Any:
    """Draw two bars: one error on either side of a guess, before and after; or how often a guess is right."""
    alt = altair()
    shown, numbers = spans(result), sharpest_numbers(result)
    assert shown is not None  # else it is not drawn
    assert numbers is not None
    low, high = (0.0, 1.0) if _is_guess(result) else result.bounds
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
    return alt.layer(*bars, words).properties(width=WIDTH, height=_HEIGHT, description=describe(result))


def describe(result: AuditResult) -> str:
    """The figure in words."""
    numbers = sharpest_numbers(result)
    assert numbers is not None  # else it is not drawn
    if _is_guess(result):
        return (
            f"How often an attacker guesses right: {numbers[0]} of the time before the releases, "
            f"{numbers[1]} with them, for the most exposed {short(result.record, 40)}."
        )
    return (
        f"The attacker's error on either side of a guess: {numbers[0]} before the releases, {numbers[1]} "
        "with them. The guess is drawn at the middle of the range, wherever it is. Dark: no attack is "
        "closer; light: the best attack is no wider."
    )


def drawable(result: AuditResult) -> bool:
    """Whether there is anything to draw."""
    return result.sharpest is not None


def _is_guess(result: AuditResult) -> bool:
    return result.sharpest is not None and result.sharpest.right_before is not None


def _title(result: AuditResult) -> str:
    return "guesses that are right" if _is_guess(result) else short(result.secret, 40)
