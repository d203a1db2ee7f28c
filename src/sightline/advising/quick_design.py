"""The advice of an audit that comes from a design: a combination of noises that was audited again and passes.

The audit's own advice, a factor on all noise, protects everyone at the price of every number. A quick design
raises only the numbers that need it. It is one convex problem, solved roughly; `sightline design` takes more
time and finds the same or less.
"""

from __future__ import annotations

import math

import numpy as np

from sightline.advising.accuracy import changed_errors, errors_of
from sightline.advising.choice import quick_noise, targets_of
from sightline.advising.loss import Loss
from sightline.advising.proposal import certified
from sightline.advising.remedies import Do, Price, Then, errors_today
from sightline.advising.task import DesignTask, Grain, task_of
from sightline.arrays import FloatArray
from sightline.auditing.findings import Findings
from sightline.auditing.result import Change, ChangeKind
from sightline.auditing.result_parts import Fact, fact
from sightline.errors import InvalidNoise, InvalidPlan
from sightline.progress import report

# Rows × columns of a design that is solved within an audit; `sightline design` has no such limit.
_MOST_ENTRIES = 3e6
_WORTHWHILE = 0.97  # of the common factor's loss: designs that save less are not proposed


def noise_changes(findings: Findings, common: Change | None) -> tuple[Change, ...]:
    """A designed combination, and the common factor if there is one."""
    found, limit = findings.linear, findings.limit
    commons = () if common is None else (common,)
    if not found or not limit:
        return commons
    if not found.repeatable or found.linear.row_count * len(found.people) > _MOST_ENTRIES:
        return tuple(one.model_copy(update={"design_finds_less": True}) for one in commons)
    report("looking for less noise", 0.0)
    factor = min((one.noise_factor or math.inf for one in commons), default=math.inf)
    return (*_designed_changes(findings, limit, common=factor), *commons)


def quick_design(findings: Findings, limit: float) -> list[tuple[DesignTask, FloatArray]]:
    """A task, and standard deviations of all numbers with which the audit finds nobody below the limit.

    Nothing if no noise is enough, or for plans that cannot be designed, such as those with Laplace noise or
    with next to no noise.
    """
    plan, membership = findings.plan, findings.membership
    try:
        task = task_of(plan, membership, limit=limit, grain=Grain.CELL, loss=Loss.RELATIVE)
        chosen = quick_noise(task, targets_of(task))
        return [(task, certified(task, task.factors(chosen.optimum.u)).stddevs)]
    except (InvalidPlan, InvalidNoise):
        return []


def _designed_changes(findings: Findings, limit: float, *, common: float) -> list[Change]:
    """The change to a quick design; none if it is not much better than a common factor."""
    return [
        _change(findings, task, stddevs, common)
        for task, stddevs in quick_design(findings, limit)
        if task.total(stddevs) / task.total(task.before) <= _WORTHWHILE * common**2
    ]


def _change(findings: Findings, task: DesignTask, stddevs: FloatArray, common: float) -> Change:
    times = task.total(stddevs) / task.total(task.before)
    changed = int(np.count_nonzero(stddevs != task.before))
    raised_alone = not bool(np.any(stddevs < task.before))
    rival = {"common": common**2} if math.isfinite(common) else {}
    errors: tuple[Fact, ...] = ()
    if not findings.pricing.strategies:  # else the error of a number is no multiple of one noise
        published = findings.pricing.published_stddev * stddevs / task.before
        errors = changed_errors(errors_today(findings), errors_of(task.plan, task.membership, published))
    return Change(
        kind=ChangeKind.DESIGN,
        release=None,
        variance_factor=times,
        reaches_limit=True,
        what=fact(Do.DESIGNED_NOISE, numbers=changed, of=int(stddevs.size), raised_alone=raised_alone),
        then=fact(Then.EVERYONE_KEEPS, limit=findings.plan.limits.text),
        price=fact(Price.VARIANCE, *errors, times=times, **rival),
    )
