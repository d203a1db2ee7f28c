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
from sightline.labeled import certified
from sightline.labeled.description import LinearReleases
from sightline.labeled.knowledge import unknown_records
from sightline.labeled.least_squares import best_recipes, variances
from sightline.labeled.routes.columns import decide_columns
from sightline.labeled.unknown_gram import UnknownRecordsGram
from sightline.numerics.certificate import reduced_rows

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
    columns = columns[:, order]
    (row,) = reduced_rows(columns.astype(np.int64), [0])
    support = {int(order[i]): value for i, value in enumerate(row.coefficients) if value != 0}
    members = np.flatnonzero(np.isin(group, list(support)))
    coefficients = tuple(support[int(group[i])] for i in members)
    rmse, recipe, error = _best_attack(UnknownRecordsGram.of(design, unknown), columns)
    return SmallestCombination(
        records=positions[members],
        coefficients=coefficients,
        rmse=rmse,
        recipe=recipe,
        relative_error=error,
    )


def _best_attack(gram: UnknownRecordsGram, columns: FloatArray) -> tuple[float, FloatArray, float]:
    """RMSE, recipe and the error of the RMSE, for the combination whose pivot is the first column.

    Its coefficients at all other pivots are zero. So over the pivots' columns B alone it is the first of
    their values, and its least mean squared error is the first entry of the inverse of their information.
    """
    design = gram.design
    whitened = design.whiten(columns[:, decide_columns(columns).pivots])
    squares, error = variances(whitened, 0.0, targets=1, errors=gram.whitening_error)
    if error > certified.ENOUGH and certified.affordable(*columns.shape):
        attacks = certified.certified_attacks(design, columns, np.zeros(1, dtype=np.intp))
        if attacks is not None:
            return float(attacks[0][0]), attacks[1][0], certified.RELATIVE_ERROR
    # At least the error of an attacker who knows all other pivots.
    rmse = np.sqrt(squares[0]) if np.isfinite(error) else 1 / np.linalg.norm(whitened[:, 0])
    return float(rmse), design.law.recipe(best_recipes(whitened, targets=1))[0], error
