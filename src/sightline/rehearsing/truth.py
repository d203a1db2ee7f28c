"""The true values behind a plan, and the exact answers to its releases. For the owner only."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from sightline.arrays import FloatArray, IndexArray
from sightline.auditing.design import LINEAR, LinearDesign
from sightline.auditing.findings import Findings
from sightline.auditing.plan import Plan
from sightline.auditing.session import Session
from sightline.errors import InvalidPlan, require
from sightline.labeled.incidence.protocol import BoolArray
from sightline.tables.membership import Feature, Membership, Partition, RowValues, Statistic
from sightline.tables.records import secrets_of, signature_totals
from sightline.tables.subject import SecretKind

MOST_NAMED = 5  # records of a sum that are named
# The keys and the secrets of some rows with one signature.
Secrets = tuple[tuple[str, float | str], ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Truth:
    """What the table says: sums of the secrets, and all secrets where a release is not linear in them."""

    unknown: FloatArray  # for every column of the main design the sum of its secrets; 0 for known columns
    known: FloatArray  # the same for columns that the attacker knows
    answers: FloatArray  # the exact answer of every published number of the membership
    values: RowValues | None  # none if everything is linear

    @classmethod
    def of(cls, session: Session, findings: Findings) -> Truth:
        """Ask the engine for it."""
        membership, found = findings.membership, findings.linear
        answers = np.full(len(membership.cells), np.nan)
        unknown = known = np.zeros(0)
        if found is not None:
            totals = session.totals(None)
            everyone = totals
            if found.linear.known.any():
                nobody_known = replace(session.subject, known=(), known_share=None)
                everyone = signature_totals(session.engine, session.queries, nobody_known)
            unknown, known = _column_sums(session.plan, found.linear, totals, everyone - totals)
            rows = rows_of(found.linear, unknown + known)
            main = found.linear.main
            answers[found.linear.cells] = (rows - main.offsets) / main.factors
        values = session.values() if findings.has_nonlinear else None
        if values is not None:
            _add_nonlinear(answers, membership, values)
        return cls(unknown=unknown, known=known, answers=answers, values=values)


def rows_of(linear: LinearDesign, sums: FloatArray) -> FloatArray:
    """The exact rows of the main design, from the sums of its columns."""
    everyone = np.ones(linear.design.size, dtype=np.bool_)
    rows: FloatArray = linear.design.incidence.images(everyone, sums[None])[0]
    return rows


def seen_rows(linear: LinearDesign, truth: Truth, answers: FloatArray) -> FloatArray:
    """The rows of the main design behind published numbers, less what the attacker knows."""
    main = linear.main
    rows = answers[linear.cells] * main.factors + main.offsets
    return np.asarray(rows - rows_of(linear, truth.known))


def secrets_by_column(session: Session, linear: LinearDesign, columns: IndexArray) -> dict[int, Secrets]:
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


def _column_sums(
    plan: Plan, linear: LinearDesign, unknown: FloatArray, known: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The sums of the main design's columns, from those of the signatures."""
    size, blocks = linear.design.size, linear.main.blocks
    place = [0]
    if plan.data.secret_kind is SecretKind.CATEGORY:
        names = list(plan.data.categories or ())
        place = [names.index(category) for category in linear.categories[:blocks]]
    column, mine = linear.column_signature[:size], linear.known[:size]

    def sums(totals: FloatArray, wanted: BoolArray) -> FloatArray:
        of_place = [np.bincount(linear.signature_of, totals[:, c], len(linear.signatures)) for c in place]
        each = np.concatenate([one[column[: linear.main.width]] for one in of_place])
        return np.where(wanted, each, 0.0)

    return sums(unknown, ~mine), sums(known, mine)


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
