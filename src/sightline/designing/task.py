"""A plan as a problem: the rows of its linear design, their floors, ceilings and weights."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from scipy.sparse import csc_array

from sightline.arrays import FloatArray, IndexArray
from sightline.auditing.design import LinearDesign
from sightline.auditing.findings import LinearFindings, linear_findings
from sightline.auditing.nonlinear import is_nonlinear
from sightline.auditing.plan import CellNoise, Plan
from sightline.auditing.pricing import price
from sightline.designing.problem import FIXED, NoiseProblem
from sightline.errors import InvalidPlan, require
from sightline.labeled.incidence.protocol import BoolArray
from sightline.privacy.accountant import NoiseLaw
from sightline.progress import Progress, silent
from sightline.tables.membership import Membership

_DIGITS = 7  # of a proposed standard deviation, rounded up


class Grain(StrEnum):
    """What has a noise of its own."""

    CELL = "cell"
    RELEASE = "release"


class Loss(StrEnum):
    """What a design makes small."""

    VARIANCE = "variance"  # the weighted sum of the variances
    RELATIVE = "relative"  # the weighted sum of the variances over those before
    LARGEST = "largest"  # the largest weighted standard deviation


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
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
    weights: FloatArray  # of each cell's variance in the loss
    variable: IndexArray  # of each cell
    ceilings: FloatArray  # of each variable, in variance over the floor's
    findings: LinearFindings  # at the floor
    row_unit: FloatArray  # variance of a row over that of its number

    @property
    def linear(self) -> LinearDesign:
        """The design of the rows."""
        return self.findings.linear

    @property
    def free(self) -> BoolArray:
        """Cells whose noise may be chosen."""
        found: BoolArray = self.variable != FIXED
        return found

    def problem(self) -> NoiseProblem:
        """The problem without limits on attacks."""
        cells = self.linear.cells
        free = np.flatnonzero(self.variable != FIXED)
        count = self.ceilings.size
        cost = np.zeros(count)
        np.add.at(cost, self.variable[free], (self.weights * self.floor**2)[free])
        return NoiseProblem(
            risks=(),
            floors=self.floor[cells] ** 2 * self.row_unit,
            variable=self.variable[cells],
            weights=cost,
            ceilings=self.ceilings,
        )

    def stddevs(self, x: FloatArray) -> FloatArray:
        """The standard deviation of every cell, rounded up to some digits."""
        chosen = self.floor * np.sqrt(np.append(x, 1.0)[self.variable])
        rounded = np.array([_rounded_up(value) for value in chosen])
        most = np.sqrt(np.append(self.ceilings, 1.0)[self.variable]) * self.floor
        kept = (np.append(x, 1.0)[self.variable] == 1.0) | ~self.free
        return np.where(kept, self.floor, np.minimum(rounded, most))

    def total(self, stddevs: FloatArray) -> float:
        """The loss of some noise on the numbers that may be chosen."""
        mine = self.free
        if self.loss is Loss.LARGEST:
            return float(np.max(np.sqrt(self.weights[mine]) * stddevs[mine]))
        return float(self.weights[mine] @ stddevs[mine] ** 2)

    def proposal(self, stddevs: FloatArray) -> Plan:
        """The plan with this noise on its numbers."""
        return plan_with_noise(self.plan, self.membership, stddevs)

    def audited(self, stddevs: FloatArray, progress: Progress = silent) -> LinearFindings:
        """What the audit finds with this noise."""
        return _assessed(self.proposal(stddevs), self.membership, progress)

    def lowest(self, stddevs: FloatArray) -> float:
        """What the audit says that everyone keeps with this noise."""
        least = self.audited(stddevs).least
        assert least is not None  # the plan was checked to say something of an unknown record
        return least.lower

    def columns(self, chosen: IndexArray) -> csc_array:
        """Some columns of the design as 0 and 1: rows × columns."""
        cells = self.linear.signatures[self.linear.column_signature[chosen]]
        owner = np.array([self.membership.cells[c].partition for c in self.linear.cells])
        starts = np.searchsorted(_ranks(owner), np.arange(cells.shape[1]))
        inside = cells >= 0
        rows = (starts + cells)[inside]
        place = np.broadcast_to(np.arange(len(chosen))[:, None], cells.shape)[inside]
        return csc_array((np.ones(rows.size), (rows, place)), shape=(owner.size, len(chosen)))


def task_of(
    plan: Plan, membership: Membership, *, limit: float, grain: Grain, loss: Loss, progress: Progress = silent
) -> DesignTask:
    """Check that a plan can be designed, and lay out its numbers."""
    _check(plan, membership)
    pricing = price(plan, membership)
    require(
        pricing.law is NoiseLaw.GAUSSIAN,
        "Gaussian noise",
        got=f"accountant = {plan.privacy.accountant!r}, whose noise is Laplace",
        fix="design chooses Gaussian noise; name another accountant",
        error=InvalidPlan,
    )
    before = pricing.scale
    queries = np.array([membership.partitions[cell.partition].query for cell in membership.cells])
    releases = [plan.releases[query] for query in queries]
    published = np.array([release.published for release in releases])
    given = np.array([release.noise_given for release in releases])
    least = np.array([release.least_noise_stddev or 0.0 for release in releases])
    most = np.array([release.most_noise_stddev or np.inf for release in releases])
    # A release that the budget pays for may not fall below what the budget asks for.
    floor = np.where(least > 0, np.where(given, least, np.maximum(least, before)), before)
    floor = np.where(published, before, floor)
    _check_bounds(plan, queries, floor, np.where(published, np.inf, most))
    stuck = published | (floor == most)
    require(
        not stuck.all(),
        "at least one release whose noise may be chosen",
        got="only releases that are published or have their noise fixed",
        error=InvalidPlan,
    )
    number = np.arange(queries.size) if grain is Grain.CELL else queries
    variable = np.full(queries.size, FIXED, dtype=np.intp)
    variable[~stuck] = np.unique(number[~stuck], return_inverse=True)[1]
    ceilings = np.full(int(variable.max()) + 1, np.inf)
    np.minimum.at(ceilings, variable[~stuck], ((most / floor) ** 2)[~stuck])
    starting = plan_with_noise(plan, membership, floor)
    progress("finding who is exposed", 0.0)
    findings = _assessed(starting, membership, progress)
    linear = findings.linear
    factors = linear.main.factors
    times = np.array([release.times for release in releases], dtype=np.float64)
    weight = np.array([release.weight for release in releases])
    match loss:
        case Loss.VARIANCE:
            weights = weight * times
        case Loss.RELATIVE:
            weights = weight * times / before**2
        case Loss.LARGEST:
            weights = weight**2
    return DesignTask(
        plan=plan,
        membership=membership,
        loss=loss,
        limit=limit,
        before=before,
        floor=floor,
        weights=weights,
        variable=variable,
        ceilings=ceilings,
        findings=findings,
        row_unit=factors**2 / linear.copies,
    )


def plan_with_noise(plan: Plan, membership: Membership, stddevs: FloatArray) -> Plan:
    """The plan with a standard deviation for each published number."""
    cells: dict[int, list[CellNoise]] = {}
    for cell, stddev in zip(membership.cells, stddevs.tolist(), strict=True):
        part = membership.partitions[cell.partition]
        cells.setdefault(part.query, []).append(CellNoise(key=cell.key, label=part.label, stddev=stddev))
    releases = []
    for query, release in enumerate(plan.releases):
        mine = cells.get(query, [])
        noise: dict[str, object] = {}
        if mine and len({one.stddev for one in mine}) == 1:
            noise = {"noise_stddev": mine[0].stddev, "noise_by_cell": ()}
        elif mine:
            noise = {"noise_stddev": None, "noise_by_cell": tuple(mine)}
        releases.append(release.model_copy(update=noise))
    return plan.model_copy(update={"releases": tuple(releases)})


def _assessed(plan: Plan, membership: Membership, progress: Progress) -> LinearFindings:
    found = linear_findings(plan, membership, price(plan, membership), progress=progress)
    assert found is not None  # the plan was checked to publish something linear
    return found


def _check(plan: Plan, membership: Membership) -> None:
    require(
        not is_nonlinear(membership),
        "means, sums and counts",
        got="a plan with moments or thresholds",
        fix="how much noise hides a record in them depends on the values; design the others without them",
        error=InvalidPlan,
    )
    require(
        bool(membership.cells) and bool(np.any(membership.counts > membership.known)),
        "a plan that publishes something about a secret that the attacker does not know",
        got="none",
        error=InvalidPlan,
    )
    several = _release_with_twins(membership)
    require(
        several is None,
        "numbers that their key and label tell apart",
        got=f"two alike in release {plan.releases[several or 0].name!r}",
        fix="make them two releases",
        error=InvalidPlan,
    )


def _release_with_twins(membership: Membership) -> int | None:
    """A release two of whose numbers have the same key and label; none if there is none."""
    seen = set()
    for cell in membership.cells:
        part = membership.partitions[cell.partition]
        mark = (part.query, part.label, cell.key)
        if mark in seen:
            return part.query
        seen.add(mark)
    return None


def _check_bounds(plan: Plan, queries: IndexArray, floor: FloatArray, most: FloatArray) -> None:
    for place in np.flatnonzero(floor > most)[:1]:
        release = plan.releases[queries[place]]
        raise InvalidPlan(
            f"release {release.name!r}: expected most_noise_stddev of at least its noise of "
            f"{floor[place]:.6g}, got {most[place]:.6g}; a design only adds noise: say least_noise_stddev"
        )


def _rounded_up(value: float) -> float:
    """A value to some digits, rounded up.

    >>> _rounded_up(3.14159265), _rounded_up(2.0)
    (3.141593, 2.0)
    """
    step = 10.0 ** (math.floor(math.log10(value)) + 1 - _DIGITS)
    found = float(f"{math.ceil(value / step * (1 - 1e-15)) * step:.{_DIGITS}g}")
    return found if found >= value else float(np.nextafter(value, np.inf))


def _ranks(owner: IndexArray) -> IndexArray:
    """The place of each row's partition among those that have rows, in order of the rows."""
    changes = np.concatenate([[0], np.cumsum(np.diff(owner) != 0)])
    found: IndexArray = changes
    return found
