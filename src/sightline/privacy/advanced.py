r"""Advanced composition of Gaussian releases: it uses only the epsilon and delta of each release."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from sightline.arrays import FloatArray
from sightline.privacy.accountant import Accountant
from sightline.privacy.basic import Calibration, kappa_of_one
from sightline.privacy.budget import Budget
from sightline.privacy.gaussian_curve import smallest_epsilon

# The composed epsilon has a few hundred roundings; times this factor it is certainly not too small.
_SAFE = 1 + 2**-44


def composed_epsilon(epsilons: FloatArray, *, times: FloatArray, log_inverse_slack: float) -> float:
    r"""Total epsilon of mechanisms of ``epsilons``, each used ``times`` times, at slack :math:`\tilde\delta`.

    Kairouz, Oh & Viswanath 2017, for unequal mechanisms: the least of :math:`\sum\epsilon_\ell`,
    :math:`A + \sqrt{2S\ln(1/\tilde\delta)}` and :math:`A + \sqrt{2S\ln(e + \sqrt{S}/\tilde\delta)}` with
    :math:`S = \sum\epsilon_\ell^2` and
    :math:`A = \sum\epsilon_\ell(e^{\epsilon_\ell} - 1)/(e^{\epsilon_\ell} + 1)`. Rounded up.
    """
    total = float(np.sum(times * epsilons))
    S = float(np.sum(times * epsilons**2))
    A = float(np.sum(times * epsilons * np.tanh(epsilons / 2)))
    # ln(e + sqrt(S)/slack), with the slack as a logarithm: it may be too small for its reciprocal.
    log_mixed = float(np.logaddexp(1.0, math.log(S) / 2 + log_inverse_slack)) if S > 0 else 1.0
    return min(total, A + math.sqrt(2 * S * min(log_inverse_slack, log_mixed))) * _SAFE


@dataclass(frozen=True)
class AdvancedComposition(Accountant):
    r"""Gaussian releases, each private by itself, under the strong composition theorem.

    The theorem (Kairouz, Oh & Viswanath 2017): mechanisms that are
    :math:`(\epsilon_\ell, \delta_\ell)`-DP are together
    :math:`(\tilde\epsilon, 1 - (1 - \tilde\delta)\prod_\ell(1 - \delta_\ell))`-DP for every slack
    :math:`\tilde\delta`, with :math:`\tilde\epsilon` as in ``composed_epsilon``. Half of
    :math:`\delta_{\rm tot}` is the slack and half is shared by the releases, which keeps the total at most
    :math:`\tilde\delta + \sum\delta_\ell = \delta_{\rm tot}`. The per-release epsilons are the largest with
    :math:`\tilde\epsilon \le \epsilon_{\rm tot}`, and each release gets the analytic Gaussian noise for its
    own budget. A share is a share of the epsilons and of that half of :math:`\delta_{\rm tot}`.

    For many releases it needs less noise than basic composition. It does not use that the noise is Gaussian,
    so it never needs less than ``GaussianDP``.

    >>> from sightline import BasicComposition, GaussianDP
    >>> budget = Budget(epsilon=1.0, delta=1e-5)
    >>> rules = GaussianDP(budget), AdvancedComposition(budget), BasicComposition(budget)
    >>> [round(rule.kappa(200)) for rule in rules]
    [2784, 71922, 1362751]
    """

    budget: Budget
    theorem: ClassVar[str] = "advanced composition of releases with the analytic Gaussian calibration"

    def _kappa_of_counts(self, counts: FloatArray) -> FloatArray:
        distinct, where = np.unique(counts, return_inverse=True)
        kappas = [self._kappas(np.array([1 / L]), times=np.array([L]))[0] for L in distinct]
        return np.array(kappas)[where]

    def _kappa_of_shares(self, shares: FloatArray) -> FloatArray:
        distinct, where, times = np.unique(shares, return_inverse=True, return_counts=True)
        return self._kappas(distinct, times=times.astype(np.float64))[where]

    def _epsilon(self, releases: int, noise_multiplier: float) -> float:
        each = smallest_epsilon(
            1 / Fraction(noise_multiplier) ** 2, Fraction(self.budget.delta) / (2 * releases)
        )
        return composed_epsilon(
            np.array([each]), times=np.array([float(releases)]), log_inverse_slack=self._log_inverse_slack
        )

    @property
    def _log_inverse_slack(self) -> float:
        return math.log(2) - math.log(self.budget.delta)

    def _kappas(self, shares: FloatArray, *, times: FloatArray) -> FloatArray:
        epsilon = self._largest_sum_of_epsilons(shares, times)
        half = Fraction(self.budget.delta) / 2
        exact = [Fraction(float(share)) for share in shares]
        return np.array([kappa_of_one(Fraction(epsilon) * s, half * s, Calibration.ANALYTIC) for s in exact])

    def _largest_sum_of_epsilons(self, shares: FloatArray, times: FloatArray) -> float:
        def composed(epsilon: float) -> float:
            return composed_epsilon(epsilon * shares, times=times, log_inverse_slack=self._log_inverse_slack)

        # Basic composition is one of the theorem's bounds, so its sum of epsilons is private.
        private = self.budget.epsilon / _SAFE**2
        beyond = 2 * private
        while composed(beyond) <= self.budget.epsilon:
            private, beyond = beyond, 2 * beyond
        while private < (middle := (private + beyond) / 2) < beyond:
            private, beyond = (
                (middle, beyond) if composed(middle) <= self.budget.epsilon else (private, middle)
            )
        return private
