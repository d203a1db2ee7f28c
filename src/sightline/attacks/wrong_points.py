r"""How far the answers of a wrong value are from the true ones: the global separation of a target.

.. math:: d_r = \min\bigl\{ \|\Sigma^{-1/2}(q(x') - q(x))\| : x' \in [\text{low}, \text{high}]^m,\
          |x'_j - x_j| \ge r \bigr\}

The maximum likelihood attack errs by r or more only if the noise has a component of :math:`d_r/2` standard
deviations or more towards some such point: with L answers its probability is at most :math:`\exp(-(d_r/2 -
\sqrt L)^2/2)` once :math:`d_r \ge 2\sqrt L`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import islice, permutations

import numpy as np
from numpy.typing import ArrayLike

from sightline.arrays import FloatArray, frozen_floats
from sightline.attacks.estimates import box_of
from sightline.attacks.model import Model, model_of
from sightline.attacks.starts import grid_points, minimise
from sightline.errors import require
from sightline.geometry.transcript import Transcript

_GRID, _STARTS, _STEPS = 20_000, 200, 200
_ORDERS = 720  # permutations of the truth that are starts


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Separation:
    """The nearest wrong point that the search found. Owner-only: it depends on the values.

    ``distance`` is in noise standard deviations. A smaller one may exist: the search is wide, not exhaustive.
    ``nearest`` are the values of the records at that point, in the order of the transcript's records.
    """

    distance: float
    nearest: FloatArray

    @property
    def error_probability(self) -> float:
        r"""About how often the attack prefers this point to the truth, :math:`Q(d/2)`."""
        return 0.5 * math.erfc(self.distance / 2 / math.sqrt(2))


def separation(
    transcript: Transcript,
    *,
    at: ArrayLike,
    target: int,
    radius: float,
    box: tuple[float, float] | None = None,
) -> Separation:
    """Search the box for the nearest point whose value of the target is ``radius`` or more off.

    Under two moments and one mean without the target, the nearest wrong point of (0.95, −0.95) changes the
    sign of the target's value. It does not exchange the values:

    >>> from sightline.geometry.transcript import Transcript
    >>> from sightline.releases.feature_mean import Moment
    >>> from sightline.releases.linear import SubsetMean
    >>> moments = [Moment(order=order, members=range(2), bound=1.0) for order in (1, 2)]
    >>> without = SubsetMean(members=[1], radius=2.0)
    >>> transcript = Transcript([*moments, without], noise=[0.5, 0.1, 0.1])
    >>> wrong = separation(transcript, at=[0.95, -0.95], target=0, radius=0.5)
    >>> round(wrong.distance, 2), wrong.nearest.round(1).tolist()
    (1.89, [-0.9, -1.0])
    """
    model = model_of(transcript.queries, transcript.law)
    require(isinstance(model, Model), "releases that are sums of curves", got="a DeepSet")
    assert isinstance(model, Model)
    records = frozen_floats(at, name="records", ndim=1)
    transcript.answers(records)  # the releases check the records themselves
    require(target in model.records, "a target that some release depends on", got=target)
    low, high = box_of(transcript, box)
    x = records[list(model.records)]
    j = model.records.index(target)
    sides = [(low, x[j] - radius), (x[j] + radius, high)]
    sides = [side for side in sides if side[0] <= side[1]]
    require(
        radius > 0 and len(sides) > 0, "a radius > 0 that some value of the box reaches", got=f"{radius:g}"
    )
    m = model.unknowns
    exact = model.whiten(model.expected(x[:, None]))
    points = np.concatenate([_points(m, (low, high)), _images(x, j)])
    best, nearest = math.inf, x
    for left, right in sides:
        moved = np.clip(points, low, high)
        moved[:, j] = np.clip(moved[:, j], left, right)
        distance = np.sum((model.whiten(model.expected(moved.T)) - exact) ** 2, axis=0)
        begin = moved[np.argsort(distance, kind="stable")[:_STARTS]]
        own = np.arange(m) == j
        ends = np.where(own, left, low), np.where(own, right, high)
        state = minimise(model, np.tile(exact, len(begin)), begin.T, box=ends, steps=_STEPS)
        place = int(np.argmin(state.objective))
        if state.objective[place] < best:
            best, nearest = float(state.objective[place]), state.u[:, place]
    found = records.copy()
    found[list(model.records)] = nearest
    return Separation(distance=math.sqrt(best), nearest=found)


def _points(members: int, box: tuple[float, float]) -> FloatArray:
    """A grid over the box; 2 % of its width moved apart per coordinate, since a tie is a saddle point."""
    low, high = box
    points = grid_points(members, box=box, exchangeable=False, most=_GRID, longest=101)
    apart = np.linspace(-0.01, 0.01, members) * (high - low)
    return np.asarray(points + apart)


def _images(x: FloatArray, target: int) -> FloatArray:
    """The truth in other orders, and with other signs of the target."""
    orders = np.array([x[list(order)] for order in islice(permutations(range(len(x))), _ORDERS)])
    flipped = orders.copy()
    flipped[:, target] *= -1
    return np.concatenate([orders, flipped])
