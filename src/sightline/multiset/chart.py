r"""The sorted chart: the coordinates in which a group's values are identifiable, and its limits.

Answers that do not depend on the order of the values cannot show which record has which value. Near a point
without ties they determine the sorted vector :math:`z = x^\uparrow` (``prop:lever2_sorted_chart_main``).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from sightline.arrays import FloatArray, frozen_floats
from sightline.errors import require

# Relative to the largest value: the gap of closer values has at most nine correct digits.
NEAR = 1e-7


@dataclass(frozen=True, slots=True, kw_only=True)
class Collision:
    """Values of a group that coincide, or nearly do; by position in the group as it was given."""

    positions: tuple[int, ...]
    exact: bool

    def __str__(self) -> str:
        places = ", ".join(str(position) for position in self.positions)
        return f"values at positions {places} are {'equal' if self.exact else 'nearly equal'}"


def collisions(values: ArrayLike) -> tuple[Collision, ...]:
    r"""The runs of equal values, and the runs of nearly equal ones, of one group.

    *Nearly*: a gap of at most :math:`10^{-7}` of the group's largest absolute value. The bound grows as
    :math:`\gamma^{-2}` there, and the gap itself has few correct digits.

    >>> [str(collision) for collision in collisions([0.5, -0.2, 0.5])]
    ['values at positions 0, 2 are equal']
    >>> collisions([0.5, -0.2, 0.6])
    ()
    """
    group = frozen_floats(values, name="values", ndim=1)
    order = np.argsort(group, kind="stable")
    gaps = np.diff(group[order])
    limit = NEAR * float(np.max(np.abs(group), initial=0.0))
    collided = []
    for exact, close in ((True, gaps == 0), (False, gaps <= limit)):
        if exact or not np.array_equal(close, gaps == 0):
            runs = np.split(order, np.flatnonzero(~close) + 1)
            collided += [
                Collision(positions=tuple(sorted(int(k) for k in run)), exact=exact)
                for run in runs
                if len(run) > 1 and (exact or np.ptp(group[run]) > 0)
            ]
    return tuple(collided)


def chart_radius(values: ArrayLike) -> float:
    r"""Half the smallest gap: if no value moves by more, the order cannot change and the chart is valid.

    If the bound on the error of a value is larger, noise can exchange neighbouring values. The bound then
    describes the geometry at the point, not the error of an attack.

    >>> chart_radius([0.5, -0.25, 0.75])
    0.125
    """
    group = np.sort(frozen_floats(values, name="values", ndim=1))
    return float(np.min(np.diff(group), initial=np.inf)) / 2


def matching_loss(estimate: ArrayLike, values: ArrayLike) -> FloatArray:
    r"""The loss of an unlabelled attack, :math:`\min_\pi \|\hat x - \pi(x)\|^2`, over the last axis.

    For scalar values the best permutation sorts both sides, for every estimate (the rearrangement
    inequality), so this is :math:`\|\hat x^\uparrow - x^\uparrow\|^2`.

    >>> float(matching_loss([1.0, 0.0], [0.0, 2.0]))
    1.0
    """
    a, b = (frozen_floats(side, name="values") for side in (estimate, values))
    require(
        a.ndim > 0 and b.ndim > 0 and a.shape[-1] == b.shape[-1],
        "an estimate for every value",
        got=f"shapes {a.shape} and {b.shape}",
    )
    loss: FloatArray = np.sum((np.sort(a, axis=-1) - np.sort(b, axis=-1)) ** 2, axis=-1)
    return loss
