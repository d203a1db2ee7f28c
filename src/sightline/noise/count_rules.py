r"""What a published count tells of the true one: rounding, blanks, cell keys, "known to within".

A rule turns a true count into a published value, by itself or by chance. Whoever sees the value knows that
the count is among those that the rule may turn into it: an interval. Offices publish counts so, without
noise that a budget could pay for.

Where chance decides (random rounding, cell keys), the law is a table with a line for each count: the values
it may become and their chances. What such a number guarantees by itself, against somebody who knows everyone
else, is read off two lines: with a yes or no of even chances, the counts c and c + 1 lead to the values v
with the chances :math:`p_v` and :math:`q_v`, and the share of the uncertainty that is left is

.. math:: E = 2 \sum_v \frac{p_v q_v}{p_v + q_v} \ge \Bigl(\sum_v \sqrt{p_v q_v}\Bigr)^2 ,

and by the same step for several numbers with chances of their own, the product of the right sides.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from sightline.arrays import FloatArray
from sightline.errors import require_plan
from sightline.values import frozen

BoolArray = NDArray[np.bool_]
_ROUNDING = 1e-8  # of a sum of chances: logarithms of factorials of millions lose that many digits at most
Chances = Mapping[int, float]  # of the changes of a count


class Rounding(StrEnum):
    """Where a count between two multiples of the base goes."""

    NEAREST = "nearest"  # half of the base goes up
    UP = "up"
    DOWN = "down"
    RANDOM = "random"  # to either neighbour, with chances that keep the mean


@frozen(eq=True)
class PerturbationTable:
    """A p-table: for each count the chances of its changes; the last line is for all larger counts too."""

    lines: tuple[tuple[tuple[int, float], ...], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.lines)

    def line(self, count: int) -> Chances:
        """The chances of the changes of a count."""
        return dict(self.lines[min(count, len(self.lines) - 1)])

    def counts_behind(self, value: int) -> range:
        """From the least to the largest count that may be published as a value."""
        reach = max((abs(change) for line in self.lines for change, _ in line), default=0)
        near = range(max(0, value - reach), value + reach + 1)
        counts = [count for count in near if value - count in self.line(count)]
        return range(min(counts), max(counts) + 1) if counts else range(0)

    @classmethod
    def of(cls, entries: Mapping[int, Mapping[int, float]], where: str) -> PerturbationTable:
        """The table with chances by count and change; ``where`` begins the message about a wrong one."""
        require_plan(
            bool(entries) and sorted(entries) == list(range(len(entries))),
            f"{where}: a line for every count from 0 on",
            got=f"counts {', '.join(map(str, sorted(entries)[:4]))}, …" if entries else "none",
        )
        for count, line in entries.items():
            total = math.fsum(line.values())
            require_plan(
                min(line.values()) >= 0 and abs(total - 1) <= 1e-6,
                f"{where}: chances of a count that add up to 1",
                got=f"{total:.6g} for the count {count}",
            )
            require_plan(
                min(line) + count >= 0,
                f"{where}: published counts from 0 on",
                got=f"a change of {min(line)} for the count {count}",
            )
        return cls(
            lines=tuple(
                tuple((change, chance) for change, chance in sorted(entries[count].items()) if chance > 0)
                for count in range(len(entries))
            )
        )


@frozen(eq=True)
class CountRule:
    """How counts are published; by default as they are.

    >>> rule = CountRule(to=5, below=10)
    >>> low, high = rule.known_of_counts(np.array([0.0, 9.0, 10.0, 13.0]))
    >>> list(zip(low.tolist(), high.tolist()))
    [(0.0, 9.0), (0.0, 9.0), (10.0, 12.0), (13.0, 17.0)]
    """

    to: int = 1  # the base that counts are rounded to
    how: Rounding = Rounding.NEAREST
    within: float = 0.0  # what is known of a count if no more is: plus or minus this
    below: int = 0  # counts below are blank; 0: none
    table: PerturbationTable = field(default_factory=PerturbationTable)

    @property
    def by_chance(self) -> bool:
        """Whether chance decides what is published."""
        return bool(self.table) or (self.to > 1 and self.how is Rounding.RANDOM)

    @property
    def exact(self) -> bool:
        """Whether counts are published as they are."""
        return self == CountRule()

    def line(self, count: int) -> Chances:
        """The values that a count may be published as, and their chances; a blank is -1."""
        if count < self.below:
            return {-1: 1.0}
        if self.table:
            return {count + change: chance for change, chance in self.table.line(count).items()}
        down = count // self.to * self.to
        if self.how is Rounding.RANDOM and count > down:
            up = (count - down) / self.to
            return {down: 1 - up, down + self.to: up}
        return {int(self.published(np.array([float(count)]))[0]): 1.0}

    def published(self, counts: FloatArray, draw: FloatArray | None = None) -> FloatArray:
        """The published values, NaN for a blank; where chance decides, by a ``draw`` from 0 to 1 each."""
        chance = np.zeros(counts.size) if draw is None else draw
        if self.table:
            values = np.array(
                [self._drawn(int(count), float(u)) for count, u in zip(counts, chance, strict=True)]
            )
        else:
            add: dict[Rounding, FloatArray | float] = {
                Rounding.NEAREST: self.to // 2,
                Rounding.UP: self.to - 1,
                Rounding.DOWN: 0,
                # Down with the chance (base − rest) / base: up where the draw is at least that.
                Rounding.RANDOM: np.floor(chance * self.to),
            }
            values = np.floor((counts + add[self.how]) / self.to) * self.to
        return np.where(counts < self.below, np.nan, values)

    def _drawn(self, count: int, draw: float) -> float:
        line, total = self.table.line(count), 0.0
        for change, chance in line.items():
            total += chance
            if draw < total:
                return float(count + change)
        return float(count + max(line))

    def known_of_values(self, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The least and the largest count behind published values; NaN is a blank."""
        blank = np.isnan(values)
        shown = np.where(blank, 0.0, values)
        if self.table:
            ranges = [self.table.counts_behind(int(value)) for value in shown]
            # No count behind a value: an empty interval, which no table meets.
            low = np.array([found[0] if found else math.inf for found in ranges], dtype=np.float64)
            high = np.array([found[-1] if found else -math.inf for found in ranges], dtype=np.float64)
        else:
            base = self.to
            down, up = {
                Rounding.NEAREST: (base // 2, base - 1 - base // 2),
                Rounding.UP: (base - 1, 0),
                Rounding.DOWN: (0, base - 1),
                Rounding.RANDOM: (base - 1, base - 1),
            }[self.how]
            low, high = shown - down - self.within, shown + up + self.within
        low = np.where(blank, 0.0, np.maximum(low, self.below))
        return np.maximum(low, 0.0), np.where(blank, self.below - 1.0, high)

    def known_of_counts(self, counts: FloatArray) -> tuple[FloatArray, FloatArray]:
        """What is known of true counts at most: where chance decides, whatever it may decide.

        Every draw leaves an interval that contains this one, so that whom this one does not make certain, no
        draw does.
        """
        if not self.by_chance:
            return self.known_of_values(self.published(counts))
        low, high = np.zeros(counts.size), np.full(counts.size, np.inf)
        for place, count in enumerate(counts.astype(int).tolist()):
            for value in self.line(count):
                published = np.array([math.nan if value < 0 else float(value)])
                ends = self.known_of_values(published)
                low[place], high[place] = max(low[place], ends[0][0]), min(high[place], ends[1][0])
        return low, high

    def cuts(self, largest: int) -> BoolArray:
        """For every count c below ``largest``, whether c and c + 1 people may be told apart.

        Where chance decides, or no rule says what is published, they are.
        """
        if self.by_chance or self.within:
            return np.ones(largest, dtype=np.bool_)
        values = np.nan_to_num(self.published(np.arange(largest + 1.0)), nan=-1.0)
        return np.asarray(np.diff(values) != 0)

    def chance_of_a_cut(self, people: int, *, together: int, share: float) -> float:
        """At most the chance that what is published depends on how many of ``together`` people say yes.

        All ``people`` that it counts from say yes by themselves, each with the chance ``share``.

        >>> round(CountRule(to=10).chance_of_a_cut(1_000, together=1, share=0.5), 4)
        0.1
        >>> CountRule().chance_of_a_cut(1_000, together=1, share=0.5)
        1.0
        """
        before = np.concatenate([[0], np.cumsum(self.cuts(people))])
        cut = before[together:] > before[: before.size - together]
        return min(1.0, float(binomial_chances(people - together, share)[cut].sum()) + _ROUNDING)

    def affinity(self, largest: int) -> float:
        """The least affinity of what c and c + 1 people are published as, for c below ``largest``."""
        reach = self.below + (len(self.table.lines) + 1 if self.table else 2 * self.to)
        counts = range(min(largest, reach))  # after that the lines repeat
        return min((_affinity(self.line(one), self.line(one + 1)) for one in counts), default=1.0)

    def kept_alone(self, largest: int) -> float:
        """The least share of the uncertainty about one yes or no that one number leaves to somebody who knows
        everyone else, for true counts up to ``largest``.

        >>> round(CountRule(to=3, how=Rounding.RANDOM).kept_alone(30), 4), CountRule(to=5).kept_alone(30)
        (0.8, 0.0)
        """
        reach = self.below + (len(self.table.lines) + 1 if self.table else 2 * self.to)
        pairs = ((self.line(one), self.line(one + 1)) for one in range(min(largest, reach)))
        return min((_kept(first, second) for first, second in pairs), default=1.0)


def binomial_chances(number: int, share: float) -> FloatArray:
    """The chances of 0 to ``number`` yeses of so many people, up to rounding."""
    logs = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1.0, number + 1)))])
    yes = np.arange(number + 1)
    log_chances = logs[-1] - logs - logs[::-1] + yes * math.log(share) + yes[::-1] * math.log1p(-share)
    return np.asarray(np.exp(log_chances))


def _affinity(first: Chances, second: Chances) -> float:
    return math.fsum(math.sqrt(first[value] * second[value]) for value in first.keys() & second.keys())


def _kept(first: Chances, second: Chances) -> float:
    both = first.keys() & second.keys()
    return 2 * math.fsum(first[v] * second[v] / (first[v] + second[v]) for v in both)
