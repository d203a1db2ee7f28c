"""Persons whose rows all hold one value: one column a person, with the number of their rows as weights.

A person with :math:`n_s` rows of signature s enters the numbers with :math:`\\sum_s n_s a_s`. All that holds
for records with one row and weights holds for them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from sightline.arrays import FloatArray, IndexArray
from sightline.labeled.incidence.protocol import BoolArray
from sightline.labeled.incidence.sparse import SparseIncidence
from sightline.tables.membership import CellTable, PersonTable


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ConstantPersons:
    """Every person, one after the other."""

    table: PersonTable
    kind: IndexArray  # of every person

    @classmethod
    def of(cls, table: PersonTable) -> ConstantPersons:
        """The persons of a table."""
        return cls(table=table, kind=np.repeat(np.arange(len(table.persons)), table.persons))

    def __len__(self) -> int:
        return len(self.kind)

    @property
    def known(self) -> BoolArray:
        """Persons of whom the attacker knows a row, which is to know all."""
        return np.asarray(np.logical_or.reduceat(self.table.known, self.table.starts[:-1])[self.kind])

    def incidence(
        self, tables: list[CellTable], widths: IndexArray, weights: FloatArray | None
    ) -> SparseIncidence:
        """The weights of all persons in all cells; the persons of several tables one after the other.

        A line of a table is a signature of the membership: its cell in each partition, -1 for none; a line
        of ``weights`` has the weights of its rows there, none if all are 1.
        """
        starts = np.concatenate([[0], np.cumsum(widths)[:-1]])
        parts = []
        for cells in tables:
            line, partition = np.nonzero(cells >= 0)
            column = starts[partition] + cells[line, partition]
            size = (len(cells), int(widths.sum()))
            each = np.ones(line.size) if weights is None else weights[line, partition]
            members = sparse.csr_array((each, (line, column)), shape=size)
            parts.append((self._rows(len(cells)) @ members).tocsr()[self.kind])
        return SparseIncidence.of(sparse.vstack(parts).T.tocsc())

    def sums(self, values: FloatArray) -> FloatArray:
        """For every person the sum of a value of their signatures."""
        sums = np.add.reduceat(values[self.table.signatures], self.table.starts[:-1])
        return np.asarray(sums[self.kind])

    def signatures(self, person: int) -> IndexArray:
        """The signatures of one person's rows."""
        kind = self.kind[person]
        return np.unique(self.table.signatures[self.table.starts[kind] : self.table.starts[kind + 1]])

    def first_signatures(self, persons: IndexArray) -> IndexArray:
        """The first signature of some persons."""
        first: IndexArray = self.table.signatures[self.table.starts[self.kind[persons]]]
        return first

    def _rows(self, signatures: int) -> sparse.csr_array:
        """Kinds × signatures: how many rows."""
        table = self.table
        size = (len(table.persons), signatures)
        return sparse.csr_array(
            (table.rows.astype(np.float64), (table.kind_of, table.signatures)), shape=size
        )
