"""Records whose columns are a dense table: what is looked up elsewhere is a product of matrices here.

On an accelerator the products run there, on blocks of the table in double precision.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from sightline.arrays import EXACT, MOST_LOOKED_AT, FloatArray, IndexArray, parts
from sightline.numerics.device import HOST, Device
from sightline.progress import report
from sightline.units.row_steps import RowSteps
from sightline.units.unit_block import ONE, UnitBlock
from sightline.units.units import Arrays, UnitReduction, Units, UnitStore
from sightline.values import frozen

MOST_LISTED = 1 << 16  # kinds that searches list one by one, and right sides that are solved for: some 0.1 s
_MOST = 1 << 30  # entries of a table that listed rows are worth: above, gigabytes


@frozen(slots=False)
class TableBlock:
    """Some columns of the table. Every kind is one row of a person."""

    stored: Any  # rows × kinds, of any type of number
    people: IndexArray
    alike: FloatArray
    kinds: IndexArray
    whole: bool
    binary: bool
    peak: float
    device: Device
    steps: tuple[RowSteps, UnitBlock] | None = None  # the same columns, of which forms and products cost less

    single = True
    weights = None

    def __len__(self) -> int:
        return len(self.people)

    @cached_property
    def entries(self) -> Any:
        """The columns in double precision, on the device."""
        if self.device.host:
            return np.ascontiguousarray(self.stored, dtype=np.float64)
        return self.device.floats(self.stored)

    @property
    def times(self) -> IndexArray:
        """One row of a person in each column."""
        return np.ones((len(self), 1), dtype=np.intp)

    @property
    def terms(self) -> int:
        """How many roundings a form has, at most."""
        return int(6 * self.stored.shape[0] + 16) + (self.steps[1].terms if self.steps else 0)

    def by_column(self) -> TableBlock:
        """Every column as a kind of its own, of one row: as it is."""
        return self

    def sums(self, of_rows: FloatArray, power: int) -> FloatArray:
        """For every column a the sum of w |a|^power over its rows, with w a number for every row."""
        finite = np.isfinite(of_rows)
        total = self._weighted(np.where(finite, of_rows, 0.0), power)
        if not finite.all():
            touched = self._weighted((~finite).astype(np.float64), power)
            total = np.where(touched > 0, np.inf, total)
        return total[:, None]

    def sizes(self, roots: FloatArray) -> FloatArray:
        """(Σ |a| root)² of every kind, over its steps if it has some; the roots have a last zero."""
        if self.steps is not None:
            steps, block = self.steps
            return block.sizes(steps.below(roots))
        return self._weighted(roots[:-1], 1) ** 2

    def _weighted(self, of_rows: FloatArray, power: int) -> FloatArray:
        if self.steps is not None:  # nothing else needs doubles of 0s and 1s: few at a time stay in the cache
            some = parts(len(self), each=4 * len(self.stored))
            return np.concatenate([of_rows @ self.stored[:, own].astype(np.float64) for own in some])
        entries = self.entries
        if not self.binary:  # of which every power is itself
            entries = (
                (entries != 0) * 1.0 if power == 0 else abs(entries) if power == 1 else entries * entries
            )
        return self.device.numbers(self.device.put(of_rows) @ entries)

    def forms(self, matrix: Any) -> FloatArray:
        """aᵀYa of every kind. Y has a last row of zeros, which one on the device lacks; or is a diagonal."""
        if matrix.ndim == 1:
            return self._weighted(matrix[:-1], 2)[:, None, None]
        if self.steps is not None:
            steps, block = self.steps
            return block.forms(steps.form(matrix))
        if isinstance(matrix, np.ndarray):
            matrix = self.device.put(np.ascontiguousarray(matrix[:-1, :-1]))
        right = matrix @ self.entries
        right *= self.entries
        return self.device.numbers(right.sum(0))[:, None, None]

    def projected(self, projection: FloatArray, weights: FloatArray) -> FloatArray:
        """Σ w (Va)² of every kind; several weights share the product with V."""
        key = id(projection)
        if key not in self._products:
            product = self.device.put(projection) @ self.entries
            product *= product
            self._products[key] = product
        return self.device.numbers(self.device.put(weights) @ self._products[key])[:, None, None]

    @cached_property
    def _products(self) -> dict[int, Any]:
        return {}

    def product(self, counts: FloatArray) -> Any:
        """Σ count · a aᵀ, on the device. Single precision is exact for whole numbers with sums below 2^24."""
        if self.steps is not None and float(counts.sum()) < EXACT:
            steps, block = self.steps
            return steps.product(block, counts)
        # Whole numbers below 2²⁴ are exact in single precision.
        small = self.whole and self.peak**2 * float(counts.sum()) < 2.0**24 and self.device.host
        entries = self.stored.astype(np.float32) if small else self.entries
        scales = counts.astype(np.float32) if small else self.device.put(counts)
        several = np.flatnonzero(counts != 1)
        few = 2 * several.size <= counts.size and counts.min(initial=1.0) >= 1
        if not few or (several.size and not self.device.host):
            product = (entries * scales) @ entries.T
        else:
            product = entries @ entries.T  # BLAS squares a matrix in half the time that it multiplies two
            if several.size:
                some = entries[:, several]
                product += (some * (scales[several] - 1)) @ some.T
        return np.asarray(product, dtype=np.float64) if self.device.host else product


def tabled(units: UnitStore) -> UnitStore:
    """Different persons of one row, who are in many of many numbers each, as a table; others as they are."""
    if not isinstance(units, Units) or units.weighted or not units.distinct or units.each > 1:
        return units
    columns, width = units.rows.shape
    dense = width**2 > 8 * units.numbers and MOST_LOOKED_AT < columns * units.numbers <= _MOST
    if not dense or not units.single.all():
        return units
    table = np.zeros((units.numbers + 1, columns), dtype=np.uint8)
    every = np.arange(columns)
    for rows in units.rows.T:  # one slot of all columns at a time: all at once takes eight times the table
        least = rows.min()
        inside = rows == least
        if np.all(inside | (rows == units.numbers)):  # a slot of one row, or none: ten times as fast
            table[least] |= inside
        else:
            table[rows, every] = 1
    return TableUnits(table=table[:-1], people=units.people, whole=True, binary=True, peak=1.0)


@frozen(slots=False)
class TableUnits:
    """Different columns of a dense table of weights, and how many records have each."""

    table: Any  # rows × kinds, of any type of number
    people: IndexArray
    whole: bool
    binary: bool
    peak: float
    device: Device = HOST
    there: Any = None  # the table on the device, if it was put there before

    @property
    def numbers(self) -> int:
        """How many rows there are."""
        return int(self.table.shape[0])

    @property
    def alike(self) -> FloatArray:
        """Different columns: the people of a kind."""
        return self.people.astype(np.float64)

    def __len__(self) -> int:
        return len(self.people)

    @cached_property
    def steps(self) -> RowSteps | None:
        """The columns of a large table of 0s and 1s by their steps, if they have few."""
        large = self.binary and self.device.host and self.table.size > MOST_LOOKED_AT
        return RowSteps.of(self.table) if large else None

    @cached_property
    def _placed(self) -> Any:
        """The table on the device, in its own type of number: a pass makes doubles of it there."""
        if self.device.host:
            return self.table
        return self.device.put(np.ascontiguousarray(self.table)) if self.there is None else self.there

    def blocks(self) -> Iterator[TableBlock]:
        """Some columns at a time, in double precision."""
        step = max(1, self.device.at_a_time // max(1, self.numbers))
        alike, steps = self.alike, self.steps
        step = step if steps is None else 4 * step  # sums over the tree cost as much of a small block
        for start in range(0, len(self), step):
            kinds = np.arange(start, min(start + step, len(self)))
            steps_of_block = None
            if steps is not None:
                steps_of_block = steps, steps.block(slice(start, start + step), self.people[kinds])
            yield TableBlock(
                stored=self._placed[:, start : start + step],
                people=self.people[kinds],
                alike=alike[kinds],
                kinds=kinds,
                whole=self.whole,
                binary=self.binary,
                peak=self.peak,
                device=self.device,
                steps=steps_of_block,
            )

    def run(self, reduction: UnitReduction) -> Arrays:
        """One pass."""
        reduced, done = [], 0
        for block in self.blocks():
            report("reading the records", done / len(self))
            reduced.append(reduction.of_block(block))
            done += len(block)
        return reduction.merged(reduced)

    def choose(self, kinds: IndexArray) -> Units:
        """Some of the kinds with their rows listed, for a closer look."""
        some = np.asarray(self.table[:, kinds], dtype=np.float64).T
        width = max(1, int(np.count_nonzero(some, axis=1).max(initial=0)))
        order = np.argsort(some == 0, axis=1, kind="stable")[:, :width]
        values = np.take_along_axis(some, order, axis=1)
        binary = bool(np.all((values == 0) | (values == 1)))
        rows = np.where(values != 0, order, self.numbers).astype(np.int32)
        return Units.of_one_row(rows, self.numbers, self.people[kinds], ONE if binary else values)

    def take(self, rows: IndexArray) -> Units | TableUnits:
        """The same records with some of the rows: columns may then be equal."""
        if len(self) <= MOST_LISTED:
            return self.choose(np.arange(len(self))).take(rows)
        return replace(self, table=self.table[rows], there=None)

    def without(self, kinds: IndexArray) -> TableUnits:
        """Nothing is left of some of the kinds."""
        left = np.delete(np.arange(len(self)), kinds)
        return replace(self, table=self.table[:, left], people=self.people[left], there=None)
