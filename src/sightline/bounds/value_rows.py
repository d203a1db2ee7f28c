"""The rows of a design that have few values each: their kinds, what each value adds to the numbers, and which
rows a chain of numbers connects.

A yes or no has two values, of which the first adds nothing; a category has one for each. Rows that no chain
of numbers connects say nothing about each other: whatever is said of a row depends on its component alone.
"""

from __future__ import annotations

import itertools
import math
from functools import cached_property

import numpy as np
import scipy
from scipy import sparse

from sightline.arrays import ROUNDING, FloatArray, IndexArray, distinct_lines
from sightline.bounds.alone import PrivacyLosses
from sightline.bounds.coin import CoinPrior
from sightline.bounds.priors import TwoPointPrior
from sightline.numerics.residuals import gamma
from sightline.units.design import Design
from sightline.units.row_noise import RowNoise
from sightline.units.target import UnitPrior
from sightline.units.unit_block import BoolArray, WholeArray
from sightline.units.units import Units
from sightline.values import frozen

_MOST_COPIES = 8  # answers that a row is the mean of, and that are drawn one by one
GAUSSIAN, LAPLACE, GEOMETRIC, EXACT, OTHER = range(5)  # laws of answers


def chances_of(prior: UnitPrior) -> FloatArray:
    """Of the values of one row; none where a row has more than few."""
    if prior.categories > 1:
        return np.full(prior.categories, 1 / prior.categories)
    match prior.target:
        case TwoPointPrior():
            return np.array([0.5, 0.5])
        case CoinPrior(share=share):
            return np.array([1 - share, share])
        case _:
            return np.zeros(0)


@frozen(slots=False)
class ValueRows:
    """The different rows of all persons, by their columns."""

    rows: WholeArray  # kinds × columns × slots: which number; their count for none
    weights: FloatArray  # of the same shape, times the width of a yes or no
    counts: FloatArray  # unknown rows of each kind, of all persons
    chances: FloatArray  # of the values
    noise: RowNoise
    unit: IndexArray  # of every row of a person, or rows alike
    kind: IndexArray
    times: IndexArray  # how many rows alike the person has

    @classmethod
    def of(cls, design: Design, units: Units) -> ValueRows:
        each, slots = units.each, units.rows.shape[1]
        people = np.repeat(units.people, np.diff(units.starts))[::each] * units.times[::each]
        kind = units.groups
        first = np.zeros(int(kind.max(initial=-1)) + 1, dtype=np.intp)
        first[kind[::-1]] = np.arange(kind.size)[::-1]
        # By their numbers and weights: searches that look at the nearest kinds break ties by this order, and
        # that of the plan's releases must not matter.
        lines = (first[:, None] * each + np.arange(each)).ravel()
        shape = first.size, each, slots
        content = [units.weights[lines].reshape(first.size, -1), units.rows[lines].reshape(first.size, -1)]
        order = np.lexsort(np.concatenate(content, axis=1).T[::-1])
        first, kind = first[order], np.argsort(order)[kind]
        lines = (first[:, None] * each + np.arange(each)).ravel()
        width = design.prior.target.width if design.prior.categories == 1 else 1.0
        return cls(
            rows=units.rows[lines].reshape(shape),
            weights=units.weights[lines].reshape(shape) * width,
            counts=np.asarray(np.bincount(kind, people), dtype=np.float64),
            chances=chances_of(design.prior),
            noise=design.noise,
            unit=np.repeat(np.arange(len(units)), np.diff(units.starts) // each),
            kind=kind,
            times=units.times[::each],
        )

    @property
    def numbers(self) -> int:
        """How many numbers are published."""
        return self.noise.information.size

    @cached_property
    def component(self) -> IndexArray:
        """Of every kind: kinds that a chain of numbers connects have the same."""
        # A person connects their rows: what is asked is the feature of all of them that is seen best.
        return self._connected(self.kind, self.numbers + self.unit)

    @cached_property
    def by_numbers(self) -> IndexArray:
        """The same of kinds that numbers alone connect, whoever has the rows: answers about others tell
        nothing of them, so that what is left of a person's rows is the least of what is left in each.
        """
        nothing = np.zeros(0, dtype=np.intp)
        return self._connected(nothing, nothing)

    def _connected(self, kinds: IndexArray, joined_by: IndexArray) -> IndexArray:
        """Components of kinds by their numbers, and by whatever else joins some of them."""
        count = self.counts.size
        line = np.repeat(np.arange(count), self.rows[0].size)
        number = self.rows.reshape(-1).astype(np.intp)
        inside = (number < self.numbers) & (self.weights.reshape(-1) != 0)
        first = np.concatenate([line[inside], kinds])
        second = count + np.concatenate([number[inside], joined_by])
        size = max(count, int(second.max(initial=0)) + 1)
        if self.noise.shared:  # noise connects numbers, too
            return np.zeros(count, dtype=np.intp)
        graph = sparse.coo_array((np.ones(first.size), (first, second)), shape=(size, size))
        component = sparse.csgraph.connected_components(graph, directed=False)[1][:count]
        return np.asarray(np.unique(component, return_inverse=True)[1], dtype=np.intp)

    def columns(self, kinds: IndexArray) -> tuple[FloatArray, IndexArray]:
        """Kinds × values × numbers of some kinds: what a row adds; and which numbers those are.

        Of noise that numbers share these are all numbers.
        """
        rows = self.rows[kinds]
        used = np.unique(rows)
        used = np.arange(self.numbers) if self.noise.shared else used[used < self.numbers]
        position = np.full(self.numbers + 1, used.size)
        position[used] = np.arange(used.size)
        table = np.zeros((kinds.size, self.chances.size, used.size + 1))
        line = np.arange(kinds.size)[:, None]
        first = self.chances.size - rows.shape[1]  # a yes or no has the columns 0 and a
        for column in range(rows.shape[1]):
            np.add.at(
                table[:, first + column], (line, position[rows[:, column]]), self.weights[kinds, column]
            )
        return table[:, :, :-1], used

    def key_of(self, kinds: IndexArray) -> bytes:
        """What components that are alike have in common, whatever numbers they are about."""
        table, used = self.columns(kinds)
        noise = self.noise
        parts = (noise.information, noise.variance, noise.laplace, noise.exact)
        named = b"".join(np.ascontiguousarray(part[used]).tobytes() for part in parts)
        return str(table.shape).encode() + table.tobytes() + self.counts[kinds].tobytes() + named

    def persons(self, most: int) -> tuple[IndexArray, IndexArray, IndexArray]:
        """The different lists of rows of persons with up to so many kinds of rows: kinds and times, filled
        with -1 and 0; and the list of every unit, -1 where it is longer. Rows in no number are left out.
        """
        units = int(self.unit.max(initial=-1)) + 1
        seen = np.any(self.rows < self.numbers, axis=(1, 2))[self.kind]
        sizes = np.bincount(self.unit[seen], minlength=units)
        listed = np.flatnonzero((sizes > 0) & (sizes <= most))
        width = int(sizes[listed].max(initial=1))
        line = np.full(units, -1)
        line[listed] = np.arange(listed.size)
        chosen = np.flatnonzero(seen & (line[self.unit] >= 0))
        chosen = chosen[np.lexsort((self.kind[chosen], self.unit[chosen]))]
        lengths = sizes[listed]
        slot = np.arange(chosen.size) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        lists = np.full((listed.size, 2 * width), -1, dtype=np.intp)
        lists[:, width:] = 0
        lists[line[self.unit[chosen]], slot] = self.kind[chosen]
        lists[line[self.unit[chosen]], width + slot] = self.times[chosen]
        person = np.full(units, -1)
        if not listed.size:
            return lists[:, :width], lists[:, width:], person
        first, group = distinct_lines(lists)
        person[listed] = group
        return lists[first, :width], lists[first, width:], person

    def answers(self, kinds: IndexArray) -> tuple[FloatArray, IndexArray]:
        """Kinds × values × answers: what a row adds over the scale of the noise; and the law of every answer.
        Numbers without noise, and those of another law, are in units of their own.
        """
        table, scale, law = self.answers_and_scales(kinds)
        return table * scale, law

    def answers_and_scales(self, kinds: IndexArray) -> tuple[FloatArray, FloatArray, IndexArray]:
        """The same in the units of the numbers, and one over the scale of each answer's noise.

        The mean of n Laplace answers is n of them, and so of geometric ones, whose scale is 1/b. Noise that
        numbers share is white in combinations of them.
        """
        table, used = self.columns(kinds)
        noise = self.noise
        # Rounded up, as the information of all numbers is: it hides no less than it is taken for.
        larger = math.sqrt(1 + noise.error + gamma(8 * used.size + 8))
        if noise.shared:
            lines = noise.white(table.reshape(-1, used.size).T).T
            white = lines.reshape(*table.shape[:2], -1)
            return white, np.full(white.shape[2], larger), np.full(white.shape[2], GAUSSIAN)
        law = self.laws[used]
        copies = np.where(law == LAPLACE, noise.laplace[used], 1.0)
        copies = np.where(law == GEOMETRIC, noise.laplace[used] / 2, copies)
        fraction = (law == GEOMETRIC) & np.any(table != np.rint(table), axis=(0, 1))
        law = np.where(fraction | (copies > _MOST_COPIES), OTHER, law)
        law = np.where(noise.exact[used], EXACT, law)
        copies = np.where((law == LAPLACE) | (law == GEOMETRIC), copies, 1).astype(np.intp)
        scale = np.where(law >= EXACT, 1.0, np.sqrt(noise.information[used] / copies) * larger)
        scale = np.where(law == GEOMETRIC, self.loss_of_a_step[used], scale)
        each = np.repeat(np.arange(used.size), copies)
        return table[:, :, each], scale[each], law[each]

    @cached_property
    def laws(self) -> IndexArray:
        """Of every number, with however many copies: of one without noise as if it had some."""
        # Of n Laplace answers the squared loss is n times the information; of geometric ones half as much.
        noise, pure = self.noise, self.noise.laplace > 0
        loss = np.where(pure, noise.loss, 0.0) ** 2
        apart = np.where(pure, noise.laplace * noise.information, 1.0)
        whole = noise.laplace == np.rint(noise.laplace)
        plain = whole & (np.abs(loss - apart) <= 1e-6 * loss)
        geometric = whole & (noise.laplace % 2 == 0) & (np.abs(2 * loss - apart) <= 1e-6 * loss)
        of_pure = np.where(plain, LAPLACE, np.where(geometric, GEOMETRIC, OTHER))
        return np.asarray(np.where(pure, of_pure, GAUSSIAN))

    @cached_property
    def loss_of_a_step(self) -> FloatArray:
        r"""Of every number with geometric noise at least 1/b: how far one answer's loss is from that of the
        next whole number.

        Its information is that of m with :math:`m = \max\{1/b, 2 \Phi^{-1}(q)\}`, :math:`q = 1/(1 +
        e^{-1/b})`. Beside weights with a common factor c it is c m, where the least of both inverses is at
        least c/b: the second one is convex. (What has noise on a lattice is whole, so that c is 1 or more.)
        """
        m = np.where(self.laws == GEOMETRIC, self.noise.loss / np.maximum(self.noise.laplace / 2, 1), 0.0)
        m = m * (1 + ROUNDING)
        return np.asarray(np.minimum(m, scipy.special.log_ndtr(m / 2) - scipy.special.log_ndtr(-m / 2)))

    def losses(self, kind: int) -> dict[tuple[int, int], PrivacyLosses] | None:
        """What tells every two values of a row of a kind apart, if noise is not Gaussian noise alone; None
        where it is, or where a number without noise tells some apart.
        """
        table, used = self.columns(np.array([kind]))
        noise, law = self.noise, self.laws[used]
        if noise.shared or np.all(law == GAUSSIAN) or np.ptp(table[0][:, noise.exact[used]], axis=0).any():
            return None
        larger = 1 + noise.error + gamma(8 * used.size + 8)
        pairs = {}
        for a, b in itertools.combinations(range(self.chances.size), 2):
            away = np.abs(table[0, b] - table[0, a])
            laplace, geometric, pure = list[float](), list[tuple[float, float]](), list[float]()
            for place in np.flatnonzero((away > 0) & (law != GAUSSIAN) & ~noise.exact[used]).tolist():
                number, distance = used[place], float(away[place])
                copies, loss = round(noise.laplace[number]), float(noise.loss[number]) * larger * distance
                step = float(self.loss_of_a_step[number])
                if law[place] == LAPLACE:
                    laplace += [loss / copies] * copies
                elif law[place] == GEOMETRIC and distance == round(distance):
                    geometric += [(step * distance, step)] * (copies // 2)
                else:
                    pure.append(loss)
            gaussian = (law == GAUSSIAN) & ~noise.exact[used]
            information = float(np.sum(noise.information[used][gaussian] * away[gaussian] ** 2)) * larger
            pairs[a, b] = PrivacyLosses(
                information=information,
                laplace=tuple(sorted(laplace)),
                geometric=tuple(sorted(geometric)),
                pure=tuple(sorted(pure)),
            )
        return pairs

    def drawn(self, kinds: IndexArray) -> tuple[FloatArray, IndexArray, FloatArray, BoolArray]:
        """For simulations. The same answers and their laws; of geometric noise the loss of a step, else 0;
        and the kinds that are in no number of another law. Without noise only whole numbers are drawn.
        """
        table, scale, law = self.answers_and_scales(kinds)
        table = table * scale
        fraction = np.any(table != np.rint(table), axis=(0, 1))
        other = (law == OTHER) | ((law == EXACT) & fraction)
        movable = np.all(np.ptp(table[:, :, other], axis=1) == 0, axis=1)
        kept = ~other
        return table[:, :, kept], law[kept], np.where(law == GEOMETRIC, scale, 0.0)[kept], movable

    def sharing(self, own: IndexArray, kinds: IndexArray, most: int) -> IndexArray:
        """Of some kinds those that share most information with others: up to so many."""
        information = np.append(np.where(self.noise.exact, 0.0, self.noise.information), 0.0)
        weights = np.zeros(self.numbers + 1)
        np.add.at(weights, self.rows[own].ravel(), np.abs(self.weights[own]).ravel())
        weights *= information
        score = (weights[self.rows[kinds]] * np.abs(self.weights[kinds])).sum(axis=(1, 2))
        order = np.argsort(-score, kind="stable")[:most]
        return np.asarray(kinds[order[score[order] > 0]])
