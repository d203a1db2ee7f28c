"""The one list of accountants: the name that a plan uses, and how to build the accountant from a budget.

The plan's schema, pricing, `sightline init` and the reports read this list. To add an accountant, write its
class in a separate file and add a line here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from sightline.errors import InvalidBudget
from sightline.privacy.accountant import Accountant, NoiseLaw
from sightline.privacy.advanced import AdvancedComposition
from sightline.privacy.basic import BasicComposition, Calibration
from sightline.privacy.budget import Budget
from sightline.privacy.gaussian_dp import GaussianDP
from sightline.privacy.laplace import LaplaceComposition
from sightline.privacy.renyi import Renyi
from sightline.privacy.zero_concentrated import ZeroConcentrated


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountantEntry:
    """One accountant of the list."""

    build: Callable[[Budget], Accountant]
    title: str  # what people read
    law: NoiseLaw = NoiseLaw.GAUSSIAN

    @property
    def needs_delta(self) -> bool:
        """Whether the budget's delta enters: Laplace noise is pure epsilon-DP."""
        return self.law is not NoiseLaw.LAPLACE


ACCOUNTANTS: Mapping[str, AccountantEntry] = MappingProxyType(
    {
        "basic": AccountantEntry(build=BasicComposition, title="basic composition"),
        "basic-analytic": AccountantEntry(
            build=lambda budget: BasicComposition(budget, calibration=Calibration.ANALYTIC),
            title="basic composition, analytic calibration",
        ),
        "advanced": AccountantEntry(build=AdvancedComposition, title="advanced composition"),
        "zcdp": AccountantEntry(build=ZeroConcentrated, title="zero-concentrated DP"),
        "renyi": AccountantEntry(build=Renyi, title="Rényi DP"),
        "gaussian-dp": AccountantEntry(build=GaussianDP, title="Gaussian DP, exact"),
        "laplace": AccountantEntry(build=LaplaceComposition, title="Laplace noise", law=NoiseLaw.LAPLACE),
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
'zcdp', 'renyi', 'gaussian-dp', 'laplace', got 'zcpd'
    """
    if name not in ACCOUNTANTS:
        names = ", ".join(map(repr, ACCOUNTANTS))
        raise InvalidBudget(f"expected an accountant, one of {names}, got {name!r}")
    return ACCOUNTANTS[name].build(budget)


def accountants(budget: Budget) -> dict[str, Accountant]:
    """Every accountant, by name, for one budget."""
    return {name: entry.build(budget) for name, entry in ACCOUNTANTS.items()}


def accountant_of_cost(cost: str) -> str:
    """The accountant that computes a cost: ``"gaussian-dp"`` for ``"exact"``, else that of the same name.

    >>> accountant_of_cost("exact"), accountant_of_cost("zcdp")
    ('gaussian-dp', 'zcdp')
    """
    return _COSTS.get(cost, cost)
