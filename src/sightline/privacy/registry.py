"""The one list of accountants: the name that a plan uses, and how to build the accountant from a budget.

The plan's schema, pricing, `sightline init` and the reports read this list. To add an accountant, write its
class in a separate file and add a line here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from sightline.arrays import FloatArray
from sightline.errors import InvalidBudget
from sightline.privacy.accountant import Accountant, NoiseLaw
from sightline.privacy.budget import Budget
from sightline.privacy.composition import (
    AdvancedComposition,
    BasicComposition,
    Calibration,
    LaplaceComposition,
)
from sightline.privacy.concentrated import Renyi, ZeroConcentrated
from sightline.privacy.gaussian_dp import GaussianDP, PerRecord, smallest_epsilon
from sightline.privacy.spending import account


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountantEntry:
    """One accountant of the list."""

    build: Callable[[Budget], Accountant]
    law: NoiseLaw = NoiseLaw.GAUSSIAN
    cost: str | None = (
        None  # the figure of `account` that is the cost of unequal noise; none: equal noise only
    )
    own_releases: bool = False  # a record pays only for the releases that it is in


ACCOUNTANTS: Mapping[str, AccountantEntry] = MappingProxyType(
    {
        "basic": AccountantEntry(build=BasicComposition, cost="epsilon_basic"),
        "basic-analytic": AccountantEntry(
            build=lambda budget: BasicComposition(budget, calibration=Calibration.ANALYTIC),
            cost="epsilon_basic",
        ),
        "advanced": AccountantEntry(build=AdvancedComposition),
        "zcdp": AccountantEntry(build=ZeroConcentrated, cost="epsilon_zcdp"),
        "renyi": AccountantEntry(build=Renyi, cost="epsilon_renyi"),
        "gaussian-dp": AccountantEntry(build=GaussianDP, cost="epsilon_exact"),
        "per-record": AccountantEntry(build=PerRecord, own_releases=True),
        "laplace": AccountantEntry(build=LaplaceComposition, law=NoiseLaw.LAPLACE),
    }
)

# `account` calls the exact cost "exact"; it is what this accountant computes.
_COSTS = MappingProxyType({"exact": "gaussian-dp"})


def accountant_named(name: str, budget: Budget) -> Accountant:
    """The accountant that a plan calls ``name``.

    >>> accountant_named("zcdp", Budget(epsilon=1.0, delta=1e-5)).kappa(20) > 480
    True
    >>> accountant_named("zcpd", Budget(epsilon=1.0, delta=1e-5))
    Traceback (most recent call last):
        ...
    sightline.errors.InvalidBudget: expected an accountant, one of 'basic', 'basic-analytic', 'advanced', \
'zcdp', 'renyi', 'gaussian-dp', 'per-record', 'laplace', got 'zcpd'
    """
    if name not in ACCOUNTANTS:
        names = ", ".join(map(repr, ACCOUNTANTS))
        raise InvalidBudget(f"expected an accountant, one of {names}, got {name!r}")
    return ACCOUNTANTS[name].build(budget)


def accountants(budget: Budget) -> dict[str, Accountant]:
    """Every accountant, by name, for one budget."""
    return {name: entry.build(budget) for name, entry in ACCOUNTANTS.items()}


def costs(multipliers: FloatArray, *, largest_own: float, delta: float, law: NoiseLaw) -> dict[str, float]:
    r"""What given noise has cost under every accountant of its law that can say.

    ``multipliers`` is noise over sensitivity for each release, and ``largest_own`` is the largest
    :math:`\mu_j^2` of a record (see :class:`PerRecord`).

    >>> import numpy as np
    >>> found = costs(np.array([2.0, 4.0]), largest_own=0.25, delta=1e-5, law=NoiseLaw.GAUSSIAN)
    >>> {name: round(epsilon, 3) for name, epsilon in found.items() if name in ("gaussian-dp", "per-record")}
    {'gaussian-dp': 2.258, 'per-record': 1.993}
    """
    if multipliers.size == 0:
        return {}
    if law is NoiseLaw.LAPLACE:  # pure epsilons add up
        return {name: float(np.sum(1 / multipliers)) for name, one in ACCOUNTANTS.items() if one.law is law}
    equal = bool(np.all(multipliers == multipliers[0]))
    spent = account(multipliers, delta=delta)
    found = {}
    for name, entry in ACCOUNTANTS.items():
        if entry.law is not law:
            continue
        if entry.own_releases:
            found[name] = smallest_epsilon(largest_own, delta) if largest_own > 0 else 0.0
        elif entry.cost is not None:
            found[name] = float(getattr(spent, entry.cost))
        elif equal:
            rule = entry.build(Budget(epsilon=1.0, delta=delta))
            found[name] = rule.epsilon(multipliers.size, noise_multiplier=float(multipliers[0]))
    return found


def costs_of_mix(
    multipliers: FloatArray, pure: FloatArray, *, discrete: bool, largest_own: float, delta: float
) -> dict[str, float]:
    r"""What Gaussian noise of some multipliers and releases with pure epsilons have cost together.

    A pure :math:`\epsilon` is :math:`\frac12\epsilon^2`-zCDP, and so is Gaussian noise of :math:`1/\epsilon`
    sensitivities: zCDP and RDP count it like that. The epsilon of every other accountant is that of the
    Gaussian releases, at delta, plus the sum of the pure ones. ``discrete`` says that some of the Gaussian
    noise is discrete: for that, zCDP and RDP alone are proved (Canonne, Kamath and Steinke 2020, Theorem 4).

    >>> import numpy as np
    >>> gaussian, none = np.array([2.0, 4.0]), np.zeros(0)
    >>> found = costs_of_mix(gaussian, np.array([0.5]), discrete=False, largest_own=0.25, delta=1e-5)
    >>> round(found["gaussian-dp"], 3), round(found["zcdp"], 3)  # each 0.5 above the Gaussian releases alone
    (2.758, 3.339)
    >>> sorted(costs_of_mix(gaussian, none, discrete=True, largest_own=0.25, delta=1e-5))
    ['renyi', 'zcdp']
    """
    if multipliers.size == 0:
        return {} if pure.size == 0 else costs(1 / pure, largest_own=0.0, delta=delta, law=NoiseLaw.LAPLACE)
    found = costs(multipliers, largest_own=largest_own, delta=delta, law=NoiseLaw.GAUSSIAN)
    basic = float(np.sum(pure)) * (1 + (8 + pure.size) * 2**-52)  # rounded up
    found = {name: epsilon + basic for name, epsilon in found.items()}
    together = costs(
        np.concatenate([multipliers, 1 / pure]), largest_own=largest_own, delta=delta, law=NoiseLaw.GAUSSIAN
    )
    proved = {name: min(found[name], together[name]) for name in ("zcdp", "renyi")}
    return proved if discrete else {**found, **proved}


def accountant_of_cost(cost: str) -> str:
    """The accountant that computes a cost: ``"gaussian-dp"`` for ``"exact"``, else that of the same name.

    >>> accountant_of_cost("exact"), accountant_of_cost("zcdp")
    ('gaussian-dp', 'zcdp')
    """
    return _COSTS.get(cost, cost)
