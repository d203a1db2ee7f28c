r"""The best unbiased attacks on identifiable groups, from exact recipes and the dependencies of the rows.

An exact recipe y of a group's sum satisfies :math:`A^\top y = c`. Where rows depend on each other,
:math:`A^\top N = 0`, there are more: :math:`y - N t` for every t. With the rows' noise variances
:math:`\Sigma` the best of them is

.. math:: y^* = y - N\,(N^\top \Sigma N)^{-1} N^\top \Sigma\, y

(``eq:mse_optimal_s4``: generalised least squares, in the coordinates of the answers). For any t the variance
of :math:`y - Nt` exceeds the least one by :math:`r^\top (N^\top\Sigma N)^{-1} r` with
:math:`r = N^\top\Sigma(y - Nt)`, so its error is bounded from the answer itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from sightline.arrays import FloatArray, IndexArray
from sightline.labeled.packed_solutions import batches
from sightline.numerics.selected_inverse import SelectedInverse, selected_inverse
from sightline.numerics.sparse_cholesky import SparseCholesky, factorise
from sightline.numerics.sparse_symbolic import SymbolicFactor, analyse

_UNIT = float(np.finfo(np.float64).eps)
# So many recipes are computed one by one, with errors from the answers; of more, the variances alone are read
# off the selected inverse, unless a recipe meets more than so many combinations.
_FEW, _MOST_MET = 256, 60
# Pairs of combinations that are looked up at a time.
_LOOKED_UP = 1 << 22


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Dependencies:
    r"""Combinations N of the rows that vanish, with a factor of :math:`N^\top\Sigma N`."""

    combinations: Any  # rows × combinations, integers as a sparse array
    variances: FloatArray  # Σ: of each row's answer, in units of the incidence
    factor: SparseCholesky | None  # ``None``: there are no dependencies
    inverse: SelectedInverse | None
    keys: IndexArray  # of the pairs of combinations that the inverse has values for, ascending

    @classmethod
    def of(cls, combinations: Any, variances: FloatArray, recipes: Any = None) -> Dependencies | None:
        """``None`` where the factor would not be sparse.

        With many ``recipes``, the inverse has values for the pairs that their variances need.
        """
        count = combinations.shape[1]
        if count == 0:
            return cls.none(combinations.shape[0], variances)
        # Products that cancel stay in the pattern: the inverse is not zero there.
        pattern = sparse.tril(abs(combinations).T @ abs(combinations), format="coo")
        keys = np.sort(_keys(pattern.coords, count))
        if recipes is not None and recipes.shape[1] > _FEW:
            met = _met(combinations, recipes)
            more = [pairs.ravel() for _, pairs, _ in _pairs_met(met)]
            keys = np.unique(np.concatenate([keys, *more]))
        symbolic = analyse(keys // count, keys % count, size=count, most_entries=3e8)
        if not isinstance(symbolic, SymbolicFactor):
            return None
        weighted = sparse.diags_array(np.sqrt(variances)) @ combinations
        products = sparse.tril(weighted.T @ weighted, format="coo")
        values = np.zeros(keys.size)
        values[np.searchsorted(keys, _keys(products.coords, count))] = products.data
        # Sums of products err by a rounding of the two lengths for each term.
        longest = int(np.max(np.diff(sparse.csc_array(combinations).indptr)))
        factor = factorise(symbolic, values, entry_error=2 * (longest + 4) * _UNIT)
        inverse = selected_inverse(factor, keys.size)
        return cls(combinations=combinations, variances=variances, factor=factor, inverse=inverse, keys=keys)

    @classmethod
    def none(cls, rows: int, variances: FloatArray) -> Dependencies:
        """No combination vanishes."""
        nothing = sparse.csc_array((rows, 0))
        no_keys = np.zeros(0, dtype=np.intp)
        return cls(combinations=nothing, variances=variances, factor=None, inverse=None, keys=no_keys)

    @property
    def independent(self) -> int:
        """At least so many of the combinations are independent of each other: proved; 0 where it is not."""
        if self.factor is None or self.inverse is None or not self.inverse.proves_independence:
            return 0
        return int(np.count_nonzero(~self.factor.dropped))

    def least_variances(self, recipes: Any) -> tuple[FloatArray, float]:
        """The noise variances of the best recipes, and a bound on the relative errors of all of them."""
        rows, count = recipes.shape
        if self.factor is None:
            return np.asarray(recipes.power(2).T @ self.variances), 4 * rows * _UNIT if count else 0.0
        squares, worst = np.zeros(count), 0.0
        left = np.arange(count)
        if count > _FEW:
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
        assert self.inverse is not None
        spread = sparse.diags_array(self.variances)
        own = np.asarray(recipes.power(2).T @ self.variances)
        u = _at_pattern(met, self.combinations.T @ (spread @ recipes))
        reach = _at_pattern(met, abs(self.combinations).T @ (spread @ abs(recipes)))
        count = np.intp(met.shape[0])
        diagonal = np.searchsorted(self.keys, np.arange(count) * (count + 1))
        roots = np.sqrt(np.abs(self.inverse.values[diagonal]))
        sums = np.add.reduceat(np.append(reach * roots[met.indices], 0.0), met.indptr[:-1])
        size = np.where(np.diff(met.indptr) > 0, sums, 0.0) ** 2
        explained = np.zeros(own.size)
        for columns, pairs, (a, b) in _pairs_met(met):
            values = self.inverse.values[np.searchsorted(self.keys, pairs)]
            weight = u[met.indptr[columns][:, None] + np.arange(int(a.max()) + 1)]
            explained[columns] = np.sum(values * weight[:, a] * weight[:, b] * np.where(a == b, 1, 2), axis=1)
        least = own - explained
        terms = int(np.max(np.diff(recipes.indptr), initial=0)) + 2 * _MOST_MET + 8
        off = self.inverse.relative_error * explained + 4 * terms * _UNIT * (own + size)
        with np.errstate(invalid="ignore", divide="ignore"):
            return least, np.where(off < least / 2, 2 * off / least, math.inf)

    def best(self, recipes: Any) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The best recipes from exact ones, their noise variances, and bounds on relative errors of those.

        Recipes are columns.
        """
        y = recipes.toarray()
        spread = self.variances[:, None]
        if self.factor is None or self.inverse is None:
            least, error = self.least_variances(recipes)
            return y, least, np.full(y.shape[1], error)
        N = self.combinations
        kept = ~self.factor.dropped
        scale = np.zeros(kept.size)
        scale[self.factor.symbolic.order] = np.where(kept, self.factor.scale, 0.0)
        for _ in range(2):  # the second is a step of refinement
            y = y - N @ self.factor.solve(N.T @ (spread * y))
        least = np.sum(spread * y**2, axis=0)
        left = np.abs(N.T @ (spread * y))
        left += 2 * len(y) * _UNIT * (abs(N).T @ (spread * np.abs(y)))
        # The largest eigenvalue of an inverse is at most its trace.
        reach = self.inverse.trace * (1 + self.inverse.relative_error)
        excess = reach * np.sum((scale[:, None] * left) ** 2, axis=0)
        with np.errstate(invalid="ignore", divide="ignore"):
            errors = np.where(excess < least / 2, excess / least, math.inf) + 4 * len(y) * _UNIT
        return y, least, errors


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecipesOnDemand:
    """The recipes of the best unbiased attacks, one a row; each is computed when it is asked for."""

    exact: Any  # exact recipes, rows × groups, sparse
    dependencies: Dependencies
    scale: FloatArray  # what an answer multiplies its row by

    def __len__(self) -> int:
        return int(self.exact.shape[1])

    def of_few_numbers(self, row: int) -> FloatArray:
        """The exact recipe that a row's best one was made from: unbiased, with a larger error."""
        return np.asarray(self.exact[:, [row]].toarray()[:, 0] / self.scale)

    def __getitem__(self, which: Any) -> FloatArray:
        """Some rows: a number for one, an array of numbers or of booleans for several."""
        chosen: IndexArray = np.atleast_1d(np.arange(len(self))[which])
        weights = np.zeros((chosen.size, self.exact.shape[0]))
        for part in batches(chosen.size, self.exact.shape[0]):
            weights[part] = self.dependencies.best(self.exact[:, chosen[part]])[0].T / self.scale
        return weights[0] if np.ndim(np.arange(len(self))[which]) == 0 else weights


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
    keys, own = (
        np.repeat(np.arange(one.shape[1]), np.diff(one.indptr)) * np.intp(one.shape[0]) + one.indices
        for one in (pattern, table)
    )
    values = np.zeros(keys.size)
    values[np.searchsorted(keys, own)] = table.data
    return values


def _pairs_met(met: Any) -> Iterator[tuple[IndexArray, IndexArray, tuple[IndexArray, IndexArray]]]:
    """Recipes that meet as many combinations each, and the keys of all pairs of those, some at a time.

    Recipes that meet too many are left out.
    """
    degrees, count = np.diff(met.indptr), met.shape[0]
    for degree in np.unique(degrees[(degrees > 0) & (degrees <= _MOST_MET)]).tolist():
        alike = np.flatnonzero(degrees == degree)
        higher, lower = np.tril_indices(degree)
        step = max(1, _LOOKED_UP // higher.size)
        for start in range(0, alike.size, step):
            chosen = alike[start : start + step]
            rows = met.indices[met.indptr[chosen][:, None] + np.arange(degree)].astype(np.intp)
            yield chosen, rows[:, higher] * count + rows[:, lower], (higher, lower)
