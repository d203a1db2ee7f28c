r"""The cheapest set of units to leave out, so that what is left passes a test.

The test is a black box, with one law: what passes still passes with fewer units. A *conflict* is a set of
units that fails by itself, so every answer leaves out one of them. The cheapest set that hits all conflicts
found so far,

.. math:: \min \sum_u c_u z_u \quad\text{with}\quad \sum_{u \in T} z_u \ge 1 \text{ for every conflict } T,
    \quad z_u \in \{0, 1\},

costs no more than any answer. It is left out and the rest is tested: if it passes it is a cheapest answer,
and otherwise there is a new conflict.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array

from sightline.arrays import FloatArray, IndexArray

_LONGEST = 20.0  # seconds for one search
# Conflicts among the units that are kept: none if they pass. An empty conflict: nothing passes.
FindConflicts = Callable[[IndexArray], list[IndexArray]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HittingSet:
    """Units to leave out."""

    chosen: IndexArray
    cost: float
    at_least: float  # no set of units whose rest passes costs less
    conflicts: tuple[IndexArray, ...]  # the proof: each fails by itself


def cheapest_hitting_set(
    costs: FloatArray, find_conflicts: FindConflicts, *, seconds: float = 60.0
) -> HittingSet | None:
    """The cheapest units to leave out; ``None`` if nothing that is left passes.

    After some seconds the answer is one that passes and of which every unit is needed, and ``at_least`` is
    what the conflicts prove.
    """
    conflicts: list[IndexArray] = []
    end = monotonic() + seconds
    while True:
        chosen, bound = _cheapest(costs, conflicts)
        left_out = chosen
        # Conflicts that share no unit with each other, until the rest passes: each proves something else.
        while found := find_conflicts(np.setdiff1d(np.arange(costs.size), left_out)):
            if any(not one.size for one in found):
                return None
            conflicts += found
            left_out = np.union1d(left_out, np.concatenate(found))
        if left_out is chosen or monotonic() > end:
            break
    if left_out is not chosen:
        chosen = _without_spare(costs, left_out, find_conflicts)
    return HittingSet(
        chosen=chosen, cost=float(costs[chosen].sum()), at_least=bound, conflicts=tuple(conflicts)
    )


def _without_spare(costs: FloatArray, left_out: IndexArray, find_conflicts: FindConflicts) -> IndexArray:
    """Some units without those that may stay, the dearest first."""
    everything = np.arange(costs.size)
    for unit in left_out[np.argsort(-costs[left_out], kind="stable")]:
        fewer = left_out[left_out != unit]
        if not find_conflicts(np.setdiff1d(everything, fewer)):
            left_out = fewer
    return left_out


def _cheapest(costs: FloatArray, conflicts: list[IndexArray]) -> tuple[IndexArray, float]:
    """A set that hits every conflict, by branch and bound (HiGHS), and what every such set costs at least.

    It is the cheapest one unless the search takes too long.
    """
    if not conflicts:
        return np.zeros(0, dtype=np.intp), 0.0
    rows = np.repeat(np.arange(len(conflicts)), [one.size for one in conflicts])
    shape = (len(conflicts), costs.size)
    hits = csr_array((np.ones(rows.size), (rows, np.concatenate(conflicts))), shape=shape)
    found = milp(
        costs,
        constraints=LinearConstraint(hits, lb=1.0),
        integrality=np.ones(costs.size),
        bounds=Bounds(0.0, 1.0),
        options={"mip_rel_gap": 0.0, "time_limit": _LONGEST},
    )
    if found.x is None:  # out of time with nothing: one unit of each conflict will do
        return np.unique([one[0] for one in conflicts]), 0.0
    chosen = np.flatnonzero(found.x > 0.5)
    cost = float(costs[chosen].sum())
    return chosen, cost if found.status == 0 else min(cost, float(found.mip_dual_bound))


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
