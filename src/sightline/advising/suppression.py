r"""The smallest set of numbers to withhold, where the ceilings on the noise are too low for the limit.

A number that is withheld is one with infinite noise. With every number at its ceiling the audit must pass:
more noise never harms anyone, so if it fails there, some number must go. Numbers without a ceiling need not
go: their noise can rise instead, and they are left out of the question.

The test is a black box, with one law: what passes still passes with fewer numbers. A *conflict* is a set of
numbers that fails by itself, so every answer leaves out one of them. The smallest set that hits all conflicts
found so far,

.. math:: \min \sum_u z_u \quad\text{with}\quad \sum_{u \in T} z_u \ge 1 \text{ for every conflict } T,
    \quad z_u \in \{0, 1\},

is no larger than any answer. It is left out and the rest is tested: if it passes it is a smallest answer,
and otherwise there is a new conflict. A quick audit of some of the numbers serves the search; what the search
finds is audited.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csc_array, csr_array

from sightline.advising.design_result import Suppressed, WithheldNumber
from sightline.advising.levels import lower_ends
from sightline.advising.task import DesignTask, Grain, plan_with_noise, task_of
from sightline.arrays import FloatArray, IndexArray
from sightline.auditing.findings import LinearFindings, worst_linear
from sightline.auditing.pricing import price
from sightline.auditing.stated_noise import without_numbers
from sightline.progress import report
from sightline.units.unit_block import BoolArray

# Tests of what is left by the search for the fewest, and nodes of each of its programs: a hundred audits of
# small designs, and twenty thousand nodes, take some ten seconds.
_MOST_TRIES, _MOST_NODES = 100, 20_000

# Conflicts among the units that are kept: none if they pass. An empty conflict: nothing passes.
FindConflicts = Callable[[IndexArray], list[IndexArray]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HittingSet:
    """Units to leave out."""

    chosen: IndexArray
    at_least: int  # no fewer units leave a rest that passes; 0 where nothing is known


def smallest_hitting_set(
    count: int, find_conflicts: FindConflicts, *, tries: int = _MOST_TRIES
) -> list[HittingSet]:
    """The fewest of some units to leave out; no set if nothing that is left passes.

    First one unit of each conflict that is found, the one in most of them (greedy). Then the fewest that hit
    all conflicts, and again with those that are found in the rest, until that passes or is as large as the
    best set so far. It ends after so many tests of a rest, or nodes of a program, on every machine the same:
    then the answer is the best set so far, and ``at_least`` what the conflicts prove.
    """
    conflicts: list[IndexArray] = []
    everything, asked = np.arange(count), 0

    def until_it_passes(left_out: IndexArray) -> IndexArray | None:
        """With a unit of each conflict in the rest, until there is none. After many tests with all units, and
        after more of them everything. None if nothing passes.
        """
        nonlocal asked
        while found := find_conflicts(np.setdiff1d(everything, left_out)):
            asked += 1
            if any(not one.size for one in found):
                return None
            if asked > 2 * tries:
                return everything
            conflicts.extend(found)
            often = np.bincount(np.concatenate(conflicts), minlength=count)
            hit = found if asked > tries else [one[[int(np.argmax(often[one]))]] for one in found]
            left_out = np.union1d(left_out, np.concatenate(hit))
        asked += 1
        return left_out

    best, bound = until_it_passes(np.zeros(0, dtype=np.intp)), 0
    while best is not None:
        chosen, bound = _fewest(count, conflicts)
        if bound >= best.size or asked >= tries:
            break
        candidate = until_it_passes(chosen)
        if candidate is None:
            break
        best = min(candidate, best, key=len)
        if candidate.size == chosen.size:
            break
    if best is None:
        return []
    for unit in best:  # without those that may stay
        fewer = best[best != unit]
        if best.size > bound and asked < 2 * tries:
            asked += 1
            best = best if find_conflicts(np.setdiff1d(everything, fewer)) else fewer
    return [HittingSet(chosen=best, at_least=min(bound, best.size))]


def _fewest(count: int, conflicts: list[IndexArray]) -> tuple[IndexArray, int]:
    """A set that hits every conflict, by branch and bound (HiGHS), and how many every such set has at least.

    It is the smallest one unless the search takes too many nodes.
    """
    if not conflicts:
        return np.zeros(0, dtype=np.intp), 0
    rows = np.repeat(np.arange(len(conflicts)), [one.size for one in conflicts])
    entries = (np.ones(rows.size), (rows, np.concatenate(conflicts)))
    from scipy.optimize import Bounds, LinearConstraint, milp  # takes longer to import than a small audit

    found = milp(
        np.ones(count),
        constraints=LinearConstraint(csr_array(entries, shape=(len(conflicts), count)), lb=1.0),
        integrality=np.ones(count),
        bounds=Bounds(0.0, 1.0),
        options={"mip_rel_gap": 0.0, "node_limit": _MOST_NODES},
    )
    if found.x is None:  # nothing in so many nodes: one unit of each conflict will do
        return np.unique([one[0] for one in conflicts]), 1
    chosen = np.flatnonzero(found.x > 0.5)
    rounding = 1e-6  # HiGHS's own tolerance
    proved = chosen.size if found.status == 0 else math.ceil(float(found.mip_dual_bound) - rounding)
    return chosen, min(chosen.size, proved)


def smallest_conflict(units: IndexArray, fails: Callable[[IndexArray], bool]) -> IndexArray:
    """A conflict none of whose units can be spared. ``units`` fail, and the likeliest ones come first."""
    high, size = units.size, 1
    low = 0
    while size < high:  # the shortest beginning that fails
        if fails(units[:size]):
            high = size
            break
        low, size = size, 2 * size
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fails(units[:middle]) else (middle, high)
    kept = units[:high]
    for unit in kept[:-1]:  # the beginning without its last unit passes, so that one is needed
        rest = kept[kept != unit]
        if fails(rest):
            kept = rest
    return kept


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
    def _rows(self) -> tuple[csr_array, FloatArray]:
        """Rows × columns of unknown records, and a random number a row: equal sums are equal signatures."""
        linear = self.task.linear
        rows = csr_array(self.task.columns(np.arange(len(linear.units)))[: linear.row_count])
        return rows, np.random.default_rng(0).random(linear.row_count)

    def quick(self, kept: IndexArray) -> tuple[float, FloatArray]:
        """A quick audit if some cells are kept: the least lower end, and how much the best attack on the
        record that keeps least uses each cell. Of persons with one row and no category: of few values, or
        where some numbers are told last, the audit may know more.
        """
        linear, (incidence, marks) = self.task.linear, self._rows
        rows = np.flatnonzero(self.published_with(kept)[linear.cells])
        cells = linear.cells[rows]
        variances, used = self.most[cells] ** 2 * self.task.row_unit[rows], np.zeros(self.most.size)
        part = incidence[rows]
        sums = part.T @ marks[rows]
        touched = np.flatnonzero(sums)
        if not touched.size:
            return 1.0, used
        _, first, place = np.unique(sums[touched], return_index=True, return_inverse=True)
        counts = np.bincount(place.ravel(), linear.units.people[touched]).astype(np.float64)
        columns, own = csc_array(part.tocsc()[:, touched[first]]), np.arange(counts.size)
        lower, inverse = lower_ends(linear.prior.of_column, columns, counts, variances, own=own, alike=counts)
        recipe = inverse @ columns[:, [int(np.argmin(lower))]].toarray()[:, 0]
        used[cells] = recipe**2 * variances
        return float(np.min(lower)), used

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
        return worst_linear(plan, membership, price(plan, membership))

    def passes(self, kept: IndexArray) -> bool:
        """Whether the audit finds nobody below the limit if some cells are kept."""
        found = self.audited(kept)
        return found is None or found.least.lower >= self.task.limit

    def seems_to_fail(self, kept: IndexArray) -> bool:
        """The opposite, by a quick audit where the audit knows no more."""
        if self.task.several_rows or self.task.several_categories:
            return not self.passes(kept)
        return self.quick(kept)[0] < self.task.limit

    def likeliest(self, kept: IndexArray) -> IndexArray:
        """The kept cells, those first that the sharpest attack uses most: else, those of the fewest rows."""
        if self.task.several_rows or self.task.several_categories:
            sizes = np.array([self.task.membership.cells[c].rows for c in kept])
            return kept[np.argsort(sizes, kind="stable")]
        return kept[np.argsort(-self.quick(kept)[1][kept], kind="stable")]


def smallest_suppression(task: DesignTask) -> list[HittingSet]:
    """The cells to withhold, as few as can be.

    No set if none need be withheld, and if that does not help: what is published breaks the limit, or
    nothing would be left.
    """
    if not np.any(np.isfinite(task.most)):
        return []
    ceilings = Ceilings.of(task)
    units = ceilings.may_go
    if not units.size or ceilings.passes(units):
        return []
    if not ceilings.passes(np.zeros(0, dtype=np.intp)):
        return []

    def conflicts(kept: IndexArray) -> list[IndexArray]:
        report("finding what to withhold", 0.0)
        place = np.full(ceilings.most.size, -1, dtype=np.intp)
        place[units] = np.arange(units.size)
        return [place[one] for one in conflicts_of(ceilings, units[kept])]

    return [
        # Of few values the audit may pass with walks, which are not tried here.
        HittingSet(chosen=units[found.chosen], at_least=found.at_least if task.crowd is None else 0)
        for found in smallest_hitting_set(units.size, conflicts)
        if found.chosen.size < ceilings.most.size
    ]


def conflicts_of(ceilings: Ceilings, kept: IndexArray) -> list[IndexArray]:
    """Sets of cells that break the limit by themselves, without a cell in common; none if all pass.

    The audit has the last word: on what passes, and on each set.
    """
    conflicts: list[IndexArray] = []
    left = kept
    while left.size and ceilings.seems_to_fail(left):
        found = smallest_conflict(ceilings.likeliest(left), ceilings.seems_to_fail)
        if ceilings.passes(found):
            break
        conflicts.append(found)
        left = np.setdiff1d(left, found)
    if conflicts or ceilings.passes(kept):
        return conflicts
    return [smallest_conflict(ceilings.likeliest(kept), lambda cells: not ceilings.passes(cells))]


def replaced_task(task: DesignTask, withheld: IndexArray, grain: Grain) -> DesignTask:
    """The task of the plan that withholds some cells."""
    plan, membership = without_numbers(task.plan, task.membership, withheld)
    return task_of(plan, membership, limit=task.limit, grain=grain, loss=task.loss)


def suppressed_numbers(task: DesignTask, found: HittingSet) -> Suppressed:
    """What is withheld, with its names."""
    membership, numbers = task.membership, []
    for c in found.chosen.tolist():
        cell = membership.cells[c]
        part = membership.partitions[cell.partition]
        words = [*cell.key, *([part.label] if part.label else [])]
        name = task.plan.releases[part.query].name
        numbers.append(WithheldNumber(release=name, cell=", ".join(words), rows=cell.rows))
    return Suppressed(withheld=tuple(numbers), at_least=found.at_least)
