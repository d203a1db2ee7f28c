r"""What a walk forgets, no attack knows: lower ends of rows with few values, by simulation with a margin.

Draw a world x from the prior and its answers y, and start *in that world* a walk that redraws rows from what
the others and y leave open (a heat bath). Given y the true world has the law of the posterior, and a heat
bath keeps it: every state of the walk has it, from the first step on. Let :math:`h_i = \mathbb E[g_i \mid
x_{-i}, y]` for indicators :math:`g_i`, so that :math:`\mathbb E[h_i \mid y] = \mathbb E[g_i \mid y]`.

**Theorem.** If the steps from state s to state t read the same forwards and backwards, then

.. math:: \mathbb E \operatorname{Cov}(g \mid y) \succeq \operatorname{Cov}(g)
    - \operatorname{sym}\, \mathbb E\bigl[(h(s) - p)(h(t) - p)^\top\bigr] .

*Proof.* On the square-integrable functions of a posterior the heat bath of a block of rows is the orthogonal
projection on functions of the other rows. Steps that read the same both ways are :math:`Q^* Q`, so that
:math:`\mathbb E[h_i(s) h_j(t) \mid y] = \langle Q h_i, Q h_j \rangle`: a Gram matrix, and by the
Cauchy–Schwarz inequality it is at least that of the means :math:`\mathbb E[Q h_i \mid y] = \mathbb E[g_i \mid
y]`. Take the mean over y, and :math:`\mathbb E\,h = p`. :math:`\square`

Without a step it is the attacker who knows all others. More steps never weaken it, and a walk that has
forgotten its start gives the risk itself. A row that is never redrawn counts as known: every set of rows
gives a bound. The same holds for means over several early and several late states if all of them are an even
number of sweeps apart, and the sweeps go forth and back in turn.

**The margin.** Worlds are independent draws, and the product is bounded: a bound on its mean by betting
against it (:func:`betting_bound`) is wrong with a chance that is chosen. What is simulated (rows, blocks,
sweeps, worlds) must not depend on the draws: it is chosen by a pilot with other draws. Each heat bath is off
by rounding, about 1e-15 of probability, and 1e5 of them by 1e-10.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sightline.arrays import FloatArray, IndexArray
from sightline.progress import report
from sightline.values import frozen

BoolArray = NDArray[np.bool_]
Block = tuple[int, ...]
_TOGETHER = 1_000  # worlds at a time: a line of a table of them stays in the cache


@frozen(slots=False)
class WalkedRows:
    """Rows that a walk redraws, each with a few values; all others are known."""

    table: FloatArray  # rows × values × numbers: what each value adds to a number, over the noise's scale
    chances: FloatArray  # of the values
    laplace: BoolArray  # of the numbers: whether the noise is Laplace or geometric noise; else it is Gaussian
    exact: BoolArray  # numbers without noise, in units of their own
    steps: FloatArray | None = None  # of geometric noise the loss of a step, else 0; None without any

    @cached_property
    def moved(self) -> FloatArray:
        """Of every row the information about its most distant two values."""
        noisy = self.table[:, :, ~self.exact]
        pairs = itertools.combinations(range(self.chances.size), 2)
        apart = [np.square(noisy[:, b] - noisy[:, a]).sum(axis=1) for a, b in pairs]
        return np.asarray(np.max(apart, axis=0))

    @cached_property
    def singles(self) -> list[Block]:
        """Every row by itself."""
        return [(row,) for row in range(len(self.table))]

    def cost(self, block: Block) -> float:
        """About how many seconds a step of 1,000 worlds takes on one core."""
        numbers = int(np.count_nonzero(np.any(np.ptp(self.table[list(block)], axis=1) != 0, axis=0)))
        combinations: int = self.chances.size ** len(block)
        if combinations == 2:
            return 4e-5 + 7e-6 * numbers
        return 8e-5 + 1e-5 * numbers + 2e-5 * combinations

    def neighbours(self, each: int) -> list[Block]:
        """Every row with those that are told from it least: of these two an exchange may stay unseen."""
        rows, close = len(self.table), set()
        lines = self.table.reshape(rows, -1)
        scale = np.where(np.tile(self.exact, self.chances.size), 1e6, 1.0)
        gram = (lines * scale) @ (lines * scale).T
        apart = np.diagonal(gram)[:, None] + np.diagonal(gram) - 2 * gram
        np.fill_diagonal(apart, np.inf)
        for row in range(rows):
            for other in np.argsort(apart[row], kind="stable")[: min(each, rows - 1)].tolist():
                close.add((min(row, other), max(row, other)))
        return sorted(close)

    def heat_bath(self, block: Block) -> HeatBath:
        """What redrawing a block needs."""
        combinations = np.array(list(itertools.product(range(self.chances.size), repeat=len(block))))
        touched = np.flatnonzero(np.any(np.ptp(self.table[list(block)], axis=1) != 0, axis=0))
        sums = sum(self.table[row][combinations[:, place]] for place, row in enumerate(block))
        totals = np.asarray(sums)[:, touched]
        exact, laplace = self.exact[touched], self.laplace[touched]
        group = np.unique(totals[:, exact], axis=0, return_inverse=True)[1].ravel()
        fit = np.log(self.chances)[combinations].sum(axis=1)
        gaussian = ~exact & ~laplace
        return HeatBath(
            rows=np.array(block),
            combinations=combinations.astype(np.int8),
            powers=self.chances.size ** np.arange(len(block) - 1, -1, -1),
            gaussian=touched[gaussian],
            laplace=touched[laplace & ~exact],
            sums=np.ascontiguousarray(totals[:, gaussian]),
            laplace_sums=np.ascontiguousarray(totals[:, laplace & ~exact]),
            constants=fit - np.square(totals[:, gaussian]).sum(axis=1) / 2,
            group=group if exact.any() else None,
        )


@frozen(slots=False)
class HeatBath:
    """A block of rows, all combinations of their values, and what each adds to the numbers they are in."""

    rows: IndexArray
    combinations: NDArray[np.int8]  # × rows
    powers: IndexArray  # of the place of a combination among all
    gaussian: IndexArray  # numbers
    laplace: IndexArray
    sums: FloatArray  # combinations × numbers with Gaussian noise
    laplace_sums: FloatArray
    constants: FloatArray  # of every combination
    group: IndexArray | None  # combinations with the same exact numbers have the same

    def chances(self, state: WalkState) -> FloatArray:
        """Combinations × worlds: the chance of each given all other rows and the answers."""
        if len(self.constants) == 2 and self.group is None:
            yes = self._yes(state)
            return np.stack([1 - yes, yes])
        return self._all_chances(state)[0]

    @cached_property
    def _coin(self) -> tuple[float, list[tuple[int, float]], list[tuple[int, float, float]]]:
        """Of two values: a constant of the log-odds; the numbers and what the second adds more than the
        first; and numbers with Laplace noise, what each adds.
        """
        change = self.sums[1] - self.sums[0]
        constant = float(self.constants[1] - self.constants[0] + change @ self.sums[0])
        gaussian = list(zip(self.gaussian.tolist(), change.tolist(), strict=True))
        laplace = zip(self.laplace.tolist(), *self.laplace_sums.tolist(), strict=True)
        return constant, gaussian, list(laplace)

    def _yes(self, state: WalkState) -> FloatArray:
        """The chance of the second of two values: a row by itself, which most steps redraw."""
        constant, gaussian, laplace = self._coin
        now = state.values[self.rows[0]]
        odds = now * float(sum(change**2 for _, change in gaussian))
        odds += constant
        for number, change in gaussian:
            odds += change * state.noise[number]
        for number, first, second in laplace:
            away = state.noise[number] + (first + (second - first) * now)
            odds += np.abs(away - first) - np.abs(away - second)
        odds *= 0.5
        np.tanh(odds, out=odds)
        odds += 1
        odds *= 0.5
        return np.asarray(odds)

    def _flip(self, state: WalkState, generator: np.random.Generator) -> None:
        _, gaussian, laplace = self._coin
        yes, row = self._yes(state), self.rows[0]
        new = (generator.random(yes.size) < yes).astype(np.int8)
        changed = (new - state.values[row]).astype(np.float64)
        state.values[row] = new
        for number, change in gaussian:
            state.noise[number] -= change * changed
        for number, first, second in laplace:
            state.noise[number] -= (second - first) * changed

    def _all_chances(self, state: WalkState) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The same for all combinations; and the answers less what the other rows add, of both laws."""
        now = self.powers @ state.values[self.rows]
        away = state.noise[self.gaussian] + self.sums.T[:, now]
        fit = self.sums @ away
        fit += self.constants[:, None]
        other = state.noise[self.laplace]
        if self.laplace.size:
            other = other + self.laplace_sums.T[:, now]
            for place, line in enumerate(self.laplace_sums.T):
                fit -= np.abs(other[place] - line[:, None])
        if self.group is not None:
            fit[self.group[:, None] != self.group[now]] = -np.inf
        fit -= fit.max(axis=0)
        np.exp(fit, out=fit)
        fit /= fit.sum(axis=0)
        return fit, away, other

    def redraw(self, state: WalkState, generator: np.random.Generator) -> None:
        """One step of the walk, in every world."""
        if len(self.constants) == 2 and self.group is None:
            self._flip(state, generator)
            return
        chances, away, other = self._all_chances(state)
        drawn = np.asarray(generator.random(chances.shape[1]))
        new = np.zeros(drawn.size, dtype=np.intp)
        below = np.zeros(drawn.size)
        for line in chances[:-1]:
            below += line
            new += drawn >= below
        state.values[self.rows] = self.combinations.T[:, new]
        state.noise[self.gaussian] = away - self.sums.T[:, new]
        if self.laplace.size:
            state.noise[self.laplace] = other - self.laplace_sums.T[:, new]


@frozen
class WalkState:
    """Worlds: rows × worlds, and the answers less the exact numbers, numbers × worlds. Both change."""

    values: NDArray[np.int8]
    noise: FloatArray

    @classmethod
    def true(cls, rows: WalkedRows, worlds: int, generator: np.random.Generator) -> WalkState:
        """Worlds drawn from the prior, and their answers."""
        drawn = generator.random((len(rows.table), worlds))
        ends = np.cumsum(rows.chances)[:-1]
        values = np.sum(drawn[None] >= ends[:, None, None], axis=0).astype(np.int8)
        noise = generator.standard_normal((rows.laplace.size, worlds))
        if rows.laplace.any():
            noise[rows.laplace] = generator.laplace(size=(int(rows.laplace.sum()), worlds))
        steps = np.zeros(rows.laplace.size) if rows.steps is None else rows.steps
        for number in np.flatnonzero(steps):
            noise[number] = geometric_noise(float(steps[number]), (worlds,), generator)
        return cls(values=values, noise=noise)


def geometric_noise(step: float, shape: tuple[int, ...], generator: np.random.Generator) -> FloatArray:
    """Two-sided geometric noise of the scale b, over b = 1/``step``."""
    stop = -math.expm1(-step)
    return np.asarray(step * (generator.geometric(stop, shape) - generator.geometric(stop, shape)))


@frozen(slots=False)
class Schedule:
    """How a walk goes: fixed before its worlds are drawn."""

    blocks: tuple[Block, ...]  # in the order of a sweep forth; the next one goes back
    sweeps: int  # an even number
    ends: int  # states, two sweeps apart, at either end over which a mean is taken
    worlds: int

    @property
    def early(self) -> range:
        """Sweeps after which the first states are read."""
        return range(0, 2 * self.ends, 2)

    @property
    def late(self) -> range:
        """Sweeps after which the last states are read."""
        return range(self.sweeps - 2 * (self.ends - 1), self.sweeps + 1, 2)


def walk(rows: WalkedRows, schedule: Schedule, targets: Sequence[int], seed: Sequence[int]) -> FloatArray:
    """Two × targets × values × worlds: the means of h − p over the early and over the late states."""
    generator = np.random.default_rng(list(seed))
    baths = [rows.heat_bath(block) for block in schedule.blocks]
    looks = [rows.heat_bath((row,)) for row in targets]
    chances = np.zeros((2, len(targets), rows.chances.size, schedule.worlds))
    total = -(-schedule.worlds // _TOGETHER) * schedule.sweeps
    for start in range(0, schedule.worlds, _TOGETHER):
        some = slice(start, min(start + _TOGETHER, schedule.worlds))
        state = WalkState.true(rows, some.stop - start, generator)
        for sweep in range(schedule.sweeps + 1):
            for end, states in enumerate((schedule.early, schedule.late)):
                if sweep in states:
                    for target, look in enumerate(looks):
                        chances[end, target, :, some] += look.chances(state)
            if sweep == schedule.sweeps:
                break
            report("walking from the truth", (start // _TOGETHER * schedule.sweeps + sweep) / total)
            for bath in baths if sweep % 2 == 0 else baths[::-1]:
                bath.redraw(state, generator)
    return chances / schedule.ends - rows.chances[:, None]


def betting_bound(draws: FloatArray, wrong: float) -> FloatArray:
    r"""For lines of draws between 0 and 1: at most their mean, but for a chance of ``wrong`` a line.

    Bet on every draw x that the mean is above m, the share :math:`\lambda` of what is at hand, chosen from
    the draws before: :math:`K(m) = \prod (1 + \min(\lambda, 0.9/m)(x - m))`. At the true mean K has the mean
    1, so that by Markov's inequality it reaches 1/``wrong`` with a chance of ``wrong`` at most. K falls in
    m: the bound is the largest m at which K is that large (Waudby-Smith and Ramdas, 2024).

    >>> bool(0.44 < betting_bound(np.full((1, 1000), 0.5), 1e-10)[0] < 0.5)
    True
    """
    number = draws.shape[1]
    counted = np.arange(1, number + 1)
    mean = (0.5 + np.cumsum(draws, axis=1)) / (counted + 1)
    spread = (0.25 + np.cumsum((draws - mean) ** 2, axis=1)) / (counted + 1)
    before = np.concatenate([np.full((len(draws), 1), 0.25), spread[:, :-1]], axis=1)
    level = math.log(1 / wrong)
    bets = np.sqrt(2 * level / (number * before))
    low, high = np.zeros(len(draws)), draws.mean(axis=1)
    for _ in range(20):
        middle = (low + high) / 2
        shares = np.minimum(bets, (0.9 / np.maximum(middle, 1e-12))[:, None])
        reached = np.log1p(shares * (draws - middle[:, None])).sum(axis=1) >= level
        low, high = np.where(reached, middle, low), np.where(reached, high, middle)
    return np.asarray(low)


def least_kept(
    means: FloatArray,
    chances: FloatArray,
    persons: Sequence[Sequence[int]],
    wrong: float,
    *,
    asked: Sequence[int],
) -> tuple[FloatArray, FloatArray]:
    """Persons × values: at most the share that remains in the direction of a person's rows that is seen best,
    but for a chance of ``wrong`` in all; and the same without a margin. Of values that are not asked, 0.

    ``means`` are those of :func:`walk`; a person is a list of places among its targets.
    """
    each = wrong / (len(asked) * sum(len(rows) ** 2 for rows in persons))
    kept, estimates = np.zeros((2, len(persons), chances.size))
    for person, rows in enumerate(persons):
        for value in asked:
            p = float(chances[value])
            early, late = means[:, list(rows), value]
            kept[person, value], estimates[person, value] = _of_person(early, late, p, each)
    return kept, estimates


def ends_of_persons(
    posterior: FloatArray,
    chances: FloatArray,
    persons: Sequence[Sequence[int]],
    wrong: float,
    *,
    asked: Sequence[int],
) -> tuple[FloatArray, FloatArray]:
    """Persons × values: both ends of what remains, but for a chance of ``wrong`` in all, from posterior means
    less p, targets × values × draws: a walk that forgets everything but the answers.
    """
    low, _ = least_kept(np.stack([posterior, posterior]), chances, persons, wrong / 2, asked=asked)
    each = wrong / 2 / (len(asked) * len(persons))
    high = np.ones((len(persons), chances.size))
    for person, rows in enumerate(persons):
        for value in asked:
            variance = float(chances[value] * (1 - chances[value]))
            posterior_of_rows = posterior[list(rows), value]
            # What is seen of any one direction is seen at least: that which half of the draws see best.
            half = posterior_of_rows.shape[1] // 2
            direction = np.linalg.eigh(posterior_of_rows[:, :half] @ posterior_of_rows[:, :half].T)[1][:, -1]
            span = float(max(chances[value], 1 - chances[value]) ** 2 * np.abs(direction).sum() ** 2)
            squares = (
                np.square(direction @ posterior_of_rows[:, half:])
                if len(rows) > 1
                else np.square(posterior_of_rows)
            )
            high[person, value] = 1 - span * betting_bound(np.atleast_2d(squares) / span, each)[0] / variance
    return low, high


def _of_person(early: FloatArray, late: FloatArray, p: float, wrong: float) -> tuple[float, float]:
    """The least eigenvalue of what remains, from above for each entry of what is seen, and as estimated."""
    variance, r = p * (1 - p), len(early)
    products = (early[:, None] * late + late[:, None] * early).reshape(r * r, -1) / (2 * variance)
    # (h − p)(h' − p) lies between −p(1 − p) and the square of the larger of p and 1 − p.
    most = max(p, 1 - p) ** 2 / variance
    seen = products.mean(axis=1).reshape(r, r)
    span = most + 1
    above = most - span * betting_bound((most - products) / span, wrong)
    margin = above.reshape(r, r) - seen
    if r > 1:  # of two different rows the entry may be off to either side
        below = span * betting_bound((products + 1) / span, wrong) - 1
        margin = np.maximum(margin, seen - below.reshape(r, r))
        np.fill_diagonal(margin, np.diagonal(above.reshape(r, r) - seen))
    estimate = 1 - float(np.linalg.eigvalsh(seen)[-1])
    return max(0.0, estimate - float(np.linalg.eigvalsh(margin)[-1])), estimate
