"""Quadratic forms of an inverse over rows, with a bound on their error: in doubles, or in balls for the few
that need all digits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import flint
import numpy as np

from sightline.arrays import FloatArray, IndexArray
from sightline.numerics.balls import BITS
from sightline.numerics.device import Device
from sightline.numerics.residuals import absolute_product, gamma, inverse_error_and_spread
from sightline.units.dense_units import TableBlock
from sightline.units.unit_block import UnitBlock, UnitColumns
from sightline.values import frozen


@dataclass(frozen=True, kw_only=True, eq=False)
class RowForm:
    r"""A positive definite matrix Y over pairs of rows, with a last row of zeros for none.

    Let :math:`Y` be a computed inverse of a positive definite P, symmetric to the last bit. Three errors add
    up:

    *The inverse.* :math:`\|PY - I\| \le \varepsilon` (:func:`~sightline.numerics.residuals.inverse_error`)
    means :math:`P^{1/2} Y P^{1/2} = I + \Delta` with :math:`\|\Delta\| \le \varepsilon`: every form of Y is
    that of :math:`P^{-1}`, to this relative error.

    *The matrix.* If P stands for a matrix whose forms differ from its own by at most the share
    :math:`\delta`, forms of the inverses differ by at most :math:`\delta/(1 - \delta)`. Entries that are off
    by :math:`\gamma |P_{ij}|` have :math:`\delta \le \gamma\, \||P||Y|\|_\infty`, entries off by :math:`r_i
    r_j` have :math:`\delta \le r^\top |Y| r`, both over :math:`1 - \varepsilon`: P and :math:`Y^{-1}` are as
    close.

    *The sum.* :math:`b^\top Y b` has terms of at most :math:`|b_i| \sqrt{Y_{ii}}\, |b_k| \sqrt{Y_{kk}}`,
    since Y is positive definite. So its rounding is at most :math:`\gamma\, (\sum_i |b_i| \sqrt{Y_{ii}})^2`.
    """

    stored: FloatArray | None = None
    placed: Any = None  # or, without the last row, on an accelerator
    error: float  # of every quadratic form, relatively
    projection: Any = None  # V and w, if Y is Vᵀ diag(w) V: other forms have the same V
    weights: FloatArray | None = None
    roundings: int = 0  # of each entry, over the root of both diagonal ones; an inverse's are in the error

    @classmethod
    def inverse(
        cls,
        matrix: Any,
        rows: IndexArray,
        numbers: int,
        *,
        error: float = 0.0,
        entries: Any = 0.0,
        given: Any = None,
    ) -> RowForm:
        """Of a matrix over some rows; one that is ``given`` is only checked. Both may lie on an accelerator.

        The error is infinite if the matrix is singular, to rounding.

        Forms of the matrix are known to the relative ``error``, its entries to ``entries`` :math:`r_i r_j`
        times the root of both diagonal ones.
        """
        device, diagonal = Device.holding(matrix), Device.holding(matrix).get(matrix.diagonal())
        if device.host and np.count_nonzero(matrix) == diagonal.size:  # inverted entry by entry
            full = np.zeros((numbers + 1, numbers + 1))
            full[rows, rows] = 1 / diagonal
            off = error + gamma(12) + float(np.max(entries, initial=0.0)) ** 2
            return cls(stored=full, error=1 / (1 - off) - 1 if off < 1 else math.inf)
        # By powers of two, which round nothing, so that the diagonal is between 1/2 and 2.
        powers = np.ldexp(1.0, -(np.frexp(diagonal)[1] // 2))
        scale = device.put(powers)
        scaled = matrix * scale[:, None]
        scaled *= scale
        inverse = device.inverse(scaled) if given is None else given / (scale[:, None] * scale)
        if inverse is None:
            return cls(stored=np.zeros((numbers + 1, numbers + 1)), error=math.inf)
        reach = (entries * np.sqrt(diagonal) * powers)[:, None]
        off = 0.0
        if np.any(reach):
            off = float((reach.T @ device.get(absolute_product(inverse, device.put(reach))))[0, 0])
        off_unit, spread = inverse_error_and_spread(scaled, inverse)
        inverse *= scale[:, None]
        inverse *= scale
        bound = math.inf
        if off_unit < 1 and (off := error + (gamma(12) * spread + off) / (1 - off_unit)) < 1:
            bound = (1 + off_unit) / (1 - off) - 1
        if not device.host and rows.size == numbers:
            return cls(placed=inverse, error=bound)
        full = np.zeros((numbers + 1, numbers + 1))
        full[part_of(rows, numbers)] = device.get(inverse)
        return cls(stored=full, error=bound)

    @cached_property
    def matrix(self) -> FloatArray:
        """Y on the host."""
        if self.stored is not None:
            return self.stored
        size = len(self.placed)
        full = np.zeros((size + 1, size + 1))
        full[:-1, :-1] = Device.holding(self.placed).numbers(self.placed)
        return full

    @cached_property
    def root(self) -> FloatArray:
        """The roots of the diagonal, with a zero for no row."""
        if self.stored is not None:
            return np.sqrt(np.diagonal(self.stored))
        return np.append(np.sqrt(Device.holding(self.placed).numbers(self.placed.diagonal())), 0.0)

    def among(self, rows: IndexArray) -> FloatArray:
        """Y over some rows that one person is in; of a diagonal, too."""
        return np.diag(self.matrix[rows]) if self.matrix.ndim == 1 else self.matrix[np.ix_(rows, rows)]

    def forms(self, block: UnitColumns) -> FloatArray:
        """BᵀYB of every kind."""
        if self.projection is not None and self.weights is not None and isinstance(block, TableBlock):
            return block.projected(self.projection, self.weights)
        if self.placed is not None and isinstance(block, TableBlock):
            return block.forms(self.placed)
        return block.forms(self.matrix)

    def read(self, block: UnitColumns) -> tuple[FloatArray, FloatArray]:
        """BᵀYB of every kind, and a bound on the error in any unit direction (and of half the trace norm)."""
        forms = self.forms(block)
        if not self.error < 1:
            return forms, np.full(len(block), np.inf)
        error = self.error / (1 - self.error) * np.trace(forms, axis1=1, axis2=2)
        return forms, error + gamma(block.terms + self.roundings) * block.sizes(self.root)

    def left(self, block: UnitColumns, C: FloatArray) -> tuple[FloatArray, FloatArray]:
        """C − C BᵀYB C: what is left of a prior covariance C, and a bound on its error in any unit
        direction.
        """
        seen, error = self.read(block)
        largest = np.abs(C).sum(axis=-1).max(axis=-1)
        # Of no covariance nothing is off, whatever the form's error.
        off = np.multiply(error, largest**2, where=largest > 0, out=np.zeros(len(block)))
        return C - C @ seen @ C, off + gamma(4 * C.shape[-1]) * largest


def part_of(rows: IndexArray, numbers: int) -> Any:
    """The place of some rows and the same columns in a square table of so many; all of them in their order
    are a slice, which is read without a copy.
    """
    everything = rows.size == numbers and bool(np.all(rows[1:] > rows[:-1]))
    return (slice(numbers), slice(numbers)) if everything else np.ix_(rows, rows)


def over_rows(matrix: FloatArray, rows: IndexArray) -> FloatArray:
    """The part of a square table over some rows and the same columns; not to be written to."""
    return np.asarray(matrix[part_of(rows, len(matrix))])


@frozen(slots=False)
class BallForm:
    """(N + P/u)⁻¹ for the noise N and exact products P over a unit u, in balls: for the few units that need
    it.

    The units have one column each.
    """

    noise: FloatArray  # variances, or a covariance matrix
    whitener: FloatArray | None = None  # or, in place of it, W with WᵀW the inverse of the covariance
    products: Any  # whole numbers, or rationals: a matrix of FLINT
    unit: float

    def left(self, block: UnitBlock, C: FloatArray) -> tuple[FloatArray, FloatArray]:
        """As :meth:`RowForm.left`."""
        columns = block.dense(len(self.noise))[:-1]
        prior = np.broadcast_to(C, (len(block), 1, 1)).ravel()
        levels = np.rint(prior * self.unit).astype(int).tolist()  # 1, or the levels of the weights
        shares = []
        for bits in BITS:
            with flint.ctx.workprec(bits):
                A = flint.arb_mat([[flint.arb(entry) for entry in line] for line in columns.tolist()])
                try:
                    solved = self._matrix().solve(A).transpose().tolist()
                except ZeroDivisionError:  # singular, as far as these bits say
                    continue
                forms = [dot(a, x) for a, x in zip(A.transpose().tolist(), solved, strict=True)]
                shares = [1 - level * form for level, form in zip(levels, forms, strict=True)]
            if all(share.rel_accuracy_bits() >= 40 for share in shares):
                break
        if not shares:
            return np.zeros((len(block), 1, 1)), np.full(len(block), np.inf)
        values = np.array([float(share.mid()) for share in shares])
        # The noise over the unit is rounded once more: forms are monotone in it.
        radius = np.array([float(share.rad()) for share in shares]) + gamma(16) * np.abs(values)
        return (prior * values)[:, None, None], prior * radius

    def _matrix(self) -> Any:
        """u N + P."""
        unit, zero = flint.arb(self.unit), flint.arb(0)
        if self.whitener is not None:
            white = flint.arb_mat([[flint.arb(entry) for entry in line] for line in self.whitener.tolist()])
            return (white.transpose() * white).inv() * unit + flint.arb_mat(self.products)
        noise = np.diag(self.noise) if self.noise.ndim == 1 else self.noise
        lines = [[unit * flint.arb(entry) if entry else zero for entry in line] for line in noise.tolist()]
        return flint.arb_mat(lines) + flint.arb_mat(self.products)


def dot(left: list[Any], right: list[Any]) -> Any:
    """The product of two lists of balls."""
    return sum((a * b for a, b in zip(left, right, strict=True)), flint.arb(0))
