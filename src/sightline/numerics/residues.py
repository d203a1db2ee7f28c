r"""Exact arithmetic modulo a 62-bit prime, carried out by floating-point matrix products.

BLAS multiplies integer matrices exactly while the sums stay below :math:`2^{53}` (:math:`2^{24}` in single
precision). So residues are split into limbs, multiplied limb by limb at full speed, and joined again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.arrays import FloatArray, IndexArray
from sightline.errors import SightlineError
from sightline.numerics import exact_library as flint
from sightline.numerics import integers as exact

Residues = NDArray[np.int64]

RESIDUE_BITS = 61  # drawn residues are below 2^61, which every 62-bit prime exceeds


def limbs(values: Residues, *, bits: int) -> FloatArray:
    """Digits of 62-bit values in base :math:`2^{bits}`, lowest first, on a new first axis.

    >>> limbs(np.array([5 + 3 * 2**40]), bits=40).tolist()
    [[5.0], [3.0]]
    """
    count = -(-(RESIDUE_BITS + 1) // bits)
    mask = np.int64((1 << bits) - 1)
    return np.stack([(values >> np.int64(bits * i)) & mask for i in range(count)]).astype(np.float64)


def join(sums: FloatArray, *, bits: int, prime: int) -> Residues:
    """Residues of numbers given by sums of limbs along the first axis, each an exact integer.

    >>> join(np.array([[5.0], [3.0]]), bits=40, prime=2**61 - 1).item() == 5 + 3 * 2**40
    True
    """
    residue: Residues = np.mod(sums[-1].astype(np.int64), np.int64(prime))
    for digit in sums[-2::-1]:
        residue = shift_add(residue, digit.astype(np.int64), bits=bits, prime=prime)
    return residue


def shift_add(residue: Residues, add: Residues, *, bits: int, prime: int) -> Residues:
    r""":math:`2^{bits}\,residue + add` modulo ``prime``, for at most 40 bits and :math:`|add| < 2^{53}`.

    The quotient comes from floating point and is off by at most one. The remainder comes from 64-bit
    arithmetic that wraps around, and is correct because it fits into 64 bits.
    """
    quotient = np.floor((residue * 2.0**bits + add) / prime).astype(np.int64)
    wide = (residue.astype(np.uint64) << np.uint64(bits)) + add.astype(np.uint64)
    remainder: Residues = (wide - quotient.astype(np.uint64) * np.uint64(prime)).astype(np.int64)
    remainder[remainder < 0] += prime
    remainder[remainder >= prime] -= prime
    return remainder


def times(residue: Residues, factor: Residues, *, prime: int) -> Residues:
    """Residues times whole numbers below :math:`2^{53}`, modulo ``prime``."""
    if np.any(factor >> np.int64(31)):
        high = times(residue, factor >> np.int64(31), prime=prime)
        raised = shift_add(high, np.zeros_like(residue), bits=31, prime=prime)
        low = times(residue, factor & np.int64((1 << 31) - 1), prime=prime)
        total: Residues = np.mod(raised + low, prime)
        return total
    low, high = residue & np.int64((1 << 31) - 1), residue >> np.int64(31)
    shifted = shift_add(np.mod(high * factor, prime), np.zeros_like(residue), bits=31, prime=prime)
    product: Residues = np.mod(shifted + np.mod(low * factor, prime), prime)
    return product


class BadPrime(SightlineError, ArithmeticError):
    """The prime divides a minor that decides a rank. A hardware fault is more likely."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SolvedSystem:
    """A square matrix with right sides, reduced modulo a prime."""

    reduced: Any  # flint.nmod_mat
    prime: int
    pivots: IndexArray
    solved: Residues  # a solution for each right side, one per row, supported on the pivots

    @property
    def free(self) -> IndexArray:
        """The columns without a pivot."""
        return np.setdiff1d(np.arange(self.solved.shape[1]), self.pivots)


def echelon(matrix: NDArray[np.int64], right: Residues, *, prime: int) -> SolvedSystem:
    """Reduce a square integer matrix with right sides, one per row, that lie in its range.

    Raises :class:`BadPrime` if they do not lie in its range modulo the prime.
    """
    size, sides = matrix.shape[0], right.shape[0]
    table = np.hstack([np.mod(matrix, np.int64(prime)), right.T])
    reduced, pivots = exact.reduce_rows(flint.nmod_mat(size, size + sides, table.ravel().tolist(), prime))
    if pivots and pivots[-1] >= size:
        raise BadPrime(f"expected a prime that keeps the rank, got {prime}; draw another")
    solution = np.zeros((sides, size), dtype=np.int64)
    for line, column in enumerate(pivots):
        solution[:, column] = [int(reduced[line, size + side]) for side in range(sides)]
    return SolvedSystem(reduced=reduced, prime=prime, pivots=np.array(pivots, dtype=np.intp), solved=solution)


def reduced(matrix: NDArray[np.int64], right: Callable[[int], Residues]) -> SolvedSystem:
    """The echelon form modulo a prime that keeps the rank; the right sides are a function of the prime."""
    draw = 0
    while True:  # until the prime divides no minor that matters
        prime = exact.prime_of(matrix, draw=draw)
        try:
            return echelon(matrix, right(prime), prime=prime)
        except BadPrime:
            draw += 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ColumnDecisions:
    """What an elimination of the distinct columns says."""

    rank: int
    pivots: IndexArray  # columns that are independent of the earlier ones
    identifiable: NDArray[np.bool_]


def decide_columns(columns: FloatArray) -> ColumnDecisions:
    """Rank, pivots and identifiable groups of a table of different columns (rows × groups).

    >>> decide_columns(np.array([[1.0, 1e-8, 0.0], [0.0, 0.0, 3.0]])).identifiable.tolist()
    [False, False, True]
    """
    row_count, count = columns.shape
    prime = exact.prime_of(np.ascontiguousarray(columns + 0.0).view(np.int64))
    table = residues_of_doubles(columns, prime)
    reduced, rank = flint.nmod_mat(row_count, count, table.ravel().tolist(), prime).rref()
    entries = [int(entry) for entry in reduced.entries()[: int(rank) * count]]
    nonzero = np.array(entries, dtype=np.int64).reshape(int(rank), count) != 0
    pivots: IndexArray = np.argmax(nonzero, axis=1) if int(rank) else np.zeros(0, dtype=np.intp)
    identifiable = np.zeros(count, dtype=np.bool_)
    identifiable[pivots] = np.count_nonzero(nonzero, axis=1) == 1
    return ColumnDecisions(rank=int(rank), pivots=pivots, identifiable=identifiable)


def residues_of_doubles(columns: FloatArray, prime: int) -> Residues:
    """Every row times the power of two that makes it integers, modulo a prime."""
    fractions, exponents = np.frexp(columns)
    mantissas = np.ldexp(fractions, 53).astype(np.int64)
    used = np.where(mantissas != 0, exponents, np.iinfo(np.int32).max)
    shifts = np.where(mantissas != 0, exponents - used.min(axis=1, keepdims=True), 0)
    table: Residues = np.mod(mantissas, np.int64(prime))
    while np.any(shifts > 0):
        steps = np.minimum(shifts, 40)
        for bits in np.unique(steps[steps > 0]).tolist():
            chosen = steps == bits
            none = np.zeros(int(np.count_nonzero(chosen)), dtype=np.int64)
            table[chosen] = shift_add(table[chosen], none, bits=bits, prime=prime)
        shifts = shifts - steps
    return table
