r"""Recipes: which published numbers to add up, and with which weights, to get one value.

The best linear attack on a record, folded to the few numbers that carry it, and whom it is seen with.

Values are independent with the prior's variance :math:`v`, and a target is a sum :math:`t^\top x` of some
rows. With the rows A of the design and noise :math:`\Sigma`, the best linear attack on the numbers S has risk

.. math:: \rho_S = 1 - \frac{v\, g_S^\top C_{SS}^{-1} g_S}{t^\top t}, \quad C = v A A^\top + \Sigma,
   \quad g = A t

as a share of the prior variance (theory page on attacks). Its information is :math:`1/\rho_S - 1`. The
numbers that are shown are chosen forwards, then backwards: each time the one whose loss costs least is left
out, for as long as the rest carries 99 % of the information of all. The few of a first screen carry 90 %.

The records that a target is seen with are those that the attack's guess contains with a large weight: the sum
of their values and the target's is known more sharply than one of them.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import NamedTuple

import numpy as np

from sightline.arrays import MOST_SQUARE, ROUNDING, FloatArray, IndexArray
from sightline.auditing.findings import Findings, LinearFindings
from sightline.auditing.lowering import cell_name, linear_partitions, which_of_release
from sightline.auditing.result import LinearAttack, Recipe, SeenTogether, Step
from sightline.auditing.result_parts import MOST_LISTED, NAMED
from sightline.auditing.table_units import publishable_key, signature_columns
from sightline.auditing.unit_findings import MOST_FACTORISED
from sightline.format import weight as weight_text
from sightline.format import without_rounding
from sightline.numerics.positive_inverse import positive_inverse
from sightline.values import frozen

_CARRIED = 0.999  # of the variance, by the numbers that are listed of many


@frozen(slots=False)
class RecipeWriter:
    """Turns weights on the rows of a linear design into steps on published numbers."""

    findings: Findings
    found: LinearFindings

    def weights(self, column: int) -> FloatArray:
        """The best unbiased attack on a column's value or sum, or on the sharpest feature of several rows."""
        return self.found.exposure.recipe(*divmod(column, self.found.linear.columns_of_unit))

    def best(self, column: int, times: int = 1) -> Recipe | None:
        """The best unbiased attack on ``times`` a column's value, or on the sum of those who share it."""
        if not self.found.visible[column]:
            return None
        weights = self.weights(column) * times
        used = int(np.count_nonzero(np.abs(weights) > ROUNDING * np.max(np.abs(weights))))
        if used <= MOST_SQUARE:
            return self.written(column, weights)
        few = self.found.exposure.recipe(*divmod(column, self.found.linear.columns_of_unit), few=True)
        short = self.written(column, few * times)
        end = f" (the recipe with the least error has {used:,} numbers)"
        public = short.publishable_text
        texts = {"text": short.text + end, "publishable_text": None if public is None else public + end}
        return short.model_copy(update=texts)

    def shortest(self, column: int, times: int = 1) -> Recipe | None:
        """One number that is the value, or a difference of two; of several, the one with the least error.

        It is written so that it gives so many ``times`` the value.
        """
        rows = self.shortest_rows(column)
        if not rows:
            return None
        weights = np.zeros(self.found.linear.row_count)
        weights[list(rows)] = (1.0, -1.0)[: len(rows)]
        share = float(weights @ self.found.linear.image(column))
        return self.written(column, weights * times / share)

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

    @cached_property
    def _diagonal(self) -> FloatArray:
        """That of M; at the end with no row."""
        return np.append(np.asarray(self.found.exposure.products.matrix.diagonal()), 0.0)

    def products_of_differences(self, row: int) -> FloatArray:
        """:math:`M_{ii} + M_{jj} - 2M_{ij}` of a row with every other; at the end with no row."""
        M = self.found.exposure.products.matrix
        line = M[row] if isinstance(M, np.ndarray) else M[[row]].toarray()[0]
        diagonal = self._diagonal
        return np.asarray(diagonal[row] + diagonal - 2 * np.append(line, 0.0))

    def written(self, column: int, weights: FloatArray, feature: FloatArray | None = None) -> Recipe:
        """The recipe of weights on the rows: the numbers to add, then those to subtract.

        They give a ``feature`` of the columns of the unit; by default the sum that is asked.
        """
        linear = self.found.linear
        rmse = math.sqrt(linear.design.noise.variance_of(weights))
        published = self.on_published(weights)
        constant = float(weights @ linear.offsets) - linear.told_by_sizes(column, weights, feature)
        used = np.flatnonzero(np.abs(published) > ROUNDING * np.max(np.abs(published)))
        order = self._carrying(used[_heaviest_first(published[used], used)], published)
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
        if order.size <= MOST_LISTED:
            return order
        noise = self.findings.pricing.published_stddev[self.found.linear.cells[order]]
        shares = (published[order] * noise) ** 2
        heaviest = np.argsort(-shares, kind="stable")
        enough = np.searchsorted(np.cumsum(shares[heaviest]), _CARRIED * shares.sum()) + 1
        return order[np.sort(heaviest[: max(int(enough), NAMED)])]

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
        each = full[inside[known]] * columns.weights[known]
        shares = np.abs(each).sum(axis=1) if self.found.linear.categories else np.abs(each.sum(axis=1))
        return bool(shares.max(initial=0.0) > ROUNDING * np.max(np.abs(weights)))

    def step(self, line: int, weight: float) -> Step:
        """One published number, by its row of the design, with its weight."""
        cell = self.findings.membership.cells[self.found.linear.cells[line]]
        partition = self.findings.membership.partitions[cell.partition]
        release = self.findings.plan.releases[partition.query]
        which = which_of_release(self.findings.membership, cell.partition)
        public = publishable_key(cell.key, self.findings.key_columns[cell.partition])
        name, publishable = (", ".join([*key, *which]) for key in (cell.key, public))
        return Step(
            release=release.name,
            cell=name,
            publishable_cell=publishable if publishable != name else None,
            weight=weight,
            times=release.times,
            before=" ".join(partition.computed.arithmetic),
        )

    def text(
        self, order: IndexArray, steps: tuple[Step, ...], constant: float, owner: bool, numbers: int = 0
    ) -> str:
        """The first steps in words, for the owner or for everyone; ``order`` has the rows of the steps.

        Of so many ``numbers`` in all, if the steps are some of them.
        """
        words: list[str] = []
        for line, step in zip(order[:NAMED], steps[:NAMED], strict=True):
            sign = "−" if step.weight < 0 else "+" if words else ""
            cell = int(self.found.linear.cells[line])
            withheld = self.findings.key_columns[self.findings.membership.cells[cell].partition]
            name = cell_name(self.findings.membership, cell, withheld=frozenset() if owner else withheld)
            copies = f" (mean of {step.times})" if step.times > 1 else ""
            before = f" (before {step.before})" if step.before else ""
            words.append(
                f'{sign}{" " if words else ""}{weight_text(abs(step.weight))} × "{name}"{before}{copies}'
            )
        if (more := max(numbers, len(steps)) - NAMED) > 0:
            words.append(f"and {more} more")
        if abs(constant) > ROUNDING:
            words.append(f"{'−' if constant < 0 else '+'} {weight_text(abs(constant))}")
        return " ".join(words)


_ATTACK_CARRIED = 0.99  # of the information, that the shown numbers carry
_FEW_CARRY = 0.9  # of it, that the few carry which a line of the first screen names
_MOST_ATTACK_STEPS = 6  # that are shown, even if they carry less
_MOST_TOGETHER = 12  # records that are looked at together
_HEAVY = 0.5  # of the target's own weight in a guess: others with less are not seen with it


@frozen
class Folded:
    """The attack on a target, and the columns that it is seen with, whose keys name those records."""

    attack: LinearAttack
    others: IndexArray  # columns of the linear design, without the target's own

    def named(self, keys: dict[int, tuple[str, ...]]) -> LinearAttack:
        """The attack with the keys of the records that the target is seen with."""
        together = self.attack.together
        records = tuple(key for column in self.others.tolist() for key in keys.get(column, ()))
        if together is None or not records:
            return self.attack
        return self.attack.model_copy(update={"together": together.model_copy(update={"records": records})})


class _Carrying(NamedTuple):
    """Some of the numbers that an attack may use, by their places, and their gain."""

    rows: IndexArray = np.zeros(0, dtype=np.intp)
    gain: float = 0.0


@frozen(slots=False)
class LinearAttacks:
    """The products of some published numbers, for attacks on what is asked of some units."""

    findings: Findings
    found: LinearFindings
    rows: IndexArray  # of the design, that attacks may use

    @classmethod
    def of(cls, findings: Findings, found: LinearFindings, columns: IndexArray) -> LinearAttacks:
        """For targets among some columns.

        Of a design with many numbers only those are used that hold one of the columns, and of too many those
        that tell most of one by themselves.
        """
        linear, variances = found.linear, found.linear.design.noise.variance
        rows = np.arange(linear.row_count)
        if rows.size > MOST_FACTORISED:
            held = np.max([linear.image(column) ** 2 for column in columns.tolist()], axis=0)
            spread = linear.design.prior.scale * np.asarray(found.exposure.products.matrix.diagonal())
            share = held / np.where(variances + spread > 0, variances + spread, 1.0)
            most = np.argsort(-share, kind="stable")[:MOST_FACTORISED]
            rows = np.sort(most[share[most] > 0])
        return cls(findings=findings, found=found, rows=rows[np.isfinite(variances[rows])])

    @cached_property
    def _covariance(self) -> FloatArray:
        """C: of the numbers, with noise."""
        own = self.found.exposure.products.take(self.rows).dense
        return np.asarray(self._scale * own + self.found.linear.design.noise.take(self.rows).matrix)

    @property
    def _scale(self) -> float:
        """The covariance of what is asked of one row, over the prior's kernel."""
        return self.found.linear.design.prior.scale

    @cached_property
    def _solver(self) -> tuple[FloatArray, FloatArray] | None:
        """The scales that give C a unit diagonal, and its inverse then; none if it is singular, or empty."""
        if not self.rows.size:
            return None
        scale = 1 / np.sqrt(np.diagonal(self._covariance))
        inverse = positive_inverse(self._covariance * np.outer(scale, scale))
        return None if inverse is None else (scale, inverse)

    def folded(self, column: int, writer: RecipeWriter) -> tuple[Folded, ...]:
        """The attack on a column's value, or on the total of a person's rows.

        None if the numbers tell nothing of it, or rounding hides what.
        """
        if self._solver is None:
            return ()
        linear, kernel = self.found.linear, self.found.linear.design.prior.kernel
        rows = int(linear.rows_of_unit[column // len(kernel)])
        reach = self._reach(column)
        length = rows * kernel[0, 0]  # tᵀKt: every row has weight 1
        weights = self._solved(reach)
        gain = self._scale * float(reach @ weights) / length
        if not 0 < gain < 1 or (rows == 1 and self._digits_lost(column, 1 - gain)):
            return ()
        if rows == 1 and self.rows.size < linear.row_count:  # others carry some of it, too
            gain = max(gain, 1 - min(1.0, float(self.found.exposure.upper_by_attack[0].ravel()[column])))
        scaled = reach / np.sqrt(length / self._scale)
        (chosen, part_gain), few = self._chosen(scaled, gain)
        if not part_gain < 1:  # a number without noise carries everything
            return ()
        share = (part_gain / (1 - part_gain)) / (gain / (1 - gain))
        if not 0 < share <= 1 + 1e-6:
            return ()
        small = np.linalg.solve(self._covariance[np.ix_(chosen, chosen)], reach[chosen]) * self._scale
        in_total = self.found.scale_of_total(column)  # of rows that share a level
        small, rows = small * in_total, rows * in_total
        full = np.zeros(linear.row_count)
        full[self.rows[chosen]] = small
        published = writer.on_published(full)
        lines = np.flatnonzero(published)
        size = np.sqrt(linear.design.noise.variance[lines]) / np.abs(linear.factors[lines])
        if not self.findings.pricing.strategies:
            size = np.zeros(linear.row_count)
            size[self.rows] = np.sqrt(np.diagonal(self._covariance))
            size = size[lines]
        lines = lines[_heaviest_first(published[lines] * size, lines)]
        published = published[lines]
        steps = tuple(
            writer.step(int(line), float(weight)) for line, weight in zip(lines, published, strict=True)
        )
        text, public = (writer.text(lines, steps, 0.0, owner) for owner in (True, False))
        together, columns = self._together(column, rows, weights, 1 - gain)
        attack = LinearAttack(
            steps=steps,
            share=min(share, 1.0),
            few=self._few_steps(few, scaled, writer),
            few_numbers=few.rows.size,
            few_share=min(few.gain / (1 - few.gain) / (gain / (1 - gain)), 1.0),
            numbers=int(self.rows.size),
            target="value" if rows == 1 else "total",
            together=together,
            text=text,
            publishable_text=public if public != text else None,
        )
        return (Folded(attack=attack, others=columns),)

    def _digits_lost(self, column: int, risk: float) -> bool:
        """Whether the attack on a value seems to leave less than the lower end, which no attack does."""
        return risk < float(self.found.exposure.lower.ravel()[column]) * (1 - 1e-6)

    def _reach(self, column: int) -> FloatArray:
        """g = BKt of one person, on the numbers that are used."""
        kernel = self.found.linear.design.prior.kernel
        unit, category = divmod(column, len(kernel))
        each = [self.found.linear.image(unit * len(kernel) + c)[self.rows] for c in range(len(kernel))]
        return np.asarray(kernel[category] @ np.stack(each))

    def _solved(self, reach: FloatArray) -> FloatArray:
        assert self._solver is not None
        scale, inverse = self._solver
        return np.asarray(scale * (inverse @ (scale * reach)))

    def _chosen(self, reach: FloatArray, total: float) -> tuple[_Carrying, _Carrying]:
        """The numbers that are shown, and the fewest that carry 90 %: none where numbers share noise.

        ``total`` is the gain of all numbers, 1 − ρ. Each time the number that carries least is left out.
        """
        C, whole = self._covariance, total / (1 - total)
        chosen = _forwards(C, reach, total)
        gain = float(reach[chosen] @ np.linalg.solve(C[np.ix_(chosen, chosen)], reach[chosen]))
        shown: _Carrying | None = None
        few = _Carrying()
        while True:
            if gain < 1 and gain >= _FEW_CARRY * whole * (1 - gain):
                few = _Carrying(chosen, gain)
            after, rest = gain, chosen[:0]
            if chosen.size > 1:
                inverse = np.linalg.inv(C[np.ix_(chosen, chosen)])
                losses = (inverse @ reach[chosen]) ** 2 / np.diagonal(inverse)
                least = int(np.argmax(losses <= losses.min() * (1 + ROUNDING)))
                after, rest = gain - float(losses[least]), np.delete(chosen, least)
            loses = chosen.size <= _MOST_ATTACK_STEPS and after < _ATTACK_CARRIED * whole * (1 - after)
            if shown is None and (loses or not rest.size):
                shown = _Carrying(chosen, gain)
            if shown is not None and (after < _FEW_CARRY * whole * (1 - after) or not rest.size):
                shared = bool(self.findings.pricing.strategies)  # steps of running sums are not the numbers
                return shown, _Carrying() if shared else few
            chosen, gain = rest, after

    def _few_steps(self, few: _Carrying, reach: FloatArray, writer: RecipeWriter) -> tuple[Step, ...]:
        """The heaviest of the few numbers; a line names so many."""
        if not few.rows.size:
            return ()
        C, linear = self._covariance[np.ix_(few.rows, few.rows)], self.found.linear
        weights = np.linalg.solve(C, reach[few.rows])
        heavy = _heaviest_first(np.asarray(weights * np.sqrt(np.diagonal(C))), few.rows)[:NAMED]
        lines = self.rows[few.rows[heavy]]
        published = weights[heavy] * linear.factors[lines]
        return tuple(
            writer.step(int(line), float(weight)) for line, weight in zip(lines, published, strict=True)
        )

    def _together(
        self, column: int, rows: int, weights: FloatArray, risk: float
    ) -> tuple[SeenTogether | None, IndexArray]:
        """The few records whose sum with the target is known best, and the columns of the others."""
        none: tuple[None, IndexArray] = None, np.zeros(0, dtype=np.intp)
        linear, people = self.found.linear, self.found.people
        # Others that a record of a streamed table is seen with may not be held.
        if rows > 1 or linear.columns_of_unit > 1 or self.findings.streamed:
            return none
        full = np.zeros(linear.row_count)
        full[self.rows] = weights
        in_guess = np.where(
            linear.rows_of_unit == 1, linear.units.summed(full)[linear.units.starts[:-1]], -np.inf
        )
        heavy = np.flatnonzero(in_guess >= _HEAVY * in_guess[column])
        heavy = heavy[heavy != column]
        order = np.concatenate([[column], heavy[np.lexsort((heavy, -in_guess[heavy]))]])
        best, best_risk = 0, risk
        members, reach = 0.0, np.zeros(self.rows.size)
        for size in range(1, order.size + 1):
            last = int(order[size - 1])
            members += float(people[last])
            if members > _MOST_TOGETHER:
                break
            reach = reach + people[last] * self._reach(last)
            left = 1 - self._scale * float(reach @ self._solved(reach)) / members
            if members > 1 and left < best_risk * (1 - 1e-6):
                best, best_risk = size, left
        if not best or best_risk <= 0:
            return none
        number = int(people[order[:best]].sum())
        stddev = float(np.sqrt(best_risk * self._scale * number))
        return SeenTogether(others=number - 1, stddev=stddev), order[1:best]


def _heaviest_first(weights: FloatArray, rows: IndexArray) -> IndexArray:
    """The order of some rows by weight; those whose weights differ by rounding alone by their places."""
    size = np.abs(weights)
    return np.lexsort((rows, -np.round(size / np.max(size, initial=np.finfo(float).tiny), 8)))


def _forwards(C: FloatArray, reach: FloatArray, total: float) -> IndexArray:
    """The numbers that carry most, each chosen for what it adds to those before it."""
    diagonal = np.diagonal(C).copy()
    left, open_variance = reach.copy(), diagonal.copy()
    columns = np.zeros((min(MOST_LISTED, reach.size), reach.size))
    chosen: list[int] = []
    gain = 0.0
    for place in range(len(columns)):
        usable = open_variance > ROUNDING * diagonal
        gains = np.where(usable, left**2 / np.where(usable, open_variance, 1.0), 0.0)
        gains[chosen] = 0.0
        best = int(np.argmax(gains >= gains.max() * (1 - ROUNDING)))
        if gains[best] <= 0 or gain >= total * (1 - 1e-9):
            break
        root = np.sqrt(open_variance[best])
        columns[place] = (C[best] - columns[:place].T @ columns[:place, best]) / root
        left -= columns[place] * (left[best] / root)
        open_variance -= columns[place] ** 2
        chosen.append(best)
        gain += float(gains[best])
    return np.array(chosen, dtype=np.intp)
