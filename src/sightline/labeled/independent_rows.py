"""The first rows of an order that are independent, and the others as combinations of them: proved.

A guess by rounding comes first, and is proved in whole numbers. What it leaves open is eliminated modulo a
prime that nobody can choose.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from sightline.arrays import FloatArray, IndexArray
from sightline.labeled.row_forms import RowForm
from sightline.labeled.row_integers import RowIntegers
from sightline.labeled.row_products import ProductSums
from sightline.labeled.units import BoolArray, WholeArray
from sightline.numerics import exact_library as flint
from sightline.numerics import integers as exact
from sightline.numerics import residues
from sightline.numerics.rank import first_independent
from sightline.progress import report

PROOF = 1e-3  # the error of an inverse that proves its rows independent: below 1 would do
# Fractions that residues are read as; all their denominators divide the common multiple of 1, …, 12.
_LARGEST_DENOMINATOR, _LARGEST_NUMERATOR, _COMMON_MULTIPLE = 12, 1 << 24, 27_720
_BELOW_PRIME = 2.0**60  # less than any prime that is drawn, with room for the rounding of what is compared


@dataclass(frozen=True, kw_only=True, eq=False)
class IndependentRows:
    """Rows P that are independent, T of the others (rows × P, zero on P), and the inverse of P's products."""

    rows: IndexArray
    others: FloatArray
    inverse: RowForm


def guessed(
    M: FloatArray, order: IndexArray, inverse_of: Callable[[IndexArray], RowForm]
) -> IndependentRows | None:
    """The first independent rows of an order, guessed and then proved; ``None`` if that fails.

    M has whole numbers. An inverse proves those that are kept independent. Each other row is a combination of
    them with small fractions, which is proved in whole numbers: T M_P Tᵀ − 2 T M_PD + M_DD is zero.
    """
    first = first_independent(M[np.ix_(order, order)])
    kept, others, none = order[first], order[~first], np.zeros((len(M), 0))
    kept = kept if others.size else np.sort(kept)
    inverse = inverse_of(kept)
    if not inverse.error < PROOF:
        return None
    if not others.size:
        return IndependentRows(rows=kept, others=none, inverse=inverse)
    images = M[np.ix_(kept, others)]
    T, denominators = exact.rounded(inverse.matrix[np.ix_(kept, kept)] @ images)
    proved = exact.proved(
        sparse.csr_array(M[np.ix_(kept, kept)].astype(np.int64)),
        T,
        denominators,
        images=sparse.csr_array(images.astype(np.int64)),
        squares=M[others, others].astype(np.intp),
    )
    if not proved.all():
        return None
    full = np.zeros((len(M), kept.size))
    full[others] = (T.toarray() / denominators).T
    return IndependentRows(rows=kept, others=full, inverse=inverse)


def eliminated(sums: ProductSums, integers: RowIntegers, order: IndexArray) -> tuple[IndexArray, FloatArray]:
    """The same modulo a prime: the rows that are kept, and T over all rows."""
    M, prime = sums.matrix, integers.prime(order)
    report("finding numbers that follow from others", 0.0)
    reduced, pivots = exact.reduce_rows(integers.modular(order, order, prime))
    columns = np.setdiff1d(np.arange(order.size), pivots)
    kept, others, full = order[pivots], order[columns], np.zeros((len(M), len(pivots)))
    if not others.size:
        return kept, full
    lines = [[int(reduced[line, column]) for line in range(kept.size)] for column in columns.tolist()]
    T, proved = _fractions(np.array(lines, dtype=np.int64).reshape(others.size, kept.size), prime)
    size = np.abs(T) @ np.abs(M[np.ix_(kept, kept)]) + np.abs(M[np.ix_(others, kept)])
    square = np.abs(M[others, others]) + np.sum(np.abs(T) * np.abs(M[np.ix_(others, kept)]), axis=1)
    # Whole numbers that are zero modulo the prime and smaller than it are zero: T is proved.
    proved &= sums.exact & (np.maximum(size.max(axis=1), square) * _COMMON_MULTIPLE < _BELOW_PRIME)
    if not proved.all():
        solved = integers.whole(kept, kept).solve(integers.whole(kept, others[~proved])).tolist()
        factors = integers.factors
        values = np.array([[float(flint.arb(entry).mid()) for entry in line] for line in solved])
        T[~proved] = values.T * factors[others[~proved], None] / factors[kept]
    full[others] = T
    return kept, full


def _fractions(table: WholeArray, prime: int) -> tuple[FloatArray, BoolArray]:
    """Residues as fractions of small whole numbers, and the lines in which all of them are."""
    values = np.full(table.shape, np.nan)
    for denominator in range(1, _LARGEST_DENOMINATOR + 1):
        times = residues.times(table, np.full_like(table, denominator), prime=prime)
        signed = np.where(times > prime // 2, times - prime, times)
        near = np.isnan(values) & (np.abs(signed) < _LARGEST_NUMERATOR)
        values[near] = signed[near] / denominator
    read = ~np.isnan(values).any(axis=1)
    return np.where(np.isnan(values), 0.0, values), np.asarray(read)
