"""The advice of an audit that comes from a design: a combination of noises that was audited again and passes.

The audit's own advice, a factor on all noise, protects everyone at the price of every number. A quick design
raises only the numbers that need it. It is one convex problem, and no better than a percent of what its bound
allows; `sightline design` takes more time and finds the same or less.
"""

from __future__ import annotations

import numpy as np

from sightline.arrays import FloatArray
from sightline.auditing.findings import Findings
from sightline.auditing.result import Change, ChangeKind
from sightline.designing.choice import quick_noise
from sightline.designing.proposal import certified
from sightline.designing.targets import targets_of
from sightline.designing.task import DesignTask, Grain, Loss, task_of
from sightline.errors import InvalidNoise, InvalidPlan
from sightline.format import number
from sightline.progress import report

# Rows × columns of a design that is solved within an audit; `sightline design` has no such limit.
_MOST_ENTRIES = 3e6
_WORTHWHILE = 0.97  # of the common factor's loss: designs that save less are not proposed


def noise_changes(findings: Findings, common: Change | None) -> tuple[Change, ...]:
    """A designed combination, and the common factor if there is one."""
    found, limit = findings.linear, findings.limit
    if found is None or not limit:
        return () if common is None else (common,)
    if not found.repeatable or found.linear.row_count * len(found.people) > _MOST_ENTRIES:
        if common is None:
            return ()
        text = f'{common.text}; the plan is too large to look for less here, "sightline design" does'
        return (common.model_copy(update={"text": text}),)
    report("looking for less noise", 0.0)
    factor = None if common is None else common.noise_factor
    return tuple(filter(None, (_designed_change(findings, limit, common=factor), common)))


def quick_design(findings: Findings, limit: float) -> tuple[DesignTask, FloatArray] | None:
    """A task, and standard deviations of all numbers with which the audit finds nobody below the limit.

    None if no noise is enough, or for plans that cannot be designed, such as those with Laplace noise or with
    next to no noise.
    """
    plan, membership = findings.plan, findings.membership
    try:
        task = task_of(plan, membership, limit=limit, grain=Grain.CELL, loss=Loss.RELATIVE)
        chosen = quick_noise(task, targets_of(task))
        return task, certified(task, task.factors(chosen.optimum.x)).stddevs
    except (InvalidPlan, InvalidNoise):
        return None


def _designed_change(findings: Findings, limit: float, *, common: float | None) -> Change | None:
    """The change to a quick design; none if it is not much better than a common factor."""
    found = quick_design(findings, limit)
    if found is None:
        return None
    task, stddevs = found
    times = task.total(stddevs) / task.total(task.before)
    if common is not None and times > _WORTHWHILE * common**2:
        return None
    changed = int(np.count_nonzero(stddevs != task.before))
    verb = "change" if np.any(stddevs < task.before) else "raise"
    rival = "" if common is None else f"; a factor on all noise costs {number(common**2, 3)} times"
    effect = f"then everyone keeps at least {findings.plan.limits.text}"
    numbers = f"{changed:,} of {stddevs.size:,} numbers"
    text = f'{verb} the noise of {numbers}, as "sightline design" writes it: {effect}'
    return Change(
        kind=ChangeKind.DESIGN,
        release=None,
        variance_factor=times,
        reaches_limit=True,
        text=text,
        effect=effect,
        cost=f"{number(times, 3)} times the variance on average{rival}",
    )
