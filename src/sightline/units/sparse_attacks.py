r"""The best unbiased attacks on identifiable groups, from exact recipes and the dependencies of the rows.

An exact recipe y of a group's sum satisfies :math:`A^\top y = c`. Where rows depend on each other,
:math:`A^\top N = 0`, there are more: :math:`y - N t` for every t. With the rows' noise variances
:math:`\Sigma` the best of them is

.. math:: y^* = y - N\,(N^\top \Sigma N)^{-1} N^\top \Sigma\, y

(``eq:mse_optimal_s4``: generalised least squares, in the coordinates of the answers). For any t the variance
of :math:`y - Nt` exceeds the least one by :math:`r^\top (N^\top\Sigma N)^{-1} r` with
:math:`r = N^\top\Sigma(y - Nt)`, so its error is bounded from the answer itself.

**Many right sides.** Rows that no chain of shared records connects are in different components: what is
solved for in one leaves the others alone. So right sides of different components are solved for as one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse

from sightline.arrays import AT_A_TIME, FloatArray, IndexArray
from sightline.numerics.integers import CLOSE
from sightline.numerics.residuals import UNIT
from sightline.numerics.sparse_cholesky import SelectedInverse, SparseCholesky, factorise, selected_inverse
from sightline.numerics.sparse_symbolic import analyse
from sightline.units.dense_units import MOST_LISTED
from sightline.values import frozen

# So many recipes are computed one by one, with errors from the answers; of more, the variances alone are read
# off the selected inverse, unless a recipe meets more than so many combinations.
FEW_RECIPES, _MOST_MET = 256, 60


@frozen
class Dependencies:
    r"""Combinations N of the rows that vanish, with a factor of :math:`N^\top\Sigma N`."""

    combinations: Any  # rows × combinations, integers as a sparse array
    variances: FloatArray  # Σ: of each row's answer, in units of the incidence
    factor: SparseCholesky
    inverse: SelectedInverse
    keys: IndexArray  # of the pairs of combinations that the inverse has values for, ascending

    @classmethod
    def of(cls, combinations: Any, variances: FloatArray, recipes: Any) -> Dependencies | Independent | None:
        """``None`` where the factor would not be sparse.

        With many ``recipes``, the inverse has values for the pairs that their variances need.
        """
        count = combinations.shape[1]
        if count == 0:
            return Independent(variances=variances)
        # Products that cancel stay in the pattern: the inverse is not zero there.
        pattern = sparse.tril(abs(combinations).T @ abs(combinations), format="coo")
        keys = np.sort(_keys(pattern.coords, count))
        if recipes.shape[1] > FEW_RECIPES:
            met = _met(combinations, recipes)
            more = [pairs.ravel() for _, pairs, _ in _pairs_met(met)]
            keys = np.unique(np.concatenate([keys, *more]))
        symbolic = analyse(keys // count, keys % count, size=count, most_entries=3e8)
        if symbolic is None:
            return None
        weighted = sparse.diags_array(np.sqrt(variances)) @ combinations
        products = sparse.tril(weighted.T @ weighted, format="coo")
        values = np.zeros(keys.size)
        values[np.searchsorted(keys, _keys(products.coords, count))] = products.data
        # Sums of products err by a rounding of the two lengths for each term.
        longest = int(np.max(np.diff(sparse.csc_array(combinations).indptr)))
        factor = factorise(symbolic, values, entry_error=2 * (longest + 4) * UNIT)
        inverse = selected_inverse(factor, keys.size)
        return cls(combinations=combinations, variances=variances, factor=factor, inverse=inverse, keys=keys)

    def least_variances(self, recipes: Any) -> tuple[FloatArray, float]:
        """The noise variances of the best recipes, and a bound on the relative errors of all of them."""
        rows, count = recipes.shape
        squares, worst = np.zeros(count), 0.0
        left = np.arange(count)
        if count > FEW_RECIPES:
            met = _met(self.combinations, recipes)
            squares, errors = self._from_inverse(recipes, met)
            left = np.flatnonzero(np.diff(met.indptr) > _MOST_MET)
            worst = float(np.max(np.delete(errors, left), initial=0.0))
        for part in batches(left.size, rows):
            _, squares[left[part]], errors = self.best(recipes[:, left[part]])
            worst = max(worst, float(np.max(errors)))
        return squares, worst

    def _from_inverse(self, recipes: Any, met: Any) -> tuple[FloatArray, FloatArray]:
        r"""The variances :math:`y^\top\Sigma y - u^\top (N^\top\Sigma N)^{-1} u`, :math:`u = N^\top\Sigma y`.

        With bounds on their relative errors. ``met`` are the combinations that each recipe has a row of.
        """
        spread = sparse.diags_array(self.variances)
        before = np.asarray(recipes.power(2).T @ self.variances)
        u = _at_pattern(met, self.combinations.T @ (spread @ recipes))
        reach = _at_pattern(met, abs(self.combinations).T @ (spread @ abs(recipes)))
        count = np.intp(met.shape[0])
        diagonal = np.searchsorted(self.keys, np.arange(count) * (count + 1))
        roots = np.sqrt(np.abs(self.inverse.values[diagonal]))
        sums = np.add.reduceat(np.append(reach * roots[met.indices], 0.0), met.indptr[:-1])
        size = np.where(np.diff(met.indptr) > 0, sums, 0.0) ** 2
        explained = np.zeros(before.size)
        for columns, pairs, (a, b) in _pairs_met(met):
            values = self.inverse.values[np.searchsorted(self.keys, pairs)]
            weight = u[met.indptr[columns][:, None] + np.arange(int(a.max()) + 1)]
            explained[columns] = np.sum(values * weight[:, a] * weight[:, b] * np.where(a == b, 1, 2), axis=1)
        least = before - explained
        terms = int(np.max(np.diff(recipes.indptr), initial=0)) + 2 * _MOST_MET + 8
        off = self.inverse.relative_error * explained + 4 * terms * UNIT * (before + size)
        with np.errstate(invalid="ignore", divide="ignore"):
            return least, np.where(off < least / 2, 2 * off / least, math.inf)

    def best(self, recipes: Any) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The best recipes from exact ones, their noise variances, and bounds on relative errors of those.

        Recipes are columns.
        """
        y = recipes.toarray()
        spread = self.variances[:, None]
        N = self.combinations
        kept = ~self.factor.dropped
        scale = np.zeros(kept.size)
        scale[self.factor.symbolic.order] = np.where(kept, self.factor.scale, 0.0)
        for _ in range(2):  # the second is a step of refinement
            y = y - N @ self.factor.solve(N.T @ (spread * y))
        least = np.sum(spread * y**2, axis=0)
        left = np.abs(N.T @ (spread * y))
        left += 2 * len(y) * UNIT * (abs(N).T @ (spread * np.abs(y)))
        # The largest eigenvalue of an inverse is at most its trace.
        reach = self.inverse.trace * (1 + self.inverse.relative_error)
        excess = reach * np.sum((scale[:, None] * left) ** 2, axis=0)
        with np.errstate(invalid="ignore", divide="ignore"):
            errors = np.where(excess < least / 2, excess / least, math.inf) + 4 * len(y) * UNIT
        return y, least, errors


@frozen
class Independent:
    """Rows of which no combination vanishes: every exact recipe is the best one."""

    variances: FloatArray

    def least_variances(self, recipes: Any) -> tuple[FloatArray, float]:
        """As of :class:`Dependencies`."""
        rows, count = recipes.shape
        return np.asarray(recipes.power(2).T @ self.variances), 4 * rows * UNIT if count else 0.0

    def best(self, recipes: Any) -> tuple[FloatArray, FloatArray, FloatArray]:
        """As of :class:`Dependencies`."""
        least, error = self.least_variances(recipes)
        return recipes.toarray(), least, np.full(recipes.shape[1], error)


def _keys(pairs: tuple[IndexArray, ...], count: int) -> IndexArray:
    """One number for each pair, the larger of the two first."""
    first, second = pairs
    keys: IndexArray = np.maximum(first, second).astype(np.intp) * count + np.minimum(first, second)
    return keys


def _met(combinations: Any, recipes: Any) -> Any:
    """The combinations that have a row in common with each recipe: the pattern of a sparse array."""
    met = sparse.csc_array(abs(combinations).T @ abs(recipes))
    met.sort_indices()
    return met


def _at_pattern(pattern: Any, table: Any) -> FloatArray:
    """The entries of a sparse table at those of a pattern that holds them all, in the pattern's order."""
    table = sparse.csc_array(table)
    keys, stored = (
        np.repeat(np.arange(one.shape[1]), np.diff(one.indptr)) * np.intp(one.shape[0]) + one.indices
        for one in (pattern, table)
    )
    values = np.zeros(keys.size)
    values[np.searchsorted(keys, stored)] = table.data
    return values


def _pairs_met(met: Any) -> Iterator[tuple[IndexArray, IndexArray, tuple[IndexArray, IndexArray]]]:
    """Recipes that meet as many combinations each, and the keys of all pairs of those, some at a time.

    Recipes that meet too many are left out.
    """
    degrees, count = np.diff(met.indptr), met.shape[0]
    for degree in np.unique(degrees[(degrees > 0) & (degrees <= _MOST_MET)]).tolist():
        alike = np.flatnonzero(degrees == degree)
        higher, lower = np.tril_indices(degree)
        step = max(1, AT_A_TIME // higher.size)
        for start in range(0, alike.size, step):
            chosen = alike[start : start + step]
            rows = met.indices[met.indptr[chosen][:, None] + np.arange(degree)].astype(np.intp)
            yield chosen, rows[:, higher] * count + rows[:, lower], (higher, lower)


def batches(count: int, rows: int) -> Iterator[slice]:
    """Slices of as many right sides as are solved for at a time."""
    step = max(1, min(FEW_RECIPES, 4 * AT_A_TIME // max(1, rows)))
    for start in range(0, count, step):
        yield slice(start, min(start + step, count))


def components_of(factor: SparseCholesky, first: IndexArray, second: IndexArray) -> IndexArray:
    """The component of every row over the kept rows, from the pairs of rows with a record in common.

    -1 for dropped rows.
    """
    size = factor.symbolic.size
    kept = np.zeros(size, dtype=np.bool_)
    kept[factor.kept] = True
    joined = kept[first] & kept[second]
    graph = sparse.coo_array(
        (np.ones(np.count_nonzero(joined), dtype=np.int8), (first[joined], second[joined])),
        shape=(size, size),
    )
    from scipy.sparse.csgraph import connected_components  # small audits start without it

    _, component = connected_components(graph, directed=False)
    return np.where(kept, component, -1).astype(np.intp)


def packed_solutions(
    factor: SparseCholesky, component: IndexArray, right: Any
) -> Iterator[tuple[IndexArray, Any]]:
    """Solutions over the kept rows for the columns of a sparse array, as sparse columns, batch by batch.

    With each batch come the places of its columns. Later ones of a component are left out where there are
    too many.
    """
    right = sparse.csc_array(right)
    size, count = right.shape
    target = np.repeat(np.arange(count), np.diff(right.indptr))
    used = component[right.indices] >= 0
    row, target, value = right.indices[used], target[used], right.data[used].astype(np.float64)
    reached = _Reached.of(component[row], target, count)
    for part in batches(min(reached.blocks, MOST_LISTED), size):
        chosen = (reached.block >= part.start) & (reached.block < part.stop)
        within = chosen[target]
        block = np.zeros((size, part.stop - part.start))
        np.add.at(block, (row[within], reached.block[target[within]] - part.start), value[within])
        solved = factor.solve(block)
        line, place = np.nonzero(np.abs(solved) > CLOSE)
        owner = reached.owner(component[line], place + part.start)
        solutions = sparse.csc_array((solved[line, place], (line, owner)), shape=(size, count))
        yield np.flatnonzero(chosen), solutions[:, chosen]


@frozen
class _Reached:
    """Which right sides share a column of the blocks that are solved for: those of different components."""

    block: IndexArray  # the column that each right side is in
    blocks: int
    width: int  # more than the components
    keys: IndexArray  # of the pairs of component and column that are used, ascending
    owners: IndexArray  # the right side of each

    @classmethod
    def of(cls, component: IndexArray, target: IndexArray, count: int) -> _Reached:
        """From the components that each right side has an entry in."""
        width = int(component.max(initial=-1)) + 2
        pairs = np.unique(target * np.intp(width) + component)
        free = [0] * width  # the first column that a component is not yet in
        block = np.zeros(count, dtype=np.intp)
        owner, components = pairs // width, (pairs % width).tolist()
        bounds = np.searchsorted(owner, np.arange(count + 1)).tolist()
        for side in range(count):
            mine = components[bounds[side] : bounds[side + 1]]
            column = max((free[one] for one in mine), default=0)
            for other in mine:
                free[other] = column + 1
            block[side] = column
        keys = block[owner] * width + pairs % width
        order = np.argsort(keys)
        return cls(
            block=block,
            blocks=int(block.max(initial=-1)) + 1,
            width=width,
            keys=keys[order],
            owners=owner[order],
        )

    def owner(self, component: IndexArray, block: IndexArray) -> IndexArray:
        """The right side that each entry of a solution belongs to."""
        owners: IndexArray = self.owners[np.searchsorted(self.keys, block * self.width + component)]
        return owners
