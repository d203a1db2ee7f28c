r"""Components with few worlds: a walk that redraws all rows at once, and so both ends.

A heat bath whose block is every row of a component (:mod:`sightline.bounds.walk`) forgets everything but the
answers: h is then the posterior mean itself, and what remains is

.. math:: \mathbb E \operatorname{Cov}(g \mid y) = \operatorname{Cov}(g)
    - \mathbb E\bigl[(\mathbb E[g \mid y] - p)(\mathbb E[g \mid y] - p)^\top\bigr] .

Where the worlds are few, the posterior is computed from all of them, and the mean over drawn answers has a
margin to either side, by betting, that is wrong with a chance that is chosen. Rows of a kind are alike, so
that a state, which says how many rows of each kind have each value, stands for all its worlds; and states
with the same exact numbers are one to noise. The draws have a fixed seed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from functools import cached_property

import numpy as np

from sightline.arrays import LARGEST, ROUNDING, FloatArray, IndexArray, distinct_lines
from sightline.bounds.chance_of_error import Simulated, chance_of, may_simulate
from sightline.bounds.few_values import FewValues
from sightline.bounds.value_rows import EXACT, GEOMETRIC, LAPLACE
from sightline.bounds.walk import ends_of_persons, geometric_noise
from sightline.units.unit_block import BoolArray
from sightline.values import frozen

_MOST_MEMBERS, _MOST_STATES = 64, 1 << 16  # rows, and states, of components that are listed
# Different components, and different answers × draws of one, about 0.4 s, and of all. Each is drawn as if it
# were alone, so that strangers change nothing but who is beyond the last of these.
_MOST_COMPONENTS, _MOST_DRAWN, _DRAWN_IN_ALL = 64, 1.64e7, 4e7
_MOST_DRAWS, _LEAST_DRAWS = 20_000, 300
_FEW_ROWS = 8  # of a person


def by_listed_worlds(few: FewValues, wide: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Persons × values asked: both ends of those who are asked for, where all worlds are listed; else 0 and
    1.
    """
    low, high = np.zeros((2, len(few.kinds), len(few.asked))) + np.array([0.0, 1.0])[:, None, None]
    sizes = np.where(few.kinds >= 0, few.times, 0).sum(axis=1)
    listed: dict[bytes, tuple[_Worlds, list[tuple[IndexArray, list[list[int]]]]]] = {}
    for persons, kinds in few.components(wide & (sizes <= _FEW_ROWS)):
        worlds = _worlds(few, kinds)
        if worlds is None:
            continue
        chosen = persons[wide[persons] & (sizes[persons] <= _FEW_ROWS)]
        held, times = few.kinds[chosen], few.times[chosen]
        places = [
            np.repeat(np.searchsorted(kinds, own[own >= 0]), count[own >= 0]).tolist()
            for own, count in zip(held, times, strict=True)
        ]
        listed.setdefault(worlds.key + repr(places).encode(), (worlds, []))[1].append((chosen, places))
    left = _DRAWN_IN_ALL if listed and may_simulate(Simulated.WORLDS) else 0.0
    for worlds, alike in itertools.islice(listed.values(), _MOST_COMPONENTS):
        places, columns = alike[0][1], list(few.asked)
        least = worlds.kept_by_exact_numbers(places, few.asked)
        most = np.ones_like(least)
        draws = min(_MOST_DRAWS, int(_MOST_DRAWN / worlds.answers[0].shape[0]))
        if draws >= _LEAST_DRAWS and left > 0:
            left -= draws * worlds.answers[0].shape[0]
            means = worlds.posterior_means(draws)
            wrong = chance_of(Simulated.WORLDS) / _MOST_COMPONENTS
            ends = ends_of_persons(means, worlds.chances, places, wrong, asked=few.asked)
            least, most = np.maximum(least, ends[0]), ends[1]
        for chosen, _ in alike:
            low[chosen], high[chosen] = least[:, columns], most[:, columns]
    # What noise stands in for is no more than the noise itself; the attack is on the stand-in.
    return low * few.share, high if few.share == 1 else np.ones_like(high)


def _worlds(few: FewValues, kinds: IndexArray) -> _Worlds | None:
    """The worlds of a component; none if they are many, or noise has a law that is not drawn."""
    counts, k = few.rows.counts[kinds], few.rows.chances.size
    if counts.sum() > _MOST_MEMBERS:
        return None
    states = math.prod(math.comb(int(number) + k - 1, k - 1) for number in counts)
    if states > _MOST_STATES:
        return None
    table, scale, law = few.rows.answers_and_scales(kinds)
    exact = table[:, :, law == EXACT]
    if np.any(law > EXACT) or np.any(exact != np.rint(exact)):
        return None
    chances = few.rows.chances
    return _Worlds(table=table, scale=scale, law=law, counts=counts.astype(np.intp), chances=chances)


@frozen(slots=False)
class _Worlds:
    """All worlds of some kinds of rows with a few values each."""

    table: FloatArray  # kinds × values × answers: what a row adds
    scale: FloatArray  # one over that of the noise
    law: IndexArray
    counts: IndexArray
    chances: FloatArray

    @property
    def key(self) -> bytes:
        """What components that are alike have in common."""
        parts = (self.table, self.scale, self.law, self.counts)
        return str(self.table.shape).encode() + b"".join(part.tobytes() for part in parts)

    @cached_property
    def _states(self) -> tuple[FloatArray, FloatArray, list[FloatArray]]:
        """The exact numbers of every state, its chance, and the share of each kind that has each value."""
        total, chance = np.zeros((1, self.table.shape[2])), np.zeros(1)
        held: list[FloatArray] = []
        logs = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, self.counts.max() + 1)))])
        for table, number in zip(self.table, self.counts.tolist(), strict=True):
            ways = ways_of(number, self.chances.size)
            log_chances = logs[number] - logs[ways].sum(axis=1) + ways @ np.log(self.chances)
            total = (total[:, None, :] + ways @ table).reshape(-1, total.shape[1])
            shares = np.tile(ways / max(number, 1), (len(chance), 1))
            held = [np.repeat(one, len(ways), axis=0) for one in held] + [shares]
            chance = (chance[:, None] + log_chances).ravel()
        return total, np.exp(chance), held

    @cached_property
    def answers(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The different numbers of all states, their chances; and kinds × values × answers: the mean shares
        over the states that have them.
        """
        total, chance, held = self._states
        first, answer_of = distinct_lines(total)
        chances = np.asarray(np.bincount(answer_of, chance), dtype=np.float64)
        means = [[np.bincount(answer_of, chance * value) for value in one.T] for one in held]
        return total[first], chances, np.asarray(means) / chances

    def posterior_means(self, draws: int) -> FloatArray:
        """Kinds × values × draws: the posterior mean of a row's indicators less their chance."""
        parts = [self.answers[2] @ chances.T for chances in self._posteriors(draws)]
        return np.concatenate(parts, axis=2) - self.chances[:, None]

    def kept_by_exact_numbers(self, persons: list[list[int]], asked: range) -> FloatArray:
        """Persons × values: what would remain if all numbers were published without noise."""
        _, chances, shares = self.answers
        means = shares - self.chances[:, None]
        kept = np.zeros((len(persons), self.chances.size))
        for line, rows in enumerate(persons):
            for value in asked:
                means_of_person = means[rows, value]
                seen = np.linalg.eigvalsh((means_of_person * chances) @ means_of_person.T)[-1]
                kept[line, value] = 1 - seen / (self.chances[value] * (1 - self.chances[value]))
        return np.maximum(kept - ROUNDING, 0.0)

    def _posteriors(self, draws: int) -> Iterator[FloatArray]:
        """The chances of all different numbers after each of some drawn answers, a few at a time."""
        generator = np.random.default_rng(0)
        every, chances, _ = self.answers
        prior = np.log(chances)
        exact = np.unique(every[:, self.law == EXACT], axis=0, return_inverse=True)[1].ravel()
        noisy = self.law != EXACT
        seen, law = (every * self.scale)[:, noisy], self.law[noisy]
        laplace = (law == LAPLACE) | (law == GEOMETRIC)
        # |a - g|² is a·g less squares, by one product. Where these lose the digits that count, and of Laplace
        # answers, which have none: one by one.
        lost = np.abs(seen).max(axis=0, initial=0.0) ** 2 * np.finfo(np.float64).eps
        single = laplace | (lost > ROUNDING)
        others = seen[:, ~single]
        size = np.sum(others**2, axis=1) / 2 - prior
        together = max(1, (1 << 20) // max(1, len(seen) * (1 + int(single.sum()))))
        below = np.cumsum(chances)[:-1] / chances.sum()
        for start in range(0, draws, together):
            number = min(together, draws - start)
            truth = np.searchsorted(below, generator.random(number))
            noise = np.where(
                laplace,
                generator.laplace(size=(number, seen.shape[1])),
                generator.standard_normal((number, seen.shape[1])),
            )
            for column in np.flatnonzero(law == GEOMETRIC):
                noise[:, column] = geometric_noise(self.scale[noisy][column], (number,), generator)
            fit = (others[truth] + noise[:, ~single]) @ others.T - size
            for column in np.flatnonzero(single):
                apart = np.abs(seen[truth, column, None] - seen[:, column] + noise[:, column, None])
                fit -= apart if laplace[column] else np.minimum(apart, LARGEST) ** 2 / 2
            fit = np.where(exact[truth][:, None] == exact, fit, -np.inf)
            fit -= fit.max(axis=1, keepdims=True)
            np.exp(fit, out=fit)
            fit /= fit.sum(axis=1, keepdims=True)
            yield fit


def ways_of(number: int, values: int) -> IndexArray:
    """How many of some rows may have each value: bars between the rows.

    >>> ways_of(2, 2).tolist()
    [[0, 2], [1, 1], [2, 0]]
    """
    bars = np.array(list(itertools.combinations(range(number + values - 1), values - 1)))
    ends = np.pad(bars, ((0, 0), (1, 0)), constant_values=-1)
    ends = np.pad(ends, ((0, 0), (0, 1)), constant_values=number + values - 1)
    return np.diff(ends, axis=1) - 1
