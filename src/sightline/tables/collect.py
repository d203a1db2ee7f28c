"""Ask an engine which rows are in which published cell, in a few queries that return counts and sums.

Every release is read as if it were computed on the rows that have a secret and a record key.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.arrays import FloatArray
from sightline.errors import InvalidPlan
from sightline.progress import report
from sightline.tables.cells import CellNumbers, CellSizes, PackedCodes, SignatureCells
from sightline.tables.encoding import Encoding, encode
from sightline.tables.engines.protocol import DATA, Arrays, Engine
from sightline.tables.membership import Cell, CellTable, Feature, Membership, Partition
from sightline.tables.occurring import occurring, occurring_levels
from sightline.tables.rows import (
    RowCounts,
    Rows,
    audited_rows,
    check_lookups,
    clipped_secret,
    count_rows,
    counted_rows,
)
from sightline.tables.sql.fragments import drawn, quoted
from sightline.tables.sql.grammar import refuse
from sightline.tables.sql.reader import ReleaseQuery, read_condition
from sightline.tables.sql.scope import find_column
from sightline.tables.subject import MOST_VALUES, Schema, Subject
from sightline.values import frozen


@frozen
class CountedTable:
    """A table whose rows and records are counted, and whose cells are numbered; signatures come next."""

    queries: tuple[ReleaseQuery, ...]
    subject: Subject
    rows: Rows
    row_counts: RowCounts
    partitions: tuple[Partition, ...]
    encoding: Encoding
    known: str  # the condition that the attacker knows a row, as SQL; empty if they know none

    @property
    def value(self) -> str:
        """The secret as SQL: a number clipped to its bounds, 1 for a yes and 0 for a no, or a category."""
        return clipped_secret(self.rows, self.subject)

    def unknown(self, value: str) -> str:
        """A value as SQL, NULL where the attacker knows the row."""
        return f"CASE WHEN {self.known} THEN NULL ELSE {value} END" if self.known else value

    @property
    def is_known(self) -> str:
        """Whether the attacker knows a row, as SQL: 1 or 0."""
        return f"CASE WHEN {self.known} THEN 1 ELSE 0 END" if self.known else "0"

    @property
    def names(self) -> list[str]:
        """The names of a signature's words."""
        return [f"w{place}" for place in range(len(self.encoding.words))]

    def coded(self, *columns: str) -> str:
        """A query for the words of every row's signature and some columns, as SQL."""
        words = zip(self.encoding.words, self.names, strict=True)
        listed = [*(f"{text} AS {name}" for text, name in words), *columns]
        source = self.encoding.coded_source(range(len(self.encoding.coded_keys)))
        return f"SELECT {', '.join(listed) or '1'} FROM {source}"

    def ranked(self, *columns: str) -> str:
        """A query for the rank ``s`` of every row's signature among all, its record ``r`` and some columns.

        A column is written as ``text AS name``.
        """
        own = [f"{self.rows.record} AS r", *columns]
        rank = f"DENSE_RANK() OVER (ORDER BY {', '.join(self.names)}) - 1" if self.names else "0"
        listed = ", ".join(text.rpartition(" AS ")[2] for text in own)
        return f"SELECT {rank} AS s, {listed} FROM ({self.coded(*own)}) AS coded"

    def against(self, engine: Engine, subject: Subject) -> CountedTable:
        """The same table before another attacker."""
        return replace(self, subject=subject, known=known_condition(engine, subject))

    @property
    def sizes(self) -> CellSizes:
        """How to count the rows of the cells."""
        numbers, rows = range(len(self.encoding.layouts)), self.row_counts.present
        return CellSizes(layouts=tuple(self.encoding.layout(number, rows) for number in numbers))

    def cells(self, found: Arrays) -> tuple[SignatureCells, tuple[Cell, ...]]:
        """The cells of every partition, numbered and named, where their rows are counted."""
        sizes, encoding = self.sizes, self.encoding
        each = [(layout, *sizes.occurring(found, place)) for place, layout in enumerate(sizes.layouts)]
        names = [encoding.names(place, own[0].codes(own[1])) for place, own in enumerate(each)]
        named = tuple(
            Cell(partition=position, key=key, rows=rows)
            for position, index in enumerate(encoding.layout_of)
            for key, rows in zip(names[index], each[index][2].tolist(), strict=True)
        )
        numbered = tuple(CellNumbers(layout=layout, occurring=numbers) for layout, numbers, _ in each)
        return SignatureCells(layouts=numbered, layout_of=encoding.layout_of), named

    def membership(self, cells: tuple[Cell, ...], **arrays: Any) -> Membership:
        """The membership of some cells, with the arrays of some signatures."""
        return Membership(
            partitions=self.partitions,
            cells=cells,
            rows=self.row_counts.present,
            records=self.row_counts.records,
            contributions=self.row_counts.contributions,
            dropped=self.row_counts.total - self.row_counts.present,
            clipped=self.row_counts.clipped,
            **arrays,
        )


def collect(
    engine: Engine,
    queries: Sequence[ReleaseQuery],
    subject: Subject,
    *,
    check_size: Callable[[int, int], None] = lambda signatures, partitions: None,
) -> Membership:
    """Collect the signatures of all rows with a secret, their counts, and the cells of the queries.

    Rows that meet any of the subject's ``known`` conditions are counted as known to the attacker. A record
    with more rows than ``most_rows`` is refused. ``check_size`` is called with the numbers of signatures and
    of partitions before their table is made.
    """
    return collect_counted(engine, count_table(engine, queries, subject), check_size=check_size)


def collect_counted(
    engine: Engine, counted: CountedTable, *, check_size: Callable[[int, int], None]
) -> Membership:
    """Collect the signatures of a table that is counted, as :func:`collect` does."""
    report("listing signatures", 0.0)
    try:
        signatures, sums = _signatures(engine, counted)
    except InvalidPlan as error:
        raise with_release_name(engine, counted.rows, counted.queries, error) from None
    check_size(len(signatures[1]), len(counted.partitions))
    return replace(membership_of(engine, counted, signatures), sums=sums)


def count_table(engine: Engine, queries: Sequence[ReleaseQuery], subject: Subject) -> CountedTable:
    """Count the rows and records of a table, and number the cells that its queries publish."""
    rows = audited_rows(queries, subject, engine.columns())
    known = known_condition(engine, subject)

    report("counting rows and records", 0.0)
    row_counts = count_rows(engine, rows, subject)
    rows = counted_rows(engine, rows, subject, row_counts)
    check_lookups(engine, rows, row_counts)

    report("numbering the published cells", 0.0)
    partitions = expand(engine, rows, queries, subject.categories)
    try:
        encoding = encode(engine, partitions, rows=rows, blocks=_blocks(engine, subject))
    except InvalidPlan as error:
        raise with_release_name(engine, rows, queries, error) from None
    return CountedTable(
        queries=tuple(queries),
        subject=subject,
        rows=rows,
        row_counts=row_counts,
        partitions=partitions,
        encoding=encoding,
        known=known,
    )


def membership_of(
    engine: Engine,
    counted: CountedTable,
    signatures: tuple[PackedCodes, NDArray[np.int64], NDArray[np.int64]],
) -> Membership:
    """The membership of all signatures: their words in order, their counts, and how many are known."""
    words, counts, known_counts = signatures
    report("naming the cells", 0.0)
    cells, named = counted.cells(counted.sizes.sizes(words, counts))
    table = cells.table(words)
    return counted.membership(
        named,
        signatures=table.T,
        counts=counts,
        known=known_counts,
        occurring=occurring(engine, counted.rows, counted.subject, counted.row_counts),
        levels=occurring_levels(engine, counted.rows, counted.subject, counted.row_counts),
        weights=_weights(counted, table, words),
        blocks={
            name: counted.encoding.coded_keys[key].place.codes(words)
            for name, key in zip(counted.subject.blocks, counted.encoding.blocks, strict=True)
        },
        distinct=not counted.subject.blocks,
    )


def _blocks(engine: Engine, subject: Subject) -> list[str]:
    """The columns whose values say which rows of a record may share a level, as SQL."""
    try:
        columns = [find_column(engine.columns(), name).name for name in subject.blocks]
    except InvalidPlan as error:
        raise InvalidPlan(f"[data] blocks: {error}") from None
    return [f"{quoted(DATA)}.{quoted(name)}" for name in columns]


def _weights(counted: CountedTable, table: CellTable, words: PackedCodes) -> dict[int, FloatArray]:
    """The weight of each signature's rows in the partitions that have weights."""
    weights: dict[int, FloatArray] = {}
    for p, key in counted.encoding.weight_of.items():
        weights[p] = line = np.ones(words.shape[1])
        coded, there = counted.encoding.coded_keys[key], table[p] >= 0
        line[there] = coded.numbers(words)[there]
        name = counted.queries[counted.partitions[p].query].name
        if not np.isfinite(line).all():
            refuse(
                f'release "{name}": finite weights of its rows',
                got="a weight that is infinite or no number",
                fix="leave out these rows by a condition",
            )
        if not coded.differences_kept(words[:, there]):
            refuse(
                f'release "{name}": weights whose differences a double keeps',
                got="whole numbers or decimals of more digits",
                fix="cast them to DOUBLE in the query, so that it adds up what is audited, or round them",
            )
    return weights


def known_condition(engine: Engine, subject: Subject) -> str:
    """The condition that the attacker knows a row, as SQL; empty if they know none."""
    conditions = [
        read_condition(text, secret=subject.secret, schema=Schema.of(engine)) for text in subject.known
    ]
    if subject.known_share:
        key = f"{quoted(DATA)}.{quoted(find_column(engine.columns(), subject.record).name)}"
        conditions.append(drawn(key, subject.known_share))
    return " OR ".join(f"({condition})" for condition in conditions)


def expand(
    engine: Engine, rows: Rows, queries: Sequence[ReleaseQuery], categories: Sequence[str]
) -> tuple[Partition, ...]:
    """The partitions of all releases, a histogram as one for each category."""
    histograms = any(_is_histogram(partition) for query in queries for partition in query.partitions)
    listed = categories or (_categories(engine, rows) if histograms else ())
    partitions: list[Partition] = []
    for position, query in enumerate(queries):
        expanded: list[Partition] = []
        for one in query.partitions:
            if _is_histogram(one):
                expanded += [replace(one, parameter=name, called=f"{one.label} = {name}") for name in listed]
            else:
                expanded.append(replace(one, called=one.label + ("" if one.above else ", complement")))
        several = len(expanded) > 1
        partitions += [
            replace(
                one,
                query=position,
                name=f"{query.name}: {one.called}" if several else query.name,
                label=one.called if several else "",
                beside=query.public_counts,
            )
            for one in expanded
        ]
    return tuple(partitions)


def _is_histogram(partition: Partition) -> bool:
    return partition.feature is Feature.INDICATOR and partition.parameter is None


def _categories(engine: Engine, rows: Rows) -> list[str]:
    categories = engine.fetch(
        f"SELECT DISTINCT {rows.secret} AS k FROM {rows.source()} LIMIT {MOST_VALUES + 1}"
    )["k"]
    if len(categories) > MOST_VALUES:
        refuse(
            f"at most {MOST_VALUES:,} categories of the secret",
            got="more",
            fix="group the categories in the table, or declare the list",
        )
    return sorted(map(str, categories))


SUM_OF_V = "CAST(COALESCE(SUM(v), 0) AS DOUBLE) AS total"  # of rows whose value is called v


def signature_query(counted: CountedTable, *, in_order: bool, sums: bool = False) -> str:
    """One SELECT for every signature: its words, its rows ``n`` and how many are ``known``, if any may be.

    With ``sums``, also the ``total`` of the secrets that the attacker does not know.
    """
    names, listed, numbers = counted.names, [], ["COUNT(*) AS n"]
    if counted.known:
        listed.append(f"{counted.is_known} AS known")
        numbers.append("CAST(SUM(known) AS BIGINT) AS known")
    elif not in_order:
        numbers.append("CAST(0 AS BIGINT) AS known")
    if sums:
        listed.append(f"{counted.unknown(counted.value)} AS v")
        numbers.append(SUM_OF_V)
    by = ", ".join(names)
    grouped = f" GROUP BY {by}" + (f" ORDER BY {by}" if in_order else "") if by else ""
    return f"SELECT {', '.join([*names, *numbers])} FROM ({counted.coded(*listed)}) AS coded{grouped}"


def _signatures(
    engine: Engine, counted: CountedTable
) -> tuple[tuple[PackedCodes, NDArray[np.int64], NDArray[np.int64]], FloatArray]:
    """The words of all signatures in order, their counts, how many are known; and the sums of their secrets.

    There are no sums of categories.
    """
    names = counted.names
    summed = counted.subject.kind.summed
    answer = engine.fetch(signature_query(counted, in_order=True, sums=summed))
    counts = _whole(answer["n"])
    known_counts = _whole(answer["known"]) if counted.known else np.zeros(len(counts), dtype=np.int64)
    words = np.empty((len(names), len(counts)), dtype=np.int64)
    for word, name in zip(words, names, strict=True):
        word[:] = answer.pop(name)
    return (words, counts, known_counts), np.asarray(answer["total"] if summed else [], dtype=np.float64)


def with_release_name(
    engine: Engine, rows: Rows, queries: Sequence[ReleaseQuery], error: InvalidPlan
) -> InvalidPlan:
    """The error of the first release that the engine cannot run alone, with its name; else ``error``."""
    for query in queries:
        for partition in query.partitions:
            guard = partition.condition or "TRUE"
            texts = [f"COUNT(CASE WHEN {guard} THEN {key} END)" for key in ("1", *partition.keys)]
            try:
                engine.fetch(f"SELECT {', '.join(texts)} FROM {rows.source(guard, *partition.keys)}")
            except InvalidPlan as release_error:
                return InvalidPlan(f'release "{query.name}": {release_error}')
    return error


def _whole(values: NDArray[np.generic]) -> NDArray[np.int64]:
    return np.ascontiguousarray(values, dtype=np.int64)
