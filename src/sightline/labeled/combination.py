r"""A smallest identifiable combination of records that a record is part of.

A record that is not identifiable may be part of an identifiable combination of records: one that is also a
combination of the answers. Those with smallest support are the cocircuits of the design's columns. With the
record's column first in the elimination, the reduced row with its pivot is one of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sightline.arrays import FloatArray, IndexArray
from sightline.errors import InvalidInput, InvalidRelease, require
from sightline.labeled.assessment import attacked
from sightline.labeled.bounds.uniform import UniformPrior
from sightline.labeled.description import LinearReleases
from sightline.labeled.exposures import row_noise
from sightline.labeled.knowledge import unknown_records
from sightline.labeled.member_rows import MemberRows
from sightline.labeled.unit_design import Design, UnitPrior
from sightline.noise.laws import CorrelatedNoise
from sightline.numerics.certificate import reduced_rows
from sightline.numerics.residues import decide_columns

# Entries of the table that is eliminated.
_LARGEST = 4_000_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SmallestCombination:
    """An identifiable combination of records. No combination of fewer of these records is identifiable."""

    records: IndexArray
    coefficients: tuple[Fraction, ...]
    rmse: float  # of the best unbiased attack on it
    recipe: FloatArray  # weights on the answers
    relative_error: float  # a bound for rmse; infinite where rmse is only known to be at least this


def combination(design: LinearReleases, record: int, *, known: Iterable[int] = ()) -> SmallestCombination:
    """A smallest identifiable combination that the record is part of. The record's coefficient is one."""
    unknown = unknown_records(design.size, known)
    incidence = design.incidence
    if not 0 <= record < design.size:
        raise InvalidInput(f"expected a record from 0 to {design.size - 1}, got {record}")
    require(
        bool(unknown[record]), "a record that the attacker does not know", got=f"record {record} in known="
    )
    require(incidence.whole, "whole-number weights", got="real-valued ones", error=InvalidRelease)
    positions = np.flatnonzero(unknown)
    _, first, group, sizes = np.unique(
        incidence.groups(unknown)[positions], return_index=True, return_inverse=True, return_counts=True
    )
    require(
        design.row_count * first.size <= _LARGEST,
        f"at most {_LARGEST:,} entries of rows × signatures",
        got=f"{design.row_count * first.size:,}",
        fix="ask of a part of the design",
    )
    columns = incidence.columns(positions[first])
    target = int(group[np.searchsorted(positions, record)])
    require(
        bool(columns[:, target].any()), "a record in some release", got=f"record {record}, which is in none"
    )
    # Early columns become pivots and drop out of the combination: after the record's own, large groups first.
    order = np.argsort(-sizes, kind="stable")
    order = np.concatenate([[target], order[order != target]])
    columns = columns[:, order]
    (row,) = reduced_rows(columns.astype(np.int64), [0])
    support = {int(order[i]): value for i, value in enumerate(row.coefficients) if value != 0}
    members = np.flatnonzero(np.isin(group, list(support)))
    coefficients = tuple(support[int(group[i])] for i in members)
    rmse, recipe, error = _best_attack(design, columns)
    return SmallestCombination(
        records=positions[members],
        coefficients=coefficients,
        rmse=rmse,
        recipe=recipe,
        relative_error=error,
    )


def _best_attack(releases: LinearReleases, columns: FloatArray) -> tuple[float, FloatArray, float]:
    """RMSE, recipe and the error of the RMSE, for the combination whose pivot is the first column.

    Its coefficients at all other pivots are zero. So over the pivots' columns alone it is the first of
    their values, and the best attack on it is that on one record among these.
    """
    answers = np.arange(releases.row_count)
    if isinstance(releases.law, CorrelatedNoise):
        answers = np.sort(releases.law.independent)
    table = columns[np.ix_(answers, decide_columns(columns).pivots)]
    alone = table.shape[1] == 1  # a design has at least two records: beside the only one, one that is nowhere
    members = MemberRows.of(np.hstack([table, np.zeros_like(table)]) if alone else table)
    found = attacked(
        Design(
            units=members.units(np.arange(table.shape[1]), np.ones(table.shape[1], dtype=np.intp)),
            noise=row_noise(releases, answers=answers),
            prior=UnitPrior(target=UniformPrior(0.0, 1.0)),
            release=releases.release_of[answers],
            place=np.arange(table.shape[1]),
        ),
        np.zeros(1, dtype=np.intp),
    )
    recipe = np.zeros(releases.row_count)
    recipe[answers] = found.recipe(0)
    return float(found.rmse[0, 0]), recipe / releases.scale, found.relative_error
