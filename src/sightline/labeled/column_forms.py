"""Quadratic and linear forms of a record's column.

The linear forms hold limbs of residues. Their sums are exact in every order of summation. Forms are evaluated
where their arrays lie: :meth:`ColumnForms.on` moves them to a device.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import numpy as np

from sightline.arrays import FloatArray, namespace, to_numpy
from sightline.numerics.device import Device


class ColumnForms(Protocol):
    """Some quadratic forms of a column, each with an offset, then some linear forms of it."""

    @property
    def offsets(self) -> FloatArray: ...

    @property
    def linear(self) -> FloatArray: ...

    def on(self, device: Device) -> ColumnForms:
        """The same forms with all arrays on a device."""

    def of_block(self, block: Any) -> Any:
        """All forms of the columns of a dense block where the arrays are, one a row."""

    def matrices(self) -> tuple[FloatArray, ...]:
        """The quadratic forms without offset as symmetric matrices; a vector for a diagonal one."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ProjectedForms:
    r"""For a column :math:`a`: :math:`o_i + \sum_m w_{im} (Pa)_m^2`. One product with P serves them all.

    The first form may be the squared length of the column after ``whitening``, a matrix or its diagonal: no
    rotation then mixes columns of very different size.
    """

    projection: Any
    weights: Any
    offsets: Any
    linear: Any
    whitening: Any = None

    def on(self, device: Device) -> Self:
        return replace(
            self,
            projection=device.put(self.projection),
            weights=device.put(self.weights),
            offsets=device.put(self.offsets),
            linear=device.put(self.linear),
            whitening=device.put(self.whitening),
        )

    def of_block(self, block: Any) -> Any:
        xp, rank = namespace(block), len(self.projection)
        images = xp.concatenate([self.projection, self.linear]) @ block
        squares = images[:rank]
        squares *= squares  # in place where the library can
        quadratic = [self.weights @ squares + self.offsets[:, None]]
        if self.whitening is not None:
            if self.whitening.ndim == 1:
                length = (self.whitening * self.whitening) @ (block * block)
            else:
                length = xp.sum(xp.square(self.whitening @ block), axis=0)
            quadratic = [length[None], quadratic[0][1:]]
        return xp.concatenate([*quadratic, images[rank:]])

    def matrices(self) -> tuple[FloatArray, ...]:
        found, projection = [], to_numpy(self.projection)
        for weights in to_numpy(self.weights):
            used = np.flatnonzero(weights)
            P = projection[used]
            found.append((P.T * weights[used]) @ P)
        if self.whitening is not None:
            whitening = to_numpy(self.whitening)
            found[0] = np.square(whitening) if whitening.ndim == 1 else whitening.T @ whitening
        return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MatrixForms:
    r"""For a column :math:`a`: :math:`o_i + a^\top Y_i a`. Cheap where columns have few entries."""

    symmetric: tuple[Any, ...]  # a vector for a diagonal matrix
    offsets: Any
    linear: Any

    def on(self, device: Device) -> Self:
        return replace(
            self,
            symmetric=tuple(device.put(Y) for Y in self.symmetric),
            offsets=device.put(self.offsets),
            linear=device.put(self.linear),
        )

    def of_block(self, block: Any) -> Any:
        xp = namespace(block)
        quadratic = xp.stack([_quadratic(Y, block) for Y in self.symmetric])
        return xp.concatenate([quadratic + self.offsets[:, None], self.linear @ block])

    def matrices(self) -> tuple[FloatArray, ...]:
        return tuple(to_numpy(Y) for Y in self.symmetric)


def square(Y: FloatArray) -> FloatArray:
    """A form's matrix, also where it is diagonal."""
    return np.diag(Y) if Y.ndim == 1 else Y


def _quadratic(Y: Any, block: Any) -> Any:
    """The form of every column; without a product of matrices where the rows' noise is independent."""
    if Y.ndim == 1:
        return Y @ (block * block)
    return namespace(block).einsum("ij,ij->j", block, Y @ block)
