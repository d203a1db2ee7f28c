"""Numbers read off a record's column: quadratic forms that share one projection, and exact linear forms."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sightline.arrays import FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class QuadraticForms:
    r"""For a column :math:`a`: :math:`o_i + \sum_m w_{im} (Pa)_m^2` for each i, then :math:`\ell_k^\top a`.

    All the quadratic forms come from one product with :math:`P`. The linear forms hold limbs of residues:
    their sums are exact, whatever the order of summation.
    """

    projection: FloatArray
    weights: FloatArray
    offsets: FloatArray
    linear: FloatArray

    @property
    def count(self) -> int:
        return len(self.weights) + len(self.linear)

    def of_block(self, block: FloatArray) -> FloatArray:
        """All forms of the columns of a dense block."""
        rank = len(self.projection)
        images = np.concatenate([self.projection, self.linear]) @ block
        squares = np.square(images[:rank], out=images[:rank])
        quadratic = self.weights @ squares + self.offsets[:, None]
        return np.concatenate([quadratic, images[rank:]])

    def matrices(self) -> FloatArray:
        """The quadratic forms as symmetric matrices, last axis first: shape (rows, rows, forms)."""
        P = self.projection
        return np.stack([(P.T * w) @ P for w in self.weights], axis=-1)
