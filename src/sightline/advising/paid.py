r"""The budget as a constraint on the noise of the releases that it pays for.

Under exact Gaussian DP, zCDP and Rényi DP noise meets the budget exactly when

.. math:: \sum_\ell T_\ell \max_{c \in \ell} \frac{\Delta_c^2}{\sigma_c^2} \le B = \frac{1}{\kappa_1}

over the releases, each published :math:`T` times; under ``per-record`` when every record's own sum over the
cells with it is at most B. Both are convex in the variances, so noise can move from one release to another.
Basic and advanced composition have no such sum: there each release keeps at least its share's noise.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import csr_array

from sightline.advising.least_noise import FIXED, SharedBudget
from sightline.arrays import ROUNDING, FloatArray, IndexArray
from sightline.auditing.nonlinear import is_nonlinear
from sightline.auditing.plan import Plan
from sightline.auditing.pricing import Pricing
from sightline.auditing.record_costs import CellCosts
from sightline.errors import InvalidPlan, require
from sightline.privacy.law import Law
from sightline.privacy.registry import accountant_named, costs
from sightline.tables.membership import Membership
from sightline.units.unit_block import BoolArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PaidReleases:
    """The releases that the budget pays for, and what they may cost together."""

    membership: Membership
    pricing: Pricing
    bundles: tuple[tuple[int, ...], ...] = ()  # the releases, each as partitions; none if no noise can move
    own: bool = False  # whether each record pays for its own releases alone
    most: float = np.inf  # B: what they may cost together, rounded down
    accountant: str = ""
    allowed: float = np.inf  # epsilon, at the delta
    delta: float = 0.0

    @property
    def bundle_of_cell(self) -> IndexArray:
        """The release of every cell; FIXED for those that the budget does not pay for."""
        starts = self.membership.starts
        found = np.full(len(self.membership.cells), FIXED, dtype=np.intp)
        for place, bundle in enumerate(self.bundles):
            for p in bundle:
                found[starts[p] : starts[p + 1]] = place
        return found

    @property
    def cells(self) -> BoolArray:
        """The cells that the budget pays for."""
        found: BoolArray = self.bundle_of_cell != FIXED
        return found

    @property
    def times(self) -> IndexArray:
        """Copies of each release."""
        return self.pricing.times[[bundle[0] for bundle in self.bundles]]

    def floor(self) -> FloatArray:
        """Standard deviations of the cells that every noise within the budget exceeds; 0 elsewhere.

        They have half the variance that the budget implies, so that no floor decides.
        """
        owner = np.array([cell.partition for cell in self.membership.cells], dtype=np.intp)
        share = 1 / self.pricing.row_norms[owner] if self.own else 1.0
        times = np.append(self.times, 0)[self.bundle_of_cell]
        found: FloatArray = self.pricing.sensitivity * share * np.sqrt(times / (2 * self.most))
        return found

    def cost(self, stddevs: FloatArray) -> float:
        """What noise on the cells costs, to compare with ``most``; rounded up."""
        ratio = (self.pricing.sensitivity / stddevs) ** 2
        if self.own:
            each = CellCosts(
                costs=ratio,
                bundles=self.bundles,
                times=self.pricing.times,
                row_norms=self.pricing.row_norms,
            )
            return each.largest(self.membership)
        sharpest = np.zeros(len(self.bundles) + 1)
        np.maximum.at(sharpest, self.bundle_of_cell, ratio)
        return float(self.times @ sharpest[:-1]) * (1 + ROUNDING / 2)

    def epsilon(self, stddevs: FloatArray) -> float:
        """The epsilon of noise on the cells under the plan's accountant, at the budget's delta."""
        ratio = (stddevs / self.pricing.sensitivity)[self.cells]
        sharpest = np.full(len(self.bundles), np.inf)
        np.minimum.at(sharpest, self.bundle_of_cell[self.cells], ratio)
        spent = costs(
            np.repeat(sharpest, self.times),
            largest_own=self.cost(stddevs) if self.own else 0.0,
            delta=self.delta,
            law=Law.GAUSSIAN,
        )
        return spent[self.accountant]

    def shared(self, variable: IndexArray, floor: FloatArray) -> SharedBudget:
        """The budget on variables of the cells, which are precisions over those at a floor."""
        own = np.flatnonzero(self.cells & (not self.own))
        release = self.bundle_of_cell[own]
        pairs, place = np.unique(np.stack([release, variable[own]]), axis=1, return_inverse=True)
        cost = np.zeros(pairs.shape[1])
        each = self.times[release] * (self.pricing.sensitivity[own] / floor[own]) ** 2 / self.most
        np.maximum.at(cost, place.ravel(), each)
        return SharedBudget(variable=pairs[1], release=pairs[0], cost=cost)

    def of_records(self, row_of_cell: IndexArray, row_unit: FloatArray) -> csr_array:
        r"""Of every record that pays for its own releases the share of the budget a precision costs."""
        starts, records = self.membership.starts, len(self.membership.people)
        rows, columns, data = [], [], []
        for bundle in self.bundles if self.own else ():
            own = self.membership.rows_in_cells(bundle[0])
            cell = starts[bundle[0]] + own.cell
            row = row_of_cell[cell]
            copies = self.pricing.times[bundle[0]]
            rows.append(row)
            columns.append(own.record)
            share = own.rows / self.pricing.row_norms[bundle[0]]
            data.append((share * self.pricing.sensitivity[cell]) ** 2 * copies * row_unit[row] / self.most)
        none = np.zeros(0, dtype=np.intp)
        places = np.concatenate([none, *columns]), np.concatenate([none, *rows])
        everyone = csr_array((np.concatenate([np.zeros(0), *data]), places), shape=(records, row_unit.size))
        return csr_array(everyone[np.flatnonzero(np.diff(everyone.indptr))])


def paid_releases(plan: Plan, membership: Membership, pricing: Pricing) -> PaidReleases:
    """The releases whose noise can move within the budget.

    Under ``per-record`` a histogram of several categories has no such sum for each record either.
    """
    nothing = PaidReleases(membership=membership, pricing=pricing)
    if not pricing.shared:
        return nothing
    accountant = accountant_named(plan.privacy.accountant, plan.privacy.budget)
    histograms = any(len(bundle) > 1 for bundle in pricing.shared)
    if not accountant.linear or (accountant.counts_own_releases and histograms):
        return nothing
    return replace(
        nothing,
        bundles=pricing.shared,
        own=accountant.counts_own_releases,
        most=1 / accountant.kappa(1) * (1 - ROUNDING),
        accountant=plan.privacy.accountant,
        allowed=plan.privacy.epsilon,
        delta=plan.privacy.cost_delta,
    )


def check_plan(plan: Plan, membership: Membership) -> None:
    """Refuse plans that cannot be designed."""
    require(
        not any(release.factored for release in plan.releases),
        "noise of its own on every number",
        got="a mechanism, whose numbers share one noise",
        fix="there is one size to choose, and the audit says by which factor to raise it",
        error=InvalidPlan,
    )
    require(
        not is_nonlinear(membership),
        "means, sums and counts",
        got="a plan with moments or thresholds",
        fix="how much noise hides a record in them depends on the values; design the others without them",
        error=InvalidPlan,
    )
    category = not plan.data.secret_kind.summed
    others = [part for part in membership.partitions if part.weighted or isinstance(part.parameter, tuple)]
    require(
        not (category and others),
        "counts of one category each, without weights per row",
        got="others",
        fix="design the other releases without them, and audit all of them together",
        error=InvalidPlan,
    )
    require_told(bool(membership.cells))
    twins = [plan.releases[query].name for query in _releases_with_twins(membership)]
    require(
        not twins,
        "numbers that their key and label tell apart",
        got=f"two alike in release {', '.join(map(repr, twins[:1]))}",
        fix="make them two releases",
        error=InvalidPlan,
    )


def require_told(told: bool) -> None:
    """Refuse a plan of which there is nothing to design."""
    require(
        told,
        "a plan that publishes something about a secret that the attacker does not know",
        got="none",
        error=InvalidPlan,
    )


def _releases_with_twins(membership: Membership) -> list[int]:
    """Releases two of whose numbers have the same key and label."""
    parts = [membership.partitions[cell.partition] for cell in membership.cells]
    marks = Counter(
        (part.query, part.label, cell.key) for part, cell in zip(parts, membership.cells, strict=True)
    )
    return [query for (query, _, _), number in marks.items() if number > 1]


def check_bounds(plan: Plan, queries: IndexArray, floor: FloatArray, most: FloatArray) -> None:
    """Refuse a ceiling below a floor."""
    for place in np.flatnonzero(floor > most)[:1]:
        release = plan.releases[queries[place]]
        raise InvalidPlan(
            f"release {release.name!r}: expected noise_within of at least its noise of "
            f"{floor[place]:.6g}, got {most[place]:.6g}; a design only adds noise: say a least one, too"
        )


def check_ceilings(paid: PaidReleases, most: FloatArray) -> None:
    """Refuse ceilings with which the budget cannot be kept."""
    if np.isfinite(most[paid.cells]).any():
        require(
            paid.cost(most) <= paid.most,
            "ceilings with which the budget can be kept",
            got="noise_within that costs more than epsilon allows",
            fix="raise its upper end, or epsilon",
            error=InvalidPlan,
        )
