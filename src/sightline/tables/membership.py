"""Which rows are in which published cell: the only facts about rows that an engine returns.

A query publishes one or more *partitions*: a grouping set × an aggregate × a filter. The cells of a partition
are disjoint, so a row of the table is in at most one of them, and an accountant counts the partition as one
release. Rows that are in the same cell of every partition have the same *signature*. No published number
distinguishes them, and the engine returns only how many they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sightline.arrays import FloatArray, IndexArray, counted_by
from sightline.tables.explained import NOTHING, ExplainedVariance
from sightline.values import frozen

Made = TypeVar("Made")
PersonRows = tuple[tuple[int, bool, int], ...]  # of one person: a signature, whether it is known, rows
CellTable = NDArray[np.signedinteger]  # 16 bits, or 32 if there are many cells
OfRecords = Callable[["Membership"], FloatArray]  # numbers that are asked of records


def _none() -> NDArray[np.int64]:
    return np.zeros(0, dtype=np.int64)


class Statistic(Enum):
    """The statistic that is published for the rows in a cell."""

    MEAN = "mean"
    SUM = "sum"


class Feature(Enum):
    """The function of a row's secret that is aggregated."""

    VALUE = "value"  # the secret itself, or for a boolean secret its indicator
    INDICATOR = "indicator"  # whether a categorical secret has one category, or one of several
    POWER = "power"  # a power of the secret: a moment
    THRESHOLD = "threshold"  # whether the secret lies above a threshold, smoothed
    BAND = "band"  # whether the secret lies between two levels, or in one of several bands
    CLIPPED = "clipped"  # the secret, or the nearer of two levels that it lies outside of


YES_OR_NO = frozenset({Feature.THRESHOLD, Feature.BAND})  # of a number


@frozen(eq=True)
class Band:
    """The numbers from ``low`` to ``high``; an end belongs to it if it is closed."""

    low: float = -math.inf
    high: float = math.inf
    low_closed: bool = False
    high_closed: bool = False


Parameter = float | str | tuple[str, ...] | Band | tuple[Band, ...] | None


@frozen(eq=True)
class Computed:
    """What a release computes with an aggregate before it publishes it.

    Noise by number that a plan states is on the aggregate times ``factor``; all else is computed after it.
    """

    noise_on: str = ""  # the aggregate, as SQL
    steps: tuple[str, ...] = ()  # what is computed with it, in order; none if it is published as it is
    arithmetic: tuple[str, ...] = ()  # of these, what an attacker undoes before a recipe: + - * /
    factor: float = 1.0  # the size of the constants that it is multiplied by
    per_row: bool = False  # whether it is divided by a COUNT of at least each row of the aggregate
    enlarges: bool = False  # whether something else may make the published number larger
    ranked: bool = False  # whether the lines of the answer are sorted by it
    shows: bool = False  # whether it is made NULL, a text or a yes or no, to which no noise can be added
    rounded_to: float = 0.0  # the step that the published number is rounded to; 0 if it is not rounded


@frozen(eq=True)
class Partition:
    """Disjoint cells that are published together: one SELECT × grouping set × aggregate of a release.

    As a release is read, a histogram of a text is one without a parameter; of a table, it has one for each
    category.
    """

    query: int = 0  # which of the plan's releases
    name: str = ""  # for people: the release's name, and the label if it has several partitions
    statistic: Statistic
    feature: Feature
    parameter: Parameter = None  # the power, the threshold, the band or the categories
    above: bool = True  # False: 1 minus the feature (rows below a threshold, NOT disease, <> 'x')
    label: str = ""  # its name within the release; empty if it is the only partition
    called: str = ""  # its name in any case
    beside: tuple[str, ...] = ()  # the names of the release's aggregates that no secret changes
    closed: bool = False  # whether a threshold itself counts as above it
    weighted: bool = False  # whether a row's feature is multiplied by a public weight
    key_names: tuple[str, ...] = ()  # of the columns of GROUP BY, for people
    computed: Computed = Computed()
    # How it is asked of an engine, in SQL over public columns:
    condition: str = ""  # on the rows that it aggregates; empty for all rows
    keys: tuple[str, ...] = ()  # of GROUP BY
    weight: str = ""  # of a row; empty for 1
    select: int = 0  # its position among the release's SELECTs, which UNION ALL joins
    grouping_set: int = 0  # among the SELECT's grouping sets
    aggregate: int = 0  # among the SELECT's aggregates

    @property
    def categories(self) -> tuple[str, ...]:
        """The categories that an indicator counts."""
        parts = self.parameter if isinstance(self.parameter, tuple) else (self.parameter,)
        return tuple(map(str, parts))

    @property
    def bands(self) -> tuple[Band, ...]:
        """The bands of numbers that a yes-or-no question is about; a level is the band above it."""
        if isinstance(self.parameter, int | float):
            return (Band(low=float(self.parameter), low_closed=self.closed),)
        parts = self.parameter if isinstance(self.parameter, tuple) else (self.parameter,)
        return tuple(part for part in parts if isinstance(part, Band))


@frozen(eq=True)
class Cell:
    """One published number."""

    partition: int
    key: tuple[str, ...]  # the group's public values, for people; empty without GROUP BY
    rows: int  # how many rows of the table it aggregates


@frozen(eq=True)
class UnauditedRows:
    """Rows that a release's SQL aggregates and the audit does not.

    A proof about the release needs all counts to be 0. With several aggregates each count is the largest.
    """

    unkeyed: int = 0  # rows with a secret and without a record key
    invalid: int = 0  # NaN, infinite, or a "boolean" number other than 0 and 1
    missing: int = 0  # rows without a secret that a mean divides by
    clipped: int = 0  # rows whose secret lies outside its bounds or the declared categories
    telling_groups: int = 0  # groups of which the lines of its answer tell something, whatever the noise
    telling_who_has_one: int = 0  # groups of which they tell who has a secret, where rows lack one

    @property
    def dropped(self) -> int:
        """The number of rows that the release aggregates and the audit leaves out."""
        return self.unkeyed + self.invalid + self.missing


@frozen
class PersonTable:
    """Persons by their rows: those with as many known and unknown rows in every signature are one kind.

    Kind k has the entries ``starts[k]`` to ``starts[k + 1]``: a signature, whether the attacker knows these
    rows, and how many rows they are.
    """

    starts: IndexArray = field(default_factory=lambda: np.zeros(1, dtype=np.intp))
    signatures: IndexArray = field(default_factory=_none)
    known: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    rows: IndexArray = field(default_factory=_none)
    persons: IndexArray = field(default_factory=_none)  # how many are of each kind
    several: int = 0  # owner-only: persons with several rows
    varying: int = 0  # owner-only: of those, persons whose rows hold different values
    may_stay: bool = False  # whether they are all taken to differ because nothing keeps their values
    by_chance: float = 0.0  # how many would hold one value if rows were independent, at most on average
    by_rows: Mapping[int, int] = field(default_factory=dict)  # persons by how many rows they have
    groups: NDArray[np.int64] = field(default_factory=_none)  # as a store has
    repeated: tuple[str, int] = ("", 0)  # a column of times, and how often a person has one of them twice

    @property
    def constant(self) -> bool:
        """Whether all rows of a person hold one value, for every person with several rows."""
        return self.several > 0 and self.varying == 0

    @property
    def alike(self) -> int:
        """Persons with several rows of one value; 0 if independent values explain as many."""
        number = self.several - self.varying
        unexpected = number > self.by_chance + 3 * self.by_chance**0.5
        return number if unexpected or self.constant else 0

    @property
    def unknown(self) -> NDArray[np.bool_]:
        """Whether the attacker does not know some row of a kind."""
        return np.asarray(np.logical_or.reduceat(~self.known, self.starts[:-1]))

    @property
    def kind_of(self) -> IndexArray:
        """The kind of every entry."""
        return np.repeat(np.arange(len(self.persons)), np.diff(self.starts))

    def entries(self, kind: int) -> PersonRows:
        """The entries of one kind."""
        inside = slice(int(self.starts[kind]), int(self.starts[kind + 1]))
        columns = (self.signatures[inside].tolist(), self.known[inside].tolist(), self.rows[inside].tolist())
        return tuple(zip(*columns, strict=True))

    def with_entries(self, entries: PersonRows) -> list[int]:
        """The kind with some entries, if there is one."""
        size, first = len(entries), entries[0][0]
        alike = np.flatnonzero((np.diff(self.starts) == size) & (self.signatures[self.starts[:-1]] == first))
        return [int(kind) for kind in alike if self.entries(int(kind)) == entries][:1]


@frozen
class RowsInCells:
    """How many rows each record has in the cells of one partition: arrays over pairs of the two."""

    record: IndexArray  # a signature, or a kind of person
    cell: IndexArray  # within the partition
    rows: IndexArray


@dataclass(kw_only=True, eq=False)
class RowsInCellsOnce:
    """Those of each partition that was asked for."""

    of_partition: dict[int, RowsInCells] = field(default_factory=dict)


@frozen
class Occurring:
    """How a secret is spread in the table: bins of a number's values, or categories. For the owner only."""

    low: FloatArray = field(default_factory=lambda: np.zeros(0))  # the least value in each bin
    high: FloatArray = field(default_factory=lambda: np.zeros(0))  # the greatest
    counts: IndexArray = field(default_factory=_none)  # rows in it
    step: float = 0.0  # the largest power of ten that all values are multiples of; 0 if none is
    whole: bool = False  # whether every value is a whole number
    few: int = 0  # how many values, or clusters of them, nearly all rows take; 0 if that is many
    clusters: tuple[tuple[float, float, int], ...] = ()  # ends and rows of those of any width
    unused: tuple[str, ...] = ()  # declared categories that no row has
    repeating: str = ""  # a column like a key that repeats, where the record key never does

    def kept(self, moved: float, width: float, rows: int = 1) -> float:
        r"""At least what remains to an attacker who knows this distribution and all other records.

        If a value that changes over the bounds' ``width`` moves the answers by ``moved`` in squared units of
        the noise, and d is the difference of two draws over that width,

        .. math:: \frac{E\,d^2 e^{-S d^2/4}}{E\,d^2}

        (docs/theory/priors.md, *What the noise alone leaves*). Where a bin has several values, d is somewhere
        between two bounds, and the worse of them counts. Of any feature of several independent ``rows`` it is
        this times :math:`(E\,e^{-S d^2/4})^{\text{rows} - 1}` (*Few values in several rows*).

        >>> coin = Occurring(low=np.array([0.0, 1.0]), high=np.array([0.0, 1.0]), counts=np.array([1, 1]))
        >>> round(coin.kept(4.0, 1.0), 6) == round(math.exp(-1.0), 6)
        True
        """
        middle, half = (self.low + self.high) / 2 / width, (self.high - self.low) / 2 / width
        apart, error = np.abs(middle[:, None] - middle), half[:, None] + half
        weights = np.outer(self.counts, self.counts).astype(np.float64)
        most = np.square(apart + error)
        hidden = weights * np.exp(-moved * most / 4)
        left = hidden * np.square(np.maximum(apart - error, 0.0))
        total = float(np.sum(weights * most))
        others = float(hidden.sum() / weights.sum()) ** (rows - 1)
        return float(left.sum()) / total * others if total else 0.0


@frozen
class RowsBehind:
    """How many rows of the table the values of ``data`` are sums of: arrays over a signature and a number."""

    signature: IndexArray = field(default_factory=_none)
    rows: IndexArray = field(default_factory=_none)  # that one value adds up
    counts: NDArray[np.int64] = field(default_factory=_none)  # how many values do
    known: NDArray[np.int64] = field(default_factory=_none)  # those of them that the attacker knows


@frozen
class OtherSignatures:
    """The signatures of a table that is streamed: those that a membership does not list, and all together.

    There are none where a membership lists all signatures. Else the listed ones are the most exposed, every
    one that may be identifiable, one of each set of partitions that rows are in together, and the one that
    the releases cost most.
    """

    listed: IndexArray = field(default_factory=_none)  # of each listed signature, its number among all
    words: NDArray[np.int64] = field(default_factory=_none)  # (words × signatures), of those, in order
    signatures: int = 0  # in all
    known_rows: int = 0  # in all
    # Where records have several rows: a pass for the largest of some numbers of every person, and of each
    # listed signature the persons with a row that the attacker does not know.
    largest: Callable[[OfRecords], FloatArray] | None = None
    owners: IndexArray = field(default_factory=_none)


@frozen(slots=False)
class Membership:
    """The signatures of all rows with a secret, in an order that is the same on every engine.

    A partition whose condition no row meets has no cells and publishes nothing that depends on a secret. A
    misspelt condition looks the same, so ``empty`` lists the releases with such a partition.
    """

    partitions: tuple[Partition, ...]
    cells: tuple[Cell, ...]  # partition after partition
    signatures: CellTable  # (K, partitions): the cell's number within its partition, -1 for none
    counts: NDArray[np.int64]  # (K,) rows with that signature
    known: NDArray[np.int64]  # (K,) those of them that the attacker knows
    rows: int  # rows of the table that have a secret
    records: int  # distinct records among them
    contributions: int  # the most rows that one record has
    dropped: int  # rows without a secret or without a record key
    clipped: int  # rows whose secret lies outside its bounds, or outside the declared categories
    occurring: Occurring = field(default_factory=Occurring)  # how the secret is spread; owner-only
    levels: Mapping[str, Occurring] = field(
        default_factory=dict
    )  # of records, and of blocks by column; likewise
    sums: FloatArray = field(default_factory=lambda: np.zeros(0))  # (K,) of unknown secrets, if collected
    unaudited: tuple[UnauditedRows, ...] = ()  # of each of the plan's releases, once its SQL was checked
    derived: tuple[str, ...] = ()  # columns that look like the secret, with the figure; owner-only
    alike_in_few_rows: tuple[str, ...] = ()  # that may do so by chance; owner-only
    explained: ExplainedVariance = (
        NOTHING  # how much of the secret's variance such columns explain; owner-only
    )
    taken_as_public: tuple[str, ...] = ()  # columns that releases use so and the plan does not declare
    persons: PersonTable = field(default_factory=PersonTable)  # of nobody if every person has one row
    distinct: bool = True  # whether no two signatures have the same cells, as they are from an engine
    weights: Mapping[int, FloatArray] = field(default_factory=dict)  # (K,) by partition, where not all are 1
    blocks: Mapping[str, IndexArray] = field(default_factory=dict)  # (K,) by column: the block of the rows
    others: OtherSignatures = field(default_factory=OtherSignatures)  # of a table that is streamed
    adds_up: bool = False  # whether the secret is a sum of a record's rows, whose numbers may differ
    rows_behind: RowsBehind = field(default_factory=RowsBehind)  # these numbers, if they were counted
    # The same with the releases that are computed from the fit, if there are any: they measure nothing.
    with_derived: Membership | None = None

    def by_rows_behind(self) -> Membership:
        """The same values, each counted by the number of rows that it adds up: a weight of the record's."""
        behind, signature = self.rows_behind, self.rows_behind.signature
        return replace(
            self,
            signatures=self.signatures[signature],
            counts=behind.counts,
            known=behind.known,
            weights={
                p: self.weights_in(p)[signature] * behind.rows.astype(np.float64)
                for p in range(len(self.partitions))
            },
            distinct=False,
            sums=np.zeros(0),
            rows_behind=RowsBehind(),
        )

    def once(self, kind: type[Made]) -> Made:
        """What a room makes of the rows alone, whatever the noise: an empty ``kind`` that it fills once.

        It belongs to these rows. Another membership has its own, unless it is said to be of the same rows.
        """
        made: Made = self._once.setdefault(kind, kind())
        return made

    @cached_property
    def _once(self) -> dict[type[Any], Any]:
        return {}

    def of_the_rows_of(self, other: Membership) -> Membership:
        """This membership, which has the same rows as another one: what was made of them stays."""
        for name in ("signatures", "counts", "known", "weights", "persons", "blocks"):
            assert getattr(self, name) is getattr(other, name), name
        self.__dict__["_once"] = other._once
        return self

    def largest(self, of: OfRecords) -> FloatArray:
        """The largest numbers that are found of any record, where all are here; else by a pass over them."""
        streamed = self.others.largest
        return of(self) if streamed is None else streamed(of)

    @property
    def streamed(self) -> bool:
        """Whether only some of the signatures are listed."""
        return self.others.signatures > 0

    @property
    def by_person(self) -> bool:
        """Whether some have several rows: then what is asked of a record is asked of a kind of person."""
        return self.persons.several > 0

    @property
    def people(self) -> IndexArray:
        """How many people are of each kind; where nobody has several rows, the kinds are the signatures."""
        return self.persons.persons if self.by_person else self.counts

    @property
    def unknown_people(self) -> IndexArray:
        """Those of them with a row that the attacker does not know."""
        return self.people * self.persons.unknown if self.by_person else self.counts - self.known

    @property
    def signature_count(self) -> int:
        """How many different signatures the rows have."""
        if self.streamed:
            return self.others.signatures
        if not self.rows:
            return 0
        return len(self.signatures if self.distinct else np.unique(self.signatures, axis=0))

    @property
    def known_rows(self) -> int:
        """How many rows the attacker knows."""
        return self.others.known_rows if self.streamed else int(self.known.sum())

    def signature_number(self, place: int) -> int:
        """The number of a listed signature among all signatures of the table."""
        return int(self.others.listed[place]) if self.streamed else place

    @property
    def empty(self) -> tuple[int, ...]:
        """The plan's releases that have a partition without rows, in order."""
        filled = {cell.partition for cell in self.cells}
        queries = [part.query for place, part in enumerate(self.partitions) if place not in filled]
        return tuple(sorted(set(queries)))

    @property
    def published_but_dropped(self) -> int:
        """The most rows that a release's SQL aggregates outside the audited cells, over the releases."""
        return max((rows.dropped for rows in self.unaudited), default=0)

    @property
    def telling_groups(self) -> int:
        """Groups whose presence in an answer, or absence from it, tells something of the secrets."""
        return sum(rows.telling_groups for rows in self.unaudited)

    @property
    def telling_who_has_one(self) -> int:
        """Groups whose answers tell who has a secret at all."""
        return sum(rows.telling_who_has_one for rows in self.unaudited)

    @cached_property
    def starts(self) -> IndexArray:
        """The position in ``cells`` at which each partition starts; at the end, the number of cells."""
        owner = np.array([cell.partition for cell in self.cells], dtype=np.intp)
        return np.searchsorted(owner, np.arange(len(self.partitions) + 1))

    @property
    def published_factors(self) -> FloatArray:
        """Of every cell, how many times the aggregate the number is that gets the noise."""
        computed = [(self.partitions[cell.partition].computed, cell.rows) for cell in self.cells]
        return np.array([part.factor / (max(rows, 1) if part.per_row else 1) for part, rows in computed])

    def weights_in(self, partition: int) -> FloatArray:
        """For every signature, the weight of its rows in a partition."""
        weights = self.weights.get(partition)
        return np.ones(len(self.signatures)) if weights is None else weights

    @cached_property
    def largest_weights(self) -> FloatArray:
        """For every cell the largest absolute weight of a row in it."""
        largest = np.ones(len(self.cells))
        for p in self._weighted_partitions:
            position, weight = self.positions(p), self.weights_in(p)
            largest[self.starts[p] : self.starts[p + 1]] = 0.0
            np.maximum.at(largest, position[position >= 0], np.abs(weight[position >= 0]))
        return largest

    @cached_property
    def weight_sums(self) -> FloatArray:
        """For every cell the sum of its rows' weights: how many rows it has where all weights are 1."""
        sums = np.array([cell.rows for cell in self.cells], dtype=np.float64)
        for p in self._weighted_partitions:
            position, weight = self.positions(p), self.weights_in(p) * self.counts
            sums[self.starts[p] : self.starts[p + 1]] = 0.0
            np.add.at(sums, position[position >= 0], weight[position >= 0])
        return sums

    @property
    def _weighted_partitions(self) -> list[int]:
        return [p for p, part in enumerate(self.partitions) if part.weighted]

    def rows_in_cells(self, partition: int) -> RowsInCells:
        """The rows of every kind of person in the cells of a partition.

        Where nobody has several rows, the kinds are the signatures. Where it is not known whose rows they
        are, all rows of a record may have one signature.
        """
        known = self.once(RowsInCellsOnce).of_partition
        if partition not in known:
            known[partition] = self._rows_in_cells(partition)
        return known[partition]

    def _rows_in_cells(self, partition: int) -> RowsInCells:
        table, cells = self.persons, self.signatures[:, partition]
        if not self.by_person:
            inside = np.flatnonzero(cells >= 0)
            rows = np.full(inside.size, max(1, self.contributions), dtype=np.intp)
            return RowsInCells(record=inside, cell=cells[inside].astype(np.intp), rows=rows)
        cell_of = cells[table.signatures]
        there = cell_of >= 0
        width = int(cell_of.max(initial=0)) + 1
        pairs, rows = counted_by(table.kind_of[there] * np.intp(width) + cell_of[there], table.rows[there])
        return RowsInCells(record=pairs // width, cell=pairs % width, rows=rows)

    def most_rows_of_a_record(self, partition: int, power: int) -> int:
        """The largest sum over a partition's cells of a record's rows there to a power, over the records."""
        return int(self._most_rows[power - 1, partition])

    @cached_property
    def _most_rows(self) -> FloatArray:
        """By power, 1 or 2, and partition."""
        return self.largest(_most_rows)

    def positions(self, partition: int) -> IndexArray:
        """For every signature, the position in ``cells`` of its cell of a partition; -1 for none."""
        number = self.signatures[:, partition].astype(np.intp)
        return np.where(number < 0, -1, self.starts[partition] + number)


def _most_rows(membership: Membership) -> FloatArray:
    powers, most = np.array([[1.0], [2.0]]), np.zeros((2, len(membership.partitions)))
    if not membership.by_person:  # all rows of a record may be in one cell
        there = membership.signatures.max(axis=0, initial=-1) >= 0
        return np.asarray(there * float(max(1, membership.contributions)) ** powers)
    for partition in range(len(membership.partitions)):
        inside = membership.rows_in_cells(partition)
        sums = [np.bincount(inside.record, inside.rows**power) for power in powers]
        most[:, partition] = [each.max(initial=0.0) for each in sums]
    return most


@frozen
class RowValues:
    """The secret and the signature of every row, for releases that are not linear. For the owner only."""

    signature: NDArray[np.int64]
    secret: FloatArray
