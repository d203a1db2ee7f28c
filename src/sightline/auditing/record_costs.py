r"""What the releases cost every record by itself: a release that it is not in costs it nothing.

Who is in which group is public, so a neighbouring table has other secrets of one record in the same groups.
With noise :math:`\sigma_c` on cell c of sensitivity :math:`\Delta_c`, which is that of :math:`m` rows (the
row norm of its partition, see ``pricing.py``), a record with :math:`n_c` rows in the cell moves it by at most
:math:`\frac{n_c}{m}\,\Delta_c/\sigma_c` in units of the noise. All rows at one end of the domain against all
at the other attains this for every mean and sum at once, so that

.. math:: \mu_j^2 = \sum_c T_c \Bigl(\frac{n_c}{m}\Bigr)^2 \frac{\Delta_c^2}{\sigma_c^2}

over the cells with the record, published :math:`T_c` times, is the record's Gaussian-DP parameter. In a
histogram a row leaves one category and enters another: it pays half of :math:`\Delta^2/\sigma^2` for each of
the two, at most those with the least noise. For other features the sum is an upper bound.

Where numbers share noise that a strategy C draws (:mod:`sightline.noise.strategies`), a record with
:math:`u_t` rows in step t moves what is measured by :math:`\|Cu\|`: in place of :math:`\sum_c n_c^2` stands
:math:`u^\top |C^\top C|\, u`, and the row norm m is the root of the largest of these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

import numpy as np

from sightline.arrays import FloatArray, IndexArray, parts
from sightline.noise.strategies import Strategy
from sightline.tables.membership import Membership
from sightline.values import frozen


@frozen
class CellCosts:
    """What one copy of every published number costs a record with ``row_norms`` rows there."""

    costs: FloatArray  # (Δ/σ)² of each cell
    bundles: tuple[tuple[int, ...], ...]  # partitions that are one release
    times: IndexArray  # copies of each partition
    row_norms: FloatArray  # of each partition: the rows that its sensitivity is priced for
    strategies: Mapping[int, Strategy] = field(
        default_factory=dict
    )  # of partitions whose numbers share noise

    def by_record(self, membership: Membership) -> FloatArray:
        """The total of every kind of person; of every signature where nobody has several rows."""
        total = np.zeros(len(membership.people))
        equal: dict[float, list[int]] = {}  # partitions of one cell, by what it costs those in it
        for bundle in self.bundles:
            each = self._of_bundle(membership.starts, bundle)
            strategy = self.strategies.get(bundle[0])
            if strategy is not None:  # its numbers have one cost
                squares = squared_norms(membership, bundle[0], strategy)
                own = squares / self.row_norms[bundle[0]] ** 2 * float(each.max(initial=0.0))
            elif not membership.by_person:  # all rows of a signature have one cell, or none: the last entry
                share = max(1, membership.contributions) / self.row_norms[bundle[0]]
                if each.size == 1:  # most of a thousand such releases cost the same: count them
                    equal.setdefault(float(self.times[bundle[0]] * share**2 * each[0]), []).append(bundle[0])
                    continue
                own = np.append(share**2 * each, 0.0)[membership.signatures[:, bundle[0]]]
            else:
                cells = membership.rows_in_cells(bundle[0])
                paid = (cells.rows / self.row_norms[bundle[0]]) ** 2 * each[cells.cell]
                own = np.bincount(cells.record, paid, total.size)
            total += self.times[bundle[0]] * own
        for cost, partitions in equal.items():
            number = np.zeros(total.size, dtype=np.int32)
            for partition in partitions:
                number += membership.signatures[:, partition] >= 0
            total[number > 0] += cost * number[number > 0]  # an exact number costs others nothing, not NaN
        return total

    def largest(self, membership: Membership) -> float:
        """The total of the record that pays most, rounded up."""
        total = membership.largest(self._most)
        roundings = 8 + 2 * len(self.bundles) + int(membership.contributions)
        roundings += max((len(one.table) for one in self.strategies.values()), default=0)
        return float(total) * (1 + roundings * 2**-52)

    def _most(self, membership: Membership) -> FloatArray:
        return np.asarray(np.max(self.by_record(membership), initial=0.0))

    def _of_bundle(self, starts: IndexArray, bundle: Sequence[int]) -> FloatArray:
        costs = np.array([self.costs[starts[p] : starts[p + 1]] for p in bundle])
        if len(bundle) == 1:
            return np.asarray(costs[0])
        return np.asarray(np.sort(costs, axis=0)[-2:].sum(axis=0) / 2)


def squared_norms(membership: Membership, partition: int, strategy: Strategy) -> FloatArray:
    """For every record uᵀ|CᵀC|u, with u its rows in the steps of a partition."""
    own, norms = membership.rows_in_cells(partition), np.zeros(len(membership.people))
    order = np.argsort(own.record, kind="stable")
    record, cell, rows = own.record[order], own.cell[order], own.rows[order].astype(np.float64)
    records, first, sizes = np.unique(record, return_index=True, return_counts=True)
    for size in np.unique(sizes).tolist():
        chosen = np.flatnonzero(sizes == size)
        for own_part in parts(chosen.size, each=size**2):
            some = chosen[own_part]
            places = first[some][:, None] + np.arange(size)
            step, block, u = cell[places] % strategy.steps, cell[places] // strategy.steps, rows[places]
            products = strategy.products[step[:, :, None], step[:, None, :]]
            products = np.where(block[:, :, None] == block[:, None, :], products, 0.0)
            norms[records[some]] = np.einsum("ni,nij,nj->n", u, products, u)
    return norms


def most_own_releases(
    membership: Membership, *, shared: tuple[tuple[int, ...], ...], times: IndexArray, row_norms: FloatArray
) -> float:
    """The most releases of some that one record is in, rounded up; a part of its rows counts squared."""
    each = CellCosts(costs=np.ones(len(membership.cells)), bundles=shared, times=times, row_norms=row_norms)
    return each.largest(membership)
