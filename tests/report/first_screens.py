"""The page docs/first-screens.md: the first screens of five shipped tables at three amounts of noise.

``python -m tests.report.first_screens`` writes it again. The three answers of each screen are what a person
who has never seen the tool can say from it: a test finds their words on the screen.
"""

from __future__ import annotations

import io
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

import sightline as sl
from sightline.auditing.result import VerdictStatus
from sightline.examples.shipped import example_plan
from sightline.report.first_screen import print_first_screen

PAGE = Path(__file__).resolve().parents[2] / "docs" / "first-screens.md"
TABLES = ("census", "meters", "orders", "stays", "salaries")
BY_HAND = {"census": 200.0, "meters": 0.2, "orders": 2.0, "stays": 0.5, "salaries": 500.0}
NOISES = {"ε = 1": 1.0, "ε = 10": 10.0, "noise by hand": None}
_WIDTH = 100

HEAD = """# First screens

<!-- Written by python -m tests.report.first_screens: a test compares it with the code. -->

What `sightline audit plan.toml --names` prints for the shipped tables ({doc}`tables`), with `--epsilon 1`,
`--epsilon 10` and `--noise` by hand, and three answers: publish? whom does it concern? what to change?
"""


class Answers(NamedTuple):
    """What the screen says, in a few words."""

    publish: str
    whom: str
    change: str


def planned(name: str, epsilon: float | None) -> dict[str, Any]:
    """A shipped plan with a budget, or with noise by hand on every number."""
    path = example_plan(name)
    plan = tomllib.loads(path.read_text(encoding="utf-8"))
    plan["data"]["source"] = str(path.parent / plan["data"]["source"])
    for release in plan["release"]:
        release.pop("noise_stddev", None)
        if epsilon is None:
            release["noise_stddev"] = BY_HAND[name]
    plan["privacy"] = {"delta": 1e-6} if epsilon is None else {"delta": 1e-6, "epsilon": epsilon}
    return plan


def screen(result: sl.AuditResult) -> str:
    """The first screen as text."""
    out = io.StringIO()
    print_first_screen(result, Console(file=out, width=_WIDTH, highlight=False))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def answers(result: sl.AuditResult) -> Answers:
    """The three answers, from the result and not from the words of the screen."""
    open_ones = [one.name.value for one in result.unverified if not one.accepted]
    match result.verdict.status:
        case VerdictStatus.PASSED:
            how = "guaranteed by the noise" if result.verdict.guaranteed else "on average"
            publish, change = f"Yes, {how}.", "Nothing."
        case VerdictStatus.FAILED:
            publish = "Not yet."
            change = f"{result.reaching[0].action}." if result.reaching else "No single change is enough."
        case _:
            publish, change = "Not yet: a proof is missing.", f"Settle {', '.join(open_ones)}."
    below = result.verdict.below_limit
    limit = result.verdict.limit or 0.0
    named = [
        one.record
        for one in result.exposed
        if one.remaining_uncertainty is not None and one.remaining_uncertainty.lower < limit
    ]
    first = named[0] if named else None
    worst = f", first of all {first.split(',')[0]}" if first else ""
    whom = f"{below:,} of {result.records:,}{worst}." if below else "Nobody is found below the limit."
    return Answers(publish, whom, change[0].upper() + change[1:])


class Shown(NamedTuple):
    """One table at one amount of noise."""

    name: str
    noise: str
    answers: Answers
    screen: str


def screens() -> list[Shown]:
    """All of them, in the order of the page."""
    shown = []
    for name in TABLES:
        for title, epsilon in NOISES.items():
            result = sl.audit(planned(name, epsilon), names=True)
            own = f" of {BY_HAND[name]:g}" if epsilon is None else ""
            shown.append(Shown(name, f"{title}{own}", answers(result), screen(result)))
    return shown


def page(shown: Sequence[Shown]) -> str:
    """The page."""
    parts: list[str] = [HEAD]
    for place, one in enumerate(shown):
        if place % len(NOISES) == 0:
            parts.append(f"## {one.name.capitalize()}\n")
        parts.append(f"**{one.noise}.** {' '.join(one.answers)}\n\n```text\n{one.screen}\n```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(screens()), encoding="utf-8")
