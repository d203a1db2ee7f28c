"""A deployment as a folder: its plan, the generator of its table, its card; and its audits.

Two attackers look at one release and at all releases of a year: one knows who is in which group, the other
everyone else's answers besides. The first also sees a year in which one person joined halfway.
"""

from __future__ import annotations

import csv
import io
import tomllib
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import sightline as sl

FOLDER = Path(__file__).parent
NAMES = tuple(sorted(path.parent.name for path in FOLDER.glob("*/card.md")))


@dataclass(frozen=True, kw_only=True)
class Card:
    """What is known of a deployment, and where from."""

    name: str  # of its folder
    title: str
    unit: str  # what the published budget is for
    published: str  # the budget
    repeats: int  # releases that the same person is in during a year
    period: str  # the same in words
    asked: str  # what the attacker wants to know of a person
    source: str
    gap: str  # what the audit does not reach
    text: str

    def plan(self, *, repeats: int = 1, others_known: bool = False) -> dict[str, Any]:
        """The plan, published so many times; if others are known, against whoever knows all but the first."""
        folder = FOLDER / self.name
        plan = tomllib.loads((folder / "plan.toml").read_text(encoding="utf-8"))
        data = plan["data"]
        data["source"] = str(folder / data["source"])
        for release in plan["release"]:
            release["times"] = release.get("times", 1) * repeats
        if others_known:
            plan["attacker"] = {"knows": [f"{data['record']} > 0"]}
        return plan

    def joined_halfway(self) -> dict[str, Any]:
        """The plan of a year in which person 1 is in the releases of the second half alone."""
        first, second = self.plan(repeats=self.repeats // 2), self.plan(repeats=-(-self.repeats // 2))
        for release in first["release"]:
            release["name"] += ", first half"
            release["sql"] = release["sql"].replace(" FROM data", " FROM data WHERE joined = 1")
        second["release"] = [*first["release"], *second["release"]]
        return second

    def table_text(self) -> str:
        """The stand-in table as CSV, drawn again."""
        rows = import_module(f"examples.gallery.{self.name}.data").table()
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(rows)
        return text.getvalue()


def read_card(name: str) -> Card:
    """The card of a folder: facts as TOML between two lines of plus signs, and a text."""
    _, facts, text = (FOLDER / name / "card.md").read_text(encoding="utf-8").split("+++\n")
    return Card(name=name, text=text.strip(), **tomllib.loads(facts))


@dataclass(frozen=True, kw_only=True)
class Audited:
    """What two attackers learn from one release and from those of a year."""

    card: Card
    one: sl.AuditResult
    year: sl.AuditResult  # equal to the first if it is published once
    one_others_known: sl.AuditResult
    year_others_known: sl.AuditResult
    joined_halfway: sl.AuditResult | None  # none if it is published once

    @property
    def rank(self) -> tuple[float, ...]:
        """What the most exposed person keeps if all others are known: of a year, of one release."""
        return tuple(least(result).lower for result in (self.year_others_known, self.one_others_known))


def least(result: sl.AuditResult) -> Any:
    """What the most exposed person keeps: both ends."""
    kept = result.least_remaining_uncertainty
    assert kept is not None, "every deployment tells something"
    return kept


def audited(card: Card) -> Audited:
    """Audit a deployment five times, or twice if it is published once."""
    one, known = (sl.audit(card.plan(others_known=knows)) for knows in (False, True))
    if card.repeats == 1:
        return Audited(
            card=card,
            one=one,
            year=one,
            one_others_known=known,
            year_others_known=known,
            joined_halfway=None,
        )
    year, year_known = (
        sl.audit(card.plan(repeats=card.repeats, others_known=knows)) for knows in (False, True)
    )
    return Audited(
        card=card,
        one=one,
        year=year,
        one_others_known=known,
        year_others_known=year_known,
        joined_halfway=sl.audit(card.joined_halfway()),
    )
