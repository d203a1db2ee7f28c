r"""The smallest group around a record: which others its value is entangled with.

A record that is not identifiable may be so together with others: some combination of it with them is a
combination of the answers. Among these the ones with smallest support are the cocircuits of the design's
columns. With the record's column first in the elimination, the reduced row with its pivot is one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import solve_triangular

from sightline.arrays import FloatArray, IndexArray
from sightline.errors import InvalidInput, InvalidRelease, require
from sightline.labeled.assess import unknown_records
from sightline.labeled.company import Company
from sightline.labeled.sharpness import factorise
from sightline.numerics import integers as exact
from sightline.numerics.certificate import reduced_rows
from sightline.numerics.decision import Evidence, Rank
from sightline.progress import silent

if TYPE_CHECKING:
    from sightline.labeled.design import MembershipDesign

# Entries of the table that is eliminated.
_LARGEST = 4_000_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Combination:
    """An identifiable combination of records: no part of it can be left out and leave one behind."""

    records: IndexArray
    coefficients: tuple[Fraction, ...]
    rmse: float  # of the best unbiased attack on it
    recipe: FloatArray  # weights on the answers


def combination_around(design: MembershipDesign, record: int, *, known: Iterable[int]) -> Combination:
    """A smallest identifiable combination that the record is part of, its coefficient one."""
    unknown = unknown_records(design, known)
    pattern = design.pattern
    if not 0 <= record < design.size:
        raise InvalidInput(f"expected a record from 0 to {design.size - 1}, got {record}")
    require(
        bool(unknown[record]), "a record that the attacker does not know", got=f"record {record} in known="
    )
    require(pattern.whole, "whole-number weights", got="real-valued ones", error=InvalidRelease)
    positions = np.flatnonzero(unknown)
    _, first, kinds, sizes = np.unique(
        pattern.kinds(unknown)[positions], return_index=True, return_inverse=True, return_counts=True
    )
    require(
        design.lines * first.size <= _LARGEST,
        f"at most {_LARGEST:,} entries of rows × signatures",
        got=f"{design.lines * first.size:,}",
        fix="ask of a part of the design",
    )
    columns = pattern.columns(positions[first])
    target = int(kinds[np.searchsorted(positions, record)])
    require(
        bool(columns[:, target].any()), "a record in some release", got=f"record {record}, which is in none"
    )
    # Columns early in the order become pivots and drop out: large groups first, after the record's own.
    order = np.argsort(-sizes, kind="stable")
    order = np.concatenate([[target], order[order != target]])
    (row,) = reduced_rows(columns[:, order].astype(np.int64), [0])
    support = {int(order[i]): value for i, value in enumerate(row.coefficients) if value != 0}
    members = np.flatnonzero(np.isin(kinds, list(support)))
    coefficients = tuple(support[int(kinds[i])] for i in members)
    seen = pattern.columns(positions[members]) @ np.array([float(value) for value in coefficients])
    rmse, recipe = _best_attack(design, unknown, seen)
    return Combination(records=positions[members], coefficients=coefficients, rmse=rmse, recipe=recipe)


def _best_attack(design: MembershipDesign, unknown: np.ndarray, seen: FloatArray) -> tuple[float, FloatArray]:
    """The risk and the recipe for the functional f with ``A f = seen``."""
    products = design.pattern.gram(unknown, silent)
    company = Company(design=design, products=products, unknown=unknown)
    rank = exact.rank(products.astype(np.int64))
    root = company.root(Rank(rank=rank, evidence=Evidence.MODULAR))
    B = design.whiten(root.factor)
    R, order = factorise(B, 0.0)
    half = solve_triangular(R, (root.coordinates() @ seen)[order], trans="T", check_finite=False)
    solution = np.empty(root.rank)
    solution[order] = solve_triangular(R, half, check_finite=False)
    return float(np.linalg.norm(half)), design.law.recipe((B @ solution)[None, :])[0]
