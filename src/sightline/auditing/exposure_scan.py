"""The last pass over the records of a streamed table: counts of all, and those worth a closer look."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.arrays import FloatArray
from sightline.auditing.pricing import at_least_by_noise
from sightline.auditing.record_costs import CellCosts
from sightline.auditing.streamed_units import BatchUnits
from sightline.errors import TooMuchWork
from sightline.labeled.other_units import with_alike
from sightline.labeled.unit_brackets import UnitBrackets
from sightline.labeled.units import Units
from sightline.tables.encoding import PackedCodes
from sightline.tables.engines.protocol import Arrays, SignatureBatch
from sightline.tables.membership import Membership
from sightline.tables.streamed import first_in_order

# Of a record and of each of its signatures, what is kept: arrays over records, and over their lines.
_OF_RECORDS = ("lower", "upper", "near", "cost", "error", "unknown", "persons", "sizes", "group", "first")
_OF_LINES = ("counts", "known", "line_known", "line_rows")
_COUNTED = ("histogram", "below", "rest")
MOST_LINES = 4_000_000  # signatures of persons that are kept for how little remains: half a gigabyte


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExposureScan:
    """Counts over all unknown records, and the records that are worth a closer look.

    Kept are those that may be identifiable, the ``most`` of which the least may remain, of those tied for the
    least the one with the least upper end, the one that pays most of the budget, and those that are asked
    for. The counts are of the records that are not kept.
    """

    made: BatchUnits
    brackets: UnitBrackets
    most: int
    edges: FloatArray  # of the histogram of lower ends
    limit: float  # of the remaining uncertainty; minus infinity without one
    costs: CellCosts  # of the budget
    moves: CellCosts  # how far one row in a cell moves its number, in squared units of the noise
    always: PackedCodes  # (words × signatures) that are kept whatever they are

    def of_batch(self, batch: SignatureBatch) -> Arrays:
        membership, words, units, place = self.made.of(batch)
        found = _records(membership, words)
        count = found["sizes"].size
        # A record that the attacker knows all rows of is nobody's exposure, but it may pay most.
        lower, upper, error = np.full(count, np.inf), np.full(count, np.inf), np.zeros(count)
        near, some = np.zeros(count, dtype=np.bool_), np.flatnonzero(place >= 0)
        if len(units):
            moved = np.zeros(len(units))
            np.maximum.at(moved, place[some], self.moves.by_record(membership)[some])
            seen = self._seen(units, moved)
            lower[some], upper[some], error[some], near[some] = (
                seen[name][place[some]] for name in ("lower", "upper", "error", "near")
            )
        if membership.persons is None:  # what persons pay is asked of all of them
            near |= _among(words, self.always)
            found["cost"] = self.costs.by_record(membership)
        found["first"] = np.zeros(count, dtype=np.bool_)
        found["first"][np.unique(place, return_index=True)[1]] = True  # of the records of one unit
        found["unknown"] = np.where(place >= 0, found["unknown"], 0)
        found |= {"lower": lower, "upper": upper, "error": error, "near": near}
        return self._kept(found, self._no_rest())

    def _seen(self, units: Units, moved: FloatArray) -> Mapping[str, NDArray[Any]]:
        """What is seen of every unit."""
        seen = self.brackets.merged([self.brackets.of_block(block) for block in units.every_block()])
        lower = with_alike(units, self.brackets.solver.noise, seen["lower"], seen["upper"])
        lower = at_least_by_noise(lower, seen["upper"], moved)
        error, near = seen["error"].max(axis=1), seen["near"]
        return {"lower": lower.min(axis=1), "upper": seen["upper"].min(axis=1), "error": error, "near": near}

    def merged(self, first: Arrays, second: Arrays) -> Arrays:
        both: dict[str, NDArray[Any]] = {
            name: np.concatenate([first[name], second[name]]) for name in (*_OF_RECORDS, *_OF_LINES)
        }
        both["words"] = np.concatenate([first["words"], second["words"]], axis=1)
        rest: dict[str, NDArray[Any]] = {name: first[name] + second[name] for name in _COUNTED}
        rest["largest_error"] = np.maximum(first["largest_error"], second["largest_error"])
        rest["least_left"] = np.minimum(first["least_left"], second["least_left"])
        return self._kept(both, rest)

    def _kept(self, own: Arrays, rest: Arrays) -> Arrays:
        """The records that stay, and the counts of the others added to those so far."""
        lower, sizes = own["lower"], own["sizes"]
        chosen = own["near"].copy()
        first = own["words"][:, np.cumsum(sizes) - sizes]
        if lower.size:
            chosen[first_in_order(first, np.flatnonzero(own["cost"] == own["cost"].max()))] = True
            # Numbers of those near identifiability are refined later: they take no place of others.
            worst = np.flatnonzero(np.isfinite(lower) & ~own["near"])
            if worst.size > self.most or sizes[worst].sum() > MOST_LINES:
                least = worst[lower[worst] == lower[worst].min(initial=np.inf)]
                least = least[own["upper"][least] == own["upper"][least].min(initial=np.inf)]
                chosen[first_in_order(first, least)] = True
                limit = np.partition(lower[worst], min(self.most, worst.size) - 1)[: self.most].max(initial=0)
                worst = worst[lower[worst] <= limit]
                order = np.lexsort((own["group"][worst], *first[::-1, worst], lower[worst]))[: self.most]
                worst = worst[order]
                worst = worst[np.cumsum(sizes[worst]) <= MOST_LINES]
            chosen[worst] = True
            # Persons with the same unknown rows are one unit: all of them stay, or none.
            chosen |= np.isin(own["group"], own["group"][chosen & (own["group"] > 0)])
        self._check(own, chosen)
        left = ~chosen & np.isfinite(lower)
        people = own["unknown"][left]
        below = lower[left] < self.limit
        histogram, _ = np.histogram(lower[left], bins=self.edges, weights=people)
        lines = np.repeat(chosen, sizes)
        return {
            **{name: own[name][chosen] for name in _OF_RECORDS},
            **{name: own[name][lines] for name in _OF_LINES},
            "words": own["words"][:, lines],
            "histogram": rest["histogram"] + histogram.astype(np.int64),
            "below": rest["below"]
            + np.array([np.count_nonzero(below & own["first"][left]), people[below].sum()]),
            "rest": rest["rest"] + np.array([np.count_nonzero(~chosen), people.sum()]),
            "largest_error": np.maximum(rest["largest_error"], own["error"][left].max(initial=0.0)),
            "least_left": np.minimum(rest["least_left"], lower[left].min(initial=np.inf)),
        }

    def _check(self, own: Arrays, chosen: NDArray[np.bool_]) -> None:
        """Persons of whom something may be identifiable are all looked at: with many rows, not too many."""
        lines = int(own["sizes"][chosen].sum())
        if lines > 4 * MOST_LINES and int(own["sizes"].max()) > 1:
            raise TooMuchWork(
                f"expected records with up to {4 * MOST_LINES:,} kinds of rows of whom something may be "
                f"identifiable, got {lines:,} of a table that is streamed; allow more with max_memory"
            )

    def _no_rest(self) -> Arrays:
        return {
            "histogram": np.zeros(self.edges.size - 1, dtype=np.int64),
            "below": np.zeros(2, dtype=np.int64),
            "rest": np.zeros(2, dtype=np.int64),
            "largest_error": np.zeros(1),
            "least_left": np.full(1, np.inf),
        }


def _records(membership: Membership, words: PackedCodes) -> dict[str, NDArray[Any]]:
    """The records of a batch, and the lines of each: a signature, or the signatures of a kind of person."""
    people = membership.persons
    if people is None:
        count, none = len(membership.counts), membership.counts == 0
        place, known, rows = np.arange(count), none, np.ones(count, dtype=np.intp)
        persons, sizes = membership.counts, np.ones(count, dtype=np.intp)
        unknown, group = membership.counts - membership.known, np.zeros(count, dtype=np.int64)
    else:
        place, known, rows = people.signatures, people.known, people.rows
        persons, sizes, group = people.persons, np.diff(people.starts), people.groups
        unknown = persons
    of_lines = {
        "words": words[:, place],
        "counts": membership.counts[place],
        "known": membership.known[place],
    }
    of_records = {"persons": persons, "sizes": sizes, "unknown": unknown, "group": group}
    return of_lines | of_records | {"line_known": known, "line_rows": rows, "cost": np.zeros(sizes.size)}


def _among(words: PackedCodes, wanted: PackedCodes) -> NDArray[np.bool_]:
    """Which signatures are among some others."""
    found = np.isin(words[0], wanted[0])
    listed = set(map(tuple, wanted.T.tolist()))
    places = np.flatnonzero(found)
    found[places] = [tuple(one) in listed for one in words[:, places].T.tolist()]
    return found
