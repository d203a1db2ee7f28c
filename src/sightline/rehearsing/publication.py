"""One publication of a plan with simulated noise, and the truth behind it, which is for the owner only."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import cholesky

from sightline.arrays import AT_A_TIME, FloatArray, IndexArray
from sightline.auditing.findings import Findings, LinearFindings
from sightline.auditing.lowering import Lowered
from sightline.auditing.plan import Plan
from sightline.auditing.result_parts import SMALL_GROUP
from sightline.auditing.session import Session
from sightline.errors import TooMuchWork
from sightline.privacy.law import Law
from sightline.tables.membership import Statistic
from sightline.tables.records import secrets_of, signature_totals


def published_means(
    findings: Findings, true_answers: FloatArray, generator: np.random.Generator
) -> FloatArray:
    """Publish the true answers once, with the noise of the plan: of every number the mean of its copies.

    All noise has a law that is drawn, in a plan that can be rehearsed. Of running sums the numbers are steps:
    a sum less the one before it.
    """
    pricing = findings.pricing
    copies = pricing.times[pricing.owner]
    total = int(copies.sum())
    if total > AT_A_TIME:
        raise TooMuchWork(f"expected at most {AT_A_TIME:,} published numbers, got {total:,}")
    first, cells = np.cumsum(copies) - copies, np.repeat(np.arange(copies.size), copies)
    white = {law: law.facts.draws(generator, total) for law in Law if law.facts.draws is not None}
    normal, law_of_cell = white[Law.GAUSSIAN], np.array(pricing.laws)[pricing.owner]
    drawn = np.select([law_of_cell[cells] == law for law in white], list(white.values()))
    drawn *= pricing.scale[cells]
    for own, strategy in pricing.steps():  # numbers that share noise
        places = first[own] + np.arange(copies[own[0]])[:, None]
        drawn[places] = pricing.parameter[own[0]] * normal[places] @ cholesky(strategy.covariance)
    return np.asarray(np.bincount(cells, true_answers[cells] + drawn) / copies)


# The keys and the secrets of some rows with one signature.
Secrets = tuple[tuple[str, float | str], ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Truth:
    """What the table says: sums of the secrets, and the answers that follow from them."""

    unknown: FloatArray  # for every column of the findings the sum of its secrets
    known: FloatArray  # for every row of the design, what the attacker knows of it
    answers: FloatArray  # the exact answer of every published number of the membership

    @classmethod
    def of(cls, session: Session, findings: Findings) -> Truth:
        """Ask the engine for it."""
        linear, totals = rehearsed(findings).linear, session.totals(None)
        everyone = totals
        if findings.membership.known_rows:
            everyone = signature_totals(session.engine, replace(session.counted, known=""))
        unknown = _column_sums(session.plan, linear, totals)
        answers = np.empty(len(findings.membership.cells))
        answers[linear.cells] = _linear_answers(session.plan, linear, everyone)
        known = answers[linear.cells] * linear.factors + linear.offsets - linear.table @ unknown
        return cls(unknown=unknown, known=known, answers=answers)


def rehearsed(findings: Findings) -> LinearFindings:
    """The findings that are rehearsed: where persons have several rows, those about each row."""
    return findings.rows_apart if findings.membership.by_person else findings.linear


def seen_rows(linear: Lowered, truth: Truth, answers: FloatArray) -> FloatArray:
    """The rows of the design behind published numbers, less what the attacker knows."""
    return np.asarray(answers[linear.cells] * linear.factors + linear.offsets - truth.known)


def secrets_by_column(session: Session, linear: Lowered, columns: IndexArray) -> dict[int, Secrets]:
    """The keys and the secrets of the first unknown rows of some columns, sorted by key."""
    of_column = {int(column): linear.signatures_of(int(column)).tolist() for column in columns}
    wanted = sorted({one for signatures in of_column.values() for one in signatures})
    secrets = secrets_of(session.engine, session.counted, signature_ids=wanted)
    return {
        column: tuple(sorted(row for one in signatures for row in secrets[one][:SMALL_GROUP]))
        for column, signatures in of_column.items()
    }


def _column_sums(plan: Plan, linear: Lowered, totals: FloatArray) -> FloatArray:
    """The sums of the findings' columns, from those of the signatures."""
    names = plan.data.categories
    columns = [names.index(name) for name in linear.categories] or [0]
    inside, units = linear.unit_of_record >= 0, len(linear.units)
    each = [np.bincount(linear.unit_of_record[inside], totals[inside, c], units) for c in columns]
    sums: FloatArray = np.stack(each, axis=1, dtype=np.float64).ravel()
    return sums


def _linear_answers(plan: Plan, linear: Lowered, totals: FloatArray) -> FloatArray:
    """The exact answers of the linear numbers, from the sums of all secrets of every signature."""
    membership, names = linear.membership, plan.data.categories
    sums = np.zeros(len(membership.cells))
    for p, part in enumerate(membership.partitions):
        counted = [names.index(name) for name in part.categories if name in names] if names else [0]
        of_signature = totals[:, counted].sum(axis=1) * membership.weights_in(p)
        position = membership.positions(p)
        added = np.bincount(position[position >= 0], of_signature[position >= 0], sums.size)
        mine = slice(int(membership.starts[p]), int(membership.starts[p + 1]))
        sums[mine] = added[mine] if part.above else membership.weight_sums[mine] - added[mine]
        if part.statistic is Statistic.MEAN:
            sums[mine] /= np.array([cell.rows for cell in membership.cells[mine]])
    return np.asarray(sums[linear.cells])
