"""Numbers read off a record's column: quadratic forms, and exact linear forms beside them.

The linear forms hold limbs of residues: their sums are exact, whatever the order of summation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from sightline.arrays import FloatArray


class Forms(Protocol):
    """Some quadratic forms of a column, each with an offset, then some linear forms of it."""

    @property
    def offsets(self) -> FloatArray: ...

    @property
    def linear(self) -> FloatArray: ...

    def of_block(self, block: FloatArray) -> FloatArray:
        """All forms of the columns of a dense block, one a row."""

    def matrices(self) -> FloatArray:
        """The quadratic forms without offset as symmetric matrices, shape (rows, rows, forms)."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ProjectedForms:
    r"""For a column :math:`a`: :math:`o_i + \sum_m w_{im} (Pa)_m^2`. One product with P serves them all."""

    projection: FloatArray
    weights: FloatArray
    offsets: FloatArray
    linear: FloatArray

    def of_block(self, block: FloatArray) -> FloatArray:
        rank = len(self.projection)
        images = np.concatenate([self.projection, self.linear]) @ block
        squares = np.square(images[:rank], out=images[:rank])
        quadratic = self.weights @ squares + self.offsets[:, None]
        return np.concatenate([quadratic, images[rank:]])

    def matrices(self) -> FloatArray:
        found = []
        for weights in self.weights:
            used = np.flatnonzero(weights)
            P = self.projection[used]
            found.append((P.T * weights[used]) @ P)
        return np.stack(found, axis=-1)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MatrixForms:
    r"""For a column :math:`a`: :math:`o_i + a^\top Y_i a`. Cheap where columns have few entries."""

    stacked: FloatArray  # rows × rows × forms
    offsets: FloatArray
    linear: FloatArray

    def of_block(self, block: FloatArray) -> FloatArray:
        quadratic = [_quadratic(Y, block) for Y in np.moveaxis(self.stacked, -1, 0)]
        return np.concatenate([np.stack(quadratic) + self.offsets[:, None], self.linear @ block])

    def matrices(self) -> FloatArray:
        return self.stacked


def _quadratic(Y: FloatArray, block: FloatArray) -> FloatArray:
    """The form of every column; without a product of matrices where the rows' noise is independent."""
    diagonal = np.diagonal(Y)
    if np.count_nonzero(Y) == np.count_nonzero(diagonal):
        return np.asarray(diagonal @ block**2)
    return np.asarray(np.einsum("ij,ij->j", block, Y @ block))
