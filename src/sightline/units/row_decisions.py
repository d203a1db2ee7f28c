"""What is asked about units, and what of it the rows identify: over the integers, modulo a prime that nobody
can choose.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any

import flint
import numpy as np
from scipy import sparse

from sightline.arrays import FloatArray, IndexArray
from sightline.numerics import integers as exact
from sightline.numerics.residuals import gamma
from sightline.progress import reported
from sightline.units.row_integers import RowIntegers, modular
from sightline.units.unit_block import BoolArray, UnitBlock, WholeArray
from sightline.units.units import MANY_ROWS
from sightline.values import frozen


@frozen(slots=False)
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
            listed = self.images.tocsr()[rows].tocsc()
            columns = np.repeat(np.arange(listed.shape[1]), np.diff(listed.indptr))
            return listed.indices, columns, np.asarray(listed.data.astype(np.int64))
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
        columns_of_unit = slice(unit * self.counts.shape[1], (unit + 1) * self.counts.shape[1])
        if integers.table.dtype != object:
            columns = self.block.table(len(integers.table))[columns_of_unit, :-1].astype(np.int64)
            return np.asarray((self.images[:, columns_of_unit].astype(np.int64) @ columns).toarray())
        columns = integers.columns(self.block)[:, columns_of_unit]
        products = flint.fmpz_mat(self.whole_images(integers)[:, columns_of_unit].tolist()) * flint.fmpz_mat(
            columns.T.tolist()
        )
        lines = [[int(entry) for entry in line] for line in products.tolist()]
        return np.array(lines, dtype=object).reshape(len(columns), len(columns))

    def variances(self, functionals: Any) -> list[int]:
        """fᵀKf of functionals with whole weights."""
        kernels = sparse.kron(sparse.eye_array(self.counts.size // len(self.kernel)), self.kernel)
        squares = sparse.diags_array(self.counts.ravel().astype(np.float64)) @ kernels
        forms = np.asarray(functionals.multiply(squares @ functionals).sum(axis=0)).ravel()
        return [int(entry) for entry in np.rint(forms).tolist()]

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


@frozen(slots=False)
class Decided:
    """Of some units: how many directions are identifiable, which of the sums are, and what is undecided."""

    directions: IndexArray
    identifiable: BoolArray  # units × columns of a row
    undecided: BoolArray


@frozen(slots=False)
class AnswerWeights:
    """Weights on answers that give functionals, one a column; their errors, with relative bounds."""

    weights: Any
    rmse: FloatArray
    relative_error: FloatArray
    on_all: dict[int, FloatArray] = field(default_factory=dict)  # columns with weights on all rows, in balls


def decided(
    asked: AskedUnits,
    integers: RowIntegers | None,
    kept: IndexArray,
    *,
    disjoint: bool,
    weights: Callable[[Any], FloatArray],
    refuted: Callable[[IndexArray], BoolArray],
) -> Decided:
    """Nothing is undecided, unless weights are so large, and so many, that nothing is exact.

    fᵀKf − bᵀM⁻b is zero on what is identifiable, and only there. ``kept`` are independent rows; if they are
    ``disjoint``, no two of them have a person in common. ``weights`` has M⁻b, up to rounding: what small
    fractions near it prove identifiable needs no elimination, nor do units that are ``refuted``.
    """
    k, count = len(asked.kernel), len(asked.kinds)
    directions, yes = np.zeros(count, dtype=np.intp), np.zeros((count, k), dtype=np.bool_)
    undecided = np.full(count, integers is None)
    if integers is None or not count:
        return Decided(directions=directions, identifiable=yes, undecided=undecided)
    size, whole = asked.counts.shape[1], integers.table.dtype != object
    if size > MANY_ROWS:
        return _decided_by_row(asked, integers, kept)
    left_over = np.arange(count)
    if size == k == 1 and whole and not disjoint:
        proved = _proved(asked, integers, kept, weights)
        directions[proved], yes[proved] = 1, True
        left_over = np.flatnonzero(~proved)
        left_over = left_over[~refuted(left_over)]
        if not left_over.size:
            return Decided(directions=directions, identifiable=yes, undecided=undecided)
    prime = integers.prime(kept)
    seen = _seen(asked, integers, kept, prime, left_over, disjoint=disjoint and whole)
    over_rows = modular(np.tile(np.eye(k, dtype=np.intp), (size // k, 1)), prime)
    for unit in left_over.tolist():
        left = modular(asked.squares(unit).astype(int), prime) - seen(unit)
        directions[unit] = size - (size // k if k > 1 else 0) - int(left.rank())
        sums = over_rows.transpose() * left * over_rows
        yes[unit] = [int(sums[c, c]) == 0 for c in range(k)]
    return Decided(directions=directions, identifiable=yes, undecided=undecided)


def seen_at_most(products: Any, images: FloatArray, weights: FloatArray, largest: float) -> FloatArray:
    r"""An upper bound on bᵀM⁻¹b for columns b, from weights y near M⁻¹b; below fᵀKf nothing is identifiable.

    With what is left of the equations, r = b − My, it is :math:`y^\top b + y^\top r + r^\top M^{-1} r`. M and
    b are whole numbers, r is known to its rounding, and ``largest`` is at least the norm of M⁻¹.

    >>> M, b = np.array([[2.0, 1.0], [1.0, 2.0]]), np.ones((2, 1))
    >>> seen_at_most(M, b, b / 3, 1.0)
    array([0.66666667])
    """
    rounding, sizes = gamma(len(images) + 4), np.abs(weights)
    left = np.abs(images - products @ weights) + rounding * (np.abs(images) + abs(products) @ sizes)
    seen = np.einsum("iu,iu->u", weights, images)
    seen = seen + np.einsum("iu,iu->u", sizes, left + rounding * np.abs(images))
    return np.asarray(seen + np.sum(left**2, axis=0) * largest * (1 + rounding))


def _proved(
    asked: AskedUnits, integers: RowIntegers, kept: IndexArray, weights: Callable[[Any], FloatArray]
) -> BoolArray:
    """Units of one column whose value small fractions of the rows give, proved in whole numbers."""
    images = asked.images.tocsr()[kept]
    numerators, denominators = exact.rounded(weights(images))
    return exact.proved(
        sparse.csr_array(integers.table[np.ix_(kept, kept)]),
        numerators,
        denominators,
        images=images.astype(np.int64),
        squares=np.rint(asked.kernel[0, 0] * asked.counts[:, 0]).astype(np.intp),
    )


def _seen(
    asked: AskedUnits,
    integers: RowIntegers,
    kept: IndexArray,
    prime: int,
    units: IndexArray,
    *,
    disjoint: bool,
) -> Callable[[int], Any]:
    """For some units bᵀM⁻b, modulo a prime: of a unit in few rows, entries of the inverse are enough."""
    size = asked.counts.shape[1]
    rows, columns, entries = asked.whole_entries(integers, kept)
    starts = np.searchsorted(columns, np.arange(0, asked.counts.size + 1, size))
    asked_for = np.isin(columns // size, units)
    looked_up = float(np.sum(np.diff(starts)[units].astype(np.float64) ** 2))  # one by one, in Python
    if not disjoint and looked_up > kept.size * units.size * size:
        return _seen_by_solving(asked, integers, kept, prime, units)
    chosen = np.unique(rows[asked_for])
    inverse = integers.inverse(kept, chosen, prime, disjoint=disjoint)
    # What is looked up more often than it has entries is read once.
    often = chosen.size**2 < looked_up
    lines = chosen.tolist() if often else []
    table = np.array([[inverse(i, j) for j in lines] for i in lines], dtype=np.uint64)

    def of_unit(unit: int) -> Any:
        inside = slice(int(starts[unit]), int(starts[unit + 1]))
        touched, line = np.unique(rows[inside], return_inverse=True)
        b = np.zeros((touched.size, size), dtype=entries.dtype)
        b[line, columns[inside] - unit * size] = entries[inside]
        if often:
            own_lines = np.searchsorted(chosen, touched)
            of_inverse = table[np.ix_(own_lines, own_lines)].ravel().tolist()
        else:
            of_inverse = [inverse(i, j) for i in touched.tolist() for j in touched.tolist()]
        image = modular(b, prime)
        return image.transpose() * flint.nmod_mat(touched.size, touched.size, of_inverse, prime) * image

    return of_unit


def _seen_by_solving(
    asked: AskedUnits, integers: RowIntegers, kept: IndexArray, prime: int, units: IndexArray
) -> Callable[[int], Any]:
    """The same for units in many rows: the equations are solved for all of them at once."""
    size = asked.counts.shape[1]
    rows, columns, entries = asked.whole_entries(integers, kept)
    wanted = (units[:, None] * size + np.arange(size)).ravel()
    position = np.full(asked.counts.size, -1)
    position[wanted] = np.arange(wanted.size)
    inside = position[columns] >= 0
    images = np.zeros((kept.size, wanted.size), dtype=entries.dtype)
    images[rows[inside], position[columns[inside]]] = entries[inside]
    solved = integers.modular(kept, kept, prime).solve(modular(images, prime))

    def of_unit(unit: int) -> Any:
        columns = (position[unit * size] + np.arange(size)).tolist()
        touched = np.flatnonzero(images[:, columns].any(axis=1)).tolist()
        # Entries of flint's matrices are read one by one, in Python: each of these once.
        below = flint.nmod_mat(
            len(touched), size, [int(solved[row, column]) for row in touched for column in columns], prime
        )
        return modular(images[np.ix_(touched, columns)].T, prime) * below

    return of_unit


def _decided_by_row(asked: AskedUnits, integers: RowIntegers, kept: IndexArray) -> Decided:
    """The same for persons with many columns, over the rows: no matrix over the columns.

    As many features of a person are identifiable as the rank of M falls without them: combinations of
    rows that vanish on all others, and not on this person.
    """
    k, count = len(asked.kernel), len(asked.kinds)
    directions, prime, M = np.zeros(count, dtype=np.intp), integers.prime(kept), integers.table
    apart = _without_common_persons(M[np.ix_(kept, kept)])
    for unit in reported(range(count), "deciding who can be told apart"):
        others = (M - asked.products(unit, integers))[np.ix_(kept, kept)]
        directions[unit] = kept.size - _Eliminated.of(others, apart, prime).rank
    unit_of, column = np.divmod(np.arange(count * k), k)
    totals = asked.functional(unit_of, column)
    b, squares = asked.whole_images_of(totals, integers)[kept], asked.variances(totals)
    seen = _Eliminated.of(M[np.ix_(kept, kept)], apart, prime).forms(b)
    yes = np.array([(square - own) % prime == 0 for square, own in zip(squares, seen, strict=True)])
    nothing = np.zeros(count, dtype=np.bool_)
    return Decided(directions=directions, identifiable=yes.reshape(count, k), undecided=nothing)


def _without_common_persons(M: WholeArray) -> IndexArray:
    """Rows of which no two have a person in common, such as the hours of a load curve; none if they are few.

    M over them is a diagonal: to eliminate them costs no more than the products of the other rows.
    """
    pairs = M != 0
    inside = np.zeros(len(M), dtype=np.bool_)
    for row in np.argsort(np.count_nonzero(pairs, axis=1), kind="stable").tolist():
        inside[row] = not np.any(pairs[row] & inside)
    rows = np.flatnonzero(inside)
    return rows if 2 * rows.size > len(M) else rows[:0]


@frozen(slots=False)
class _Eliminated:
    r"""A symmetric table modulo a prime, with a diagonal block D eliminated: rank and forms need the rest.

    With the block C of the other rows and B between both, the rank is that of D and of
    :math:`S = C - B^\top D^{-1} B`, and :math:`b^\top M^{-1} b = b_1^\top D^{-1} b_1 + r^\top S^{-1} r` with
    :math:`r = b_2 - B^\top D^{-1} b_1`.
    """

    apart: IndexArray
    rest: IndexArray
    inverses: list[int]  # of D
    between: Any  # B
    left: Any  # S
    prime: int

    @classmethod
    def of(cls, table: WholeArray, apart: IndexArray, prime: int) -> _Eliminated:
        """``apart`` are rows of a diagonal block; those that are zero on it count as others."""
        diagonal = [int(table[row, row]) % prime for row in apart.tolist()]
        apart = apart[[entry != 0 for entry in diagonal]]
        rest = np.delete(np.arange(len(table)), apart)
        inverses = [pow(entry, -1, prime) for entry in diagonal if entry]
        between, left = modular(table[np.ix_(apart, rest)], prime), modular(table[np.ix_(rest, rest)], prime)
        if apart.size:
            left -= between.transpose() * _scaled(table[np.ix_(apart, rest)], inverses, prime)
        return cls(apart=apart, rest=rest, inverses=inverses, between=between, left=left, prime=prime)

    @property
    def rank(self) -> int:
        return self.apart.size + (int(self.left.rank()) if self.rest.size else 0)

    def forms(self, images: WholeArray) -> list[int]:
        """bᵀM⁻¹b for columns b, if M is regular."""
        of_apart, prime = images[self.apart], self.prime
        squares = [
            sum(int(entry) ** 2 * inverse for entry, inverse in zip(line, self.inverses, strict=True))
            for line in of_apart.T.tolist()
        ]
        if not self.rest.size:
            return squares
        right = modular(images[self.rest], prime)
        if self.apart.size:
            right -= self.between.transpose() * _scaled(of_apart, self.inverses, prime)
        products = right.transpose() * self.left.solve(right)
        return [entry + int(products[place, place]) for place, entry in enumerate(squares)]


def _scaled(table: WholeArray, factors: list[int], prime: int) -> Any:
    """A table with each row times a factor, modulo a prime."""
    entries = [
        int(entry) * factor % prime
        for line, factor in zip(table.tolist(), factors, strict=True)
        for entry in line
    ]
    rows, columns = table.shape
    return flint.nmod_mat(rows, columns, entries, prime)
