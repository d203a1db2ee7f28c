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
from sightline.numerics.selected_inverse import SelectedInverse, selected_inverse
from sightline.numerics.sparse_cholesky import SparseCholesky, factorise
from sightline.numerics.sparse_symbolic import SymbolicFactor, analyse

_UNIT = float(np.finfo(np.float64).eps)
# Numbers in the dense blocks of a batch of solutions.
_BATCH = 1 << 23


def batches(count: int, rows: int) -> Iterator[slice]:
    """Slices of as many right sides as are solved for at a time."""
    step = max(1, min(256, _BATCH // max(1, rows)))
    for start in range(0, count, step):
        yield slice(start, min(start + step, count))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Dependencies:
    r"""Combinations N of the rows that vanish, with a factor of :math:`N^\top\Sigma N`."""

    combinations: Any  # rows × combinations, integers as a sparse array
    variances: FloatArray  # Σ: of each row's answer, in units of the incidence
    factor: SparseCholesky | None  # ``None``: there are no dependencies
    inverse: SelectedInverse | None

    @classmethod
    def of(cls, combinations: Any, variances: FloatArray) -> Dependencies | None:
        """``None`` where the factor would not be sparse."""
        if combinations.shape[1] == 0:
            return cls(combinations=combinations, variances=variances, factor=None, inverse=None)
        weighted = sparse.diags_array(np.sqrt(variances)) @ combinations
        products = sparse.tril(weighted.T @ weighted, format="coo")
        first, second = (part.astype(np.intp) for part in products.coords)
        symbolic = analyse(first, second, size=combinations.shape[1], most_entries=3e8)
        if not isinstance(symbolic, SymbolicFactor):
            return None
        # Sums of products err by a rounding of the two lengths for each term.
        longest = int(np.max(np.diff(combinations.indptr)))
        factor = factorise(symbolic, products.data, entry_error=2 * (longest + 4) * _UNIT)
        inverse = selected_inverse(factor, products.nnz)
        return cls(combinations=combinations, variances=variances, factor=factor, inverse=inverse)

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
        for part in batches(count, rows):
            _, squares[part], errors = self.best(recipes[:, part])
            worst = max(worst, float(np.max(errors)))
        return squares, worst

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

    def __getitem__(self, which: Any) -> FloatArray:
        """Some rows: a number for one, an array of numbers or of booleans for several."""
        chosen: IndexArray = np.atleast_1d(np.arange(len(self))[which])
        weights = np.zeros((chosen.size, self.exact.shape[0]))
        for part in batches(chosen.size, self.exact.shape[0]):
            weights[part] = self.dependencies.best(self.exact[:, chosen[part]])[0].T / self.scale
        return weights[0] if np.ndim(np.arange(len(self))[which]) == 0 else weights
