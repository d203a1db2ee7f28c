"""Which releases at all: of a list of wishes with weights, the most valuable ones that go together.

A wish is a release that the plan calls optional. Some wishes can be published together if some noise within
the ceilings keeps the limit and the budget, beside all releases that are not optional, and if none of them is
there instead of another. Fewer wishes never do worse, so the cheapest set to give up is a hitting set.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sightline.arrays import IndexArray
from sightline.auditing.plan import Plan
from sightline.designing.hitting import cheapest_hitting_set, smallest_conflict
from sightline.designing.result import WishList
from sightline.designing.suppression import Ceilings, without_numbers
from sightline.designing.task import DesignTask, Grain, Loss, task_of
from sightline.errors import InvalidPlan
from sightline.progress import Progress, silent
from sightline.tables.membership import Membership


@dataclass(frozen=True, slots=True, kw_only=True)
class DesignOptions:
    """What a design is asked for."""

    limit: float
    grain: Grain
    loss: Loss

    def task(self, plan: Plan, membership: Membership, progress: Progress = silent) -> DesignTask:
        """A plan as a problem."""
        return task_of(
            plan, membership, limit=self.limit, grain=self.grain, loss=self.loss, progress=progress
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Granted:
    """The plan without the wishes that were given up, and what was kept."""

    plan: Plan
    membership: Membership
    wishes: WishList


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Wishes:
    """A plan with optional releases, and what a design is asked for."""

    plan: Plan
    membership: Membership
    options: DesignOptions

    @property
    def optional(self) -> IndexArray:
        return np.flatnonzero([release.optional for release in self.plan.releases])

    def granted(self, kept: IndexArray) -> tuple[Plan, Membership]:
        """The plan with some wishes alone, as releases like any other."""
        gone = set(np.setdiff1d(self.optional, kept).tolist())
        parts = self.membership.partitions
        cells = [c for c, cell in enumerate(self.membership.cells) if parts[cell.partition].query in gone]
        plan, membership = without_numbers(self.plan, self.membership, np.array(cells, dtype=np.intp))
        plain = {"optional": False, "instead_of": None}
        releases = tuple(one.model_copy(update=plain) for one in plan.releases)
        return plan.model_copy(update={"releases": releases}), membership

    def fails(self, kept: IndexArray) -> bool:
        """Whether some wishes cannot be published together."""
        names = {self.plan.releases[query].name for query in kept.tolist()}
        if any(self.plan.releases[query].instead_of in names for query in kept.tolist()):
            return True
        plan, membership = self.granted(kept)
        if not membership.cells:
            return False
        try:
            task = self.options.task(plan, membership)
        except InvalidPlan:  # the ceilings are too low for the budget
            return True
        ceilings = Ceilings.of(task)
        return not ceilings.passes(ceilings.may_go)


def granted_wishes(
    plan: Plan, membership: Membership, options: DesignOptions, progress: Progress = silent
) -> Granted | None:
    """The most valuable wishes; ``None`` without wishes, and if the other releases fail by themselves."""
    wishes = _Wishes(plan=plan, membership=membership, options=options)
    optional = wishes.optional
    if not optional.size or wishes.fails(optional[:0]):
        return None

    def conflicts(kept: IndexArray) -> list[IndexArray]:
        progress("choosing among the wishes", 0.0)
        if not wishes.fails(optional[kept]):
            return []
        return [smallest_conflict(kept, lambda units: wishes.fails(optional[units]))]

    values = np.array([plan.releases[query].weight for query in optional])
    found = cheapest_hitting_set(values, conflicts)
    assert found is not None  # without any wish nothing fails
    kept = np.setdiff1d(np.arange(optional.size), found.chosen)
    chosen_plan, chosen_membership = wishes.granted(optional[kept])
    return Granted(
        plan=chosen_plan,
        membership=chosen_membership,
        wishes=WishList(
            kept=tuple(plan.releases[query].name for query in optional[kept]),
            given_up=tuple(plan.releases[query].name for query in optional[found.chosen]),
            value=float(values[kept].sum()),
            value_at_most=float(values.sum()) - found.at_least,
            reasons=tuple(tuple(plan.releases[optional[u]].name for u in one) for one in found.conflicts),
        ),
    )
