r"""Who stays identifiable without a release: for every release, exactly, from one elimination.

The sum over a group is identifiable iff :math:`A^\top w = 1_g` has a solution: a recipe. With :math:`M = A
A^\top` reduced to echelon form, one recipe is supported on the pivots, the rows that are independent of the
earlier ones. It is the only one there, so the group becomes identifiable with the last row that it uses. All
others differ from it by the null space of M, which has a basis vector for every other row, supported on it
and on earlier pivots. Without some rows the group stays identifiable iff adding a vector of the null space
makes the recipe vanish on them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sightline.arrays import FloatArray, IndexArray
from sightline.labeled.units import BoolArray
from sightline.numerics import exact_library as flint
from sightline.numerics import residues
from sightline.numerics.residues import Residues


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


def _matrix(values: Residues, prime: int) -> flint.nmod_mat:
    rows, columns = values.shape
    return flint.nmod_mat(rows, columns, values.ravel().tolist(), prime)
