"""The page docs/gallery.md: a table of all deployments, worst first, and a section with pictures for each."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

import sightline as sl
from examples.gallery.cards import Audited, least
from sightline.format import percent_at_most
from sightline.report.figures import draw_before_after
from sightline.report.first_screen import print_first_screen
from sightline.report.style import for_print, specification, svg
from sightline.report.wording import before_after

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "gallery.md"
PICTURES = ROOT / "docs" / "_static" / "gallery"

_HEAD = """# The gallery: what twelve deployments leave open

<!-- Written by python -m examples.gallery: a test compares it with the code. -->

Twelve real publications, each with the parameters that its publisher states, audited on people who were
made up. An ε by itself does not say what an attacker learns of a person; this page does. `make gallery`
builds it, and every number on it is computed again by a test.

*What is left* is the share of the uncertainty about one answer that the most exposed person keeps, before
anything is published 100 % ({doc}`audit`); yes and no are equally likely beforehand. *Who knows the groups*
knows who is in the table and where. *Who knows all others* also knows everybody else's answer, as a budget
supposes; what is left then depends on the noise alone, and not on the tables that stand in for the real
ones. Those have a few hundred people, with small groups on purpose. A year holds the same people with the
same answer each time, or one of them joins halfway: whoever does not know the others then sees the sum with
that person and the sum without.

"""

_ALL_OTHERS_KNOWN = (
    "deployment",
    "unit",
    "as published",
    "left after one release",
    "left after a year",
    "guessed right at most: one release, a year",
)
_GROUPS_KNOWN = ("deployment", "left after one release", "left after a year", "if one joined halfway")

_READING = """
Both tables are sorted by what is left after a year to whoever knows all others, least first; of what is
published once, after that. Three things to read in them. Budgets for a day or a week add up, since the same
person pays every time, and the ε that is printed is that of one time. A sum that is repeated for the same
people tells the sum and no more, however often; one person who joins is singled out by the difference. And
the budget of a census is large, but it is spent once.

"""

_TAIL = """## Add one

Make a folder in `examples/gallery` with three files. `plan.toml` is a plan of one release ({doc}`plan`)
whose record key counts from 0; state the noise rather than a budget, so that a year repeats it. `data.py`
has a function `table` that draws `data.csv` from a fixed seed; if it is published again and again, the
table has a column `joined` that is 2 for record 1 and 1 for all others. `card.md` has facts between two
lines of plus signs, as in the others, and at most 200 words: what was published, for whom, with which
parameters from which document, and in `gap` what the audit does not reach. Then `make gallery`.
"""


def guessed(result: sl.AuditResult) -> str:
    """How often a guess is right at most, or to how much a number is known."""
    return before_after(result).numbers[1].removeprefix("right ").removeprefix("at most ")


def rows_of(audited: Audited) -> tuple[list[str], list[str]]:
    """The lines of a deployment in the two tables: whoever knows all others, whoever knows the groups."""
    card, once = audited.card, audited.card.repeats == 1
    halfway = audited.joined_halfway
    title = f"[{card.title}](#{anchor(card.title)})"
    right = guessed(audited.one_others_known)
    known = [
        title,
        card.unit,
        card.published,
        str(least(audited.one_others_known)),
        "once" if once else f"**{least(audited.year_others_known)}**",
        right if once else f"{right}, {guessed(audited.year_others_known)}",
    ]
    groups = [
        title,
        str(least(audited.one)),
        "once" if once else str(least(audited.year)),
        "once" if halfway is None else f"**{least(halfway)}**",
    ]
    return known, groups


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table as Markdown; shares are not broken between lines."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines).replace(" %", "\u00a0%")


def anchor(title: str) -> str:
    """The address of a heading within the page."""
    return "".join(letter for letter in title.lower().replace(" ", "-") if letter.isalnum() or letter == "-")


def picture(result: sl.AuditResult) -> str:
    """What an attacker knows before and after, drawn."""
    return svg(for_print(specification(draw_before_after(result))))


def pictures(audited: Audited) -> dict[str, str]:
    """The drawings of a deployment by the names of their files, of the attacker who knows all others."""
    name = audited.card.name
    drawn = {f"{name}.svg": picture(audited.one_others_known)}
    if audited.card.repeats > 1:
        drawn[f"{name}-year.svg"] = picture(audited.year_others_known)
    return drawn


def section(audited: Audited) -> str:
    """The card of a deployment."""
    card = audited.card
    lines = [f"## {card.title}", "", card.text, ""]
    lines += [f"*{card.asked[0].upper()}{card.asked[1:]}* {_said(audited)}", ""]
    lines += [f"*Not reached:* {card.gap}", "", f"*Source:* {card.source}.", ""]
    for file in pictures_of(audited):
        when = card.period if "-year" in file else "one release"
        lines += [f"![{card.title}, {when}, to whoever knows all others](_static/gallery/{file})", ""]
    lines += [f"`sightline audit examples/gallery/{card.name}/plan.toml` prints for one release:", ""]
    lines += ["```text", screen(audited.one), "```", ""]
    return "\n".join(lines)


def pictures_of(audited: Audited) -> list[str]:
    """The names of the drawings."""
    name = audited.card.name
    return [f"{name}.svg", *([f"{name}-year.svg"] if audited.card.repeats > 1 else [])]


def _said(audited: Audited) -> str:
    """What is left, in two sentences."""
    card, halfway = audited.card, audited.joined_halfway
    one = (
        f"After one release whoever knows all others {_guess(audited.one_others_known)}, and "
        f"{least(audited.one_others_known)} of the uncertainty is left; to those who know the groups alone "
        f"it is {least(audited.one)}."
    )
    if halfway is None:
        return f"{one} It is {card.period}."
    return (
        f"{one} After {card.period} whoever knows all others {_guess(audited.year_others_known)} "
        f"({least(audited.year_others_known)} is left). To those who know the groups alone "
        f"{least(audited.year)} is left of everyone who was there all year, and {least(halfway)} of one who "
        "joined halfway."
    )


def _guess(result: sl.AuditResult) -> str:
    view = result.sharpest
    if view is None or view.right_after is None:
        before, after = before_after(result).numbers
        return f"knows it to {after} in place of {before}"
    return f"guesses right at most {percent_at_most(view.right_after)} of the time"


def screen(result: sl.AuditResult) -> str:
    """The first screen as text."""
    out = io.StringIO()
    print_first_screen(result, Console(file=out, width=100, highlight=False))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def page(deployments: Sequence[Audited]) -> str:
    """The page of all deployments."""
    ranked = sorted(deployments, key=lambda audited: audited.rank)
    known, groups = zip(*(rows_of(audited) for audited in ranked), strict=True)
    return "".join(
        [
            _HEAD,
            "**Whoever knows all others:**\n\n",
            table(_ALL_OTHERS_KNOWN, known),
            "\n**Whoever knows the groups alone:**\n\n",
            table(_GROUPS_KNOWN, groups),
            _READING,
            *(f"{section(one)}\n" for one in ranked),
            _TAIL,
        ]
    )
