"""Lower ends of rows with few values that others hide, by all genies at once.

Each component of a design is looked at by itself, and equal components once: nobody's number depends on
people with whom no chain of numbers connects them. In a component with more kinds of rows than one linear
system holds, persons whose rows are in nearly the same numbers are taken together, and all others count as
known.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property

import numpy as np

from sightline.arrays import FloatArray, IndexArray
from sightline.bounds.alone import PrivacyLosses, left_of_values
from sightline.bounds.canonical_order import in_canonical_order
from sightline.bounds.genies import MOST_TOLD, Genies
from sightline.bounds.moves import moves_about
from sightline.bounds.value_rows import GAUSSIAN, GEOMETRIC, LAPLACE, ValueRows, chances_of
from sightline.numerics.residuals import gamma
from sightline.units.dense_units import MOST_LISTED
from sightline.units.design import Design
from sightline.units.unit_block import BoolArray
from sightline.units.units import Units
from sightline.values import frozen

# Genies in one linear system: 1,200 take 0.6 s. Systems of one component: together some 6 s.
_MOST_GENIES, _MOST_SYSTEMS = 1_200, 10
_MOST_APART = 100  # systems of rows that no number connects: 40 categories have 780 genies, which take 0.05 s
_ENTRIES = 1 << 22  # of tables over persons and genies that are made at a time
_MOST_ROWS = 32  # kinds of rows of one person: of more, nothing is said here
# Exchanges: rows of a person, rows that these are exchanged with, and moves of one person. 1,000 persons
# take about a second; of more, those with the least ends are looked at.
_FEW_ROWS, _MOST_OTHERS, _MOST_MOVES, _MOST_PERSONS = 8, 24, 96, 2_000
_BY_THEMSELVES = 8  # others who are moved by themselves: of all of them ends rise by less than 0.01
# In a component of so few rows a row is exchanged with every other one: which ones noise tells least does not
# matter, so that more noise takes no moves away.
_ALL_ROWS = 24
_MOST_RECTANGLES = 12  # that are looked for where a row is told from its absence by more than this
_SEEN_WELL = 6.0
_MOST_LOSSES = 2_000  # pairs of values whose losses are made: some 0.3 ms each
_WHOLE = 2**20  # whole numbers below it have exact products
_AT_A_TIME = 64  # persons
_FOR_THE_LEAST = 96  # persons who are looked at for the least end alone
_ALWAYS = 16  # persons of whom least remains, who are looked at whatever the limit
_CORNERS = 16  # kinds of rows among which two corners of a rectangle are looked for
_STEPS = 1e6  # in which distances of rows are compared: beside exact numbers eight digits of them are left
_LEAST = 1e-200  # of the largest squared change: below it nobody changes anything
_MOST_COLUMNS = 3_000  # of kinds of rows, times values, of which every two are compared


@frozen(slots=False)
class FewValues:
    """The rows of a design with few values, and the persons who have them."""

    rows: ValueRows
    share: float  # at least the probability that noise tells no more than its law says
    kinds: IndexArray  # persons × rows: -1 for none
    times: IndexArray
    person: IndexArray  # of every unit: which of the persons it is like; -1 of those with too many rows

    @classmethod
    def of(cls, design: Design, units: Units) -> FewValues:
        rows = ValueRows.of(design, units)
        kinds, times, person = rows.persons(_MOST_ROWS)
        return cls(rows=rows, share=design.noise.share, kinds=kinds, times=times, person=person)

    @classmethod
    def of_design(cls, design: Design) -> FewValues | None:
        """None where rows have more than few values, or there are very many kinds."""
        units = design.units
        if not 0 < len(units) <= MOST_LISTED or not chances_of(design.prior).size:
            return None
        listed = units if isinstance(units, Units) else units.choose(np.arange(len(units)))
        return cls.of(*in_canonical_order(design, listed))

    @property
    def asked(self) -> range:
        """The values whose indicators are asked about: of a yes or no, yes."""
        number = self.rows.chances.size
        return range(number) if number > 2 else range(1, 2)

    def components(self, wide: BoolArray) -> Iterator[tuple[IndexArray, IndexArray]]:
        """Persons of each component of which some are wide, those that are, and all kinds of rows in it."""
        component = self.rows.component
        of_person = component[self.kinds[:, 0]] if len(self.kinds) else np.zeros(0, dtype=np.intp)
        order = np.argsort(of_person, kind="stable")
        kinds_in_order = np.argsort(component, kind="stable")
        sizes = np.bincount(component)
        ends = np.cumsum(sizes)
        for persons in np.split(order, np.flatnonzero(np.diff(of_person[order])) + 1):
            if persons.size and wide[persons].any():
                own = int(of_person[persons[0]])
                yield persons, np.sort(kinds_in_order[ends[own] - sizes[own] : ends[own]])

    def alone(self, wide: BoolArray, low: FloatArray) -> FloatArray:
        """Persons × values asked: what remains at least of one row, if all others are known, in numbers not
        all of whose noise is Gaussian noise; 0 of others. Those with the least ends first.
        """
        lower = np.zeros((len(self.kinds), len(self.asked)))
        single = np.where(self.kinds >= 0, self.times, 0).sum(axis=1) == 1
        known: dict[tuple[PrivacyLosses, ...], FloatArray] = {}
        order = np.argsort(low, kind="stable")
        order = order[(wide & single)[order]] if np.any(self.rows.laws != GAUSSIAN) else order[:0]
        for person in order[:_MOST_PERSONS].tolist():
            losses = self.rows.losses(int(self.kinds[person, 0]))
            if losses is None:
                continue
            key = tuple(losses.values())
            if key not in known:
                if len(known) * len(key) > _MOST_LOSSES:
                    break
                known[key] = left_of_values(losses, self.rows.chances)
            lower[person] = known[key][list(self.asked)]
        return lower * self.share

    def by_genies(self, wide: BoolArray) -> FloatArray:
        """Persons × values asked: what remains at least, of those who are asked for; 0 of others."""
        lower = np.zeros((len(self.kinds), len(self.asked)))
        known: dict[bytes, FloatArray] = {}
        for listed, chosen in self.systems(wide):
            position = np.full(self.rows.counts.size, -1)
            position[listed] = np.arange(listed.size)
            places = np.where(self.kinds[chosen] >= 0, position[self.kinds[chosen]], -1)
            key = self.rows.key_of(listed) + places.tobytes() + self.times[chosen].tobytes()
            if key not in known:
                known[key] = self._by_one_system(listed, places, self.times[chosen])
            lower[chosen] = np.maximum(lower[chosen], known[key])
        return lower * self.share

    def systems(self, wide: BoolArray) -> Iterator[tuple[IndexArray, IndexArray]]:
        """Kinds of rows that are looked at together, and the persons among them of whom some are wide."""
        for persons, kinds in self.components(wide):
            for chosen in self._systems(persons, wide):
                listed = np.unique(self.kinds[chosen]) if chosen.size < persons.size else kinds
                yield listed[listed >= 0], chosen

    def _systems(self, persons: IndexArray, wide: BoolArray) -> list[IndexArray]:
        """Persons of a component who are looked at together: all, or those with nearly the same numbers."""
        pairs = math.comb(self.rows.chances.size, 2)
        most = max(1, _MOST_GENIES // pairs)
        listed = np.unique(self.kinds[persons])
        of_system = np.bincount(self.rows.by_numbers[listed[listed >= 0]])  # kinds in one linear system
        if of_system.max(initial=0) <= most and np.count_nonzero(of_system) <= _MOST_APART:
            return [persons]
        first = self.rows.rows[self.kinds[persons, 0], -1]
        order = persons[np.lexsort(np.sort(first, axis=1).T[::-1])]
        group = np.cumsum(np.count_nonzero(self.kinds[order] >= 0, axis=1)) // most
        systems = np.split(order, np.flatnonzero(np.diff(group)) + 1)
        return [one for one in systems if wide[one].any()][:_MOST_SYSTEMS]

    def _by_one_system(self, kinds: IndexArray, places: IndexArray, times: IndexArray) -> FloatArray:
        """The bounds of persons whose rows are at some places among the kinds.

        Rows that no chain of numbers connects have a system each: of a person the least one counts.
        """
        lower = np.full((len(places), len(self.asked)), np.inf)
        of_kind = self.rows.by_numbers[kinds]
        of_place = np.where(places >= 0, of_kind[places], -1)
        known: dict[bytes, Genies] = {}
        for component in np.unique(of_kind).tolist():
            members = kinds[of_kind == component]
            inside = of_place == component
            position = np.cumsum(of_kind == component) - 1
            key = self.rows.key_of(members)
            if key not in known:
                known[key] = self._genies(members)
            sizes = np.count_nonzero(inside, axis=1)
            for size in np.unique(sizes[sizes > 0]).tolist():
                alike = np.flatnonzero(sizes == size)
                chosen = position[places[alike][inside[alike]].reshape(-1, size)]
                often = times[alike][inside[alike]].reshape(-1, size)
                at_a_time = max(1, _ENTRIES // (size**2 * math.comb(self.rows.chances.size, 2)))
                for start in range(0, alike.size, at_a_time):
                    some = slice(start, start + at_a_time)
                    for column, value in enumerate(self.asked):
                        left = known[key].of_persons(value, chosen[some], often[some])
                        lower[alike[some], column] = np.minimum(lower[alike[some], column], left)
        return np.where(np.isfinite(lower), lower, 0.0)

    def _genies(self, kinds: IndexArray) -> Genies:
        """Those of some kinds of rows, in numbers with Gaussian noise; others must not change."""
        table, law = self.rows.answers(kinds)
        still = table[:, :, law != GAUSSIAN]
        usable = np.all(still[:, :, None] == still[:, None], axis=3)
        return Genies(
            columns=table[:, :, law == GAUSSIAN],
            chances=self.rows.chances,
            counts=self.rows.counts[kinds],
            usable=usable.astype(np.float64),
        )

    def by_moves(
        self, wide: BoolArray, low: FloatArray, *, limit: float = np.inf, least: bool = False
    ) -> FloatArray:
        """The same by moves of several rows, of persons with few rows: those with the least ends first.

        All of them below the limit, and a few more; or, if only the least end is asked for, as many as it
        takes until the least is of one who was looked at.
        """
        lower, now = np.zeros((len(self.kinds), len(self.asked))), low.copy()
        sizes = np.where(self.kinds >= 0, self.times, 0).sum(axis=1)
        order = np.argsort(low, kind="stable")
        order = order[(wide & (sizes <= _FEW_ROWS))[order]][:_MOST_PERSONS]
        order = order[: max(_ALWAYS, int(np.count_nonzero(low[order] < limit)))]
        order = order[: _FOR_THE_LEAST if least else None]
        step = _ALWAYS if least else max(1, order.size)
        for start in range(0, order.size, step):
            some = order[start : start + step]
            lower[some] = self._by_moves(some, sizes)[some] * self.share
            now[some] = np.maximum(now[some], lower[some].min(axis=1))
            if least and now[order[: start + step]].min() <= now.min():
                break
        return lower

    def _by_moves(self, some: IndexArray, sizes: IndexArray) -> FloatArray:
        """Persons × values asked, of some of them."""
        lower = np.zeros((len(self.kinds), len(self.asked)))
        asked = np.zeros(len(self.kinds), dtype=np.bool_)
        asked[some] = True
        for persons, kinds in self.components(asked):
            for near, together in self._nearby(persons[asked[persons]], kinds):
                for size in np.unique(sizes[together]).tolist():
                    alike = together[sizes[together] == size]
                    for start in range(0, alike.size, _AT_A_TIME):
                        part = alike[start : start + _AT_A_TIME]
                        lower[part] = near.left(self.kinds[part], self.times[part], self.asked)
        return lower

    def _nearby(self, persons: IndexArray, kinds: IndexArray) -> Iterator[tuple[_Nearby, IndexArray]]:
        """Persons with the kinds of rows around theirs: all of the component, or those that sorting by their
        numbers puts next to them.
        """
        most = _MOST_COLUMNS // self.rows.chances.size
        if kinds.size <= most:
            yield self._nearby_kinds(kinds), persons
            return
        order = kinds[np.lexsort(np.sort(self.rows.rows[kinds, -1], axis=1).T[::-1])]
        rank = np.empty(self.rows.counts.size, dtype=np.intp)
        rank[order] = np.arange(order.size)
        persons = persons[np.argsort(rank[self.kinds[persons, 0]], kind="stable")]
        for start in range(0, persons.size, _AT_A_TIME):
            some = persons[start : start + _AT_A_TIME]
            listed = np.unique(self.kinds[some])
            first = int(rank[self.kinds[some[0], 0]])
            around = order[max(0, first - most // 4) : first + most // 4]
            yield self._nearby_kinds(np.union1d(around, listed[listed >= 0])), some

    def _nearby_kinds(self, kinds: IndexArray) -> _Nearby:
        table, scale, law = self.rows.answers_and_scales(kinds)
        whole = np.all((table == np.rint(table)) & (np.abs(table) < _WHOLE), axis=(0, 1))
        # Whoever changes such a number by one or more is told by it: it is as good as exact.
        still = (law >= GEOMETRIC) | ((law == GAUSSIAN) & whole & (scale**2 > MOST_TOLD))
        return _Nearby(
            kinds=kinds,
            gaussian=(table * scale)[:, :, ~still & (law == GAUSSIAN)],
            laplace=(table * scale)[:, :, law == LAPLACE],
            still=table[:, :, still],
            counts=self.rows.counts[kinds],
            chances=self.rows.chances,
        )


@frozen(slots=False)
class _Nearby:
    """Kinds of rows among which those are looked for that can stand in for others."""

    kinds: IndexArray
    gaussian: FloatArray  # kinds × values × numbers with Gaussian noise
    laplace: FloatArray  # … × numbers with Laplace noise
    still: FloatArray  # … × numbers with other noise, or none: no move changes them
    counts: FloatArray
    chances: FloatArray

    @cached_property
    def _products(self) -> tuple[FloatArray, FloatArray]:
        """(Kinds · values + 1)²: products of columns, with zeros for no row; and those of other numbers."""
        columns = len(self.kinds) * self.chances.size
        products = np.zeros((2, columns + 1, columns + 1))
        for into, table in zip(products, (self.gaussian, self.still), strict=True):
            lines = table.reshape(columns, -1)
            into[:-1, :-1] = lines @ lines.T
        return products[0], products[1]

    @cached_property
    def _laplace_columns(self) -> FloatArray:
        """(Kinds · values + 1) × numbers with Laplace noise."""
        lines = self.laplace.reshape(len(self.kinds) * self.chances.size, -1)
        return np.concatenate([lines, np.zeros((1, lines.shape[1]))])

    @cached_property
    def _gram(self) -> FloatArray:
        """Kinds × kinds: products of what the values of two rows change; other numbers count much."""
        lines = np.concatenate([self.gaussian, self.laplace, 1e4 * self.still], axis=2)
        lines = (lines - lines.mean(axis=1, keepdims=True)).reshape(len(self.kinds), -1)
        return np.asarray(2 * lines @ lines.T)

    @cached_property
    def _apart(self) -> FloatArray:
        """Kinds × kinds: how much more one of two rows changes than the other."""
        size = np.diagonal(self._gram)
        return np.asarray(size[:, None] + size - 2 * self._gram)

    @cached_property
    def _ranked(self) -> FloatArray:
        """The same in whole steps, so that rounding does not order what is equally near: then more noise on
        all numbers takes the same rows.
        """
        return np.asarray(np.rint(self._apart * (_STEPS / self._seen.max(initial=_LEAST))))

    @cached_property
    def _seen(self) -> FloatArray:
        """Of every kind what its row changes of numbers that a move may change."""
        lines = np.concatenate([self.gaussian, self.laplace], axis=2)
        return np.asarray(2 * np.square(lines - lines.mean(axis=1, keepdims=True)).sum(axis=(1, 2)))

    @cached_property
    def _held_by_others(self) -> BoolArray:
        """Of every kind whether its row by itself changes a number that no move may change."""
        return np.asarray(np.ptp(self.still, axis=1).any(axis=1))

    @cached_property
    def _whole(self) -> bool:
        """Whether products of columns of other numbers are exact."""
        return bool(
            np.all(self.still == np.rint(self.still)) and np.abs(self.still).max(initial=0.0) < _WHOLE
        )

    def left(self, kinds: IndexArray, times: IndexArray, asked: range) -> FloatArray:
        """Persons × values asked: what remains at least, of persons with as many rows each."""
        values, size = self.chances.size, int(np.where(kinds[0] >= 0, times[0], 0).sum())
        first = np.searchsorted(self.kinds, kinds[:, 0])
        well = size == 1 and bool(np.any(self._gram[first, first] > _SEEN_WELL))
        others = (_MOST_MOVES // (values - 1) - size) // (1 + size)
        others = int(np.clip(others, 3, 3 * _MOST_RECTANGLES if well else _MOST_OTHERS))
        rows_in_all = int(min(self.counts.sum(), _ALL_ROWS + 1))
        by_themselves = _BY_THEMSELVES
        if rows_in_all <= _ALL_ROWS:
            others = max(others, rows_in_all - size)
            by_themselves = others
        rectangles = others // 3 if well else 0
        local = [self._local(own, count, others, rectangles) for own, count in zip(kinds, times, strict=True)]
        rows = np.array([line for line, _ in local])
        places = np.minimum(rows[:, :, None] * values, len(self.kinds) * values)
        kept = (rows < len(self.kinds))[:, :, None]
        lower = np.zeros((len(kinds), len(asked)))
        known: dict[bytes, float] = {}  # of many categories all have the same numbers but for their names
        for column, value in enumerate(asked):
            order = np.array([value, *(other for other in range(values) if other != value)])
            chances = tuple(self.chances[order].tolist())
            table = moves_about(size, others, rectangles, chances, by_themselves=by_themselves)
            columns = np.where(kept, places + order, len(self.kinds) * values).reshape(len(kinds), -1)
            seen, other = (products[columns[:, :, None], columns[:, None]] for products in self._products)
            there = np.all((table.held[0] < 0) | (rows < len(self.kinds))[:, None], axis=2)
            corners = np.arange(rectangles)[None] < np.array([[number] for _, number in local])
            there[:, table.rectangles] &= np.tile(corners, values - 1)
            if self.still.shape[2]:
                changed = np.einsum("mi,pij,mj->pm", table.changes, other, table.changes, optimize=True)
                there &= (changed == 0) & self._whole
            away = self._laplace_columns[columns]
            away = away[:, :, np.any(away != 0, axis=(0, 1))]
            keys = [b"".join(one.tobytes() for one in own) for own in zip(seen, away, there, strict=True)]
            new = [place for place, key in enumerate(keys) if key not in known]
            rounding = gamma(self.gaussian.shape[2] + 8 * values)
            ends = table.left(seen[new], away[new], there[new], rounding).tolist()
            for place, end in zip(new, ends, strict=True):
                known[keys[place]] = end
            lower[:, column] = [known[key] for key in keys]
        return lower

    def _local(
        self, kinds: IndexArray, times: IndexArray, others: int, rectangles: int
    ) -> tuple[IndexArray, int]:
        """The rows of a person and those near them, first those of rectangles; and how many of these."""
        position, count = np.searchsorted(self.kinds, kinds[kinds >= 0]), times[kinds >= 0]
        left = self.counts.copy()
        left[position] -= count
        apart = np.where(left > 0, self._ranked[position].min(axis=0), np.inf)
        order = np.argsort(apart, kind="stable")[:others]
        order = order[left[order] > 0]
        chosen: list[int] = []
        if rectangles and order.size > 1:
            corners = np.lexsort((-left, apart))[:_CORNERS]  # of those equally near the kinds of most people
            chosen = self._rectangles(int(position[0]), corners[left[corners] > 0], left, rectangles)
        nearest = np.repeat(order, np.minimum(left[order], others).astype(np.intp))
        rows = np.concatenate([np.repeat(position, count), chosen, nearest]).astype(np.intp)
        size = int(count.sum()) + others
        return np.append(rows, np.full(size, len(self.kinds)))[:size], len(chosen) // 3

    def _rectangles(self, target: int, near: IndexArray, left: FloatArray, most: int) -> list[int]:
        """Rows p, q, s of disjoint rectangles, of which noise sees p + q − s − target least."""
        first, second = np.triu_indices(near.size)
        p, q, gram = near[first], near[second], self._gram
        size = np.diagonal(gram)
        sums = gram[p] + gram[q] - gram[target]  # products with p + q − target
        length = sums[np.arange(p.size), p] + sums[np.arange(p.size), q] - sums[:, target]
        apart = length[:, None] + size - 2 * sums
        apart[:, [target]] = np.inf
        apart[:, left <= 0] = np.inf
        ranks = np.rint(apart.ravel() * (_STEPS / self._seen.max(initial=_LEAST)))
        enough = min(8 * most, ranks.size) - 1
        best = np.flatnonzero(ranks <= np.partition(ranks, enough)[enough])
        pairs, corners = np.divmod(best, size.size)
        three = np.stack([p[pairs], q[pairs], corners])
        # Of those that are seen as little first the ones of near rows, which can stand in for the target by
        # themselves, too; then those whose rows few others need, each with its people.
        near_by = self._ranked[target][three].sum(axis=0)
        needed = (np.bincount(three.ravel(), minlength=left.size) / np.maximum(left, 1.0))[three].sum(axis=0)
        # What noise sees as well as half of the row itself hides little; unless exact numbers see the row.
        most_seen = np.inf if self._held_by_others[target] else self._seen[target] / 2
        chosen: list[int] = []
        for place in best[np.lexsort((np.rint(needed * _STEPS), near_by, ranks[best]))].tolist():
            pair, corner = divmod(place, size.size)
            if apart[pair, corner] > most_seen or len(chosen) == 3 * most:
                break
            rows = [int(p[pair]), int(q[pair]), corner]
            needed = np.array([rows.count(row) for row in rows])
            again = min(int(np.min(left[rows] // needed)), most - len(chosen) // 3)
            if target not in rows and again > 0:
                chosen += rows * again
                left[rows] -= again * needed
        return chosen
