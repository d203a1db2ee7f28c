"""Recipes: which published numbers to add up, and with which weights, to get one value."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sightline.arrays import FloatArray, IndexArray
from sightline.auditing.findings import Findings, LinearFindings
from sightline.auditing.lowering import cell_name, linear_partitions
from sightline.auditing.result import Recipe, Step
from sightline.auditing.table_units import publishable_key, signature_columns
from sightline.format import weight as weight_text
from sightline.format import without_rounding

# Weights below this share of the largest are rounding of weights that are zero.
_NOTHING = 1e-9
_SHOWN = 4
_MOST_STEPS = 5_000  # of a recipe; for longer ones an unbiased recipe of few numbers is written
# Of recipes with more steps than a reader follows, those are listed that carry so much of the variance.
_ALL_LISTED, _CARRIED = 200, 0.999


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecipeWriter:
    """Turns weights on the rows of a linear design into steps on published numbers."""

    findings: Findings
    found: LinearFindings

    def weights(self, column: int) -> FloatArray | None:
        """The best unbiased attack on a column's value or sum, or on the sharpest feature of several rows.

        None if nothing of it is identifiable.
        """
        unit, category = divmod(column, self.found.linear.columns_of_unit)
        return self.found.exposure.recipe(unit, category) if self.found.visible[column] else None

    def best(self, column: int) -> Recipe | None:
        """The best unbiased attack on a column's value, or on the sum of the records that share it."""
        weights = self.weights(column)
        if weights is None:
            return None
        used = int(np.count_nonzero(np.abs(weights) > _NOTHING * np.max(np.abs(weights))))
        if used <= _MOST_STEPS:
            return self.written(column, weights)
        few = self.found.exposure.recipe(*divmod(column, self.found.linear.columns_of_unit), few=True)
        short = self.written(column, few)
        end = f" (the recipe with the least error has {used:,} numbers)"
        public = short.publishable_text
        texts = {"text": short.text + end, "publishable_text": None if public is None else public + end}
        return short.model_copy(update=texts)

    def shortest(self, column: int) -> Recipe | None:
        """One number that is the value, or a difference of two; of several, the one with the least error."""
        rows = self.shortest_rows(column)
        if not rows:
            return None
        weights = np.zeros(self.found.linear.row_count)
        weights[list(rows)] = (1.0, -1.0)[: len(rows)]
        share = float(weights @ self.found.linear.image(column))
        return self.written(column, weights / share)

    def shortest_rows(self, column: int) -> tuple[int, ...]:
        """The row that is a column's value, or the two whose difference it is; none if there are none.

        The difference d of two rows is about one unit alone iff its own part dᵀKd makes up all of the rows'
        products, :math:`M_{ii} + M_{jj} - 2M_{ij}`. A row by itself is its difference from no row.
        """
        linear, variance = self.found.linear, self.found.linear.design.noise.variance
        unit, category = divmod(column, linear.columns_of_unit)
        if linear.rows_of_unit[unit] > 1 or self.findings.streamed:
            return ()
        kernel, people = linear.design.prior.kernel, float(self.found.people[unit])
        first = int(linear.units.starts[unit])
        own = linear.table[:, first : first + len(kernel)].toarray()
        alone, pairs = [], []
        others = [c for c in range(len(kernel)) if c != category]
        for i in np.flatnonzero(own[:, category] != 0).tolist():
            d = own[i] - np.vstack([own, np.zeros((1, len(kernel)))])
            apart = self.products_of_differences(i)
            mine = (people * np.einsum("jc,cd,jd->j", d, kernel, d) == apart) & (apart > 0)
            if others:  # the category itself, and not another one
                mine &= (d[:, category] > d[:, others].max(axis=1)) & (np.ptp(d[:, others], axis=1) == 0)
            alone += [(float(variance[i]), i)] if mine[-1] else []
            pairs += [(float(variance[i] + variance[j]), i, j) for j in np.flatnonzero(mine[:-1]).tolist()]
        return min(alone)[1:] if alone else min(pairs)[1:] if pairs else ()

    def products_of_differences(self, row: int) -> FloatArray:
        """:math:`M_{ii} + M_{jj} - 2M_{ij}` of a row with every other; at the end with no row."""
        M = self.found.exposure.products.matrix
        line = M[row] if isinstance(M, np.ndarray) else M[[row]].toarray()[0]
        diagonal = np.append(np.asarray(M.diagonal()), 0.0)
        return np.asarray(diagonal[row] + diagonal - 2 * np.append(line, 0.0))

    def written(self, column: int, weights: FloatArray, feature: FloatArray | None = None) -> Recipe:
        """The recipe of weights on the rows: the numbers to add, then those to subtract.

        They give a ``feature`` of the columns of the unit; by default the sum that is asked.
        """
        linear = self.found.linear
        rmse = math.sqrt(linear.design.noise.variance_of(weights))
        published = self.on_published(weights)
        constant = float(weights @ linear.offsets) - linear.told_by_sizes(column, weights, feature)
        used = np.flatnonzero(np.abs(published) > _NOTHING * np.max(np.abs(published)))
        order = self._carrying(used[np.lexsort((used, -np.abs(published[used])))], published)
        order = np.concatenate([order[published[order] > 0], order[published[order] <= 0]])
        steps = tuple(self.step(int(line), without_rounding(float(published[line]))) for line in order)
        known = self._uses_known(weights)
        end = " less the known values" if known else ""
        text, publishable = (
            self.text(order, steps, constant, owner, used.size) + end for owner in (True, False)
        )
        return Recipe(
            steps=steps,
            more_steps=used.size - len(steps),
            constant=without_rounding(constant),
            less_known=known,
            text=text,
            publishable_text=publishable if publishable != text else None,
            rmse=rmse,
        )

    def on_published(self, weights: FloatArray) -> FloatArray:
        r"""Weights on the published numbers, from those on the rows.

        The row of a step is a running sum less the one before it: :math:`\sum_t w_t (y_t - y_{t-1})` has the
        weight :math:`w_t - w_{t+1}` on :math:`y_t`.
        """
        linear = self.found.linear
        published = np.asarray(weights * linear.factors)
        row_of = np.full(len(self.findings.membership.cells), -1, dtype=np.intp)
        row_of[linear.cells] = np.arange(linear.row_count)
        for cells, strategy in self.findings.pricing.steps():
            rows = row_of[cells]
            if strategy.running and (rows >= 0).all():  # rows of this design may be some of the numbers only
                published[rows[:-1]] -= published[rows[1:]]
        return published

    def _carrying(self, order: IndexArray, published: FloatArray) -> IndexArray:
        """Of many numbers, heaviest first, those that carry nearly all of the noise."""
        if order.size <= _ALL_LISTED:
            return order
        noise = self.findings.pricing.published_stddev[self.found.linear.cells[order]]
        shares = (published[order] * noise) ** 2
        heaviest = np.argsort(-shares, kind="stable")
        enough = np.searchsorted(np.cumsum(shares[heaviest]), _CARRIED * shares.sum()) + 1
        return order[np.sort(heaviest[: max(int(enough), _SHOWN)])]

    def _uses_known(self, weights: FloatArray) -> bool:
        """Whether the weighted sum contains records that the attacker knows."""
        membership = self.findings.membership
        if self.findings.streamed or not membership.known_rows:  # of a streamed table few signatures are held
            return membership.known_rows > 0
        order = linear_partitions(membership)
        columns = signature_columns(membership, order)
        full = np.zeros(len(membership.cells) + 1)  # rows of this design may be some of the numbers only
        full[self.found.linear.cells] = weights
        positions = columns.cells + membership.starts[order]
        inside = np.where(columns.cells >= 0, positions, len(membership.cells))
        known = np.unique(columns.column[membership.known > 0])
        each = full[inside[known]] * (1.0 if columns.weights is None else columns.weights[known])
        shares = np.abs(each).sum(axis=1) if self.found.linear.categories else np.abs(each.sum(axis=1))
        return bool(shares.max(initial=0.0) > _NOTHING * np.max(np.abs(weights)))

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
            times=release.times,
        )

    def text(
        self, order: IndexArray, steps: tuple[Step, ...], constant: float, owner: bool, numbers: int = 0
    ) -> str:
        """The first steps in words, for the owner or for everyone; ``order`` has the rows of the steps.

        Of so many ``numbers`` in all, if the steps are some of them.
        """
        words: list[str] = []
        for line, step in zip(order[:_SHOWN], steps[:_SHOWN], strict=True):
            sign = "−" if step.weight < 0 else "+" if words else ""
            cell = int(self.found.linear.cells[line])
            withheld = self.findings.key_columns[self.findings.membership.cells[cell].partition]
            name = cell_name(self.findings.membership, cell, withheld=frozenset() if owner else withheld)
            copies = f" (mean of {step.times})" if step.times > 1 else ""
            words.append(f'{sign}{" " if words else ""}{weight_text(abs(step.weight))} × "{name}"{copies}')
        if (more := max(numbers, len(steps)) - _SHOWN) > 0:
            words.append(f"and {more} more")
        if abs(constant) > _NOTHING:
            words.append(f"{'−' if constant < 0 else '+'} {weight_text(abs(constant))}")
        return " ".join(words)
