"""Totals over four rows with stated noise, and their prices."""

from __future__ import annotations

from typing import Any

from sightline.auditing.budget import budget_report
from sightline.auditing.plan import Plan
from sightline.auditing.pricing import Pricing, price
from sightline.tables.membership import Membership, Statistic
from tests.auditing.hand_made import membership_of, partition, plan_of

DELTA = 1e-5


def total(query: int = 0, name: str = "p", **changes: Any) -> Any:
    return partition(query, name, statistic=Statistic.SUM, **changes)


def priced(*noises: Any, times: int = 1, **changes: Any) -> tuple[Plan, Membership, Pricing]:
    """Totals over four rows, one for each noise."""
    plan = plan_of(
        *({"name": f"r{i}", "noise": noise, "times": times} for i, noise in enumerate(noises)), **changes
    )
    membership = membership_of([total(i) for i in range(len(noises))], [[""] * 4] * len(noises))
    return plan, membership, price(plan, membership)


def spent(*noises: Any, **changes: Any) -> dict[str, float]:
    return budget_report(*priced(*noises, **changes)).spent
