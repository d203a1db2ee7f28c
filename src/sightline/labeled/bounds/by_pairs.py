r"""Priors whose lower end comes from pairs of draws.

If all others are known, the answers to two values a distance :math:`d` apart have a squared affinity of at
least :math:`e^{-G d^2/4}`, with the information :math:`G` of all answers, whatever their laws. So for two
independent draws of the value

.. math:: \frac{R}{v} \ge a(G) = \frac{E\, d^2 e^{-G d^2/4}}{E\, d^2}

(docs/theory/priors.md, *What the noise alone leaves*). For :math:`n` records alike it is at least
:math:`1 - \frac1n + \frac1n a(nG)` under Gaussian noise; under other noise the last term is left out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from sightline.arrays import FloatArray
from sightline.labeled.bounds.scalar_risk import MARGIN
from sightline.labeled.bounds.target import BoundedPrior, NoDensity, Seen, linear_upper

Distances = tuple[list[float], list[float]]
"""Weights of squared distances, which add up to 1, and these squares."""


class ByPairs(NoDensity, BoundedPrior, ABC):
    """A prior on a domain, given by how far two draws of it are apart."""

    __slots__ = ()

    @property
    @abstractmethod
    def variance(self) -> float:
        """v."""

    @abstractmethod
    def distances(self) -> Distances:
        r"""How :math:`d^2` is spread under the weight :math:`d^2`.

        The exponential is convex, so that by Jensen's inequality distances may be taken together as their
        mean of :math:`d^2`.
        """

    def alone(self, seen: Seen) -> FloatArray:
        """a(G): at most what remains if all others are known."""
        found = np.zeros(np.shape(seen.information))
        for weight, square in zip(*self.distances(), strict=True):
            found += weight * np.exp(-seen.information * (square / 4))
        return found * (1 - MARGIN)

    def lower(self, seen: Seen) -> FloatArray:
        G, n = seen.information, np.asarray(seen.alike, dtype=np.float64)
        together = Seen(information=n * G, linear_information=np.zeros_like(G))
        group = 1 - 1 / n + np.where(seen.gaussian, self.alone(together), 0.0) / n
        return np.where(G == 0, 1.0, np.minimum(np.maximum(self.alone(seen), group), self.upper(seen)))

    def upper(self, seen: Seen) -> FloatArray:
        return linear_upper(seen, self.variance)
