r"""What a design makes small where the least-squares fit is published: the variances after the fit.

With precisions p of the noise, the loss after the fit is
:math:`f(p) = \sum_q w_q \min_B \sum_\ell B_{q\ell}^2 / p_\ell` over the unbiased estimators B. At the best B
of some noise it is linear in the variances, and above f everywhere else. So the weights
:math:`\sum_q w_q B_{q\ell}^2` on the noisy numbers make a design whose loss after the fit is no larger
(majorise, minimise); repeated, it goes down until it stands still.

f is convex in p and homogeneous of degree -1, so that with :math:`d = -\nabla f(p)`

.. math:: f(p') \ge \frac{f(p)^2}{d^\top p'} \ge \frac{f(p)^2}{\max_{p'} d^\top p'} ,

where the maximum is over the budget and the floors alone. Limits on attacks only make fewer noises possible,
so it is a lower bound with them, too: a close one where the budget decides.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from sightline.advising.loss import Loss, sizes
from sightline.advising.paid import PaidReleases
from sightline.arrays import FloatArray, IndexArray
from sightline.auditing.plan import Plan
from sightline.auditing.pricing import Pricing
from sightline.auditing.published_fit import DerivedNumbers, PublishedFit, check_fit
from sightline.errors import TooMuchWork
from sightline.numerics.least_squares import MOST_DENSE, combinations
from sightline.tables.membership import Membership
from sightline.values import frozen

_LEAST_WEIGHT = 1e-9  # of the largest: a number that the fit hardly uses still has some
_DESERVED = 0.01  # of the budget: a release that gets less is better computed from the fit


@frozen(slots=False)
class FittedLoss:
    """The weighted sum of the variances of all numbers after the fit, measured and derived."""

    fit: PublishedFit
    derived: DerivedNumbers
    times: FloatArray  # copies of each measured number, in a period of a series
    importance: FloatArray  # of every number, measured and then derived

    @classmethod
    def of(
        cls, plan: Plan, membership: Membership, pricing: Pricing, loss: Loss, periods: int = 1
    ) -> FittedLoss:
        """The loss of a plan that publishes its fit: what is relative to today is so to today's fit.

        Of a series that of all periods: each has a fit of its own, with a share of the copies.
        """
        check_fit(plan, membership, pricing)
        fit, derived = PublishedFit.of(plan, membership, pricing), DerivedNumbers.of(plan, membership)
        parts = [membership.partitions[cell.partition] for cell in membership.cells]
        weight = np.array([plan.releases[part.query].weight for part in (*parts, *derived.partitions)])
        weight *= periods
        found = cls(
            fit=fit,
            derived=derived,
            times=pricing.times[pricing.owner] / periods,
            importance=weight,
        )
        if loss is Loss.VARIANCE:
            return found
        if loss is Loss.SIZE:
            return replace(found, importance=weight / _sizes_of_all(plan, membership))
        today = found.variances(pricing.noise_stddev)
        over = np.where(today > 0, weight / np.where(today > 0, today, 1.0), 0.0)
        return replace(found, importance=over)

    @cached_property
    def _combined(self) -> Any:
        """Every number as a combination of fitted sums."""
        both = sparse.vstack([sparse.eye_array(self.times.size), self.derived.weights])
        return sparse.csr_array(both @ sparse.diags_array(1 / self.fit.factors))

    def _errors(self, stddevs: FloatArray, importance: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The variance of every number, and the weight of each noise in their weighted sum."""
        scale = self.fit.factors**2 / self.times
        system = self.fit.system.with_noise(stddevs**2 * scale)
        variances, weights = np.zeros(importance.size), np.zeros(stddevs.size)
        for block in system.blocks:
            if block.weights is None:
                raise TooMuchWork(
                    f"expected a fit in which at most {MOST_DENSE:,} numbers follow from others, got more; "
                    "design the noise without [publish] consistent"
                )
            own = self._combined[:, block.places]
            used = np.flatnonzero(np.diff(own.indptr))
            for some in np.array_split(used, max(1, used.size // 1000)):
                squares = np.square(block.errors(own[some]))
                variances[some] += squares @ block.variances
                weights[block.places] += importance[some] @ squares
        return variances, weights * scale

    def of_rows(
        self, cells: IndexArray, factors: FloatArray, copies: FloatArray
    ) -> tuple[FloatArray | None, Any]:
        """W, with which the loss is tr WΣ for the covariance Σ of fitted rows of some cells, and these rows.

        No W where the copies of a period are another share of each.
        """
        share = copies / self.times[cells]
        scale = sparse.diags_array(factors / self.fit.factors[cells])
        rows = sparse.csr_array(scale @ self.fit.columns.free[0][cells])
        each = (self._combined[:, cells] @ sparse.diags_array(self.fit.factors[cells] / factors)).toarray()
        if np.ptp(share) > 0:
            return None, rows
        return np.asarray(each.T @ (each * (self.importance * share[0])[:, None])), rows

    def variances(self, stddevs: FloatArray) -> FloatArray:
        """Of every number after the fit, measured and then derived."""
        return self._errors(stddevs, self.importance)[0]

    def total(self, stddevs: FloatArray) -> float:
        """The loss with some noise on the measured numbers."""
        return float(self.importance @ self.variances(stddevs))

    def weights(self, stddevs: FloatArray) -> FloatArray:
        """Of the variances of the noise: with them the loss is linear, equal here, and above elsewhere."""
        found = self._errors(stddevs, self.importance)[1]
        return np.asarray(np.maximum(found, _LEAST_WEIGHT * found.max()))

    def at_least(self, stddevs: FloatArray, floor: FloatArray, paid: PaidReleases) -> float | None:
        """No noise within the budget, and from the floors on, has a smaller loss; ``None`` if unknown."""
        if paid.own:
            return None
        weights = self._errors(stddevs, self.importance)[1]
        loss, slopes = float(weights @ stddevs**2), weights * stddevs**4
        reached = float(np.sum((slopes / floor**2)[~paid.cells]))
        if paid.bundles:
            worth = np.zeros(len(paid.bundles) + 1)
            np.add.at(worth, paid.bundle_of_cell, slopes / paid.pricing.sensitivity**2)
            reached += paid.most * float(np.max(worth[:-1] / paid.times))
        return min(loss, loss**2 / reached)


def _sizes_of_all(plan: Plan, membership: Membership) -> FloatArray:
    """What the variances are relative to: those of measured numbers, then of derived ones."""
    measured, whole = sizes(plan, membership), membership.with_derived
    if whole is None:
        return measured
    derived = [plan.releases[whole.partitions[cell.partition].query].derived for cell in whole.cells]
    return np.concatenate([measured, sizes(plan, whole)[np.array(derived)]])


def better_derived(
    plan: Plan, membership: Membership, paid: PaidReleases, stddevs: FloatArray
) -> tuple[str, ...]:
    """Releases that a design gives less than a hundredth of the budget, and that follow from the others."""
    if paid.own or not paid.bundles or any(part.weighted for part in membership.partitions):
        return ()
    ratio = np.zeros(len(paid.bundles) + 1)
    np.maximum.at(ratio, paid.bundle_of_cell, (paid.pricing.sensitivity / stddevs) ** 2)
    spent = np.zeros(len(plan.releases))
    query = np.array([part.query for part in membership.partitions])
    np.add.at(spent, query[[bundle[0] for bundle in paid.bundles]], ratio[:-1] * paid.times / paid.most)
    owner = np.array([cell.partition for cell in membership.cells])
    rows = PublishedFit.of(plan, membership, paid.pricing).columns.free[0]
    measured, found = np.ones(owner.size, dtype=np.bool_), []
    for place in np.argsort(spent, kind="stable").tolist():
        own = query[owner] == place
        if not 0 < spent[place] < _DESERVED or plan.releases[place].published or own[measured].all():
            continue
        without = measured & ~own
        # Those found before follow from what is left, if this one does.
        if not combinations(rows[measured], without[measured], owner[measured])[1].size:
            measured = without
            found.append(plan.releases[place].name)
    return tuple(found)
