r"""Products of rows in whole numbers of any size, for exact decisions.

Weights are doubles, and a double is a whole number times a power of two. A row may be multiplied by any
number: so each row is taken times the power of two that makes it whole. Where sums of products are exact in
doubles they are used as they are; otherwise they are made from the columns themselves, which needs all of
them in memory.

With them come the first rows of an order that are independent, and the others as combinations of them. A
guess by rounding comes first, and is proved in whole numbers. What it leaves open is eliminated modulo a
prime that nobody can choose.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import flint
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sightline.arrays import MOST_LOOKED_AT, ROUNDING, FloatArray, IndexArray
from sightline.numerics import integers as exact
from sightline.numerics.positive_inverse import PANEL
from sightline.progress import report
from sightline.units.row_forms import RowForm
from sightline.units.row_products import ProductSums
from sightline.units.target import UnitPrior
from sightline.units.unit_block import BoolArray, UnitBlock, WholeArray
from sightline.units.units import UnitStore
from sightline.values import frozen

_FEW_COLUMNS = 8  # an eighth of an inverse is half of its work


@frozen(slots=False)
class RowIntegers:
    """M over rows that were made whole: row ℓ is a whole row times 2 to the power of ``shifts[ℓ]``."""

    table: WholeArray  # 64-bit integers, or Python's own
    shifts: IndexArray
    inverses: dict[int, Any] = field(default_factory=dict)  # by prime

    @classmethod
    def of(cls, sums: ProductSums, units: UnitStore, prior: UnitPrior) -> RowIntegers | None:
        """``None`` where sums are not exact and there are too many columns."""
        if sums.exact:
            return cls(table=sums.matrix.astype(np.int64), shifts=np.zeros(len(sums.matrix), dtype=np.intp))
        if sums.columns * units.numbers > MOST_LOOKED_AT:
            return None
        blocks = list(units.choose(np.arange(len(units))).blocks())
        weights = [(block.rows.ravel(), block.weights.ravel().astype(np.float64)) for block in blocks]
        rows, values = (np.concatenate(parts) for parts in zip(*weights, strict=True))
        mantissa, exponent = np.frexp(values)
        # The lowest bit of a double that is not zero.
        lowest = np.where(values != 0, exponent - 53 + _trailing_zeros(mantissa), np.iinfo(np.int32).max)
        shifts = np.full(units.numbers + 1, np.iinfo(np.int32).max)
        np.minimum.at(shifts, rows, lowest)
        shifts = np.where(shifts == np.iinfo(np.int32).max, 0, shifts)[:-1].astype(np.intp)
        bare = cls(table=np.zeros((0, 0), dtype=np.int64), shifts=shifts)
        total = flint.fmpz_mat(units.numbers, units.numbers)
        for block in blocks:
            kernel = prior.kernel.astype(int)
            columns = bare.columns(block)
            images = bare.images_of(columns, block.people[:, None] * block.times, kernel)
            total += flint.fmpz_mat(columns.tolist()) * flint.fmpz_mat(images.T.tolist())
        table = np.array([[int(entry) for entry in line] for line in total.tolist()], dtype=object)
        return cls(table=table.reshape(units.numbers, units.numbers), shifts=shifts)

    def columns(self, block: UnitBlock) -> NDArray[Any]:
        """The columns of some kinds, as Python's whole numbers: rows × (kinds × columns)."""
        table = np.zeros((self.shifts.size + 1, block.times.size), dtype=object)
        lines = np.repeat(np.arange(block.times.size), block.rows.shape[2])
        shifts = np.append(self.shifts, 0)
        for row, line, weight in zip(
            block.rows.ravel().tolist(), lines.tolist(), block.weights.ravel().tolist(), strict=True
        ):
            if weight and row < self.shifts.size:
                numerator, denominator = weight.as_integer_ratio()
                shift = int(shifts[row])  # at most the lowest bit: the division leaves nothing
                whole = numerator << -shift if shift < 0 else numerator >> shift
                table[row, line] += whole // denominator
        return np.asarray(table[:-1])

    def images_of(self, columns: NDArray[Any], counts: IndexArray, kernel: WholeArray) -> NDArray[Any]:
        """BK of one kind after the other, over all people of the kind."""
        k = len(kernel)
        scaled = columns * np.array([int(count) for count in counts.ravel()], dtype=object)
        if k == 1:
            return np.asarray(scaled)
        together = scaled.reshape(len(columns), -1, k)
        whole = [[int(entry) for entry in line] for line in kernel.tolist()]
        return np.asarray(together @ np.array(whole, dtype=object)).reshape(len(columns), -1)

    def prime(self, rows: IndexArray) -> int:
        """A prime that nobody can choose, for some of the rows."""
        table = self.table[np.ix_(rows, rows)]
        if table.dtype == object:
            table = np.frombuffer(hashlib.sha256(repr(table.tolist()).encode()).digest(), dtype=np.int64)
        return exact.prime_of(np.ascontiguousarray(table.astype(np.int64)))

    def modular(self, rows: IndexArray, columns: IndexArray, prime: int) -> Any:
        """M over some rows and columns, modulo a prime."""
        return modular(self.table[np.ix_(rows, columns)], prime)

    def inverse(
        self, rows: IndexArray, chosen: IndexArray, prime: int, *, disjoint: bool
    ) -> Callable[[int, int], int]:
        """Entries of the inverse of M over some rows, modulo a prime: those of chosen columns.

        If the rows are ``disjoint``, M is a diagonal. An inverse of many columns is kept: others ask for it.
        """
        if disjoint:
            sizes = np.diagonal(self.table)[rows].tolist()
            return lambda i, j: pow(sizes[i], -1, prime) if i == j else 0
        made, column_of = self.inverses.get(prime), {row: row for row in range(rows.size)}
        if made is None and _FEW_COLUMNS * chosen.size < rows.size:
            unit = np.zeros((rows.size, chosen.size), dtype=np.int64)
            unit[chosen, np.arange(chosen.size)] = 1
            made = self.modular(rows, rows, prime).solve(modular(unit, prime))
            column_of = {row: column for column, row in enumerate(chosen.tolist())}
        elif made is None:
            made = self.inverses[prime] = self.modular(rows, rows, prime).inv()
        return lambda i, j: int(made[i, column_of[j]])

    def whole(self, rows: IndexArray, columns: IndexArray) -> Any:
        """M over some rows and columns, as whole numbers of FLINT."""
        return flint.fmpz_mat(self.table[np.ix_(rows, columns)].tolist())

    def rational(self) -> Any:
        """M of the rows as they are."""
        shifts = self.shifts.tolist()
        lines = [
            [_shifted(int(entry), a + b) for entry, b in zip(line, shifts, strict=True)]
            for line, a in zip(self.table.tolist(), shifts, strict=True)
        ]
        return flint.fmpq_mat(lines) if lines else flint.fmpq_mat(0, 0)

    @property
    def factors(self) -> FloatArray:
        """What a whole row is multiplied by."""
        return np.ldexp(1.0, self.shifts)


def modular(table: WholeArray, prime: int) -> Any:
    """A table of whole numbers modulo a prime. Whole numbers first: FLINT takes them faster."""
    rows, columns = table.shape
    return flint.nmod_mat(flint.fmpz_mat(rows, columns, table.ravel().tolist()), prime)


def _shifted(whole: int, shift: int) -> Any:
    return flint.fmpq(whole << shift, 1) if shift >= 0 else flint.fmpq(whole, 1 << -shift)


def _trailing_zeros(mantissa: FloatArray) -> WholeArray:
    """How many of the 53 bits of a mantissa, from the lowest, are zero."""
    whole = np.ldexp(np.abs(mantissa), 53).astype(np.int64)
    lowest = (whole & -whole).astype(np.float64)
    return np.asarray(np.frexp(np.where(lowest > 0, lowest, 1.0))[1] - 1)


PROOF = 1e-3  # the error of an inverse that is trusted; below 1 it proves its rows independent


@frozen(slots=False)
class IndependentRows:
    """Rows P that are independent, T of the others (rows × P, zero on P), and the inverse of P's products."""

    rows: IndexArray
    others: FloatArray
    inverse: RowForm


@dataclass(kw_only=True, eq=False)
class RowsOnce:
    """What the exact decisions on a design's rows share, whatever its noise: made when first asked for."""

    integers: RowIntegers | None = None
    too_many_columns: bool = False  # for whole numbers
    independent: IndependentRows | None = None
    order: bytes = b""  # that of the rows by their noise, for which these are the first independent ones

    def whole(self, sums: ProductSums, units: UnitStore, prior: UnitPrior) -> RowIntegers | None:
        """M in whole numbers; ``None`` where there are too many columns."""
        if self.integers is None and not self.too_many_columns:
            self.integers = RowIntegers.of(sums, units, prior)
            self.too_many_columns = self.integers is None
        return self.integers

    def first_of(self, order: IndexArray, first: Callable[[], IndependentRows]) -> IndependentRows:
        """The first independent rows of an order. Where all are independent, any order has the same."""
        name, known = order.tobytes(), self.independent
        if known is None or (self.order != name and known.others.any()):
            self.order, self.independent = name, (known := first())
        return known


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
    products = M[np.ix_(kept, kept)].astype(np.int64)
    proved = exact.proved(
        products if 4 * np.count_nonzero(products) > products.size else sparse.csr_array(products),
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


def first_independent(products: FloatArray) -> BoolArray:
    """Of rows with some products, those that do not depend on the ones before them: a guess, by rounding.

    >>> first_independent(np.array([[2.0, 2.0, 0.0], [2.0, 2.0, 0.0], [0.0, 0.0, 3.0]])).tolist()
    [True, False, True]
    """
    size, kept = len(products), np.zeros(len(products), dtype=np.bool_)
    factor = _factor(products)
    if factor is not None and np.all(np.diagonal(factor) ** 2 > ROUNDING * np.diagonal(products)):
        return ~kept  # mostly all are
    factor, rank = np.zeros((size, size)), 0
    for start in range(0, size, PANEL):
        end = min(size, start + PANEL)
        panel = products[start:, start:end] - factor[start:, :rank] @ factor[start:end, :rank].T
        square = panel[: end - start]
        independent: list[int] = []  # its independent rows
        lower = np.zeros_like(square)  # the factor of this square
        least = ROUNDING * np.diagonal(products)[start:end]
        if (whole := _factor(square)) is not None and np.all(np.diagonal(whole) ** 2 > least):
            independent, lower = list(range(end - start)), whole
        for line in range(end - start) if not independent else ():
            pivot = float(square[line, line])
            if pivot > least[line]:
                lower[line:, len(independent)] = column = square[line:, line] / np.sqrt(pivot)
                square[line:, line:] -= np.outer(column, column)
                independent.append(line)
        columns = slice(rank, rank + len(independent))
        factor[start:end, columns] = lower[:, : len(independent)]
        factor[end:, columns] = (
            panel[end - start :, independent] @ np.linalg.inv(lower[independent, : len(independent)]).T
        )
        kept[start + np.array(independent, dtype=np.intp)] = True
        rank += len(independent)
    return kept


def _factor(products: FloatArray) -> FloatArray | None:
    """Cholesky's; none where it breaks off."""
    try:
        return np.asarray(np.linalg.cholesky(products))
    except np.linalg.LinAlgError:
        return None


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
    T, proved, common = _fractions(np.array(lines, dtype=np.int64).reshape(others.size, kept.size), prime)
    size = np.abs(T) @ np.abs(M[np.ix_(kept, kept)]) + np.abs(M[np.ix_(others, kept)])
    square = np.abs(M[others, others]) + np.sum(np.abs(T) * np.abs(M[np.ix_(others, kept)]), axis=1)
    # Whole numbers that are zero modulo the prime and smaller than it are zero: T is proved.
    # Less than any prime that is drawn, with room for the rounding of what is compared.
    proved &= sums.exact & (np.maximum(size.max(axis=1), square) * common < 2.0**60)
    if not proved.all():
        solved = integers.whole(kept, kept).solve(integers.whole(kept, others[~proved])).tolist()
        factors = integers.factors
        values = np.array([[float(flint.arb(entry).mid()) for entry in line] for line in solved])
        T[~proved] = values.T * factors[others[~proved], None] / factors[kept]
    full[others] = T
    return kept, full


def _fractions(table: WholeArray, prime: int) -> tuple[FloatArray, BoolArray, int]:
    """Residues as fractions of whole numbers below the root of the prime, the lines in which all of them are,
    and a common multiple of the denominators.
    """
    values, common = np.full(table.shape, np.nan), 1
    for denominator in range(1, exact.LARGEST_DENOMINATOR + 1):
        times = exact.times(table, np.full_like(table, denominator), prime=prime)
        signed = np.where(times > prime // 2, times - prime, times)
        near = np.isnan(values) & (np.abs(signed) < math.isqrt(prime))
        values[near] = signed[near] / denominator
        common = math.lcm(common, denominator) if near.any() else common
    read = ~np.isnan(values).any(axis=1)
    return np.where(np.isnan(values), 0.0, values), np.asarray(read), common
