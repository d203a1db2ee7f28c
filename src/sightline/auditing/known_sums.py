r"""Every linear number as a sum over classes of rows that nothing tells apart, with its noise.

Class u has :math:`n_u` rows that the attacker does not know. A number adds up their values with weights
:math:`A_{cu}`, and has noise :math:`\sigma_c`. A combination :math:`w` of numbers is a sum with the weights
:math:`A^\top w` and the noise :math:`\sqrt{w^\top \Sigma\, w}`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from sightline.arrays import FloatArray, IndexArray
from sightline.auditing.findings import Findings
from sightline.auditing.lowering import linear_partitions
from sightline.tables.membership import Membership, Statistic

# Signatures × partitions up to which numbers are combined, the releases with the fewest groups first.
_MOST_ENTRIES = 2_000_000


@dataclass(frozen=True, kw_only=True, eq=False)
class KnownSums:
    """Sums over classes of unknown rows; for a category a class for each category of a signature."""

    cells: IndexArray  # the published number that each sum is
    weights: Any  # sums × classes, sparse: the weight of each row's value
    counts: FloatArray  # rows of each class
    shares: FloatArray  # the prior chance of an indicator, of each class; one half for a number
    totals: FloatArray  # the true sum over the rows of each class
    signature: IndexArray  # of each class
    deviation: FloatArray  # standard deviation of the noise on each sum
    copies: IndexArray  # of each number; 0 if it is a recipe of several
    correlation: FloatArray | None = None  # of the noise, if it is not independent

    def __len__(self) -> int:
        return int(self.cells.size)

    @cached_property
    def whitened(self) -> Any:
        """The weights in units of independent noise: L⁻¹ A, if the noise has the covariance L Lᵀ."""
        scaled = sparse.diags_array(1 / self.deviation) @ self.weights
        if self.correlation is None:
            return sparse.csr_array(scaled)
        return sparse.csr_array(np.linalg.solve(self._factor, scaled.toarray()))

    @cached_property
    def _factor(self) -> FloatArray:
        """L of the correlations, L Lᵀ, up to rounding."""
        assert self.correlation is not None
        shifted = self.correlation + 1e-12 * np.eye(len(self))
        return np.asarray(np.linalg.cholesky(shifted), dtype=np.float64)

    def unwhitened(self, combination: FloatArray) -> FloatArray:
        """The weights on the numbers of a combination of independent ones."""
        if self.correlation is not None:
            combination = np.asarray(np.linalg.solve(self._factor.T, combination), dtype=np.float64)
        return np.asarray(combination / self.deviation)

    def noise(self, combination: FloatArray) -> float:
        """The standard deviation of the noise on a combination of the numbers."""
        scaled = combination * self.deviation
        if self.correlation is None:
            return float(np.linalg.norm(scaled))
        return float(np.sqrt(max(0.0, float(scaled @ self.correlation @ scaled))))


def known_sums(findings: Findings, totals: FloatArray, *, coarse: bool = False) -> KnownSums | None:
    """The linear numbers of a plan; ``totals`` are the true sums of every signature and column.

    With ``coarse``, of as many releases as can be combined, those with the fewest groups first.
    """
    membership, pricing = findings.membership, findings.pricing
    parts = linear_partitions(membership)
    parts = _coarse(membership, parts) if coarse else parts
    categories = findings.plan.data.categories or (None,)
    unknown = (membership.counts - membership.known).astype(np.float64)
    inside = np.flatnonzero(unknown > 0)
    rows, columns, entries = [], [], []
    for p in parts:
        part, place = membership.partitions[p], membership.positions(p)[inside]
        counted = [c for c, name in enumerate(categories) if name is None or name in part.categories]
        sign = 1.0 if part.above else -1.0
        own = np.flatnonzero(place >= 0)
        for column in counted:
            rows.append(place[own])
            columns.append(own * len(categories) + column)
            entries.append(sign * membership.weights_in(p)[inside][own])
    if not rows:
        return None
    # Noise counts on the sum of a mean's rows, and on the mean of copies.
    owner = pricing.owner
    mean = np.array([part.statistic is Statistic.MEAN for part in membership.partitions])[owner]
    size = np.where(mean, [cell.rows for cell in membership.cells], 1.0)
    stddev = np.maximum(pricing.noise_stddev, pricing.scale * pricing.exact)
    deviation = stddev * size / np.sqrt(pricing.times[owner])
    shape = (len(membership.cells), inside.size * len(categories))
    table = sparse.csr_array(
        (np.concatenate(entries), (np.concatenate(rows), np.concatenate(columns))), shape=shape
    )
    table.eliminate_zeros()
    # Of numbers that share noise, those about known rows alone tell of the noise.
    sharing = np.isin(owner, list(pricing.strategies)) & np.isin(owner, parts)
    cells = np.flatnonzero((np.diff(table.indptr) > 0) | sharing)
    if not table.nnz:
        return None
    correlation = None
    if sharing.any():
        correlation = pricing.covariance[np.ix_(cells, cells)] / np.outer(stddev[cells], stddev[cells])
    share = 0.5 if findings.plan.data.categories is None else findings.prior.share
    return KnownSums(
        cells=cells,
        weights=table[cells],
        counts=np.repeat(unknown[inside], len(categories)),
        shares=np.full(shape[1], share),
        totals=totals[inside].ravel(),
        signature=np.repeat(inside, len(categories)),
        deviation=deviation[cells],
        copies=pricing.times[owner][cells].astype(np.intp),
        correlation=correlation,
    )


def _coarse(membership: Membership, parts: Sequence[int]) -> list[int]:
    """The partitions with the fewest groups, as many as can be combined with each other."""
    starts, size = membership.starts, max(1, len(membership.signatures))
    order = sorted(parts, key=lambda p: int(starts[p + 1] - starts[p]))
    return sorted(order[: max(1, _MOST_ENTRIES // size)])
