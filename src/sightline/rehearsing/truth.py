"""The true values behind a plan, and the exact answers to its releases. For the owner only."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from sightline.arrays import FloatArray, IndexArray
from sightline.auditing.findings import Findings, LinearFindings
from sightline.auditing.lowering import LINEAR, Lowered
from sightline.auditing.plan import Plan
from sightline.auditing.session import Session
from sightline.errors import InvalidPlan, require
from sightline.tables.membership import Feature, Membership, Partition, RowValues, Statistic
from sightline.tables.records import secrets_of, signature_totals

MOST_NAMED = 5  # records of a sum that are named
# The keys and the secrets of some rows with one signature.
Secrets = tuple[tuple[str, float | str], ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Truth:
    """What the table says: sums of the secrets, and all secrets where a release is not linear in them."""

    unknown: FloatArray  # for every column of the findings the sum of its secrets
    known: FloatArray  # for every row of the design, what the attacker knows of it
    answers: FloatArray  # the exact answer of every published number of the membership
    values: RowValues | None  # none if everything is linear

    @classmethod
    def of(cls, session: Session, findings: Findings) -> Truth:
        """Ask the engine for it."""
        membership, found = findings.membership, rehearsed(findings)
        answers = np.full(len(membership.cells), np.nan)
        unknown = known = np.zeros(0)
        if found is not None:
            linear, totals = found.linear, session.totals(None)
            everyone = totals
            if membership.known_rows:
                nobody_known = replace(session.subject, known=(), known_share=None)
                everyone = signature_totals(session.engine, session.queries, nobody_known)
            unknown = _column_sums(session.plan, linear, totals)
            answers[linear.cells] = _linear_answers(session.plan, linear, everyone)
            known = answers[linear.cells] * linear.factors + linear.offsets - linear.table @ unknown
        values = session.values() if findings.has_nonlinear else None
        if values is not None:
            _add_nonlinear(answers, membership, values)
        return cls(unknown=unknown, known=known, answers=answers, values=values)


def rehearsed(findings: Findings) -> LinearFindings | None:
    """The findings that are rehearsed: where persons have several rows, those about each row."""
    several = findings.linear is not None and findings.membership.persons is not None
    return findings.rows_apart if several else findings.linear


def seen_rows(linear: Lowered, truth: Truth, answers: FloatArray) -> FloatArray:
    """The rows of the design behind published numbers, less what the attacker knows."""
    return np.asarray(answers[linear.cells] * linear.factors + linear.offsets - truth.known)


def secrets_by_column(session: Session, linear: Lowered, columns: IndexArray) -> dict[int, Secrets]:
    """The keys and the secrets of the first unknown rows of some columns, sorted by key."""
    own = {int(column): linear.signatures_of(int(column)).tolist() for column in columns}
    wanted = sorted({one for signatures in own.values() for one in signatures})
    found = secrets_of(
        session.engine, session.queries, session.subject, signature_ids=wanted, most=MOST_NAMED
    )
    return {
        column: tuple(sorted(row for one in signatures for row in found[one]))
        for column, signatures in own.items()
    }


def feature_values(partition: Partition, values: FloatArray) -> FloatArray:
    """What a partition aggregates of each row: thresholds are sharp, as they are published.

    >>> count = Partition(
    ...     query=0, name="", statistic=Statistic.SUM, feature=Feature.THRESHOLD, parameter=2.0, above=False
    ... )
    >>> feature_values(count, np.array([1.0, 3.0])).tolist()
    [1.0, 0.0]
    """
    match partition.feature:
        case Feature.VALUE | Feature.INDICATOR:
            found = values
        case Feature.POWER:
            assert isinstance(partition.parameter, int | float)
            found = values**partition.parameter
        case Feature.THRESHOLD:
            assert isinstance(partition.parameter, int | float)
            above = values >= partition.parameter if partition.closed else values > partition.parameter
            found = above.astype(np.float64)
        case other:
            raise InvalidPlan(f"expected values, powers or thresholds, got {other.value}")
    return np.asarray(found if partition.above else 1 - found)


def _column_sums(plan: Plan, linear: Lowered, totals: FloatArray) -> FloatArray:
    """The sums of the findings' columns, from those of the signatures."""
    names = plan.data.categories or ()
    place = [names.index(name) for name in linear.categories] or [0]
    inside, units = linear.unit_of_record >= 0, len(linear.units)
    each = [np.bincount(linear.unit_of_record[inside], totals[inside, c], units) for c in place]
    return np.stack(each, axis=1).ravel()


def _linear_answers(plan: Plan, linear: Lowered, totals: FloatArray) -> FloatArray:
    """The exact answers of the linear numbers, from the sums of all secrets of every signature."""
    membership, names = linear.membership, plan.data.categories or ()
    sums = np.zeros(len(membership.cells))
    for p, part in enumerate(membership.partitions):
        if part.feature not in LINEAR:
            continue
        counted = [names.index(name) for name in part.categories if name in names] if names else [0]
        own = totals[:, counted].sum(axis=1) * membership.weights_in(p)
        position = membership.positions(p)
        added = np.bincount(position[position >= 0], own[position >= 0], sums.size)
        mine = slice(int(membership.starts[p]), int(membership.starts[p + 1]))
        sums[mine] = added[mine] if part.above else membership.weight_sums[mine] - added[mine]
        if part.statistic is Statistic.MEAN:
            sums[mine] /= np.array([cell.rows for cell in membership.cells[mine]])
    return np.asarray(sums[linear.cells])


def _add_nonlinear(answers: FloatArray, membership: Membership, values: RowValues) -> None:
    """The exact answers of moments and thresholds."""
    for p, partition in enumerate(membership.partitions):
        if partition.feature in LINEAR:
            continue
        if partition.feature is Feature.THRESHOLD:
            require(
                not np.any(values.secret == partition.parameter),
                f"{partition.name}: no value that lies exactly at its threshold",
                got="one",
                fix="the plan does not tell a rehearsal on which side it counts: move the threshold",
                error=InvalidPlan,
            )
        position = membership.positions(p)[values.signature]
        inside = position >= 0
        weights = membership.weights_in(p)[values.signature[inside]]
        added = feature_values(partition, values.secret[inside]) * weights
        sums = np.bincount(position[inside], added, len(answers))
        for c in np.unique(position[inside]):
            mean = partition.statistic is Statistic.MEAN
            answers[c] = sums[c] / membership.cells[c].rows if mean else sums[c]
