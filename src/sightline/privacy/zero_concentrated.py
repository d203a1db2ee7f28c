r"""Zero-concentrated differential privacy (zCDP) of Gaussian releases (``app:zcdp_rdp_calibration``)."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar

from flint import arb

from sightline.arrays import FloatArray
from sightline.numerics.balls import ball, evaluate, rounded_down, rounded_up
from sightline.privacy.accountant import OUTWARD, Accountant
from sightline.privacy.budget import Budget


def rho_of_budget(epsilon: Fraction | float, delta: Fraction | float) -> float:
    r"""The largest :math:`\rho` with :math:`\rho + 2\sqrt{\rho \ln(1/\delta)} \le \epsilon`, rounded down.

    :math:`\sqrt\rho = \epsilon / (\sqrt{\ln(1/\delta) + \epsilon} + \sqrt{\ln(1/\delta)})`: the root of the
    quadratic, written without the difference of square roots that would lose the digits of a small
    :math:`\epsilon`.
    """

    def rho() -> arb:
        log_inverse_delta = -ball(delta).log()
        root = (log_inverse_delta + ball(epsilon)).sqrt() + log_inverse_delta.sqrt()
        return (ball(epsilon) / root) ** 2

    return rounded_down(evaluate(rho))


def epsilon_of_rho(rho: Fraction | float, delta: Fraction | float) -> float:
    r""":math:`\epsilon = \rho + 2\sqrt{\rho \ln(1/\delta)}` (Bun & Steinke 2016, Proposition 1.3), rounded
    up."""
    return rounded_up(evaluate(lambda: ball(rho) + 2 * (-ball(rho) * ball(delta).log()).sqrt()))


@dataclass(frozen=True)
class ZeroConcentrated(Accountant):
    r"""Gaussian releases under zCDP, converted to the budget at the end.

    A Gaussian release of variance :math:`\sigma^2` is :math:`\Delta_2^2/(2\sigma^2)`-zCDP, the :math:`\rho`
    of all releases add up, and :math:`\rho`-zCDP is :math:`(\rho + 2\sqrt{\rho \ln(1/\delta)}, \delta)`-DP.
    So :math:`\kappa_L = L/(2\rho_{\rm tot})`: linear in :math:`L`. A share is a share of
    :math:`\rho_{\rm tot}`.

    >>> budget = Budget(epsilon=1.0, delta=1e-5)
    >>> round(ZeroConcentrated(budget).kappa(20), 9)
    480.308819215
    """

    budget: Budget
    linear: ClassVar[bool] = True
    rho: float = field(init=False)
    theorem: ClassVar[str] = "zCDP adds up exactly; its conversion to (epsilon, delta) is an upper bound"

    def __post_init__(self) -> None:
        object.__setattr__(self, "rho", rho_of_budget(self.budget.epsilon, self.budget.delta))

    def _kappa_of_counts(self, counts: FloatArray) -> FloatArray:
        return counts / (2 * self.rho) * OUTWARD

    def _kappa_of_shares(self, shares: FloatArray) -> FloatArray:
        return 1 / (2 * self.rho * shares) * OUTWARD

    def _epsilon(self, releases: int, noise_multiplier: float) -> float:
        return epsilon_of_rho(releases / (2 * Fraction(noise_multiplier) ** 2), self.budget.delta)
