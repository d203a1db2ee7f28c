r"""Who: a kind of person is a block of columns. What would be a class of its own elsewhere is data here.

=====================  ===============================================================================
a record               one column
persons, one value     one column with whole weights
persons with rows      one column for each signature of their rows, ``times`` rows in each
weighted rows          ``weights``
a category of k        k columns for each row, one a category; the prior knows that one of them is true
n alike                ``people`` of a kind
known to attackers     not there
=====================  ===============================================================================

A pass over units is a :class:`UnitReduction`. It sees blocks of kinds with as many columns each, in any
order and cut anywhere: a store may hold them in memory, spill them, or send the pass to a cluster.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np
from scipy import sparse

from sightline.arrays import AT_A_TIME, FloatArray, IndexArray, all_one
from sightline.progress import on_cores, report
from sightline.units.panels import PanelBlock, families
from sightline.units.unit_block import ONE, BoolArray, UnitBlock, WholeArray, columns_as_lines
from sightline.values import frozen

Arrays = dict[str, Any]  # what a pass returns, by name
MANY_ROWS = 48  # columns from which a person's sharpest feature is one eigenvalue, not a matrix over them


class UnitReduction(Protocol):
    """What a pass computes. The order of the blocks does not matter."""

    at_a_time: ClassVar[int]  # entries of the columns of a block, about

    def of_block(self, block: Any) -> Arrays:
        """What one block contributes."""

    def merged(self, parts: Sequence[Arrays]) -> Arrays:
        """The contributions of all blocks together."""


class UnitStore(Protocol):
    """Units, wherever they are."""

    @property
    def numbers(self) -> int:
        """How many rows there are."""

    @property
    def people(self) -> IndexArray:
        """Of each kind."""

    @property
    def alike(self) -> FloatArray:
        """Of each kind the rows of all persons with its first column, or fewer."""

    def __len__(self) -> int: ...

    def run(self, reduction: UnitReduction) -> Arrays:
        """One pass over all blocks."""

    def take(self, rows: IndexArray) -> UnitStore:
        """The same persons with some of the rows."""

    def without(self, kinds: IndexArray) -> UnitStore:
        """Nothing is left of some of the kinds."""

    def choose(self, kinds: IndexArray) -> Units:
        """Some of the kinds in memory, for a closer look: the others are still there."""


@frozen(slots=False)
class Units:
    """Kinds of persons in memory. Kind k has the columns ``starts[k]`` to ``starts[k + 1]``."""

    rows: WholeArray  # columns × rows of a column: which row; ``numbers`` for none
    weights: WholeArray | FloatArray = ONE  # of the same shape, or one for all
    numbers: int
    starts: IndexArray
    times: IndexArray  # of every column: how many rows of one person
    people: IndexArray
    each: int = 1  # columns of one row: one for each category
    distinct: bool = False  # whether no two kinds have a column in common
    aligned: bool = True  # whether a row is in the same place of every column; else they are in order

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", np.broadcast_to(self.weights, self.rows.shape))

    @classmethod
    def of_one_row(
        cls, rows: WholeArray, numbers: int, people: IndexArray, weights: WholeArray | FloatArray = ONE
    ) -> Units:
        """Kinds of persons with one row each: different columns."""
        times = np.ones(len(rows), dtype=np.intp)
        arrays: Arrays = {"rows": rows, "weights": weights, "times": times, "people": people}
        return cls(**arrays, numbers=numbers, starts=np.arange(len(rows) + 1), distinct=True)

    def __len__(self) -> int:
        return len(self.people)

    @cached_property
    def weighted(self) -> bool:
        """Whether some weight is not 1."""
        return not all_one(self.weights)

    @cached_property
    def part_of_number(self) -> IndexArray:
        """Of every number the least one that a chain of persons connects it to."""
        inside = (self.rows < self.numbers) & (np.asarray(self.weights) != 0)
        number = np.asarray(self.rows[inside], dtype=np.intp)
        kind = np.repeat(np.repeat(np.arange(len(self)), np.diff(self.starts)), inside.sum(axis=1))
        label, before = np.arange(self.numbers), np.full(self.numbers, -1)
        of_kind = np.full(len(self), self.numbers)
        while not np.array_equal(label, before):
            before = label.copy()
            np.minimum.at(of_kind, kind, label[number])
            np.minimum.at(label, number, of_kind[kind])
        return label

    @cached_property
    def alike(self) -> FloatArray:
        """Of every kind, the rows of all persons that nothing published tells from its first one."""
        if self.distinct or not len(self):
            return self.people.astype(np.float64)
        return np.asarray(self.group_rows[self.groups[self.starts[:-1] // self.each]])

    @cached_property
    def single(self) -> BoolArray:
        """Kinds of persons with one row."""
        return np.asarray((np.diff(self.starts) == self.each) & (self.times[self.starts[:-1]] == 1))

    @cached_property
    def group_rows(self) -> FloatArray:
        """By the numbers of :attr:`groups`, how many rows of all persons have these columns.

        Of units that are some of many, those of all are given: more rows are alike than are here.
        """
        each = np.repeat(self.people, np.diff(self.starts))[:: self.each] * self.times[:: self.each]
        return np.bincount(self.groups, each).astype(np.float64)

    @cached_property
    def among_alike(self) -> FloatArray:
        r"""1 − max r/n of every kind, over the r rows of one person and all n rows that have one column.

        At least this share remains of every feature, whatever the noise and the prior. Rows that nothing
        tells apart have one posterior mean, :math:`\mathbb E[S \mid y]/n` for their sum S. So the posterior
        means of the person's :math:`u_s` have a covariance of at most :math:`v \operatorname{diag}(r_s/n_s)`.
        Rows in no number keep everything, however few they are.
        """
        if not len(self):
            return np.zeros(0)
        # A person may have columns that some of the rows no longer tell apart: their rows count together.
        owner = np.repeat(np.arange(len(self)), np.diff(self.starts) // self.each)
        pair = np.unique(owner * np.int64(self.group_rows.size) + self.groups, return_inverse=True)[1]
        times = np.bincount(pair, self.times[:: self.each])[pair]
        inside = np.any((self.rows < self.numbers) & (np.asarray(self.weights) != 0), axis=1)
        in_some = inside.reshape(-1, self.each).any(axis=1)
        shares = np.where(in_some, times / self.group_rows[self.groups], 0.0)
        return np.asarray(1 - np.maximum.reduceat(shares, self.starts[:-1] // self.each))

    def without_repeated_columns(self) -> Units:
        """The same kinds; columns of one that are equal are one column, as many times."""
        if self.single.all():
            return self
        each, groups = self.each, self.groups
        owner = np.repeat(np.arange(len(self)), np.diff(self.starts) // each)
        pairs, first, pair = np.unique(
            owner * np.int64(groups.max() + 1) + groups, return_index=True, return_inverse=True
        )
        if pairs.size == owner.size:
            return self
        lines = (first[:, None] * each + np.arange(each)).ravel()
        return replace(
            self,
            rows=self.rows[lines],
            weights=self.weights[lines],
            starts=np.searchsorted(owner[first], np.arange(len(self) + 1)) * each,
            times=np.repeat(np.bincount(pair, self.times[::each]).astype(np.intp), each),
        )

    @cached_property
    def groups(self) -> IndexArray:
        """For every row of a kind a number that those with the same columns share."""
        if self.distinct:
            return np.arange(len(self.rows) // self.each)
        lines = self.rows.reshape(len(self.rows) // self.each, -1)
        tables = (lines, self.weights.reshape(lines.shape))[: 1 + self.weighted]
        # Sorted by a sum that equal columns share; then neighbours are compared entry by entry.
        factors = np.random.default_rng(0).integers(1, 1 << 62, size=(len(tables), lines.shape[1])) | 1
        keys = np.zeros(len(lines), dtype=np.int64)
        for table, factor in zip(tables, factors, strict=True):
            bits = table.astype(np.int64) if table is lines else np.ascontiguousarray(table).view(np.int64)
            bits = (bits + 1) * np.int64(0x9E3779B97F4A7C1 | 1)
            keys += ((bits ^ (bits >> np.int64(29))) * factor).sum(axis=1)
        order = np.argsort(keys, kind="stable")
        ordered = keys[order]
        new = np.ones(len(lines), dtype=np.bool_)
        new[1:] = ordered[1:] != ordered[:-1]
        for table in tables:
            sorted_table = table[order]
            new[1:] |= np.any(sorted_table[1:] != sorted_table[:-1], axis=1)
        group = np.empty(len(lines), dtype=np.intp)
        group[order] = np.cumsum(new) - 1
        return group

    def table(self) -> sparse.csr_array:
        """Columns × numbers."""
        return columns_as_lines(self.rows, self.weights, self.numbers)[:, :-1]

    def summed(self, values: FloatArray) -> FloatArray:
        """Of every column, its weights times the values of the numbers that it is in."""
        sums, with_none = np.empty(len(self.rows)), np.append(values, 0.0)
        step = max(1, AT_A_TIME // max(1, self.rows.shape[1]))
        for start in range(0, len(sums), step):
            some = slice(start, start + step)
            sums[some] = (with_none[self.rows[some]] * self.weights[some]).sum(axis=1)
        return sums

    def blocks(self, most_columns: float = math.inf, *, at_a_time: int = AT_A_TIME) -> Iterator[UnitBlock]:
        """All kinds, or those with few columns: of one row, then of several, as many columns each."""
        sizes, width, alike = np.diff(self.starts), self.rows.shape[1], self.alike
        several = (sizes > self.each) | (self.times[self.starts[:-1]] > 1)
        shapes = np.where(sizes <= most_columns, 2 * sizes + several, -1)
        for shape in np.unique(shapes[shapes >= 0]).tolist():
            size, kinds = shape // 2, np.flatnonzero(shapes == shape)
            dense = size * width**2 > 8 * self.numbers
            each = self.numbers + 1 if dense else max(width, size)
            step = max(1, at_a_time // max(1, size * each))
            for first in range(0, kinds.size, step):
                chosen = kinds[first : first + step]
                # Slices of kinds that lie together are no copies.
                together = int(chosen[-1]) - int(chosen[0]) + 1 == chosen.size
                start = int(self.starts[chosen[0]])
                columns = (
                    slice(start, start + size * chosen.size)
                    if together
                    else (self.starts[chosen][:, None] + np.arange(size)).ravel()
                )
                yield UnitBlock(
                    rows=self.rows[columns].reshape(chosen.size, size, width),
                    weights=self.weights[columns].reshape(chosen.size, size, width),
                    times=self.times[columns].reshape(chosen.size, size),
                    people=self.people[chosen],
                    alike=alike[chosen],
                    kinds=chosen,
                )

    @cached_property
    def _families(self) -> list[tuple[IndexArray, IndexArray]]:
        """Kinds of persons with many rows that are in nearly the same columns, and one row of each."""
        starts = self.starts // self.each
        sizes = np.diff(starts)
        many = np.flatnonzero(np.diff(self.starts) > MANY_ROWS)
        if not many.size:
            return []
        rows = _ranges(starts[many], sizes[many])
        group = self.groups
        first = np.full(int(group.max()) + 1, len(group), dtype=np.intp)
        np.minimum.at(first, group[rows], rows)
        alike = families(group[rows], np.repeat(many, sizes[many]))
        return [(kinds, first[own]) for kinds, own in alike]

    def panels(self) -> Iterator[PanelBlock]:
        """Persons with many rows, family by family."""
        if not self._families:
            return
        group, alike, k = self.groups, self.alike, self.each
        line_of = np.zeros(int(group.max()) + 1, dtype=np.intp)
        shape = len(group), k, self.rows.shape[1]
        for kinds, lines in self._families:
            columns = UnitBlock(
                rows=self.rows.reshape(shape)[lines],
                weights=self.weights.reshape(shape)[lines],
                times=np.ones((lines.size, k), dtype=np.intp),
                people=np.ones(lines.size, dtype=np.intp),
                alike=np.ones(lines.size),
                kinds=np.arange(lines.size),
            )
            line_of[group[lines]] = np.arange(lines.size)
            step = max(1, AT_A_TIME // lines.size)
            for start in range(0, kinds.size, step):
                some = kinds[start : start + step]
                sizes = np.diff(self.starts)[some] // k
                rows = _ranges(self.starts[some] // k, sizes)
                where = np.repeat(np.arange(some.size), sizes) * lines.size + line_of[group[rows]]
                times = np.bincount(where, self.times[::k][rows], some.size * lines.size)
                yield PanelBlock(
                    columns=columns,
                    numbers=self.numbers,
                    times=times.astype(np.intp).reshape(some.size, lines.size),
                    people=self.people[some],
                    alike=alike[some],
                    kinds=some,
                )

    def every_block(self, at_a_time: int = AT_A_TIME) -> Iterator[UnitBlock | PanelBlock]:
        """All kinds, each in the block that a pass reads it in."""
        return itertools.chain(self.blocks(MANY_ROWS, at_a_time=at_a_time), self.panels())

    def run(self, reduction: UnitReduction) -> Arrays:
        """One pass: on all cores where many columns are looked up. Products of matrices use all anyway."""
        most = int(np.diff(self.starts).max(initial=0))
        dense = most > MANY_ROWS or most * self.rows.shape[1] ** 2 > 8 * self.numbers
        alone = dense or self.rows.size <= AT_A_TIME
        blocks = self._reported(self.every_block(reduction.at_a_time))
        return reduction.merged(on_cores(reduction.of_block, blocks, alone=alone))

    def _reported(self, blocks: Iterator[UnitBlock | PanelBlock]) -> Iterator[UnitBlock | PanelBlock]:
        done = 0
        for block in blocks:
            report("reading the units", done / len(self))
            yield block
            done += len(block)

    def take(self, rows: IndexArray) -> Units:
        """The same persons with some of the rows."""
        number = np.full(self.numbers + 1, rows.size)
        number[rows] = np.arange(rows.size)
        taken, weights = number.astype(self.rows.dtype)[self.rows], self.weights
        if self.weighted:  # of a row that is gone no weight is left: columns that are alike now look alike
            weights = np.where(taken == rows.size, ONE, weights)
        if not self.aligned:
            order = np.argsort(taken, axis=1, kind="stable")
            taken = np.take_along_axis(taken, order, axis=1)
            weights = np.take_along_axis(weights, order, axis=1) if self.weighted else weights
        return replace(self, rows=taken, weights=weights, numbers=int(rows.size), distinct=False)

    def choose(self, kinds: IndexArray) -> Units:
        """A closer look at some of the kinds: the others are still there."""
        chosen = self._only(kinds)
        chosen.__dict__["alike"] = self.alike[kinds]
        return chosen

    def without(self, kinds: IndexArray) -> Units:
        """Nothing is left of some of the kinds."""
        return self._only(np.delete(np.arange(len(self)), kinds))

    def _only(self, kinds: IndexArray) -> Units:
        sizes = np.diff(self.starts)[kinds]
        starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp)
        columns = _ranges(self.starts[kinds], sizes)
        return replace(
            self,
            rows=self.rows[columns],
            weights=self.weights[columns],
            starts=starts,
            times=self.times[columns],
            people=self.people[kinds],
        )


def _ranges(starts: IndexArray, sizes: IndexArray) -> IndexArray:
    """So many numbers from each start on, one after the other."""
    ends = np.cumsum(sizes)
    return np.asarray(np.repeat(starts - (ends - sizes), sizes) + np.arange(ends[-1] if ends.size else 0))
