r"""Zero-concentrated (zCDP) and Rényi (RDP) privacy of Gaussian releases (``app:zcdp_rdp_calibration``)."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from typing import ClassVar

import numpy as np
from flint import arb

from sightline.arrays import FloatArray
from sightline.errors import InvalidBudget, require
from sightline.numerics.balls import ball, evaluate, rounded_down, rounded_up
from sightline.privacy.accountant import OUTWARD, Accountant, Budget, Validity


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


class Conversion(Enum):
    """How zCDP becomes (epsilon, delta)."""

    CLASSICAL = "classical"  # Bun and Steinke 2016, and the paper
    TIGHT = "tight"  # Canonne, Kamath and Steinke 2020: at the best order


def tight_rho_of_budget(epsilon: Fraction | float, delta: Fraction | float) -> float:
    r"""The largest :math:`\rho` that the tight conversion allows, rounded down.

    :math:`\rho`-zCDP is :math:`(\alpha\rho + c(\alpha), \delta)`-DP for every :math:`\alpha > 1`, with
    :math:`c(\alpha) = \frac{-\ln(\alpha\delta)}{\alpha - 1} + \ln(1 - \frac1\alpha)` (Proposition 12 of the
    discrete Gaussian paper). So it is the largest :math:`(\epsilon - c(\alpha))/\alpha`.

    >>> round(tight_rho_of_budget(1.0, 1e-5) / rho_of_budget(1.0, 1e-5), 3)
    1.468
    """
    eps, log_delta = float(epsilon), math.log(float(delta))
    order = _best(lambda alpha: (_offset(alpha, log_delta) - eps) / alpha)

    def rho() -> arb:
        alpha = ball(order)
        return (ball(epsilon) - _offset_ball(alpha, ball(delta).log())) / alpha

    return max(rounded_down(evaluate(rho)), rho_of_budget(epsilon, delta))


def tight_epsilon_of_rho(rho: Fraction | float, delta: Fraction | float) -> float:
    r"""The least :math:`\alpha\rho + c(\alpha)` of :func:`tight_rho_of_budget`, rounded up; not below zero.

    >>> round(tight_epsilon_of_rho(0.1, 1e-6), 3), round(epsilon_of_rho(0.1, 1e-6), 3)
    (2.142, 2.451)
    """
    log_delta, size = math.log(float(delta)), float(rho)
    order = _best(lambda alpha: alpha * size + _offset(alpha, log_delta))
    epsilon_ball = evaluate(lambda: ball(order) * ball(rho) + _offset_ball(ball(order), ball(delta).log()))
    return min(max(rounded_up(epsilon_ball), 0.0), epsilon_of_rho(rho, delta))


def _offset(alpha: float, log_delta: float) -> float:
    return -(log_delta + math.log(alpha)) / (alpha - 1) + math.log1p(-1 / alpha)


def _offset_ball(alpha: arb, log_delta: arb) -> arb:
    return -(log_delta + alpha.log()) / (alpha - 1) + (1 - 1 / alpha).log()


def _best(loss: Callable[[float], float]) -> float:
    """An order at which a loss is about least: every order gives a bound."""
    low, high = math.log(1e-6), math.log(1e9)  # of the order less one
    for points in (400, 60, 60, 60):  # each time between the neighbours of the least
        grid = np.linspace(low, high, points).tolist()
        least = min(range(points), key=lambda place: loss(1 + math.exp(grid[place])))
        low, high = grid[max(least - 1, 0)], grid[min(least + 1, points - 1)]
    return 1 + math.exp(grid[least])


@dataclass(frozen=True)
class ZeroConcentrated(Accountant):
    r"""Gaussian releases under zCDP, converted to the budget at the end.

    A Gaussian release of variance :math:`\sigma^2` is :math:`\Delta_2^2/(2\sigma^2)`-zCDP, the :math:`\rho`
    of all releases add up, and :math:`\rho`-zCDP is :math:`(\rho + 2\sqrt{\rho \ln(1/\delta)}, \delta)`-DP.
    So :math:`\kappa_L = L/(2\rho_{\rm tot})`: linear in :math:`L`. A share is a share of
    :math:`\rho_{\rm tot}`. Plans convert at the best order, ``Conversion.TIGHT``; the paper does not.

    >>> budget = Budget(epsilon=1.0, delta=1e-5)
    >>> round(ZeroConcentrated(budget).kappa(20), 9)
    480.308819215
    """

    budget: Budget
    linear: ClassVar[bool] = True
    conversion: Conversion = field(default=Conversion.CLASSICAL, kw_only=True)
    rho: float = field(init=False)
    theorem: ClassVar[str] = "zCDP adds up exactly; its conversion to (epsilon, delta) is an upper bound"

    def __post_init__(self) -> None:
        convert = tight_rho_of_budget if self.conversion is Conversion.TIGHT else rho_of_budget
        object.__setattr__(self, "rho", convert(self.budget.epsilon, self.budget.delta))

    def _kappa_of_counts(self, counts: FloatArray) -> FloatArray:
        return counts / (2 * self.rho) * OUTWARD

    def _kappa_of_shares(self, shares: FloatArray) -> FloatArray:
        return 1 / (2 * self.rho * shares) * OUTWARD

    def _epsilon(self, releases: int, noise_multiplier: float) -> float:
        convert = tight_epsilon_of_rho if self.conversion is Conversion.TIGHT else epsilon_of_rho
        return convert(releases / (2 * Fraction(noise_multiplier) ** 2), self.budget.delta)


def best_order(rho: Fraction | float, delta: float) -> float:
    r"""The order :math:`\alpha` at which :math:`\rho\alpha + \ln(1/\delta)/(\alpha - 1)` is least:
    :math:`1 + \sqrt{\ln(1/\delta)/\rho}`.
    """
    return _as_order(evaluate(lambda: 1 + (-ball(delta).log() / ball(rho)).sqrt()))


def epsilon_at_order(order: float, rho: Fraction | float, delta: float) -> float:
    r""":math:`\epsilon = \alpha\rho + \ln(1/\delta)/(\alpha - 1)` for :math:`(\alpha, \alpha\rho)`-RDP
    (Mironov 2017, Proposition 3), rounded up."""
    return rounded_up(evaluate(lambda: ball(order) * ball(rho) - ball(delta).log() / (ball(order) - 1)))


@dataclass(frozen=True)
class Renyi(Accountant):
    r"""Gaussian releases under RDP at one order :math:`\alpha > 1`, or at the best order if none is given.

    A Gaussian release is :math:`(\alpha, \alpha\Delta_2^2/(2\sigma^2))`-RDP, the releases add up at each
    order, and the total is converted by :math:`\epsilon = \epsilon_\alpha + \ln(1/\delta)/(\alpha - 1)`. So
    :math:`\kappa_L = \alpha L/(2\epsilon_\alpha)`. A share is a share of :math:`\epsilon_\alpha`.

    For Gaussian noise the best order is
    :math:`\alpha^* = 1 + (\ln(1/\delta) + \sqrt{\ln^2(1/\delta) + \epsilon\ln(1/\delta)})/\epsilon`, and
    there RDP equals zCDP: the least :math:`\alpha\rho + \ln(1/\delta)/(\alpha - 1)` over :math:`\alpha` is
    :math:`\rho + 2\sqrt{\rho\ln(1/\delta)}`.

    >>> budget = Budget(epsilon=1.0, delta=1e-5)
    >>> round(Renyi(budget, order=64).kappa(20), 9)
    783.109166021
    >>> round(Renyi(budget).kappa(20), 9), round(Renyi(budget).order_used, 3)
    (480.308819215, 24.515)
    """

    budget: Budget
    linear: ClassVar[bool] = True
    order: float | None = field(default=None, kw_only=True)
    order_used: float = field(init=False, repr=False)
    _kappa_of_one: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        epsilon, delta = self.budget.epsilon, self.budget.delta
        log_inverse_delta = -math.log(delta)
        if self.order is None:
            order = _as_order(evaluate(lambda: _best_order_of_budget(ball(epsilon), -ball(delta).log())))
        else:
            order = float(self.order)
            require(
                math.isfinite(order) and order > 1, "a finite order > 1", got=self.order, error=InvalidBudget
            )
        epsilon_alpha = evaluate(lambda: ball(epsilon) + ball(delta).log() / (ball(order) - 1))
        smallest = math.floor(Fraction(log_inverse_delta) / Fraction(epsilon)) + 2
        require(
            bool(epsilon_alpha > 0),
            f"an order whose conversion ln(1/delta)/(order - 1) leaves some of epsilon = {epsilon!r}",
            got=f"order {order!r}, whose conversion takes {log_inverse_delta / (order - 1):.4g}",
            fix=f"the smallest whole order that works is {smallest}",
            error=InvalidBudget,
        )
        object.__setattr__(self, "order_used", order)
        object.__setattr__(
            self, "_kappa_of_one", rounded_up(evaluate(lambda: ball(order) / (2 * epsilon_alpha)))
        )

    def _kappa_of_counts(self, counts: FloatArray) -> FloatArray:
        return counts * self._kappa_of_one * OUTWARD

    def _kappa_of_shares(self, shares: FloatArray) -> FloatArray:
        return self._kappa_of_one / shares * OUTWARD

    def _epsilon(self, releases: int, noise_multiplier: float) -> float:
        rho = releases / (2 * Fraction(noise_multiplier) ** 2)
        order = self.order_used if self.order is not None else best_order(rho, self.budget.delta)
        return epsilon_at_order(order, rho, self.budget.delta)

    def _validity(self, largest_share: float) -> Validity:
        return Validity(
            ok=True,
            note=f"RDP adds up exactly at order {self.order_used:.6g}; its conversion to "
            "(epsilon, delta) is an upper bound",
        )


def _best_order_of_budget(epsilon: arb, log_inverse_delta: arb) -> arb:
    return 1 + (log_inverse_delta + (log_inverse_delta * (log_inverse_delta + epsilon)).sqrt()) / epsilon


def _as_order(order: arb) -> float:
    # Every order gives a valid bound, so an order that no double can hold is replaced by the nearest double.
    return min(max(float(order), math.nextafter(1.0, 2.0)), sys.float_info.max)
