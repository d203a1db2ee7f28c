"""Coarser groups that reach the limit: steps of a number that releases group by, or a column that it decides.

A candidate is a plan of its own, with the same key coarser in every release that is still to come. It is read
and audited as any plan, and proposed only if nobody is below the limit then.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from sightline.auditing.findings import Findings, find
from sightline.auditing.plan import Plan
from sightline.auditing.result import Change, ChangeKind
from sightline.auditing.session import Session, opened
from sightline.errors import SightlineError
from sightline.format import count
from sightline.progress import report
from sightline.tables.engines.protocol import ColumnKind
from sightline.tables.sql.edited_releases import group_columns, grouped_by

_STEPS = (2, 5, 10, 20, 25, 50, 100, 200, 250, 500, 1_000, 2_000, 5_000, 10_000)
_MOST_AUDITED, _FEWEST_BANDS = 4, 2


class _Coarser(NamedTuple):
    plan: Plan
    releases: tuple[str, ...]
    text: str


def coarser_groups(session: Session, findings: Findings) -> tuple[Change, ...]:
    """The first coarser grouping that reaches the limit; nothing if none does, or if all keep it."""
    found, plan = findings.linear, session.plan
    if found is None or not found.limit or not findings.not_shown or not found.repeatable or plan.rules.given:
        return ()
    for audited, coarser in enumerate(_candidates(session)):
        if audited == _MOST_AUDITED:
            break
        report("trying coarser groups", audited / _MOST_AUDITED)
        try:
            with opened(coarser.plan, session.base, limits=session.limits) as other:
                after = find(coarser.plan, other.membership(), values=other.values)
        except SightlineError:  # noise by number, or another field that names the groups as they were
            continue
        if after.not_shown == 0:
            fewer = len(findings.membership.cells) - len(after.membership.cells)
            effect = f"then everyone keeps at least {100 * found.limit:.4g} %"
            return (
                Change(
                    kind=ChangeKind.COARSER,
                    release=coarser.releases[0] if len(coarser.releases) == 1 else None,
                    noise_factor=None,
                    epsilon=None,
                    reaches_limit=True,
                    text=f"{coarser.text}: {effect}",
                    effect=effect,
                    cost=f"{fewer:,} of {count(len(findings.membership.cells), 'number')} fewer",
                ),
            )
    return ()


def _candidates(session: Session) -> Iterator[_Coarser]:
    """The next coarser grouping of every key in turn, then the one after it."""
    plan, dialect = session.plan, session.engine.dialect
    own = {release.name: group_columns(release.sql, dialect) for release in plan.releases}
    open_ones = [release for release in plan.releases if not release.published]
    columns = list(dict.fromkeys(name for release in open_ones for name in own[release.name]))
    ways = [list(_ways(session, column)) for column in columns]
    for place in range(max(map(len, ways), default=0)):
        for column, coarser in zip(columns, ways, strict=True):
            if place < len(coarser):
                by, words = coarser[place]
                named = tuple(one.name for one in open_ones if column in own[one.name])
                releases = tuple(
                    one.model_copy(update={"sql": grouped_by(one.sql, column, by, dialect)})
                    if one.name in named
                    else one
                    for one in plan.releases
                )
                listed = ", ".join(f'"{name}"' for name in named[:3]) + ", …" * (len(named) > 3)
                text = f"publish {listed} by {words}, GROUP BY {by}"
                yield _Coarser(plan.model_copy(update={"releases": releases}), named, text)


def _ways(session: Session, column: str) -> Iterator[tuple[str, str]]:
    """Expressions of SQL that put the values of a column together, the finest first, and each in words."""
    kinds = {one.name: one.kind for one in session.engine.columns()}
    if column not in kinds:
        return
    quoted = _identifier(column)
    if kinds[column] is ColumnKind.NUMBER:
        query = f"SELECT COUNT(DISTINCT {quoted}) AS n, MAX({quoted}) - MIN({quoted}) AS span FROM data"
        found = session.engine.fetch(query)
        values, span = int(found["n"][0]), float(found["span"][0] or 0.0)
        for step in _STEPS:
            if span / step >= _FEWEST_BANDS and span / step + 1 < values:
                yield f"FLOOR({quoted} / {step}) * {step}", f"{column} in steps of {step:,}"
    for other in session.plan.data.public or ():
        if other != column and other in kinds and other not in (session.plan.data.record,):
            both = _identifier(other)
            query = (
                f"SELECT COUNT(DISTINCT {quoted}) AS fine, COUNT(DISTINCT {both}) AS coarse, "
                f"COUNT(DISTINCT CAST({quoted} AS TEXT) || '/' || CAST({both} AS TEXT)) AS pairs FROM data"
            )
            sizes = {key: int(value[0]) for key, value in session.engine.fetch(query).items()}
            if _FEWEST_BANDS <= sizes["coarse"] < sizes["fine"] == sizes["pairs"]:
                yield both, f"{other}, which {column} decides"


def _identifier(name: str) -> str:
    """A column in SQL: quoted unless it is a plain word."""
    return name if re.fullmatch("[a-z_][a-z0-9_]*", name) else '"' + name.replace('"', '""') + '"'
