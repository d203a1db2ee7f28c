r"""The weighted least-squares fit to noisy sums: the nearest numbers that one table could have given.

Numbers :math:`y = A x + \text{noise}`, with independent noise of variances V, have the fit

.. math:: \hat y = A (A^\top V^{-1} A)^+ A^\top V^{-1} y,

which is y less its part that no x explains. Rows that depend on others, :math:`A_D = T A_P`, make the
conditions :math:`C \hat y = 0` with :math:`C = [T, -I]`, and then

.. math:: \hat y = y - V C^\top (C V C^\top)^{-1} C y, \qquad
          \operatorname{cov} \hat y = V - V C^\top (C V C^\top)^{-1} C V.

T does not depend on the noise, so that noise over many orders of magnitude costs no digits. Most conditions
are read off the tables: a number is the sum of the numbers of a finer table. The others are found by
elimination. Numbers that have no person in common are fitted apart. Where more numbers hang together than
dense elimination can take, the fit is iterated (LSMR), and its variances are not computed.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sightline.arrays import FloatArray, IndexArray
from sightline.errors import TooMuchWork
from sightline.numerics import integers as exact
from sightline.values import frozen

# Numbers, or conditions, up to which matrices over them are dense: an inverse of 2,000 takes a second.
MOST_DENSE = 2000
_NOTHING = 1e-9  # weights of rows below this are rounding
_SINGULAR = (
    1e-9  # of a row's squared length: what is left of it beside the rows before it, if it depends on them
)
_TOLERANCE = 1e-14  # of iterated fits, relative to the noisy numbers
_MOST_ITERATIONS = 20_000


@frozen(slots=False)
class DependentRows:
    """Rows P that are independent, and the others as combinations T of them."""

    kept: IndexArray
    others: IndexArray
    weights: Any  # others × kept, sparse
    proved: bool  # whether every combination was proved over the integers


def dependencies(rows: Any, apart: IndexArray, order: IndexArray) -> DependentRows:
    """Independent rows, and the others as combinations of them.

    ``apart`` are rows that have no column in common: they are kept, and cost nothing. Of the others the first
    independent ones of an ``order`` are.

    >>> rows = sparse.csr_array([[1, 0], [0, 1], [1, 1]])
    >>> found = dependencies(rows, np.array([0, 1]), np.array([2]))
    >>> found.kept.tolist(), found.weights.toarray().tolist(), found.proved
    ([0, 1], [[1.0, 1.0]], True)
    """
    rows = sparse.csr_array(rows)
    largest = float(np.abs(rows.data).max(initial=0.0))
    products = (rows @ rows.T).tocsr()
    whole = bool(np.all(rows.data == np.rint(rows.data))) and largest < 2**20 and products.data.max() < 2**53
    sizes = products.diagonal()[apart]
    between = products[apart][:, order].tocsc()
    left = (
        products[order][:, order].toarray() - (between.T @ sparse.diags_array(1 / sizes) @ between).toarray()
    )
    first = _first_independent(left, products.diagonal()[order])
    kept, others = np.concatenate([apart, order[first]]), order[~first]
    if not others.size:
        return DependentRows(kept=kept, others=others, weights=sparse.csr_array((0, kept.size)), proved=True)
    length = np.sqrt(np.diagonal(left)[first])
    inverse = np.linalg.inv(left[np.ix_(first, first)] / np.outer(length, length)) / np.outer(length, length)
    images = left[np.ix_(first, ~first)]
    guess = inverse @ images
    guess += inverse @ (images - left[np.ix_(first, first)] @ guess)
    guess = sparse.csc_array(np.where(np.abs(guess) < _NOTHING, 0.0, guess))
    of_apart = sparse.diags_array(1 / sizes) @ (between[:, ~first] - between[:, first] @ guess)
    of_apart.data[np.abs(of_apart.data) < _NOTHING] = 0.0
    weights = sparse.vstack([of_apart, guess]).tocsc()
    weights.eliminate_zeros()
    if whole:
        numerators, denominators = exact.rounded(weights)
        proved = exact.proved(
            products[kept][:, kept].astype(np.int64),
            numerators,
            denominators,
            images=products[kept][:, others].astype(np.int64),
            squares=products.diagonal()[others].astype(np.intp),
        )
        if proved.all():
            exactly = numerators.astype(np.float64) @ sparse.diags_array(1.0 / denominators)
            return DependentRows(kept=kept, others=others, weights=exactly.T.tocsr(), proved=True)
    combined = weights.T.tocsr()
    # A row that its combination does not give is no condition: the fit stays unbiased without it.
    miss = abs(combined @ rows[kept] - rows[others]).max(axis=1).toarray().ravel()
    good = miss <= _NOTHING * 10 * largest
    return DependentRows(kept=kept, others=others[good], weights=combined[good], proved=False)


def _first_independent(products: FloatArray, squares: FloatArray) -> NDArray[np.bool_]:
    """Of rows with some products, those that do not depend on the ones before them: by Cholesky, in panels.

    ``squares`` are the squared lengths of the rows, before anything was taken out of them.
    """
    size, kept = len(products), np.zeros(len(products), dtype=np.bool_)
    factor, rank = np.zeros((size, size)), 0
    least = _SINGULAR * squares
    for start in range(0, size, 64):
        end = min(size, start + 64)
        panel = products[start:, start:end] - factor[start:, :rank] @ factor[start:end, :rank].T
        first = rank
        for place in range(end - start):
            column = panel[:, place] - factor[start:, first:rank] @ factor[start + place, first:rank]
            if column[place] > max(least[start + place], 0.0):
                factor[start + place :, rank] = column[place:] / np.sqrt(column[place])
                kept[start + place] = True
                rank += 1
    return kept


def nested(rows: Any, partition: IndexArray) -> Any:
    """Conditions by which rows are sums of rows of one finer partition: sparse, a line for each such row.

    Rows of one partition have no column in common. A row is the sum of those rows of another partition that
    lie within it if these have all of its columns, with the same entries. Each row is taken once, from the
    coarsest partition that gives it; the finer one has more rows, or comes before.

    >>> nested(sparse.csr_array([[1, 0], [0, 1], [1, 1]]), np.array([0, 0, 1])).toarray().tolist()
    [[1.0, 1.0, -1.0]]
    """
    rows = sparse.csr_array(rows)
    count, width = rows.shape
    labels, label = np.unique(partition, return_inverse=True)
    sizes = np.bincount(label)
    owner = np.full((labels.size, width), -1)  # of every partition the row that has a column
    entry = np.zeros((labels.size, width))
    line = np.repeat(np.arange(count), np.diff(rows.indptr))
    owner[label[line], rows.indices], entry[label[line], rows.indices] = line, rows.data
    taken, lines, columns, entries, made = np.zeros(count, dtype=np.bool_), [], [], [], 0
    order = np.lexsort((np.arange(labels.size), -sizes))
    for later, coarse in enumerate(order.tolist()):
        for fine in order[:later][::-1].tolist():
            both, same = owner[coarse], (entry[coarse] == entry[fine]) & (owner[fine] >= 0)
            cells, within = owner[fine][owner[fine] >= 0], np.where(same, both, -1)[owner[fine] >= 0]
            least, most = np.full(count, count), np.full(count, -1)
            np.minimum.at(least, cells, within)
            np.maximum.at(most, cells, within)
            inside = np.flatnonzero((least == most) & (least >= 0))  # fine rows within one coarse row
            home = most[inside]
            covered = np.bincount(home, np.diff(rows.indptr)[inside], count)
            given = (
                (covered == np.diff(rows.indptr)) & (label == coarse) & ~taken & (np.diff(rows.indptr) > 0)
            )
            chosen = np.flatnonzero(given)
            number = np.full(count, -1)
            number[chosen] = made + np.arange(chosen.size)
            used = given[home]
            lines += [number[home[used]], number[chosen]]
            columns += [inside[used], chosen]
            entries += [np.ones(int(used.sum())), np.full(chosen.size, -1.0)]
            taken |= given
            made += chosen.size
            if taken[label == coarse].all():
                break
    if not made:
        return sparse.csr_array((0, count))
    where = np.concatenate(lines), np.concatenate(columns)
    return sparse.csr_array((np.concatenate(entries), where), shape=(made, count))


def combinations(rows: Any, measured: NDArray[np.bool_], partition: IndexArray) -> tuple[Any, IndexArray]:
    """Rows that were not measured as combinations of those that were, proved over the integers.

    The weights, a line for each row that was not measured over all that were; and the rows, by their place
    among all, that are no combination of measured ones.

    >>> rows, measured = sparse.csr_array([[1, 0], [0, 1], [1, 1], [1, 2]]), np.arange(4) < 2
    >>> weights, wrong = combinations(rows, measured, np.array([0, 0, 1, 2]))
    >>> weights.toarray().tolist(), wrong.tolist()
    ([[1.0, 1.0], [1.0, 2.0]], [])
    """
    rows = sparse.csr_array(rows)
    given, wanted = np.flatnonzero(measured), np.flatnonzero(~measured)
    position = np.zeros(measured.size, dtype=np.intp)
    position[given], position[wanted] = np.arange(given.size), np.arange(wanted.size)
    weights = sparse.lil_array((wanted.size, given.size))
    open_ = set(wanted.tolist()) - set(wanted[np.diff(rows.indptr)[wanted] == 0].tolist())  # nobody is in it
    sums = nested(rows, partition)
    for line in range(sums.shape[0]):
        inside_line = slice(sums.indptr[line], sums.indptr[line + 1])
        places, entries = sums.indices[inside_line], sums.data[inside_line]
        row = int(places[entries < 0][0])
        if row in open_ and measured[places[entries > 0]].all():
            weights[position[row], position[places[entries > 0]]] = 1.0
            open_.discard(row)
    if not open_:
        return weights.tocsr(), np.zeros(0, dtype=np.intp)
    left = np.array(sorted(open_), dtype=np.intp)
    _, label, sizes = np.unique(partition[given], return_inverse=True, return_counts=True)
    apart = label == np.argmax(sizes)
    apart &= np.diff(rows.indptr)[given] > 0
    if np.count_nonzero(~apart) + left.size > MOST_DENSE:
        raise TooMuchWork(
            f"expected at most {MOST_DENSE:,} numbers beside the largest table to derive others from, got "
            f"{np.count_nonzero(~apart) + left.size:,}; derive sums of one measured table"
        )
    chosen = np.concatenate([given, left])
    first, last = np.flatnonzero(apart), np.arange(given.size, chosen.size)
    order = np.concatenate([np.flatnonzero(~apart & (np.diff(rows.indptr)[given] > 0)), last])
    derived = dependencies(rows[chosen], first, order)
    inside = derived.others[derived.others >= given.size] if derived.proved else np.zeros(0, dtype=np.intp)
    measured_alone = derived.kept < given.size
    for row in inside.tolist():
        line = derived.weights[np.flatnonzero(derived.others == row)]
        if not line[:, ~measured_alone].nnz:  # and of no other row that was not measured
            weights[position[chosen[row]], derived.kept[line.indices]] = line.data
            open_.discard(int(chosen[row]))
    return weights.tocsr(), np.array(sorted(open_), dtype=np.intp)


@frozen(slots=False)
class _Block:
    """Numbers that hang together."""

    places: IndexArray
    rows: Any  # with the columns that are not zero
    variances: FloatArray
    partition: IndexArray

    @cached_property
    def conditions(self) -> Any:
        """C, sparse: a line for each number that depends on others. ``None`` where they are too many."""
        if not self.rows.shape[1]:  # a number that nobody changes: it is known
            return sparse.csr_array(np.full((1, 1), -1.0))
        sums = nested(self.rows, self.partition)
        explained = np.zeros(self.places.size, dtype=np.bool_)
        explained[sums.indices[sums.data < 0]] = True
        rest = np.flatnonzero(~explained)
        _, label, sizes = np.unique(self.partition[rest], return_inverse=True, return_counts=True)
        largest = label == np.argmax(sizes)
        if np.count_nonzero(~largest) > MOST_DENSE:
            return None
        order = np.flatnonzero(~largest)
        order = order[np.argsort(self.variances[rest][order], kind="stable")]
        derived = dependencies(self.rows[rest], np.flatnonzero(largest), order)
        count, weights = derived.others.size, sparse.coo_array(derived.weights)
        lines = np.concatenate([weights.coords[0], np.arange(count)])
        columns = rest[np.concatenate([derived.kept[weights.coords[1]], derived.others])]
        entries = np.concatenate([weights.data, np.full(count, -1.0)])
        others = sparse.csr_array((entries, (lines, columns)), shape=(count, self.places.size))
        return sparse.vstack([sums, others]).tocsr()

    @cached_property
    def inner(self) -> tuple[Any, FloatArray]:
        """C V Cᵀ with a diagonal of ones, and the roots of its own diagonal."""
        C = self.conditions
        product = (C @ sparse.diags_array(self.variances) @ C.T).tocsc()
        size = np.sqrt(product.diagonal())
        scale = sparse.diags_array(1 / size)
        return (scale @ product @ scale).tocsc(), size

    def fitted(self, noisy: FloatArray) -> FloatArray:
        if self.conditions is None:
            return np.asarray(self.rows @ solution(self.rows, noisy, self.variances))
        if not self.conditions.shape[0]:
            return noisy
        from scipy.sparse.linalg import splu

        matrix, size = self.inner
        if 10 * matrix.nnz > matrix.shape[0] ** 2:
            inverse = np.linalg.inv(matrix.toarray())
            solve = inverse.__matmul__
        else:
            solve = splu(matrix, permc_spec="MMD_AT_PLUS_A", options={"SymmetricMode": True}).solve
        fit, C = noisy, self.conditions
        for _ in range(3):  # of what rounding leaves of the inconsistent part
            fit = fit - self.variances * (C.T @ (solve((C @ fit) / size) / size))
        return np.asarray(fit)

    @cached_property
    def weights(self) -> FloatArray | None:
        """(C V Cᵀ)⁻¹, dense; ``None`` where there are too many conditions."""
        if self.conditions is None or self.conditions.shape[0] > MOST_DENSE:
            return None
        matrix, size = self.inner
        return np.asarray(np.linalg.inv(matrix.toarray()) / np.outer(size, size))

    def errors(self, combined: Any) -> FloatArray:
        """What each noise adds to combinations of the fitted numbers: T (I − V Cᵀ (C V Cᵀ)⁻¹ C)."""
        Z, C = self.weights, self.conditions
        assert Z is not None
        gain = (combined @ sparse.diags_array(self.variances) @ C.T) @ Z
        return np.asarray(combined.toarray() - (C.T @ gain.T).T)


def solution(rows: Any, noisy: FloatArray, variances: FloatArray) -> FloatArray:
    """Some x of which A x is the fit: by LSMR, on columns of length one."""
    from scipy.sparse.linalg import lsmr

    root = 1 / np.sqrt(variances)
    white = sparse.csr_array(rows).multiply(root[:, None]).tocsc()
    length = np.sqrt(np.asarray(white.power(2).sum(axis=0)).ravel())
    scale = 1 / np.where(length > 0, length, 1.0)
    system, x, right = (white @ sparse.diags_array(scale)).tocsr(), np.zeros(length.size), root * noisy
    for _ in range(3):  # from what is left each time: digits that one run has lost come back
        left = right - system @ x
        step, _, iterations, *_ = lsmr(
            system, left, atol=_TOLERANCE, btol=_TOLERANCE, conlim=0, maxiter=_MOST_ITERATIONS
        )
        if iterations >= _MOST_ITERATIONS:
            raise TooMuchWork(
                f"expected a fit within {_MOST_ITERATIONS:,} steps, got none; publish tables with less noise "
                "between the largest and the smallest"
            )
        x = x + step
    return np.asarray(x * scale)


@frozen(slots=False)
class LeastSquares:
    """The fit of numbers whose noise has given variances, block by block.

    >>> rows, partition = sparse.csr_array([[1, 0], [0, 1], [1, 1]]), np.array([0, 0, 1])
    >>> system = LeastSquares(rows=rows, variances=np.array([1.0, 1.0, 2.0]), partition=partition)
    >>> system.fitted(np.array([1.0, 2.0, 7.0])).tolist()  # the total is 4 too large: half of it is its own
    [2.0, 3.0, 5.0]
    >>> system.stddevs().round(3).tolist(), system.conditions
    ([0.866, 0.866, 1.0], 1)
    """

    rows: Any
    variances: FloatArray
    partition: IndexArray  # of every row; rows of one partition have no column in common

    @cached_property
    def blocks(self) -> tuple[_Block, ...]:
        """Numbers that have people in common, directly or through others."""
        from scipy.sparse.csgraph import connected_components

        rows = sparse.csr_array(self.rows)
        lines, columns = rows.shape
        both = sparse.block_array([[None, rows], [sparse.csr_array((columns, lines)), None]]).tocsr()
        _, label = connected_components(both, directed=False)
        order = np.argsort(label[:lines], kind="stable")
        ends = np.flatnonzero(np.diff(label[:lines][order])) + 1
        blocks = []
        for places in np.split(order, ends):
            inside = rows[places].tocsc()
            used = np.flatnonzero(np.diff(inside.indptr))
            blocks.append(
                _Block(
                    places=places,
                    rows=inside[:, used].tocsr(),
                    variances=self.variances[places],
                    partition=self.partition[places],
                )
            )
        return tuple(blocks)

    def with_noise(self, variances: FloatArray) -> LeastSquares:
        """The same rows with other noise: what depends on rows alone is not computed again."""
        blocks = []
        for block in self.blocks:
            blocks.append(replace(block, variances=variances[block.places]))
            blocks[-1].__dict__["conditions"] = block.conditions
        other = replace(self, variances=variances)
        other.__dict__["blocks"] = tuple(blocks)
        return other

    @property
    def conditions(self) -> int | None:
        """How many numbers follow from others: the degrees of freedom of what the fit leaves over."""
        conditions = [block.conditions for block in self.blocks]
        return None if any(one is None for one in conditions) else sum(one.shape[0] for one in conditions)

    def fitted(self, noisy: FloatArray) -> FloatArray:
        """The fit to some noisy numbers."""
        fit = np.zeros(noisy.size)
        for block in self.blocks:
            fit[block.places] = block.fitted(noisy[block.places])
        return fit

    def stddevs(self, combined: Any = None) -> FloatArray:
        """Of every fitted number, or of combinations T of them; not a number where too many hang together.

        A variance is a sum of squares: nothing cancels.
        """
        lines = sparse.csr_array(sparse.eye_array(self.variances.size) if combined is None else combined)
        variances = np.zeros(lines.shape[0])
        for block in self.blocks:
            inside = lines[:, block.places]
            used = np.flatnonzero(np.diff(inside.indptr))
            for some in np.array_split(used, max(1, used.size // 1000)):
                if block.weights is None:
                    variances[some] = np.inf
                else:
                    variances[some] += np.square(block.errors(inside[some])) @ block.variances
        return np.asarray(np.sqrt(np.where(np.isinf(variances), np.nan, variances)))

    def covariance(self, combined: Any = None) -> FloatArray:
        """Of all fitted numbers, or of combinations T of them: dense."""
        lines = sparse.csr_array(sparse.eye_array(self.variances.size) if combined is None else combined)
        covariance = np.zeros((lines.shape[0], lines.shape[0]))
        for block in self.blocks:
            if block.weights is None:
                raise TooMuchWork(
                    f"expected at most {MOST_DENSE:,} numbers that follow from others, got more; "
                    "the covariance of the fit is too large to write"
                )
            inside = lines[:, block.places]
            used = np.flatnonzero(np.diff(inside.indptr))
            errors = block.errors(inside[used])
            covariance[np.ix_(used, used)] += (errors * block.variances) @ errors.T
        return covariance
