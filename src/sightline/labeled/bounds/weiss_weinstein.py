r"""The Weiss–Weinstein bound on the risk of a guess at one number that is seen in Laplace noise.

For a step h, let :math:`\rho(h)` be the affinity :math:`\int \sqrt{p(y \mid x)\,p(y \mid x + h)}\,dy` of the
answers, :math:`o(h) = \int \sqrt{p(x)\,p(x + h)}\,dx` that of the prior, and :math:`c(h)` the chance that
:math:`x - h` is in the domain. Then every guess has the risk

.. math:: R \ge \frac{h^2\, o(h)^2 \rho(h)^2}{2\,\bigl(c(h) - o(2h)\,\rho(2h)\bigr)} .

n Laplace answers with the information G together have at least the affinity of n equal ones,
:math:`\bigl((1 + t)\,e^{-t}\bigr)^n` with :math:`t = \tfrac h2 \sqrt{G/n}`; Gaussian ones have
:math:`e^{-G h^2/8}`. Domains have width 1. Derivation: the theory page on priors.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sightline.arrays import FloatArray
from sightline.labeled.bounds.scalar_risk import MARGIN

# Steps in units of 1/√G, and the longest one: about the best for a few Laplace answers with little noise.
_STEPS, _LONGEST = (0.4, 0.7, 1.0, 1.3, 1.6, 1.9, 2.3, 2.8), 0.4


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorAffinity:
    """o(h) and c(h) of a density on a domain of width 1, for steps h from 0 to 1."""

    affinity: Callable[[FloatArray], FloatArray]
    stays: Callable[[FloatArray], FloatArray]

    def lower(self, information: FloatArray, laplace: FloatArray, answers: FloatArray) -> FloatArray:
        """At most the risk, for so much information, that part of it from so many Laplace answers."""
        count = np.maximum(answers, 1.0)
        found = np.zeros_like(information)
        for step in _STEPS:
            h = np.minimum(step / np.sqrt(np.maximum(information, 1.0)), _LONGEST)
            near = self.affinity(h) * _affinity(h, information, laplace, count)
            far = self.affinity(2 * h) * _affinity(2 * h, information, laplace, count)
            # The difference is at least the prior's own, c(h) − o(2h), and cancels no more than that.
            apart = 2 * (self.stays(h) - far * (1 - MARGIN))
            found = np.maximum(found, np.square(h * near) / apart)
        return found * (1 - 1e2 * MARGIN)


def _affinity(h: FloatArray, information: FloatArray, laplace: FloatArray, count: FloatArray) -> FloatArray:
    """ρ(h)."""
    t = h / 2 * np.sqrt(laplace / count)
    gaussian = np.maximum(information - laplace, 0.0) * np.square(h) / 8
    return np.asarray(np.exp(count * (np.log1p(t) - t) - gaussian))


UNIFORM_AFFINITY = PriorAffinity(
    affinity=lambda h: np.asarray(np.maximum(1 - h, 0.0)),
    stays=lambda h: np.asarray(1 - h),
)
COSINE_AFFINITY = PriorAffinity(
    affinity=lambda h: np.asarray((1 - h) * np.cos(np.pi * h) + np.sin(np.pi * h) / math.pi),
    stays=lambda h: np.asarray(1 - h + np.sin(2 * np.pi * h) / (2 * math.pi)),
)
