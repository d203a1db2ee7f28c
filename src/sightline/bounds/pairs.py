r"""Tell one pair: lower ends of a yes or no, and of a category, that others hide.

Let :math:`T_1, \dots, T_M` be disjoint sets of other rows, each with a pattern of values. A set is *active*
if its rows hold the pattern or its opposite: with the chance :math:`q = 2k^{-|T|}` for k values a row (k = 2
for a yes or no). The direction :math:`d_i` changes row j one way and the rows of :math:`T_i` to the opposite
pattern; noise sees it as :math:`g_i = d_i^\top G d_i`. With A active sets and the scalar risk f of a fair
coin

.. math:: \frac{R_j}{v} \ge \mathbb E \sum_{i \text{ active}} \frac{f(g_i)}{1 + A}
    \ge \sum_i \frac{q_i\, f(g_i)}{2 + \sum_{k \ne i} q_k} .

The proof is on the theory page on named records (*Tell one pair*). Sets with a larger f come first; one that
would lower the bound is left out. Two kinds of sets are looked for:

- *one row*, of any kind. In small designs every two kinds are compared. In large ones those that share all
  cells but a few are counted by sorting.
- *three rows* that make a rectangle with row j: two that differ from it in the cells X and Y, and one that
  differs in both. No number changes: :math:`g = 0`, whatever the noise.

A number without noise is one with infinite information: f vanishes where a direction changes it.

**Persons with a few rows.** A pair that moves row i of a person and no other row of theirs shows that the
covariance of the rows is at least :math:`v \rho_i e_i e_i^\top`; by the best mean of these every feature
keeps :math:`1/\sum_i \rho_i^{-1}`.
"""

from __future__ import annotations

import itertools
from dataclasses import field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.arrays import MOST_COMPARED, MOST_LOOKED_AT, ROUNDING, FloatArray, IndexArray, distinct_lines
from sightline.bounds.coin import CoinPrior
from sightline.bounds.lines import FEW_ROWS, MOST_ENTRIES, WIDE
from sightline.bounds.rectangles import MOST_RECTANGLES, groups_without, mixed_keys, rectangles
from sightline.bounds.scalar_risk import two_point_table
from sightline.numerics.residuals import gamma
from sightline.progress import reported
from sightline.units.dense_units import MOST_LISTED
from sightline.units.design import Design, RowNoise
from sightline.units.unit_block import BoolArray, WholeArray
from sightline.units.units import Units
from sightline.values import frozen

_LEAST_RISK = 0.01  # rows of another kind that leave less are not looked for there
_MOST_CROSSED = 100_000  # kinds × pairs of slots of designs in which rectangles are looked for


def with_pairs(design: Design, lower: FloatArray, upper: FloatArray) -> FloatArray:
    """Lower ends of units with one row or a few, improved where brackets are wide."""
    prior, units = design.prior, design.units
    if not len(units) or not np.any(upper > WIDE * lower):
        return lower
    if not isinstance(units, Units):
        if len(units) > MOST_LISTED:
            return lower
        units = units.choose(np.arange(len(units)))
    rows = RowKinds.of(units)
    wide = np.any(upper > WIDE * lower, axis=1)
    single = wide & units.single
    targets = np.flatnonzero(np.bincount(rows.kind[single], minlength=rows.counts.size))
    several = _SeveralRows.of(units, rows, wide & ~units.single)
    least = np.full(rows.counts.size, np.inf)
    np.minimum.at(least, rows.kind[single], lower[single].min(axis=1) / design.noise.share)
    # Of a row that is not of category a tell which category b it has, else a b that is drawn.
    k = prior.categories
    two: list[tuple[int, ...]] = list(itertools.combinations(range(k), 2)) if k > 1 else [(0,)]
    known = least if k == 1 else np.zeros(least.size)
    best, of_rows = np.zeros((rows.counts.size, k)), np.zeros((len(several), k))
    for pair in reported(two, "telling one value from another"):
        groups = design.made.setdefault("groups", {})
        width = prior.target.width if k == 1 else 1.0
        coins = _Coins(
            rows=rows, noise=design.noise, width=width, categories=max(k, 2), two=pair, groups=groups
        )
        values = list(pair)
        if targets.size:
            found = coins.bounds(targets, known[targets])
            found = np.maximum(found, coins.alone(targets)) / (k - 1) if k > 1 else found
            best[targets[:, None], values] += found[:, None]
        if len(several):
            of_rows[:, values] += coins.of_persons(several)[:, None] / max(k - 1, 1)
    found = np.where(units.single[:, None], best[rows.kind], several.least(of_rows, len(units)))
    return np.maximum(lower, np.minimum(found * design.noise.share, upper / WIDE))


@frozen(slots=False)
class _SeveralRows:
    """The different rows of persons with a few rows."""

    unit: IndexArray
    kind: IndexArray  # of row
    times: IndexArray  # how often the person has it

    @classmethod
    def of(cls, units: Units, rows: RowKinds, asked: BoolArray) -> _SeveralRows:
        unit = np.repeat(np.arange(len(units)), np.diff(units.starts) // units.each)
        times = units.times[:: units.each]
        seen = np.any(rows.rows < rows.numbers, axis=(1, 2))[rows.of_row]  # the others keep everything
        few = asked & (np.bincount(unit, times * seen, minlength=len(units)) <= FEW_ROWS)
        chosen = np.flatnonzero(few[unit] & seen)
        if chosen.size * rows.counts.size > MOST_ENTRIES:
            chosen = chosen[:0]
        return cls(unit=unit[chosen], kind=rows.of_row[chosen], times=times[chosen])

    def __len__(self) -> int:
        return self.unit.size

    def own(self, kinds: int) -> FloatArray:
        """Lines × kinds: how many rows of a kind the person has."""
        person = np.unique(self.unit, return_inverse=True)[1].ravel()
        held = np.zeros((int(person.max()) + 1, kinds))
        np.add.at(held, (person, self.kind), self.times)
        return held[person]

    def least(self, of_rows: FloatArray, units: int) -> FloatArray:
        r"""Of every unit :math:`1/\sum_i \rho_i^{-1}`: at most what remains of any feature of the rows."""
        total = np.zeros((units, of_rows.shape[1]))
        np.add.at(total, self.unit, self.times[:, None] / np.maximum(of_rows, 1e-300))
        return np.where(total > 0, 1 / np.maximum(total, 1e-300), 0.0)


@frozen(slots=False)
class RowKinds:
    """The different rows of persons, by their columns: one, or one for each category."""

    rows: WholeArray  # kinds × columns × slots: which number; their count for none
    weights: WholeArray | FloatArray
    counts: FloatArray  # unknown rows of all persons
    numbers: int
    of_row: IndexArray  # the kind of every row of every unit
    kind: IndexArray  # of the first row of every unit

    @classmethod
    def of(cls, units: Units) -> RowKinds:
        each, width = units.each, units.rows.shape[1]
        people = np.repeat(units.people, np.diff(units.starts))[::each] * units.times[::each]
        first = np.arange(len(people))
        kind = first
        if not units.distinct or first.size != len(units):
            kind = units.groups
            first = np.zeros(int(kind.max()) + 1, dtype=np.intp)
            first[kind[::-1]] = np.arange(kind.size)[::-1]
        lines = (first[:, None] * each + np.arange(each)).ravel()
        shape = first.size, each, width
        return cls(
            rows=units.rows[lines].reshape(shape),
            weights=units.weights[lines].reshape(shape),
            counts=np.asarray(np.bincount(kind, people), dtype=np.float64),
            numbers=units.numbers,
            of_row=kind,
            kind=kind[units.starts[:-1] // each],
        )


@frozen(slots=False)
class _Coins:
    """Rows as coins: a yes or no, or two of several categories, of which a row that has neither is told."""

    rows: RowKinds
    noise: RowNoise
    width: float = 1.0
    categories: int = 2
    two: tuple[int, ...] = (0,)  # the columns that tell the two apart
    # Kinds that are equal but for some slots; they depend on the keys alone, which most pairs share.
    groups: dict[frozenset[int] | None, NDArray[Any]] = field(default_factory=dict)

    @property
    def active(self) -> float:
        """The chance that another row is one of the two."""
        return 2 / self.categories

    @cached_property
    def information(self) -> FloatArray:
        """Of every number, over the squared width; infinite without noise; the last is for no number."""
        return np.append(np.where(self.noise.exact, np.inf, self.noise.information), 0.0) * self.width**2

    @cached_property
    def _small(self) -> bool:
        entries = self.rows.numbers * self.rows.counts.size
        return self.rows.counts.size <= MOST_COMPARED and entries <= MOST_ENTRIES

    @cached_property
    def _crossed(self) -> bool:
        """Whether rectangles are looked for."""
        kinds, _, width = self.rows.rows.shape
        few = width > 1 and kinds * width**2 <= 2 * _MOST_CROSSED
        return few and (self._small or not self.noise.shared)

    def bounds(self, targets: IndexArray, known: FloatArray) -> FloatArray:
        """At most the share that remains of a row of each of some kinds, where more may than is known."""
        others = self.rows.counts[targets] - 1
        found = self._alike(targets)
        if self._small:
            own = np.zeros((targets.size, self.rows.counts.size))
            own[np.arange(targets.size), targets] = 1.0
            found = self._compared(targets, known, own)
        elif not self.noise.shared:
            # A bound is below a mean of what rows alike leave, which is known, and of the risks of its sets.
            information = self._sizes(np.arange(self.rows.counts.size))
            apart = (information[targets] + information.min(axis=0)).min(axis=1)
            more = np.flatnonzero(_risk(apart) > np.maximum(known, _LEAST_RISK))
            if more.size:
                found[more] = self._by_sorting(targets[more], information)
        if self._crossed:
            hidden = np.stack([others, np.full(targets.size, float(MOST_RECTANGLES))], axis=1)
            chances = np.array([self.active, 2.0 * self.categories**-3.0])
            chances = np.broadcast_to(chances, hidden.shape)
            some = np.flatnonzero(_best(np.ones_like(hidden), hidden, chances) > np.maximum(known, found))
            if some.size:
                hidden[some, 1] = rectangles(self._keys, self.rows.counts, targets[some])
                best = _best(np.ones((some.size, 2)), hidden[some], chances[some])
                found[some] = np.maximum(found[some], best)
        return found * (1 - 2 * ROUNDING)

    def of_persons(self, several: _SeveralRows) -> FloatArray:
        """The same of rows of persons with several, by pairs that move no other row of the person."""
        alone = self.alone(several.kind)
        if not self._small:
            return alone
        found = self._compared(several.kind, alone, several.own(self.rows.counts.size))
        return np.maximum(alone, found * (1 - 2 * ROUNDING))

    def alone(self, targets: IndexArray) -> FloatArray:
        """The share that remains of a category if all others are known."""
        apart = np.full(targets.size, np.inf)
        if not self.noise.shared:
            apart = self._sizes(targets).sum(axis=1)
        if self._small:
            changed = np.any(self._columns[self.noise.exact][:, targets] != 0, axis=0)
            _, own, error = self._whitened
            apart = np.where(changed | (error >= 1), np.inf, own[targets] / max(1 - error, 1e-300))
        return CoinPrior(share=1 / self.categories).lower_bounds(apart, np.ones(targets.size), False)[0]

    @cached_property
    def _columns(self) -> FloatArray:
        """Numbers × kinds: what changes if a row goes from one of the two to the other."""
        table = np.zeros((self.rows.numbers + 1, self.rows.counts.size))
        line = np.arange(self.rows.counts.size)[:, None]
        for column, sign in zip(self.two, (1.0, -1.0), strict=False):
            rows = self.rows.rows[:, column]
            place = rows, np.broadcast_to(line, rows.shape)
            np.add.at(table, place, sign * self.rows.weights[:, column])
        return table[:-1]

    @cached_property
    def _whitened(self) -> tuple[FloatArray, FloatArray, float]:
        """The Gram matrix of the columns over the noise; its diagonal, rounded up; the error of its forms."""
        A, exact = self._columns * self.width, self.noise.exact
        if not self.noise.shared:
            white = A[~exact] * np.sqrt(self.noise.information[~exact, None])
            gram, error = white.T @ white, 0.0
            sizes = np.diagonal(gram)
        else:
            form = self.noise.precision
            gram, error = A.T @ (form.matrix[:-1, :-1] @ A), form.error
            sizes = (form.root[:-1] @ np.abs(A)) ** 2
        return gram, np.diagonal(gram) + gamma(8 * len(A) + 8) * sizes, error

    def _alike(self, targets: IndexArray, own: FloatArray | float = 1.0) -> FloatArray:
        """Sets of one row of the target's own kind, of which some are not others."""
        others = self.rows.counts[targets] - own
        return np.asarray(others * self.active / (2 + (others - 1) * self.active))

    def _compared(self, targets: IndexArray, known: FloatArray, own_rows: FloatArray) -> FloatArray:
        """Sets of one row of any kind, by how far noise tells them from the target.

        Not in them are targets × kinds of rows of its person.
        """
        gram, own, error = self._whitened
        if not error < 1:
            return np.zeros(targets.size)
        # Of two rows over the noise: |a|² + |b|² − 2ab, here without |a|² of the target.
        rounding = gamma(8 * self.rows.numbers)
        apart = gram[targets]
        apart *= -2
        apart += (1 + rounding) * own
        if self.noise.exact.any():
            group = distinct_lines(self._columns[self.noise.exact].T)[1]
            apart[group[targets, None] != group] = np.inf
        line = np.arange(targets.size)
        apart[line, targets] = np.inf
        nearest = np.maximum(apart.min(axis=1) + (1 + rounding) * own[targets], 0.0) / (1 - error)
        found = self._alike(targets, own_rows[line, targets])
        # A bound is below a mean of what rows alike leave and of the risks of its sets.
        more = np.flatnonzero(_risk(nearest) > np.maximum(known, found))
        if more.size:
            apart, counts = apart[more], self.rows.counts - own_rows[more]
            apart = np.maximum(apart + (1 + rounding) * own[targets[more], None], 0.0) / (1 - error)
            apart[np.arange(more.size), targets[more]] = 0.0
            found[more] = _best(_risk(apart), counts, np.full(counts.shape, self.active))
        return found

    @cached_property
    def _keys(self) -> WholeArray:
        """Kinds × slots: a number that two kinds share iff they are in the same cells of the two columns."""
        columns = list(self.two)
        cells, weights = self.rows.rows[:, columns], self.rows.weights
        if len(columns) == 1 and bool(np.all(weights == 1)):
            return np.asarray(cells[:, 0], dtype=np.int32)
        keys = []
        for slot in range(cells.shape[2]):
            parts = [cells[:, :, slot], weights[:, columns, slot]]
            keys.append(distinct_lines(np.concatenate(parts, axis=1))[1])
        return np.stack(keys, axis=1).astype(np.int32)

    def _sizes(self, kinds: IndexArray) -> FloatArray:
        """Kinds × slots: the information of the cells of a row; the difference of two has no more than both.

        With weights of both signs it has at most twice as much.
        """
        total = np.zeros((kinds.size, self.rows.rows.shape[2]))
        for column in self.two:
            own = self.information[self.rows.rows[kinds, column]]
            weights = self.rows.weights[kinds, column]
            total += np.where(weights == 0, 0.0, own) * weights**2
        return total * self._apart_at_most

    @cached_property
    def _apart_at_most(self) -> float:
        """(x − y)² over x² + y², where two rows differ: 2 if a number may count them with opposite signs."""
        signs = np.zeros((2, self.rows.numbers + 1), dtype=np.bool_)
        rows = [self.rows.rows[:, column] for column in self.two]
        weights = [self.rows.weights[:, column] for column in self.two]
        for place, (own, weight) in enumerate(zip(rows, weights, strict=True)):
            # What a number counts of both categories cancels.
            other = rows[1 - place] if len(rows) == 2 else own[:, :0]
            alone = ~np.any(own[:, :, None] == other[:, None, :], axis=2)
            for sign in (1.0, -1.0):
                there = np.broadcast_to((weight * sign > 0) & alone, own.shape)
                signs[int((sign < 0) != (place == 1)), own[there]] = True
        return 2.0 if np.any(signs[:, :-1].all(axis=0)) else 1.0

    def _by_sorting(self, targets: IndexArray, information: FloatArray) -> FloatArray:
        """Sets of one row that differs from the target in some slots exactly, counted by sorting."""
        keys, counts = self._keys, self.rows.counts
        agreeing: dict[frozenset[int], FloatArray] = {frozenset(): counts[targets]}
        risks, numbers = [np.ones(targets.size)], [counts[targets] - 1]
        mixed = mixed_keys(keys)
        many = len(self.groups) * len(keys) > 2 * MOST_LOOKED_AT
        if many or not np.array_equal(self.groups.get(None, ()), keys):
            self.groups.clear()
            self.groups[None] = keys
        for different in self._different_slots(information):
            if different not in self.groups:
                self.groups[different] = groups_without(keys, mixed, different)
            group = self.groups[different]
            agreeing[different] = np.asarray(np.bincount(group, counts)[group[targets]], dtype=np.float64)
            if not np.any(agreeing[different] > counts[targets]):
                continue
            # All but those that differ in fewer slots: sets of one slot come first.
            fewer = [one for one in agreeing if one < different]
            exactly = agreeing[different] + sum(
                (-1.0) ** (len(different) - len(one)) * agreeing[one] for one in fewer
            )
            apart = np.zeros(targets.size)
            for slot in different:
                apart += information[targets, slot] + _largest(group, information[:, slot])[group[targets]]
            risks.append(_risk(apart * (1 + ROUNDING)))
            numbers.append(exactly)
        shape = targets.size, len(risks)
        return _best(np.stack(risks, axis=1), np.stack(numbers, axis=1), np.full(shape, self.active))

    def _different_slots(self, information: FloatArray) -> list[frozenset[int]]:
        """Sets of slots in which rows may differ: each by itself, and the pairs that serve a sample best."""
        keys = self._keys
        kinds, width = keys.shape
        single = [frozenset((slot,)) for slot in range(width)]
        left = MOST_LOOKED_AT // kinds - width
        if left < 0:
            return single[: left + width]
        generator = np.random.default_rng(2)
        some, others = (keys[generator.integers(0, kinds, MOST_COMPARED)] for _ in range(2))
        differs = (some[:, None] != others).reshape(-1, width)
        differs = differs[differs.sum(axis=1) == 2]
        pairs, met = np.unique(differs, axis=0, return_counts=True)
        served = met * _risk(2 * pairs @ np.median(information, axis=0))
        best = pairs[np.argsort(-served, kind="stable")][:left]
        return single + [frozenset(np.flatnonzero(pair).tolist()) for pair in best]


def _risk(information: FloatArray) -> FloatArray:
    """f over its value without information: of a fair coin."""
    finite = np.isfinite(information)
    return np.where(finite, 4 * two_point_table().lower(np.where(finite, information, 0.0)), 0.0)


def _best(risks: FloatArray, counts: FloatArray, chances: FloatArray) -> FloatArray:
    r"""The bound for lines of sets: so many of each risk and chance, of which those with large risks serve.

    >>> round(float(_best(np.ones((1, 1)), np.array([[3.0]]), np.ones((1, 1)))[0]), 6)  # four alike
    0.75
    """
    order = np.argsort(-risks, axis=1, kind="stable")
    risks, counts, chances = (np.take_along_axis(one, order, axis=1) for one in (risks, counts, chances))
    chances = np.where(counts > 0, chances, 1.0)
    expected = np.cumsum(counts * chances, axis=1)
    told = np.cumsum(counts * chances * risks, axis=1)
    bounds = told / (2 + expected - np.minimum.accumulate(chances, axis=1))
    return np.asarray(bounds.max(axis=1, initial=0.0))


def _largest(group: IndexArray, values: FloatArray) -> FloatArray:
    """The largest value in every group."""
    most = np.zeros(int(group.max()) + 1)
    if np.ptp(values) == 0:
        return np.asarray(most + values[0])
    np.maximum.at(most, group, values)
    return most
