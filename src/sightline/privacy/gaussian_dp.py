r"""Exact composition of Gaussian releases (Gaussian differential privacy), for all and for each record.

Gaussian noise whose signal-to-noise ratio between neighbours is :math:`\mu` is :math:`(\epsilon, \delta)`-DP
exactly when

.. math:: \delta \ge \delta(\mu, \epsilon)
          = \Phi(\mu/2 - \epsilon/\mu) - e^\epsilon\,\Phi(-\mu/2 - \epsilon/\mu)

(Balle & Wang 2018, Theorem 8; Dong, Roth & Su 2022). One release has
:math:`\mu = \Delta_2/\sigma` (the *analytic Gaussian mechanism*), and several have
:math:`\mu^2 = \sum_\ell \Delta_{2,\ell}^2/\sigma_\ell^2`, exactly: the transcript is one Gaussian vector.

Both inverses use Newton's method, from the zCDP answer, which is private. :math:`\ln\delta` is
concave in :math:`\ln\mu` (its slope there is one over the mean of the convex, decreasing :math:`-R'` over a
window that widens and moves left as :math:`\mu` grows, with :math:`R` the Mills ratio) and concave in
:math:`\epsilon` (a convolution of log-concave functions). From the private side Newton's method on a concave
function stays there, so both searches approach the root without a bracket. Ball arithmetic then certifies the
double that they return.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar

from flint import arb, ctx

from sightline.arrays import FloatArray
from sightline.errors import InvalidBudget, require
from sightline.numerics.balls import BITS, ball, evaluate
from sightline.privacy.accountant import OUTWARD, Accountant, Budget
from sightline.privacy.concentrated import epsilon_of_rho, rho_of_budget

_LARGEST = 1e9  # of epsilon, so about of mu^2/2: far above it the error function has no sharp ball
_STEPS = 500  # the slowest known search (delta = 1 - 1e-16) takes about 40


def gaussian_delta(mu_squared: Fraction | float, epsilon: Fraction | float) -> arb:
    r""":math:`\delta(\mu, \epsilon)` as a ball; :math:`\mu^2` is rational where :math:`\mu` is not."""

    def curve() -> arb:
        mu, eps = ball(mu_squared).sqrt(), ball(epsilon)
        return _normal_cdf(mu / 2 - eps / mu) - eps.exp() * _normal_cdf(-mu / 2 - eps / mu)

    return evaluate(curve)


def largest_mu_squared(epsilon: Fraction | float, delta: Fraction | float) -> float:
    r"""The largest :math:`\mu^2` that is :math:`(\epsilon, \delta)`-DP, rounded down.

    Its reciprocal is the exact :math:`\kappa` of a single Gaussian release.

    >>> round(1 / largest_mu_squared(1.0, 1e-5), 6)
    13.917612
    """
    require(epsilon <= _LARGEST, f"epsilon <= {_LARGEST:g}", got=float(epsilon), error=InvalidBudget)
    # Start at the larger of two private answers: zCDP's, and total variation below delta.
    mu_squared = max(2 * rho_of_budget(epsilon, delta), 6.28 * float(delta) ** 2)
    require(
        mu_squared >= sys.float_info.min,
        "a budget with finite noise",
        got="a noise variance beyond the largest double",
        fix="raise epsilon or publish fewer releases",
        error=InvalidBudget,
    )
    with ctx.workprec(BITS[0]):  # for Newton's steps; the curve itself uses as many as it needs
        target, eps = ball(delta), ball(epsilon)
        for _ in range(_STEPS):
            value, mu = gaussian_delta(mu_squared, epsilon), ball(mu_squared).sqrt()
            slope = mu * _normal_density(mu / 2 - eps / mu) / (2 * value)  # d ln(delta) / d ln(mu^2)
            step = float((target / value).log() / slope)
            mu_squared *= math.exp(step)
            if step <= 2**-52:
                break
        nudge = 2**-53
        while not gaussian_delta(mu_squared, epsilon) <= target:
            mu_squared *= 1 - nudge
            nudge *= 2
    return mu_squared


def smallest_epsilon(mu_squared: Fraction | float, delta: Fraction | float) -> float:
    r"""The smallest :math:`\epsilon` at which :math:`\mu^2` is :math:`(\epsilon, \delta)`-DP, rounded up.

    >>> round(smallest_epsilon(20 / 10**2, 1e-6), 10)
    1.9945269007
    """
    with ctx.workprec(BITS[0]):
        target = ball(delta)
        if gaussian_delta(mu_squared, 0) <= target:
            return 0.0  # the two neighbours' transcripts differ by less than delta in total variation
        epsilon = epsilon_of_rho(Fraction(mu_squared) / 2, delta)
        if mu_squared > 4 * _LARGEST:
            return epsilon  # almost no noise: the zCDP bound is above the exact value by less than 0.1 %
        mu = ball(mu_squared).sqrt()
        near = _nearly_smallest_epsilon(float(mu_squared), float(delta), epsilon)
        for _ in range(_STEPS if near is None else 1):  # one step doubles the digits of a double
            value, eps = gaussian_delta(mu_squared, near or epsilon), ball(near or epsilon)
            slope = eps.exp() * _normal_cdf(-mu / 2 - eps / mu) / value  # -d ln(delta) / d epsilon
            step = float((target / value).log() / slope)
            epsilon = max((near or epsilon) - step, 0.0)
            if step <= 2**-52 * epsilon:
                break
        nudge = 2**-53
        while not gaussian_delta(mu_squared, epsilon) <= target:
            epsilon += max(epsilon, math.ulp(0.0)) * nudge
            nudge *= 2
    return epsilon


def _nearly_smallest_epsilon(mu_squared: float, delta: float, start: float) -> float | None:
    """The smallest epsilon in double precision, from a private one; ``None`` where digits are lost."""
    mu, epsilon = math.sqrt(mu_squared), start
    for _ in range(_STEPS):
        a, b = mu / 2 - epsilon / mu, mu / 2 + epsilon / mu
        tail = math.exp(-a * a / 2) * _mills_ratio(b)  # e^epsilon Φ(−b), since epsilon − b²/2 = −a²/2
        value = math.erfc(-a / math.sqrt(2)) / 2 - tail
        if not (tail > 0 and value > math.sqrt(sys.float_info.epsilon) * tail):
            return None
        step = math.log(value / delta) * value / tail
        epsilon += step
        if not 0 < epsilon < math.inf:
            return None
        if abs(step) <= 1e-12 * epsilon:
            return epsilon
    return None


def _mills_ratio(b: float) -> float:
    r""":math:`e^{b^2/2}\,\Phi(-b)` for b > 0."""
    if b < 25:
        return math.erfc(b / math.sqrt(2)) / 2 * math.exp(b * b / 2)
    z = 1 / (b * b)
    return (1 - z * (1 - 3 * z * (1 - 5 * z * (1 - 7 * z)))) / (b * math.sqrt(2 * math.pi))


def _normal_cdf(x: arb) -> arb:
    return (-x / arb(2).sqrt()).erfc() / 2


def _normal_density(x: arb) -> arb:
    return (-x * x / 2).exp() / (2 * arb.pi()).sqrt()


@dataclass(frozen=True)
class GaussianDP(Accountant):
    r"""Gaussian releases, composed exactly: the least noise that meets the budget.

    :math:`L` releases of signal-to-noise ratio :math:`\Delta_2/\sigma` are together as distinguishable as one
    Gaussian pair at distance :math:`\mu = \sqrt{L}\,\Delta_2/\sigma` (Dong, Roth & Su 2022).
    With :math:`\mu_{\rm tot}` the largest distance that is :math:`(\epsilon, \delta)`-DP,
    :math:`\kappa_L = L/\mu_{\rm tot}^2`: linear in :math:`L`, and no valid accountant of equal Gaussian noise
    is below it. A share is a share of :math:`\mu_{\rm tot}^2`.

    >>> budget = Budget(epsilon=1.0, delta=1e-5)
    >>> round(GaussianDP(budget).kappa(20), 9)
    278.352247894
    """

    budget: Budget
    linear: ClassVar[bool] = True
    mu_squared: float = field(init=False)
    theorem: ClassVar[str] = "exact for independent Gaussian noise: composition loses nothing"

    def __post_init__(self) -> None:
        object.__setattr__(self, "mu_squared", largest_mu_squared(self.budget.epsilon, self.budget.delta))

    def _kappa_of_counts(self, counts: FloatArray) -> FloatArray:
        return counts / self.mu_squared * OUTWARD

    def _kappa_of_shares(self, shares: FloatArray) -> FloatArray:
        return 1 / (self.mu_squared * shares) * OUTWARD

    def _epsilon(self, releases: int, noise_multiplier: float) -> float:
        return smallest_epsilon(releases / Fraction(noise_multiplier) ** 2, self.budget.delta)


@dataclass(frozen=True)
class PerRecord(GaussianDP):
    r"""Gaussian releases with noise such that the record that is in most of them keeps the budget exactly.

    If who is in which release is public and fixed, a change of record j's secrets moves the answers by at
    most :math:`\Delta_{j\ell}`, which is zero where j takes no part. The two transcripts are a
    Gaussian pair at distance :math:`\mu_j`, :math:`\mu_j^2 = \sum_\ell \Delta_{j\ell}^2/\sigma_\ell^2`, so
    the budget holds exactly if :math:`\mu_j \le \mu_{\rm tot}` for every record. With noise in proportion to
    sensitivity this is :math:`\kappa = L/\mu_{\rm tot}^2`, where the count L is
    :math:`\max_j \sum_\ell \Delta_{j\ell}^2/\Delta_\ell^2`: the most releases that one record is in.

    >>> from sightline import Budget
    >>> budget = Budget(epsilon=1.0, delta=1e-5)
    >>> round(PerRecord(budget).kappa(3), 9)
    41.752837184
    """

    theorem: ClassVar[str] = (
        "exact for independent Gaussian noise, if it is public and fixed who is in which release"
    )
    counts_own_releases: ClassVar[bool] = True
