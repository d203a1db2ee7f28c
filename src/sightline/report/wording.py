"""What every form of the report says in the same words: who is exposed, how, and with how much noise."""

from __future__ import annotations

from sightline.auditing.result import BudgetReport, Exposed, Recipe, ReleaseReport
from sightline.format import number
from sightline.privacy.registry import accountant_of_cost

NO_RECIPE = "cannot be singled out; may be below the limit"


def who(place: int, one: Exposed) -> str:
    """What to call an exposed record or group: its key if that is given, else its place in the list."""
    name = one.record if one.record is not None else f"no. {place}"
    seen = {"row": "one of {} rows", "total": "total of {} rows", "combination": "combination of {} rows"}
    if one.feature is not None:
        return f"{name}, {seen[one.feature].format(one.rows)}"
    return name if one.category is None else f"{name}, {one.category}"


def shown_recipe(one: Exposed) -> Recipe | None:
    """The recipe to show: the shortest, if that has fewer steps than the best unbiased attack."""
    if one.recipe is None or one.shortest is None:
        return one.recipe
    return one.shortest if len(one.shortest.steps) < len(one.recipe.steps) else one.recipe


def noise_range(release: ReleaseReport) -> str:
    """The standard deviation of a release's noise; a range if its numbers differ in it."""
    if release.smallest_noise_stddev is None or release.largest_noise_stddev is None:
        return "none"
    low, high = number(release.smallest_noise_stddev, 3), number(release.largest_noise_stddev, 3)
    return low if low == high else f"{low}–{high}"


def spent_by_accountant(budget: BudgetReport) -> dict[str, float]:
    """The epsilon that the noise amounts to, under the accountants' names in a plan."""
    return {accountant_of_cost(name): value for name, value in budget.spent.items()}
