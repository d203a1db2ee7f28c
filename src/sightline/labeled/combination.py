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
from scipy.linalg import solve_triangular

from sightline.arrays import FloatArray, IndexArray
from sightline.errors import InvalidInput, InvalidRelease, require
from sightline.labeled.description import LinearReleases
from sightline.labeled.incidence.protocol import BoolArray
from sightline.labeled.knowledge import unknown_records
from sightline.labeled.least_squares import factorise
from sightline.labeled.unknown_gram import UnknownRecordsGram
from sightline.numerics import integers as exact
from sightline.numerics.certificate import reduced_rows
from sightline.numerics.decision import Evidence, Rank

# Entries of the table that is eliminated.
_LARGEST = 4_000_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SmallestCombination:
    """An identifiable combination of records. No combination of fewer of these records is identifiable."""

    records: IndexArray
    coefficients: tuple[Fraction, ...]
    rmse: float  # of the best unbiased attack on it
    recipe: FloatArray  # weights on the answers


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
        incidence.signatures(unknown)[positions], return_index=True, return_inverse=True, return_counts=True
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
    (row,) = reduced_rows(columns[:, order].astype(np.int64), [0])
    support = {int(order[i]): value for i, value in enumerate(row.coefficients) if value != 0}
    members = np.flatnonzero(np.isin(group, list(support)))
    coefficients = tuple(support[int(group[i])] for i in members)
    seen = incidence.columns(positions[members]) @ np.array([float(value) for value in coefficients])
    rmse, recipe = _best_attack(design, unknown, seen)
    return SmallestCombination(
        records=positions[members], coefficients=coefficients, rmse=rmse, recipe=recipe
    )


def _best_attack(design: LinearReleases, unknown: BoolArray, seen: FloatArray) -> tuple[float, FloatArray]:
    """The risk and the recipe for the functional f with ``A f = seen``."""
    gram = UnknownRecordsGram.of(design, unknown)
    rank = exact.rank(gram.matrix.astype(np.int64))
    factor = gram.factor(Rank(rank=rank, evidence=Evidence.MODULAR))
    B = design.whiten(factor.factor)
    R, order = factorise(B, 0.0)
    half = solve_triangular(R, (factor.coordinates() @ seen)[order], trans="T", check_finite=False)
    solution = np.empty(factor.rank)
    solution[order] = solve_triangular(R, half, check_finite=False)
    return float(np.linalg.norm(half)), design.law.recipe((B @ solution)[None, :])[0]
