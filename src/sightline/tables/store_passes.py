"""The passes of an audit over the signatures of a store: cells, and who is exposed.

Each is a :class:`~sightline.tables.signature_store.Reduction`. Sums are of whole numbers that doubles hold
exactly, and ties go by the words of a signature, so that the order of the batches changes no bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.arrays import FloatArray, IndexArray
from sightline.errors import TooMuchWork
from sightline.labeled.unit_brackets import UnitBrackets
from sightline.tables.cell_numbers import DIRECT, Layout, SignatureCells
from sightline.tables.encoding import PackedCodes
from sightline.tables.signature_store import Arrays, SignatureBatch
from sightline.tables.streamed_units import unit_blocks

MOST_CONDITIONS, _MOST_PATTERNS = 62, 10_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CellSizes:
    """How many rows each cell has, and one signature for every set of conditions that rows meet together.

    Signatures in the same partitions differ only in which cells they are in. So what depends on the
    partitions alone, such as how many releases a record is in, is read off these few signatures.
    """

    layouts: tuple[Layout, ...]

    def of_batch(self, batch: SignatureBatch) -> Arrays:
        found: dict[str, NDArray[Any]] = {
            "rows": np.array([batch.counts.sum()]),
            "known": np.array([batch.known.sum()]),
        }
        pattern = np.zeros(len(batch), dtype=np.int64)
        place = 0
        for number, layout in enumerate(self.layouts):
            codes = layout.numbers(batch.words)
            if layout.conditional:
                pattern |= layout.met(codes).astype(np.int64) << np.int64(place)
                place += 1
            if layout.size <= DIRECT:
                found[f"rows{number}"] = np.bincount(codes, batch.counts, layout.size).astype(np.int64)
            else:
                found |= _summed(number, codes, batch.counts)
        return found | _first_of_each(pattern, batch.words, batch.counts, batch.known)

    def merged(self, first: Arrays, second: Arrays) -> Arrays:
        found: dict[str, NDArray[Any]] = {name: first[name] + second[name] for name in ("rows", "known")}
        for number, layout in enumerate(self.layouts):
            if layout.size <= DIRECT:
                found[f"rows{number}"] = first[f"rows{number}"] + second[f"rows{number}"]
            else:
                codes, rows = _joined(first, second, f"codes{number}", f"rows{number}")
                found |= _summed(number, codes, rows)
        pattern, counts, known = _joined(first, second, "pattern", "counts", "known_of")
        words = np.concatenate([first["words"], second["words"]], axis=1)
        merged = _first_of_each(pattern, words, counts, known)
        if merged["pattern"].size > _MOST_PATTERNS:
            raise TooMuchWork(
                f"expected at most {_MOST_PATTERNS:,} sets of conditions that rows meet together, got more; "
                "such a table is not streamed: allow more with max_memory, or publish fewer conditions"
            )
        return found | merged

    def occurring(self, found: Arrays, number: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The codes of one layout that are cells, in order, and how many rows each has."""
        layout, rows = self.layouts[number], found[f"rows{number}"]
        codes = np.flatnonzero(rows) if layout.size <= DIRECT else found[f"codes{number}"]
        rows = rows[codes] if layout.size <= DIRECT else rows
        met = layout.met(codes)
        return codes[met].astype(np.int64), rows[met]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExposureScan:
    """Counts over all unknown records, and the signatures that are worth a closer look.

    Kept are those that may be identifiable, the ``most`` of which the least may remain, of those tied for the
    least the one with the least upper end, the one that pays most of the budget, and those that are asked
    for. The counts are of the signatures that are not kept.
    """

    cells: SignatureCells
    brackets: UnitBrackets
    most: int
    edges: FloatArray  # of the histogram of lower ends
    limit: float  # of the remaining uncertainty; minus infinity without one
    costs: FloatArray  # of each cell, what it costs a record of the budget
    always: PackedCodes  # (words × signatures) that are kept whatever they are

    def of_batch(self, batch: SignatureBatch) -> Arrays:
        table = self.cells.table(batch.words)
        unknown = batch.counts - batch.known
        cost = _sums(table, self.cells.widths, self.costs)
        # A signature that the attacker knows all rows of is nobody's exposure, but it may pay most.
        lower, upper, error = np.full(len(batch), np.inf), np.full(len(batch), np.inf), np.zeros(len(batch))
        near = _among(batch.words, self.always)
        some = np.flatnonzero(unknown > 0)
        blocks = unit_blocks(table[:, some], self.cells.widths, unknown[some])
        if parts := [self.brackets.of_block(block) for block in blocks]:
            seen = self.brackets.merged(parts)
            lower[some], upper[some], error[some] = (
                seen[name].min(axis=1) for name in ("lower", "upper", "error")
            )
            near[some] |= seen["near"]
        kept: dict[str, NDArray[Any]] = {"words": batch.words, "counts": batch.counts, "known": batch.known}
        kept |= {"lower": lower, "upper": upper, "near": near, "cost": cost, "error": error}
        return self._kept(kept, self._no_rest())

    def merged(self, first: Arrays, second: Arrays) -> Arrays:
        names = ("counts", "known", "lower", "upper", "near", "cost", "error")
        kept = dict(zip(names, _joined(first, second, *names), strict=True))
        kept["words"] = np.concatenate([first["words"], second["words"]], axis=1)
        rest: dict[str, NDArray[Any]] = {
            name: first[name] + second[name] for name in ("histogram", "below", "rest")
        }
        rest["largest_error"] = np.maximum(first["largest_error"], second["largest_error"])
        rest["least_left"] = np.minimum(first["least_left"], second["least_left"])
        return self._kept(kept, rest)

    def _kept(self, own: Arrays, rest: Arrays) -> Arrays:
        """The signatures that stay, and the counts of the others added to those so far."""
        lower, count = own["lower"], own["lower"].size
        chosen = own["near"].copy()
        if count:
            chosen[_first(own["words"], np.flatnonzero(own["cost"] == own["cost"].max()))] = True
            # Numbers of those near identifiability are refined later: they take no place of others.
            worst = np.flatnonzero(np.isfinite(lower) & ~own["near"])
            if worst.size > self.most:
                least = worst[lower[worst] == lower[worst].min()]
                least = least[own["upper"][least] == own["upper"][least].min()]
                chosen[_first(own["words"], least)] = True
                limit = np.partition(lower[worst], self.most - 1)[self.most - 1]
                worst = worst[lower[worst] <= limit]
                worst = worst[np.lexsort((*own["words"][::-1, worst], lower[worst]))[: self.most]]
            chosen[worst] = True
        left = ~chosen & np.isfinite(lower)
        rows = (own["counts"] - own["known"])[left]
        below = lower[left] < self.limit
        histogram, _ = np.histogram(lower[left], bins=self.edges, weights=rows)
        return {
            **{name: values[..., chosen] for name, values in own.items()},
            "histogram": rest["histogram"] + histogram.astype(np.int64),
            "below": rest["below"] + np.array([np.count_nonzero(below), rows[below].sum()]),
            "rest": rest["rest"] + np.array([np.count_nonzero(~chosen), rows.sum()]),
            "largest_error": np.maximum(rest["largest_error"], own["error"][left].max(initial=0.0)),
            "least_left": np.minimum(rest["least_left"], lower[left].min(initial=np.inf)),
        }

    def _no_rest(self) -> Arrays:
        return {
            "histogram": np.zeros(self.edges.size - 1, dtype=np.int64),
            "below": np.zeros(2, dtype=np.int64),
            "rest": np.zeros(2, dtype=np.int64),
            "largest_error": np.zeros(1),
            "least_left": np.full(1, np.inf),
        }


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ranks:
    """How many signatures come before each of some others in the order of their words."""

    words: PackedCodes  # (words × signatures), in order

    def of_batch(self, batch: SignatureBatch) -> Arrays:
        # A signature of the batch comes before all that are larger: those after the ones up to it.
        place = np.searchsorted(self.words[0], batch.words[0], side="left")
        after = np.searchsorted(self.words[0], batch.words[0], side="right")
        tied = np.flatnonzero(after > place)
        if tied.size:
            place[tied] = _insertion(self.words, batch.words[:, tied])
        counts = np.bincount(place, minlength=self.words.shape[1] + 1)
        return {"before": np.cumsum(counts)[:-1]}

    def merged(self, first: Arrays, second: Arrays) -> Arrays:
        return {"before": first["before"] + second["before"]}


def _insertion(ordered: PackedCodes, words: PackedCodes) -> IndexArray:
    """For each of some signatures, how many of the ordered ones are up to it: at most as large."""
    size, many = words.shape[1], ordered.shape[1]
    both = np.concatenate([words, ordered], axis=1)
    own = np.repeat([1, 0], [size, many])  # of two equal ones, the ordered one counts first
    order = np.lexsort((own, *both[::-1]))
    place = np.empty(size + many, dtype=np.intp)
    place[order] = np.cumsum(own[order] == 0)
    return place[:size]


def _summed(number: int, codes: NDArray[np.int64], rows: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
    occurring, place = np.unique(codes, return_inverse=True)
    return {
        f"codes{number}": occurring,
        f"rows{number}": np.bincount(place.ravel(), rows, occurring.size).astype(np.int64),
    }


def _first_of_each(
    pattern: NDArray[np.int64], words: PackedCodes, counts: NDArray[np.int64], known: NDArray[np.int64]
) -> dict[str, NDArray[Any]]:
    """Of each pattern the signature that comes first in the order of words."""
    each = [_first(words, np.flatnonzero(pattern == one)) for one in np.unique(pattern)]
    chosen = np.array(each, dtype=np.intp)
    return {
        "pattern": pattern[chosen],
        "words": words[:, chosen],
        "counts": counts[chosen],
        "known_of": known[chosen],
    }


def _first(words: PackedCodes, places: IndexArray) -> int:
    """Of the signatures at some places, that of the least words."""
    for word in words:
        places = places[word[places] == word[places].min()]
    return int(places[0])


def _among(words: PackedCodes, wanted: PackedCodes) -> NDArray[np.bool_]:
    """Which signatures are among some others."""
    found = np.isin(words[0], wanted[0])
    listed = set(map(tuple, wanted.T.tolist()))
    places = np.flatnonzero(found)
    found[places] = [tuple(one) in listed for one in words[:, places].T.tolist()]
    return found


def _joined(first: Arrays, second: Arrays, *names: str) -> Sequence[NDArray[Any]]:
    return [np.concatenate([first[name], second[name]]) for name in names]


def _sums(table: NDArray[np.int32], widths: IndexArray, costs: FloatArray) -> FloatArray:
    """For every signature the sum of a number of its cells."""
    total = np.zeros(table.shape[1])
    for first, width, own in zip(np.cumsum(widths) - widths, widths, table, strict=True):
        total += np.append(costs[first : first + width], 0.0)[own]  # -1 is the last entry
    return total
