r"""How noisy the best recipe of a group is: with the first releases, with all, and without one.

Recipes of a group are one of them, :math:`w`, plus the null space of :math:`M = A A^\top`. In units of the
noise, :math:`\tilde w_\ell = \sigma_\ell w_\ell`, the best is the shortest: :math:`\tilde w` less its part in
the null space. A basis vector of the null space for every dependent row, supported on it and on earlier rows,
and made orthonormal in their order, gives it for the first releases one after the other. With all of them and
an orthonormal basis Q, rows R are done without by adding the shortest :math:`Qz` with
:math:`(\tilde w + Qz)_R = 0`, which makes the square of its length

.. math:: \|\tilde w\|^2 + \tilde w_R^\top (Q_R Q_R^\top)^\dagger\, \tilde w_R .
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sightline.arrays import FloatArray, IndexArray
from sightline.labeled.company import whitening
from sightline.labeled.design import MembershipDesign
from sightline.labeled.removal import Recipes
from sightline.numerics.inverse import inverse_of_products

# Products of rows that are as good as this, and noise of one size up to this, lose no digits that count.
_GOOD, _ALIKE = 1e-9, 1e3
# What is done without must be done with otherwise: shares of it below this are not read off rounded numbers.
_SHARE = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fit:
    """The best recipes of some groups, whitened."""

    recipes: FloatArray  # rows × groups, with all releases
    basis: FloatArray  # rows × dependent rows: Q
    in_order: FloatArray  # releases × groups: the length of the best recipe up to each release

    @classmethod
    def of(
        cls,
        design: MembershipDesign,
        exact: Recipes,
        products: FloatArray,
        columns: FloatArray,
        sizes: IndexArray,
    ) -> Fit | None:
        """``None`` where that would cost digits: correlated or very uneven noise, nearly dependent rows."""
        weights = np.abs(whitening(design))
        if weights.ndim == 2 or float(weights.max()) > _ALIKE * float(weights.min()):
            return None
        pivots, free = exact.pivots, exact.free
        found = inverse_of_products(products[np.ix_(pivots, pivots)])
        if found is None or found[1] > _GOOD:
            return None
        inverse, _ = found
        recipes = np.zeros(columns.shape)
        recipes[pivots] = inverse @ (columns * sizes)[pivots]
        null = np.zeros((len(weights), free.size))
        null[pivots] = -inverse @ products[np.ix_(pivots, free)]
        null[free, np.arange(free.size)] = 1.0
        # What is zero is known.
        recipes[exact.solved.T == 0] = 0.0
        null[exact.null.T == 0] = 0.0
        recipes /= weights[:, None]
        null /= weights[:, None]
        basis, _ = np.linalg.qr(null)
        in_order = np.zeros((design.release_count, sizes.size))
        release_of_vector = design.release_of[free]
        for release in range(design.release_count):
            new = basis[:, release_of_vector == release]
            recipes -= new @ (new.T @ recipes)
            in_order[release] = np.linalg.norm(recipes, axis=0)
        return cls(recipes=recipes, basis=basis, in_order=in_order)

    def without(self, lines: IndexArray, rank: int) -> FloatArray | None:
        """The lengths of the best recipes without some rows, whose part of the basis has that rank.

        Only for groups that have such recipes; ``None`` where that would cost digits.
        """
        part = self.basis[lines]
        values, vectors = np.linalg.eigh(part @ part.T)
        values, vectors = values[lines.size - rank :], vectors[:, lines.size - rank :]
        if rank and float(values[0]) < _SHARE:
            return None
        undone = vectors.T @ self.recipes[lines]
        squares = np.sum(self.recipes**2, axis=0) + np.sum(undone**2 / values[:, None], axis=0)
        return np.asarray(np.sqrt(squares))
