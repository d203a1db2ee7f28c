r"""Small groups of rows with few values each: all their worlds are listed.

Rows that no chain of numbers connects say nothing about each other. A component of n rows with k values each
has :math:`k^n` worlds. Where these are few, two bounds and a simulation use all of them.

**A fractional matching.** Weights :math:`w_e` on pairs of worlds, with and without the asked value of row j,
that use no world by more than its chance; worlds without the value count :math:`1/(k - 1)` as much. Tell the
pair: :math:`R_j/v \ge \frac{k}{k - 1} \sum_e w_e f(g_e)`. Pairs are taken in the order of how far the noise
tells them apart, those that differ in few rows alone.

**The exact answers.** Tell them: what is left is the variance within the worlds that have the same.

**Persons with a few rows.** What is left of the sharpest feature is the least eigenvalue of the covariance
matrix of the rows. The second bound and the simulation give the matrix. A matching for row i that moves no
other row of the person shows that it is at least :math:`\rho_i e_i e_i^\top`, and so every mean of these: the
least eigenvalue is at least :math:`1/\sum_i \rho_i^{-1}`.

**The risk itself**, for independent Gaussian and Laplace noise: the mean over drawn answers of the posterior
variance, which is computed from all states: how many rows of each kind have each value. Rows of a kind are
alike, so that a state stands for all its worlds; and states with the same exact numbers are one to noise. The
risk lies between the mean less and plus a margin that is wrong with a chance below :data:`WRONG` (empirical
Bernstein: A. Maurer and M. Pontil, 2009). Of several rows the least eigenvalue of the mean matrix is at most
its value at the true sharpest feature, which is one number, whatever it is: Bernstein's margin for one number
below, with a variance of at most the range times the mean. The draws have a fixed seed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from sightline.arrays import LARGEST, ROUNDING, FloatArray, IndexArray, distinct_lines
from sightline.bounds.coin import LEAST_MASS, CoinPrior, risk_between
from sightline.bounds.lines import FEW_ROWS, WIDE
from sightline.bounds.pairs import RowKinds
from sightline.bounds.scalar_risk import two_point_table
from sightline.numerics.residuals import gamma
from sightline.units.dense_units import MOST_LISTED
from sightline.units.design import Design, RowNoise
from sightline.units.unit_block import BoolArray
from sightline.units.units import Units
from sightline.values import frozen

Block = tuple[int, ...]  # the kind of every row of a unit
Places = list[int]  # rows of a component
Ends = tuple[FloatArray, FloatArray]  # from below and from above, of every value that is asked
WRONG = 5e-11  # the chance that a simulated margin is too small, for all of a design; walks have as much
# Rows of components, and worlds of those that are matched, or states of those whose answers are drawn.
_MOST_MEMBERS, _MOST_STATES = 64, 1 << 16
# Pairs of worlds that are compared in a design, and different answers × draws: each takes about 0.1 s.
_MOST_PAIRED, _MOST_DRAWN = 2e7, 8.2e6
_MOST_DRAWS = 20_000
_MOST_MOVED = (0, 3, 2)  # other rows in which two worlds differ, for one, two, and more values a row


def with_small_worlds(design: Design, lower: FloatArray, upper: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Both ends of units, improved where all their rows are in components with few worlds."""
    units = design.units
    if not 0 < len(units) <= MOST_LISTED or design.noise.shared:
        return lower, upper
    if not isinstance(units, Units):
        units = units.choose(np.arange(len(units)))
    listed = _Listed.of(RowKinds.of(units), design)
    small = np.logical_and.reduceat(listed.small[listed.rows.of_row], units.starts[:-1] // units.each)
    wide = np.flatnonzero(np.any(upper > WIDE * lower, axis=1) & small)
    blocks = {unit: block for unit in wide.tolist() if (block := listed.block(units, unit))}
    if not blocks:
        return lower, upper
    lower, upper = lower.copy(), upper.copy()
    share, found = design.noise.share, listed.found(set(blocks.values()))
    for unit, block in blocks.items():
        low, high = found[block]
        upper[unit] = np.minimum(upper[unit], high)
        lower[unit] = np.minimum(np.maximum(lower[unit], low * share), upper[unit])
    return lower, upper


@frozen(slots=False)
class _Listed:
    """The components of a design."""

    rows: RowKinds
    design: Design
    component: IndexArray  # of every kind of row

    @classmethod
    def of(cls, rows: RowKinds, design: Design) -> _Listed:
        kinds = rows.counts.size
        line = np.repeat(np.arange(kinds), rows.rows[0].size)
        number = rows.rows.reshape(-1).astype(np.intp)
        inside = number < rows.numbers
        edges = line[inside], kinds + number[inside]
        size = kinds + rows.numbers
        graph = sparse.coo_array((np.ones(edges[0].size), edges), shape=(size, size))
        component = sparse.csgraph.connected_components(graph, directed=False)[1]
        return cls(rows=rows, design=design, component=component[:kinds])

    @property
    def values(self) -> int:
        """k: of one row."""
        return max(2, self.design.prior.categories)

    @cached_property
    def seen(self) -> BoolArray:
        """Kinds of rows that are in some number."""
        return np.asarray(np.any(self.rows.rows < self.rows.numbers, axis=(1, 2)))

    @cached_property
    def small(self) -> BoolArray:
        """Kinds of rows in no number, or in components with few worlds, or few rows and states."""
        counts, k = self.rows.counts, self.values
        people = np.bincount(self.component, counts)
        logs, number = _log_factorials(_MOST_MEMBERS + k), np.minimum(counts, _MOST_MEMBERS).astype(np.intp)
        ways = logs[number + k - 1] - logs[k - 1] - logs[number]
        states = np.bincount(self.component, ways)
        few = people * math.log(k) <= math.log(_MOST_STATES) + 1e-9
        few |= (people <= _MOST_MEMBERS) & (states <= math.log(_MOST_STATES) + 1e-9)
        return np.asarray(few[self.component] | ~self.seen)

    def block(self, units: Units, unit: int) -> Block:
        """The kinds of a unit's rows that are in some number; none where there are many."""
        own = slice(*(units.starts[unit : unit + 2] // units.each))
        kinds, times = self.rows.of_row[own], units.times[:: units.each][own]
        kinds, times = kinds[self.seen[kinds]], times[self.seen[kinds]]
        if times.sum() > FEW_ROWS:
            return ()
        return tuple(np.sort(np.repeat(kinds, times)).tolist())

    def found(self, blocks: set[Block]) -> dict[Block, Ends]:
        """Both ends of some units, as far as the work goes; equal components are looked at once.

        Rows in different components are independent: the sharpest feature is one of a single component.
        """
        parts = {block: self._parts(block) for block in blocks}
        wanted: dict[int, set[Block]] = {}
        for part in {part for own in parts.values() for part in own}:
            wanted.setdefault(int(self.component[part[0]]), set()).add(part)
        worlds = {component: self._worlds(component) for component in sorted(wanted)}
        total = len({one.key for one, _ in worlds.values()})
        work = [_MOST_PAIRED / total, _MOST_DRAWN / total]
        known: dict[bytes, list[Ends]] = {}
        ends: dict[Block, Ends] = {}
        for component, (one, members) in worlds.items():
            asked = sorted(wanted[component])
            targets = [_places(members, part) for part in asked]
            key = one.key + repr(targets).encode()
            if key not in known:
                low = one.matched(targets, work[0])
                drawn = one.drawn(targets, work[1], WRONG / total)
                known[key] = [(np.maximum(a, b), c) for a, (b, c) in zip(low, drawn, strict=True)]
            ends |= dict(zip(asked, known[key], strict=True))
        return {
            block: tuple(np.min([ends[part][side] for part in own], axis=0) for side in (0, 1))
            for block, own in parts.items()
        }

    def _parts(self, block: Block) -> list[Block]:
        """The rows of a unit in each component."""
        component = self.component[list(block)]
        return [tuple(np.array(block)[component == one].tolist()) for one in np.unique(component)]

    def _worlds(self, component: int) -> tuple[_Worlds, IndexArray]:
        """The worlds of a component, and the kind of each of its rows."""
        rows, noise, k = self.rows, self.design.noise, self.values
        own = np.flatnonzero(self.component == component)
        members = np.repeat(own, rows.counts[own].astype(np.intp))
        used = np.unique(rows.rows[own])
        used = used[used < rows.numbers]
        table = np.zeros((members.size, k, rows.numbers + 1))
        line = np.arange(members.size)[:, None]
        for column in range(rows.rows.shape[1]):
            value = column if k == rows.rows.shape[1] else 1  # a yes or no has the columns 0 and a
            np.add.at(table[:, value], (line, rows.rows[members, column]), rows.weights[members, column])
        width = self.design.prior.target.width if k == 2 else 1.0
        return _Worlds(table=table[:, :, used] * width, noise=noise.take(used)), members


@frozen(slots=False)
class _Worlds:
    """All worlds of rows with a few values each."""

    table: FloatArray  # rows × values × numbers: what a row adds to every number
    noise: RowNoise

    @property
    def key(self) -> bytes:
        """What worlds that are alike have in common."""
        noise = self.noise
        parts = (self.table, noise.information, noise.variance, noise.laplace, noise.exact)
        return bytes(str(self.table.shape), "ascii") + b"".join(part.tobytes() for part in parts)

    @property
    def shape(self) -> tuple[int, ...]:
        """The values of one row after the other."""
        return (self.table.shape[1],) * len(self.table)

    @cached_property
    def worlds(self) -> int:
        """How many there are."""
        return math.prod(self.shape)

    @cached_property
    def kinds(self) -> tuple[IndexArray, IndexArray]:
        """The first row of each kind of equal rows, and the kind of every row."""
        return distinct_lines(self.table.reshape(len(self.table), -1))

    @cached_property
    def states(self) -> tuple[FloatArray, FloatArray, list[FloatArray]]:
        """The exact numbers of every state, its chance, and how many of each kind hold what.

        A state says how many rows of each kind have each value.
        """
        k, (first, kind) = self.table.shape[1], self.kinds
        total, chance = np.zeros((1, self.table.shape[2])), np.zeros(1)
        held: list[FloatArray] = []
        logs = _log_factorials(len(self.table))
        for row, number in zip(first, np.bincount(kind), strict=True):
            ways = _ways(int(number), k)
            own = logs[number] - logs[ways].sum(axis=1) - number * math.log(k)
            total = (total[:, None, :] + ways @ self.table[row]).reshape(-1, total.shape[1])
            held = [np.repeat(one, len(ways), axis=0) for one in held] + [np.tile(ways, (len(chance), 1))]
            chance = (chance[:, None] + own).ravel()
        return total, np.exp(chance), held

    @cached_property
    def told(self) -> tuple[FloatArray, FloatArray, Callable[[FloatArray], FloatArray]]:
        """The different numbers of all states, their chances, and the mean over the states that have them."""
        total, chance, _ = self.states
        first, place = distinct_lines(total)
        chances = np.asarray(np.bincount(place, chance), dtype=np.float64)

        def mean(values: FloatArray) -> FloatArray:
            return np.stack([np.bincount(place, chance * one) for one in values.T]) / chances

        return total[first], chances, mean

    @cached_property
    def answers(self) -> FloatArray:
        """Of every world the exact numbers."""
        total = np.zeros((1, self.table.shape[2]))
        for row in self.table:
            total = (total[:, None, :] + row).reshape(-1, self.table.shape[2])
        return total

    def value(self, row: int) -> IndexArray:
        """Of every world the value of a row."""
        return np.unravel_index(np.arange(len(self.answers)), self.shape)[row]

    def matched(self, targets: list[Places], work: float) -> list[FloatArray]:
        """The larger of the first two bounds, for every value of some rows; of a yes or no for one."""
        k = self.table.shape[1]
        directions = int(work / (sum(map(len, targets)) * k * self.worlds))
        found = []
        asked = range(k if k > 2 else 1)
        if self.worlds > _MOST_STATES:
            return [np.zeros(len(asked)) for _ in targets]
        for rows in targets:
            best = self._exactly(rows)[: len(asked)]
            if directions:
                each = np.array([[self._matching(row, a, directions, rows) for a in asked] for row in rows])
                best = np.maximum(best, 1 / np.sum(1 / np.maximum(each, 1e-300), axis=0))
            found.append(best * (1 - 2 * ROUNDING))
        return found

    @cached_property
    def _alike(self) -> IndexArray | None:
        """Worlds of equal answers have one number; none where sums would be rounded."""
        largest = float(np.abs(self.answers).max(initial=0.0))
        if not (np.all(self.table == np.rint(self.table)) and largest < 2**52):
            return None
        return np.unique(self.answers, axis=0, return_inverse=True)[1].ravel()

    def _exactly(self, rows: Places) -> FloatArray:
        """What exact answers leave of every value of some rows, in the feature that is seen best."""
        k, group = self.table.shape[1], self._alike
        if group is None:
            return np.zeros(k)
        chances, left = np.bincount(group) / len(group), np.zeros((k, len(rows), len(rows)))
        for a in range(k):
            held = [self.value(row) == a for row in rows]
            met = np.array([np.bincount(group[own], minlength=chances.size) for own in held]) / len(group)
            both = np.array([[np.mean(one & other) for other in held] for one in held])
            left[a] = both - (met / chances) @ met.T
        return np.asarray(np.linalg.eigvalsh(left)[:, 0] * k**2 / (k - 1))

    def _matching(self, row: int, asked: int, most: int, still: Places) -> float:
        """The bound of a greedy matching that moves one of some rows, and others."""
        k, total = int(self.table.shape[1]), 0.0
        left = np.full(self.shape, 1.0 / len(self.answers))
        left[(slice(None),) * row + (asked,)] *= k - 1
        moves, risks = self._directions(row, asked, most, still)
        for move, risk in zip(moves, risks.tolist(), strict=True):
            start, end = ([slice(None)] * len(self.table) for _ in range(2))
            for place, before, after in move:
                start[place], end[place] = before, after
            first, second = left[tuple(start)], left[tuple(end)]
            weight = np.minimum(first, second)
            total += float(weight.sum()) * risk
            left[tuple(start)] = first - weight
            left[tuple(end)] = second - weight
        return total * k / (k - 1)

    def _directions(
        self, row: int, asked: int, most: int, still: Places
    ) -> tuple[list[tuple[Any, ...]], FloatArray]:
        """Changes of a row's value with changes of others, by what noise leaves of a coin between the two."""
        k, changes = self.table.shape[1], self._changes
        own = [(row, asked, b) for b in range(k) if b != asked]
        others = [change for change in changes if change[0] not in still]
        sizes = np.array([changes[change] for change in others]).reshape(len(others), self.table.shape[2])
        moves: list[tuple[Any, ...]] = []
        apart: list[FloatArray] = []
        shifts: list[FloatArray] = []
        for number in range(_MOST_MOVED[min(k, 3) - 1] + 1):
            places = [
                combination
                for combination in itertools.combinations(range(len(others)), number)
                if len({others[place][0] for place in combination}) == number
            ]
            chosen = np.array(places, dtype=np.intp).reshape(len(places), number)
            total = sizes[chosen].sum(axis=1) if number else np.zeros((1, sizes.shape[1]))
            for change in own:
                apart.append(self._information(total + changes[change]))
                shifts.append(total + changes[change])
                moves += [(change, *(others[place] for place in combination)) for combination in places]
        information = np.concatenate(apart)
        near = np.argsort(information, kind="stable")[:most]
        totals = np.concatenate(shifts)[near]
        seen = np.minimum(information[near], 1e6)
        if k == 2:
            risks = 4 * two_point_table().lower(seen)
        else:
            risks = CoinPrior(share=1 / k).lower_bounds(seen, np.ones(near.size), False)[0]
        if self.noise.laplace.any():  # answers far apart tell much less than their information says
            noise = np.where(self.noise.exact, 0.0, self.noise.information)
            apart_by = np.abs(totals) * np.sqrt(noise)
            risks = np.maximum(risks, risk_between(apart_by, self.noise.laplace == 1, 1 / k) * (1 - 1e-9))
        risks = np.where(np.isfinite(information[near]), risks, 0.0)
        order = np.argsort(-risks, kind="stable")
        order = order[risks[order] > LEAST_MASS]
        return [moves[place] for place in near[order].tolist()], risks[order]

    @cached_property
    def _changes(self) -> dict[tuple[int, int, int], FloatArray]:
        """What every change of one row's value adds to the numbers."""
        rows, k = self.table.shape[:2]
        pairs = itertools.permutations(range(k), 2)
        return {(r, a, b): self.table[r, b] - self.table[r, a] for a, b in pairs for r in range(rows)}

    def _information(self, change: FloatArray) -> FloatArray:
        noise = np.where(self.noise.exact, 0.0, self.noise.information)
        seen = change**2 @ noise * (1 + gamma(4 * noise.size + 8))
        return np.where(np.any(change[:, self.noise.exact] != 0, axis=1), np.inf, seen)

    def drawn(self, targets: list[Places], work: float, wrong: float) -> list[Ends]:
        """What is left of every value of some rows, in the feature that is seen best, by simulation."""
        k = self.table.shape[1]
        asked = k if k > 2 else 1
        counts, kind, (answers, _, met) = self.states[2], self.kinds[1], self.told
        draws = min(_MOST_DRAWS, int(work / len(answers)))
        laws = np.all(self.noise.laplace <= 1) and self.noise.share == 1
        exactly = self.table[:, :, self.noise.exact]
        laws = laws and bool(np.all(exactly == np.rint(exactly)))  # equal sums are equal numbers
        # One margin for every entry of the covariance of every value of some rows, from both sides; and one
        # for the least feature from below. Of few draws it is larger than what is asked for.
        level = math.log(6 * asked * sum(len(rows) ** 2 for rows in targets) / wrong)
        if 3 * (draws - 1) <= 7 * level or not laws:
            return [(np.zeros(asked), np.ones(asked))] * len(targets)
        number = np.bincount(kind)
        held = [counts[own][:, :asked] / number[own] for own in kind]  # states × values
        means = {own: met(held[own]) for rows in targets for own in rows}
        both_of: dict[tuple[int, int], FloatArray] = {}
        for one, other in {pair for rows in targets for pair in itertools.permutations(rows, 2)}:
            # Of two rows of a kind the second one is among the others.
            alike = kind[one] == kind[other]
            second = (held[other] * number[kind[other]] - alike) / (number[kind[other]] - alike)
            both_of[one, other] = met(held[one] * second)
        sums = [np.zeros((2, asked, len(rows), len(rows))) for rows in targets]
        for posterior in self._posteriors(draws):
            mean = {own: posterior @ table.T for own, table in means.items()}
            for total, rows in zip(sums, targets, strict=True):
                for (i, one), (j, other) in itertools.product(enumerate(rows), repeat=2):
                    both = mean[one] if i == j else posterior @ both_of[one, other].T
                    left = (both - mean[one] * mean[other]) * (k**2 / (k - 1))
                    total[:, :, i, j] += left.sum(axis=0), (left**2).sum(axis=0)
        found, most = [], k**2 / (k - 1) / 4
        for mean_left, square in (total / draws for total in sums):
            spread = np.maximum(square - mean_left**2, 0.0) * draws / (draws - 1)
            ranges = most * (2 - np.eye(spread.shape[-1]))  # a covariance may be negative
            margin = np.sqrt(2 * spread * level / draws) + ranges * 7 * level / (3 * (draws - 1))
            off = np.linalg.eigvalsh((margin + margin.swapaxes(1, 2)) / 2)[:, -1]
            least = np.linalg.eigvalsh(mean_left)[:, 0]
            low = np.maximum(least - off, _mean_at_least(least, most * len(spread[0]), level / draws))
            found.append((np.maximum(low, 0.0), np.minimum(least + off, 1.0)))
        return found

    def _posteriors(self, draws: int) -> Iterator[FloatArray]:
        """The chances of all different numbers after each of some drawn answers, a few at a time."""
        generator = np.random.default_rng(0)
        scales = np.where(self.noise.exact, np.inf, self.noise.information) ** -0.5
        laplace = self.noise.laplace > 0
        every, chances, _ = self.told
        chance = np.log(chances)
        exact = np.unique(every[:, self.noise.exact], axis=0, return_inverse=True)[1].ravel()
        noisy = ~self.noise.exact
        seen = every[:, noisy] / scales[noisy]
        # |a - g|² is a·g less squares, by one product. Where these lose the digits that count, and of Laplace
        # answers, which have none: one by one.
        lost = np.abs(seen).max(axis=0, initial=0.0) ** 2 * np.finfo(np.float64).eps
        single = laplace[noisy] | (lost > ROUNDING)
        others = seen[:, ~single]
        size = np.sum(others**2, axis=1) / 2 - chance
        together = max(1, (1 << 20) // max(1, len(seen) * (1 + int(single.sum()))))
        below = np.cumsum(chances)[:-1]
        for start in range(0, draws, together):
            number = min(together, draws - start)
            truth = np.searchsorted(below, generator.random(number))
            noise = np.where(
                laplace[noisy],
                generator.laplace(size=(number, seen.shape[1])),
                generator.standard_normal((number, seen.shape[1])),
            )
            fit = (others[truth] + noise[:, ~single]) @ others.T - size
            for column in np.flatnonzero(single):
                apart = np.abs(seen[truth, column, None] - seen[:, column] + noise[:, column, None])
                fit -= apart if laplace[noisy][column] else np.minimum(apart, LARGEST) ** 2 / 2
            fit = np.where(exact[truth][:, None] == exact, fit, -np.inf)
            fit -= fit.max(axis=1, keepdims=True)
            np.exp(fit, out=fit)
            fit /= fit.sum(axis=1, keepdims=True)
            yield fit


def _log_factorials(most: int) -> FloatArray:
    """Of 0, 1, … (importing scipy.special takes longer than a small audit)."""
    return np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, most + 1)))])


def _ways(number: int, values: int) -> IndexArray:
    """How many of some rows may have each value: bars between the rows.

    >>> _ways(2, 2).tolist()
    [[0, 2], [1, 1], [2, 0]]
    """
    bars = np.array(list(itertools.combinations(range(number + values - 1), values - 1)))
    ends = np.pad(bars, ((0, 0), (1, 0)), constant_values=-1)
    ends = np.pad(ends, ((0, 0), (0, 1)), constant_values=number + values - 1)
    return np.diff(ends, axis=1) - 1


def _mean_at_least(drawn: FloatArray, most: float, level: float) -> FloatArray:
    r"""At most the mean :math:`\mu` of a number from 0 to ``most``, from a mean over draws that is no less.

    :math:`\bar x \le \mu + \sqrt{2 \mu m \ell} + m\ell/3` but for the chance :math:`e^{-n \ell}`, by
    Bernstein's inequality.
    """
    over, root = np.maximum(drawn - most * level / 3, 0.0), math.sqrt(2 * most * level)
    return np.asarray(((np.sqrt(root**2 + 4 * over) - root) / 2) ** 2)


def _places(members: IndexArray, part: Block) -> Places:
    """Rows of these kinds among the members of a component, each once: rows of one kind are alike."""
    return [
        int(place)
        for kind in sorted(set(part))
        for place in np.flatnonzero(members == kind)[: part.count(kind)]
    ]
