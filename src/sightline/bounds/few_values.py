"""Lower ends of rows with few values that others hide, by all genies at once.

Each component of a design is looked at by itself, and equal components once: nobody's number depends on
people with whom no chain of numbers connects them. In a component with more kinds of rows than one linear
system holds, persons whose rows are in nearly the same numbers are taken together, and all others count as
known.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from sightline.arrays import COARSE, FloatArray, IndexArray
from sightline.bounds.genies import Genies
from sightline.bounds.value_rows import ValueRows, chances_of
from sightline.numerics.residuals import gamma
from sightline.units.dense_units import MOST_LISTED
from sightline.units.design import Design
from sightline.units.unit_block import BoolArray
from sightline.units.units import Units
from sightline.values import frozen

# Genies in one linear system: 1,200 take 0.6 s. Systems of one component: together some 6 s.
_MOST_GENIES, _MOST_SYSTEMS = 1_200, 10
_MOST_ROWS = 32  # kinds of rows of one person: of more, nothing is said here


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

    def by_genies(self, wide: BoolArray) -> FloatArray:
        """Persons × values asked: what remains at least, of those who are asked for; 0 of others."""
        found = np.zeros((len(self.kinds), len(self.asked)))
        if not self.rows.gaussian.any():
            return found
        known: dict[bytes, FloatArray] = {}
        for persons, kinds in self.components(wide):
            for chosen in self._systems(persons, wide):
                own = np.unique(self.kinds[chosen]) if chosen.size < persons.size else kinds
                own = own[own >= 0]
                position = np.full(self.rows.counts.size, -1)
                position[own] = np.arange(own.size)
                places = np.where(self.kinds[chosen] >= 0, position[self.kinds[chosen]], -1)
                key = self.rows.key_of(own) + places.tobytes() + self.times[chosen].tobytes()
                if key not in known:
                    known[key] = self._by_one_system(own, places, self.times[chosen])
                found[chosen] = np.maximum(found[chosen], known[key])
        return found * self.share

    def _systems(self, persons: IndexArray, wide: BoolArray) -> list[IndexArray]:
        """Persons of a component who are looked at together: all, or those with nearly the same numbers."""
        pairs = math.comb(self.rows.chances.size, 2)
        most = max(1, _MOST_GENIES // pairs)
        sizes = np.count_nonzero(self.kinds[persons] >= 0, axis=1)
        if np.unique(self.kinds[persons]).size - 1 <= most and sizes.sum() <= most:
            return [persons]
        first = self.rows.rows[self.kinds[persons, 0], -1]
        order = persons[np.lexsort(np.sort(first, axis=1).T[::-1])]
        group = np.cumsum(np.count_nonzero(self.kinds[order] >= 0, axis=1)) // most
        systems = np.split(order, np.flatnonzero(np.diff(group)) + 1)
        return [one for one in systems if wide[one].any()][:_MOST_SYSTEMS]

    def _by_one_system(self, kinds: IndexArray, places: IndexArray, times: IndexArray) -> FloatArray:
        """The bounds of persons whose rows are at some places among the kinds."""
        genies = self._genies(kinds)
        found = np.zeros((len(places), len(self.asked)))
        sizes = np.count_nonzero(places >= 0, axis=1)
        for size in np.unique(sizes[sizes > 0]).tolist():
            own = sizes == size
            for column, value in enumerate(self.asked):
                found[own, column] = genies.of_persons(value, places[own, :size], times[own, :size])
        return found

    def _genies(self, kinds: IndexArray) -> Genies:
        """Those of some kinds of rows, in numbers with Gaussian noise; others must not change."""
        rows, noise = self.rows, self.rows.noise
        table, used = rows.columns(kinds)
        gaussian = rows.gaussian[used]
        still = table[:, :, ~gaussian]
        usable = np.all(still[:, :, None] == still[:, None], axis=3)
        # Rounded up, as the information of all numbers is: it hides no less than it is taken for.
        larger = math.sqrt(1 + noise.error + gamma(8 * used.size + 8))
        if noise.shared:
            lines = table.reshape(-1, used.size).T
            white = noise.white(lines).T.reshape(*table.shape[:2], -1)
        else:
            white = table[:, :, gaussian] * np.sqrt(noise.information[used[gaussian]])
        return Genies(
            columns=white * larger,
            chances=rows.chances,
            counts=rows.counts[kinds],
            usable=usable.astype(np.float64),
        )


def with_genies(design: Design, lower: FloatArray, upper: FloatArray) -> FloatArray:
    """Lower ends of units with few values a row, improved by all genies at once where brackets are wide."""
    units, wide = design.units, np.any(upper > lower * (1 + COARSE), axis=1)
    if not 0 < len(units) <= MOST_LISTED or not wide.any() or not chances_of(design.prior).size:
        return lower
    if not isinstance(units, Units):
        units = units.choose(np.arange(len(units)))
    few = FewValues.of(design, units)
    listed = few.person >= 0
    asked = np.zeros(len(few.kinds), dtype=np.bool_)
    asked[few.person[listed & wide]] = True
    found = np.zeros_like(lower)
    found[listed] = few.by_genies(asked)[few.person[listed]]
    return np.maximum(lower, np.minimum(found, upper))
