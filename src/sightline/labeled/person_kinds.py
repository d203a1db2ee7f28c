"""Persons by the columns that their rows are in. Persons with equal rows in every column are one kind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sightline.arrays import FloatArray, IndexArray
from sightline.errors import InvalidRelease, require
from sightline.labeled.incidence.protocol import BoolArray


@dataclass(frozen=True, kw_only=True, eq=False)
class PersonKinds:
    """Persons with equal numbers of unknown rows in every column, as lists of (column, rows).

    Kind k has the entries ``starts[k]`` to ``starts[k + 1]``. Every entry is another column of its kind.
    """

    starts: IndexArray
    columns: IndexArray
    rows: IndexArray  # of one person, in each entry
    persons: IndexArray  # how many are of each kind

    def __post_init__(self) -> None:
        require(
            self.starts.size == self.persons.size + 1
            and self.starts[0] == 0
            and self.starts[-1] == self.columns.size == self.rows.size
            and bool(np.all(np.diff(self.starts) > 0))
            and bool(np.all(self.rows > 0))
            and bool(np.all(self.persons > 0)),
            "kinds of persons with at least one row each",
            got=f"{self.persons.size} kinds, {self.columns.size} entries",
            error=InvalidRelease,
        )

    def __len__(self) -> int:
        return len(self.persons)

    @cached_property
    def sizes(self) -> IndexArray:
        """How many columns each kind has rows in."""
        return np.diff(self.starts)

    @cached_property
    def kind_of(self) -> IndexArray:
        """The kind of every entry."""
        return np.repeat(np.arange(len(self)), self.sizes)

    @cached_property
    def rows_of_person(self) -> IndexArray:
        """How many rows a person of each kind has."""
        return np.add.reduceat(self.rows, self.starts[:-1])

    def entries(self, kind: int) -> slice:
        """The entries of one kind."""
        return slice(int(self.starts[kind]), int(self.starts[kind + 1]))

    def sums(self, values: FloatArray) -> FloatArray:
        """The sum of some values of entries over every kind."""
        return np.asarray(np.add.reduceat(values, self.starts[:-1]))

    def any(self, of_columns: BoolArray) -> BoolArray:
        """Which kinds have rows in some of the columns."""
        return np.asarray(np.logical_or.reduceat(of_columns[self.columns], self.starts[:-1]))

    def least(self, of_columns: FloatArray) -> FloatArray:
        """The least value of a column that each kind has rows in."""
        return np.asarray(np.minimum.reduceat(of_columns[self.columns], self.starts[:-1]))

    def rows_in_columns(self, size: int) -> FloatArray:
        """How many rows all persons together have in every column."""
        rows = (self.rows * self.persons[self.kind_of]).astype(np.float64)
        return np.asarray(np.bincount(self.columns, rows, size), dtype=np.float64)

    def batches(self, chosen: IndexArray, *, entries: int) -> Iterator[tuple[IndexArray, IndexArray]]:
        """Some kinds and their entries (kinds × columns). Kinds of a batch have as many columns each."""
        for size in np.unique(self.sizes[chosen]).tolist():
            alike = chosen[self.sizes[chosen] == size]
            step = max(1, entries // size)
            for start in range(0, alike.size, step):
                part = alike[start : start + step]
                yield part, self.starts[part][:, None] + np.arange(size)
