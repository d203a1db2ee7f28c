"""A plan as a problem: the rows of its linear design, their floors, ceilings and weights."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property

import numpy as np
from scipy.sparse import csc_array, csr_array

from sightline.advising.crowd_limits import CrowdLimits
from sightline.advising.fitted_loss import FittedLoss
from sightline.advising.least_noise import FIXED, NoiseProblem
from sightline.advising.levels import lower_ends, rows_alike
from sightline.advising.loss import Loss, sizes
from sightline.advising.paid import (
    PaidReleases,
    check_bounds,
    check_ceilings,
    check_plan,
    paid_releases,
    require_told,
)
from sightline.arrays import DIGITS, FloatArray, IndexArray
from sightline.auditing.findings import LinearFindings, worst_linear
from sightline.auditing.lowering import Lowered, linear_partitions
from sightline.auditing.plan import Plan
from sightline.auditing.plan_fields import LARGEST
from sightline.auditing.pricing import price
from sightline.auditing.release_noise import ReleaseNoise, number_name
from sightline.auditing.table_units import signature_columns
from sightline.errors import InvalidNoise, InvalidPlan, require
from sightline.privacy.law import Law
from sightline.progress import report
from sightline.tables.membership import Membership
from sightline.units.unit_block import BoolArray


class Grain(StrEnum):
    """What has a noise of its own."""

    CELL = "cell"
    RELEASE = "release"


@dataclass(frozen=True, kw_only=True, eq=False)
class DesignTask:
    """A plan with its membership, and the problem's parts that do not depend on the limit's bounds.

    Cells are the published numbers; the rows of the linear design are the same numbers as sums.
    """

    plan: Plan
    membership: Membership
    loss: Loss
    limit: float
    before: FloatArray  # the standard deviation of each cell today
    floor: FloatArray  # the least one that it may have
    most: FloatArray  # the most that it may have; infinite for no limit
    sensitivity: FloatArray  # of each cell
    weights: FloatArray  # of each cell's variance in the loss
    variable: IndexArray  # of each cell
    paid: PaidReleases  # releases whose noise can move within the budget
    findings: LinearFindings  # at the floor
    row_unit: FloatArray  # variance of a row over that of its number
    fitted: FittedLoss | None = None  # the loss after the fit, where that is published

    @property
    def linear(self) -> Lowered:
        """The design of the rows."""
        return self.findings.linear

    @property
    def free(self) -> BoolArray:
        """Cells whose noise may be chosen."""
        found: BoolArray = self.variable != FIXED
        return found

    @property
    def variables(self) -> int:
        """How many noises there are to choose."""
        return int(self.variable.max()) + 1

    @property
    def rows(self) -> int:
        """How many numbers there are."""
        return self.linear.cells.size

    @property
    def several_rows(self) -> bool:
        """Whether some persons have several rows."""
        return bool(self.linear.rows_of_unit.max(initial=1) > 1)

    @property
    def several_categories(self) -> bool:
        """Whether the secret is one of three categories or more: features of persons are no targets then."""
        return self.linear.columns_of_unit > 1

    def for_the_fit(self, periods: int = 1) -> DesignTask:
        """The task with the loss after the fit of each period of a series, if the plan publishes it."""
        if not self.plan.publish.consistent:
            return self
        fitted = FittedLoss.of(self.plan, self.membership, self.paid.pricing, self.loss, periods)
        return replace(self, fitted=fitted)

    @property
    def row_floors(self) -> FloatArray:
        """The least variances of the rows."""
        return np.asarray(self.floor[self.linear.cells] ** 2 * self.row_unit)

    def problem(self) -> NoiseProblem:
        """The problem without limits on attacks: the budget, floors and ceilings.

        What is fixed is one more variable without a weight.
        """
        cells, count = self.linear.cells, self.variables
        variable = np.where(self.free, self.variable, count)
        weights, low = np.zeros(count + 1), np.append(np.zeros(count), 1.0)
        np.add.at(weights, self.variable[self.free], (self.weights * self.floor**2)[self.free])
        np.maximum.at(low, variable, 1 / self.most_factors)
        place = np.arange(cells.size)
        rows = csc_array((1 / self.row_floors, (place, variable[cells])), shape=(cells.size, count + 1))
        row_of_cell = np.empty(cells.size, dtype=np.intp)
        row_of_cell[cells] = place
        return NoiseProblem(
            weights=weights,
            low=low,
            rows=rows,
            linear=csr_array(self.paid.of_records(row_of_cell, self.row_unit) @ rows),
            budget=self.paid.shared(variable, self.floor),
        )

    def factors(self, u: FloatArray) -> FloatArray:
        """The variance of every cell over its floor, from the precisions over the largest."""
        found: FloatArray = 1 / np.append(u[: self.variables], 1.0)[self.variable]
        return found

    def precisions(self, stddevs: FloatArray) -> FloatArray:
        """The precisions over the largest of some noise: of each variable the least of its cells."""
        found = np.ones(self.variables + 1)
        own = (self.floor / stddevs)[self.free] ** 2
        np.minimum.at(found, self.variable[self.free], own)
        return found

    @property
    def most_factors(self) -> FloatArray:
        """The most variance of every cell over its floor."""
        found: FloatArray = np.where(self.free, (self.most / self.floor) ** 2, 1.0)
        return found

    def stddevs(self, factors: FloatArray) -> FloatArray:
        """The standard deviation of every cell with some factors, rounded up, and within the budget."""
        found = self._rounded(self.floor * np.sqrt(factors), kept=(factors == 1.0) | ~self.free)
        if (over := self.paid.cost(found) / self.paid.most) > 1:
            more = np.where(self.paid.cells, found * np.sqrt(over) * (1 + 1e-15), found)
            found = self._rounded(more, kept=~self.paid.cells)
        return found

    def _rounded(self, stddevs: FloatArray, *, kept: BoolArray) -> FloatArray:
        rounded = np.array([rounded_up(value) for value in stddevs])
        return np.where(kept, stddevs, np.minimum(rounded, self.most))

    @property
    def common_base(self) -> FloatArray:
        """What a common factor multiplies: the noise that the budget asks for, or the floor."""
        return np.where(self.paid.cells, self.before, self.floor)

    def times_common(self, factor: float) -> FloatArray:
        """The standard deviations with all variances that may be chosen times a factor; no ceilings."""
        chosen = self.common_base * (np.sqrt(factor) if factor > 1 else 1.0)
        rounded = np.array([rounded_up(value) for value in chosen]) if factor > 1 else chosen
        return np.where(self.free, rounded, self.floor)

    def total(self, stddevs: FloatArray) -> float:
        """The loss of some noise: after the fit, or on the numbers that may be chosen."""
        if self.fitted is not None:
            return self.fitted.total(stddevs)
        mine = self.free
        return float(self.weights[mine] @ stddevs[mine] ** 2)

    @property
    def ranges(self) -> FloatArray:
        """The most that every number can change if the secrets of all its rows do, at most."""
        return np.asarray(self.sensitivity * np.array([cell.rows for cell in self.membership.cells]))

    def proposal(self, stddevs: FloatArray) -> Plan:
        """The plan with this noise on its numbers."""
        return plan_with_noise(self.plan, self.membership, stddevs)

    def audited(self, stddevs: FloatArray, *, walked: bool = False) -> LinearFindings:
        """What the audit finds with this noise; by walks as it does in the end, or without them."""
        return _assessed(self.proposal(stddevs), self.membership, walked=walked)

    def lowest(self, stddevs: FloatArray) -> float:
        """What the audit says that everyone keeps with this noise."""
        return lowest(self.audited(stddevs))

    @cached_property
    def crowd(self) -> CrowdLimits | None:
        """The limits by all genies at once, on those below the limit at the floor; none for other secrets."""
        below = (self.findings.lower < self.limit).reshape(-1, self.linear.columns_of_unit).any(axis=1)
        return CrowdLimits.of(self.linear, np.flatnonzero(below), self.limit)

    @property
    def estimated(self) -> bool:
        """Whether there are quick estimates of lower ends: not for numbers of several rows a person."""
        return self.crowd is not None or not (self.several_rows or self.several_categories)

    @cached_property
    def _exposed(self) -> IndexArray:
        """The records below the limit at the floor: with more noise, only they can be below it."""
        return np.flatnonzero(self.findings.lower < self.limit)

    def estimate(self, stddevs: FloatArray) -> float:
        """What the audit says that everyone keeps with this noise, up to its margins for rounding.

        Of a crowd what all genies at once say: the audit may know better.
        """
        if not self.estimated:
            return self.lowest(stddevs)
        if self.crowd is not None:
            return self.crowd.least(1 / (stddevs[self.linear.cells] ** 2 * self.row_unit))
        linear, own = self.linear, self._exposed
        lower, _ = lower_ends(
            linear.prior.of_column,
            csc_array(linear.table),
            rows_alike(linear),
            stddevs[linear.cells] ** 2 * self.row_unit,
            own=own,
            alike=linear.units.alike[own],
        )
        return float(np.min(lower, initial=1.0))

    def columns(self, units: IndexArray) -> csc_array:
        """The columns of some units with one row each: rows of the problem × units."""
        return csc_array(self.linear.table[:, self.linear.units.starts[units]])

    def block(self, unit: int) -> csc_array:
        """B of a person with several rows: a column √n a for every n alike of them."""
        own = slice(int(self.linear.units.starts[unit]), int(self.linear.units.starts[unit + 1]))
        roots = np.sqrt(self.linear.units.times[own].astype(np.float64))
        return csc_array(self.linear.table[:, own].multiply(roots[None, :]))

    def cells_of(self, records: IndexArray) -> csc_array:
        """The numbers that rows with some signatures are in: rows of the problem × records."""
        order = linear_partitions(self.membership)
        signatures = signature_columns(self.membership, order)
        cells, widths = signatures.cells[signatures.column[records]], np.diff(self.membership.starts)[order]
        place, partition = np.nonzero(cells >= 0)
        rows = (np.cumsum(widths) - widths)[partition] + cells[place, partition]
        entries = np.ones(rows.size), (rows, place)
        return csc_array(entries, shape=(self.linear.row_count, records.size))


def task_of(plan: Plan, membership: Membership, *, limit: float, grain: Grain, loss: Loss) -> DesignTask:
    """Check that a plan can be designed, and lay out its numbers."""
    check_plan(plan, membership)
    pricing = price(plan, membership)
    require(
        pricing.gaussian,
        "Gaussian noise",
        got=f"noise of the law {', '.join(sorted({*pricing.bundle_laws} - {Law.GAUSSIAN}))}",
        fix="design chooses Gaussian noise; name another accountant, or state Gaussian noise",
        error=InvalidPlan,
    )
    before = pricing.scale
    queries = np.array([membership.partitions[cell.partition].query for cell in membership.cells])
    releases = [plan.releases[query] for query in queries]
    published = np.array([release.published for release in releases])
    given = np.array([release.noise_given for release in releases])
    within = np.array([release.noise_within for release in releases], dtype=np.float64)
    least, most = within.T / membership.published_factors
    paid = paid_releases(plan, membership, pricing)
    # A release whose noise cannot move within the budget may not fall below what the budget asks for.
    floor = np.where(least > 0, np.where(given, least, np.maximum(least, before)), before)
    floor = np.where(published, before, floor)
    by_release = paid.floor()
    if grain is Grain.RELEASE:  # one factor on noise in proportion to sensitivity
        times = np.where(paid.cells, np.maximum(least / np.where(paid.cells, by_release, 1.0), 1.0), 1.0)
        largest = np.ones(len(plan.releases))
        np.maximum.at(largest, queries, times)
        by_release = by_release * largest[queries]
    else:
        by_release = np.maximum(by_release, least)
    floor = np.where(paid.cells, by_release, floor)
    most = np.where(published, np.inf, most)
    check_bounds(plan, queries, np.maximum(floor, least), most)
    check_ceilings(paid, most)
    stuck = (published | (floor == most)) & ~paid.cells
    require(
        not stuck.all(),
        "at least one release whose noise may be chosen",
        got="only releases that are published or have their noise fixed",
        error=InvalidPlan,
    )
    number = np.arange(queries.size) if grain is Grain.CELL else queries
    variable = np.full(queries.size, FIXED, dtype=np.intp)
    variable[~stuck] = np.unique(number[~stuck], return_inverse=True)[1]
    starting = plan_with_noise(plan, membership, floor)
    report("finding who is exposed", 0.0)
    findings = _assessed(starting, membership)
    require_told(bool(findings))
    linear = findings.linear
    factors = linear.factors
    times = np.array([release.times for release in releases], dtype=np.float64)
    weight = np.array([release.weight for release in releases])
    over = {Loss.RELATIVE: lambda: before**2, Loss.SIZE: lambda: sizes(plan, membership)}
    weights = weight * times / over.get(loss, lambda: 1.0)()
    return DesignTask(
        plan=plan,
        membership=membership,
        loss=loss,
        limit=limit,
        before=before,
        floor=floor,
        most=most,
        sensitivity=pricing.sensitivity,
        weights=weights,
        variable=variable,
        paid=paid,
        findings=findings,
        row_unit=factors**2 / linear.copies,
    )


def plan_with_noise(plan: Plan, membership: Membership, stddevs: FloatArray) -> Plan:
    """The plan with a standard deviation for each published number."""
    require(
        float(np.max(stddevs)) <= LARGEST,
        f"a design with noise of at most {LARGEST:g}",
        got=f"{float(np.max(stddevs)):.3g}",
        fix="a plan cannot state more; start from less noise",
        error=InvalidNoise,
    )
    cells: dict[int, list[tuple[tuple[str, ...], float]]] = {}
    stated = stddevs * membership.published_factors
    for cell, stddev in zip(membership.cells, stated.tolist(), strict=True):
        part = membership.partitions[cell.partition]
        cells.setdefault(part.query, []).append((number_name(cell.key, part.label), stddev))
    releases = []
    for query, release in enumerate(plan.releases):
        mine = cells.get(query, [])
        noise: dict[str, object] = {}
        if mine and len({stddev for _, stddev in mine}) == 1:
            noise = {"noise_stddev": mine[0][1], "noise": ()}
        elif mine:
            by_cell = ReleaseNoise.model_construct(by_cell=tuple(mine))
            noise = {"noise_stddev": 0.0, "noise": (by_cell,)}
        releases.append(release.model_copy(update=noise))
    return plan.model_copy(update={"releases": tuple(releases)})


def lowest(findings: LinearFindings) -> float:
    """What the audit says that everyone keeps."""
    return findings.least.lower


def _assessed(plan: Plan, membership: Membership, *, walked: bool = False) -> LinearFindings:
    return worst_linear(plan, membership, price(plan, membership), walked=walked)


def rounded_up(value: float, digits: int = DIGITS) -> float:
    """A value to some digits, rounded up.

    >>> rounded_up(3.14159265358979), rounded_up(2.0), rounded_up(9.91, 2)
    (3.14159266, 2.0, 10.0)
    """
    step = 10.0 ** (math.floor(math.log10(value)) + 1 - digits)
    found = float(f"{math.ceil(value / step * (1 - 1e-15)) * step:.{digits}g}")
    return found if found >= value else float(np.nextafter(value, np.inf))
