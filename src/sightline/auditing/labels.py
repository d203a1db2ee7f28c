r"""Whose a value is: whether releases over subsets tell apart the rows that moments and thresholds do not.

Exchange the values of two rows that are in the same cells of every moment and threshold: none of these
releases changes. A linear release changes if it has only one of the two. Over all linear releases the answers
then move by

.. math:: D = |x_i - x_k| \sqrt{\textstyle\sum_c (a_{ci} - a_{ck})^2 / \sigma_c^2}

noise deviations. An attacker who knew every value, but not whose it is, would confuse the two with
probability :math:`Q(D/2)` under Gaussian noise. The label of a row is *open* if for some row with another
value this probability is above 2.5 %, else *resolved*. An attacker who does not know the values does worse:
open labels are open, resolved ones may not be. Owner-only, since D depends on the values.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sightline.arrays import FloatArray
from sightline.auditing.lowering import LINEAR
from sightline.auditing.pricing import Pricing
from sightline.privacy.accountant import NoiseLaw
from sightline.tables.membership import Membership, RowValues, Statistic

# Deviations at which two rows are confused one time in forty: 2Φ⁻¹(0.975); for one Laplace answer 2 ln 20.
_RESOLVED = {NoiseLaw.GAUSSIAN: 3.92, NoiseLaw.LAPLACE: 5.992}


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelCounts:
    """Rows whose value moments or thresholds show, by whether subsets show whose it is."""

    open: int
    resolved: int


def label_counts(
    membership: Membership, pricing: Pricing, values: RowValues, shown: NDArray[np.bool_]
) -> LabelCounts | None:
    """The counts among the rows of ``shown`` that are in a cell of a moment or threshold; ``None`` if no
    linear release tells apart any two rows of such a cell, so that the question does not arise."""
    signature = values.signature.astype(np.intp)
    nonlinear = [p for p, part in enumerate(membership.partitions) if part.feature not in LINEAR]
    cells = membership.signatures[:, nonlinear]
    _, alike = np.unique(cells, axis=0, return_inverse=True)
    alike = alike.ravel()
    inside = np.any(cells >= 0, axis=1)
    columns = _linear_columns(membership, pricing)
    if not any(
        np.any(columns[:, same] != columns[:, same[:1]])
        for kind in np.unique(alike[inside])
        if (same := np.flatnonzero(alike == kind)).size > 1
    ):
        return None
    unknown = (membership.known[signature] == 0) & inside[signature]
    least = np.full(signature.size, np.inf)
    for own in np.unique(signature[unknown & shown]):
        rows = np.flatnonzero((signature == own) & unknown & shown)
        peers = np.flatnonzero(unknown & (alike[signature] == alike[own]))
        apart = np.sqrt(np.sum((columns - columns[:, [own]]) ** 2, axis=0))[signature[peers]]
        for row in rows:
            gaps = np.abs(values.secret[peers] - values.secret[row])
            other = gaps > 0
            least[row] = np.min(gaps[other] * apart[other], initial=np.inf)
    chosen = unknown & shown
    resolved = int(
        np.count_nonzero(
            least[chosen]
            >= _RESOLVED[NoiseLaw.LAPLACE if np.all(pricing.laplace_answers) else NoiseLaw.GAUSSIAN]
        )
    )
    return LabelCounts(open=int(np.count_nonzero(chosen)) - resolved, resolved=resolved)


def _linear_columns(membership: Membership, pricing: Pricing) -> FloatArray:
    """For every signature its entries in the linear cells over their noise: ``(cells, signatures)``."""
    columns = np.zeros((len(membership.cells), len(membership.signatures)))
    for p, partition in enumerate(membership.partitions):
        if partition.feature in LINEAR:
            cell = membership.positions(p)
            inside = np.flatnonzero(cell >= 0)
            count = np.array([membership.cells[c].rows for c in cell[inside]], dtype=np.float64)
            noise = pricing.scale[cell[inside]] * (count if partition.statistic is Statistic.MEAN else 1.0)
            weight = membership.weights_in(p)[inside]
            columns[cell[inside], inside] = weight * np.sqrt(pricing.times[p]) / noise
    return columns
