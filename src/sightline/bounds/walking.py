r"""Who is walked for, with whom, and how long: the last step of the lower ends of rows with few values.

A walk (:mod:`sightline.bounds.walk`) takes seconds, so it is for those whose bracket the limit is in; without
a limit, for the one whose end is the least. Of a component with few rows all are redrawn, which serves all
who are asked about at once. Of a larger one each target gets the rows that hide it best by the linear model,
one after the other: the next row h makes

.. math:: \frac{(a_j^\top P a_h)^2}{1/v + a_h^\top P a_h}

largest, and P loses what h hides. Those who are left out count as known.

A pilot with draws of its own chooses the sweeps and how many worlds the margin needs; where these were too
few for the limit, and time is left, a second walk with new draws has more. Work is counted in
steps, not in seconds, so that the same plan gives the same bytes on every machine; :data:`MOST_SECONDS` is
what these steps take on one core.
"""

from __future__ import annotations

import itertools
import math
import zlib
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from sightline.arrays import FloatArray, IndexArray
from sightline.bounds.chance_of_error import Simulated, chance_of, may_simulate
from sightline.bounds.few_values import FewValues
from sightline.bounds.value_rows import EXACT, GEOMETRIC, LAPLACE
from sightline.bounds.walk import Block, Schedule, WalkedRows, betting_bound, least_kept, walk
from sightline.format import shown_seconds
from sightline.progress import report
from sightline.units.design import Design
from sightline.units.unit_block import BoolArray
from sightline.values import frozen

MOST_SECONDS = 25.0  # of all walks of a design
_MOST_ROWS = 400  # of components of which all rows are redrawn, whoever is asked about
_MOST_IN_ALL = 2_000  # the same, if as many targets by themselves would redraw more
_HIDERS = 64  # rows that are redrawn with one target: 128 hide hardly more
_CANDIDATES = 400  # kinds of rows of which these are chosen
_MOST_ASKED = 400  # persons who are walked for
_PILOT, _LONGEST = 400, 128  # worlds, and sweeps
_MOST_WORLDS = 64_000
_FINE = 0.02  # a margin that is small enough where no limit is to be shown
# Of guesses: worlds in which they are counted, persons and groups of rows for whom they are, and seconds.
_GUESSES, _MOST_GUESSED, _MOST_TOGETHER, _GUESS_SECONDS = 3_000, 24, 4, 0.3
_CLOSER = 2.0  # seconds for an end that shows no limit
# A walk moves one row at a time well where two values are told apart by less: else pairs are redrawn, too.
_SEEN_WELL = 4.0


@frozen
class _Task:
    """Rows that are redrawn together, and the persons who are asked about, by their places among the rows."""

    rows: WalkedRows
    persons: IndexArray
    places: list[list[int]]
    straddling: BoolArray  # persons whose bracket the limit is in; else only a closer end is asked for

    @property
    def blocks(self) -> tuple[Block, ...]:
        """What a sweep redraws: every row, and pairs of rows where single ones are seen well."""
        blocks = tuple(self.rows.singles)
        if float(self.rows.moved.max()) > _SEEN_WELL or self.rows.exact.any():
            blocks += tuple(self.rows.neighbours(2))
        return blocks

    @property
    def one_sweep(self) -> float:
        """About how many seconds a sweep of 1,000 worlds takes."""
        return sum(self.rows.cost(block) for block in self.blocks)

    @property
    def seed(self) -> int:
        """Of its draws: from what it is about, so that strangers change nothing."""
        return zlib.crc32(self.rows.table.tobytes() + repr(self.places).encode())

    @property
    def targets(self) -> list[int]:
        """The places of all persons, one after the other."""
        return [place for places in self.places for place in places]


def with_walk(design: Design, lower: FloatArray, upper: FloatArray, limit: float) -> FloatArray:
    """Lower ends of units with few values a row, improved by walks where the limit is within a bracket.

    Without a limit, which is 0, of the unit with the least end.
    """
    few = FewValues.of_design(design)
    if few is None:
        return lower
    low, high = lower.min(axis=1), upper.min(axis=1)
    straddles = (low < limit) & (high >= limit) & (few.person >= 0)
    asked = straddles.copy()
    if limit == 0:
        first = int(np.argmin(np.where(few.person >= 0, low, np.inf)))
        asked[first] = few.person[first] >= 0 and bool(high[first] > low[first] + _FINE)
    if not asked.any() or not may_simulate(Simulated.WALK):
        return lower
    order = np.flatnonzero(asked)
    order = order[np.argsort(low[order], kind="stable")]
    persons, place = np.unique(few.person[order], return_index=True)
    chosen = persons[np.argsort(place, kind="stable")][:_MOST_ASKED]
    straddling = np.zeros(len(few.kinds), dtype=np.bool_)
    straddling[few.person[straddles]] = True
    kept = _Walks(few=few, limit=limit / few.share, straddling=straddling).of(chosen)
    improved = lower.copy()
    listed = few.person >= 0
    improved[listed] = np.maximum(lower[listed], kept[few.person[listed]] * few.share)
    return np.minimum(improved, np.maximum(upper, lower))


def with_walked_guesses(design: Design, right: FloatArray) -> FloatArray:
    r"""At most how often the best guess at a value of every unit is right, improved for those guessed best.

    A guess is right with the chance :math:`\max_c \pi_c`. That is convex in the posterior :math:`\pi`, whose
    law every state of a walk from the truth has: so it is at most that of the mean of h over the states, but
    for the chance of error of one assessment.
    """
    few = FewValues.of_design(design)
    if few is None or few.share < 1:
        return right
    single = np.where(few.kinds >= 0, few.times, 0).sum(axis=1) == 1
    units = np.flatnonzero((few.person >= 0) & single[few.person])
    order = units[np.argsort(-right[units], kind="stable")]
    persons, first = np.unique(few.person[order], return_index=True)
    chosen = persons[np.argsort(first, kind="stable")][:_MOST_GUESSED]
    nobody = np.zeros(len(few.kinds), dtype=np.bool_)
    tasks = list(_Walks(few=few, limit=0.0, straddling=nobody)._tasks(chosen))
    if not 0 < len(tasks) <= _MOST_TOGETHER or not may_simulate(Simulated.GUESSES):
        return right
    by_walk, chances = np.ones(len(few.kinds)), few.rows.chances
    most_wrong = 1 - 1 / chances.size
    for number, task in enumerate(tasks):
        affordable = _GUESS_SECONDS / len(tasks) / (_GUESSES / 1000 * task.one_sweep)
        sweeps = 2 * int(np.clip(affordable / 2, 1, _LONGEST // 4))
        schedule = Schedule(blocks=task.blocks, sweeps=sweeps, ends=sweeps // 2 + 1, worlds=_GUESSES)
        means = walk(task.rows, schedule, task.targets, (2, number))[0]
        wrong = 1 - (means + chances[:, None]).max(axis=1)
        missed = np.clip(wrong / most_wrong, 0.0, 1.0)
        wrong_end = chance_of(Simulated.GUESSES) / chosen.size
        by_walk[task.persons] = 1 - betting_bound(missed, wrong_end) * most_wrong
    improved = right.copy()
    improved[units] = np.minimum(right[units], by_walk[few.person[units]])
    return np.maximum(improved, float(chances.max()))


@frozen
class _Walks:
    """The walks of a design."""

    few: FewValues
    limit: float
    straddling: BoolArray  # of every person of these

    def of(self, chosen: IndexArray) -> FloatArray:
        """Persons × values asked: what remains at least; 0 of those who are not walked for."""
        few = self.few
        found = np.zeros((len(few.kinds), len(few.asked)))
        tasks = list(self._tasks(chosen))
        seconds = MOST_SECONDS
        for number, task in enumerate(tasks):
            each = seconds / (len(tasks) - number) if task.straddling.any() else min(seconds, _CLOSER)
            schedule, cost = self._schedule(task, each)
            seconds -= cost
            if schedule is None:
                continue
            wrong = chance_of(Simulated.WALK) / 2 * len(task.persons) / _MOST_ASKED
            for attempt in (1, 2):
                means = walk(task.rows, schedule, task.targets, (attempt, task.seed))
                kept, estimate = (ends[:, list(few.asked)] for ends in self._kept(task, means, wrong))
                found[task.persons] = np.maximum(found[task.persons], kept)
                again = self._again(task, schedule, kept.min(axis=1), estimate.min(axis=1))
                longer = again / 1000 * schedule.sweeps * task.one_sweep
                if attempt == 2 or not 0 < longer <= min(each - cost, seconds):
                    break
                seconds -= longer
                schedule = replace(schedule, worlds=again)
        return found

    def _again(self, task: _Task, schedule: Schedule, kept: FloatArray, estimate: FloatArray) -> int:
        """How many worlds would show the limit for someone for whom these did not; 0 if none would."""
        short = task.straddling & (kept < self.limit) & (estimate > self.limit)
        if not short.any():
            return 0
        needed = np.square((estimate - kept)[short] / (0.8 * (estimate[short] - self.limit)))
        worlds = needed[needed * schedule.worlds <= _MOST_WORLDS] * schedule.worlds
        return 500 * math.ceil(float(worlds.max(initial=0.0)) / 500)

    def _kept(self, task: _Task, means: FloatArray, wrong: float) -> tuple[FloatArray, FloatArray]:
        """Both of :func:`least_kept` for the persons of a task."""
        ends = np.cumsum([0, *map(len, task.places)]).tolist()
        lists = [range(a, b) for a, b in itertools.pairwise(ends)]
        return least_kept(means, task.rows.chances, lists, wrong, asked=self.few.asked)

    def _schedule(self, task: _Task, seconds: float) -> tuple[Schedule | None, float]:
        """How a walk goes, by pilots with draws of their own; none if it would show nothing. And the cost."""
        rows, spent, blocks = task.rows, 0.0, task.blocks
        one_sweep = task.one_sweep
        best, pilot, estimate, spread = -1.0, None, np.zeros(0), np.zeros(0)
        for sweeps in (8, 32, _LONGEST):
            cost = _PILOT / 1000 * sweeps * one_sweep
            if spent + cost > seconds / 2:
                break
            spent += cost
            tried = Schedule(blocks=blocks, sweeps=sweeps, ends=max(2, sweeps // 6), worlds=_PILOT)
            means = walk(rows, tried, task.targets, (0, task.seed, sweeps))
            ends = self._kept(task, means, 0.5)[1][:, list(self.few.asked)].min(axis=1)
            value = float(np.minimum(ends, self.limit + 0.08).mean())
            if value <= best + 0.005:
                break
            best, pilot, estimate, spread = value, tried, ends, self._spread(task, means)
            if np.all(ends > self.limit + 0.08):
                break
        if pilot is None:
            return None, spent
        affordable = (seconds - spent) / (pilot.sweeps * one_sweep) * 1000
        worlds = self._worlds(task, estimate, spread, affordable)
        if worlds == 0:
            return None, spent
        cost = worlds / 1000 * pilot.sweeps * one_sweep
        report(f"walking from the truth, about {shown_seconds(cost)}", 0.0)
        return replace(pilot, worlds=worlds), spent + cost

    def _spread(self, task: _Task, means: FloatArray) -> FloatArray:
        """Of every person the largest standard deviation of a product, over the variance of an indicator."""
        asked = list(self.few.asked)
        p = task.rows.chances[asked]
        each = (means[0, :, asked] * means[1, :, asked]).std(axis=-1).max(axis=0, initial=0.0)
        each = each / float(np.min(p * (1 - p)))
        return np.maximum.reduceat(each, np.cumsum([0, *map(len, task.places[:-1])]))

    def _worlds(self, task: _Task, estimate: FloatArray, spread: FloatArray, affordable: float) -> int:
        """So many that the margins show the limit for as many persons as can be; 0 if they show nothing."""
        # The margin of betting is about this many standard errors; of r rows it is r times as wide.
        level = math.sqrt(2 * math.log(_MOST_ASKED * task.rows.chances.size / chance_of(Simulated.WALK)))
        wide = 1.2 * level * spread * np.array([len(places) for places in task.places])
        # Of many persons the least of a pilot's estimates is rather too low.
        away = estimate - self.limit
        away = np.where(away > -_FINE / 2, np.maximum(away, 0.75 * _FINE), away)
        gaps = np.where(task.straddling, away, _FINE)
        wanted = np.where(gaps > 0, np.square(wide / np.maximum(gaps, 1e-9)) + 30 * level, np.inf)
        memory = 2e8 / (16 * len(task.targets) * task.rows.chances.size)
        most = min(affordable, memory, float(_MOST_WORLDS))
        reached = wanted[wanted <= most]
        if not reached.size:
            wanted, reached = wanted[~task.straddling], np.full(int((~task.straddling).sum()), most)
        worlds = float(reached.max(initial=0.0))
        return 500 * math.ceil(worlds / 500) if worlds <= most - 500 else 500 * (int(most) // 500)

    def _tasks(self, chosen: IndexArray) -> Iterator[_Task]:
        """Who is walked for with whom."""
        few, rows = self.few, self.few.rows
        asked = np.zeros(len(few.kinds), dtype=np.bool_)
        asked[chosen] = True
        for persons, kinds in few.components(asked):
            wanted = persons[asked[persons]]
            total = float(rows.counts[kinds].sum())
            together = total <= _MOST_ROWS or (
                total <= _MOST_IN_ALL and wanted.size * (_HIDERS + 1) * 2 > total
            )
            if together:
                yield from self._task(kinds, rows.counts[kinds].astype(np.intp), wanted)
            else:
                for person in wanted.tolist():
                    yield from self._task(*self._hiders(kinds, person), np.array([person]))

    def _task(self, kinds: IndexArray, counts: IndexArray, persons: IndexArray) -> Iterator[_Task]:
        """Some rows of some kinds; none if numbers of a law that is not drawn see the persons."""
        few = self.few
        table, law, steps, movable = few.rows.drawn(kinds)
        free = np.flatnonzero(movable & (counts > 0))
        first = np.full(few.rows.counts.size, -1)
        first[kinds[free]] = np.cumsum(counts[free]) - counts[free]
        held = few.kinds[persons]
        inside = np.all((held < 0) | (first[held] >= 0), axis=1)
        if not inside.any():
            return
        places = [
            [
                int(first[kind]) + copy
                for kind, times in zip(*lists, strict=True)
                if kind >= 0
                for copy in range(times)
            ]
            for lists in zip(held[inside].tolist(), few.times[persons[inside]].tolist(), strict=True)
        ]
        walked = WalkedRows(
            table=np.repeat(table[free], counts[free], axis=0),
            chances=few.rows.chances,
            laplace=(law == LAPLACE) | (law == GEOMETRIC),
            exact=law == EXACT,
            steps=steps,
        )
        straddling = self.straddling[persons[inside]]
        yield _Task(rows=walked, persons=persons[inside], places=places, straddling=straddling)

    def _hiders(self, kinds: IndexArray, person: int) -> tuple[IndexArray, IndexArray]:
        """The kinds of a person's rows and of those that hide them best, and how many rows of each."""
        few, rows = self.few, self.few.rows
        kinds_of_person = few.kinds[person][few.kinds[person] >= 0]
        times = few.times[person][: kinds_of_person.size]
        # Those in the same numbers, and those who hide these in turn.
        near = np.union1d(kinds_of_person, rows.sharing(kinds_of_person, kinds, _CANDIDATES // 4))
        near = np.union1d(near, rows.sharing(near, kinds, _CANDIDATES))
        table = rows.drawn(near)[0]
        lines = (table - table.mean(axis=1, keepdims=True)).reshape(near.size, -1)
        gram = lines @ lines.T
        position = np.searchsorted(near, kinds_of_person)
        left = rows.counts[near].copy()
        left[position] -= times
        chosen = np.zeros(near.size, dtype=np.intp)
        chosen[position] = times
        for _ in range(_HIDERS):
            seen = np.square(gram[position]).sum(axis=0)
            gain = np.where(left > 0, seen / (2 + np.diagonal(gram)), -1.0)
            best = int(np.argmax(gain))
            if not gain[best] > 0:
                break
            line = gram[best].copy()
            gram -= np.outer(line, line) / (2 + line[best])
            chosen[best] += 1
            left[best] -= 1
        return near, chosen
