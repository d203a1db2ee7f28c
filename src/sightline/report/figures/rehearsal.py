"""A rehearsal's guesses with their intervals, beside the true values. For the owner only."""

from __future__ import annotations

from typing import Any

from sightline.format import number
from sightline.rehearsing.result import AttackKind, Rehearsal
from sightline.report.figures.parts import EXPOSED, NEUTRAL, WIDTH, rows
from sightline.report.names import isolated
from sightline.report.rehearsal import who
from sightline.report.style import INK, altair

_MARK = "For the owner of the table only"


def draw(result: Rehearsal) -> Any:
    """Draw the attacks below each other: the interval, the guess in it, and the true value."""
    alt = altair()
    charts = [_attack(result, kind) for kind in AttackKind if any(g.attack is kind for g in result.guesses)]
    return alt.vconcat(*charts).properties(
        title={"text": "Guesses and true values", "subtitle": _MARK}, description=describe(result)
    )


def describe(result: Rehearsal) -> str:
    """The figure in words."""
    held = sum(guess.holds for guess in result.guesses)
    return (
        f"{_MARK}. Guesses at {isolated(result.secret)} with their intervals, and the true values; "
        f"{held} of {len(result.guesses)} intervals hold the true value."
    )


def _attack(result: Rehearsal, kind: AttackKind) -> Any:
    alt = altair()
    low, high = result.bounds
    shown = [
        {
            # The place keeps two groups apart whose names read alike.
            "who": f"{place}. {isolated(who(guess, result.secret), 60)}",
            "true": guess.truth,
            "guess": guess.guess,
            "low": guess.interval[0],
            "high": guess.interval[1],
            "text": f"{number(guess.interval[0])} to {number(guess.interval[1])}",
        }
        for place, guess in enumerate((g for g in result.guesses if g.attack is kind), start=1)
    ]
    base = alt.Chart(rows(shown)).encode(
        y=alt.Y("who:N").title(None).sort([one["who"] for one in shown]).axis(labelLimit=220)
    )
    interval = base.mark_rule(color=NEUTRAL, strokeWidth=3).encode(
        x=alt.X("low:Q").title(isolated(result.secret)), x2="high:Q"
    )
    guesses = base.mark_point(color=NEUTRAL, filled=True, opacity=1, size=70).encode(
        x="guess:Q", tooltip=["who:N", "true:Q", "guess:Q", alt.Tooltip("text:N", title="interval")]
    )
    truth = base.mark_point(color=EXPOSED, shape="diamond", filled=False, opacity=1, size=110, strokeWidth=2)
    bounds = (
        alt.Chart(rows([{"at": low}, {"at": high}])).mark_rule(color=INK, strokeDash=[2, 2]).encode(x="at:Q")
    )
    return alt.layer(bounds, interval, guesses, truth.encode(x="true:Q")).properties(
        width=WIDTH, height=24 * len(shown), title=f"{kind}: interval and guess (dot), true value (diamond)"
    )
