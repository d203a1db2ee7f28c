r"""Newton's method in a box, for many small problems at once.

Every column is a separate problem. A step solves

.. math:: (\nabla^2 f + \lambda s I)\,d = -\nabla f

on the free coordinates (those that the gradient does not hold at a bound), with the absolute values of the
pivots, and projects onto the box. A step that lowers the objective is accepted and :math:`\lambda` decreases;
otherwise :math:`\lambda` increases. The exact Hessian matters: where two values of a multiset coincide, the
Gauss–Newton matrix is singular although the minimum is well determined.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from sightline.attacks.model import Box, Column, Local, Objective, total

_STEPS = 5  # steps between two checks of which columns are done
_WORTHWHILE = 0.7  # below this share of open columns, continue with those only
_STUCK = 1e12  # above this λ no step can lower the objective further


# One interval for all unknowns, or the lower and the upper end of each.
Boxes: TypeAlias = Box | tuple[tuple[float, ...], tuple[float, ...]]


class State(NamedTuple):
    """The state of the search in every column."""

    u: tuple[Column, ...]
    local: Local
    damping: Column
    done: Column  # whether no further step can lower the objective
    whitened: tuple[Column, ...]


def minimise(
    model: Objective, whitened: Sequence[Column], starts: Sequence[Column], *, box: Boxes, steps: int = 60
) -> State:
    """Minimise the objective from one start for every column of whitened answers."""
    lows, highs = _ends(box, len(starts))
    u = tuple(np.clip(column, lows[k], highs[k]) for k, column in enumerate(starts))
    local = model.local(u, whitened)
    state = State(u, local, 0.0 * u[0] + 1e-3, u[0] != u[0], tuple(whitened))
    return _run(model, state, box, steps)


def _run(model: Objective, state: State, box: Boxes, steps: int) -> State:
    """Take steps; once few columns are still open, continue with those only."""
    while steps > 0:
        for _ in range(min(_STEPS, steps)):
            state = advance(model, state, box)
        steps -= _STEPS
        open_ = ~state.done
        count = int(np.sum(open_))
        if count == 0:
            break
        if count < _WORTHWHILE * len(state.damping):
            return _run_packed(model, state, box, steps)
    return state


def _run_packed(model: Objective, state: State, box: Boxes, steps: int) -> State:
    open_ = ~state.done
    packed: State = _map(lambda column: column[open_], state)
    packed = _run(model, packed, box, steps)
    place = np.cumsum(open_) - 1
    merged: State = _map(lambda new, old: np.where(open_, new[place], old), packed, state)
    return merged


def advance(model: Objective, state: State, box: Boxes) -> State:
    """One step of every column."""
    u, local, damping, done, whitened = state
    m = len(u)
    lows, highs = _ends(box, m)
    g, H = local.gradient, local.hessian
    free = [~(((u[k] <= lows[k]) & (g[k] > 0)) | ((u[k] >= highs[k]) & (g[k] < 0))) for k in range(m)]
    scale = np.abs(H[0][0])
    for k in range(1, m):
        larger = np.abs(H[k][k])
        scale = np.where(larger > scale, larger, scale)
    digits = np.finfo(u[0].dtype)
    floor = 50.0 * float(digits.eps) * scale + float(digits.tiny)
    d = solve_positive(H, g, free, shift=damping * scale, floor=floor)
    predicted = -0.5 * total([g[k] * d[k] for k in range(m)])
    trial = tuple(np.where(done, u[k], np.clip(u[k] + d[k], lows[k], highs[k])) for k in range(m))
    attempt = model.local(trial, whitened)
    better = attempt.objective < local.objective
    last = predicted <= 4.0 * float(digits.eps) * (1.0 + local.objective)
    finished = done | (last & (damping < 1e-2)) | (damping > _STUCK)
    damping = np.where(better, 0.1 * damping, 10.0 * damping + 1e-6)
    local = _map(lambda new, old: np.where(better, new, old), attempt, local)
    u = tuple(np.where(better, trial[k], u[k]) for k in range(m))
    return State(u, local, damping, finished, whitened)


def _ends(box: Boxes, unknowns: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    low, high = box
    if isinstance(low, tuple) and isinstance(high, tuple):
        return low, high
    return (low,) * unknowns, (high,) * unknowns  # type: ignore[return-value]  # both are numbers


def solve_positive(
    H: Sequence[Sequence[Column]],
    g: Sequence[Column],
    free: Sequence[Column],
    *,
    shift: Column,
    floor: Column,
) -> list[Column]:
    r"""Solve :math:`(H + \text{shift})\,d = -g` on the free coordinates, with positive pivots."""
    m = len(g)
    lower: list[list[Column]] = [[None] * m for _ in range(m)]  # the unit triangle of LDLᵀ
    pivots: list[Column] = []
    for k in range(m):
        for j in range(k):
            entry = np.where(free[k] & free[j], H[k][j], 0.0 * g[0])
            for i in range(j):
                entry = entry - lower[k][i] * lower[j][i] * pivots[i]
            lower[k][j] = entry / pivots[j]
        pivot = H[k][k] + shift
        for i in range(k):
            pivot = pivot - lower[k][i] * lower[k][i] * pivots[i]
        pivot = np.abs(pivot)
        pivots.append(np.where(free[k], np.where(pivot > floor, pivot, floor), 1.0 + 0.0 * g[0]))
    d: list[Column] = []
    for k in range(m):
        right = np.where(free[k], -g[k], 0.0 * g[0])
        for j in range(k):
            right = right - lower[k][j] * d[j]
        d.append(right)
    d = [right / pivot for right, pivot in zip(d, pivots, strict=True)]
    for k in reversed(range(m)):
        for i in range(k + 1, m):
            d[k] = d[k] - lower[i][k] * d[i]
    return d


def _map(change: Any, *trees: Any) -> Any:
    """The change of every column, or of the columns at the same place of several tuples."""
    first = trees[0]
    if not isinstance(first, tuple):
        return change(*trees)
    parts = [_map(change, *branches) for branches in zip(*trees, strict=True)]
    return type(first)(*parts) if hasattr(first, "_fields") else tuple(parts)
