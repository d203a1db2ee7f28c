r"""The one list of accountants: the name that a plan uses, and how to build the accountant from a budget.

The plan's schema, pricing, `sightline init` and the reports read this list. To add an accountant, write its
class in a separate file and add a line here.

The privacy cost of given noise: the inverse of the accountants, for unequal releases.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType

import numpy as np
from flint import arb
from numpy.typing import ArrayLike

from sightline.arrays import FloatArray, frozen_floats
from sightline.errors import InvalidBudget, InvalidNoise, require
from sightline.numerics.balls import ball, evaluate, rounded_up
from sightline.privacy.accountant import Accountant, Budget
from sightline.privacy.composition import (
    AdvancedComposition,
    BasicComposition,
    Calibration,
    LaplaceComposition,
    calibration_named,
    kappa_of_one,
)
from sightline.privacy.concentrated import (
    Conversion,
    Renyi,
    ZeroConcentrated,
    best_order,
    epsilon_at_order,
    tight_epsilon_of_rho,
)
from sightline.privacy.gaussian_dp import GaussianDP, PerRecord, smallest_epsilon
from sightline.privacy.law import Law
from sightline.privacy.optimal import OptimalComposition, optimal_epsilon
from sightline.values import frozen


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    r"""The cost of a transcript of independent Gaussian releases. Every figure is rounded up.

    The epsilons are upper bounds at ``delta``; ``epsilon_exact`` is the true one. ``epsilon_renyi`` is at the
    best order, ``renyi_order``, by the classical conversion; ``epsilon_zcdp`` by the tight one.
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
    (1.9945269007, 2.141939, 9.225)
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
        epsilon_zcdp=tight_epsilon_of_rho(rho, delta),
        epsilon_renyi=epsilon_at_order(order, rho, delta),
        renyi_order=order,
        epsilon_basic=rounded_up(evaluate(lambda: ball(epsilon_basic))),
    )


def _positive(values: ArrayLike, *, name: str, error: type[InvalidBudget] | type[InvalidNoise]) -> FloatArray:
    array = frozen_floats(values, name=name, ndim=1, error=error)
    require(array.size > 0, f"at least one of {name}", got="none", error=error)
    require(bool(np.all(array > 0)), f"{name} > 0", got=float(array.min()), error=error)
    return array


@frozen(eq=True)
class AccountantEntry:
    """One accountant of the list."""

    build: Callable[[Budget], Accountant]
    law: Law = Law.GAUSSIAN
    cost: str | None = (
        None  # the figure of `account` that is the cost of unequal noise; none: equal noise only
    )
    own_releases: bool = False  # a record pays only for the releases that it is in
    uses_delta: bool = True


ACCOUNTANTS: Mapping[str, AccountantEntry] = MappingProxyType(
    {
        "basic": AccountantEntry(build=BasicComposition, cost="epsilon_basic"),
        "basic-analytic": AccountantEntry(
            build=lambda budget: BasicComposition(budget, calibration=Calibration.ANALYTIC),
            cost="epsilon_basic",
        ),
        "advanced": AccountantEntry(build=AdvancedComposition),
        "zcdp": AccountantEntry(
            build=lambda budget: ZeroConcentrated(budget, conversion=Conversion.TIGHT), cost="epsilon_zcdp"
        ),
        "renyi": AccountantEntry(build=Renyi, cost="epsilon_renyi"),
        "gaussian-dp": AccountantEntry(build=GaussianDP, cost="epsilon_exact"),
        "per-record": AccountantEntry(build=PerRecord, own_releases=True),
        "laplace": AccountantEntry(build=LaplaceComposition, law=Law.LAPLACE, uses_delta=False),
        "optimal": AccountantEntry(build=OptimalComposition, law=Law.LAPLACE),
    }
)

# `account` calls the exact cost "exact"; it is what this accountant computes.
_COSTS = MappingProxyType({"exact": "gaussian-dp"})
_OF_DISCRETE = ("zcdp", "renyi")  # proved of discrete Gaussian noise, too


def accountant_named(name: str, budget: Budget) -> Accountant:
    """The accountant that a plan calls ``name``.

    >>> round(accountant_named("zcdp", Budget(epsilon=1.0, delta=1e-5)).kappa(20))
    327
    >>> accountant_named("zcpd", Budget(epsilon=1.0, delta=1e-5))
    Traceback (most recent call last):
        ...
    sightline.errors.InvalidBudget: expected an accountant, one of 'basic', 'basic-analytic', 'advanced', \
'zcdp', 'renyi', 'gaussian-dp', 'per-record', 'laplace', 'optimal', got 'zcpd'
    """
    if name not in ACCOUNTANTS:
        names = ", ".join(map(repr, ACCOUNTANTS))
        raise InvalidBudget(f"expected an accountant, one of {names}, got {name!r}")
    return ACCOUNTANTS[name].build(budget)


def accountants(budget: Budget) -> dict[str, Accountant]:
    """Every accountant, by name, for one budget."""
    return {name: entry.build(budget) for name, entry in ACCOUNTANTS.items()}


def costs(
    multipliers: FloatArray,
    *,
    largest_own: float,
    delta: float,
    law: Law,
    laplace: ArrayLike = True,
) -> dict[str, float]:
    r"""What given noise has cost under every accountant of its law that can say.

    ``multipliers`` is noise over sensitivity for each release, and ``largest_own`` is the largest
    :math:`\mu_j^2` of a record (see :class:`PerRecord`). Of pure epsilons, ``laplace`` says which are of
    Laplace noise.

    >>> import numpy as np
    >>> found = costs(np.array([2.0, 4.0]), largest_own=0.25, delta=1e-5, law=Law.GAUSSIAN)
    >>> {name: round(epsilon, 3) for name, epsilon in found.items() if name in ("gaussian-dp", "per-record")}
    {'gaussian-dp': 2.258, 'per-record': 1.993}
    """
    if multipliers.size == 0:
        return {}
    if law is Law.LAPLACE:
        pure = 1 / multipliers
        return {
            "laplace": float(np.sum(pure)),
            "optimal": optimal_epsilon(pure, delta=delta, laplace=laplace),
        }
    equal = bool(np.all(multipliers == multipliers[0]))
    spent = account(multipliers, delta=delta)
    epsilons = {}
    for name, entry in ACCOUNTANTS.items():
        if entry.law is not law:
            continue
        if entry.own_releases:
            epsilons[name] = smallest_epsilon(largest_own, delta) if largest_own > 0 else 0.0
        elif entry.cost is not None:
            epsilons[name] = float(getattr(spent, entry.cost))
        elif equal:
            rule = entry.build(Budget(epsilon=1.0, delta=delta))
            epsilons[name] = rule.epsilon(multipliers.size, noise_multiplier=float(multipliers[0]))
    return epsilons


def costs_of_mix(
    multipliers: FloatArray,
    pure: FloatArray,
    *,
    discrete: bool,
    largest_own: float,
    delta: float,
    laplace: ArrayLike = False,
) -> dict[str, float]:
    r"""What Gaussian noise of some multipliers and releases with pure epsilons have cost together.

    A pure :math:`\epsilon` is :math:`\frac12\epsilon^2`-zCDP, and so is Gaussian noise of :math:`1/\epsilon`
    sensitivities: zCDP and RDP count it like that. ``optimal`` composes them, those that are Laplace noise
    (``laplace``) by their own losses; the epsilon of every other
    accountant is that of the Gaussian releases, at delta, plus the sum of the pure ones. ``discrete`` says
    that some of the Gaussian noise is discrete: for that, zCDP and RDP alone are proved (Canonne, Kamath and
    Steinke 2020, Theorem 4).

    >>> import numpy as np
    >>> gaussian, none = np.array([2.0, 4.0]), np.zeros(0)
    >>> found = costs_of_mix(gaussian, np.array([0.5]), discrete=False, largest_own=0.25, delta=1e-5)
    >>> round(found["gaussian-dp"], 3), round(found["optimal"], 3)  # 0.5 above the Gaussian ones; less
    (2.758, 2.694)
    >>> sorted(costs_of_mix(gaussian, none, discrete=True, largest_own=0.25, delta=1e-5))
    ['renyi', 'zcdp']
    """
    if multipliers.size == 0:
        if pure.size == 0:
            return {}
        return costs(1 / pure, largest_own=0.0, delta=delta, law=Law.LAPLACE, laplace=laplace)
    epsilons = costs(multipliers, largest_own=largest_own, delta=delta, law=Law.GAUSSIAN)
    if pure.size == 0:
        return {name: epsilon for name, epsilon in epsilons.items() if not discrete or name in _OF_DISCRETE}
    basic = float(np.sum(pure)) * (1 + (8 + pure.size) * 2**-52)  # rounded up
    epsilons = {name: epsilon + basic for name, epsilon in epsilons.items()}
    together = costs(
        np.concatenate([multipliers, 1 / pure]), largest_own=largest_own, delta=delta, law=Law.GAUSSIAN
    )
    proved = {name: min(epsilons[name], together[name]) for name in _OF_DISCRETE}
    if discrete:
        return proved
    squared = rounded_up(_total_mu_squared(multipliers))
    epsilons["optimal"] = optimal_epsilon(pure, delta=delta, mu_squared=squared, laplace=laplace)
    return {**epsilons, **proved}


def accountant_of_cost(cost: str) -> str:
    """The accountant that computes a cost: ``"gaussian-dp"`` for ``"exact"``, else that of the same name.

    >>> accountant_of_cost("exact"), accountant_of_cost("zcdp")
    ('gaussian-dp', 'zcdp')
    """
    return _COSTS.get(cost, cost)
