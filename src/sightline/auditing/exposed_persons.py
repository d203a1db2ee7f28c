"""What is seen of a person with several rows: which feature of the rows, how sharply, and by which recipe."""

from __future__ import annotations

from typing import Literal

import numpy as np

from sightline.arrays import IndexArray
from sightline.auditing.findings import LinearFindings
from sightline.auditing.persons import PersonFindings
from sightline.auditing.recipes import RecipeWriter
from sightline.auditing.result import Exposed
from sightline.labeled.persons import Feature

FeatureName = Literal["row", "total", "combination"]


def person_entry(
    found: LinearFindings,
    people: PersonFindings,
    kind: int,
    writer: RecipeWriter,
    named: dict[int, tuple[str, ...]],
) -> Exposed:
    """The entry of a kind of person with several rows."""
    kinds, place = people.seen.kinds, int(people.place[kind])
    entries, owners = kinds.entries(kind), named.get(place, ())
    rows, feature = kinds.rows[entries], people.feature(kind)
    name, recipe, rmse, share = None, None, None, None
    if feature is not None:
        scale = 1 / float(np.max(np.abs(feature.weights)))
        name = feature_name(feature, rows)
        recipe = writer.written(int(kinds.columns[entries][0]), feature.recipe * scale)
        rmse = feature.rmse * scale
        share = 100 * feature.rmse / (float(np.abs(feature.weights) @ rows) * found.linear.prior.range)
    return Exposed(
        record=", ".join(owners) if owners else None,
        signature=int(people.table.signatures[people.table.starts[place]]),
        size=int(kinds.persons[kind]),
        category=None,
        identifiable=recipe is not None,
        local=False,
        rmse=rmse,
        rmse_percent_of_range=share,
        remaining_uncertainty=people.bracket(kind),
        releases=() if recipe is None else tuple(dict.fromkeys(step.release for step in recipe.steps)),
        recipe=recipe,
        shortest=None,
        feature=name,
        rows=int(rows.sum()) // found.linear.main.blocks,
    )


def feature_name(feature: Feature, rows: IndexArray) -> FeatureName:
    """What a feature is; ``rows`` are those of each entry. With weights of one, a row or a total."""
    if feature.is_row(rows):
        return "row"
    return "total" if feature.is_total() else "combination"
