r"""Basic and advanced composition of Gaussian releases (``eq:kappaL_sigma_def``), and of Laplace releases."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from typing import ClassVar, assert_never

import numpy as np
from flint import arb

from sightline.arrays import FloatArray
from sightline.errors import InvalidBudget
from sightline.numerics.balls import ball, evaluate, rounded_up
from sightline.privacy.accountant import OUTWARD, Accountant, Budget, Validity
from sightline.privacy.gaussian_dp import largest_mu_squared, smallest_epsilon
from sightline.privacy.law import Law


class Calibration(Enum):
    """How one Gaussian release gets its noise from its own epsilon and delta."""

    CLASSICAL = "classical"  # 2 ln(1.25/delta)/epsilon^2: closed form, proven for epsilon <= 1 only
    ANALYTIC = "analytic"  # the least noise that is (epsilon, delta)-DP, for every epsilon


def calibration_named(name: Calibration | str) -> Calibration:
    """A ``Calibration`` from itself or from its name."""
    try:
        return Calibration(name)
    except ValueError:
        names = ", ".join(repr(member.value) for member in Calibration)
        raise InvalidBudget(f"expected a calibration, one of {names}, got {name!r}") from None


def kappa_of_one(epsilon: Fraction, delta: Fraction, calibration: Calibration) -> float:
    r""":math:`\kappa` of a single release with its own budget (``eq:gaussian_calibration``)."""
    match calibration:
        case Calibration.CLASSICAL:
            return rounded_up(evaluate(lambda: 2 * (ball(Fraction(5, 4) / delta)).log() / ball(epsilon) ** 2))
        case Calibration.ANALYTIC:
            return OUTWARD / largest_mu_squared(epsilon, delta)
        case _:
            assert_never(calibration)


@dataclass(frozen=True)
class BasicComposition(Accountant):
    r"""Gaussian releases whose epsilons and deltas add up.

    Each of :math:`L` releases gets :math:`\epsilon_{\rm tot}/L` and :math:`\delta_{\rm tot}/L`. With the
    classical calibration

    .. math:: \kappa_L = 2L^2\ln(1.25L/\delta_{\rm tot})/\epsilon_{\rm tot}^2.

    This is the paper's formula, proven private only for :math:`\epsilon_{\rm tot}/L \le 1`: ``validity``
    says so. The analytic calibration is the exact noise of one release, private at every
    epsilon. A share is a share of both :math:`\epsilon_{\rm tot}` and :math:`\delta_{\rm tot}`.

    >>> budget = Budget(epsilon=1.0, delta=1e-5)
    >>> round(BasicComposition(budget).kappa(20), 7)
    11785.4410319
    >>> BasicComposition(budget, calibration="analytic").kappa(20) < BasicComposition(budget).kappa(20)
    True
    >>> BasicComposition(Budget(epsilon=3.0, delta=1e-5)).validity(2).ok
    False
    """

    budget: Budget
    calibration: Calibration = field(default=Calibration.CLASSICAL, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "calibration", calibration_named(self.calibration))

    def _kappa_of_counts(self, counts: FloatArray) -> FloatArray:
        epsilon, delta = self.budget.epsilon, self.budget.delta
        if self.calibration is Calibration.CLASSICAL:
            # ln(1.25 L/delta) as a difference: the quotient overflows for the smallest deltas.
            logarithm = np.log(1.25 * counts) - math.log(delta)
            return 2 * (counts / epsilon) ** 2 * logarithm * OUTWARD**2
        distinct, where = np.unique(counts, return_inverse=True)
        kappas = [
            kappa_of_one(Fraction(epsilon) / int(L), Fraction(delta) / int(L), self.calibration)
            for L in distinct
        ]
        return np.array(kappas)[where]

    def _kappa_of_shares(self, shares: FloatArray) -> FloatArray:
        epsilon, delta = Fraction(self.budget.epsilon), Fraction(self.budget.delta)
        distinct, where = np.unique(shares, return_inverse=True)
        exact = [Fraction(float(share)) for share in distinct]
        return np.array([kappa_of_one(epsilon * s, delta * s, self.calibration) for s in exact])[where]

    def _epsilon(self, releases: int, noise_multiplier: float) -> float:
        delta_each = Fraction(self.budget.delta) / releases
        each = smallest_epsilon(1 / Fraction(noise_multiplier) ** 2, delta_each)
        if self.calibration is Calibration.CLASSICAL:
            # Above 1 the classical formula may promise too little; the exact epsilon is then the larger one.
            classical = evaluate(
                lambda: (2 * ball(Fraction(5, 4) / delta_each).log()).sqrt() / ball(noise_multiplier)
            )
            each = max(each, rounded_up(classical))
        return rounded_up(evaluate(lambda: releases * arb(each)))

    def _validity(self, largest_share: float) -> Validity:
        if self.calibration is Calibration.ANALYTIC:
            return Validity(ok=True, note="the analytic Gaussian calibration is exact at every epsilon")
        each = self.budget.epsilon * largest_share
        if each <= 1:
            return Validity(
                ok=True, note="classical Gaussian calibration inside its range, epsilon <= 1 per release"
            )
        return Validity(
            ok=False,
            note="the classical Gaussian calibration is proven for epsilon <= 1 per release, and here it is "
            f"{each:.6g}; use the analytic calibration",
        )


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
    law: ClassVar[Law] = Law.LAPLACE
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
