r"""Rank and row echelon form of integer rows, by elimination modulo a 62-bit prime.

Membership rows are integers times one factor per row, and neither that factor nor the noise changes the row
space. So the integers alone decide which records are exposed.

A rank modulo :math:`p` is wrong only if :math:`p` divides a particular non-zero minor. Hadamard's
inequality bounds the number of 62-bit primes that do. The prime is drawn by hashing the rows, so nobody can
choose rows on which it fails: :func:`failure_probability` is below :math:`10^{-13}` for every matrix of 0s
and 1s with up to 10,000 rows. The proofs of :func:`certificate` involve no probability: they are rational
statements, each checked over the integers before it is returned.

Nor do those from products :math:`M = AA^\top` alone, that rows make a functional c: with :math:`b = Ac`,
integers r and a denominator d, :math:`\|d\,c - A^\top r\|^2 = d^2 c^\top c - 2 d\, r \cdot b + r^\top M r`.
If this integer is zero, :math:`A^\top (r/d) = c` exactly. The guess r/d comes from floating point. Numbers
that could exceed 64 bits are detected beforehand, and then nothing is proved.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import flint
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sightline.arrays import FloatArray, IndexArray
from sightline.errors import require
from sightline.values import frozen

IntegerRows = NDArray[np.int64]

_PRIME_BITS = 62


@frozen
class RowEchelon:
    """Reduced row echelon form modulo a prime, and the columns that hold its pivots."""

    prime: int
    pivots: tuple[int, ...]
    _reduced: flint.nmod_mat

    def beyond(self, rows: IntegerRows, *, alongside: IntegerRows) -> int:
        """How much further rows, with the columns ``alongside`` joined to them, add to the rank."""
        inside = _modular(rows[:, list(self.pivots)], self.prime) * self._reduced
        outside = (_modular(rows, self.prime) - inside).entries()
        others = alongside[:, distinct_columns(alongside)] % self.prime
        table = np.array([int(entry) for entry in outside], dtype=np.int64).reshape(rows.shape)
        return int(_modular(np.hstack([table, others]), self.prime).rank())


def prime_of(rows: IntegerRows, *, draw: int = 0) -> int:
    """A 62-bit prime drawn by hashing the rows, so that nobody can choose rows that it fails on."""
    header = repr((rows.shape, draw)).encode()
    digest = hashlib.sha256(header + np.ascontiguousarray(rows).tobytes()).digest()
    low = 1 << (_PRIME_BITS - 1)
    candidate = low + int.from_bytes(digest[:8], "big") % low | 1
    while not flint.fmpz(candidate).is_prime():
        candidate += 2
    return candidate


def failure_probability(rows: IntegerRows) -> float:
    """Bound on the chance that a rank modulo the drawn prime falls short of the true rank."""
    norms = np.sqrt(np.einsum("ij,ij->i", rows.astype(float), rows.astype(float)))
    hadamard_bits = float(np.sum(np.log2(np.maximum(norms, 1.0))))
    primes_dividing = hadamard_bits / (_PRIME_BITS - 1)
    # Rosser & Schoenfeld: more than x/(2 ln x) primes lie in (x, 2x].
    primes_available = 2.0 ** (_PRIME_BITS - 1) / (2 * (_PRIME_BITS - 1) * math.log(2))
    return primes_dividing / primes_available


def distinct_columns(rows: IntegerRows) -> IndexArray:
    """Positions of one column of each kind, without zero columns: they span the same space."""
    first, _ = column_kinds(rows)
    return first


def column_kinds(rows: IntegerRows) -> tuple[IndexArray, IndexArray]:
    """Positions of one column of each non-zero kind, and for every column the place of its kind there.

    The place of a zero column is -1.

    >>> [positions.tolist() for positions in column_kinds(np.array([[1, 0, 1, 0], [1, 0, 1, 1]]))]
    [[0, 3], [0, -1, 0, 1]]
    """
    columns = np.ascontiguousarray(rows.T)
    if columns.size == 0:
        return np.zeros(0, dtype=np.intp), np.full(len(columns), -1, dtype=np.intp)
    keys = columns.view(np.dtype((np.void, columns.dtype.itemsize * columns.shape[1]))).ravel()
    _, first, kind = np.unique(keys, return_index=True, return_inverse=True)
    nonzero = np.any(columns[first] != 0, axis=1)
    representatives = np.sort(first[nonzero])
    kind_of = np.where(nonzero, np.searchsorted(representatives, first), -1)
    return representatives, kind_of[kind]


def rank(rows: IntegerRows) -> int:
    """The rank of integer rows.

    >>> rank(np.array([[1, 1, 0], [0, 1, 1], [1, 2, 1]]))
    2
    """
    reduced = rows[:, distinct_columns(rows)]
    reduced = reduced[distinct_columns(np.ascontiguousarray(reduced.T))]
    if reduced.size == 0:
        return 0
    return int(_modular(reduced, prime_of(rows)).rank())


def echelon(rows: IntegerRows, *, draw: int = 0) -> RowEchelon:
    """Reduced row echelon form of integer rows modulo their prime.

    With the nuisance columns first, the rows whose pivot is a target column are the identifiable
    combinations of the target, and the last columns hold their coefficients.
    """
    prime = prime_of(rows, draw=draw)
    if rows.size == 0:
        return RowEchelon(prime=prime, pivots=(), _reduced=flint.nmod_mat(0, rows.shape[1], prime))
    reduced, pivots = reduce_rows(_modular(rows, prime))
    nonzero = reduced if len(pivots) == len(rows) else _first_lines(reduced, len(pivots))
    return RowEchelon(prime=prime, pivots=tuple(pivots), _reduced=nonzero)


def reduce_rows(matrix: flint.nmod_mat) -> tuple[flint.nmod_mat, list[int]]:
    """The reduced row echelon form of a matrix modulo a prime, and the columns of its pivots."""
    reduced, rank = matrix.rref()
    pivots: list[int] = []
    column = -1
    for line in range(int(rank)):  # pivots move right, so one sweep over the columns finds them all
        column += 1
        while int(reduced[line, column]) == 0:
            column += 1
        pivots.append(column)
    return reduced, pivots


def _modular(rows: IntegerRows, prime: int) -> flint.nmod_mat:
    return flint.nmod_mat(rows.shape[0], rows.shape[1], (rows % prime).ravel().tolist(), prime)


def _first_lines(matrix: flint.nmod_mat, lines: int) -> flint.nmod_mat:
    width = matrix.ncols()
    return flint.nmod_mat(lines, width, matrix.entries()[: lines * width], matrix.modulus())


# Weights of recipes are looked for as multiples of 1, 1/2, …; this close to one counts as one.
LARGEST_DENOMINATOR, CLOSE = 24, 1e-4


def rounded(guesses: Any) -> tuple[Any, IndexArray]:
    """Numerators, as a sparse integer array, and one denominator for each column of guesses; 0 for none.

    ``guesses`` are an array, or a sparse one.

    >>> numerators, denominators = rounded(np.array([[0.5, 0.1234], [1.000001, 1.0]]))
    >>> numerators.toarray()[:, 0].tolist(), denominators.tolist()
    ([1, 2], [2, 0])
    """
    columns = sparse.csc_array(guesses)
    count = columns.shape[1]
    column, values = np.repeat(np.arange(count), np.diff(columns.indptr)), columns.data
    denominators = np.zeros(count, dtype=np.intp)
    numerators = np.zeros(values.size)
    # Numerators of 32 bits, of which products are whole numbers of 64.
    usable = np.isfinite(values) & (np.abs(values) < np.iinfo(np.int32).max / LARGEST_DENOMINATOR)
    closed = _of_columns(column, ~usable, count)
    left = np.flatnonzero(~closed[column])  # entries of columns without a denominator
    for denominator in range(1, LARGEST_DENOMINATOR + 1):
        multiples = denominator * values[left]
        nearest = np.rint(multiples)
        far = _of_columns(column[left], np.abs(multiples - nearest) >= CLOSE, count)
        near = ~far & ~closed & (denominators == 0)
        denominators[near] = denominator
        done = near[column[left]]
        numerators[left[done]] = nearest[done]
        left = left[~done]
        if left.size == 0:
            break
    rounded_columns = sparse.csc_array((numerators, columns.indices, columns.indptr), shape=columns.shape)
    rounded_columns.eliminate_zeros()
    return rounded_columns.astype(np.int64), denominators


def _of_columns(column: IndexArray, marked: NDArray[np.bool_], count: int) -> NDArray[np.bool_]:
    """The columns that have a marked entry."""
    has_one = np.zeros(count, dtype=np.bool_)
    has_one[column[marked]] = True
    return has_one


def proved(
    products: Any, numerators: Any, denominators: IndexArray, *, images: Any, squares: IndexArray
) -> NDArray[np.bool_]:
    r"""For each column whether numerators over denominator, as weights of rows, give the functional exactly.

    ``products`` is M, symmetric; ``images`` has the columns b and ``squares`` the numbers :math:`c^\top c`.
    All are integers. ``False`` means not proved: the guess is wrong, missing, or the numbers are too large.
    """
    d, n = denominators.astype(np.float64), squares.astype(np.float64)
    size = abs(numerators).astype(np.float64)
    across = np.asarray(size.multiply(abs(images).astype(np.float64)).sum(axis=0)).ravel()
    inside = np.asarray(size.multiply(abs(products).astype(np.float64) @ size).sum(axis=0)).ravel()
    # Below 2⁶² sums of 64-bit integers cannot overflow; the bound itself is rounded.
    safe = (denominators > 0) & (d**2 * n + 2 * d * across + inside < 2.0**62)
    exact = np.zeros(d.size, dtype=np.bool_)
    chosen = np.flatnonzero(safe)
    r, b, whole = numerators[:, chosen], images[:, chosen], denominators[chosen].astype(np.int64)
    linear = np.asarray(r.multiply(b).sum(axis=0), dtype=np.int64).ravel()
    quadratic = np.asarray(r.multiply(products @ r).sum(axis=0), dtype=np.int64).ravel()
    exact[chosen] = whole**2 * squares[chosen].astype(np.int64) - 2 * whole * linear + quadratic == 0
    return exact


@frozen(eq=True)
class ExactRecipe:
    """Proof that a functional is exposed: ``weights`` @ rows equals the functional, exactly."""

    weights: tuple[Fraction, ...]


@frozen(eq=True)
class UnseenDirection:
    """Proof that a functional is hidden: moving the records along ``direction`` changes it and no answer."""

    direction: tuple[Fraction, ...]


@frozen(eq=True)
class ReducedRow:
    """A row of the reduced row echelon form: ``weights`` @ rows equals ``coefficients``, exactly.

    The coefficient is one at the row's own pivot, and zero before it and at every other pivot.
    """

    weights: tuple[Fraction, ...]
    coefficients: tuple[Fraction, ...]


def certificate(rows: IntegerRows, functional: Sequence[int] | IntegerRows) -> ExactRecipe | UnseenDirection:
    """Prove, in exact rational arithmetic, that a functional of the records is or is not exposed.

    The proof is either the recipe over releases that computes it, or a change of the records that changes it
    and no answer. Both are checked before they are returned.

    >>> rows = np.array([[1, 1, 1], [0, 1, 1]])
    >>> certificate(rows, [1, 0, 0])
    ExactRecipe(weights=(Fraction(1, 1), Fraction(-1, 1)))
    >>> certificate(rows, [0, 1, 0])
    UnseenDirection(direction=(Fraction(0, 1), Fraction(-1, 1), Fraction(1, 1)))
    """
    wanted = [int(entry) for entry in functional]
    require(len(wanted) == rows.shape[1], f"a functional of {rows.shape[1]} coefficients", got=len(wanted))
    draw = 0
    while (proof := _attempt(rows, wanted, draw)) is None:
        draw += 1  # the prime divides a minor: draw another
    return proof


def reduced_rows(rows: IntegerRows, lines: Sequence[int]) -> list[ReducedRow]:
    """Some rows of the reduced row echelon form of integer rows, over the rationals.

    The pivots come from elimination modulo a prime. The weights then solve a square system over the integers.
    A row that is not zero where it must be shows that the prime divides a minor: another prime is drawn.

    >>> rows = np.array([[2, 3, 1], [0, 3, 1], [2, 6, 2]])
    >>> reduced_rows(rows, [1])[0].coefficients
    (Fraction(0, 1), Fraction(1, 1), Fraction(1, 3))
    """
    draw = 0
    while (reduced := _reduced(rows, lines, draw)) is None:
        draw += 1
    return reduced


def _reduced(rows: IntegerRows, lines: Sequence[int], draw: int) -> list[ReducedRow] | None:
    block = _square_block(rows, echelon(rows, draw=draw), draw)
    if block is None:
        return None
    independent, columns, square = block
    if not lines:
        return []
    wanted = [[int(column == columns[line]) for line in lines] for column in columns]
    solved: Any = square.transpose().solve(flint.fmpz_mat(wanted))
    weights = solved.transpose()
    coefficients = _table(weights * _whole_matrix(rows[independent]))
    if any(any(row[: columns[line]]) for row, line in zip(coefficients, lines, strict=True)):
        return None
    return [
        ReducedRow(weights=_placed(weight, independent, len(rows)), coefficients=tuple(row))
        for weight, row in zip(_table(weights), coefficients, strict=True)
    ]


def _attempt(rows: IntegerRows, wanted: list[int], draw: int) -> ExactRecipe | UnseenDirection | None:
    block = _square_block(rows, echelon(rows, draw=draw), draw)
    if block is None:
        return None
    lines, columns, square = block
    weights = _solve(square.transpose(), [wanted[k] for k in columns])
    combination = _combine(weights, rows[lines])
    differs = next((k for k, entry in enumerate(combination) if entry != wanted[k]), None)
    if differs is None:
        return ExactRecipe(weights=_placed(weights, lines, len(rows)))
    moves = [*_solve(square, [-int(rows[i, differs]) for i in lines]), Fraction(1)]
    direction = _placed(moves, [*columns, differs], rows.shape[1])
    unmoved = not any(_combine(direction, np.ascontiguousarray(rows.T)))
    return UnseenDirection(direction=direction) if unmoved else None


def _square_block(
    rows: IntegerRows, form: RowEchelon, draw: int
) -> tuple[list[int], list[int], flint.fmpz_mat] | None:
    """Independent rows, the pivot columns, and the square matrix where they meet; ``None`` if singular."""
    columns = list(form.pivots)
    lines = list(echelon(np.ascontiguousarray(rows[:, columns].T), draw=draw).pivots)
    if len(lines) != len(columns):
        return None
    return lines, columns, _whole_matrix(rows[np.ix_(lines, columns)])


def _solve(square: flint.fmpz_mat, right: list[int]) -> list[Fraction]:
    if not right:
        return []
    return [row[0] for row in _table(square.solve(flint.fmpz_mat([[entry] for entry in right])))]


def _combine(weights: Sequence[Fraction], rows: IntegerRows) -> tuple[Fraction, ...]:
    """``weights @ rows``, exactly."""
    if not weights:
        return (Fraction(0),) * int(rows.shape[1])
    left = flint.fmpq_mat(1, len(weights), [flint.fmpq(w.numerator, w.denominator) for w in weights])
    return tuple(_table(left * _whole_matrix(rows))[0])


def _placed(values: Sequence[Fraction], places: Sequence[int], length: int) -> tuple[Fraction, ...]:
    placed = dict(zip(places, values, strict=True))
    return tuple(placed.get(place, Fraction(0)) for place in range(length))


def _whole_matrix(rows: IntegerRows) -> flint.fmpz_mat:
    return flint.fmpz_mat(rows.shape[0], rows.shape[1], rows.ravel().tolist())


def _table(matrix: Any) -> list[list[Fraction]]:
    return [[Fraction(int(entry.p), int(entry.q)) for entry in row] for row in matrix.table()]


def shift_add(residue: IntegerRows, add: IntegerRows, *, bits: int, prime: int) -> IntegerRows:
    r""":math:`2^{bits}\,residue + add` modulo ``prime``, for at most 40 bits and :math:`|add| < 2^{53}`.

    The quotient comes from floating point and is off by at most one. The remainder comes from 64-bit
    arithmetic that wraps around, and is correct because it fits into 64 bits.
    """
    quotient = np.floor((residue * 2.0**bits + add) / prime).astype(np.int64)
    wide = (residue.astype(np.uint64) << np.uint64(bits)) + add.astype(np.uint64)
    remainder: IntegerRows = (wide - quotient.astype(np.uint64) * np.uint64(prime)).astype(np.int64)
    remainder[remainder < 0] += prime
    remainder[remainder >= prime] -= prime
    return remainder


def times(residue: IntegerRows, factor: IntegerRows, *, prime: int) -> IntegerRows:
    """IntegerRows times whole numbers below :math:`2^{53}`, modulo ``prime``."""
    low, high = residue & np.int64((1 << 31) - 1), residue >> np.int64(31)
    shifted = shift_add(np.mod(high * factor, prime), np.zeros_like(residue), bits=31, prime=prime)
    product: IntegerRows = np.mod(shifted + np.mod(low * factor, prime), prime)
    return product


@frozen
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
    prime = prime_of(np.ascontiguousarray(columns + 0.0).view(np.int64))
    table = residues_of_doubles(columns, prime)
    reduced, rank = flint.nmod_mat(row_count, count, table.ravel().tolist(), prime).rref()
    entries = [int(entry) for entry in reduced.entries()[: int(rank) * count]]
    nonzero = np.array(entries, dtype=np.int64).reshape(int(rank), count) != 0
    pivots: IndexArray = np.argmax(nonzero, axis=1) if int(rank) else np.zeros(0, dtype=np.intp)
    identifiable = np.zeros(count, dtype=np.bool_)
    identifiable[pivots] = np.count_nonzero(nonzero, axis=1) == 1
    return ColumnDecisions(rank=int(rank), pivots=pivots, identifiable=identifiable)


def residues_of_doubles(columns: FloatArray, prime: int) -> IntegerRows:
    """Every row times the power of two that makes it integers, modulo a prime."""
    fractions, exponents = np.frexp(columns)
    mantissas = np.ldexp(fractions, 53).astype(np.int64)
    used = np.where(mantissas != 0, exponents, np.iinfo(np.int32).max)
    shifts = np.where(mantissas != 0, exponents - used.min(axis=1, keepdims=True), 0)
    table: IntegerRows = np.mod(mantissas, np.int64(prime))
    while np.any(shifts > 0):
        steps = np.minimum(shifts, 40)
        for bits in np.unique(steps[steps > 0]).tolist():
            chosen = steps == bits
            none = np.zeros(int(np.count_nonzero(chosen)), dtype=np.int64)
            table[chosen] = shift_add(table[chosen], none, bits=bits, prime=prime)
        shifts = shifts - steps
    return table
