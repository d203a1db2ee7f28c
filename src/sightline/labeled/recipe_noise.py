r"""Who stays identifiable without a release, and the noise of the best recipe: from one elimination.

**Who.** The sum over a group is identifiable iff :math:`A^\top w = 1_g` has a solution: a recipe. With
:math:`M = A A^\top` reduced to echelon form, one recipe is supported on the pivots, the rows that are
independent of the earlier ones. It is the only one there, so the group becomes identifiable with the last
row that it uses. All others differ from it by the null space of M, which has a basis vector for every other
row, supported on it and on earlier pivots. Without some rows the group stays identifiable iff adding a
vector of the null space makes the recipe vanish on them.

**How sharply.** The recipes of a group are one of them, :math:`w`, plus the null space of :math:`M = A
A^\top`. In units of the noise, :math:`\tilde w_\ell = \sigma_\ell w_\ell`, the best recipe is the shortest:
:math:`\tilde w` less its projection on the null space. The null space has a basis vector for every
dependent row, supported on that row and on earlier ones. Made orthonormal in this order, the basis gives
the best recipe after each release. With an orthonormal basis Q of the whole null space, the best recipe
that does not use the rows R adds the shortest :math:`Qz` with :math:`(\tilde w + Qz)_R = 0`, and the square
of its length is

.. math:: \|\tilde w\|^2 + \tilde w_R^\top (Q_R Q_R^\top)^\dagger\, \tilde w_R .

**Errors.** The recipes and the null vectors come from an approximate inverse X of the pivots' products
:math:`M_P`. Rounding multiplies them by :math:`X M_P`, whose distance :math:`\rho` from one is computed. With
the vectors scaled to unit length as the columns of J, no length :math:`|Jy|` is then off by more than
:math:`\eta = \sqrt{n}\,\rho\,\|J^+\|` of it, and neither is the shortest recipe. Without the rows R it may
also miss the condition :math:`(\tilde w + Qz)_R = 0` by :math:`\eta`, which costs :math:`\eta` over the least
singular value of :math:`Q_R`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from sightline.arrays import FloatArray, IndexArray
from sightline.labeled.units import BoolArray
from sightline.numerics import exact_library as flint
from sightline.numerics import residues
from sightline.numerics.inverse import inverse_of_products
from sightline.numerics.residuals import eigenvector_errors, gamma, orthonormality_error
from sightline.numerics.residues import Residues

# Gram matrices of at most this error, and noise that differs by at most this factor, lose no digits that
# count.
_GOOD, _ALIKE = 1e-9, 1e3
# Below this eigenvalue digits have cancelled: factorise again.
_SHARE = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ModularRecipes:
    """The recipes of identifiable groups, modulo a prime."""

    prime: int
    pivots: IndexArray  # rows that are independent of the earlier ones
    free: IndexArray  # the others
    solved: Residues  # groups × rows: the recipe that is supported on the pivots
    null: Residues  # free rows × rows: changes that no record sees

    @classmethod
    def of(cls, products: FloatArray, columns: FloatArray, sizes: IndexArray) -> ModularRecipes:
        """From the products of rows, and the columns (rows × groups) and sizes of the groups."""
        sums = (columns * sizes).T.astype(np.int64)
        echelon = residues.reduced(products.astype(np.int64), lambda prime: np.mod(sums, np.int64(prime)))
        return cls(
            prime=echelon.prime,
            pivots=echelon.pivots,
            free=echelon.free,
            solved=echelon.solved,
            null=echelon.null_space(),
        )

    @property
    def last(self) -> IndexArray:
        """For every group, the row with which it becomes identifiable."""
        last: IndexArray = self.solved.shape[1] - 1 - np.argmax(self.solved[:, ::-1] != 0, axis=1)
        return last

    def without(self, rows: IndexArray) -> tuple[BoolArray, int]:
        """Which groups stay identifiable without some rows, and how many directions are lost with them."""
        used = self.solved[:, rows]
        touching = self.null[:, rows]
        touching = touching[np.any(touching != 0, axis=1)]
        if touching.size == 0:
            return ~np.any(used != 0, axis=1), int(rows.size)
        # k with kᵀ N = 0 on these rows: a recipe can be made to vanish on them iff all k are blind to it.
        blind, lost = _matrix(touching, self.prime).nullspace()
        remainder = (blind.transpose() * _matrix(used.T, self.prime)).tolist()[: int(lost)]
        stays = [not any(int(row[group]) for row in remainder) for group in range(len(used))]
        return np.array(stays, dtype=np.bool_), int(lost)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecipeNoise:
    """The best recipes of some groups, whitened."""

    recipes: FloatArray  # rows × groups, with all releases
    basis: FloatArray  # rows × dependent rows: Q
    in_order: FloatArray  # releases × groups: the length of the best recipe up to each release
    errors: FloatArray  # over the groups: bounds on the relative errors of these lengths

    @classmethod
    def of(
        cls,
        products: FloatArray,
        weights: FloatArray,
        release_of: IndexArray,
        exact: ModularRecipes,
        sums: FloatArray,
    ) -> RecipeNoise | None:
        """For groups whose columns add up to ``sums`` (rows × groups), in noise of the scales 1/weights.

        ``None`` where that would cost digits: very uneven noise, nearly dependent rows.
        """
        if float(weights.max()) > _ALIKE * float(weights.min()):
            return None
        pivots, free = exact.pivots, exact.free
        found = inverse_of_products(products[np.ix_(pivots, pivots)])
        if found is None or not found[1] <= _GOOD:
            return None
        inverse, _ = found
        recipes = np.zeros(sums.shape)
        recipes[pivots] = inverse @ sums[pivots]
        null = np.zeros((len(weights), free.size))
        null[pivots] = -inverse @ products[np.ix_(pivots, free)]
        null[free, np.arange(free.size)] = 1.0
        # The exact zeros are known.
        recipes[exact.solved.T == 0] = 0.0
        null[exact.null.T == 0] = 0.0
        recipes /= weights[:, None]
        null /= weights[:, None]
        basis, triangle = np.linalg.qr(null)
        start = np.linalg.norm(recipes, axis=0)
        in_order = np.zeros((int(release_of[-1]) + 1, sums.shape[1]))
        release_of_vector = release_of[free]
        for release in range(len(in_order)):
            new = basis[:, release_of_vector == release]
            recipes -= new @ (new.T @ recipes)
            in_order[release] = np.linalg.norm(recipes, axis=0)
        rounded = _inverse_error(inverse, products[np.ix_(pivots, pivots)], weights[pivots])
        each = rounded + 4 * gamma(len(weights)) + 2 * _basis_error(null, basis, triangle)
        with np.errstate(divide="ignore", invalid="ignore"):
            shrink = np.where(start > 0, start / in_order[-1], 0.0)
        eta = math.sqrt(free.size + 1) * each * (_spread(triangle) * (1 + shrink) + shrink)
        errors = np.where(eta < 1 / 4, eta / np.maximum(1 - 2 * eta, 0.5), np.inf)
        return cls(recipes=recipes, basis=basis, in_order=in_order, errors=errors)

    def without(self, rows: IndexArray, rank: int) -> tuple[FloatArray, FloatArray] | None:
        """The lengths of the best recipes without some rows, whose part of the basis has that rank.

        With bounds on their relative errors. Only for groups that have such recipes; ``None`` where that
        would cost digits.
        """
        part = self.basis[rows]
        products = part @ part.T
        values, vectors = np.linalg.eigh(products)
        residual, apart = eigenvector_errors(products, values, vectors)
        residual += gamma(part.shape[1]) * rows.size
        values, vectors = values[rows.size - rank :], vectors[:, rows.size - rank :]
        if rank and float(values[0]) < _SHARE:
            return None
        undone = vectors.T @ self.recipes[rows]
        squares = np.sum(self.recipes**2, axis=0) + np.sum(undone**2 / values[:, None], axis=0)
        least = float(values[0]) if rank else 1.0
        errors = self.errors * (1 + 1 / math.sqrt(least)) + apart + 2 * residual / least
        return np.sqrt(squares), errors


def _inverse_error(inverse: FloatArray, matrix: FloatArray, weights: FloatArray) -> float:
    r"""A bound on the norm of :math:`W^{-1}(X M - I)W`, with the rounding of a product with X."""
    ratios = weights / weights[:, None]
    residual = inverse @ matrix
    residual[np.diag_indices_from(residual)] -= 1.0
    size = np.abs(inverse) @ np.abs(matrix)
    rounding = 2 * gamma(len(matrix)) * float(np.linalg.norm(size * ratios))
    return float(np.linalg.norm(residual * ratios)) + rounding


def _basis_error(null: FloatArray, basis: FloatArray, triangle: FloatArray) -> float:
    """A bound on how far a basis is from an orthonormal one of the same space, relative to its vectors."""
    if null.size == 0:
        return 0.0
    lengths = np.linalg.norm(null, axis=0)
    off = np.linalg.norm(null - basis @ triangle, axis=0) / lengths
    return (
        orthonormality_error(basis) + float(np.max(off)) + 2 * gamma(len(triangle)) * math.sqrt(len(triangle))
    )


def _spread(triangle: FloatArray) -> float:
    """The norm of the inverse of a triangle whose columns are scaled to unit length."""
    if triangle.size == 0:
        return 0.0
    unit = triangle / np.linalg.norm(triangle, axis=0)
    return float(np.linalg.norm(solve_triangular(unit, np.eye(len(unit)), check_finite=False)))


def _matrix(values: Residues, prime: int) -> flint.nmod_mat:
    rows, columns = values.shape
    return flint.nmod_mat(rows, columns, values.ravel().tolist(), prime)
