"""Words that every form of the report shares: who is exposed, by which recipe, with how much noise."""

from __future__ import annotations

import math

from sightline.auditing.result import BudgetReport, Exposed, Recipe, ReleaseReport, Unverified
from sightline.format import count, number, parameter
from sightline.privacy.registry import accountant_of_cost

NO_RECIPE = "cannot be singled out; may be below the limit"
MOST_ALIKE = 10  # groups of rows that are nearly all alike, to list


def who(place: int, exposed: Exposed) -> str:
    """Name an exposed record or group: by its key if that is given, else by its place in the list."""
    name = exposed.record if exposed.record is not None else f"no. {place}"
    if exposed.feature is not None:
        feature = "one" if exposed.feature == "row" else exposed.feature
        return f"{name}, {feature} of {exposed.rows} rows"
    return name if exposed.category is None else f"{name}, {exposed.category}"


def shown_recipe(exposed: Exposed) -> Recipe | None:
    """Choose the recipe to show: the shortest, if it has fewer steps than the best unbiased attack."""
    if exposed.recipe is None or exposed.shortest is None:
        return exposed.recipe
    return exposed.shortest if len(exposed.shortest.steps) < len(exposed.recipe.steps) else exposed.recipe


def noise_range(release: ReleaseReport) -> str:
    """Write the standard deviation of a release's noise, or a range if its numbers have different noise."""
    if release.smallest_noise_stddev is None or release.largest_noise_stddev is None:
        return "none"
    low, high = number(release.smallest_noise_stddev, 3), number(release.largest_noise_stddev, 3)
    return low if low == high else f"{low}–{high}"


def budget_words(budget: BudgetReport) -> str:
    """The budget in a few words: the epsilon of everything, where the plan's own is that of a part.

    Empty if the plan has no budget.
    """
    at_delta = f"at delta = {parameter(budget.delta)}"
    own = "epsilons of their own" if budget.epsilon is None else f"epsilon = {parameter(budget.epsilon)}"
    if budget.total_epsilon is None:
        return "" if budget.epsilon is None else f"{own} under {budget.accountant} {at_delta}"
    each = " each" if budget.epsilon is not None else ""
    parts = [f"{budget.periods:,} periods with {own}{each}" if budget.periods > 1 else f"a budget of {own}"]
    if outside := budget.releases - budget.sharing:
        parts.append(f"{count(outside, 'release')} outside it")
    finite = math.isfinite(budget.total_epsilon)
    epsilon = f"epsilon = {number(budget.total_epsilon)}" if finite else "epsilon is infinite"
    total = f"{epsilon} in all under {budget.total_accountant}"
    return f"{total} {at_delta} ({', and '.join(parts)})"


def spent_by_accountant(budget: BudgetReport) -> dict[str, float]:
    """The epsilon of the noise by accountant, with the names that a plan uses."""
    return {accountant_of_cost(name): value for name, value in budget.spent.items()}


def unverified_line(one: Unverified) -> str:
    """An assumption that was not verified, whether the plan accepts it, and who may read that."""
    notes = [
        *(["accepted by the plan"] if one.accepted else []),
        *(["for the owner only"] if one.owner_only else []),
    ]
    return f"{one.name.value}: {one.reason}" + (f" ({'; '.join(notes)})" if notes else "")
