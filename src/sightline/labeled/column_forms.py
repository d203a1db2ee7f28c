"""Quadratic and linear forms of a record's column.

The linear forms hold limbs of residues. Their sums are exact in every order of summation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from sightline.arrays import FloatArray


class ColumnForms(Protocol):
    """Some quadratic forms of a column, each with an offset, then some linear forms of it."""

    @property
    def offsets(self) -> FloatArray: ...

    @property
    def linear(self) -> FloatArray: ...

    def of_block(self, block: FloatArray) -> FloatArray:
        """All forms of the columns of a dense block, one a row."""

    def matrices(self) -> tuple[FloatArray, ...]:
        """The quadratic forms without offset as symmetric matrices; a vector for a diagonal one."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ProjectedForms:
    r"""For a column :math:`a`: :math:`o_i + \sum_m w_{im} (Pa)_m^2`. One product with P serves them all.

    The first form may be the squared length of the column after ``whitening``, a matrix or its diagonal: no
    rotation then mixes columns of very different size.
    """

    projection: FloatArray
    weights: FloatArray
    offsets: FloatArray
    linear: FloatArray
    whitening: FloatArray | None = None

    def of_block(self, block: FloatArray) -> FloatArray:
        rank = len(self.projection)
        images = np.concatenate([self.projection, self.linear]) @ block
        squares = np.square(images[:rank], out=images[:rank])
        quadratic = self.weights @ squares + self.offsets[:, None]
        if self.whitening is not None and self.whitening.ndim == 1:
            quadratic[0] = np.square(self.whitening) @ np.square(block)
        elif self.whitening is not None:
            quadratic[0] = np.sum(np.square(self.whitening @ block), axis=0)
        return np.concatenate([quadratic, images[rank:]])

    def matrices(self) -> tuple[FloatArray, ...]:
        found = []
        for weights in self.weights:
            used = np.flatnonzero(weights)
            P = self.projection[used]
            found.append((P.T * weights[used]) @ P)
        if self.whitening is not None and self.whitening.ndim == 1:
            found[0] = np.square(self.whitening)
        elif self.whitening is not None:
            found[0] = self.whitening.T @ self.whitening
        return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MatrixForms:
    r"""For a column :math:`a`: :math:`o_i + a^\top Y_i a`. Cheap where columns have few entries."""

    symmetric: tuple[FloatArray, ...]  # a vector for a diagonal matrix
    offsets: FloatArray
    linear: FloatArray

    def of_block(self, block: FloatArray) -> FloatArray:
        quadratic = [_quadratic(Y, block) for Y in self.symmetric]
        return np.concatenate([np.stack(quadratic) + self.offsets[:, None], self.linear @ block])

    def matrices(self) -> tuple[FloatArray, ...]:
        return self.symmetric


def square(Y: FloatArray) -> FloatArray:
    """A form's matrix, also where it is diagonal."""
    return np.diag(Y) if Y.ndim == 1 else Y


def _quadratic(Y: FloatArray, block: FloatArray) -> FloatArray:
    """The form of every column; without a product of matrices where the rows' noise is independent."""
    if Y.ndim == 1:
        return np.asarray(Y @ block**2)
    return np.asarray(np.einsum("ij,ij->j", block, Y @ block))
