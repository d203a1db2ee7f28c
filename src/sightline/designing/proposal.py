"""From an optimum to noise that the audit passes: the audit certifies, the optimiser need not be trusted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from sightline.arrays import FloatArray
from sightline.designing.newton import least_noise
from sightline.designing.problem import NoiseProblem
from sightline.designing.task import DesignTask

_FIRST, _LAST = 1e-10, 1e6  # how much more variance is tried, over the proposed
_REFINEMENTS = 12
_SMALLEST = 0.5  # by how much less than the optimum for the chosen bounds is tried
_NOTICEABLE = 1e-4
_SAME = 1e-6  # variance over its floor's that counts as the floor
_RAISED_ALONE = 2.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Certified:
    """Standard deviations of all cells with which the audit finds nobody below the limit."""

    stddevs: FloatArray
    x: FloatArray  # the variables, before rounding
    audits: int


def certified(task: DesignTask, x: FloatArray) -> Certified | None:
    """The least common factor on the noise with which the audit passes; ``None`` if none does.

    A factor above 1 closes what rounding and the solver's tolerance left open. A factor below 1 is tried
    where the audit has a better bound than the one that was chosen.
    """
    audits = 0

    x = np.where(x < 1 + _SAME, 1.0, x)  # the method ends a little above the floors
    raised = x > 1

    def scaled(factor: float) -> FloatArray:
        # The noise of other numbers stays as it is, unless more noise on the raised ones does not help.
        mine = raised | (factor > _RAISED_ALONE)
        return np.clip(np.where(mine, x * factor, 1.0), 1.0, task.ceilings)

    def least(factor: float) -> float:
        nonlocal audits
        audits += 1
        return task.lowest(task.stddevs(scaled(factor)))

    def found(factor: float) -> Certified:
        return Certified(stddevs=task.stddevs(scaled(factor)), x=scaled(factor), audits=audits)

    first = least(1.0)
    if first >= task.limit:
        if first < task.limit * (1 + _NOTICEABLE) or not task.findings.repeatable or np.all(x == 1.0):
            return found(1.0)
        low, high = _SMALLEST, 1.0
        while least(low) >= task.limit:
            if np.all(scaled(low) == 1.0):
                return found(low)
            low, high = low / 4, low
        return found(_bisected(lambda factor: least(factor) >= task.limit, low, high))
    more = _FIRST
    while more <= _LAST:
        if least(1 + more) >= task.limit:
            if more == _FIRST or not task.findings.repeatable:
                return found(1 + more)
            passing = _bisected(lambda extra: least(1 + extra) >= task.limit, more / 10, more)
            return found(1 + passing)
        more *= 10
    return None


def _bisected(passes: Callable[[float], bool], low: float, high: float) -> float:
    """The least passing factor between one that fails and one that passes, from above."""
    for _ in range(_REFINEMENTS):
        middle = float(np.sqrt(low * high))
        low, high = (low, middle) if passes(middle) else (middle, high)
    return high


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LeastLargest:
    """The least largest weighted error with which the audit passes, and one with which it does not."""

    enough: float
    not_enough: float  # equal to ``enough`` where the floors are enough
    ceilings: FloatArray  # the variables at the largest error


def least_largest(task: DesignTask) -> LeastLargest | None:
    """Minimise the largest weighted standard deviation by a search over it, audit by audit.

    More noise never harms anyone, so a largest error T is enough iff the audit passes with exactly that error
    on every number, or its floor where that is more. ``None`` if the ceilings are too low for any T.
    """
    free = task.free
    error = np.sqrt(task.weights) * task.floor  # of each cell at its floor
    most, least = np.zeros(task.ceilings.size), float(np.max(error[free]))
    np.maximum.at(most, task.variable[free], error[free])

    def at(largest: float) -> FloatArray:
        return np.clip((largest / most) ** 2, 1.0, task.ceilings)

    def passes(largest: float) -> bool:
        return task.lowest(task.stddevs(at(largest))) >= task.limit

    if passes(least):
        return LeastLargest(enough=least, not_enough=least, ceilings=at(least))
    low, high = least, 2 * least
    while not passes(high):
        if np.all(at(high) == task.ceilings) or high > _LAST**2 * least:
            return None
        low, high = high, 2 * high
    while high > low * (1 + _SAME):
        middle = float(np.sqrt(low * high))
        low, high = (low, middle) if passes(middle) else (middle, high)
    return LeastLargest(enough=high, not_enough=low, ceilings=at(high))


def below_the_largest(task: DesignTask, problem: NoiseProblem, largest: LeastLargest) -> Certified:
    """Of all noise with the least largest error, one with a small sum of weighted variances."""
    capped = replace(task, ceilings=largest.ceilings)
    room = np.maximum(largest.ceilings, 1 + _SAME)
    optimum = least_noise(replace(problem, ceilings=room))
    found = None if optimum is None else certified(capped, np.minimum(optimum.x, largest.ceilings))
    most = largest.ceilings
    return found or Certified(stddevs=capped.stddevs(most), x=most, audits=0)
