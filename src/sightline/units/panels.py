r"""Persons with many rows: what is seen of each is one extreme eigenvalue, not a matrix over their rows.

Let :math:`a_j` be the different columns of some persons, and :math:`t_{pj}` how many rows person p has in
each. For a form Y of the published numbers the sharpest feature of the rows of p has

.. math:: \lambda_p = \lambda_{\max}\bigl(T_p^{1/2} A^\top Y A\, T_p^{1/2}\bigr)
   = \lambda_{\max}\bigl(K A\, T_p A^\top K^\top\bigr), \qquad Y = K^\top K,

over the columns or over the numbers that the persons are in, whichever are fewer. A home that is read every
hour of a year has thousands of columns and is in some dozen numbers.

**Its bounds.** From below any vector will do: :math:`x^\top S x / x^\top x` is at most the eigenvalue. Krylov
spaces of all persons are built side by side, so that each step is a product of matrices. From above a
Cholesky factorisation of :math:`\tau I - S` is the proof, as in
:func:`~sightline.numerics.residuals.eigenvalues_at_most`.

**A family** are persons in nearly the same columns. Rows that are missing only take away:
:math:`T_p \le \bar T` means :math:`\lambda_p \le \bar\lambda`, so that one proof holds for all of them, and
those that are seen best get a proof of their own.

**Of a category** the rows have a column for each of k. What is left of category c over the rows is read off
the columns :math:`\sum_d K_{cd} a_d` (:meth:`PanelBlock.mixed`), with :math:`K = kI - 11^\top` and
:math:`K^{1/2} = K/\sqrt k`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy
from scipy import sparse

from sightline.arrays import AT_A_TIME, FloatArray, IndexArray, parts
from sightline.numerics.positive_inverse import PANEL
from sightline.numerics.residuals import UNIT, eigenvalues_at_most, gamma
from sightline.values import frozen

# S x of every matrix, one a column; a product with all of them at once.
Product = Callable[[FloatArray], FloatArray]


def krylov_vectors(product: Product, start: FloatArray, steps: int) -> FloatArray:
    """Vectors whose quotients are near the largest eigenvalues: the best of the Krylov spaces, one a column.

    >>> S = np.diag([1.0, 2.0, 5.0])
    >>> x = krylov_vectors(lambda x: S @ x, np.ones((3, 1)), 3)[:, 0]
    >>> round(float(x @ S @ x / (x @ x)), 9)
    5.0
    """
    steps = min(steps, len(start))
    basis = [start / _lengths(start)]
    images = []
    for step in range(steps):
        images.append(product(basis[-1]))
        if step + 1 == steps:
            break
        rest = images[-1]
        for _ in range(2):  # once is not enough where the space is nearly invariant
            V = np.stack(basis)
            rest = rest - np.einsum("kdn,kn->dn", V, np.einsum("kdn,dn->kn", V, rest))
        # Where a space is exhausted, only rounding is left: no direction.
        left, before = np.linalg.norm(rest, axis=0), np.linalg.norm(images[-1], axis=0)
        basis.append(np.where(left > 1e-10 * before, rest / _lengths(rest), 0.0))
    V, SV = np.stack(basis), np.stack(images)
    inner = np.einsum("kdn,ldn->nkl", V, SV, optimize=True)
    inner = (inner + inner.transpose(0, 2, 1)) / 2
    best = np.linalg.eigh(inner)[1][:, :, -1]
    vectors = np.einsum("kdn,nk->dn", V, best)
    return np.asarray(vectors / _lengths(vectors))


def quotients(product: Product, vectors: FloatArray) -> tuple[FloatArray, FloatArray]:
    """At most the largest eigenvalues, up to the rounding of a product; and how far they may be off.

    Quotients are off by about the square of the residual over their distance to other eigenvalues, for which
    a tenth of the quotient stands here: a first guess for a proof.
    """
    images = product(vectors)
    quotient = np.sum(vectors * images, axis=0) / np.sum(vectors**2, axis=0)
    squares = np.sum((images - quotient * vectors) ** 2, axis=0)
    return np.asarray(quotient), np.asarray(10 * squares / np.where(quotient > 0, quotient, 1.0))


def at_most(matrix: FloatArray, near: float, off: float = 0.0) -> float:
    """At least the largest eigenvalue of one matrix, and little more if it is ``near`` + ``off`` or less.

    >>> bool(3 <= at_most(np.array([[2.0, 1.0], [1.0, 2.0]]), 2.9, 0.2) < 3.3)
    True
    """
    size, scale = len(matrix), float(np.linalg.norm(matrix)) + float(np.finfo(np.float64).tiny)
    room = max(8 * size * UNIT * scale, 1e-9 * near, off)
    while True:
        tau = near + room
        shifted = -matrix
        shifted[np.diag_indices(size)] += tau
        traces = float(np.sum(np.abs(np.diagonal(shifted))))
        try:
            scipy.linalg.cholesky(shifted, lower=True, overwrite_a=True, check_finite=False)
        except np.linalg.LinAlgError:
            room *= 16
            continue
        return tau + gamma(size + 4) * (traces + scale)


def _lengths(vectors: FloatArray) -> FloatArray:
    lengths = np.linalg.norm(vectors, axis=0)
    return np.where(lengths > 0, lengths, 1.0)


# Matrices of up to one panel are decomposed one by one: a thousand take some seconds. Of larger ones, so many
# persons of a family get proofs of their own: two take 0.06 s for 1,200 numbers, as 50 do for 400.
_BEST, _BEST_OF_SIZE = 2, 1_200
_ALIKE = 2.0  # columns of a family over those of its person with the fewest
_STEPS, _MORE_STEPS = 16, 40  # of Krylov spaces: of persons that start near their family's vector, and of it


@frozen(slots=False)
class PanelBlock:
    """A family: columns that its persons have in common, and how many rows each of them has in each."""

    columns: Any  # every row as a kind of its own, of one column, or of one for each category: units
    numbers: int
    times: IndexArray  # kinds × rows; 0 where a person has no such row
    people: IndexArray
    alike: FloatArray
    kinds: IndexArray

    single = False

    def __len__(self) -> int:
        return len(self.people)

    def by_column(self) -> Any:
        """Every column as a kind of its own, of one row."""
        return self.columns

    @property
    def whole(self) -> bool:
        """Whether all weights are whole numbers."""
        return bool(self.columns.whole)

    @property
    def signed(self) -> bool:
        """Whether a weight is negative."""
        return bool(self.columns.signed)

    @property
    def peak(self) -> float:
        """The largest weight."""
        return float(self.columns.peak)

    def mixed(self, weights: FloatArray) -> PanelBlock:
        """The same persons with mixtures of the columns of every row: one for each line of the weights."""
        columns_before, shape = self.columns, (len(self.columns) * len(weights), 1, -1)
        entries = weights[None, :, :, None] * columns_before.weights[:, None]
        rows = np.where(entries == 0, self.numbers, columns_before.rows[:, None])
        ones = np.ones(shape[0], dtype=np.intp)
        columns = replace(
            columns_before,
            rows=rows.reshape(shape),
            weights=entries.reshape(shape),
            times=ones[:, None],
            people=ones,
            alike=ones.astype(np.float64),
            kinds=np.arange(shape[0]),
        )
        return replace(self, columns=columns, times=np.repeat(self.times, len(weights), axis=1))

    def sums(self, of_rows: FloatArray, power: int) -> FloatArray:
        """For every column a the sum of w |a|^power over its rows: the same for all persons."""
        return np.broadcast_to(self.columns.sums(of_rows, power)[:, 0], self.times.shape)

    @cached_property
    def touched(self) -> IndexArray:
        """The numbers that any of the persons is in."""
        return np.asarray(np.unique(self.table.indices), dtype=np.intp)

    @cached_property
    def table(self) -> Any:
        """Columns × numbers."""
        columns = self.columns.table(self.numbers)[:, : self.numbers].tocsr()
        columns.sum_duplicates()
        columns.eliminate_zeros()
        return columns

    def at_most(self, form: Any, scales: FloatArray | float = 1.0, *, enough: float = 0.0) -> FloatArray:
        """At least the largest eigenvalue of a form, of every kind; less than ``enough`` is as good."""
        return self.ranges(form, scales, above=True, enough=enough)[1]

    def ranges(
        self, form: Any, scales: FloatArray | float = 1.0, *, above: bool = False, enough: float = 0.0
    ) -> tuple[FloatArray, FloatArray]:
        """Of every kind the largest eigenvalue of a form, of columns times the root of ``scales``: at
        least, and at most.
        """
        kinds = len(self)
        if not form.error < 1:
            return np.zeros(kinds), np.full(kinds, np.inf)
        weights = np.asarray(self.times * scales, dtype=np.float64)
        Y = form.among(self.touched)
        if np.isnan(Y).any():  # a sparse form has the pairs of numbers that one person is in, not a family
            return self._one_by_one(form, scales)
        seen = np.flatnonzero(np.diagonal(Y) > 0)  # numbers that follow from others have no part in it
        table = self.table[:, self.touched[seen]]
        cores = _Cores.of(Y[np.ix_(seen, seen)], table)
        if cores is None:
            return np.zeros(kinds), np.full(kinds, np.inf)
        root = np.append(np.zeros(self.numbers), 0.0)
        root[self.touched] = np.sqrt(np.maximum(np.diagonal(Y), 0.0))
        # Factor, products with columns, and sums over them: each term is at most that of the roots.
        lengths = self.columns.sizes(root)
        roundings = getattr(form, "roundings", 0) + 4 * (seen.size + self.times.shape[1]) + 64
        rounding = gamma(roundings) * (weights @ lengths)
        low, high = cores.ranges(weights, above=above, enough=enough)
        low = (low - 2 * rounding) / (1 + form.error)
        return np.maximum(low, 0.0), (high + rounding) / (1 - form.error)

    def of_categories(
        self, form: Any, categories: int, *, own: float, every: float
    ) -> tuple[FloatArray, FloatArray]:
        """The same of ``own`` times a category's columns and ``every`` times the sum of all of them: kinds
        × categories.

        What all categories have in common is made once, and their matrices are decomposed side by side.
        """
        k, rows, kinds = categories, self.times.shape[1], len(self)
        if not form.error < 1:
            return np.zeros((kinds, k)), np.full((kinds, k), np.inf)
        Y = form.among(self.touched)
        if np.isnan(Y).any() or rows > min(PANEL, self.touched.size):
            each = [self.mixed(own * one + every).ranges(form) for one in np.eye(k)[:, None]]
            low, high = (np.stack(part, axis=1) for part in zip(*each, strict=True))
            return low, high
        table = self.table[:, self.touched]
        columns = table.toarray().reshape(rows, k, -1)
        products = np.asarray(table @ Y).reshape(rows, k, -1)
        columns, products = (
            own * each + every * each.sum(axis=1, keepdims=True) for each in (columns, products)
        )
        matrices = columns.transpose(1, 0, 2) @ products.transpose(1, 2, 0)
        root = np.append(np.zeros(self.numbers), 0.0)
        root[self.touched] = np.sqrt(np.maximum(np.diagonal(Y), 0.0))
        lengths = np.sqrt(self.columns.rows_apart(1).sizes(root)).reshape(rows, k)
        lengths = abs(own) * lengths + abs(every) * lengths.sum(axis=1, keepdims=True)
        roundings = getattr(form, "roundings", 0) + 4 * (self.touched.size + rows + k) + 64
        rounding = gamma(roundings) * (self.times @ lengths**2)
        low, high = _side_by_side((matrices + matrices.transpose(0, 2, 1)) / 2, self.times)
        low, high = (low.T - 2 * rounding) / (1 + form.error), (high.T + rounding) / (1 - form.error)
        return np.maximum(low, 0.0), high

    def in_common(self, categories: int) -> bool:
        """Whether a number counts several categories of one row."""
        every = sparse.kron(sparse.eye_array(self.times.shape[1]), np.ones((1, categories)), format="csr")
        return bool((every @ (self.table != 0).astype(np.intp)).max() > 1)

    def _one_by_one(self, form: Any, scales: FloatArray | float) -> tuple[FloatArray, FloatArray]:
        if len(self) == 1 and (self.times > 0).all():  # nobody is in these numbers together
            return np.zeros(1), np.full(1, np.inf)
        ranges, each = [], np.broadcast_to(scales, self.times.shape[1])
        for kind in range(len(self)):
            columns, this = np.flatnonzero(self.times[kind]), slice(kind, kind + 1)
            person = replace(
                self,
                columns=self.columns.only(columns),
                times=self.times[this, columns],
                people=self.people[this],
                alike=self.alike[this],
                kinds=self.kinds[this],
            )
            ranges.append(person.ranges(form, each[columns]))
        low, high = (np.concatenate(part) for part in zip(*ranges, strict=True))
        return low, high


@frozen(slots=False)
class _Cores:
    """Matrices that have the eigenvalues of persons: √w (AᵀYA) √w over columns."""

    matrix: FloatArray  # AᵀYA

    @classmethod
    def of(cls, Y: FloatArray, table: Any) -> _Cores | None:
        """Of a form over some numbers, and a table of columns × numbers; ``None`` if it is singular."""
        columns, numbers = table.shape
        if columns <= numbers:
            H = np.asarray(table @ np.ascontiguousarray((table @ Y).T))
            return cls(matrix=(H + H.T) / 2)
        scale = 1 / np.sqrt(np.diagonal(Y))
        try:
            K = scipy.linalg.cholesky(Y * (scale[:, None] * scale), lower=False, check_finite=False) / scale
        except np.linalg.LinAlgError:
            return None
        return _CoresOfNumbers(matrix=K, table=table)

    def __len__(self) -> int:
        return len(self.matrix)

    def one(self, weights: FloatArray) -> FloatArray:
        """The matrix of one person."""
        root = np.sqrt(weights)
        return np.asarray(self.matrix * (root[:, None] * root))

    def product(self, weights: FloatArray) -> Any:
        """The products of the matrices of persons with a vector each, one a column."""
        root = np.sqrt(weights).T
        return lambda x: root * (self.matrix @ (root * x))

    def ranges(self, weights: FloatArray, *, above: bool, enough: float) -> tuple[FloatArray, FloatArray]:
        """Largest eigenvalues from below and from above; only from ``above`` if that is all that is asked.

        Of large matrices the persons that are seen best get proofs of their own, unless that for all of
        them is ``enough``.
        """
        size, kinds = len(self), len(weights)
        if size <= PANEL or kinds == 1:
            return self._each(weights)
        best = max(_BEST, int(_BEST * (_BEST_OF_SIZE / size) ** 3))
        every = self.one(weights.max(axis=0).astype(np.float64))
        start = np.random.default_rng(0).standard_normal((size, 1))
        vector = krylov_vectors(every.__matmul__, start, _MORE_STEPS)
        (near,), (off,) = quotients(every.__matmul__, vector)
        bound = at_most(every, float(near), float(off))
        low, high = np.zeros(kinds), np.full(kinds, bound)
        if above and bound <= enough:
            return low, high
        # A person may have no row where the family is seen best: every direction is given some weight.
        started = vector + start / (4 * np.linalg.norm(start))
        chosen = np.arange(kinds)
        if above:
            first, _ = quotients(self.product(weights), np.repeat(started, kinds, axis=1))
            chosen = np.argsort(-first, kind="stable")[:best]
        product = self.product(weights[chosen])
        vectors = krylov_vectors(product, np.repeat(started, chosen.size, axis=1), _STEPS)
        largest, offs = quotients(product, vectors)
        low[chosen] = largest
        for person in np.argsort(-largest, kind="stable")[:best].tolist():
            core = self.one(weights[chosen[person]].astype(np.float64))
            high[chosen[person]] = min(bound, at_most(core, float(largest[person]), float(offs[person])))
        return low, high

    def _each(self, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Of small matrices, or of one."""
        step = max(1, AT_A_TIME // len(self) ** 2) if len(self) <= PANEL else 1
        low, high = np.zeros((2, len(weights)))
        for first in range(0, len(weights), step):
            some = slice(first, first + step)
            cores = np.stack([self.one(line) for line in weights[some].astype(np.float64)])
            if len(self) <= PANEL:
                low[some], high[some] = _decomposed(cores)
                continue
            start = np.random.default_rng(0).standard_normal((len(self), 1))
            vectors = krylov_vectors(cores[0].__matmul__, start, _MORE_STEPS)
            low[some], off = quotients(cores[0].__matmul__, vectors)
            high[some] = at_most(cores[0], float(low[first]), float(off[0]))
        return low, high


def _decomposed(cores: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Largest eigenvalues of a stack of small matrices: at least, and at most."""
    vectors = np.linalg.eigh(cores)[1][:, :, -1]
    least = np.einsum("ni,nij,nj->n", vectors, cores, vectors, optimize=True) / np.sum(vectors**2, axis=1)
    return np.asarray(least), eigenvalues_at_most(cores)


def _side_by_side(matrices: FloatArray, times: IndexArray) -> tuple[FloatArray, FloatArray]:
    """The same of every matrix with the rows of every person: matrices × persons."""
    low, high = np.zeros((2, len(matrices), len(times)))
    size = matrices.shape[1]
    for person, line in enumerate(times.tolist()):
        there = np.flatnonzero(line)
        root = np.sqrt(times[person, there])
        for some in parts(len(matrices), each=size**2):
            cores = matrices[some][:, there[:, None], there] * (root[:, None] * root)
            low[some, person], high[some, person] = _decomposed(cores)
    return low, high


@frozen(slots=False)
class _CoresOfNumbers(_Cores):
    """The same over numbers, where these are fewer: K (A w Aᵀ) Kᵀ. The matrix is K."""

    table: Any  # columns × numbers

    def one(self, weights: FloatArray) -> FloatArray:
        products = (self.table.T @ (sparse.diags_array(weights) @ self.table)).toarray()
        square = self.matrix @ products @ self.matrix.T
        return np.asarray((square + square.T) / 2)

    def product(self, weights: FloatArray) -> Any:
        K, A = self.matrix, self.table
        return lambda x: K @ (A.T @ (weights.T * (A @ (K.T @ x))))


def families(groups: IndexArray, kind_of: IndexArray) -> Iterator[tuple[IndexArray, IndexArray]]:
    """Kinds that are in nearly the same columns, and these columns.

    ``groups`` has a number for every column of a kind, which equal ones share, and ``kind_of`` its kind, in
    order.

    >>> [(kinds.tolist(), columns.tolist()) for kinds, columns in families(
    ...     np.array([5, 6, 7, 5, 7, 8]), np.array([0, 0, 0, 1, 1, 2]))]
    [([0, 1], [5, 6, 7]), ([2], [8])]
    """
    first = np.append(0, np.flatnonzero(kind_of[1:] != kind_of[:-1]) + 1)
    sizes, kinds = np.diff(first, append=kind_of.size), kind_of[first]
    label, of_column = _connected(groups, first)
    columns = np.flatnonzero(of_column < kinds.size)
    columns = columns[np.argsort(of_column[columns], kind="stable")]
    members, together = (
        np.split(places, np.flatnonzero(np.diff(labels)) + 1)
        for places, labels in (
            (np.argsort(label, kind="stable"), np.sort(label)),
            (columns, of_column[columns]),
        )
    )
    for own, joined in zip(members, together, strict=True):
        if joined.size <= _ALIKE * sizes[own].min():
            yield kinds[own], joined
            continue
        # Persons who move between groups: neighbours by their first column, as long as they are alike.
        order = own[np.argsort(np.minimum.reduceat(groups, first)[own], kind="stable")].tolist()
        chosen: list[int] = []
        union = np.zeros(0, dtype=np.intp)
        for one in order:
            mine = np.unique(groups[first[one] : first[one] + sizes[one]])
            both = np.union1d(union, mine)
            if chosen and both.size > _ALIKE * min(mine.size, int(sizes[chosen].min())):
                yield kinds[chosen], union
                chosen, both = [], mine
            chosen.append(one)
            union = both
        yield kinds[chosen], union


def _connected(groups: IndexArray, first: IndexArray) -> tuple[IndexArray, IndexArray]:
    """The least kind that each is connected with by columns in common, and the same of every column.

    A number beyond all kinds is that of a column that nobody is in.
    """
    label, sizes = np.arange(first.size), np.diff(first, append=groups.size)
    while True:
        of_column = np.full(int(groups.max(initial=-1)) + 1, first.size, dtype=np.intp)
        np.minimum.at(of_column, groups, np.repeat(label, sizes))
        least = np.minimum.reduceat(of_column[groups], first)
        if np.array_equal(least, label):
            return label, of_column
        label = least[least]
