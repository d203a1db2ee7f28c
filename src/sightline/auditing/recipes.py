"""Recipes: which published numbers to add up, and with which weights, to get one value."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sightline.arrays import FloatArray, IndexArray
from sightline.auditing.design import CategoryDesign, cell_name
from sightline.auditing.findings import Findings, LinearFindings
from sightline.auditing.key_columns import publishable_key
from sightline.auditing.result import Recipe, Step
from sightline.format import weight as weight_text
from sightline.format import without_rounding
from sightline.labeled.sparse_attacks import RecipesOnDemand
from sightline.labeled.unknown_gram import combined

# Weights below this share of the largest are rounding of weights that are zero.
_NOTHING = 1e-9
_SHOWN = 4
_MOST_STEPS = 5_000  # of a recipe; for longer ones an unbiased recipe of few numbers is written


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecipeWriter:
    """Turns weights on the rows of a linear design into steps on published numbers."""

    findings: Findings
    found: LinearFindings

    def best(self, column: int) -> Recipe | None:
        """The best unbiased attack on a column's value, or on the sum of the records that share it."""
        exposures = self.found.exposures
        group = int(exposures.group[column])
        if not exposures.groups.identifiable[group]:
            return None
        weights, table = exposures.group_recipe(group), exposures.recipes
        used = int(np.count_nonzero(np.abs(weights) > _NOTHING * np.max(np.abs(weights))))
        if used <= _MOST_STEPS or not isinstance(table, RecipesOnDemand):
            return self.written(column, weights)
        row = int(np.count_nonzero(exposures.groups.identifiable[:group]))
        short = self.written(column, table.of_few_numbers(row))
        end = f" (the recipe with the least error has {used:,} numbers)"
        public = short.publishable_text
        texts = {
            "text": short.text + end,
            "publishable_text": None if public is None else public + end,
        }
        return short.model_copy(update=texts)

    def shortest(self, column: int) -> Recipe | None:
        """One number that is the value, or a difference of two; of several, the one with the least error."""
        linear = self.found.linear
        part, own = linear.place(column)
        weights = np.zeros(part.design.row_count)
        shares = part.design.incidence.columns(np.array([own]))[:, 0]  # all 1, unless rows hold one value
        for row, sign in zip(self.shortest_rows(column), (1.0, -1.0), strict=False):
            weights[row] = sign / max(1.0, float(shares[row]))
        if not weights.any():
            return None
        return self.written(column, weights * part.factors / linear.main.factors)

    def shortest_rows(self, column: int) -> tuple[int, ...]:
        """The row that is a column's value, or the two whose difference it is; none if there are none."""
        part, own = self.found.linear.place(column)
        errors = part.design.law.variances
        alone = _cells_of_its_own(part, own)
        if alone.size:
            return (min(alone.tolist(), key=lambda line: (errors[line], line)),)
        pairs = self.findings.contributions.pairs if self.findings.contributions is not None else ()
        mine = [pair for pair in pairs if pair.record == column]
        if not mine:
            return ()
        pair = min(mine, key=lambda pair: (errors[pair.larger] + errors[pair.smaller], pair.larger))
        return pair.larger, pair.smaller

    def written(self, column: int, weights: FloatArray) -> Recipe:
        """The recipe of weights on the main design's rows: the numbers to add, then those to subtract."""
        linear = self.found.linear
        # A weight of zero on infinite noise adds no noise.
        law = linear.design.law
        variances = np.where((weights == 0) | linear.exact, 0.0, law.variances)
        variance = weights @ law.covariance @ weights if law.correlated else weights**2 @ variances
        rmse = math.sqrt(float(variance))
        published = weights * linear.main.factors
        part, _ = linear.place(column)
        constant = float((published / part.factors) @ part.offsets)
        used = np.flatnonzero(np.abs(published) > _NOTHING * np.max(np.abs(published)))
        order = used[np.lexsort((used, -np.abs(published[used])))]
        order = np.concatenate([order[published[order] > 0], order[published[order] <= 0]])
        steps = tuple(self.step(int(line), without_rounding(float(published[line]))) for line in order)
        known = self._uses_known(weights)
        end = " less the known values" if known else ""
        text, publishable = (self.text(order, steps, constant, owner) + end for owner in (True, False))
        return Recipe(
            steps=steps,
            constant=without_rounding(constant),
            less_known=known,
            text=text,
            publishable_text=publishable if publishable != text else None,
            rmse=rmse,
        )

    def _uses_known(self, weights: FloatArray) -> bool:
        """Whether the weighted sum contains records that the attacker knows."""
        design = self.found.linear.design
        if self.findings.streamed:  # most of the rows that the attacker knows have no column
            return self.findings.membership.known_rows > 0
        known = self.found.linear.known[: design.size]
        if not known.any():
            return False
        shares = combined(design, weights)[known]
        return bool(np.max(np.abs(shares)) > _NOTHING * np.max(np.abs(weights)))

    def step(self, line: int, weight: float) -> Step:
        """One published number, by its row of the design, with its weight."""
        cell = self.findings.membership.cells[self.found.linear.cells[line]]
        partition = self.findings.membership.partitions[cell.partition]
        release = self.findings.plan.releases[partition.query]
        which = (partition.label,) if partition.label else ()
        public = publishable_key(cell.key, self.findings.key_columns[cell.partition])
        name, publishable = (", ".join([*key, *which]) for key in (cell.key, public))
        return Step(
            release=release.name,
            cell=name,
            publishable_cell=publishable if publishable != name else None,
            weight=weight,
            times=self.findings.plan.copies(release),
        )

    def text(self, order: IndexArray, steps: tuple[Step, ...], constant: float, owner: bool) -> str:
        """The first steps in words, for the owner or for everyone; ``order`` has the rows of the steps."""
        words: list[str] = []
        for line, step in zip(order[:_SHOWN], steps[:_SHOWN], strict=True):
            sign = "−" if step.weight < 0 else "+" if words else ""
            cell = int(self.found.linear.cells[line])
            withheld = self.findings.key_columns[self.findings.membership.cells[cell].partition]
            name = cell_name(self.findings.membership, cell, withheld=frozenset() if owner else withheld)
            copies = f" (mean of {step.times})" if step.times > 1 else ""
            words.append(f'{sign}{" " if words else ""}{weight_text(abs(step.weight))} × "{name}"{copies}')
        if len(steps) > _SHOWN:
            words.append(f"and {len(steps) - _SHOWN} more")
        if abs(constant) > _NOTHING:
            words.append(f"{'−' if constant < 0 else '+'} {weight_text(abs(constant))}")
        return " ".join(words)


def _cells_of_its_own(part: CategoryDesign, column: int) -> IndexArray:
    """The rows that hold the records of a column and no other."""
    incidence = part.design.incidence
    mine = incidence.columns(np.array([column]))[:, 0] > 0
    size = 1 if incidence.counts is None else int(incidence.counts[column])
    return np.flatnonzero(mine & (incidence.sizes == size))
