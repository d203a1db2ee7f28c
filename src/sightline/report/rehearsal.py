"""Print a rehearsal: the guesses beside the truth, and what the repetitions showed. For the owner only."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from sightline.format import count, number, percent
from sightline.rehearsing.result import CONFIDENCE, AttackKind, Coverage, Guess, Rehearsal
from sightline.report.beliefs import expected
from sightline.report.style import EXPOSED, INK, NEUTRAL, WIDTH, altair, rows
from sightline.report.wording import isolated, short
from sightline.tables.occurring import FALSE_ALARMS

OWNER_ONLY = "FOR THE OWNER OF THE TABLE ONLY: this shows true values and guesses at them."

_MEANING = {
    AttackKind.UNBIASED: "The best unbiased attack, repeated with the true values and fresh noise.",
    AttackKind.LINEAR: "The best linear attack, repeated with {prior} and fresh noise.",
    AttackKind.TOGETHER: "The best linear attack on a record's rows together, with {prior} and fresh noise.",
}


def print_rehearsal(result: Rehearsal, screen: Console) -> None:
    """Print the whole rehearsal."""
    screen.print(OWNER_ONLY, style="bold red", markup=False)
    made = f"{count(result.numbers, 'number')}, simulated with seed {result.seed}"
    screen.print(f"{result.source}: secret {result.secret}; {made}", markup=False)
    for kind in AttackKind:
        chosen = [guess for guess in result.guesses if guess.attack is kind]
        if chosen:
            screen.print()
            meaning = _MEANING[kind].format(prior=expected(result.prior))
            screen.print(f"{meaning} {_stated(chosen[0])}", style="bold", markup=False)
            screen.print(_table(chosen, result.secret))
    if result.guesses:
        screen.print(f"  {_columns(result.guesses)}", markup=False)
    else:
        screen.print("\nThere is nobody to attack.")
    screen.print()
    for line in conclusions(result):
        screen.print(line, markup=False, soft_wrap=True)
    for other in result.other_secrets:
        screen.print()
        print_rehearsal(other, screen)


def conclusions(result: Rehearsal) -> list[str]:
    """What the rehearsal showed, in sentences."""
    held = sum(guess.holds for guess in result.guesses)
    lines = [f"{held} of {count(len(result.guesses), 'interval')} of this publication hold the true value."]
    rate = f"(about one false alarm in {1 / FALSE_ALARMS:,.0f} rehearsals, or fewer)"
    surprises = result.surprises
    if surprises:
        lines.append(
            f"The repetitions contradict what is stated of {count(len(surprises), 'guess', 'guesses')} "
            f"{rate}. This is a defect of Sightline: please report the plan."
        )
    elif result.checks:
        lines.append(
            f"The repetitions agree with all {count(result.checks, 'statement')} on coverage and mean "
            f"squared error {rate}."
        )
    return lines + list(result.notes)


def document(result: Rehearsal) -> dict[str, Any]:
    """The rehearsal as JSON can hold it."""
    names = [name for name in Rehearsal.__slots__ if name not in ("prior", "guesses", "other_secrets")]
    return {
        **{name: getattr(result, name) for name in names},
        "prior": expected(result.prior),
        "confidence": CONFIDENCE,
        "guesses": [
            {**{name: getattr(guess, name) for name in Guess.__slots__}, "holds": guess.holds}
            for guess in result.guesses
        ],
        "agrees": not result.surprises,
        "other_secrets": [document(one) for one in result.other_secrets],
    }


def _table(guesses: list[Guess], secret: str) -> Table:
    bracketed = any(guess.bracket is not None for guess in guesses)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 2))
    table.add_column("who", overflow="fold")
    for name in ("true", "guess", "interval", "holds", "coverage", "rms error"):
        table.add_column(name, justify="right", no_wrap=True)
    if bracketed:
        table.add_column("bracket", justify="right", no_wrap=True)
    for guess in guesses:
        ends = [guess.interval, *([] if guess.bracket is None else [[end**0.5 for end in guess.bracket]])]
        interval, *bracket = (f"{number(low)} to {number(high)}" for low, high in ends)
        table.add_row(
            Text(who(guess, secret)),
            number(guess.truth),
            number(guess.guess),
            interval,
            "yes" if guess.holds else "no",
            f"{100 * guess.covered / guess.repetitions:.1f} %",
            number(guess.mse**0.5),
            *bracket,
        )
    return table


def who(guess: Guess, secret: str) -> str:
    """Whose value is guessed, and what of it, if that is not the value of the secret itself."""
    name = short(guess.record, 40)
    if guess.what != secret:
        return f"{name}: {short(guess.what, 30)}"
    return name if guess.alike == 1 else f"{name} (1 of {guess.alike:,} alike)"


def _columns(guesses: tuple[Guess, ...]) -> str:
    """What the columns of the tables mean."""
    bracket = (
        "; bracket: of the error of the best of all attacks, as the audit states it, up to this attack's"
        if any(guess.bracket is not None for guess in guesses)
        else ""
    )
    return (
        "interval: for the true value; it is not cut at the secret's bounds, and one that covers them tells "
        "nothing; holds: whether the truth is in it; coverage: in how many of "
        f"{guesses[0].repetitions:,} repetitions it was; rms error: over the repetitions{bracket}"
    )


def _stated(guess: Guess) -> str:
    share = percent(CONFIDENCE)
    match guess.coverage:
        case Coverage.EXACT:
            return f"Its intervals hold the truth in {share} of all repetitions."
        case Coverage.AT_LEAST:
            return f"Its intervals hold the truth in at least {share} of all repetitions."


_MARK = "For the owner of the table only"


def draw_rehearsal(result: Rehearsal) -> Any:
    """Draw the attacks below each other: the interval, the guess in it, and the true value."""
    alt = altair()
    charts = [
        _attack_figure(result, kind) for kind in AttackKind if any(g.attack is kind for g in result.guesses)
    ]
    return alt.vconcat(*charts).properties(
        title={"text": "Guesses and true values", "subtitle": _MARK}, description=describe_rehearsal(result)
    )


def describe_rehearsal(result: Rehearsal) -> str:
    """The figure in words."""
    held = sum(guess.holds for guess in result.guesses)
    return (
        f"{_MARK}. Guesses at {isolated(result.secret)} with their intervals, and the true values; "
        f"{held} of {len(result.guesses)} intervals hold the true value."
    )


def _attack_figure(result: Rehearsal, kind: AttackKind) -> Any:
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
