r"""Every record's own privacy loss beside its exposure: records with equal losses can be exposed differently.

A release that a record is not in costs it nothing. The Gaussian releases with it in them cost it a
:math:`\mu^2`, which is an :math:`\epsilon` at the budget's :math:`\delta`; Laplace releases cost it an
:math:`\epsilon`, and a mix of laws costs it a zCDP parameter (``record_costs.py``). What other records'
releases reveal about it is not part of this sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.arrays import FloatArray, IndexArray
from sightline.auditing.findings import Findings
from sightline.auditing.pricing import Pricing
from sightline.auditing.questions import coin_kept
from sightline.auditing.result import LossPoint, Uncertainty
from sightline.noise.published import PublishedLaw
from sightline.privacy.accountant import NoiseLaw
from sightline.privacy.concentrated import epsilon_of_rho
from sightline.privacy.gaussian_dp import smallest_epsilon

# What a scatter can show; beyond it records are counted in a grid of this many steps of loss × uncertainty.
_MOST_POINTS, _LOSS_STEPS, _UNCERTAINTY_STEPS = 1_000, 9, 99
# More rows than this go to the grid without looking for equal ones.
_WORTH_SORTING = 50_000


def losses(findings: Findings, *, delta: float) -> tuple[LossPoint, ...]:
    """Records by privacy loss and remaining uncertainty, gathered so that they can be drawn."""
    membership, pricing, found = findings.membership, findings.pricing, findings.linear
    # An exact number costs its records everything, and the records of a streamed table are not held.
    if found is None or pricing.exact.any() or findings.streamed:
        return ()
    cost = found.linear.of_records(pricing.record_costs.by_record(membership))
    lower, upper = found.per_unit(found.lower), found.per_unit(found.upper)
    worst = lower.argmin(axis=1)[:, None]  # of a record's categories, the one of which the least remains
    lower, upper = (np.take_along_axis(ends, worst, 1)[:, 0] for ends in (lower, upper))
    identifiable = found.per_unit(found.identifiable).any(axis=1)
    return _points([cost, lower, upper, identifiable], found.people, pricing, delta)


def _points(
    columns: list[NDArray[Any]], counts: IndexArray, pricing: Pricing, delta: float
) -> tuple[LossPoint, ...]:
    """Points of (cost, lower end, upper end, identifiable) with how many records each stands for."""
    points, records = gathered(columns, counts)
    distinct, back = np.unique(points[:, 0], return_inverse=True)
    epsilons = [_epsilon(float(value), pricing, delta) for value in distinct]
    return tuple(
        LossPoint(
            epsilon=epsilons[place],
            remaining_uncertainty=Uncertainty(lower=float(low), upper=float(high)),
            identifiable=bool(seen),
            records=int(number),
        )
        for place, (_, low, high, seen), number in zip(back, points, records, strict=True)
    )


def guaranteed_by_noise(findings: Findings) -> float | None:
    r"""What everyone keeps even if the attacker knows all other records and all releases are about one.

    Linear releases carry information :math:`\sum 1/m_\ell^2` per squared width of the domain.
    """
    pricing, prior, law = findings.pricing, findings.prior, findings.pricing.bounding_law
    multipliers = pricing.information_multipliers
    if multipliers.size == 0:
        return None
    if pricing.exact.any():
        return 0.0
    if findings.membership.persons is not None and (findings.has_nonlinear or law is NoiseLaw.LAPLACE):
        return None  # these bounds are for one value
    if findings.has_nonlinear:
        kept = prior.kept_whatever_is_published(pricing.told_at_most())
        of_question = float(coin_kept(np.array([np.sum(multipliers**-2.0)]))[0])
        return min(kept, of_question) if findings.questions else kept
    low, high = prior.bounds
    information = float(np.sum(multipliers**-2.0)) / (high - low) ** 2
    all_laplace = all(one is PublishedLaw.LAPLACE for one in pricing.bundle_laws)
    answers = float(multipliers.size) if all_laplace else np.inf  # of a mix the information alone is used
    return prior.kept(information=information, law=law, answers=answers) * pricing.lattice_share


def gathered(columns: Sequence[NDArray[Any]], counts: IndexArray) -> tuple[FloatArray, IndexArray]:
    """Records (cost, lower, upper, identifiable) that are alike counted together, in a grid if many."""
    if len(counts) > _WORTH_SORTING:
        return _gridded(columns, counts)
    distinct, back = np.unique(np.column_stack(columns), axis=0, return_inverse=True)
    together = np.bincount(back.ravel(), counts, len(distinct)).astype(np.intp)
    return (distinct, together) if len(distinct) <= _MOST_POINTS else _gridded(list(distinct.T), together)


def _gridded(columns: Sequence[NDArray[Any]], counts: IndexArray) -> tuple[FloatArray, IndexArray]:
    """A grid cell is drawn at its largest cost, its least lower and its largest upper end."""
    cost, lower, upper, identifiable = columns
    span = float(cost.max() - cost.min()) or 1.0
    step = np.floor((cost - cost.min()) / span * (_LOSS_STEPS - 1)).astype(np.intp)
    level = np.floor(np.clip(upper, 0.0, 1.0) * _UNCERTAINTY_STEPS).astype(np.intp)
    cell = (step * (_UNCERTAINTY_STEPS + 1) + level) * 2 + (identifiable > 0)
    cells = _LOSS_STEPS * (_UNCERTAINTY_STEPS + 1) * 2
    drawn = np.full((cells, 4), -np.inf)
    drawn[:, 1] = np.inf
    np.minimum.at(drawn[:, 1], cell, lower)
    for column in (0, 2, 3):
        np.maximum.at(drawn[:, column], cell, columns[column])
    together = np.bincount(cell, counts, cells).astype(np.intp)
    used = np.flatnonzero(np.bincount(cell, minlength=cells))
    return drawn[used], together[used]


def _epsilon(cost: float, pricing: Pricing, delta: float) -> float:
    """Of a total of ``record_costs``: a pure epsilon, a squared Gaussian-DP parameter, or twice zCDP's."""
    if cost == 0 or all(law.pure for law in pricing.bundle_laws):
        return cost
    return smallest_epsilon(cost, delta) if pricing.gaussian else epsilon_of_rho(cost / 2, delta)
