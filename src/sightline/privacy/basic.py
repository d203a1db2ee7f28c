r"""Basic composition of Gaussian releases, the paper's main accountant (``eq:kappaL_sigma_def``)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from typing import assert_never

import numpy as np
from flint import arb

from sightline.arrays import FloatArray
from sightline.errors import InvalidBudget
from sightline.numerics.balls import ball, evaluate, rounded_up
from sightline.privacy.accountant import OUTWARD, Accountant, Validity
from sightline.privacy.budget import Budget
from sightline.privacy.gaussian_curve import largest_mu_squared, smallest_epsilon


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
