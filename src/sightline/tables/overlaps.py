r"""How many people are behind published numbers and their differences, in memory and streamed.

Of every two cells a and b, ``together[a, b]`` is a weight of the people of a whose rows in a are in b, too:
:math:`\sum_p r_{p,ab}/r_{p,a}` over the people p with :math:`r_{p,a}` rows in a. Where everyone has one row
it is how many people are in both. ``together[a, a]`` is always how many people are in a, and
``together[a, a] - together[a, b]`` is at most how many have a row in a that is not in b.

A *mark* is a pseudo-random number of a signature. The sums of marks over cells tell combinations apart
without a list of their signatures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sightline.arrays import DIGITS, MOST_SQUARE, FloatArray, IndexArray, parts
from sightline.tables.collect import CountedTable
from sightline.tables.engines.protocol import Arrays, Engine, SignatureStore
from sightline.tables.membership import Membership
from sightline.tables.streamed import OfTable, StreamedTable, TablePass
from sightline.values import frozen

Marks = NDArray[np.uint64]
Pass = Callable[[OfTable], Arrays]  # the sum of what is asked of tables that have all rows together


def people_in_cells(membership: Membership) -> IndexArray:
    """How many people have a row in each cell."""
    people = np.zeros(len(membership.cells), dtype=np.intp)
    for p, first in enumerate(membership.starts[:-1].tolist()):
        pairs = membership.rows_in_cells(p)
        np.add.at(people, first + pairs.cell, membership.people[pairs.record])
    return people


@frozen(slots=False)
class PeopleInMemory:
    """The people behind the cells of a membership that lists all signatures, one by one."""

    membership: Membership

    @cached_property
    def _entries(self) -> tuple[IndexArray, IndexArray, IndexArray, IndexArray]:
        """Kinds of people with their rows: kind, signature and rows of each; and the people of each kind."""
        table = self.membership.persons
        if not self.membership.by_person:
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

    @property
    def together(self) -> FloatArray:
        """Of every two cells, the weight of the people of the first in both."""
        kind, signature, rows, persons = self._entries
        widths = np.diff(self.membership.starts)
        cells = self.membership.signatures.T[:, signature]
        weights = np.empty(cells.shape)
        for own, line in zip(weights, cells, strict=True):
            group = np.unique(kind * (np.intp(line.max(initial=0)) + 2) + line + 1, return_inverse=True)[1]
            own[:] = persons[kind] * rows / np.bincount(group.ravel(), rows)[group.ravel()]
        weighted = (incidence(cells, widths, weights).T @ incidence(cells, widths)).toarray()
        return np.asarray(weighted, dtype=np.float64)

    def people(self, combinations: IndexArray) -> IndexArray:
        """Of combinations (one a line), the people with a row whose coefficient is not zero."""
        people = [behind.T @ self.kinds for _, _, behind in self.behind(combinations)]
        return np.concatenate([np.zeros(0, dtype=np.intp), *people]).astype(np.intp)

    def behind(self, combinations: IndexArray) -> Iterator[tuple[slice, Any, Any]]:
        """Some combinations at a time: their coefficients (signatures × combinations), and who is behind them
        (kinds × combinations), by columns.
        """
        for some in parts(len(combinations), each=self._inside.shape[0]):
            first, *others = combinations[some].T
            coefficients = self._inside[:, first]
            if len(others) > 2:  # a product, in place of a difference for each
                lines = np.repeat(np.arange(len(first)), len(others))
                less = sparse.csc_array(
                    (np.ones(lines.size, dtype=np.int8), (combinations[some, 1:].ravel(), lines)),
                    shape=(self._inside.shape[1], len(first)),
                )
                coefficients, others = sparse.csc_array(coefficients - self._inside @ less), []
            for other in others:
                coefficients = coefficients - self._inside[:, other]
            coefficients.eliminate_zeros()
            behind = (self.rows @ (coefficients != 0).astype(np.int32)) > 0
            yield some, coefficients, behind.astype(np.intp)


@frozen(slots=False)
class PeopleBehind:
    """Who is behind combinations of cells, the first added and the others subtracted, by passes over rows.

    Persons with several rows are counted by passes over persons.
    """

    membership: Membership
    over_rows: Pass
    over_persons: Pass

    @classmethod
    def in_memory(cls, membership: Membership) -> PeopleBehind:
        """Of a membership that lists all signatures: a pass is one look at it."""

        def whole(of: OfTable) -> Arrays:
            return of(membership)

        return cls(membership=membership, over_rows=whole, over_persons=whole)

    @classmethod
    def in_store(cls, table: StreamedTable) -> PeopleBehind:
        """Of a table that is streamed."""

        def over(store: SignatureStore) -> Pass:
            return lambda of: store.run(
                TablePass(batches=table.batches, of=of, merge=np.add), "comparing the numbers"
            )

        return cls(membership=table.membership, over_rows=over(table.store), over_persons=over(table.records))

    @cached_property
    def _passed(self) -> Arrays:
        return self.over_rows(_overlaps)

    @property
    def marks(self) -> Marks:
        """Of every cell, the sum of the marks of its signatures, modulo 2^64."""
        return self._passed["marks"]

    @cached_property
    def together(self) -> FloatArray:
        """Of every two cells, the weight of the people of the first in both."""
        if not self.membership.by_person:
            return self._passed["together"].astype(np.float64)
        answer = self.over_persons(lambda table: {"together": PeopleInMemory(membership=table).together})
        # The order in which people are added up must not change which is largest.
        return np.asarray(np.round(answer["together"], DIGITS), dtype=np.float64)

    @property
    def least(self) -> float:
        """The least weight that a row may have."""
        return 1.0 / max(1, self.membership.contributions)

    @property
    def sizes(self) -> IndexArray:
        """How many people have a row in each cell."""
        return np.asarray(self.over_persons(lambda table: {"sizes": people_in_cells(table)})["sizes"])

    def people(self, combinations: IndexArray) -> IndexArray:
        r"""Of combinations (one a line), the people with a row whose coefficient is not zero.

        By inclusion and exclusion: :math:`n_a + n_b + n_c - 2n_{ab} - 2n_{ac} - n_{bc} + 3n_{abc}`.
        Persons with several rows are counted one by one.
        """
        if self.membership.by_person:
            counted = self.over_persons(
                lambda table: {"people": PeopleInMemory(membership=table).people(combinations)}
            )
            return np.asarray(counted["people"], dtype=np.intp)
        n = self._passed["together"].astype(np.intp)
        a, *others = combinations.T
        counts = n[a, a] + sum(n[b, b] - 2 * n[a, b] for b in others)
        if len(others) == 2 and len(combinations):
            wanted = np.sort(combinations, axis=1)
            three = self.over_rows(lambda table: {"rows": _in_three(table, wanted)})["rows"]
            counts = counts - n[others[0], others[1]] + 3 * three
        return np.asarray(counts, dtype=np.intp)


@frozen
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


def _overlaps(membership: Membership) -> Arrays:
    """The rows that every two cells have in common, and the sum of the marks in each cell."""
    cells = membership.signatures.T
    inside = incidence(cells, np.diff(membership.starts))
    marks = np.asarray(inside.astype(np.uint64).T @ marks_of(cells))
    if marks.size > MOST_SQUARE:
        return {"marks": marks}
    counted = inside.multiply(membership.counts[:, None]).astype(np.int64)
    return {"together": (sparse.csr_array(counted).T @ inside).toarray(), "marks": marks}


def _in_three(membership: Membership, wanted: IndexArray) -> IndexArray:
    """The rows that are in all three of some cells (combinations × 3), which are in order on each line."""
    table, starts = membership.signatures.T, membership.starts
    partition = np.searchsorted(starts, wanted, side="right") - 1
    cell = wanted - starts[partition]
    rows = np.zeros(len(wanted), dtype=np.intp)
    for three in np.unique(partition, axis=0):
        if np.unique(three).size < 3:
            continue  # cells of one partition have no row in common
        mine = np.flatnonzero((partition == three).all(axis=1))
        inside = (table[three] >= 0).all(axis=0)
        sizes = tuple(np.diff(starts)[three].tolist())
        codes = np.ravel_multi_index(tuple(table[three][:, inside]), sizes)
        asked, place = np.unique(np.ravel_multi_index(tuple(cell[mine].T), sizes), return_inverse=True)
        at = np.minimum(np.searchsorted(asked, codes), asked.size - 1)
        hit = asked[at] == codes
        counts = np.bincount(at[hit], membership.counts[inside][hit], asked.size).astype(np.intp)
        rows[mine] = counts[place.ravel()]
    return rows
