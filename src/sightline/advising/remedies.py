"""The section on what to change: what to leave out, how much noise, or coarser groups, so that everyone keeps
the limit.

Every change is audited again before it is proposed. One after which somebody may keep less is not proposed. A
coarser grouping is a plan of its own, with the same key coarser in every release that is still to come: steps
of a number that releases group by, or a column that it decides. It is read and audited as any plan.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from enum import StrEnum
from functools import partial
from itertools import count as count_up
from itertools import islice, takewhile
from typing import NamedTuple

import numpy as np

from sightline.advising.accuracy import Errors, changed_errors, errors_of
from sightline.arrays import FloatArray, IndexArray
from sightline.auditing.certain_people import certain_report
from sightline.auditing.findings import Findings, LinearFindings, find
from sightline.auditing.known_sums import Totals
from sightline.auditing.lowering import BoolArray, cell_name
from sightline.auditing.plan import Plan
from sightline.auditing.result import Change, ChangeKind, NoiseSlack
from sightline.auditing.result_parts import Fact, fact
from sightline.auditing.session import Session, opened
from sightline.auditing.stated_noise import without_numbers
from sightline.auditing.unit_findings import MOST_FACTORISED
from sightline.errors import SightlineError
from sightline.progress import report
from sightline.tables.engines.protocol import ColumnKind
from sightline.tables.sql.edited_releases import group_columns, grouped_by
from sightline.tables.sql.fragments import literal

# In the order in which publishers try them.
_TRIED = (ChangeKind.MERGE, ChangeKind.SELDOM, ChangeKind.DROP, ChangeKind.COARSER)
_MOST_AUDITED = 2  # numbers or releases without which the limit may hold


class Do(StrEnum):
    """What a change does."""

    LEAVE_OUT = "leave out"
    LEAVE_OUT_ANY = "leave out any"
    GROUP_ANY = "coarser groups"
    MULTIPLY_NOISE = "multiply noise"
    GROUP_OTHERWISE = "group otherwise"
    DESIGNED_NOISE = "designed noise"
    WITHHOLD = "withhold"
    ROUND = "round"


class Regrouping(StrEnum):
    """How values of a column are put together."""

    ONCE = "once a period"
    AS_ONE = "as one group"
    SMALLEST = "smallest groups as one"
    STEPS = "steps"
    BY = "by another column"


class Then(StrEnum):
    """What the audit after a change found."""

    NOBODY_BELOW = "nobody below"
    EVERYONE_KEEPS = "everyone keeps"
    NOBODY_CERTAIN = "nobody certain"


class WhyUntried(StrEnum):
    """Why a kind of change was not tried."""

    TOO_LARGE = "too large"
    TABLE_CLOSED = "table closed"
    RULES = "rules"
    NO_COARSER_KEY = "no coarser key"
    REFUSED = "refused"
    CATEGORIES = "several values"
    QUESTIONS = "questions"
    EXACT = "exact numbers"
    ONLY_NOISE = "only noise counts"


class Price(StrEnum):
    """What a change costs in accuracy."""

    FEWER = "fewer numbers"
    COARSER = "coarser numbers"
    ERRORS = "errors"
    VARIANCE = "variance"
    BLANKS = "blanks"
    WITHIN = "known within"


def errors_today(findings: Findings) -> Errors:
    """The errors of the numbers as they are published today."""
    return errors_of(findings.plan, findings.membership, findings.pricing.published_stddev)


def more_noise(findings: Findings, slack: NoiseSlack | None) -> Change | None:
    """A factor on all noise with which everyone keeps the limit; none if it holds, or if some is out."""
    found = findings.linear
    if slack is None or slack.holds or _is_out(findings).any():
        return None
    if found and not (found.below_limit or findings.not_shown or findings.plan.data.only_guarantee):
        return None
    return with_factor(slack, findings.plan.limits.text, errors_today(findings))


def reaching(
    findings: Findings, slack: NoiseSlack | None, coarser: Callable[[], tuple[Change, ...]] = tuple
) -> tuple[Change, ...]:
    """The changes after which everyone keeps the limit, as far as few audits find them, in the order in which
    publishers try them: groups merged, less often, fewer numbers, coarser groups, more noise.

    ``coarser`` looks for other groups. They stand in the place of a second one to leave out. At the end are
    those that were tried and are not enough.
    """
    found, common = findings.linear, more_noise(findings, slack)
    if findings.plan.data.only_guarantee:  # no grouping hides whoever comes, and nobody else is looked at
        untried = [_untried(one, WhyUntried.ONLY_NOISE) for one in (Do.GROUP_ANY, Do.LEAVE_OUT_ANY)]
        return () if common is None else (common, *untried)
    try:
        proposed = list(islice(may_suffice(findings, found), _MOST_AUDITED))
    except np.linalg.LinAlgError:  # next to no noise: advice is not looked for
        proposed = []
    enough = [change for rows in proposed for change in _left_out(findings, found, rows)]
    tried, why_not = [], _why_nothing_is_left_out(findings, found)
    if not enough and why_not is None and found.below_limit:
        tried = [Change(kind=ChangeKind.DROP, what=fact(Do.LEAVE_OUT_ANY))]
    elif why_not is not None and found.below_limit:
        tried = [_untried(Do.LEAVE_OUT_ANY, why_not)]
    others = coarser()
    groups = [one for one in others if one.reaches_limit]
    tried = [*(one for one in others if not one.reaches_limit), *tried]
    if groups:
        enough = sorted([*groups, *enough[:1]], key=lambda one: _TRIED.index(one.kind))
    return (*enough, *([common] if common is not None and common.reaches_limit else []), *tried)


def may_suffice(findings: Findings, found: LinearFindings) -> Iterator[IndexArray]:
    r"""Numbers to leave out, one or a release, without which linear attacks leave the limit.

    With G the inverse of the covariance of all answers, the best linear attack on a value of variance v with
    the column a leaves :math:`1 - v (a^\top G a - (Ga)_R^\top G_{RR}^{-1} (Ga)_R)` of it if the numbers R
    are not published. Where that is less than the limit no audit is needed; elsewhere the audit decides.
    """
    linear, rows = found.linear, found.linear.row_count
    if not _can_be_left_out(findings, found):
        return
    units, variance = linear.units, linear.design.prior.scale
    of_unit = np.repeat(np.arange(len(units)), np.diff(units.starts))
    table, spread = linear.table.toarray(), units.people[of_unit] * units.times * variance
    try:
        inverse = np.linalg.inv((table * spread) @ table.T + linear.design.noise.matrix)
    except np.linalg.LinAlgError:  # noise that rounds away beside the values: nothing is said without audits
        return
    columns = _features(found, table)
    images = inverse @ columns
    left = 1 - variance * np.sum(columns * images, axis=0)

    def least_without(chosen: IndexArray) -> float:
        own = images[chosen]
        try:
            more = np.sum(own * np.linalg.solve(inverse[np.ix_(chosen, chosen)], own), axis=0)
        except np.linalg.LinAlgError:
            return np.inf  # the audit decides
        return float(np.min(left + variance * more))

    to_come = linear.queries[~_is_out(findings)[linear.queries]]
    by_release = (np.flatnonzero(linear.query_of_row == query) for query in to_come)
    wholes = [chosen for chosen in by_release if 1 < chosen.size < rows]
    singles = list(_droppable(findings, found)[:, None]) if rows > 1 else []
    for chosen in (*singles, *wholes):
        if least_without(chosen) >= found.limit:
            yield chosen


def _can_be_left_out(findings: Findings, found: LinearFindings) -> bool:
    """Whether numbers to leave out are looked for."""
    return bool(found.below_limit) and _why_nothing_is_left_out(findings, found) is None


def _why_nothing_is_left_out(findings: Findings, found: LinearFindings) -> WhyUntried | None:
    """Numbers to leave out are looked for among noisy ones about one value each, if they are not too many."""
    if not found.has_at_most(MOST_FACTORISED):
        return WhyUntried.TOO_LARGE
    if found.linear.columns_of_unit > 1:
        return WhyUntried.CATEGORIES
    if findings.questions:
        return WhyUntried.QUESTIONS
    return WhyUntried.EXACT if findings.pricing.exact.any() else None


def _untried(what: Do, why: WhyUntried) -> Change:
    """A kind of change that was not tried."""
    kind = ChangeKind.COARSER if what is Do.GROUP_ANY else ChangeKind.DROP
    return Change(kind=kind, what=fact(what), why_untried=fact(why))


def _features(found: LinearFindings, table: FloatArray) -> FloatArray:
    """Of those below the limit the columns of rows; of several rows, their part of every number as a unit
    feature.
    """
    units, features = found.linear.units, []
    for unit in np.flatnonzero(found.below).tolist():
        own = slice(int(units.starts[unit]), int(units.starts[unit + 1]))
        columns, times = table[:, own], units.times[own]
        if found.linear.rows_of_unit[unit] > 1:
            inside = np.flatnonzero(columns.any(axis=1))  # of thousands of numbers, a few are about somebody
            products = (columns[inside] * times) @ columns[inside].T
            columns = np.zeros((len(table), inside.size))
            columns[inside] = products / np.sqrt(np.diagonal(products))
        features.append(columns)
    return np.concatenate(features, axis=1)


def _left_out(findings: Findings, found: LinearFindings, rows: IndexArray) -> Iterator[Change]:
    """Not to publish some numbers of a release, if everyone is shown to keep the limit then.

    What is audited is the plan without them: releases that share a budget have less noise if there are fewer.
    """
    linear, membership = found.linear, findings.membership
    query, cell = linear.query_of_row[rows[0]], int(linear.cells[rows[0]])
    owner = np.array([membership.partitions[one.partition].query for one in membership.cells])
    release, whole = findings.plan.releases[query].name, np.count_nonzero(linear.query_of_row == query)
    gone = np.flatnonzero(owner == query) if rows.size == whole else linear.cells[rows]
    try:
        after = find(*without_numbers(findings.plan, membership, gone))
    except SightlineError:  # noise by label of an aggregate that has no number left
        return
    if after.not_shown:
        return
    keys = findings.key_columns[membership.cells[cell].partition]
    numbers = cell_name(membership, cell), cell_name(membership, cell, withheld=keys)
    what, publishable = (
        fact(Do.LEAVE_OUT, number=release if rows.size == whole else number) for number in numbers
    )
    yield Change(
        kind=ChangeKind.DROP,
        release=release,
        reaches_limit=True,
        what=what,
        publishable_what=publishable if publishable != what else None,
        then=fact(Then.NOBODY_BELOW, before=found.not_shown_records),
        price=fact(
            Price.FEWER,
            *changed_errors(errors_today(findings), errors_today(after)),
            fewer=int(gone.size),
            of=len(membership.cells),
        ),
    )


def _droppable(findings: Findings, found: LinearFindings) -> IndexArray:
    """Rows that can be left out by themselves: the numbers of a mechanism are published together.

    What is out already cannot be left out any more.
    """
    owner = findings.pricing.owner[found.linear.cells]
    together = np.isin(owner, list(findings.pricing.strategies))
    return np.flatnonzero(~together & ~_is_out(findings)[found.linear.query_of_row])


def _is_out(findings: Findings) -> BoolArray:
    """Of each release of the plan, whether it is published already."""
    return np.array([release.published for release in findings.plan.releases], dtype=np.bool_)


def with_factor(slack: NoiseSlack, limit: str, today: Errors) -> Change:
    """All noise times the factor that is needed, if one is enough."""
    factor = slack.noise_factor
    if factor is None:
        return Change(kind=ChangeKind.NOISE, what=slack.fact)
    budget = {} if slack.epsilon is None else {"epsilon": slack.epsilon}
    return Change(
        kind=ChangeKind.NOISE,
        noise_factor=factor,
        epsilon=slack.epsilon,
        variance_factor=factor**2,
        reaches_limit=True,
        what=fact(Do.MULTIPLY_NOISE, factor=factor, **budget),
        then=fact(Then.EVERYONE_KEEPS, limit=limit),
        price=fact(
            Price.ERRORS,
            *changed_errors(today, {name: (factor * a, factor * b) for name, (a, b) in today.items()}),
            factor=factor,
        ),
    )


_MOST_GROUPINGS = 4  # that are audited, of those that merge groups and of those that make all coarser
_FEWEST_IN_A_GROUP = 3  # records, in half of the groups: of a key's values nobody merges two


class _Coarser(NamedTuple):
    kind: ChangeKind
    plan: Plan
    releases: tuple[str, ...]
    what: Fact
    publishable: Fact | None  # without the names of small groups, if it differs


def coarser_groups(session: Session, findings: Findings) -> tuple[Change, ...]:
    """The first groups merged or published less often, and the first coarser ones, that reach the limit.

    Nothing if none does, or if all keep it; coarser groups are tried where merged ones are not enough.
    """
    found, plan = findings.linear, session.plan
    if not found or not found.limit or not findings.not_shown:
        return ()
    if plan.rules.given or not found.has_at_most(MOST_FACTORISED):
        return groups_untried(findings, WhyUntried.RULES if plan.rules.given else WhyUntried.TOO_LARGE)
    candidates = list(_candidates(session))
    if not candidates:
        return groups_untried(findings, WhyUntried.NO_COARSER_KEY)
    mild = [one for one in candidates if one.kind is not ChangeKind.COARSER][:_MOST_GROUPINGS]
    strong = [one for one in candidates if one.kind is ChangeKind.COARSER][:_MOST_GROUPINGS]
    tried: list[Change] = []
    for audited, coarser in enumerate([*mild, *strong]):
        report("trying other groups", audited / (len(mild) + len(strong)))
        try:
            with opened(coarser.plan, session.base, limits=session.limits) as other:
                after = find(coarser.plan, other.membership(), values=other.values)
                told = _tells_somebody(after, partial(other.totals, membership=after.membership))
        except SightlineError:  # noise by number, or another field that names the groups as they were
            continue
        change = Change(kind=coarser.kind, what=coarser.what, publishable_what=coarser.publishable)
        if after.not_shown or told:
            figures = {**coarser.what.figures, "by": ""}  # its SQL helps nobody
            tried.append(
                change.model_copy(update={"what": coarser.what.model_copy(update={"figures": figures})})
            )
        else:
            before, now = len(findings.membership.cells), len(after.membership.cells)
            enough = {
                "release": coarser.releases[0] if len(coarser.releases) == 1 else None,
                "reaches_limit": True,
                "then": fact(Then.EVERYONE_KEEPS, limit=plan.limits.text),
                "price": fact(
                    Price.COARSER,
                    *changed_errors(errors_today(findings), errors_today(after)),
                    now=now,
                    before=before,
                ),
            }
            return (change.model_copy(update=enough), *tried)
    return tuple(tried) or groups_untried(findings, WhyUntried.REFUSED)


def groups_untried(findings: Findings, why: WhyUntried) -> tuple[Change, ...]:
    """That other groups were not looked for, where somebody falls short of the limit."""
    wanted = bool(findings.linear) and bool(findings.linear.limit) and bool(findings.not_shown)
    return (_untried(Do.GROUP_ANY, why),) if wanted else ()


def _tells_somebody(findings: Findings, totals: Totals) -> bool:
    """Whether counts without noise may make somebody certain, whatever is left of others on average."""
    told = certain_report(findings, totals) if findings.pricing.exact.any() else None
    return told is not None and bool(told.people or told.by_draw or told.undecided)


def _candidates(session: Session) -> Iterator[_Coarser]:
    """The next coarser grouping of every key in turn, then the one after it."""
    plan, dialect = session.plan, session.engine.dialect
    open_ones = [release for release in plan.releases if not release.published]
    own = {release.name: group_columns(release.sql, dialect) for release in open_ones}
    columns = list(dict.fromkeys(name for release in open_ones for name in own[release.name]))
    ways = [list(_ways(session, column)) for column in columns]
    for place in range(max(map(len, ways), default=0)):
        for column, coarser in zip(columns, ways, strict=True):
            if place < len(coarser):
                kind, by, grouping, public = coarser[place]
                named = tuple(one.name for one in open_ones if column in own[one.name])
                releases = tuple(
                    one.model_copy(update={"sql": grouped_by(one.sql, column, by, dialect)})
                    if one.name in named
                    else one
                    for one in plan.releases
                )
                listed = ", ".join(f'"{name}"' for name in named[:3]) + ", …" * (len(named) > 3)
                what = fact(Do.GROUP_OTHERWISE, grouping, releases=listed, by=by)
                shown = public and fact(Do.GROUP_OTHERWISE, public, releases=listed, by="")
                yield _Coarser(kind, plan.model_copy(update={"releases": releases}), named, what, shown)


def _ways(session: Session, column: str) -> Iterator[tuple[ChangeKind, str, Fact, Fact | None]]:
    """Expressions of SQL that put the values of a column together, the finest first, and what each does.

    The last is what it does without the names of small groups, where it has them.
    """
    kinds = {one.name: one.kind for one in session.engine.columns()}
    if column not in kinds:
        return
    quoted = _identifier(column)
    if kinds[column] is ColumnKind.TIME:
        for period in ("week", "month", "quarter", "year"):
            once = fact(Regrouping.ONCE, period=period)
            yield ChangeKind.SELDOM, f"DATE_TRUNC('{period}', {quoted})", once, None
    if kinds[column] is ColumnKind.TEXT:
        for names in _smallest_groups(session, quoted):
            texts = ", ".join(map(literal, names))
            merged = fact(Regrouping.AS_ONE, names=f"{', '.join(names[:-1])} and {names[-1]}", column=column)
            by = f"CASE WHEN {quoted} IN ({texts}) THEN {literal(' or '.join(names))} ELSE {quoted} END"
            yield ChangeKind.MERGE, by, merged, fact(Regrouping.SMALLEST, groups=len(names), column=column)
    if kinds[column] is ColumnKind.NUMBER:
        query = f"SELECT COUNT(DISTINCT {quoted}) AS n, MAX({quoted}) - MIN({quoted}) AS span FROM data"
        found = session.engine.fetch(query)
        values, span = int(found["n"][0]), float(found["span"][0] or 0.0)
        round_steps = (one * 10**power for power in count_up() for one in (1, 2, 5))
        for step in takewhile(lambda one: span > one, round_steps):
            if span / step + 1 < values:
                by = f"FLOOR({quoted} / {step}) * {step}"
                yield ChangeKind.COARSER, by, fact(Regrouping.STEPS, column=column, step=step), None
    for other in session.plan.data.public or ():
        if other != column and other in kinds and other not in (session.plan.data.record,):
            both = _identifier(other)
            query = (
                f"SELECT COUNT(DISTINCT {quoted}) AS fine, COUNT(DISTINCT {both}) AS coarse, "
                f"COUNT(DISTINCT CAST({quoted} AS TEXT) || '/' || CAST({both} AS TEXT)) AS pairs FROM data"
            )
            sizes = {key: int(value[0]) for key, value in session.engine.fetch(query).items()}
            if 1 < sizes["coarse"] < sizes["fine"] == sizes["pairs"]:
                yield ChangeKind.COARSER, both, fact(Regrouping.BY, other=other, column=column), None


def _smallest_groups(session: Session, quoted: str) -> list[tuple[str, ...]]:
    """The two and the three values of a column that fewest records have; none of a column like a key."""
    record = _identifier(session.plan.data.record)
    found = session.engine.fetch(
        f"SELECT {quoted} AS v, COUNT(DISTINCT {record}) AS n FROM data WHERE {quoted} IS NOT NULL "
        f"GROUP BY {quoted} ORDER BY n, v"
    )
    values, sizes = [str(one) for one in found["v"].tolist()], found["n"].tolist()
    if len(values) < 3 or sizes[len(sizes) // 2] < _FEWEST_IN_A_GROUP:
        return []
    return [tuple(values[:number]) for number in (2, 3) if number < len(values)]


def _identifier(name: str) -> str:
    """A column in SQL: quoted unless it is a plain word."""
    return name if re.fullmatch("[a-z_][a-z0-9_]*", name) else '"' + name.replace('"', '""') + '"'
