r"""The least common factor on all noise with which the limits hold: the rival that a design is compared with.

Along :math:`s = t\,s_0` every :math:`\varphi_i` is concave in t, so the tangent at a t that is too small
meets the limit at another t that is too small: Newton's method rises to the factor and never passes it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sightline.arrays import FloatArray, IndexArray
from sightline.designing.problem import FIXED, NoiseProblem
from sightline.designing.risks import squared

_CLOSE = 1e-9  # the factor is found up to this, from above
_MOST = 1e24  # variance beyond which more noise changes nothing
_ROUNDS = 60
_TANGENTS = 256  # constraints of a kind whose tangents are looked at: the worst


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CommonFactor:
    """A factor on all variances, rounded up so that the limits hold."""

    factor: float
    factorisations: int


def common_factor(problem: NoiseProblem, base: FloatArray | None = None) -> CommonFactor | None:
    """The least factor on the variances of all rows that are not fixed; ``None`` if no factor is enough.

    ``base`` has the variances of the rows at the factor 1: the floors, unless given. Ceilings are not looked
    at: a common factor that breaks one is still what it costs.
    """
    at_one = problem.floors if base is None else base
    moving = np.where(problem.variable == FIXED, 0.0, at_one)
    t, factorisations = 1.0, 0
    while factorisations < _ROUNDS and t < _MOST:
        s = np.where(problem.variable == FIXED, problem.floors, t * at_one)
        factorisations += 1
        step = 0.0
        for one in problem.risks:
            if one.sign < 0 or not one.needed.size:
                continue
            now = one.at(s)
            short = one.needed * (1 + _CLOSE / 2) - now.phi
            broken = _worst(short, short / one.needed)
            if broken.size:
                slope = np.asarray(squared(now.recipes(broken)).T @ moving)
                with np.errstate(divide="ignore"):
                    step = max(step, float(np.max(short[broken] / slope)))
        if step <= _CLOSE / 2 * t:
            t *= 1 + (_CLOSE if step > 0 else 0.0)
            return CommonFactor(factor=t, factorisations=factorisations)
        t += step
    return None


def _worst(short: FloatArray, size: FloatArray) -> IndexArray:
    """The constraints that are broken most: any of their tangents is a step that is not too long."""
    broken = np.flatnonzero(short > 0)
    if broken.size > _TANGENTS:
        broken = broken[np.argpartition(-size[broken], _TANGENTS)[:_TANGENTS]]
    found: IndexArray = broken
    return found
