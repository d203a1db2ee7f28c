"""The passes of an audit over the signatures of a store: cells, and where signatures are among all.

Each is a :class:`~sightline.tables.signature_store.Reduction`. Sums are of whole numbers that doubles hold
exactly, and ties go by the words of a signature, so that the order of the batches changes no bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.arrays import IndexArray
from sightline.errors import TooMuchWork
from sightline.tables.cell_numbers import DIRECT, Layout
from sightline.tables.encoding import PackedCodes
from sightline.tables.signature_store import Arrays, SignatureBatch

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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Owners:
    """How many persons have a row of each of some signatures that the attacker does not know."""

    words: PackedCodes  # (words × signatures), in order

    def of_batch(self, batch: SignatureBatch) -> Arrays:
        assert batch.lines is not None  # a pass over persons
        place = _insertion(self.words, batch.words) - 1
        listed = np.all(self.words[:, np.maximum(place, 0)] == batch.words, axis=0) & (place >= 0)
        own = listed & ~batch.lines.known
        owners = np.bincount(place[own], batch.lines.persons[own], self.words.shape[1])
        return {"owners": owners.astype(np.int64)}

    def merged(self, first: Arrays, second: Arrays) -> Arrays:
        return {"owners": first["owners"] + second["owners"]}


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
    each = [first_in_order(words, np.flatnonzero(pattern == one)) for one in np.unique(pattern)]
    chosen = np.array(each, dtype=np.intp)
    return {
        "pattern": pattern[chosen],
        "words": words[:, chosen],
        "counts": counts[chosen],
        "known_of": known[chosen],
    }


def first_in_order(words: PackedCodes, places: IndexArray) -> int:
    """Of the signatures at some places, that of the least words."""
    for word in words:
        places = places[word[places] == word[places].min()]
    return int(places[0])


def _joined(first: Arrays, second: Arrays, *names: str) -> Sequence[NDArray[Any]]:
    return [np.concatenate([first[name], second[name]]) for name in names]
