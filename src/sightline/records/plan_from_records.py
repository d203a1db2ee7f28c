"""The plan file of release records: what they say, what is missing, and what the library and we count."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from sightline.auditing.budget import budget_report
from sightline.auditing.plan import Plan
from sightline.auditing.plans_by_secret import plans_by_secret
from sightline.auditing.pricing import price
from sightline.auditing.query_files import GivenPlan
from sightline.auditing.reading import plan_file_text
from sightline.auditing.session import opened
from sightline.auditing.starter import StarterPlan, relative_source
from sightline.errors import SightlineError
from sightline.format import number, number_at_most, parameter
from sightline.privacy.concentrated import tight_epsilon_of_rho
from sightline.records.release_record import PrivacyParameters, ReleaseRecord, plan_of, read_record


def records_plan(files: Sequence[str | Path], *, out: Path, given: GivenPlan) -> StarterPlan:
    """The plan of some records in TOML, to be written to ``out``, and what they say and leave open."""
    records: dict[str, ReleaseRecord] = {}
    for path in map(Path, files):
        name = path.name if path.name not in records else str(path)
        records[name] = read_record(path)
    plan = plan_of(records, source=relative_source(given.table, out.parent), given=given)
    notes = [line for name, record in records.items() for line in _notes(name, record)]
    notes += _both_counts(list(records.values()), plan, out.parent)
    head = "".join(f"# {line}\n" for line in ("From release records, in the order of publication.", *notes))
    return StarterPlan(text=f"{head}\n{plan_file_text(plan)}", notes=tuple(notes), closed=True)


def _notes(name: str, record: ReleaseRecord) -> list[str]:
    """What a record says, how it is known, and what is missing: a few lines."""
    about, facts = record.about, record.about.facts
    kinds = {kind: [one for one in facts if facts[one] == kind] for kind in ("read", "derived", "stated")}
    said = {*record.content()["release"], *record.data} - {"name", "published", "noise"}
    kinds["not said how"] = sorted(said - set(facts))
    open_fields = [
        *record.missing,
        *(part for part in ("published_at", "neighbours") if not getattr(about, part)),
    ]
    kinds["missing"] = open_fields
    known = "; ".join(f"{kind}: {', '.join(ones)}" for kind, ones in kinds.items() if ones)
    lines = [
        f"{_line(record.release.name)} ({_line(name)}, {_line(about.engine or 'no library named')}): {known}."
    ]
    counted = about.privacy_parameters.model_dump()
    if counted:
        sizes = ", ".join(f"{part} {size:g}" for part, size in counted.items())
        lines.append(f"  The library counts {sizes}.")
    if record.release.hidden_by_noise:
        lines.append(
            "  Groups were hidden because a noisy count was small: the plan withholds them, and a pass needs "
            'that you accept "hidden_by_noise", if that count is of rows whatever their secrets are.'
        )
    return lines


def _both_counts(records: Sequence[ReleaseRecord], plan: Plan, base: Path) -> list[str]:
    """The library's epsilon of all records, added up, and ours, with the reason why they differ.

    The table is read and priced; nothing is assessed. No line if the library counts nothing for a record.
    """
    counted = [record.about.privacy_parameters for record in records for _ in range(record.release.times)]
    if not all(one.rho or one.epsilon for one in counted):
        return []
    delta = plan.privacy.cost_delta
    theirs = _added_up(counted, delta)
    spent, by = 0.0, set()
    try:
        for part in plans_by_secret(plan):
            with opened(part, base) as session:
                membership = session.membership()
            costs = budget_report(part, membership, price(part, membership)).spent
            cost, accountant = min((cost, name) for name, cost in (costs or {"none": math.inf}).items())
            spent += cost
            by.add(accountant)
    except SightlineError as error:
        return [f"In all the library counts {theirs}; the audit refuses this plan: {_line(str(error), 400)}"]
    moved = _COUNTED.get(records[0].about.neighbours, "what it takes for neighbouring tables")
    return [
        f"In all the library counts {theirs}, added up; the audit counts epsilon = {number_at_most(spent)} "
        f"at delta = {parameter(delta)} (accountant: {', '.join(sorted(by))}).",
        "  Losses that are added up are an upper bound, and the accountant composes them. "
        f"The library counts {moved}; the audit counts other values of one person, whose groups are "
        "public: counts of rows cost nothing, and a value moves a sum by up to the width of its bounds.",
    ]


def _added_up(counted: Sequence[PrivacyParameters], delta: float) -> str:
    """The sum of what a library counts; where there is a rho, also as the epsilon that it is at ``delta``.

    An epsilon is added to what the rhos convert to, or counts as the rho of its square over two, whichever
    gives less; a delta of its own is added to ``delta`` in both (Bun and Steinke 2016, section 8).
    """
    rho = math.fsum(one.rho for one in counted)
    pure = [one.epsilon for one in counted if not one.rho]
    deltas = math.fsum(one.delta for one in counted)
    parts = [f"rho = {number(rho, 3)}"] if rho else []
    parts += [f"epsilon = {number_at_most(math.fsum(pure))}"] if pure else []
    if not rho:
        return parts[0] + (f" at delta = {parameter(deltas)}" if deltas else "")
    squared = math.fsum([rho, *(one**2 / 2 for one in pure)])
    least = min(tight_epsilon_of_rho(squared, delta), tight_epsilon_of_rho(rho, delta) + math.fsum(pure))
    at = f"at delta = {parameter(delta + deltas)}"
    return f"{' and '.join(parts)}, which is epsilon = {number_at_most(least)} {at}"


_COUNTED: dict[str | None, str] = {
    "add-remove": "a row more or less, and so protects who is in the table: its noisy counts cost, too",
    "replace-one": "a row that becomes any other, in other groups, too",
}


def _line(text: str, most: int = 60) -> str:
    """A text of a record on one line of a comment or a terminal."""
    plain = "".join(one if one.isprintable() else " " for one in text)
    return plain if len(plain) <= most else f"{plain[: most - 3]}…"
