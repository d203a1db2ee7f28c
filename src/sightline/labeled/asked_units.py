"""What is asked about units, as exact arithmetic sees them, and what is answered."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from sightline.arrays import FloatArray, IndexArray
from sightline.labeled.row_integers import RowIntegers
from sightline.labeled.units import BoolArray, UnitBlock, WholeArray
from sightline.numerics import exact_library as flint


@dataclass(frozen=True, kw_only=True, eq=False)
class AskedUnits:
    """Some kinds with as many columns each, as exact arithmetic sees them: whole numbers."""

    kinds: IndexArray  # the position of each among all
    images: Any  # BK of one kind after the other, over all people of the kind: a sparse array
    counts: IndexArray  # kinds × columns: rows of all its people
    kernel: FloatArray  # K, of one row
    one_row: bool
    block: UnitBlock

    @classmethod
    def of(cls, block: UnitBlock, kinds: IndexArray, kernel: FloatArray, numbers: int) -> AskedUnits:
        counts = block.people[:, None] * block.times
        kernels = sparse.kron(sparse.eye_array(counts.size // len(kernel)), kernel)
        images = block.table(numbers).T @ sparse.diags_array(counts.ravel().astype(np.float64)) @ kernels
        one_row = block.times.shape[1] == len(kernel) and block.single
        columns = sparse.csc_array(images)[:numbers]
        return cls(kinds=kinds, images=columns, counts=counts, kernel=kernel, one_row=one_row, block=block)

    def whole_images(self, integers: RowIntegers) -> WholeArray:
        """The images over rows that were made whole."""
        if integers.table.dtype != object:
            return np.asarray(self.images.toarray().astype(np.int64))
        return integers.images_of(integers.columns(self.block), self.counts, self.kernel.astype(int))

    def whole_entries(
        self, integers: RowIntegers, rows: IndexArray
    ) -> tuple[IndexArray, IndexArray, WholeArray]:
        """The entries of the images that are not zero, over some rows: row, column and value, by column."""
        if integers.table.dtype != object:
            found = self.images.tocsr()[rows].tocsc()
            columns = np.repeat(np.arange(found.shape[1]), np.diff(found.indptr))
            return found.indices, columns, np.asarray(found.data.astype(np.int64))
        images = self.whole_images(integers)[rows]
        columns, places = np.nonzero(images.T)
        return places, columns, images[places, columns]

    def whole_images_of(self, functionals: Any, integers: RowIntegers) -> WholeArray:
        """The images of some functionals with whole weights, over rows that were made whole."""
        if integers.table.dtype != object:
            return np.asarray((self.images.astype(np.int64) @ functionals.astype(np.int64)).toarray())
        weights = functionals.toarray().astype(np.int64).astype(object)
        return np.asarray(self.whole_images(integers) @ weights)

    def products(self, unit: int, integers: RowIntegers) -> WholeArray:
        """B K Bᵀ over all people of one kind, over rows that were made whole."""
        own = slice(unit * self.counts.shape[1], (unit + 1) * self.counts.shape[1])
        if integers.table.dtype != object:
            columns = self.block.table(len(integers.table))[own, :-1].astype(np.int64)
            return np.asarray((self.images[:, own].astype(np.int64) @ columns).toarray())
        columns = integers.columns(self.block)[:, own]
        products = flint.fmpz_mat(self.whole_images(integers)[:, own].tolist()) * flint.fmpz_mat(
            columns.T.tolist()
        )
        lines = [[int(entry) for entry in line] for line in products.tolist()]
        return np.array(lines, dtype=object).reshape(len(columns), len(columns))

    def variances(self, functionals: Any) -> list[int]:
        """fᵀKf of functionals with whole weights."""
        kernels = sparse.kron(sparse.eye_array(self.counts.size // len(self.kernel)), self.kernel)
        squares = sparse.diags_array(self.counts.ravel().astype(np.float64)) @ kernels
        found = np.asarray(functionals.multiply(squares @ functionals).sum(axis=0)).ravel()
        return [int(entry) for entry in np.rint(found).tolist()]

    def squares(self, unit: int) -> FloatArray:
        """The kernel of one kind: fᵀ squares f is the variance of a functional f before any answer."""
        kernels = np.kron(np.eye(self.counts.shape[1] // len(self.kernel)), self.kernel)
        return np.asarray(kernels * self.counts[unit])

    def functional(self, unit: IndexArray, column: IndexArray) -> Any:
        """Of each of some kinds one of its columns a row, over all rows: sums."""
        size, k = self.counts.shape[1], len(self.kernel)
        rows = (unit[:, None] * size + column[:, None] + k * np.arange(size // k)).ravel()
        places = rows, np.repeat(np.arange(unit.size), size // k)
        return sparse.csc_array((np.ones(rows.size), places), shape=(self.counts.size, unit.size))


@dataclass(frozen=True, kw_only=True, eq=False)
class Decided:
    """Of some units: how many directions are identifiable, which of the sums are, and what is undecided."""

    directions: IndexArray
    identifiable: BoolArray  # units × columns of a row
    undecided: BoolArray


@dataclass(frozen=True, kw_only=True, eq=False)
class AnswerWeights:
    """Weights on answers that give functionals, one a column; their errors, with relative bounds."""

    weights: Any
    rmse: FloatArray
    relative_error: FloatArray
    on_all: dict[int, FloatArray] = field(default_factory=dict)  # columns with weights on all rows, in balls
