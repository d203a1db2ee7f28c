"""The section on what to change: what to leave out, and how much noise meets the limit.

Every change is audited again before it is proposed, and says what that audit found. A change after which as
many are below the limit, and as many identifiable, is not proposed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from sightline.arrays import FloatArray, IndexArray
from sightline.auditing.exposed import ExposedSection
from sightline.auditing.findings import Findings, LinearFindings, findings_with
from sightline.auditing.lowering import BoolArray, Lowered, cell_name
from sightline.auditing.recipes import RecipeWriter
from sightline.auditing.record_costs import most_own_releases
from sightline.auditing.result import Change, ChangeKind, NoiseSlack, ReleaseReport
from sightline.format import count, percent_at_least
from sightline.noise.pricing import shared_unit_noise
from sightline.privacy.registry import accountant_named

_MOST_TRIED, _MOST_SHOWN = 8, 5  # numbers that are audited again, and that are proposed
_MOST_RELEASES = 3  # that are left out, one after the other
_MOST_AUDITED = 2  # numbers or releases without which the limit may hold


def fewer_numbers(
    findings: Findings, releases: tuple[ReleaseReport, ...], section: ExposedSection
) -> tuple[tuple[Change, ...], str]:
    """What to leave out, the mildest first; and for whom nothing was looked for, in words.

    Nothing is proposed to hide anyone better than the limit asks.
    """
    found = findings.linear
    to_come = [r for r, out in zip(releases, _is_out(findings).tolist(), strict=True) if not out]
    copies = [r for r in to_come if r.copy_of is not None]
    changes = [_publish_once(findings, releases.index(r), r) for r in copies]
    left = further = 0
    # What leaving out does is looked at for the secret alone, and not for questions about it.
    if found is not None and _to_improve(findings, found) and found.repeatable and not findings.questions:
        separated, left = _separate(findings, found, section)
        changes += separated
        told = {change.release for change in changes if change is not None}
        helpful = [r for r in to_come if r.exposes_alone and not (r.outputs == 1 and r.name in told)]
        helpful.sort(key=lambda r: -(r.exposes_alone or 0))
        changes += [_drop(findings, found, releases.index(r), r) for r in helpful[:_MOST_RELEASES]]
        further = len(helpful) - _MOST_RELEASES
    return tuple(change for change in changes if change is not None), _not_looked_for(left, further)


def more_noise(findings: Findings, slack: NoiseSlack | None) -> Change | None:
    """A factor on all noise with which everyone keeps the limit; none if it holds, or if some is out."""
    found = findings.linear
    if slack is None or slack.holds or _is_out(findings).any():
        return None
    if found is not None and (found.limit is None or not _to_improve(findings, found)):
        return None
    return _more_noise(slack, findings.plan.limits.text)


def _to_improve(findings: Findings, found: LinearFindings) -> bool:
    return found.limit is None or found.below_limit > 0 or findings.not_shown > 0


# Numbers, and units × numbers, of designs in which leaving some of them out is tried.
_MOST_NUMBERS, _MOST_ENTRIES = 600, 3e7


def reaching(
    findings: Findings, slack: NoiseSlack | None, coarser: Callable[[], tuple[Change, ...]] = tuple
) -> tuple[Change, ...]:
    """The changes after which everyone keeps the limit, as far as few audits find them.

    ``coarser`` looks for coarser groups. They stand in the place of a second one to leave out.
    """
    found, common = findings.linear, more_noise(findings, slack)
    changes: list[Change | None] = []
    if found is not None:
        try:
            proposed = list(islice(may_suffice(findings, found), _MOST_AUDITED))
        except np.linalg.LinAlgError:  # next to no noise: advice is not looked for
            proposed = []
        changes = [_left_out(findings, found, rows) for rows in proposed]
    enough = [change for change in changes if change is not None and change.reaches_limit]
    if groups := coarser():
        enough = [*enough[:1], *groups]
    return (*enough, *([common] if common is not None and common.reaches_limit else []))


def may_suffice(findings: Findings, found: LinearFindings) -> Iterator[IndexArray]:
    r"""Numbers to leave out, one or a release, without which linear attacks leave the limit.

    With G the inverse of the covariance of all answers, the best linear attack on a value of variance v with
    the column a leaves :math:`1 - v (a^\top G a - (Ga)_R^\top G_{RR}^{-1} (Ga)_R)` of it if the numbers R
    are not published. Where that is less than the limit no audit is needed; elsewhere the audit decides.
    """
    linear, rows = found.linear, found.linear.row_count
    small = rows <= _MOST_NUMBERS and rows * len(found.people) <= _MOST_ENTRIES and found.others is None
    if not (small and found.below_limit) or linear.columns_of_unit > 1 or findings.questions:
        return
    if findings.pricing.exact.any():
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
        if least_without(chosen) >= (found.limit or 0.0):
            yield chosen


def _features(found: LinearFindings, table: FloatArray) -> FloatArray:
    """Of those below the limit the columns of rows; of several rows, their part of every number as a unit
    feature.
    """
    units, features = found.linear.units, []
    for unit in np.flatnonzero(found.below).tolist():
        own = slice(int(units.starts[unit]), int(units.starts[unit + 1]))
        columns, times = table[:, own], units.times[own]
        if found.linear.rows_of_unit[unit] > 1:
            products = (columns * times) @ columns.T
            inside = np.flatnonzero(np.diagonal(products) > 0)
            columns = products[:, inside] / np.sqrt(np.diagonal(products)[inside])
        features.append(columns)
    return np.concatenate(features, axis=1)


def _left_out(findings: Findings, found: LinearFindings, rows: IndexArray) -> Change | None:
    """Not to publish some numbers of a release; none if nothing is better then."""
    linear = found.linear
    after = Effect.of(
        findings_with(findings, linear.take(np.delete(np.arange(linear.row_count), rows))), found.limit
    )
    if (effect := after.after(Effect.of(found, found.limit))) is None:
        return None
    query = linear.query_of_row[rows[0]]
    release, whole = (
        findings.plan.releases[query].name,
        np.count_nonzero(linear.query_of_row == query) == rows.size,
    )

    def text(owner: bool) -> str:
        name = release if whole else _row_name(findings, linear, int(rows[0]), owner)
        return f'do not publish "{name}": {effect}'

    cost = _fewer_numbers(findings, rows.size)
    return _change(ChangeKind.DROP, release, (text(True), text(False)), (effect, cost), after)


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


def _not_looked_for(groups: int, releases: int) -> str:
    """For what no change was looked for, in words; empty if there is nothing."""
    words = [
        *(
            [f"{count(groups, 'more record or group', 'more records or groups')} that can be singled out"]
            * (groups > 0)
        ),
        *([f"{count(releases, 'more release')} that single somebody out"] * (releases > 0)),
    ]
    return f"No change was looked for {' and '.join(words)}." if words else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """How many records are exposed, as an audit counts them."""

    below: int | None  # not shown to keep the limit; none without one
    identifiable: int

    @classmethod
    def of(cls, found: LinearFindings | None, limit: float | None) -> Effect:
        """As the findings are; nobody is exposed if nothing is published."""
        if found is None:
            return cls(below=None if limit is None else 0, identifiable=0)
        below = found.not_shown_records
        return cls(below=None if limit is None else below, identifiable=found.identifiable_records)

    def after(self, before: Effect) -> str | None:
        """What has changed, in words; none if nothing is better.

        >>> Effect(below=2, identifiable=1).after(Effect(below=3, identifiable=1))
        'then 2 records are below the limit instead of 3'
        """
        if self.below is not None and before.below is not None and self.below < before.below:
            return f"then {_are(self.below)} below the limit instead of {before.below:,}"
        if self.identifiable < before.identifiable:
            still = "" if self.below is None else f", and {_are(self.below)} below the limit as before"
            return f"then {_are(self.identifiable)} identifiable instead of {before.identifiable:,}{still}"
        return None


def _are(number: int) -> str:
    return f"{count(number, 'record')} {'is' if number == 1 else 'are'}"


def _publish_once(findings: Findings, query: int, report: ReleaseReport) -> Change | None:
    """A copy takes a share of the budget, or sharpens what is seen; none if neither can be shown."""
    effect = None
    if not report.noise_given:
        effect = _with_fewer_releases(findings, query)
    found = findings.linear
    if effect is None and found is not None and found.repeatable:
        fewer = findings.without(query)
        now, then = found.least, None if fewer is None else fewer.least
        if now is not None and then is not None:
            kept = tuple(percent_at_least(one.lower) for one in (then, now))
            if kept[0] != kept[1]:
                effect = f"without it everyone keeps at least {kept[0]} instead of {kept[1]}"
    if effect is None:
        return None
    text = f'do not publish "{report.name}": it repeats "{report.copy_of}" and opens nothing new; {effect}'
    return Change(
        kind=ChangeKind.MERGE,
        release=report.name,
        noise_factor=None,
        epsilon=None,
        text=text,
        cost=_fewer_numbers(findings, report.outputs),
    )


def _fewer_numbers(findings: Findings, fewer: int) -> str:
    return f"{fewer:,} of {count(len(findings.membership.cells), 'number')} fewer"


def _with_fewer_releases(findings: Findings, query: int) -> str | None:
    """How much less noise the budget asks for if one release does not share it."""
    pricing, membership, budget = findings.pricing, findings.membership, findings.plan.privacy.budget
    left = tuple(one for one in pricing.shared if membership.partitions[one[0]].query != query)
    if budget is None or not left:
        return None
    rule = accountant_named(findings.plan.privacy.accountant, budget)

    def noise(shared: tuple[tuple[int, ...], ...]) -> float:
        own = most_own_releases(membership, shared=shared, times=pricing.times, row_norms=pricing.row_norms)
        count = int(sum(pricing.times[bundle[0]] for bundle in shared))
        return math.sqrt(shared_unit_noise(rule, releases=count, own_releases=own))

    share = noise(left) / noise(pricing.shared)
    return f"without it the same budget asks for {share:.3g} times the noise on the others"


def _separate(findings: Findings, found: LinearFindings, section: ExposedSection) -> tuple[list[Change], int]:
    """Numbers that single out a record by themselves or in twos, if nothing does so without them.

    Also how many records and groups were not looked at.
    """
    writer = RecipeWriter(findings=findings, found=found)
    before = Effect.of(found, found.limit)
    changes: list[Change] = []
    seen: set[tuple[int, ...]] = set()
    looked_at, unit = 0, "row" if findings.membership.contributions > 1 else "record"
    for column in section.columns[found.visible[section.columns]].tolist():
        rows = writer.shortest_rows(column)
        full = len(seen) >= _MOST_TRIED or len(changes) >= _MOST_SHOWN
        if full and rows and rows not in seen:
            continue
        looked_at += 1
        if not rows or rows in seen or not np.isin(rows, _droppable(findings, found)).all():
            continue
        seen.add(rows)
        size = int(found.counts[column])
        whom = f"one {unit}" if size == 1 else f"{size} {unit}s that nothing else tells apart"
        if len(rows) == 1:
            change = _leave_out(findings, found, column, (rows[0], None), whom, before)
        else:
            pairs = (rows[::-1], rows)
            tried = (_leave_out(findings, found, column, pair, whom, before) for pair in pairs)
            change = next(filter(None, tried), None)
        if change is not None:
            changes.append(change)
    in_all = int(np.count_nonzero(found.visible & found.listed & (found.counts > 0)))
    return changes, max(0, in_all - looked_at)


def _leave_out(  # many parameters: two numbers, whom they single out, and what is compared
    findings: Findings,
    found: LinearFindings,
    column: int,
    rows: tuple[int, ...] | tuple[int, None],
    whom: str,
    before: Effect,
) -> Change | None:
    """Not to publish the first of some numbers, if without it the column is not visible any more."""
    needed, beside = rows[0], rows[1]
    after = findings_with(findings, found.linear.without(needed))
    if after is not None and after.visible[column]:
        return None
    now = Effect.of(after, found.limit)
    if (effect := now.after(before)) is None:
        return None
    release = findings.plan.releases[found.linear.query_of_row[needed]].name

    def text(owner: bool) -> str:
        name = _row_name(findings, found.linear, needed, owner)
        if beside is None:
            return f'do not publish "{name}": it holds {whom}; {effect}'
        other = _row_name(findings, found.linear, beside, owner)
        return f'do not publish "{name}" beside "{other}": they differ by {whom}; {effect}'

    kind = ChangeKind.MERGE if beside is not None else ChangeKind.DROP
    cost = _fewer_numbers(findings, 1)
    return _change(kind, release, (text(True), text(False)), (effect, cost), now)


def _change(
    kind: ChangeKind, release: str, texts: tuple[str, str], effect_and_cost: tuple[str, str], after: Effect
) -> Change:
    """A change in the owner's words and in publishable ones."""
    (text, publishable), (effect, cost) = texts, effect_and_cost
    return Change(
        kind=kind,
        release=release,
        noise_factor=None,
        epsilon=None,
        reaches_limit=after.below == 0,
        text=text,
        effect=effect,
        cost=cost,
        publishable_text=publishable if publishable != text else None,
    )


def _row_name(findings: Findings, linear: Lowered, row: int, owner: bool) -> str:
    return _cell_name(findings, int(linear.cells[row]), owner)


def _cell_name(findings: Findings, cell: int, owner: bool) -> str:
    withheld = findings.key_columns[findings.membership.cells[cell].partition]
    return cell_name(findings.membership, cell, withheld=frozenset() if owner else withheld)


def _drop(findings: Findings, found: LinearFindings, query: int, report: ReleaseReport) -> Change | None:
    fewer = findings.without(query)
    if fewer is None:  # to publish nothing is no advice
        return None
    after = Effect.of(fewer, found.limit)
    if (effect := after.after(Effect.of(found, found.limit))) is None:
        return None
    text, cost = f'drop "{report.name}": {effect}', _fewer_numbers(findings, report.outputs)
    return _change(ChangeKind.DROP, report.name, (text, text), (effect, cost), after)


def _more_noise(slack: NoiseSlack, limit: str) -> Change:
    factor = slack.noise_factor
    if factor is None:
        text = slack.text[0].lower() + slack.text[1:].rstrip(".")
        return Change(kind=ChangeKind.NOISE, release=None, noise_factor=None, epsilon=None, text=text)
    budget = "" if slack.epsilon is None else f", which is a budget of epsilon = {slack.epsilon:.3g}"
    effect = f"then everyone keeps at least {limit}"
    text = f"multiply all noise by {factor:.3g}{budget}: {effect}"
    return Change(
        kind=ChangeKind.NOISE,
        release=None,
        noise_factor=factor,
        epsilon=slack.epsilon,
        variance_factor=factor**2,
        reaches_limit=True,
        text=text,
        effect=effect,
        cost=f"the error of every number times {factor:.3g}",
    )
