r"""What is left of given features of one person's rows: a period, the total, one row.

A feature weighs the rows of a person with :math:`f`, and with :math:`q = \sum_i f_i a_i` over these rows

.. math:: 1 - s\, \frac{q^\top Y q}{f^\top f}

is what the best linear attack leaves of it. If row i is hidden as a Gaussian of variance :math:`c_i`, no
attack leaves less than :math:`f^\top C f - q_C^\top Y_C\, q_C` with :math:`q_C = \sum_i c_i f_i a_i`: van
Trees' inequality for all features at once, of which the sharpest one is the least.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from sightline.arrays import FloatArray, IndexArray
from sightline.bounds.assessment import SlicedExposure, UnitExposure
from sightline.numerics.residuals import gamma
from sightline.units.row_products import RowProducts
from sightline.units.unit_block import UnitBlock
from sightline.values import frozen


@frozen(slots=False)
class PersonRows:
    """The rows of one person of a kind: columns over the numbers that they are in, and how many of each."""

    exposure: UnitExposure
    least: float  # the lower end of the sharpest feature
    block: UnitBlock
    table: FloatArray  # columns × numbers that the person is in
    touched: IndexArray  # these numbers
    published: IndexArray  # which published number each of them is; -1 for a sum of several

    @classmethod
    def of(cls, exposure: UnitExposure, kind: int) -> PersonRows:
        """Of a kind whose units are in memory, and hold numbers."""
        if isinstance(exposure, SlicedExposure):
            slices = exposure.slices
            rows = cls.of(exposure.sums, int(slices.kind_of[kind]))
            numbers = np.where(slices.summed > 1, -1, slices.seen_by(kind)[slices.rows])
            return replace(rows, least=float(exposure.lower[kind, 0]), published=numbers[rows.touched])
        units = exposure.design.units.choose(np.array([kind]))
        (block,) = units.blocks()
        table = block.table(units.numbers)[:, : units.numbers].tocsc()
        table.eliminate_zeros()
        touched = np.flatnonzero(np.diff(table.indptr))
        table = np.asarray(table[:, touched].toarray())
        return cls(
            exposure=exposure,
            least=float(exposure.lower[kind, 0]),
            block=block,
            table=table,
            touched=touched,
            published=touched,
        )

    @property
    def times(self) -> FloatArray:
        """Rows in each column."""
        return np.asarray(self.block.times[0], dtype=np.float64)

    @property
    def one_by_one(self) -> IndexArray:
        """Columns in no sum of several numbers."""
        return np.flatnonzero(~(self.table[:, self.published < 0] != 0).any(axis=1))

    def brackets(self, sums: Any, squares: Any) -> tuple[FloatArray, FloatArray]:
        """The lower and the upper end of features, one a column: Σ f and Σ f² over the rows of each column.

        Features of few rows may be sparse arrays. Upper ends are rounded up. No lower end is below that of
        the sharpest feature.
        """
        exposure = self.exposure
        prior, solver, lengths = exposure.design.prior, exposure.solver, squares.sum(axis=0)
        seen, off = self._forms(solver.linear, sums)
        upper = np.clip(1 - prior.scale * (seen - off) / lengths, 0.0, 1.0)
        lower = np.full(lengths.size, self.least)
        if solver.weighted is not None and not solver.noise.exact.any():
            products, unit = solver.weighted
            even = products.matrix is solver.sums.matrix
            weights = RowProducts(prior=prior, noise=solver.noise, unit=unit, even=even)
            variance = weights.levels(self.block)[0] / unit
            seen, off = self._forms(solver.hidden, variance[:, None] * sums)
            left = (variance @ squares) * (1 - gamma(len(variance))) - seen - off
            lower = np.maximum(lower, solver.noise.share * left / (prior.scale * lengths) * (1 - gamma(8)))
        return np.minimum(lower, upper), upper

    def _forms(self, form: Any, sums: Any) -> tuple[FloatArray, FloatArray]:
        """qᵀYq of every feature, and a bound on its error."""
        Y, q = form.among(self.touched), self.table.T @ sums
        forms = np.einsum("im,im->m", q, Y @ q)
        size = np.sqrt(np.maximum(np.diagonal(Y), 0.0)) @ (np.abs(self.table.T) @ abs(sums))
        if not form.error < 1:
            return forms, np.full(forms.size, np.inf)
        rounding = gamma(2 * sum(self.table.shape) + 16) * size**2
        return forms, rounding + form.error / (1 - form.error) * forms
