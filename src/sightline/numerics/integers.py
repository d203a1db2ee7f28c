r"""Exact rank and row-space decisions for integer rows.

Membership rows are integers up to a scale per row, and neither that scale nor the noise changes a row
space. So which records are exposed is a question about integers, and it is answered over the integers:
elimination modulo a 62-bit prime, and on request an exact rational certificate.

A rank modulo :math:`p` is wrong only if :math:`p` divides a particular non-zero minor. Hadamard's
inequality bounds how many 62-bit primes can, and the prime is drawn by hashing the rows, so that no
input can be built against it: :func:`failure_probability` is below :math:`10^{-13}` for every
matrix of 0s and 1s with up to 10,000 rows.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import flint
import numpy as np
from numpy.typing import NDArray
from scipy.linalg import get_lapack_funcs

from sightline.arrays import FloatArray, IndexArray
from sightline.errors import require

IntegerRows = NDArray[np.int64]

_PRIME_BITS = 62


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Certificate of a yes: ``weights`` @ rows equals the functional, exactly."""

    weights: tuple[Fraction, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Blind:
    """Certificate of a no: moving the records along ``direction`` changes the functional, and no answer."""

    direction: tuple[Fraction, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Echelon:
    """Reduced row echelon form modulo a prime, and the columns that hold its pivots."""

    prime: int
    pivots: tuple[int, ...]
    _reduced: flint.nmod_mat

    def entries(self, line: int, columns: Sequence[int]) -> list[int]:
        """Residues of one reduced row at some columns."""
        return [int(self._reduced[line, column]) for column in columns]

    def beyond(self, rows: IntegerRows, *, alongside: IntegerRows) -> int:
        """How many directions further rows add, their entries ``alongside`` counted in: a rank."""
        inside = _modular(rows[:, list(self.pivots)], self.prime) * self._reduced
        outside = (_modular(rows, self.prime) - inside).entries()
        others = alongside[:, distinct_columns(alongside)] % self.prime
        table = np.array([int(entry) for entry in outside], dtype=np.int64).reshape(rows.shape)
        return int(_modular(np.hstack([table, others]), self.prime).rank())


def prime_of(rows: IntegerRows, *, draw: int = 0) -> int:
    """A 62-bit prime that is a function of the rows, and that nobody can choose rows against."""
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
    """Positions of one column of each kind, zero columns left out: they span all that the columns do."""
    kept, _ = column_kinds(rows)
    return kept


def column_kinds(rows: IntegerRows) -> tuple[IndexArray, IndexArray]:
    """Positions of one column of each non-zero kind, and for every column the place of its kind there.

    The place of a zero column is -1.

    >>> [found.tolist() for found in column_kinds(np.array([[1, 0, 1, 0], [1, 0, 1, 1]]))]
    [[0, 3], [0, -1, 0, 1]]
    """
    columns = np.ascontiguousarray(rows.T)
    if columns.size == 0:
        return np.zeros(0, dtype=np.intp), np.full(len(columns), -1, dtype=np.intp)
    keys = columns.view(np.dtype((np.void, columns.dtype.itemsize * columns.shape[1]))).ravel()
    _, first, kind = np.unique(keys, return_index=True, return_inverse=True)
    nonzero = np.any(columns[first] != 0, axis=1)
    kept = np.sort(first[nonzero])
    place = np.where(nonzero, np.searchsorted(kept, first), -1)
    return kept, place[kind]


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


def echelon(rows: IntegerRows, *, draw: int = 0) -> Echelon:
    """Reduced row echelon form of integer rows modulo their prime.

    With the nuisance columns first, the rows whose pivot is a target column are the identifiable
    combinations of the target, and the last columns hold their coefficients.
    """
    prime = prime_of(rows, draw=draw)
    if rows.size == 0:
        return Echelon(prime=prime, pivots=(), _reduced=flint.nmod_mat(0, rows.shape[1], prime))
    reduced, found = _modular(rows, prime).rref()
    pivots: list[int] = []
    column = -1
    for line in range(int(found)):  # pivots move right, so one sweep over the columns finds them all
        column += 1
        while int(reduced[line, column]) == 0:
            column += 1
        pivots.append(column)
    kept = reduced if int(found) == len(rows) else _first_lines(reduced, int(found))
    return Echelon(prime=prime, pivots=tuple(pivots), _reduced=kept)


def rational(residue: int, prime: int) -> Fraction | None:
    """The fraction with numerator and denominator below 2³⁰ that is ``residue`` modulo ``prime``, if any.

    >>> rational(pow(3, -1, 1000003) * 2 % 1000003, 1000003)
    Fraction(2, 3)
    """
    bound = math.isqrt(prime // 2)
    previous, current = (prime, 0), (residue % prime, 1)
    while current[0] > bound:
        quotient = previous[0] // current[0]
        previous, current = (
            current,
            (previous[0] - quotient * current[0], previous[1] - quotient * current[1]),
        )
    numerator, denominator = current
    if abs(denominator) > bound or denominator == 0:
        return None
    return Fraction(numerator, denominator)


def certificate(rows: IntegerRows, functional: Sequence[int] | IntegerRows) -> Recipe | Blind:
    """Prove, in exact rational arithmetic, that a functional of the records is or is not exposed.

    Either the recipe over releases that computes it, or a change of the records that alters it and
    leaves every answer as it was. Both are checked before they are returned.

    >>> rows = np.array([[1, 1, 1], [0, 1, 1]])
    >>> certificate(rows, [1, 0, 0])
    Recipe(weights=(Fraction(1, 1), Fraction(-1, 1)))
    >>> certificate(rows, [0, 1, 0])
    Blind(direction=(Fraction(0, 1), Fraction(-1, 1), Fraction(1, 1)))
    """
    wanted = [int(entry) for entry in functional]
    require(
        len(wanted) == rows.shape[1],
        f"a functional of {rows.shape[1]} coefficients",
        got=len(wanted),
    )
    draw = 0
    while (proof := _attempt(rows, wanted, draw)) is None:
        draw += 1  # the prime divided a minor: draw another
    return proof


def _attempt(rows: IntegerRows, wanted: list[int], draw: int) -> Recipe | Blind | None:
    columns = list(echelon(rows, draw=draw).pivots)
    lines = list(echelon(np.ascontiguousarray(rows.T), draw=draw).pivots)
    if len(lines) != len(columns):
        return None
    core = flint.fmpz_mat([[int(rows[i, k]) for k in columns] for i in lines])
    weights = _solve(core.transpose(), [wanted[k] for k in columns])
    escapes = next((k for k in range(rows.shape[1]) if _dot(weights, rows[lines, k]) != wanted[k]), None)
    if escapes is None:
        placed = dict(zip(lines, weights, strict=True))
        return Recipe(weights=tuple(placed.get(line, Fraction(0)) for line in range(rows.shape[0])))
    moves = dict(zip(columns, _solve(core, [-int(rows[i, escapes]) for i in lines]), strict=True))
    moves[escapes] = Fraction(1)
    direction = tuple(moves.get(column, Fraction(0)) for column in range(rows.shape[1]))
    return None if any(_dot(direction, row) for row in rows) else Blind(direction=direction)


def proves_independent(triangle: FloatArray, *, lines: int, lengths: FloatArray | None = None) -> bool:
    r"""Whether a QR factorisation with this square R proves that the factored columns are independent.

    Householder QR of ``lines`` rows factorises some :math:`A + E` exactly, with
    :math:`\|E\|_F \le c\,L n^{3/2} u\|A\|_F` (Higham, *Accuracy and Stability*, Theorem 19.4). If
    :math:`\sigma_{\min}(R)` exceeds that, no such :math:`E` makes :math:`A` singular. Columns are divided by
    their ``lengths`` first: of the columns, or of what they were computed from if digits cancelled there.
    ``False`` means not proved, never singular.
    """
    columns = triangle.shape[0]
    if columns == 0:
        return True
    if np.any(np.diagonal(triangle) == 0):
        return False
    if lengths is None:
        lengths = np.linalg.norm(triangle, axis=0)
    inverse, _ = get_lapack_funcs("trtri", (triangle,))(triangle)
    # Dividing the columns by their lengths multiplies the rows of the inverse by them.
    inverse_norm = float(np.linalg.norm(inverse * lengths[:, None]))
    rounding = 10 * lines * columns**1.5 * float(np.finfo(float).eps) * math.sqrt(columns)
    return math.isfinite(inverse_norm) and rounding * inverse_norm < 0.5


def _modular(rows: IntegerRows, prime: int) -> flint.nmod_mat:
    return flint.nmod_mat(rows.shape[0], rows.shape[1], (rows % prime).ravel().tolist(), prime)


def _first_lines(matrix: flint.nmod_mat, lines: int) -> flint.nmod_mat:
    width = matrix.ncols()
    return flint.nmod_mat(lines, width, matrix.entries()[: lines * width], matrix.modulus())


def _solve(square: flint.fmpz_mat, right: list[int]) -> list[Fraction]:
    if not right:
        return []
    solution = square.solve(flint.fmpz_mat([[entry] for entry in right]))
    return [Fraction(int(entry.p), int(entry.q)) for entry in solution.entries()]


def _dot(weights: Sequence[Fraction], row: IntegerRows) -> Fraction:
    return sum((w * int(a) for w, a in zip(weights, row, strict=True) if w and a), Fraction(0))
