r"""The privacy cost of given noise: the inverse of the accountants, for unequal releases."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from flint import arb
from numpy.typing import ArrayLike

from sightline.arrays import FloatArray, frozen_floats
from sightline.errors import InvalidBudget, InvalidNoise, require
from sightline.numerics.balls import ball, evaluate, rounded_up
from sightline.privacy.budget import Budget
from sightline.privacy.composition import Calibration, calibration_named, kappa_of_one
from sightline.privacy.concentrated import best_order, epsilon_at_order, epsilon_of_rho
from sightline.privacy.gaussian_dp import smallest_epsilon


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    r"""The cost of a transcript of independent Gaussian releases. Every figure is rounded up.

    The epsilons are upper bounds at ``delta``; ``epsilon_exact`` is the true one. ``epsilon_renyi`` is at the
    best order, ``renyi_order``; for Gaussian noise it equals ``epsilon_zcdp`` (see ``Renyi``).
    """

    releases: int
    delta: float
    rho: float  # total zCDP parameter, the sum of 1/(2 m^2) over the noise multipliers m
    mu: float  # total GDP parameter, the square root of the sum of 1/m^2
    epsilon_exact: float
    epsilon_zcdp: float
    epsilon_renyi: float
    renyi_order: float
    epsilon_basic: float


def account(noise_multipliers: ArrayLike, *, delta: float) -> Spending:
    r"""The total cost at ``delta`` of Gaussian releases with explicit, unequal noise.

    ``noise_multipliers`` are :math:`m_\ell = \sigma_\ell/\Delta_{2,\ell}`. Then
    :math:`\rho = \sum 1/(2m_\ell^2)`, :math:`\mu^2 = \sum 1/m_\ell^2`, and ``epsilon_basic`` adds up the
    exact epsilon of each release at :math:`\delta/L`.

    Laplace releases are left out: their pure epsilons :math:`\Delta_1/b` add up to a basic total, and they
    have no :math:`\mu`.

    >>> spent = account([10.0] * 20, delta=1e-6)
    >>> round(spent.epsilon_exact, 10), round(spent.epsilon_zcdp, 6), round(spent.epsilon_basic, 3)
    (1.9945269007, 2.450788, 9.225)
    """
    multipliers = _positive(noise_multipliers, name="noise multipliers", error=InvalidNoise)
    delta = Budget(epsilon=1.0, delta=delta).delta
    mu_squared = _total_mu_squared(multipliers)
    distinct, times = np.unique(multipliers, return_counts=True)
    delta_each = Fraction(delta) / multipliers.size
    basic = sum(
        (int(n) * _guaranteed_epsilon(float(m), delta_each) for m, n in zip(distinct, times, strict=True)),
        Fraction(0),
    )
    return _spending(multipliers.size, mu_squared, delta=delta, epsilon_basic=basic)


def account_budgets(
    epsilons: ArrayLike, deltas: ArrayLike, *, calibration: Calibration | str = Calibration.CLASSICAL
) -> Spending:
    r"""The total cost of Gaussian releases that each have their own budget.

    Release :math:`\ell` got the Gaussian noise that ``calibration`` prescribes for
    :math:`(\epsilon_\ell, \delta_\ell)`. The result is at :math:`\delta = \sum\delta_\ell`. Its
    ``epsilon_basic`` is :math:`\sum\epsilon_\ell`, with one exception: where the noise does not guarantee
    :math:`\epsilon_\ell` (the classical calibration can fail above 1), what it does guarantee counts.

    >>> spent = account_budgets([0.5, 0.25, 0.25], [5e-6, 2.5e-6, 2.5e-6])
    >>> spent.epsilon_basic, round(spent.epsilon_exact, 4)
    (1.0, 0.4221)
    """
    eps = _positive(epsilons, name="epsilons", error=InvalidBudget)
    dels = _positive(deltas, name="deltas", error=InvalidBudget)
    require(
        eps.size == dels.size,
        "as many deltas as epsilons",
        got=f"{eps.size} epsilons and {dels.size} deltas",
        error=InvalidBudget,
    )
    budgets = [(Fraction(float(e)), Fraction(float(d))) for e, d in zip(eps, dels, strict=True)]
    delta = rounded_up(evaluate(lambda: ball(sum((d for _, d in budgets), Fraction(0)))))
    require(delta < 1, "deltas that sum to less than 1", got=f"a sum of {delta!r}", error=InvalidBudget)
    rule = calibration_named(calibration)
    noise = {pair: math.sqrt(kappa_of_one(*pair, rule)) for pair in set(budgets)}
    mu_squared = _total_mu_squared(np.array([noise[pair] for pair in budgets]))
    guaranteed = {pair: max(pair[0], _guaranteed_epsilon(noise[pair], pair[1])) for pair in noise}
    basic = sum((guaranteed[pair] for pair in budgets), Fraction(0))
    return _spending(len(budgets), mu_squared, delta=delta, epsilon_basic=basic)


def _guaranteed_epsilon(noise_multiplier: float, delta: Fraction) -> Fraction:
    """The exact epsilon at ``delta`` of one release."""
    return Fraction(smallest_epsilon(1 / Fraction(noise_multiplier) ** 2, delta))


def _total_mu_squared(multipliers: FloatArray) -> arb:
    distinct, times = np.unique(multipliers, return_counts=True)  # copies of a release cost no time
    counted = list(zip(distinct.tolist(), times.tolist(), strict=True))
    total = evaluate(lambda: sum((n / ball(m) ** 2 for m, n in counted), arb(0)))
    require(
        math.isfinite(rounded_up(total)),
        "noise multipliers with a finite cost",
        got=f"a smallest one of {float(multipliers.min())!r}",
        fix="so little noise gives no privacy",
        error=InvalidNoise,
    )
    return total


def _spending(releases: int, mu_squared: arb, *, delta: float, epsilon_basic: Fraction) -> Spending:
    rho = rounded_up(evaluate(lambda: mu_squared / 2))
    order = best_order(rho, delta)
    return Spending(
        releases=releases,
        delta=delta,
        rho=rho,
        mu=rounded_up(evaluate(mu_squared.sqrt)),
        epsilon_exact=smallest_epsilon(rounded_up(mu_squared), delta),
        epsilon_zcdp=epsilon_of_rho(rho, delta),
        epsilon_renyi=epsilon_at_order(order, rho, delta),
        renyi_order=order,
        epsilon_basic=rounded_up(evaluate(lambda: ball(epsilon_basic))),
    )


def _positive(values: ArrayLike, *, name: str, error: type[InvalidBudget] | type[InvalidNoise]) -> FloatArray:
    array = frozen_floats(values, name=name, ndim=1, error=error)
    require(array.size > 0, f"at least one of {name}", got="none", error=error)
    require(bool(np.all(array > 0)), f"{name} > 0", got=float(array.min()), error=error)
    return array
