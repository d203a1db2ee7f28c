"""Recipes: which published numbers to add up, and with which weights, to get one value."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sightline.arrays import FloatArray, IndexArray
from sightline.auditing.design import CategoryDesign, cell_name
from sightline.auditing.findings import Findings, LinearFindings
from sightline.auditing.result import Recipe, Step
from sightline.labeled.company import combined

# Weights below this share of the largest are rounding of weights that are zero.
_NOTHING = 1e-9
_SHOWN = 4


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecipeWriter:
    """Turns weights on the rows of a linear design into steps on published numbers."""

    findings: Findings
    found: LinearFindings

    def best(self, column: int) -> Recipe | None:
        """The best unbiased attack on a column's value, or on the sum of the records that share it."""
        group = int(self.found.exposures.group[column])
        if not self.found.exposures.groups.identifiable[group]:
            return None
        return self.written(column, self.found.exposures.group_recipe(group))

    def shortest(self, column: int) -> Recipe | None:
        """One number that is the value, or a difference of two; of several, the one with the least error."""
        linear = self.found.linear
        part, _ = linear.place(column)
        weights = np.zeros(part.design.lines)
        for row, sign in zip(self.shortest_rows(column), (1.0, -1.0), strict=False):
            weights[row] = sign
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
        rmse = math.sqrt(float(weights**2 @ linear.design.law.variances))
        published = weights * linear.main.factors
        part, _ = linear.place(column)
        constant = float((published / part.factors) @ part.offsets)
        used = np.flatnonzero(np.abs(published) > _NOTHING * np.max(np.abs(published)))
        order = used[np.lexsort((used, -np.abs(published[used])))]
        order = np.concatenate([order[published[order] > 0], order[published[order] <= 0]])
        steps = tuple(self._step(int(line), _tidy(float(published[line]))) for line in order)
        known = self._uses_known(weights)
        text = self._text(order, steps, constant) + (" less the known values" if known else "")
        return Recipe(steps=steps, constant=_tidy(constant), less_known=known, text=text, rmse=rmse)

    def _uses_known(self, weights: FloatArray) -> bool:
        """Whether the weighted sum contains records that the attacker knows."""
        design = self.found.linear.design
        known = self.found.linear.known[: design.size]
        if not known.any():
            return False
        shares = combined(design, weights)[known]
        return bool(np.max(np.abs(shares)) > _NOTHING * np.max(np.abs(weights)))

    def _step(self, line: int, weight: float) -> Step:
        cell = self.findings.membership.cells[self.found.linear.cells[line]]
        partition = self.findings.membership.partitions[cell.partition]
        release = self.findings.plan.releases[partition.query]
        words = [*cell.key, partition.label] if partition.label else cell.key
        return Step(release=release.name, cell=", ".join(words), weight=weight, times=release.times)

    def _text(self, order: IndexArray, steps: tuple[Step, ...], constant: float) -> str:
        words: list[str] = []
        for line, step in zip(order[:_SHOWN], steps[:_SHOWN], strict=True):
            sign = "−" if step.weight < 0 else "+" if words else ""
            name = cell_name(self.findings.membership, int(self.found.linear.cells[line]))
            copies = f" (mean of {step.times})" if step.times > 1 else ""
            words.append(f'{sign}{" " if words else ""}{_number(abs(step.weight))} × "{name}"{copies}')
        if len(steps) > _SHOWN:
            words.append(f"and {len(steps) - _SHOWN} more")
        if abs(constant) > _NOTHING:
            words.append(f"{'−' if constant < 0 else '+'} {_number(abs(constant))}")
        return " ".join(words)


def _cells_of_its_own(part: CategoryDesign, column: int) -> IndexArray:
    """The rows that hold the records of a column and no other."""
    pattern = part.design.pattern
    mine = pattern.columns(np.array([column]))[:, 0] > 0
    size = 1 if pattern.counts is None else int(pattern.counts[column])
    return np.flatnonzero(mine & (pattern.sizes == size))


def _tidy(weight: float) -> float:
    """The weight as a whole number if it is one up to rounding."""
    whole = round(weight)
    return float(whole) if whole and abs(weight - whole) <= 1e-9 * abs(weight) else weight


def _number(value: float) -> str:
    tidy = _tidy(value)
    return f"{int(tidy):,}" if tidy == int(tidy) and abs(tidy) < 1e15 else f"{tidy:.4g}"
