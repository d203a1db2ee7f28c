"""Kinds of persons with as many columns each, in arrays: what a pass over units reads at a time."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sightline.arrays import FloatArray, IndexArray, all_one
from sightline.values import frozen

WholeArray = NDArray[Any]  # whole numbers of any width
BoolArray = NDArray[np.bool_]
ONE: Any = np.int8(1)  # the weight of rows without weights, in as little memory as there is


class UnitColumns(Protocol):
    """What a pass asks of a block of kinds with as many columns each."""

    @property
    def times(self) -> IndexArray: ...
    @property
    def people(self) -> IndexArray: ...
    @property
    def alike(self) -> FloatArray: ...
    @property
    def kinds(self) -> IndexArray: ...
    @property
    def single(self) -> bool: ...
    @property
    def whole(self) -> bool: ...
    @property
    def peak(self) -> float: ...
    @property
    def terms(self) -> int: ...
    def __len__(self) -> int: ...
    def by_column(self) -> UnitColumns: ...
    def sums(self, of_rows: FloatArray, power: int) -> FloatArray: ...
    def sizes(self, roots: FloatArray) -> FloatArray: ...
    def forms(self, matrix: FloatArray) -> FloatArray: ...


@frozen(slots=False)
class UnitBlock:
    """Kinds with as many columns each: arrays over kinds × columns × rows of a column."""

    rows: WholeArray  # which row; the number of rows for none
    weights: WholeArray | FloatArray = ONE  # of the same shape, or one for all
    times: IndexArray  # kinds × columns: rows of one person with that column
    people: IndexArray  # of each kind
    alike: FloatArray  # rows of all persons with the kind's first column
    kinds: IndexArray  # the position of each kind among all

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", np.broadcast_to(self.weights, self.rows.shape))

    def __len__(self) -> int:
        return len(self.people)

    @cached_property
    def single(self) -> bool:
        """Whether every column is one row of a person."""
        return int(self.times.max(initial=1)) == 1

    @cached_property
    def whole(self) -> bool:
        """Whether all weights are whole numbers."""
        return self.weights.dtype.kind == "i" or bool(np.all(self.weights == np.rint(self.weights)))

    @cached_property
    def signed(self) -> bool:
        """Whether a weight is negative."""
        return bool(np.any(self.weights < 0))

    @cached_property
    def weighted(self) -> bool:
        """Whether some weight is not 1."""
        return not all_one(self.weights)

    @cached_property
    def peak(self) -> float:
        """The largest weight."""
        return float(np.abs(self.weights).max(initial=0))

    @property
    def terms(self) -> int:
        """How many roundings a form has, at most."""
        return int(2 * self.rows.shape[2] ** 2 + 16)

    @cached_property
    def scaled(self) -> FloatArray:
        """The entries of the columns √times a, in which features of a person's rows are unit directions."""
        return np.asarray(self.weights * np.sqrt(self.times)[:, :, None])

    def by_column(self) -> UnitBlock:
        """Every column as a kind of its own, of one row."""
        return replace(self.rows_apart(1), times=np.ones((self.times.size, 1), dtype=np.intp))

    def rows_apart(self, each: int) -> UnitBlock:
        """Every row of a person, of so many columns, as a kind of its own."""
        lines, width = self.times.size // each, self.rows.shape[2]
        return UnitBlock(
            rows=self.rows.reshape(lines, each, width),
            weights=self.weights.reshape(lines, each, width),
            times=self.times.reshape(lines, each),
            people=np.ones(lines, dtype=np.intp),
            alike=np.ones(lines),
            kinds=np.arange(lines),
        )

    def only(self, kinds: IndexArray) -> UnitBlock:
        """Some of the kinds."""
        names = ("rows", "weights", "times", "people", "alike", "kinds")
        return UnitBlock(**{name: getattr(self, name)[kinds] for name in names})

    def table(self, numbers: int) -> sparse.csr_array:
        """A line for each column; the last of its entries is for no row."""
        return columns_as_lines(self.rows.reshape(self.times.size, -1), self.weights, numbers)

    def dense(self, numbers: int) -> FloatArray:
        """Rows × (kinds × columns) of the columns √times a, with a last row of zeros. Made once."""
        if numbers not in self._dense:
            table = np.zeros((numbers + 1, self.times.size))
            lines = np.repeat(np.arange(self.times.size), self.rows.shape[2])
            table[self.rows.ravel(), lines] = self.scaled.ravel()
            table[numbers] = 0.0
            self._dense[numbers] = table
        return self._dense[numbers]

    @cached_property
    def _dense(self) -> dict[int, FloatArray]:
        return {}

    def sums(self, of_rows: FloatArray, power: int) -> FloatArray:
        """For every column a the sum of w |a|^power over its rows, with w a number for every row."""
        looked_up = np.append(of_rows, 0.0)[self.rows]
        if power and self.weighted:
            looked_up[self.weights == 0] = 0.0  # also where a number has infinite information
            looked_up *= np.abs(self.weights) ** power
        return np.asarray(looked_up.sum(axis=2))

    def sizes(self, roots: FloatArray) -> FloatArray:
        """Σ (Σ |a| root)² over the columns √times a of every kind; the roots have a last zero."""
        looked_up = roots[self.rows]
        looked_up *= np.abs(self.weights) if self.weighted else ONE
        lengths = looked_up.sum(axis=2) ** 2
        return np.asarray((lengths if self.single else lengths * self.times).sum(axis=1))

    def forms(self, matrix: FloatArray) -> FloatArray:
        """BᵀYB of every kind, for the columns √times a. Y has a last row of zeros, or is a diagonal."""
        kinds, columns, width = self.rows.shape
        diagonal = matrix.ndim == 1
        if diagonal and columns == 1:
            return self.sums(matrix[:-1], 2)[:, :, None] * self.times[:, :, None]
        # A product with the dense columns costs their length; looking up pairs costs the square of their
        # rows.
        if columns * width**2 > 8 * len(matrix):
            B = self.dense(len(matrix) - 1)
            right = matrix[:, None] * B if diagonal else matrix @ B
            if columns == 1:
                return np.asarray(np.einsum("rk,rk->k", B, right)[:, None, None])
            shape = len(matrix), kinds, columns
            products = np.einsum("rki,rkj->kij", B.reshape(shape), right.reshape(shape), optimize=True)
            return np.asarray(products)
        # Kinds come last: what is looked up for two columns lies together. Y is symmetric: half is enough.
        forms = np.zeros((columns, columns, kinds))
        slots = np.ascontiguousarray(self.rows.transpose(2, 1, 0), dtype=np.intp)
        weights = np.ascontiguousarray(self.weights.transpose(2, 1, 0)) if self.weighted else None
        # Memory that is asked for again at every look-up takes longer than the look-up.
        places, found = np.empty((columns, kinds), dtype=np.intp), np.empty((columns, kinds))
        for p, q in _pairs_of_slots(slots, len(matrix) - 1, diagonal=diagonal):
            for i in range(columns):
                for here, there, first in ((p, q, i), (q, p, i + 1))[
                    : 1 if p == q or i + 1 == columns else 2
                ]:
                    looked_up = found[first:]
                    _look_up(matrix, slots[here, i], slots[there, first:], places[first:], out=looked_up)
                    if weights is not None:
                        looked_up *= weights[here, i] * weights[there, first:]
                    forms[i, first:] += looked_up
                    if first == i and p != q:
                        forms[i, i] += looked_up[0]
        for i in range(columns):
            forms[i + 1 :, i] = forms[i, i + 1 :]
        if not self.single:
            root = np.sqrt(self.times.T)
            forms *= root[:, None] * root
        return np.ascontiguousarray(forms.transpose(2, 0, 1))


def _pairs_of_slots(slots: IndexArray, numbers: int, *, diagonal: bool) -> Iterator[tuple[int, int]]:
    """Every two slots; of a diagonal only those that may hold one row both."""
    ends = [(int(slot.min()), int(slot[slot < numbers].max(initial=-1))) for slot in slots if diagonal]
    for p, q in itertools.combinations_with_replacement(range(len(slots)), 2):
        if not diagonal or (ends[p][0] <= ends[q][1] and ends[q][0] <= ends[p][1]):
            yield p, q


def _look_up(
    matrix: FloatArray, first: IndexArray, second: IndexArray, places: IndexArray, *, out: FloatArray
) -> None:
    """Y at a row for every kind and at as many others: columns × kinds. The places are written over."""
    if matrix.ndim == 2:
        np.add(np.multiply(first, len(matrix), out=places), second, out=places)
        np.take(matrix.ravel(), places, out=out, mode="clip")  # every place is inside; "raise" would copy
    else:
        out[:] = np.where(first == second, matrix[first], 0.0)


def columns_as_lines(rows: WholeArray, weights: WholeArray | FloatArray, numbers: int) -> sparse.csr_array:
    """A line for each column; the last of its entries is for no row."""
    entries = weights.ravel().astype(np.float64)
    ends = np.arange(len(rows) + 1) * rows.shape[1]
    return sparse.csr_array((entries, rows.ravel(), ends), shape=(len(rows), numbers + 1))
