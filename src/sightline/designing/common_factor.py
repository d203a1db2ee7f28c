r"""The least common factor on all noise with which the limits hold: the rival that a design is compared with.

Along :math:`x = t\,1` every :math:`\varphi_i` is concave in t, so the tangent at a t that is too small meets
the limit at another t that is too small: Newton's method rises to the factor and never passes it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sightline.arrays import FloatArray
from sightline.designing.problem import NoiseProblem
from sightline.designing.risks import squared

_CLOSE = 1e-9  # the factor is found up to this, from above
_MOST = 1e24  # variance beyond which more noise changes nothing
_ROUNDS = 60


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CommonFactor:
    """A factor on all variances, rounded up so that the limits hold."""

    factor: float
    x: FloatArray
    factorisations: int


def common_factor(problem: NoiseProblem) -> CommonFactor | None:
    """The least factor on the variances of all rows that are not fixed; ``None`` if no factor is enough.

    Ceilings are not looked at: a common factor that breaks one is still what it costs.
    """
    everyone, lift = np.ones(problem.weights.size), problem.lift
    t, factorisations = 1.0, 0
    while factorisations < _ROUNDS and t < _MOST:
        s = problem.variances(t * everyone)
        factorisations += 1
        step = 0.0
        for one in problem.risks:
            now = one.at(s)
            slope = np.asarray(squared(now.recipes).T @ (lift @ everyone))
            short = one.needed * (1 + _CLOSE / 2) - now.phi
            if np.any(short > 0):
                with np.errstate(divide="ignore"):
                    step = max(step, float(np.max((short / slope)[short > 0])))
        if step <= _CLOSE / 2 * t:
            t *= 1 + (_CLOSE if step > 0 else 0.0)
            return CommonFactor(factor=t, x=t * everyone, factorisations=factorisations)
        t += step
    return None
