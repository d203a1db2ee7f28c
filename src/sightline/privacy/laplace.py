"""Laplace releases under pure basic composition (``app:laplace_noise``)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from sightline.arrays import FloatArray
from sightline.numerics.balls import ball, evaluate, rounded_up
from sightline.privacy.accountant import Accountant, NoiseLaw
from sightline.privacy.budget import Budget


@dataclass(frozen=True)
class LaplaceComposition(Accountant):
    r"""Laplace releases whose pure epsilons add up; the budget's :math:`\delta` is not used.

    :math:`b_\ell = \Delta_{1,\ell}/\epsilon_\ell` with :math:`\epsilon_\ell = \epsilon_{\rm tot}/L`. The
    Fisher information of Laplace noise is :math:`b^{-2}`, so :math:`\kappa_L = (L/\epsilon_{\rm tot})^2`
    while the variance is :math:`2\kappa_L\Delta_1^2`. A share is a share of :math:`\epsilon_{\rm tot}`.

    >>> laplace = LaplaceComposition(Budget(epsilon=0.5, delta=1e-5))
    >>> laplace.kappa(2), laplace.epsilon(2, noise_multiplier=4.0)
    (16.0, 0.5)
    >>> round(laplace.noise_stddev(2, sensitivity=1.0) ** 2, 12)
    32.0
    """

    budget: Budget
    law: ClassVar[NoiseLaw] = NoiseLaw.LAPLACE
    theorem: ClassVar[str] = "pure epsilon-DP by basic composition; delta is not used"

    def _kappa_of_counts(self, counts: FloatArray) -> FloatArray:
        distinct, where = np.unique(counts, return_inverse=True)
        return np.array([self._kappa(Fraction(int(L))) for L in distinct])[where]

    def _kappa_of_shares(self, shares: FloatArray) -> FloatArray:
        distinct, where = np.unique(shares, return_inverse=True)
        return np.array([self._kappa(1 / Fraction(float(share))) for share in distinct])[where]

    def _epsilon(self, releases: int, noise_multiplier: float) -> float:
        return rounded_up(evaluate(lambda: ball(releases / Fraction(noise_multiplier))))

    def _kappa(self, releases: Fraction) -> float:
        """(L/ε)², rounded up."""
        return rounded_up(evaluate(lambda: ball((releases / Fraction(self.budget.epsilon)) ** 2)))
