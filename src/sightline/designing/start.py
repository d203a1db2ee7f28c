"""Where the method starts: a point that keeps all limits with room, and the constraints to begin with."""

from __future__ import annotations

import numpy as np

from sightline.arrays import FloatArray, IndexArray
from sightline.designing.problem import FIXED, NoiseProblem
from sightline.designing.risks import Risks, RowLimits
from sightline.labeled.incidence.protocol import BoolArray

_MOST = 1e14  # a factor beyond which more noise changes nothing
_ABOVE = 1.05  # times what a guess adds to the floors
# Numbers of records without room get so many times their variance; after some tries, what is surely enough.
_TRIES, _MORE = 4, 1.5
_INSIDE_LIMITS = 1.2  # times the variance that is just enough if all others are known
_ROOM = 0.01  # by how much of its level each limit must hold there
_AT_FLOOR, _OFF_FLOOR = 1e-4, 0.03  # a guess that is not raised, and how far from the floor a start is
_INSIDE = 1e-6  # how far below its ceiling, over the distance to the floor, a start is
# Constraints of one kind are taken without a choice up to this number, or so many for each row, which cost no
# more than the factorisations do. And up to these entries of recipes.
_ALL, _EACH_ROW, _ENTRIES = 1_000, 2, 3e7


def near_guess(problem: NoiseProblem, guess: FloatArray | None) -> tuple[FloatArray, IndexArray] | None:
    """A point a little above a guess that keeps all limits with room, and the variables raised there.

    ``None`` if there is none so near.
    """
    if guess is None or problem.level is not None:
        return None
    raised = guess > 1 + _AT_FLOOR
    most = 1.0 + (problem.ceilings - 1.0) * (1 - _INSIDE)
    x = np.minimum(np.where(raised, 1.0 + np.maximum((guess - 1.0) * _ABOVE, _OFF_FLOOR), 1.0), most)
    free = problem.variable != FIXED
    for attempt in range(_TRIES):
        enough = np.zeros(problem.floors.size)
        for one, slack in zip(problem.risks, problem.slacks(x), strict=True):
            short = slack <= _ROOM
            np.maximum.at(enough, one.columns[:, short].indices, _enough(one, short))
        if not enough.any():
            return x, np.flatnonzero(x > 1)
        rows = np.flatnonzero((enough > 0) & free)
        more = x.copy()
        if attempt < _TRIES - 2:
            more[problem.variable[rows]] *= _MORE
        else:
            np.maximum.at(more, problem.variable[rows], enough[rows] / problem.floors[rows])
        x = np.minimum(more, most)
    return None


def _enough(one: Risks, chosen: BoolArray) -> FloatArray:
    """For each entry of some columns, a variance that is enough if all others are known, with some room."""
    columns = one.columns[:, chosen]
    size = np.diff(columns.indptr)
    if isinstance(one, RowLimits):
        return np.asarray(_INSIDE_LIMITS * one.bounds[chosen])
    found: FloatArray = _INSIDE_LIMITS * columns.data**2 * np.repeat(one.needed[chosen] * size, size)
    return found


def strictly_feasible(problem: NoiseProblem) -> tuple[FloatArray, IndexArray] | None:
    """A point that keeps all limits with room, and the variables above their floors there.

    The noise is enough against an attacker who knows all other records, and then more. Numbers that none of
    the records is in are raised only where that fails: an attack may use them, too. ``None`` if no noise
    within the ceilings keeps the limits with room.
    """
    rows = problem.floors.size
    wanted, most = np.zeros(rows), np.full(rows, np.inf)
    for one in problem.risks:
        own = one.columns.indices
        if isinstance(one, RowLimits):
            if one.sign < 0:
                np.minimum.at(most, own, one.bounds)
            else:
                np.maximum.at(wanted, own, _INSIDE_LIMITS * one.bounds)
        else:
            np.maximum.at(wanted, own, _enough(one, np.ones(one.needed.size, dtype=np.bool_)))
    level = np.full(rows, FIXED) if problem.level is None else problem.level
    free = np.flatnonzero((problem.variable != FIXED) & (wanted > 0))
    if not free.size:
        return None
    active = np.unique(problem.variable[free])
    first = np.ones(problem.weights.size)
    np.maximum.at(first, problem.variable[free], wanted[free] / problem.floors[free])
    shared = np.flatnonzero(level != FIXED)
    ceilings = problem.ceilings.copy()
    np.minimum.at(ceilings, level[shared], most[shared] / problem.floors[shared])
    factor = 1.5
    while True:
        if factor > _MOST:
            if active.size == first.size:
                return None
            factor, active = 1.5, np.arange(first.size)
        x = np.ones(first.size)
        x[active] = first[active] * factor
        finite = np.isfinite(ceilings)
        inside = max(_INSIDE, 0.5 / factor)
        x[finite] = np.minimum(x[finite], 1.0 + (ceilings[finite] - 1.0) * (1 - inside))
        if shared.size:  # what a row adds to its level stays below the row's own ceiling
            room = np.full(x.size, np.inf)
            np.minimum.at(room, problem.variable[shared], (most / problem.floors)[shared] - x[level[shared]])
            x = np.minimum(x, np.maximum(1.0 + room * (1 - inside), 1.0))
        if problem.least_slack(x) > 0:
            return x, active
        factor *= 4


def worst_of_each_row(one: Risks, slack: FloatArray, eligible: IndexArray) -> IndexArray:
    """Of some constraints, those that are the worst of one of the rows that they are about."""
    if not eligible.size:
        return eligible
    own = one.columns[:, eligible]
    values = slack[eligible]
    entry = np.repeat(np.arange(eligible.size), np.diff(own.indptr))
    worst = np.full(own.shape[0], np.inf)
    np.minimum.at(worst, own.indices, values[entry])
    is_worst = values[entry] == worst[own.indices]
    # Of constraints that are alike the first is enough.
    leader = np.full(own.shape[0], eligible.size)
    np.minimum.at(leader, own.indices[is_worst], entry[is_worst])
    found: IndexArray = eligible[np.unique(leader[leader < eligible.size])]
    return found


def most_constraints(problem: NoiseProblem) -> int:
    """How many constraints of one kind take part without a choice."""
    rows = problem.floors.size
    return min(max(_ALL, _EACH_ROW * rows), int(_ENTRIES / rows))


def first_constraints(problem: NoiseProblem) -> list[IndexArray]:
    """The constraints to begin with: all of a few, else those that the floor breaks most."""
    most = most_constraints(problem)
    if all(one.needed.size <= most for one in problem.risks):
        return [np.arange(one.needed.size) for one in problem.risks]
    slacks = problem.slacks(np.ones(problem.weights.size))
    return [
        np.arange(one.needed.size)
        if one.needed.size <= most
        else worst_of_each_row(one, slack, np.arange(one.needed.size))
        for one, slack in zip(problem.risks, slacks, strict=True)
    ]
