r"""How many people are behind published numbers and their differences, in memory and streamed.

Of every two cells a and b, ``together[a, b]`` is a weight of the people of a whose rows in a are in b, too:
:math:`\sum_p r_{p,ab}/r_{p,a}` over the people p with :math:`r_{p,a}` rows in a. Where everyone has one row
it is how many people are in both. ``together[a, a]`` is always how many people are in a, and
``together[a, a] - together[a, b]`` is at most how many have a row in a that is not in b.

A *mark* is a pseudo-random number of a signature. The sums of marks over cells tell combinations apart
without a list of their signatures.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sightline.arrays import FloatArray, IndexArray
from sightline.tables.collect import CountedTable
from sightline.tables.encoding import SignatureCells
from sightline.tables.engines.protocol import Arrays, Engine, SignatureBatch
from sightline.tables.membership import Membership
from sightline.tables.streamed import BatchTables, StreamedTable

Marks = NDArray[np.uint64]
MOST_COMPARED = 4_000  # cells: a table of all pairs of them takes 128 MB
_ENTRIES = 1 << 22  # of combinations that are counted at a time
_DIGITS = 9  # of a sum of shares: the order in which people are added up must not change which is largest


def people_in_cells(membership: Membership) -> IndexArray:
    """How many people have a row in each cell."""
    table = membership.persons
    if table is None:
        return np.array([cell.rows for cell in membership.cells], dtype=np.intp)
    found = np.zeros(len(membership.cells), dtype=np.intp)
    for p, first in enumerate(membership.starts[:-1].tolist()):
        pairs = membership.rows_in_cells(p)
        np.add.at(found, first + pairs.cell, table.persons[pairs.record])
    return found


class PeopleBehind(Protocol):
    """Who is behind combinations of cells: the first is added, the others are subtracted."""

    @property
    def together(self) -> FloatArray:
        """Of every two cells, the weight of the people of the first in both."""

    @property
    def marks(self) -> Marks:
        """Of every cell, the sum of the marks of its signatures, modulo 2^64."""

    @property
    def least(self) -> float:
        """The least weight that a row may have."""

    @property
    def sizes(self) -> IndexArray:
        """How many people have a row in each cell."""

    def people(self, combinations: IndexArray) -> IndexArray:
        """Of combinations (one a line), the people with a row whose coefficient is not zero."""


@dataclass(frozen=True, kw_only=True, eq=False)
class PeopleInMemory:
    """The people behind the cells of a membership that lists all signatures."""

    membership: Membership

    @cached_property
    def _entries(self) -> tuple[IndexArray, IndexArray, IndexArray, IndexArray]:
        """Kinds of people with their rows: kind, signature and rows of each; and the people of each kind."""
        table = self.membership.persons
        if table is None:
            every = np.arange(len(self.membership.counts))
            return every, every, np.ones_like(every), self.membership.counts
        return table.kind_of, table.signatures, table.rows, table.persons

    @property
    def kinds(self) -> IndexArray:
        """How many people are of each kind."""
        return self._entries[3]

    @cached_property
    def _inside(self) -> Any:
        """Signatures × cells: which are in which, by columns."""
        inside = incidence(self.membership.signatures.T, np.diff(self.membership.starts))
        return sparse.csc_array(inside.astype(np.int8))

    @cached_property
    def rows(self) -> Any:
        """Kinds × signatures: whose rows they are."""
        kind, signature, _, persons = self._entries
        shape = persons.size, len(self.membership.counts)
        return sparse.csr_array((np.ones(kind.size, dtype=np.int32), (kind, signature)), shape=shape)

    @cached_property
    def together(self) -> FloatArray:
        kind, signature, rows, persons = self._entries
        widths = np.diff(self.membership.starts)
        cells = self.membership.signatures.T[:, signature]
        weights = np.empty(cells.shape)
        for own, line in zip(weights, cells, strict=True):
            place = np.unique(kind * (np.intp(line.max(initial=0)) + 2) + line + 1, return_inverse=True)[1]
            own[:] = persons[kind] * rows / np.bincount(place.ravel(), rows)[place.ravel()]
        found = (incidence(cells, widths, weights).T @ incidence(cells, widths)).toarray()
        return np.asarray(np.round(found, _DIGITS), dtype=np.float64)

    @cached_property
    def marks(self) -> Marks:
        return np.asarray(self._inside.astype(np.uint64).T @ marks_of(self.membership.signatures.T))

    @property
    def least(self) -> float:
        return 1.0 / max(1, self.membership.contributions)

    @property
    def sizes(self) -> IndexArray:
        return people_in_cells(self.membership)

    def people(self, combinations: IndexArray) -> IndexArray:
        parts = [behind.T @ self.kinds for _, _, behind in self.behind(combinations)]
        return np.concatenate([np.zeros(0, dtype=np.intp), *parts]).astype(np.intp)

    def behind(self, combinations: IndexArray) -> Iterator[tuple[slice, Any, Any]]:
        """Some combinations at a time: their coefficients (signatures × combinations), and who is behind them
        (kinds × combinations), by columns.
        """
        step = max(1, _ENTRIES // max(1, self._inside.shape[0]))
        for start in range(0, len(combinations), step):
            some = slice(start, start + step)
            first, *others = combinations[some].T
            coefficients = self._inside[:, first]
            for other in others:
                coefficients = coefficients - self._inside[:, other]
            coefficients.eliminate_zeros()
            behind = (self.rows @ (coefficients != 0).astype(np.int32)) > 0
            yield some, coefficients, behind.astype(np.intp)


@dataclass(frozen=True, kw_only=True, eq=False)
class PeopleInStore:
    """The same of a table that is streamed, by passes over its signatures, or over persons and their rows."""

    table: StreamedTable

    @cached_property
    def _passed(self) -> Arrays:
        reduction = _Overlaps(cells=self.table.cells)
        return self.table.store.run(reduction, "comparing the numbers")

    @cached_property
    def together(self) -> FloatArray:
        if self.table.persons is not None:
            found = self._of_persons(None)["together"]
            return np.asarray(np.round(found, _DIGITS), dtype=np.float64)
        return self._passed["together"].astype(np.float64)

    def _of_persons(self, combinations: IndexArray | None) -> Arrays:
        assert self.table.persons is not None
        reduction = _OfPersons(batches=self.table.batches, combinations=combinations)
        return self.table.persons.run(reduction, "comparing the numbers")

    @property
    def marks(self) -> Marks:
        return self._passed["marks"]

    @property
    def least(self) -> float:
        return 1.0 / max(1, self.table.membership.contributions)

    @property
    def sizes(self) -> IndexArray:
        if self.table.persons is None:
            return people_in_cells(self.table.membership)
        return self.people(np.arange(len(self.table.membership.cells))[:, None])

    def people(self, combinations: IndexArray) -> IndexArray:
        r"""By inclusion and exclusion: :math:`n_a + n_b + n_c - 2n_{ab} - 2n_{ac} - n_{bc} + 3n_{abc}`.

        Persons with several rows are counted one by one.
        """
        if self.table.persons is not None:
            return np.asarray(self._of_persons(combinations)["people"], dtype=np.intp)
        n = self._passed["together"].astype(np.intp)
        a, *others = combinations.T
        found = n[a, a] + sum(n[b, b] - 2 * n[a, b] for b in others)
        if len(others) == 2 and len(combinations):
            reduction = _InThree(cells=self.table.cells, wanted=np.sort(combinations, axis=1))
            three = self.table.store.run(reduction, "comparing three numbers")["rows"]
            found = found - n[others[0], others[1]] + 3 * three
        return np.asarray(found, dtype=np.intp)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Contributions:
    """What each person adds to the sum over a signature: of their rows with it. For the owner only."""

    person: IndexArray  # a number of the person, from 0
    signature: IndexArray
    value: FloatArray


def contributions(engine: Engine, counted: CountedTable) -> Contributions:
    """Fetch the sum of every person's secrets, clipped to the bounds, over their rows with each signature."""
    ranked = counted.ranked(f"CAST({counted.value} AS DOUBLE) AS v")
    person = "DENSE_RANK() OVER (ORDER BY r) - 1"
    answer = engine.fetch(f"SELECT {person} AS p, s, SUM(v) AS v FROM ({ranked}) AS ranked GROUP BY r, s")
    return Contributions(
        person=answer["p"].astype(np.intp),
        signature=answer["s"].astype(np.intp),
        value=answer["v"].astype(np.float64),
    )


def incidence(cells: NDArray[Any], widths: IndexArray, weights: FloatArray | None = None) -> Any:
    """Rows × cells, from the cell of every row in each partition (partitions × rows; -1 for none)."""
    first, there = np.cumsum(widths) - widths, (cells >= 0).T
    column = (cells + first[:, None]).T[there]
    entries = np.ones(column.size, dtype=np.int64) if weights is None else weights.T[there]
    ends = np.concatenate([[0], np.cumsum(there.sum(axis=1))])
    return sparse.csr_array((entries, column, ends), shape=(cells.shape[1], int(widths.sum())))


def marks_of(cells: NDArray[Any]) -> Marks:
    """A pseudo-random number for every signature, from its cell in each partition: steps of splitmix64."""
    mark = np.zeros(cells.shape[1], dtype=np.uint64)
    for line in cells:
        mark = mark + (line.astype(np.uint64) + np.uint64(2)) * np.uint64(0x9E3779B97F4A7C15)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            mark = (mark ^ (mark >> np.uint64(shift))) * np.uint64(factor)
        mark ^= mark >> np.uint64(31)
    return mark


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Overlaps:
    """A pass: the rows that every two cells have in common, and the sum of the marks in each cell."""

    cells: SignatureCells

    def of_batch(self, batch: SignatureBatch) -> Arrays:
        table = self.cells.table(batch.words)
        inside = incidence(table, self.cells.widths)
        counted = inside.multiply(batch.counts[:, None]).astype(np.int64)
        marks = np.asarray(inside.astype(np.uint64).T @ marks_of(table))
        if marks.size > MOST_COMPARED:
            return {"marks": marks}
        return {"together": (sparse.csr_array(counted).T @ inside).toarray(), "marks": marks}

    def merged(self, first: Arrays, second: Arrays) -> Arrays:
        return {name: first[name] + second[name] for name in first}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _OfPersons:
    """A pass over persons, of whom a batch has all rows: what every two cells have in common, or how many
    people are behind some combinations.
    """

    batches: BatchTables
    combinations: IndexArray | None

    def of_batch(self, batch: SignatureBatch) -> Arrays:
        own = PeopleInMemory(membership=self.batches.of(batch)[0])
        if self.combinations is None:
            return {"together": own.together}
        return {"people": own.people(self.combinations)}

    def merged(self, first: Arrays, second: Arrays) -> Arrays:
        return {name: first[name] + second[name] for name in first}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _InThree:
    """A pass: the rows that are in all three of some cells, which are in order on each line."""

    cells: SignatureCells
    wanted: IndexArray  # (combinations, 3)

    def of_batch(self, batch: SignatureBatch) -> Arrays:
        table, widths = self.cells.table(batch.words), self.cells.widths
        ends = np.cumsum(widths)
        part = np.searchsorted(ends, self.wanted, side="right")
        own = self.wanted - (ends - widths)[part]
        rows = np.zeros(len(self.wanted), dtype=np.int64)
        for parts in np.unique(part, axis=0):
            if np.unique(parts).size < 3:
                continue  # cells of one partition have no row in common
            mine = np.flatnonzero((part == parts).all(axis=1))
            inside = (table[parts] >= 0).all(axis=0)
            sizes = tuple(widths[parts].tolist())
            codes = np.ravel_multi_index(tuple(table[parts][:, inside]), sizes)
            asked, place = np.unique(np.ravel_multi_index(tuple(own[mine].T), sizes), return_inverse=True)
            at = np.minimum(np.searchsorted(asked, codes), asked.size - 1)
            hit = asked[at] == codes
            found = np.bincount(at[hit], batch.counts[inside][hit], asked.size).astype(np.int64)
            rows[mine] = found[place.ravel()]
        return {"rows": rows}

    def merged(self, first: Arrays, second: Arrays) -> Arrays:
        return {"rows": first["rows"] + second["rows"]}
