r"""Persons with several rows, as limits on the attacks on every linear feature of their rows.

With the columns :math:`B = [\sqrt{n_s}\,a_s]` of a person and a unit direction u, :math:`Bu` is the column
of a feature, and :math:`\varphi_u = 1/(u^\top B^\top N B u) - \tau` is the limit on attacks on it:
:math:`N = S^{-1}` and :math:`\tau = 0` if all other persons are known, and
:math:`N = (S + \tau A A^\top)^{-1}` if nobody is. Each
:math:`\varphi_u` is concave in the variances, so their least value is. It is that of the top eigenvector of
:math:`B^\top N B`, which is the lowest one of the posterior block. A direction that is broken at an optimum
becomes a constraint, until none is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csc_array, hstack

from sightline.arrays import FloatArray, IndexArray

_BROKEN = 1e-9  # by how much of its level a direction must be broken


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PersonBlocks:
    """The persons with several rows whom the floor does not protect."""

    kind: IndexArray  # their units, among those of the findings
    blocks: tuple[csc_array, ...]  # B of each

    def __len__(self) -> int:
        return len(self.blocks)

    def sharpest(self, matrix: FloatArray, chosen: IndexArray) -> tuple[FloatArray, csc_array]:
        """For some persons the largest eigenvalue of BᵀNB, and the column Bu; N may be a diagonal."""
        values, columns = np.zeros(chosen.size), []
        for place, person in enumerate(chosen.tolist()):
            B = self.blocks[person]
            block = B.T @ (B.multiply(matrix[:, None]) if matrix.ndim == 1 else matrix @ B)
            lengths, directions = np.linalg.eigh(block if isinstance(block, np.ndarray) else block.toarray())
            values[place] = lengths[-1]
            columns.append(csc_array(B @ csc_array(directions[:, -1:])))
        empty = csc_array((self.blocks[0].shape[0], 0)) if self.blocks else csc_array((0, 0))
        return values, csc_array(hstack(columns, format="csc")) if columns else empty

    def broken(
        self, matrix: FloatArray, chosen: IndexArray, *, tau: float, needed: float
    ) -> tuple[IndexArray, csc_array]:
        """The persons of some with a direction that is broken, and its column."""
        values, columns = self.sharpest(matrix, chosen)
        worse = np.flatnonzero(1 / values - tau < needed * (1 - _BROKEN))
        return chosen[worse], csc_array(columns[:, worse])
