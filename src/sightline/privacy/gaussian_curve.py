r"""The exact trade between :math:`\epsilon` and :math:`\delta` of Gaussian noise, and its two inverses.

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
from fractions import Fraction

from flint import arb, ctx

from sightline.errors import InvalidBudget, require
from sightline.numerics.balls import ball, evaluate
from sightline.privacy.zero_concentrated import epsilon_of_rho, rho_of_budget

_PRECISION = 256  # bits for Newton's steps; the curve itself uses as many as it needs
_LARGEST = 1e9  # of epsilon, so about of mu^2/2: far above it the error function has no sharp ball
_DIGITS_LEFT = 1e-6  # of a difference over its subtrahend: below it a double has too few digits
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
    with ctx.workprec(_PRECISION):
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
    with ctx.workprec(_PRECISION):
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
        if not (tail > 0 and value > _DIGITS_LEFT * tail):
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
