r"""Moments and thresholds of the secret: what they show near the true values. Owner-only.

A power or a smoothed threshold is not linear in the secret: what it shows of a record depends on the value.
At the true values its row is :math:`\varphi'(x_j)` over the members, and the Cramér–Rao bound of the whole
plan, linear releases included, follows as for any weighted rows. The bound holds for locally unbiased attacks
only: it brackets no other attack, and nothing of it may be published.

What holds for every attack is a bound on information. It needs no true values: see
:func:`kept_with_nonlinear`.
"""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING

import numpy as np

from sightline.arrays import FloatArray, IndexArray
from sightline.auditing.lowering import LINEAR
from sightline.auditing.plan import Plan
from sightline.auditing.pricing import SMALLEST_SIZE, Pricing, noise_on_rows
from sightline.auditing.questions import cut_points
from sightline.auditing.result import Exposed, LocalReport
from sightline.auditing.secret_prior import SecretPrior
from sightline.errors import require_plan
from sightline.privacy.law import Law
from sightline.tables.membership import YES_OR_NO, Band, Feature, Membership, Partition, RowValues, Statistic
from sightline.units.target import NumberPrior
from sightline.values import frozen

if TYPE_CHECKING:
    from sightline.bounds.membership_design import Exposures


@frozen
class NonlinearFindings:
    """What all releases together show of every row of the table near its true value."""

    exposures: Exposures
    signature: IndexArray  # of every row
    fixed_group: bool
    limit: float

    def report(self) -> LocalReport:
        """The section of the result."""
        seen = self.exposures.identifiable
        rmse = self.exposures.rmse[seen]
        whole = self.fixed_group and bool(seen[self.exposures.touched].all())
        return LocalReport(
            rows=len(self.exposures),
            identifiable=int(np.count_nonzero(seen)),
            undecided=int(np.count_nonzero(self.exposures.undecided)),
            sharpest_rmse=float(rmse.min()) if rmse.size else None,
            fixed_group=self.fixed_group,
            group_rmse=float(np.sqrt(np.sum(rmse**2))) if whole else None,
            below_limit=int(np.count_nonzero(self._below())),
        )

    def worst(self, count: int) -> tuple[Exposed, ...]:
        """The rows with the smallest errors."""
        rows = np.flatnonzero(self.exposures.identifiable)
        chosen = rows[np.lexsort((rows, self.exposures.rmse[rows]))][:count]
        return tuple(self._one(int(row)) for row in chosen)

    def _below(self) -> FloatArray:
        """Rows of which a locally unbiased attack leaves less than the limit."""
        v = self.exposures.prior.variance
        with np.errstate(invalid="ignore"):
            return np.asarray(self.exposures.rmse**2 < self.limit * v, dtype=np.float64)

    def _one(self, row: int) -> Exposed:
        rmse = float(self.exposures.rmse[row])
        return Exposed(
            signature=int(self.signature[row]),
            size=1,
            identifiable=True,
            local=True,
            rmse=rmse,
            rmse_percent_of_range=100 * rmse / self.exposures.prior.width,
        )


def is_nonlinear(membership: Membership) -> bool:
    """Whether anything is published that is not linear in the secret."""
    filled = {cell.partition for cell in membership.cells}
    return any(membership.partitions[p].feature not in LINEAR for p in filled)


def has_moments(membership: Membership) -> bool:
    """Whether anything is published that has a slope at a value, other than that of the value itself."""
    filled = {cell.partition for cell in membership.cells}
    return any(membership.partitions[p].feature not in LINEAR | YES_OR_NO for p in filled)


def nonlinear_information(membership: Membership, pricing: Pricing, *, up_to: float = np.inf) -> FloatArray:
    """For every signature, the most information (in nats) that the nonlinear releases carry about a record.

    ``up_to`` is the last release that is published; by default all are. Exact numbers are counted, too, and
    where any noise is Laplace all linear releases are: see :func:`kept_with_nonlinear`. Yes-or-no questions
    that cut the range at m points say at most which of m + 1 pieces a value is in: no more than ln(m + 1).
    """
    total, of_questions = np.zeros((2, len(membership.signatures)))
    starts = membership.starts
    for p, partition in enumerate(membership.partitions):
        by_information = pricing.bounding_law is Law.GAUSSIAN and not pricing.laws[p].exact
        if partition.query > up_to or (partition.feature in LINEAR and by_information):
            continue
        cells = slice(starts[p], starts[p + 1])
        carried = pricing.laws[p].facts.information_at_most(pricing.scale[cells] / pricing.sensitivity[cells])
        into = of_questions if partition.feature in YES_OR_NO else total
        into += pricing.times[p] * np.append(carried, 0.0)[membership.signatures[:, p]]
    return total + np.minimum(of_questions, np.log1p(cut_points(membership, up_to)))


def kept_with_nonlinear(
    prior: NumberPrior, information: FloatArray, carried: FloatArray, law: Law
) -> FloatArray:
    r"""The least share of uncertainty that remains of a number through linear and nonlinear releases.

    The attacker may know all other records. The linear releases have Fisher information G about the record
    and carry at most :math:`\frac12 \ln(1 + vG)` under Gaussian noise; the nonlinear ones carry at most T.

    What the prior keeps after so many nats is its ``lower_by_nats``. Under Laplace noise T counts all
    releases and G is not used.
    """
    linear = np.log1p(prior.variance * information) / 2 if law is Law.GAUSSIAN else 0.0
    return prior.lower_by_nats(carried + linear)


def features_kept(prior: NumberPrior, information: FloatArray, carried: FloatArray, law: Law) -> FloatArray:
    r"""The same for every unit feature :math:`a^\top x` of a person's independent rows, :math:`\|a\| = 1`.

    Its entropy power is at least that of one row, and so is its sub-Gaussian constant at most c times its
    variance v, the ``proxy`` of the prior. So the bounds of a density hold for it. Of a prior without a
    density, :math:`1 - 2Ic` alone does.
    """
    if prior.has_density:
        return kept_with_nonlinear(prior, information, carried, law)
    linear = np.log1p(prior.variance * information) / 2 if law is Law.GAUSSIAN else 0.0
    return np.asarray(np.maximum(1 - 2 * prior.proxy * (carried + linear), 0.0))


def nonlinear_findings(
    plan: Plan, membership: Membership, pricing: Pricing, values: RowValues
) -> tuple[NonlinearFindings, ...]:
    """Linearise all releases at the true values; none if all slopes vanish, or nobody is unknown."""
    rows = values.secret.size
    some = (membership.known > 0) & (membership.known < membership.counts)
    require_plan(
        not bool(some.any()),
        "an attacker who knows all rows with a signature or none, with moments or thresholds of the secret",
        got=f"{int(some.sum())} signature(s) of which some rows are known",
        fix="audit without [attacker] knows, or without these releases",
    )
    signature = values.signature.astype(np.intp)
    table = np.zeros((len(membership.cells), rows))
    for p, partition in enumerate(membership.partitions):
        cell = membership.positions(p)[signature]
        inside = np.flatnonzero(cell >= 0)
        slopes_inside = slopes(partition, values.secret[inside])
        table[cell[inside], inside] = slopes_inside * membership.weights_in(p)[signature[inside]]
    # What moves an answer by so small a part of its noise tells nothing, and its square may be no number.
    width = plan.data.domain[1] - plan.data.domain[0]
    table[np.abs(table) * width < math.sqrt(sys.float_info.min) * pricing.scale[:, None]] = 0.0
    seen = np.flatnonzero(table.any(axis=1))
    small = seen.size and float(np.abs(table[seen]).max(axis=1).min()) < SMALLEST_SIZE
    require_plan(
        not small,
        f"slopes of moments and thresholds of at least {SMALLEST_SIZE:g}",
        got="smaller ones",
        fix="state the secret in another unit",
    )
    known = np.flatnonzero(membership.known[signature] > 0)
    if seen.size == 0 or known.size == rows:
        return ()
    # A number that depends on no record tells the noise of those that share it.
    seen = np.flatnonzero(table.any(axis=1) | np.isin(pricing.owner, list(pricing.strategies)))
    owner = np.array([cell.partition for cell in membership.cells], dtype=np.intp)[seen]
    mean = np.array([membership.partitions[p].statistic is Statistic.MEAN for p in owner])
    count = np.array([membership.cells[c].rows for c in seen], dtype=np.float64)
    scale = pricing.scale[seen] * np.where(mean, count, 1.0) / np.sqrt(pricing.times[owner])
    from sightline.bounds.membership_design import MembershipDesign
    from sightline.units.description import Readout  # few plans need them

    design = MembershipDesign(table[seen], noise=noise_on_rows(pricing, seen, scale), readout=Readout.SUM)
    prior = SecretPrior.of(plan, membership)
    exposures = design.exposures(prior=prior.of_column, known=known)
    local = NonlinearFindings(
        exposures=exposures,
        signature=signature,
        fixed_group=int(np.count_nonzero(np.any(membership.signatures >= 0, axis=1))) == 1,
        limit=prior.limit(plan.limits),
    )
    return (local,)


def slopes(partition: Partition, values: FloatArray) -> FloatArray:
    """The derivative of the aggregated feature of each row, at its value.

    A count above a level or in a band has none: it is audited as the question that it asks.

    >>> cube = Partition(query=0, name="", statistic=Statistic.MEAN, feature=Feature.POWER, parameter=3)
    >>> slopes(cube, np.array([1.0, 2.0])).tolist()
    [3.0, 12.0]
    """
    sign = 1.0 if partition.above else -1.0
    match partition.feature:
        case Feature.VALUE | Feature.INDICATOR:
            return np.full(values.size, sign)
        case Feature.POWER:
            from sightline.numerics.powers import power_slope  # few plans publish powers

            assert isinstance(partition.parameter, int | float)
            return sign * power_slope(values, partition.parameter)
        case Feature.CLIPPED:
            assert isinstance(partition.parameter, Band)
            inside = (values > partition.parameter.low) & (values < partition.parameter.high)
            return np.where(inside, sign, 0.0)
        case Feature.THRESHOLD | Feature.BAND:
            return np.zeros(values.size)
