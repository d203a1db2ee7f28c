"""The main job: a plan in, who is exposed and how sharply out."""

from __future__ import annotations

from dataclasses import dataclass

from sightline.auditing.examine import Examination
from sightline.auditing.plan import Plan
from sightline.auditing.reading import PlanLike, read_plan, with_limit
from sightline.auditing.result import AuditResult, Exposed
from sightline.auditing.session import opened
from sightline.errors import require
from sightline.progress import Progress, silent


def audit(
    plan: PlanLike,
    *,
    limit: float | str | None = None,
    names: bool = False,
    top: int = 20,
    progress: Progress | None = None,
) -> AuditResult:
    """Audit a plan: a path to its TOML file, a mapping with the same sections, or a ``Plan``.

    ``limit`` is the share of its uncertainty that every record must keep (0.5 or "50%"), not the plan's own.
    ``names`` names the exposed records by their keys, ``top`` is how many of them are listed. ``progress`` is
    called with a stage and the share of it that is done.
    """
    require(top >= 1, "top >= 1", got=top)
    _check_progress(progress)
    checked, base = read_plan(plan)
    if limit is not None:
        checked = with_limit(checked, limit)
    watch = progress or silent
    watch("opening the table", 0.0)
    with opened(checked, base) as session:
        membership = session.membership(watch)
        watch("finding who is exposed", 0.0)
        found = Examination.of(checked, membership, values=session.values, progress=watch)
        watch("describing what is exposed", 0.0)
        return found.result(top=top, names=names, keys=session.keys, progress=watch)


def check(plan: PlanLike) -> Plan:
    """The plan, if it is a good one: its fields, its table's columns and its SQL; no row is read."""
    checked, base = read_plan(plan)
    with opened(checked, base):
        return checked


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why one record is exposed: what is seen of each of its rows, with the recipes; owner-only."""

    record: str
    exposed: tuple[Exposed, ...]
    result: AuditResult


def explain(plan: PlanLike, *, record: str, progress: Progress | None = None) -> Explanation:
    """What is seen of one record, given by its key, and by which recipe."""
    _check_progress(progress)
    checked, base = read_plan(plan)
    watch = progress or silent
    watch("opening the table", 0.0)
    with opened(checked, base) as session:
        watch("looking for the record", 0.0)
        signatures = session.signatures_of(record)
        membership = session.membership(watch)
        watch("finding who is exposed", 0.0)
        found = Examination.of(checked, membership, values=session.values, progress=watch)
        watch("describing what is exposed", 0.0)
        return Explanation(
            record=record,
            exposed=found.about(signatures),
            result=found.result(keys=session.keys, progress=watch),
        )


def _check_progress(progress: Progress | None) -> None:
    require(
        progress is None or callable(progress),
        "progress to be a function of a stage and the share of it that is done",
        got=repr(progress),
        fix="for example progress=print",
    )
