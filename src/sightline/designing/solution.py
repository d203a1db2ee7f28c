"""From a task to noise that the audit passes: with a common factor, and with the least loss."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sightline.arrays import FloatArray
from sightline.designing.choice import Chosen, best_noise, common_guess
from sightline.designing.proposal import (
    Certified,
    audited_or_more,
    below_the_largest,
    by_the_audit_alone,
    certified,
    certified_common,
    least_largest,
    proportional,
)
from sightline.designing.targets import targets_of
from sightline.designing.task import DesignTask, Loss
from sightline.progress import Progress, silent

# Losses that differ by less are the same.
_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Solution:
    """Noise that the audit passes, and what the solver says about it."""

    common: Certified  # with the least common factor
    chosen: Chosen | None  # the optimum for the chosen bounds; none where only the audit knows enough
    proof: Certified  # the noise to propose
    loss_at_least: float | None  # no noise passes with less by the chosen bounds; none if the audit does


def solve(task: DesignTask, watch: Progress = silent) -> Solution | None:
    """The least noise with which everyone keeps the limit; ``None`` if none within the ceilings is enough."""
    targets = targets_of(task)
    watch("trying a common factor", 0.0)
    common = certified_common(task, common_guess(task, targets))
    candidates = (None if common is None else common.stddevs, proportional(task))
    starts = [_within(task, one) for one in candidates if one is not None]
    if common is None:
        return None
    chosen = best_noise(task, targets, starts, watch)
    watch("auditing the proposal", 0.0)
    if chosen is None:
        only = by_the_audit_alone(task)
        return None if only is None else Solution(common=common, chosen=None, proof=only, loss_at_least=None)
    proof: Certified | None
    if task.loss is Loss.LARGEST:
        largest = least_largest(task)
        proof = None if largest is None else below_the_largest(task, chosen.problem, largest)
        at_least = 0.0 if largest is None else largest.not_enough
    else:
        proof, at_least = certified(task, task.factors(chosen.optimum.x)), chosen.optimum.lower
    for rival in starts:
        within = bool(np.all((rival <= task.most) | ~task.free))
        if within and (proof is None or task.total(rival) < task.total(proof.stddevs) * (1 - _ROUNDING)):
            proof = audited_or_more(task, rival) or proof
    if proof is None:
        return None
    proven = _proven(task, at_least, task.total(proof.stddevs))
    return Solution(common=common, chosen=chosen, proof=proof, loss_at_least=proven)


def _proven(task: DesignTask, at_least: float, total: float) -> float | None:
    """The lower bound; none where the audit passes with less, or judges persons by several rows."""
    left_out = task.several_rows and task.several_categories
    if left_out or at_least > total * (1 + _ROUNDING):
        return None
    return min(at_least, total)


def _within(task: DesignTask, stddevs: FloatArray) -> FloatArray:
    """Noise to start from: a common factor's, or the ceilings where that is too much."""
    above = bool(np.any((stddevs > task.most) & task.free))
    return np.where(task.free & np.isfinite(task.most), task.most, stddevs) if above else stddevs
