r"""The sensitivity of every published number of a plan, and the noise that the budget buys for it.

Neighbours are tables in which one record's secrets differ; who is in which group is public. A record with
:math:`s_c` rows in cell :math:`c`, which has :math:`n_c` rows, moves its sum by at most :math:`s_c w` and its
mean by :math:`s_c w / n_c`, where :math:`w` is the range of what is aggregated. The cells of a partition are
disjoint. Its *row norm* is

.. math:: m = \max_j \Bigl(\sum_c s_{jc}^2\Bigr)^{1/2}

over the records (under Laplace noise :math:`\max_j \sum_c s_{jc}`): with Gaussian noise
:math:`\sqrt{\kappa}\,m w/n_c` on cell :math:`c`, a record moves the partition by
:math:`\sum_c (s_{jc}/m)^2 \le 1` in units of the noise, squared, and the partition counts as one release.
Four rows in one cell have the norm 4, four rows in four cells the norm 2. With ``sensitivity = "declared"``
the norm is the contribution limit of the plan, which holds for any record, wherever its rows are.

A histogram of a categorical secret is several partitions over the same rows, one for each category. A record
that changes its category moves two of them: they are one release together, of sensitivity :math:`\sqrt2` (2
under Laplace).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from sightline.arrays import FloatArray, IndexArray
from sightline.auditing.correlation import correlation_of, least_own_share
from sightline.auditing.plan import LARGEST, SMALLEST, Plan
from sightline.auditing.record_costs import CellCosts
from sightline.auditing.shared_budget import scales_paid_by_budgets
from sightline.errors import InvalidPlan, require
from sightline.noise.laws import CorrelatedNoise, Noise
from sightline.noise.pricing import noise_of_law
from sightline.privacy.accountant import NoiseLaw
from sightline.privacy.registry import ACCOUNTANTS
from sightline.releases.features import power_range
from sightline.tables.membership import Feature, Membership, Partition, Statistic

# What noise and sensitivities may be, in the secret's unit to some power.
SMALLEST_SIZE, LARGEST_SIZE = SMALLEST**2, LARGEST**2


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pricing:
    """The noise on every cell, for one copy of a release, and the releases that an accountant counts."""

    law: NoiseLaw
    sensitivity: FloatArray  # of each cell: the largest change, times the factor of a histogram
    scale: FloatArray  # of the noise on each cell: a standard deviation, or a Laplace scale
    bundles: tuple[tuple[int, ...], ...]  # partitions that are paid for together: releases to an accountant
    times: IndexArray  # copies of each partition
    multipliers: FloatArray  # noise over sensitivity, one for each release that an accountant counts
    shared: tuple[tuple[int, ...], ...]  # the bundles that the budget pays for
    releases: int  # how many releases they are
    row_norms: FloatArray  # of each partition: the rows of a record that its sensitivity is priced for
    correlation: FloatArray | None = None  # of the noise on the cells; none if it is independent
    own_share: float = 1.0  # the least share of a variance in any direction that is independent noise

    @property
    def accounted_scale(self) -> FloatArray:
        """Independent noise on the cells that protects no better than theirs: what an accountant counts."""
        return self.scale * math.sqrt(self.own_share)

    @property
    def noise_stddev(self) -> FloatArray:
        """The standard deviation of the noise on each cell."""
        return self.scale * (math.sqrt(2) if self.law is NoiseLaw.LAPLACE else 1.0)

    @property
    def record_costs(self) -> CellCosts:
        """What each cell costs the records in it."""
        power = 1 if self.law is NoiseLaw.LAPLACE else 2
        return CellCosts(
            costs=(self.sensitivity / self.accounted_scale) ** power,
            bundles=self.bundles,
            times=self.times,
            row_norms=self.row_norms,
            law=self.law,
        )

    def scaled(self, factor: float) -> Pricing:
        """The same releases with all noise multiplied by a factor."""
        return replace(self, scale=self.scale * factor, multipliers=self.multipliers * factor)


def price(plan: Plan, membership: Membership) -> Pricing:
    """Sensitivities and noise of all cells."""
    limit = plan.data.contribution_limit
    require(
        membership.contributions <= limit,
        f"at most {limit} row(s) a record",
        got=f"a record with {membership.contributions}",
        fix=f"set max_rows_per_record = {membership.contributions} in [data], or aggregate the rows first",
        error=InvalidPlan,
    )
    priced = any(not release.noise_given for release in plan.releases)
    law = ACCOUNTANTS[plan.privacy.accountant].law if priced else NoiseLaw.GAUSSIAN
    laplace = law is NoiseLaw.LAPLACE
    owner = np.array([cell.partition for cell in membership.cells], dtype=np.intp)
    rows = np.array([cell.rows for cell in membership.cells], dtype=np.float64)
    bundles = bundled(membership)
    together = {p: len(bundle) for bundle in bundles for p in bundle}
    two_cells = 2.0 if laplace else math.sqrt(2)  # a record leaves one category and enters another
    reach = np.array(
        [
            feature_range(part, plan.data.domain, plan.data.bandwidth)
            * (two_cells if together.get(p, 1) > 1 else 1.0)
            for p, part in enumerate(membership.partitions)
        ]
    )
    mean = np.array([part.statistic is Statistic.MEAN for part in membership.partitions])
    row_norms = row_norms_of(plan, membership, bundles, law)
    sensitivity = row_norms[owner] * reach[owner] / np.where(mean[owner], rows, 1.0)
    has_own = np.array([plan.releases[part.query].noise_given for part in membership.partitions])
    times = np.array([plan.copies(plan.releases[p.query]) for p in membership.partitions], dtype=np.intp)
    scale = given_noise(plan, membership)
    shared = tuple(bundle for bundle in bundles if not has_own[bundle[0]])
    count = int(sum(times[bundle[0]] for bundle in shared))
    if count:
        paid = scales_paid_by_budgets(plan, membership, shared, sensitivity=sensitivity, row_norms=row_norms)
        scale = np.where(scale > 0, scale, paid)
    _check_sizes(plan, membership, {"change of one record": sensitivity, "noise": scale})
    correlation = correlation_of(plan, membership)
    own_share = least_own_share(correlation)
    ratio = scale * math.sqrt(own_share) / sensitivity
    multipliers = [
        np.full(times[bundle[0]], min(float(ratio[owner == p].min()) for p in bundle)) for bundle in bundles
    ]
    return Pricing(
        law=law,
        sensitivity=sensitivity,
        scale=scale,
        bundles=bundles,
        times=times,
        multipliers=np.concatenate(multipliers) if multipliers else np.zeros(0),
        shared=shared,
        releases=count,
        row_norms=row_norms,
        correlation=correlation,
        own_share=own_share,
    )


def noise_on_rows(pricing: Pricing, cells: IndexArray, scale: FloatArray) -> Noise:
    """The noise on rows that are some cells' numbers in other units; a scale may be negative, for a sign."""
    if pricing.correlation is None:
        return noise_of_law(pricing.law, np.abs(scale))
    return CorrelatedNoise(blocks=(pricing.correlation[np.ix_(cells, cells)] * np.outer(scale, scale),))


def row_norms_of(
    plan: Plan, membership: Membership, bundles: tuple[tuple[int, ...], ...], law: NoiseLaw
) -> FloatArray:
    """The row norm of every partition, rounded up; 0 for those without rows."""
    power = 1 if law is NoiseLaw.LAPLACE else 2
    found = np.zeros(len(membership.partitions))
    for bundle in bundles:
        if plan.privacy.sensitivity == "declared":
            found[list(bundle)] = plan.data.contribution_limit
            continue
        most = membership.most_rows_of_a_record(bundle[0], power)
        root = math.isqrt(most) if power == 2 else most
        exact = power == 1 or root * root == most
        found[list(bundle)] = root if exact else math.nextafter(math.sqrt(most), math.inf)
    return found


def given_noise(plan: Plan, membership: Membership) -> FloatArray:
    """The standard deviation that the plan itself gives each cell; 0 where the budget decides."""
    by_cell = [
        {(one.label, one.key): one.stddev for one in release.noise_by_cell} for release in plan.releases
    ]
    given = np.zeros(len(membership.cells))
    for place, cell in enumerate(membership.cells):
        part = membership.partitions[cell.partition]
        release = plan.releases[part.query]
        if release.noise_by_cell:
            found = by_cell[part.query].pop((part.label, cell.key), None)
            require(
                found is not None,
                f"release {release.name!r}: noise_by_cell for every published number",
                got=f"none for the group {', '.join(cell.key)!r}" + (f" of {part.label}" * bool(part.label)),
                error=InvalidPlan,
            )
            given[place] = found
        else:
            given[place] = release.noise_stddev or 0.0
    for release, left in zip(plan.releases, by_cell, strict=True):
        require(
            not left,
            f"release {release.name!r}: noise_by_cell for numbers that it publishes",
            got=f"the group {', '.join(next(iter(left), ('', ()))[1])!r}, which it does not",
            fix="check the spelling of its key and label",
            error=InvalidPlan,
        )
    return given


def _check_sizes(plan: Plan, membership: Membership, sizes: dict[str, FloatArray]) -> None:
    """Squares and quotients of these numbers must be numbers, too."""
    for what, values in sizes.items():
        wrong = np.flatnonzero(~((values >= SMALLEST_SIZE) & (values <= LARGEST_SIZE)))
        if wrong.size:
            release = plan.releases[membership.partitions[membership.cells[wrong[0]].partition].query]
            raise InvalidPlan(
                f"release {release.name[:60]!r}: expected a {what} between {SMALLEST_SIZE:g} and "
                f"{LARGEST_SIZE:g}, got {values[wrong[0]]:g}; publish a lower power of the secret, or state "
                "it in another unit"
            )


def feature_range(partition: Partition, bounds: tuple[float, float], bandwidth: float | None) -> float:
    """By how much what is aggregated of one row can change over the secret's domain.

    >>> square = Partition(query=0, name="", statistic=Statistic.MEAN, feature=Feature.POWER, parameter=2)
    >>> feature_range(square, (-1.0, 3.0), None), feature_range(square, (1.0, 3.0), None)
    (9.0, 8.0)
    """
    low, high = bounds
    match partition.feature:
        case Feature.VALUE:
            return high - low
        case Feature.INDICATOR:
            return 1.0
        case Feature.POWER:
            with np.errstate(over="ignore", invalid="ignore"):  # then the sizes are checked, and refused
                return float(power_range(_number(partition), low=low, high=high))
        case Feature.THRESHOLD:
            return 1.0  # the count that is published is sharp, whatever smooth step stands for it


def bandwidth_of(partition: Partition, bandwidth: float | None) -> float:
    """The bandwidth of a smoothed threshold, which the plan states."""
    if bandwidth is None:
        raise InvalidPlan(
            f"{partition.name}: expected [data] bandwidth for a threshold on the secret, got none; "
            "a sharp step has no finite information, say how far it is smoothed"
        )
    return bandwidth


def bundled(membership: Membership) -> tuple[tuple[int, ...], ...]:
    """Partitions that are one release: the categories of a histogram over the same rows."""
    parts = membership.partitions
    filled = {cell.partition for cell in membership.cells}
    bundles: list[list[int]] = []
    for p, part in enumerate(parts):
        home = None
        if p not in filled:
            continue  # no row meets its condition: it publishes nothing about any record
        if part.feature is Feature.INDICATOR:
            home = next((b for b in reversed(bundles) if _one_histogram(membership, b, p)), None)
        if home is None:
            bundles.append([p])
        else:
            home.append(p)
    return tuple(tuple(bundle) for bundle in bundles)


def _one_histogram(membership: Membership, bundle: Sequence[int], p: int) -> bool:
    parts = membership.partitions
    head, part = parts[bundle[0]], parts[p]
    alike = (head.query, head.feature, head.statistic) == (part.query, part.feature, part.statistic)
    if not alike or any(parts[q].parameter == part.parameter for q in bundle):
        return False
    return bool(np.array_equal(membership.signatures[:, p], membership.signatures[:, bundle[0]]))


def _number(partition: Partition) -> float:
    assert isinstance(partition.parameter, int | float)  # a power or a threshold
    return float(partition.parameter)
