"""Merging in place of withholding: a group is published together with its neighbour, so that both are hidden.

The search is greedy. While the audit fails with the most noise, it takes a set of numbers that breaks the
limit by itself and tries every merge of one of them with the group before or after it in the order of the
keys. The merge that leaves the fewest records below the limit is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sightline.auditing.plan import MergedCells, Plan
from sightline.auditing.release_noise import CellNoise
from sightline.designing.result import DesignResult, Merging
from sightline.designing.suppression import Ceilings, conflicts_of
from sightline.designing.task import DesignTask, Grain, task_of
from sightline.progress import Progress, silent
from sightline.tables.membership import Membership
from sightline.tables.published import merged_key, published

_MOST_MERGES = 200
Groups = tuple[tuple[int, ...], ...]  # of cells of the plan as it was: each is one published number


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MergedTask:
    """A task whose numbers are groups of another one's."""

    task: DesignTask
    groups: Groups

    @property
    def merged(self) -> Groups:
        """The groups of several cells."""
        return tuple(group for group in self.groups if len(group) > 1)


def enough_merges(task: DesignTask, grain: Grain, progress: Progress = silent) -> MergedTask | None:
    """Merges with which some noise within the ceilings keeps the limit; ``None`` if none were found."""
    now = MergedTask(task=task, groups=tuple((c,) for c in range(len(task.membership.cells))))
    for _ in range(_MOST_MERGES):
        progress("trying what to merge", 0.0)
        ceilings = Ceilings.of(now.task)
        conflicts = conflicts_of(ceilings, ceilings.may_go, most=1)
        if not conflicts:
            return now
        tried = [_merged(task, groups, grain) for groups in _candidates(task, now, conflicts[0].tolist())]
        if not tried:
            return None
        now = min(tried, key=lambda one: _harm(one.task))
    return None


def merging_report(task: DesignTask, found: MergedTask, result: DesignResult) -> Merging:
    """The merges by name, and what the designed noise costs with them."""
    names = []
    for group in found.merged:
        cells = [task.membership.cells[c] for c in group]
        part = task.membership.partitions[cells[0].partition]
        words = [*merged_key([cell.key for cell in cells]), *([part.label] if part.label else [])]
        names.append(f"{task.plan.releases[part.query].name}: {', '.join(words)}")
    return Merging(
        merged=tuple(names),
        numbers_lost=len(task.membership.cells) - len(found.groups),
        loss_designed=result.loss_designed,
        passed=result.passed,
        plan=result.plan,
    )


def _harm(task: DesignTask) -> tuple[int, float]:
    ceilings = Ceilings.of(task)
    return ceilings.harm(ceilings.may_go)


def _candidates(task: DesignTask, now: MergedTask, conflict: list[int]) -> Iterator[Groups]:
    """The groups after a merge of one of some numbers with a neighbour."""
    membership, plan = task.membership, task.plan
    owner = [membership.cells[group[0]].partition for group in now.groups]
    for place in sorted({first for one in conflict for first in (one - 1, one)}):
        if not 0 <= place < len(owner) - 1 or owner[place] != owner[place + 1]:
            continue
        release = plan.releases[membership.partitions[owner[place]].query]
        if release.published or release.merge or not membership.cells[now.groups[place][0]].key:
            continue
        together = now.groups[place] + now.groups[place + 1]
        yield (*now.groups[:place], together, *now.groups[place + 2 :])


def _merged(task: DesignTask, groups: Groups, grain: Grain) -> MergedTask:
    """The task with some cells merged."""
    several = [group for group in groups if len(group) > 1]
    plan = _with_merges(task.plan, task.membership, several)
    membership = published(task.membership, merged=several)
    found = task_of(plan, membership, limit=task.limit, grain=grain, loss=task.loss)
    return MergedTask(task=found, groups=groups)


def _with_merges(plan: Plan, membership: Membership, groups: list[tuple[int, ...]]) -> Plan:
    """The plan with some cells merged; noise of their own becomes the largest of it."""
    releases = list(plan.releases)
    for group in groups:
        cells = [membership.cells[c] for c in group]
        part = membership.partitions[cells[0].partition]
        release, keys = releases[part.query], tuple(cell.key for cell in cells)
        mine = [one for one in release.noise_by_cell if one.label == part.label and one.key in keys]
        noise = tuple(one for one in release.noise_by_cell if one not in mine)
        if mine:
            most = float(np.max([one.stddev for one in mine]))
            noise += (CellNoise(key=merged_key(keys), label=part.label, stddev=most),)
        merge = (*release.merge, MergedCells(keys=keys, label=part.label))
        releases[part.query] = release.model_copy(update={"merge": merge, "noise_by_cell": noise})
    return plan.model_copy(update={"releases": tuple(releases)})
