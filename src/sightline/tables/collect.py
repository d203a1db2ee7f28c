"""Ask an engine which rows are in which published cell, in a few queries that return only counts.

Every release is read as if it were computed on the rows that have a secret and a record key.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.arrays import FloatArray
from sightline.errors import InvalidPlan
from sightline.progress import Progress, silent
from sightline.tables.cells import RowGrouping, group_rows, signature_table
from sightline.tables.encoding import Encoding, PackedCodes, encode
from sightline.tables.engines.protocol import DATA, Engine
from sightline.tables.few_values import few_values
from sightline.tables.largest_shares import largest_shares
from sightline.tables.membership import Cell, Feature, Membership, Partition
from sightline.tables.rows import Rows, audited_rows
from sightline.tables.sql.fragments import literal, quoted
from sightline.tables.sql.grammar import refuse
from sightline.tables.sql.reader import PartitionQuery, ReleaseQuery, read_condition
from sightline.tables.sql.scope import find_column
from sightline.tables.subject import Schema, Subject

MOST_CATEGORIES = 1_000
_HASH_DIGITS = 8  # of a key's hash, by which known records are drawn


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CountedTable:
    """A table whose rows and records are counted, and whose cells are numbered; signatures come next."""

    queries: tuple[ReleaseQuery, ...]
    subject: Subject
    rows: Rows
    total: int  # rows of the table
    present: int  # those with a secret and a record key
    clipped: int
    records: int
    contributions: int  # the most rows of one record
    partitions: tuple[Partition, ...]
    encoding: Encoding
    known: str  # the condition that the attacker knows a row, as SQL; empty if they know none

    def membership(
        self,
        groupings: Sequence[RowGrouping],
        shares: Sequence[Sequence[int]],
        **arrays: Any,
    ) -> Membership:
        """The membership of the cells of some groupings, with the arrays of some signatures."""
        cells = tuple(
            Cell(partition=position, key=key, rows=int(number), largest_share=int(share))
            for position, index in enumerate(self.encoding.layout_of)
            for key, number, share in zip(
                groupings[index].keys, groupings[index].rows, shares[index], strict=True
            )
        )
        return Membership(
            partitions=self.partitions,
            cells=cells,
            rows=self.present,
            records=self.records,
            contributions=self.contributions,
            dropped=self.total - self.present,
            clipped=self.clipped,
            **arrays,
        )


def collect(
    engine: Engine,
    queries: Sequence[ReleaseQuery],
    subject: Subject,
    *,
    progress: Progress = silent,
    check_size: Callable[[int, int], None] | None = None,
) -> Membership:
    """Collect the signatures of all rows with a secret, their counts, and the cells of the queries.

    Rows that meet any of the subject's ``known`` conditions are counted as known to the attacker. A record
    with more rows than ``most_rows`` is refused. ``check_size`` is called with the numbers of signatures and
    of partitions before their table is made.
    """
    counted = count_table(engine, queries, subject, progress=progress)
    return collect_counted(engine, counted, progress=progress, check_size=check_size)


def collect_counted(
    engine: Engine,
    counted: CountedTable,
    *,
    progress: Progress = silent,
    check_size: Callable[[int, int], None] | None = None,
) -> Membership:
    """Collect the signatures of a table that is counted, as :func:`collect` does."""
    progress("listing signatures", 0.0)
    try:
        signatures = _signatures(engine, counted)
    except InvalidPlan as error:
        raise with_release_name(engine, counted.rows, counted.queries, error) from None
    return membership_of(engine, counted, signatures, progress=progress, check_size=check_size)


def count_table(
    engine: Engine, queries: Sequence[ReleaseQuery], subject: Subject, *, progress: Progress = silent
) -> CountedTable:
    """Count the rows and records of a table, and number the cells that its queries publish."""
    rows = audited_rows(queries, subject, engine.columns())
    known = known_condition(engine, subject)

    progress("counting rows and records", 0.0)
    total, present, clipped = _totals(engine, rows, outside=outside(rows, subject))
    records, contributions = _contributions(engine, rows)
    most = subject.most_rows
    if most is not None and contributions > most:
        refuse(
            f"at most {most} {'rows' if most > 1 else 'row'} per record, the declared contribution limit",
            got=f"{contributions} rows of one record",
            fix="raise the limit, or keep fewer rows per record",
        )
    _check_lookups(engine, rows, present, total)
    _check_numbering(engine, rows)

    progress("numbering the published cells", 0.0)
    partitions, partition_queries = expand(engine, rows, queries, subject.categories)
    try:
        encoding = encode(engine, partition_queries, rows=rows)
    except InvalidPlan as error:
        raise with_release_name(engine, rows, queries, error) from None
    return CountedTable(
        queries=tuple(queries),
        subject=subject,
        rows=rows,
        total=total,
        present=present,
        clipped=clipped,
        records=records,
        contributions=contributions,
        partitions=partitions,
        encoding=encoding,
        known=known,
    )


def membership_of(
    engine: Engine,
    counted: CountedTable,
    signatures: tuple[PackedCodes, NDArray[np.int64], NDArray[np.int64]],
    *,
    progress: Progress = silent,
    check_size: Callable[[int, int], None] | None = None,
) -> Membership:
    """The membership of all signatures: their words in order, their counts, and how many are known."""
    words, counts, known_counts = signatures
    encoding = counted.encoding
    if check_size is not None:
        check_size(len(counts), len(counted.partitions))
    progress("naming the cells", 0.0)
    groupings = [group_rows(encoding.coded_keys, parts, words, counts) for parts in encoding.layouts]
    return counted.membership(
        groupings,
        largest_shares(engine, encoding, groupings, counted.contributions),
        signatures=signature_table(groupings, encoding.layout_of)
        if groupings
        else np.empty((1, 0), np.int16),
        counts=counts,
        known=known_counts,
        few_values=few_values(engine, counted.rows, counted.subject, present=counted.present),
        weights=_weights(encoding, groupings, words, counted.queries, counted.partitions),
    )


def _weights(
    encoding: Encoding,
    groupings: Sequence[RowGrouping],
    words: PackedCodes,
    queries: Sequence[ReleaseQuery],
    partitions: Sequence[Partition],
) -> FloatArray | None:
    """The weight of each signature's rows in every partition; none if all are 1."""
    if all(position is None for position in encoding.weight_of):
        return None
    weights = np.ones((len(encoding.weight_of), words.shape[1]))
    for line, position, layout, part in zip(
        weights, encoding.weight_of, encoding.layout_of, partitions, strict=True
    ):
        if position is None:
            continue
        inside = groupings[layout].cell_of >= 0
        line[inside] = encoding.coded_keys[position].numbers(words)[inside]
        if not np.isfinite(line).all():
            refuse(
                f'release "{queries[part.query].name}": finite weights of its rows',
                got="a weight that is infinite or no number",
                fix="leave out these rows by a condition",
            )
    weights.setflags(write=False)
    return weights.T


def known_condition(engine: Engine, subject: Subject) -> str:
    """The condition that the attacker knows a row, as SQL; empty if they know none."""
    schema = Schema.of(engine, expression=subject.expression)
    conditions = [read_condition(text, secret=subject.secret, schema=schema) for text in subject.known]
    if subject.known_share is not None:
        key = f"{quoted(DATA)}.{quoted(find_column(engine.columns(), subject.record).name)}"
        below = int(subject.known_share * 16**_HASH_DIGITS)
        drawn = f"SUBSTRING(MD5(CAST({key} AS VARCHAR)), 1, {_HASH_DIGITS})"
        conditions.append(f"{drawn} < {literal(f'{below:0{_HASH_DIGITS}x}')}")
    return " OR ".join(f"({condition})" for condition in conditions)


def expand(
    engine: Engine, rows: Rows, queries: Sequence[ReleaseQuery], categories: Sequence[str] | None
) -> tuple[tuple[Partition, ...], tuple[PartitionQuery, ...]]:
    """List the partitions and their queries in the same order, a histogram as one of each per category."""
    if categories is None and any(
        _is_histogram(partition) for query in queries for partition in query.partitions
    ):
        categories = _categories(engine, rows)
    partitions: list[Partition] = []
    partition_queries: list[PartitionQuery] = []
    for position, query in enumerate(queries):
        expanded = [
            (partition, name, parameter)
            for partition in query.partitions
            for name, parameter in (
                [(f"{partition.label} = {category}", category) for category in categories or ()]
                if _is_histogram(partition)
                else [
                    (
                        partition.label if partition.above else f"{partition.label}, complement",
                        partition.parameter,
                    )
                ]
            )
        ]
        for partition, name, parameter in expanded:
            partition_queries.append(replace(partition, parameter=parameter))
            partitions.append(
                Partition(
                    query=position,
                    name=query.name if len(expanded) == 1 else f"{query.name}: {name}",
                    statistic=partition.statistic,
                    feature=partition.feature,
                    parameter=parameter,
                    above=partition.above,
                    closed=partition.closed,
                    weighted=partition.weight is not None,
                    computed=partition.computed,
                    label="" if len(expanded) == 1 else name,
                    key_names=partition.key_names,
                )
            )
    return tuple(partitions), tuple(partition_queries)


def _is_histogram(partition: PartitionQuery) -> bool:
    return partition.feature is Feature.INDICATOR and partition.parameter is None


def _categories(engine: Engine, rows: Rows) -> list[str]:
    categories = engine.fetch(
        f"SELECT DISTINCT {rows.secret} AS k FROM {rows.source()} LIMIT {MOST_CATEGORIES + 1}"
    )["k"]
    if len(categories) > MOST_CATEGORIES:
        refuse(
            f"at most {MOST_CATEGORIES:,} categories of the secret",
            got="more",
            fix="group the categories in the table, or declare the list",
        )
    return sorted(map(str, categories))


def outside(rows: Rows, subject: Subject) -> str:
    """The condition that a row's secret is outside the declared bounds or categories, as SQL."""
    if subject.bounds is not None:
        low, high = subject.bounds
        return f"{rows.secret} < {low!r} OR {rows.secret} > {high!r}"
    if subject.categories is not None:
        listed = ", ".join(map(literal, subject.categories))
        return f"{rows.secret} NOT IN ({listed})" if listed else "TRUE"
    return "FALSE"


def _totals(engine: Engine, rows: Rows, *, outside: str) -> tuple[int, int, int]:
    count_if = "CAST(COALESCE(SUM(CASE WHEN {} THEN 1 ELSE 0 END), 0) AS BIGINT)"
    answer = engine.fetch(
        f"SELECT COUNT(*) AS total, {count_if.format(rows.present)} AS present, "
        f"{count_if.format(f'({rows.present}) AND ({outside})')} AS clipped FROM {quoted(DATA)}"
    )
    total, present, clipped = (int(answer[name][0]) for name in ("total", "present", "clipped"))
    if total == 0:
        refuse("rows in the table", got="an empty table", fix="check the data source")
    if present == 0:
        refuse(
            "rows with a record key and a finite secret",
            got=f"none among {total:,} rows",
            fix="check which columns the plan names",
        )
    return total, present, clipped


def _contributions(engine: Engine, rows: Rows) -> tuple[int, int]:
    per_record = f"SELECT {rows.record} AS r, COUNT(*) AS n FROM {rows.source()} GROUP BY {rows.record}"
    answer = engine.fetch(f"SELECT COUNT(*) AS records, MAX(n) AS most FROM ({per_record}) AS counted")
    return int(answer["records"][0]), int(answer["most"][0])


def _check_lookups(engine: Engine, rows: Rows, present: int, total: int) -> None:
    """Refuse a lookup that finds two matches for a row: its record would be published twice.

    Window functions and HAVING see all rows, not only those that are audited.
    """
    for join in rows.joins:
        source, expected = (
            (rows.every_row(join.alias), total) if rows.windows else (rows.source(join.alias), present)
        )
        joined = int(engine.fetch(f"SELECT COUNT(*) AS n FROM {source}")["n"][0])
        if joined != expected:
            refuse(
                f'at most one row of "{join.table}" for each row of data',
                got=f"{joined:,} rows where data has {expected:,}",
                fix="make the joined columns unique in that table",
            )


def _check_numbering(engine: Engine, rows: Rows) -> None:
    """Refuse a ROW_NUMBER over rows that tie in its order: each run could number them differently."""
    for window in rows.windows:
        if window.untied is None:
            continue
        numbered = f"SELECT {window.text} AS n, {window.untied} AS r FROM {rows.every_row(window.text)}"
        answer = engine.fetch(f"SELECT COUNT(*) AS ties FROM ({numbered}) AS numbered WHERE n <> r")
        if int(answer["ties"][0]):
            refuse(
                "an order without ties for ROW_NUMBER",
                got="rows that tie, so that each run may number them differently",
                fix="order by more columns, such as the record key, or use RANK",
            )


def signature_query(counted: CountedTable, *, in_order: bool) -> str:
    """One SELECT for every signature: its words, its rows ``n`` and how many are ``known``, if any may be."""
    encoding, known = counted.encoding, counted.known
    names = [f"w{position}" for position in range(len(encoding.words))]
    listed = [f"{text} AS {name}" for text, name in zip(encoding.words, names, strict=True)]
    numbers = ["COUNT(*) AS n"]
    if known:
        listed.append(f"CASE WHEN {known} THEN 1 ELSE 0 END AS known")
        numbers.append("CAST(SUM(known) AS BIGINT) AS known")
    elif not in_order:
        numbers.append("CAST(0 AS BIGINT) AS known")
    coded = f"SELECT {', '.join(listed) or '1'} FROM {encoding.coded_source()}"
    by = ", ".join(names)
    grouped = f" GROUP BY {by}" + (f" ORDER BY {by}" if in_order else "") if by else ""
    return f"SELECT {', '.join([*names, *numbers])} FROM ({coded}) AS coded{grouped}"


def _signatures(
    engine: Engine, counted: CountedTable
) -> tuple[PackedCodes, NDArray[np.int64], NDArray[np.int64]]:
    names = [f"w{position}" for position in range(len(counted.encoding.words))]
    answer = engine.fetch(signature_query(counted, in_order=True))
    counts = _whole(answer["n"])
    known_counts = _whole(answer["known"]) if counted.known else np.zeros(len(counts), dtype=np.int64)
    words = np.empty((len(names), len(counts)), dtype=np.int64)
    for word, name in zip(words, names, strict=True):
        word[:] = answer.pop(name)
    return words, counts, known_counts


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
