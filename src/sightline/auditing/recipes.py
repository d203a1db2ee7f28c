"""Recipes: which published numbers to add up, with which weights, to see one value."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sightline.arrays import FloatArray, IndexArray
from sightline.auditing.key_columns import publishable_key
from sightline.auditing.plan import Plan
from sightline.auditing.result import Recipe, Step
from sightline.auditing.view import View, cell_name
from sightline.format import weight as weight_text
from sightline.format import without_rounding
from sightline.labeled.company import combined
from sightline.labeled.contributions import Contributions
from sightline.labeled.exposures import Exposures
from sightline.noise.laws import GaussianNoise, LaplaceNoise
from sightline.tables.membership import Membership

# Weights below this share of the largest are rounding of weights that are zero.
_NOTHING = 1e-9
_SHOWN = 4


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cookbook:
    """Turns weights on a view's rows into steps on published numbers."""

    plan: Plan
    membership: Membership
    view: View
    exposures: Exposures
    contributions: Contributions | None
    key_columns: tuple[
        frozenset[int], ...
    ]  # of every partition, the columns that a publishable text withholds

    def best(self, column: int) -> Recipe | None:
        """The best unbiased attack on a column's value, or on the sum of the records that share it."""
        group = int(self.exposures.group[column])
        if not self.exposures.groups.identifiable[group]:
            return None
        return self.written(self.exposures.group_recipe(group))

    def shortest(self, column: int) -> Recipe | None:
        """One number that is the value, or a difference of two: the sharpest of them."""
        alone = self._cells_of_its_own(column)
        errors = self._variances
        weights = np.zeros(self.view.design.lines)
        if alone.size:
            weights[min(alone.tolist(), key=lambda line: (errors[line], line))] = 1.0
        else:
            pairs = self.contributions.pairs if self.contributions is not None else ()
            mine = [pair for pair in pairs if pair.record == column]
            if not mine:
                return None
            pair = min(mine, key=lambda pair: (errors[pair.larger] + errors[pair.smaller], pair.larger))
            weights[pair.larger], weights[pair.smaller] = 1.0, -1.0
        return self.written(weights)

    @property
    def _variances(self) -> FloatArray:
        """Of the noise on the view's rows, all of it independent."""
        match self.view.design.law:
            case GaussianNoise(stddevs=stddevs):
                return stddevs**2
            case LaplaceNoise(scales=scales):
                return 2 * scales**2
            case other:
                return np.diagonal(other.covariance)

    def written(self, weights: FloatArray) -> Recipe:
        """Weights on the view's rows on published numbers: those to add, then those to subtract."""
        variances = np.where(weights == 0, 0.0, self._variances)  # no weight on infinite noise is no noise
        rmse = math.sqrt(float(weights**2 @ variances))
        published = weights * self.view.factors
        constant = float(weights @ self.view.offsets)
        used = np.flatnonzero(np.abs(published) > _NOTHING * np.max(np.abs(published)))
        order = used[np.lexsort((used, -np.abs(published[used])))]
        order = np.concatenate([order[published[order] > 0], order[published[order] <= 0]])
        steps = tuple(self._step(int(line), without_rounding(float(published[line]))) for line in order)
        known = self._uses_known(weights)
        end = " less the known values" if known else ""
        text, publishable = (self._text(order, steps, constant, owner) + end for owner in (True, False))
        return Recipe(
            steps=steps,
            constant=without_rounding(constant),
            less_known=known,
            text=text,
            publishable_text=publishable if publishable != text else None,
            rmse=rmse,
        )

    def _uses_known(self, weights: FloatArray) -> bool:
        """Whether records that the attacker knows are part of what the weights give."""
        if not self.view.known.any():
            return False
        shares = combined(self.view.design, weights)[self.view.known]
        return bool(np.max(np.abs(shares)) > _NOTHING * np.max(np.abs(weights)))

    def _step(self, line: int, weight: float) -> Step:
        cell = self.membership.cells[self.view.cells[line]]
        partition = self.membership.partitions[cell.partition]
        release = self.plan.releases[partition.query]
        # What tells the numbers of one release apart: the group, and which aggregate or category it is of.
        which = partition.name.removeprefix(release.name).removeprefix(": ")
        public = publishable_key(cell.key, self.key_columns[cell.partition])
        name, publishable = (", ".join([*key, which] if which else key) for key in (cell.key, public))
        return Step(
            release=release.name,
            cell=name,
            publishable_cell=publishable if publishable != name else None,
            weight=weight,
            times=release.times,
        )

    def _text(self, order: IndexArray, steps: tuple[Step, ...], constant: float, owner: bool) -> str:
        words: list[str] = []
        for line, step in zip(order[:_SHOWN], steps[:_SHOWN], strict=True):
            sign = "−" if step.weight < 0 else "+" if words else ""
            cell = int(self.view.cells[line])
            withheld = self.key_columns[self.membership.cells[cell].partition]
            name = cell_name(self.membership, cell, withheld=frozenset() if owner else withheld)
            copies = f" (mean of {step.times})" if step.times > 1 else ""
            words.append(f'{sign}{" " if words else ""}{weight_text(abs(step.weight))} × "{name}"{copies}')
        if len(steps) > _SHOWN:
            words.append(f"and {len(steps) - _SHOWN} more")
        if abs(constant) > _NOTHING:
            words.append(f"{'−' if constant < 0 else '+'} {weight_text(abs(constant))}")
        return " ".join(words)

    def _cells_of_its_own(self, column: int) -> IndexArray:
        design = self.view.design
        mine = design.pattern.columns(np.array([column]))[:, 0] > 0
        counts = design.pattern.counts
        size = 1 if counts is None else int(counts[column])
        return np.flatnonzero(mine & (design.pattern.sizes == size))
