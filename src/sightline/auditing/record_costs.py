r"""What the releases cost every record by itself: a release that it is not in costs it nothing.

Who is in which group is public, so a neighbouring table has other secrets of one record in the same groups.
With noise :math:`\sigma_c` on cell c of sensitivity :math:`\Delta_c`, which is that of :math:`m` rows (the
row norm of its partition, see ``pricing.py``), a record with :math:`n_c` rows in the cell moves it by at most
:math:`\frac{n_c}{m}\,\Delta_c/\sigma_c` in units of the noise. All rows at one end of the domain against all
at the other attains this for every mean and sum at once, so that

.. math:: \mu_j^2 = \sum_c T_c \Bigl(\frac{n_c}{m}\Bigr)^2 \frac{\Delta_c^2}{\sigma_c^2}

over the cells with the record, published :math:`T_c` times, is the record's Gaussian-DP parameter. Laplace
noise costs :math:`\sum_c T_c \frac{n_c}{m}\,\Delta_c/b_c`. In a histogram a row leaves one category and
enters another: it pays half of :math:`\Delta^2/\sigma^2` (half of :math:`\Delta/b`) for each of the two, at
most those with the least noise. For other features the sum is an upper bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sightline.arrays import FloatArray, IndexArray
from sightline.privacy.accountant import NoiseLaw
from sightline.tables.membership import Membership


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CellCosts:
    """What one copy of every published number costs a record with ``row_norms`` rows there."""

    costs: FloatArray  # (Δ/σ)² of each cell, or Δ/b under Laplace noise
    bundles: tuple[tuple[int, ...], ...]  # partitions that are one release
    times: IndexArray  # copies of each partition
    row_norms: FloatArray  # of each partition: the rows that its sensitivity is priced for
    law: NoiseLaw = NoiseLaw.GAUSSIAN

    def by_record(self, membership: Membership) -> FloatArray:
        """The total of every kind of person; of every signature where nobody has several rows."""
        table = membership.persons
        total = np.zeros(len(membership.signatures) if table is None else len(table.persons))
        power = 1 if self.law is NoiseLaw.LAPLACE else 2
        for bundle in self.bundles:
            each = self._of_bundle(membership.starts, bundle)
            own = membership.rows_in_cells(bundle[0])
            paid = self.times[bundle[0]] * (own.rows / self.row_norms[bundle[0]]) ** power * each[own.cell]
            total += np.bincount(own.record, paid, total.size)
        return total

    def largest(self, membership: Membership) -> float:
        """The total of the record that pays most, rounded up."""
        total = self.by_record(membership)
        roundings = 8 + 2 * len(self.bundles) + int(membership.contributions)
        return float(np.max(total, initial=0.0)) * (1 + roundings * 2**-52)

    def _of_bundle(self, starts: IndexArray, bundle: Sequence[int]) -> FloatArray:
        costs = np.array([self.costs[starts[p] : starts[p + 1]] for p in bundle])
        if len(bundle) == 1:
            return np.asarray(costs[0])
        return np.asarray(np.sort(costs, axis=0)[-2:].sum(axis=0) / 2)
