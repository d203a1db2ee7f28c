"""The smallest set of numbers to withhold, where the ceilings on the noise are too low for the limit.

A number that is withheld is one with infinite noise. With every number at its ceiling the audit must pass:
more noise never harms anyone, so if it fails there, some number must go. Numbers without a ceiling need not
go: their noise can rise instead, and they are left out of the question.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sightline.arrays import FloatArray, IndexArray
from sightline.auditing.findings import LinearFindings, linear_findings
from sightline.auditing.plan import Plan
from sightline.auditing.pricing import price
from sightline.designing.hitting import cheapest_hitting_set, smallest_conflict
from sightline.designing.part_audit import PartAudit
from sightline.designing.result import Suppressed, WithheldNumber
from sightline.designing.task import DesignTask, Grain, plan_with_noise, task_of
from sightline.labeled.incidence.protocol import BoolArray
from sightline.progress import Progress, silent
from sightline.tables.membership import Membership
from sightline.tables.published import published, without_queries

_CONFLICTS_AT_ONCE = 20
_ROUNDING = 1e-6  # in a bound on a whole number


@dataclass(frozen=True, kw_only=True, eq=False)
class Ceilings:
    """The numbers of a task with the most noise that they may have."""

    task: DesignTask
    most: FloatArray  # standard deviation of each cell; infinite without a ceiling

    @classmethod
    def of(cls, task: DesignTask) -> Ceilings:
        """The ceilings of a task's numbers; what is published stays as it is."""
        most = np.where(task.free, task.most, task.floor)
        return cls(task=task, most=most)

    @cached_property
    def quick(self) -> PartAudit | None:
        """A quick audit; none where only the audit itself can say."""
        return PartAudit.of(self.task)

    @property
    def published(self) -> BoolArray:
        """Cells that are out already, and cannot be withheld."""
        plan, membership = self.task.plan, self.task.membership
        return np.array(
            [plan.releases[membership.partitions[c.partition].query].published for c in membership.cells]
        )

    @property
    def may_go(self) -> IndexArray:
        """Cells that have a ceiling and may be withheld."""
        return np.flatnonzero(~self.published & np.isfinite(self.most))

    def published_with(self, kept: IndexArray) -> BoolArray:
        """Cells that are published if some cells are kept: those and what is out already."""
        found = self.published.copy()
        found[kept] = True
        return found

    def audited(self, kept: IndexArray) -> LinearFindings | None:
        """What the audit finds if some cells are kept, each with the most noise; ``None`` for nothing."""
        task, mask = self.task, self.published_with(kept)
        plan, membership = without_numbers(task.plan, task.membership, np.flatnonzero(~mask))
        if not membership.cells:
            return None
        plan = plan_with_noise(plan, membership, self.most[mask])
        return linear_findings(plan, membership, price(plan, membership))

    def passes(self, kept: IndexArray) -> bool:
        """Whether the audit finds nobody below the limit if some cells are kept."""
        found = self.audited(kept)
        return found is None or found.least is None or found.least.lower >= self.task.limit

    def seems_to_fail(self, kept: IndexArray) -> bool:
        """The opposite, by a quick audit where there is one."""
        if self.quick is None:
            return not self.passes(kept)
        return self.quick.least(*self._rows(kept)) < self.task.limit

    def likeliest(self, kept: IndexArray) -> IndexArray:
        """The kept cells, those first that the sharpest attack uses most: else, those of the fewest rows."""
        cells = self.task.linear.cells
        if self.quick is None:
            sizes = np.array([self.task.membership.cells[c].rows for c in kept])
            return kept[np.argsort(sizes, kind="stable")]
        rows, variances = self._rows(kept)
        of_cell = np.zeros(self.most.size)
        of_cell[cells[rows]] = self.quick.used_by_the_sharpest(rows, variances)
        return kept[np.argsort(-of_cell[kept], kind="stable")]

    def _rows(self, kept: IndexArray) -> tuple[IndexArray, FloatArray]:
        """The rows of the design that are published if some cells are kept, and their variances."""
        cells = self.task.linear.cells
        rows = np.flatnonzero(self.published_with(kept)[cells])
        return rows, self.most[cells[rows]] ** 2 * self.task.row_unit[rows]


def without_numbers(plan: Plan, membership: Membership, gone: IndexArray) -> tuple[Plan, Membership]:
    """The plan that withholds some cells, and its membership; releases without another number are dropped."""
    if not gone.size:
        return plan, membership
    marks: dict[int, list[tuple[tuple[str, ...], str]]] = {}
    for c in gone.tolist():
        part = membership.partitions[membership.cells[c].partition]
        marks.setdefault(part.query, []).append((membership.cells[c].key, part.label))
    found = published(membership, withheld=gone.tolist())
    before = {part.query for part in membership.partitions}
    dropped = before - {part.query for part in found.partitions}
    releases = []
    for query, release in enumerate(plan.releases):
        if query not in dropped:
            releases.append(release.without(marks[query]) if query in marks else release)
    changed = plan.model_copy(update={"releases": tuple(releases)})
    return changed, without_queries(found, dropped)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Suppression:
    """Cells to withhold, so that some noise within the ceilings keeps the limit."""

    withheld: IndexArray
    at_least: int  # no fewer are enough
    smallest_first: int  # how many it takes to withhold the cells of the fewest rows first


def smallest_suppression(task: DesignTask, progress: Progress = silent) -> Suppression | None:
    """The fewest numbers to withhold.

    ``None`` if none need be withheld, and if that does not help: what is published breaks the limit, or
    nothing would be left.
    """
    if not np.any(np.isfinite(task.most)):
        return None
    ceilings = Ceilings.of(task)
    units = ceilings.may_go
    if not units.size or ceilings.passes(units):
        return None
    rows = np.array([task.membership.cells[c].rows for c in units], dtype=np.float64)
    if not ceilings.passes(np.zeros(0, dtype=np.intp)):
        return None

    def conflicts(kept: IndexArray) -> list[IndexArray]:
        progress("finding what to withhold", 0.0)
        place = np.full(ceilings.most.size, -1, dtype=np.intp)
        place[units] = np.arange(units.size)
        return [place[one] for one in conflicts_of(ceilings, units[kept])]

    found = cheapest_hitting_set(np.ones(units.size), conflicts)
    assert found is not None  # with nothing but what is published the audit passes
    if found.chosen.size == ceilings.most.size:
        return None
    return Suppression(
        withheld=units[found.chosen],
        at_least=math.ceil(found.at_least - _ROUNDING),
        smallest_first=_smallest_first(ceilings, units[np.argsort(rows, kind="stable")]),
    )


def conflicts_of(ceilings: Ceilings, kept: IndexArray, *, most: int = _CONFLICTS_AT_ONCE) -> list[IndexArray]:
    """Sets of cells that break the limit by themselves, without a cell in common; none if all pass.

    The audit has the last word: on what passes, and on each set.
    """
    conflicts: list[IndexArray] = []
    left = kept
    while len(conflicts) < most and left.size and ceilings.seems_to_fail(left):
        found = smallest_conflict(ceilings.likeliest(left), ceilings.seems_to_fail)
        if ceilings.passes(found):
            break
        conflicts.append(found)
        left = np.setdiff1d(left, found)
    if conflicts or ceilings.passes(kept):
        return conflicts
    return [smallest_conflict(ceilings.likeliest(kept), lambda cells: not ceilings.passes(cells))]


def _smallest_first(ceilings: Ceilings, order: IndexArray) -> int:
    """How many cells must go, if they go in an order, until the audit passes."""
    low, high = -1, order.size
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if ceilings.seems_to_fail(order[middle:]) else (low, middle)
    while not ceilings.passes(order[high:]):
        high += 1
    return high


def replaced_task(task: DesignTask, withheld: IndexArray, grain: Grain) -> DesignTask:
    """The task of the plan that withholds some cells."""
    plan, membership = without_numbers(task.plan, task.membership, withheld)
    return task_of(plan, membership, limit=task.limit, grain=grain, loss=task.loss)


def suppressed_numbers(task: DesignTask, found: Suppression) -> Suppressed:
    """What is withheld, with its names."""
    membership, numbers = task.membership, []
    for c in found.withheld.tolist():
        cell = membership.cells[c]
        part = membership.partitions[cell.partition]
        words = [*cell.key, *([part.label] if part.label else [])]
        name = task.plan.releases[part.query].name
        numbers.append(WithheldNumber(release=name, cell=", ".join(words), rows=cell.rows))
    return Suppressed(withheld=tuple(numbers), at_least=found.at_least, smallest_first=found.smallest_first)
