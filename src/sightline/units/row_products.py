r"""Products of rows over all units, in one pass: :math:`M = \sum_u n_u\, B_u K B_u^\top` and the same with
weights.

M holds whole numbers, with the prior's kernel K. With it, decisions, brackets and errors need nothing of the
units beside the columns of the one that is asked about.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sightline.arrays import AT_A_TIME, DENSE, EXACT, MOST_SQUARE, FloatArray, IndexArray, all_one
from sightline.numerics.residuals import gamma
from sightline.units.dense_units import TableBlock, TableUnits
from sightline.units.panels import PanelBlock
from sightline.units.row_noise import RowNoise
from sightline.units.sum_groups import row_precision
from sightline.units.target import UnitPrior
from sightline.units.unit_block import UnitBlock, UnitColumns, WholeArray
from sightline.units.units import Arrays, UnitStore
from sightline.values import frozen

_MANY_LINES = 4_000  # from which a table for each pair of slots, 60 µs, takes less time than sparse products
SPARSE_FROM = 2_000  # rows from which products of few pairs stay sparse: tuned on hierarchies of 20,000 rows


@frozen(slots=False)
class ProductSums:
    """What the pass gives: M, and how exact it is."""

    matrix: Any  # dense, or sparse for many rows
    pairs: Any  # of rows that one person is in, where M is sparse
    people: float  # rows of all persons, each with its weight
    columns: int  # of all kinds
    peak: float  # the largest weight of a row in a column
    whole: bool  # whether all weights are whole numbers
    kernel: int  # categories: what the kernel multiplies by, at most
    placed: Any = None  # M where an accelerator computed it

    @property
    def exact(self) -> bool:
        """Whether every sum of products is a whole number below 2^53."""
        return self.whole and self.kernel**2 * self.people * self.peak**2 < EXACT

    @property
    def entries(self) -> float:
        """The root of a bound on the rounding of an entry, over the root of both diagonal ones.

        By Cauchy–Schwarz the absolute values of the terms of an entry sum up to no more than that.
        """
        return 0.0 if self.exact else math.sqrt(self.kernel**2 * gamma(2 * self.columns + 8))

    @property
    def dense(self) -> FloatArray:
        """M as a dense matrix, for those who look at few rows."""
        matrix = self.matrix
        return matrix if isinstance(matrix, np.ndarray) else np.asarray(matrix.toarray(), dtype=np.float64)

    def take(self, rows: IndexArray) -> ProductSums:
        """Of some of the rows."""
        matrix, pairs = self.matrix, self.pairs
        if isinstance(matrix, np.ndarray):
            return replace(self, matrix=matrix[np.ix_(rows, rows)], placed=None)
        if rows.size < SPARSE_FROM:
            return replace(self, matrix=matrix.tocsr()[rows][:, rows].toarray(), pairs=0)
        return replace(self, matrix=matrix.tocsr()[rows][:, rows], pairs=pairs.tocsr()[rows][:, rows])


@frozen(slots=False)
class RowProducts:
    """A pass: the products of rows over all units, each row weighted by what its prior hides."""

    prior: UnitPrior
    noise: RowNoise
    # Weigh every row by unit/precision, rounded down to whole numbers; not a number: by 1.
    unit: float = math.nan
    even: bool = False  # one precision for all rows, the unit: every weight is 1
    dense: bool = True
    # Each block makes a table of all pairs, which takes as long as counting 40,000 lines of 12 rows into it.
    at_a_time: ClassVar[int] = 4 * AT_A_TIME

    @property
    def weighted(self) -> bool:
        """Whether rows are weighted by what their priors hide."""
        return not math.isnan(self.unit)

    def of_block(self, block: UnitBlock | TableBlock | PanelBlock) -> Arrays:
        numbers, k, size = self.noise.information.size, self.prior.categories, block.times.shape[1]
        counts = (block.people[:, None] * block.times).astype(np.float64)
        if self.weighted:
            counts = counts * self.levels(block)
        if isinstance(block, TableBlock):
            return self._part(block, counts, block.product(counts[:, 0]), 0)
        if isinstance(block, PanelBlock):  # a family has its columns in common
            lines, counts = _Lines.of(block.columns, numbers, dense=self.dense), np.repeat(counts, k, axis=1)
            matrix, pairs = lines.product(counts.sum(axis=0)), 0
            if k > 1:
                matrix = k * matrix - lines.joined(k).product(counts.sum(axis=0)[::k])
            if not isinstance(matrix, np.ndarray) and not self.weighted:
                rows = block.touched[None]
                pairs = replace(lines, rows=rows, weights=np.ones_like(rows)).product(np.ones(1))
            return self._part(block, counts, matrix, pairs)
        lines = _Lines.of(block, numbers, dense=self.dense)
        matrix, pairs = lines.product(counts.ravel()), 0
        if k > 1:
            matrix = k * matrix - lines.joined(k).product(counts.reshape(-1, k)[:, 0])
        if not isinstance(matrix, np.ndarray) and not self.weighted:
            pairs = lines.joined(size).product(np.ones(len(block)))
        return self._part(block, counts, matrix, pairs)

    def _part(self, block: UnitColumns | PanelBlock, counts: FloatArray, matrix: Any, pairs: Any) -> Arrays:
        return {
            "matrix": matrix,
            "pairs": pairs,
            "people": float(counts.sum()),
            "columns": counts.size,
            "peak": block.peak,
            "whole": block.whole,
        }

    def merged(self, parts: Sequence[Arrays]) -> Arrays:
        sums = {name: sum(part[name] for part in parts) for name in ("matrix", "pairs", "people", "columns")}
        peak, whole = max(part["peak"] for part in parts), all(part["whole"] for part in parts)
        return sums | {"peak": peak, "whole": whole}

    def of(self, units: UnitStore) -> ProductSums:
        """One pass over all units; a second one where a dense table of products is nearly empty."""
        sums = ProductSums(**units.run(self), kernel=self.prior.categories)
        if isinstance(units, TableUnits):  # whose products are dense in every pass
            placed = None if units.device.host else sums.matrix
            return replace(sums, matrix=units.device.numbers(sums.matrix), placed=placed)
        full = not self.dense or self.weighted or units.numbers < SPARSE_FROM or self.noise.shared
        if full or np.count_nonzero(sums.matrix) > DENSE * sums.matrix.size:
            return sums
        return replace(self, dense=False).of(units)

    @classmethod
    def unweighted(cls, units: UnitStore, prior: UnitPrior, noise: RowNoise) -> RowProducts:
        """The pass for M: dense for few rows, and where there are so many units that most pairs of rows
        share some.
        """
        numbers = units.numbers
        filled = numbers <= MOST_SQUARE and len(units) > 8 * numbers
        table = isinstance(units, TableUnits) or noise.shared
        return cls(prior=prior, noise=noise, dense=numbers < SPARSE_FROM or filled or table)

    def levels(self, block: UnitColumns | PanelBlock) -> FloatArray:
        """Unit over what the prior of every row adds to its information, at most: whole numbers."""
        if self.even:
            return np.ones(block.times.shape)
        return np.asarray(np.floor(self.unit / row_precision(self.prior, self.noise, block)))


@frozen(slots=False)
class PrecisionRange:
    """A pass: the least and the most that the prior of one row adds to its information."""

    prior: UnitPrior
    noise: RowNoise
    at_a_time: ClassVar[int] = AT_A_TIME

    def of_block(self, block: UnitColumns | PanelBlock) -> Arrays:
        precision = row_precision(self.prior, self.noise, block)
        return {"least": float(precision.min()), "most": float(precision.max())}

    def merged(self, parts: Sequence[Arrays]) -> Arrays:
        return {"least": min(part["least"] for part in parts), "most": max(part["most"] for part in parts)}


@frozen(slots=False)
class _Lines:
    """Columns as lines of rows and weights, of which products are summed up."""

    rows: WholeArray
    weights: WholeArray | FloatArray
    numbers: int
    dense: bool  # whether products are dense matrices

    @classmethod
    def of(cls, block: UnitBlock, numbers: int, *, dense: bool) -> _Lines:
        shape = (block.times.size, block.rows.shape[2])
        weights = block.weights.reshape(shape)
        return cls(rows=block.rows.reshape(shape), weights=weights, numbers=numbers, dense=dense)

    def joined(self, count: int) -> _Lines:
        """Every so many lines as one."""
        shape = (len(self.rows) // count, -1)
        return replace(self, rows=self.rows.reshape(shape), weights=self.weights.reshape(shape))

    def product(self, counts: FloatArray) -> Any:
        """Σ count · line lineᵀ: exact for whole numbers. Sparse for many rows."""
        size, width = self.numbers + 1, self.rows.shape[1]
        dense = self.dense
        if dense and width**2 <= 4 * size and (width == 1 or counts.size > _MANY_LINES):
            slots = [_Slot.of(rows, self.numbers) for rows in self.rows.T]
            if sum(slot.span for slot in slots) ** 2 <= 64 * width**2 * counts.size:
                return self._pairs(counts, slots)
        values = self.weights.ravel().astype(np.float64)
        ends = np.arange(len(self.rows) + 1) * width
        table = sparse.csr_array((values, self.rows.ravel(), ends), shape=(len(self.rows), size))
        if dense and width > DENSE * size:
            lines = table.toarray()
            if bool(np.all(counts == 1)):  # BLAS squares a matrix faster than it multiplies two
                return (lines.T @ lines)[:-1, :-1]
            return (lines.T @ (lines * counts[:, None]))[:-1, :-1]
        scaled = values * np.repeat(counts, width)
        weighted = sparse.csr_array((scaled, self.rows.ravel(), ends), shape=table.shape)
        products = (table.T @ weighted)[:-1, :-1]
        return products.toarray() if dense else products

    def _pairs(self, counts: FloatArray, slots: Sequence[_Slot]) -> FloatArray:
        """Pair by pair of the slots of a line, counted into the part of the table that their rows span."""
        table = np.zeros((self.numbers + 1, self.numbers + 1))
        weights = np.ones(self.rows.shape[1]) if all_one(self.weights) else self.weights.T
        for p, first in enumerate(slots):
            once = counts * weights[p]
            squares = np.bincount(first.rows, once * weights[p], first.span)
            places = np.arange(first.start, first.start + first.span - 1)
            table[places, places] += squares[:-1]
            for q, second in enumerate(slots[:p]):
                both = (once if weights.ndim == 1 else once * weights[q], (first.rows, second.rows))
                counted = sparse.coo_array(both, shape=(first.span, second.span)).toarray()[:-1, :-1]
                table[first.part, second.part] += counted
                table[second.part, first.part] += counted.T
        return np.asarray(table[:-1, :-1])


@frozen(eq=True, slots=False)
class _Slot:
    """The rows in one slot of all lines, from the first of them on; the last number is for none."""

    rows: NDArray[np.int32]
    start: int
    span: int

    @classmethod
    def of(cls, rows: WholeArray, numbers: int) -> _Slot:
        used = rows < numbers
        start, stop = int(rows.min(initial=numbers)), int(rows[used].max(initial=-1)) + 1
        span = max(stop - start, 0)
        local = np.where(used, rows.astype(np.int32) - start, span).astype(np.int32, copy=False)
        return cls(rows=local, start=start, span=span + 1)

    @property
    def part(self) -> slice:
        """Where the rows are among all."""
        return slice(self.start, self.start + self.span - 1)
