"""Who falls into which published cell: what an engine hands over, and all that leaves it.

A query publishes one or more *partitions*: a grouping set × an aggregate × a filter. The cells of a partition
are disjoint, so a row of the table is in at most one of them, and the partition is one release to an
accountant. Rows that fall into the same cell of every partition have the same *signature*; nothing published
tells them apart, and only their number leaves the engine.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from sightline.arrays import FloatArray, IndexArray

PersonRows = tuple[tuple[int, bool, int], ...]  # of one person: a signature, whether it is known, rows
CellTable = NDArray[np.signedinteger]  # of 16 bits, or of 32 where there are more cells


class Statistic(Enum):
    """What is published of the rows in a cell."""

    MEAN = "mean"
    SUM = "sum"


class Feature(Enum):
    """What is aggregated of a row's secret."""

    VALUE = "value"  # the secret itself, or for a boolean secret its indicator
    INDICATOR = "indicator"  # whether a categorical secret has one category
    POWER = "power"  # a power of the secret: a moment
    THRESHOLD = "threshold"  # whether the secret lies above a threshold, smoothed


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """Disjoint cells published together: one release."""

    query: int  # which of the plan's releases
    name: str  # for people: the release's name, and what tells its partitions apart
    statistic: Statistic
    feature: Feature
    parameter: float | str | None = None  # the power, the threshold or the category
    above: bool = True  # False: 1 minus the feature (rows below a threshold, NOT disease, <> 'x')
    label: str = ""  # what tells it apart within its release; empty if it is the only partition


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One published number."""

    partition: int
    key: tuple[str, ...]  # the group's public values, for people; empty without GROUP BY
    rows: int  # how many rows of the table it aggregates
    largest_share: int  # the most rows that one record has in it


@dataclass(frozen=True, slots=True, kw_only=True)
class UnauditedRows:
    """Rows that a release's SQL aggregates although the audit does not describe them.

    A proof about the release needs all of them to be 0. With several aggregates it is the largest number.
    """

    unkeyed: int = 0  # rows with a secret and without a record key
    invalid: int = 0  # NaN, infinite, or a "boolean" number other than 0 and 1
    missing: int = 0  # rows without a secret that a mean divides by
    clipped: int = 0  # rows whose secret lies outside its bounds or the declared categories

    @property
    def total(self) -> int:
        return self.unkeyed + self.invalid + self.missing + self.clipped


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PersonTable:
    """Persons by their rows: those with as many known and unknown rows in every signature are one kind.

    Kind k has the entries ``starts[k]`` to ``starts[k + 1]``: a signature, whether the attacker knows these
    rows, and how many rows they are.
    """

    starts: IndexArray
    signatures: IndexArray
    known: NDArray[np.bool_]
    rows: IndexArray
    persons: IndexArray  # how many are of each kind
    several: int  # owner-only: persons with several rows
    varying: int  # owner-only: of those, persons whose rows hold different values

    @property
    def constant(self) -> bool:
        """Whether all rows of a person hold one value, for every person with several rows."""
        return self.several > 0 and self.varying == 0

    @property
    def kind_of(self) -> IndexArray:
        """The kind of every entry."""
        return np.repeat(np.arange(len(self.persons)), np.diff(self.starts))

    def entries(self, kind: int) -> PersonRows:
        """The entries of one kind."""
        own = slice(int(self.starts[kind]), int(self.starts[kind + 1]))
        columns = (self.signatures[own].tolist(), self.known[own].tolist(), self.rows[own].tolist())
        return tuple(zip(*columns, strict=True))

    def place(self, entries: PersonRows) -> int | None:
        """The kind with some entries."""
        size, first = len(entries), entries[0][0]
        alike = np.flatnonzero((np.diff(self.starts) == size) & (self.signatures[self.starts[:-1]] == first))
        return next((int(kind) for kind in alike if self.entries(int(kind)) == entries), None)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Membership:
    """Signatures of all rows with a secret, in a deterministic order that is the same on every engine.

    A partition whose condition no row meets has no cells: it publishes nothing that depends on a secret, and
    ``empty`` names its release, since a misspelt condition looks the same.
    """

    partitions: tuple[Partition, ...]
    cells: tuple[Cell, ...]  # partition after partition
    signatures: CellTable  # (K, partitions): the cell's number within its partition, -1 for none
    counts: NDArray[np.int64]  # (K,) rows with that signature
    known: NDArray[np.int64]  # (K,) of those, rows that the attacker knows
    rows: int  # rows of the table that have a secret
    records: int  # distinct records among them
    contributions: int  # the most rows that one record has
    dropped: int  # rows without a secret or without a record key
    clipped: int  # rows whose secret lies outside its bounds, or outside the declared categories
    unaudited: tuple[UnauditedRows, ...] = ()  # for each of the plan's releases, once they are verified
    persons: PersonTable | None = None  # none if every person has one row

    @property
    def empty(self) -> tuple[int, ...]:
        """The plan's releases of which a part has no row, in order."""
        filled = {cell.partition for cell in self.cells}
        queries = [part.query for place, part in enumerate(self.partitions) if place not in filled]
        return tuple(sorted(set(queries)))

    @property
    def published_but_dropped(self) -> int:
        """Rows that are in no audited cell that a release's SQL aggregates all the same, at most."""
        return max((one.total - one.clipped for one in self.unaudited), default=0)

    @property
    def starts(self) -> IndexArray:
        """Where the cells of each partition start in ``cells``, and after the last one where they end."""
        owner = np.array([cell.partition for cell in self.cells], dtype=np.intp)
        return np.searchsorted(owner, np.arange(len(self.partitions) + 1))

    def positions(self, partition: int) -> IndexArray:
        """For every signature, where its cell of a partition is in ``cells``; -1 for none."""
        number = self.signatures[:, partition].astype(np.intp)
        return np.where(number < 0, -1, self.starts[partition] + number)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowValues:
    """Owner-only: the secret of every row, aligned with signatures, for releases that are not linear."""

    signature: NDArray[np.int64]
    secret: FloatArray
