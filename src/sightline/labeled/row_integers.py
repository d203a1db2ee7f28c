r"""Products of rows in whole numbers of any size, for exact decisions.

Weights are doubles, and a double is a whole number times a power of two. A row may be multiplied by any
number: so each row is taken times the power of two that makes it whole. Where sums of products are exact in
doubles they are used as they are; otherwise they are made from the columns themselves, which needs all of
them in memory.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.arrays import FloatArray, IndexArray
from sightline.labeled.row_products import ProductSums
from sightline.labeled.unit_design import UnitPrior
from sightline.labeled.units import UnitBlock, UnitStore, WholeArray
from sightline.numerics import exact_library as flint
from sightline.numerics import integers as exact

_MOST_ENTRIES = 4_000_000  # of the columns that are made whole
_FEW_COLUMNS = 8  # an eighth of an inverse is half of its work


@dataclass(frozen=True, kw_only=True, eq=False)
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
        if sums.columns * units.numbers > _MOST_ENTRIES:
            return None
        blocks = list(units.choose(np.arange(len(units))).blocks())
        weights = [(block.rows.ravel(), _weights(block).ravel()) for block in blocks]
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
            block.rows.ravel().tolist(), lines.tolist(), _weights(block).ravel().tolist(), strict=True
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
        made, place = self.inverses.get(prime), {row: row for row in range(rows.size)}
        if made is None and _FEW_COLUMNS * chosen.size < rows.size:
            unit = np.zeros((rows.size, chosen.size), dtype=np.int64)
            unit[chosen, np.arange(chosen.size)] = 1
            made = self.modular(rows, rows, prime).solve(modular(unit, prime))
            place = {row: column for column, row in enumerate(chosen.tolist())}
        elif made is None:
            made = self.inverses[prime] = self.modular(rows, rows, prime).inv()
        return lambda i, j: int(made[i, place[j]])

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
    return flint.nmod_mat(flint.fmpz_mat(*table.shape, table.ravel().tolist()), prime)


def _weights(block: UnitBlock) -> FloatArray:
    return np.ones(block.rows.shape) if block.weights is None else block.weights


def _shifted(whole: int, shift: int) -> Any:
    return flint.fmpq(whole << shift, 1) if shift >= 0 else flint.fmpq(whole, 1 << -shift)


def _trailing_zeros(mantissa: FloatArray) -> WholeArray:
    """How many of the 53 bits of a mantissa, from the lowest, are zero."""
    whole = np.ldexp(np.abs(mantissa), 53).astype(np.int64)
    lowest = (whole & -whole).astype(np.float64)
    return np.asarray(np.frexp(np.where(lowest > 0, lowest, 1.0))[1] - 1)
