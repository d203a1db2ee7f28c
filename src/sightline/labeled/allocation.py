r"""Cube-root allocation: how a fixed epsilon is best split over blocks of releases.

A block of :math:`L_i` releases that gets :math:`u_i = L_i\epsilon_i` in all contributes
:math:`2\Delta^2 c_i L_i / u_i^2` to the risk, with :math:`c_i = \ln(1.25/\delta_i)`. Under
:math:`\sum u_i = \epsilon_{\rm tot}` the minimum is at :math:`u_i \propto (c_i L_i)^{1/3}` and equals
:math:`2\Delta^2 (\sum_i (c_i L_i)^{1/3})^3/\epsilon_{\rm tot}^2` (``eq:opt_u_v_ratio``,
``eq:mse_inout_opt_eps``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from sightline.errors import InvalidBudget, require
from sightline.privacy.budget import Budget


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """A budget for one release of each block, and the risk that it leaves the attacker."""

    epsilons: tuple[float, ...]
    deltas: tuple[float, ...]
    mse: float
    proven: bool  # the classical calibration is a proven guarantee for epsilons up to 1 only


def cube_root_allocation(
    budget: Budget, *, counts: tuple[int, ...], deltas: tuple[float | None, ...], radius: float
) -> Allocation:
    """The best split of the budget's epsilon over blocks of ``counts`` releases.

    A delta that is not given is an equal share of the budget's delta per release.

    >>> allocation = cube_root_allocation(
    ...     Budget(epsilon=1.0, delta=1e-5), counts=(8, 1), deltas=(None, None), radius=1.0
    ... )
    >>> [round(epsilon, 6) for epsilon in allocation.epsilons]
    [0.083333, 0.333333]
    """
    equal = budget.delta / sum(counts)
    shares = tuple(equal if delta is None else float(delta) for delta in deltas)
    require(
        all(0 < delta < 1 for delta in shares),
        "deltas between 0 and 1",
        got=shares,
        error=InvalidBudget,
    )
    spent = math.fsum(count * delta for count, delta in zip(counts, shares, strict=True))
    require(
        spent <= budget.delta * (1 + 1e-12),
        f"deltas that add up to at most {budget.delta:g}",
        got=f"{spent:g}",
        error=InvalidBudget,
    )
    weights = [math.log(1.25 / delta) * count for count, delta in zip(counts, shares, strict=True)]
    roots = [weight ** (1 / 3) for weight in weights]
    total = math.fsum(roots)
    epsilons = tuple(budget.epsilon * root / total / count for root, count in zip(roots, counts, strict=True))
    return Allocation(
        epsilons=epsilons,
        deltas=shares,
        mse=2 * radius**2 * total**3 / budget.epsilon**2,
        proven=max(epsilons) <= 1,
    )
