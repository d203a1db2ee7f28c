"""Ask an engine which rows are in which published cell, in a few queries that return only counts.

Every release is read as if it were computed on the rows that have a secret and a record key.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sightline.arrays import FloatArray
from sightline.errors import InvalidPlan
from sightline.progress import Progress, silent
from sightline.tables.cells import RowGrouping, group_rows, signature_table
from sightline.tables.encoding import Encoding, PackedCodes, encode
from sightline.tables.engines.protocol import DATA, Engine
from sightline.tables.membership import Cell, Feature, Membership, Partition
from sightline.tables.rows import Rows, audited_rows
from sightline.tables.sql.fragments import literal, quoted
from sightline.tables.sql.grammar import refuse
from sightline.tables.sql.reader import PartitionQuery, ReleaseQuery, read_condition
from sightline.tables.sql.scope import find_column
from sightline.tables.subject import Schema, Subject

MOST_CATEGORIES = 1_000
_FEW_VALUES = 20  # distinct values of a number that an attacker can round to
_NEARLY_ALL = 0.9  # of the rows
_MOST_COUNTED = 5_000_000  # rows of which every value is counted
_MANY_ROWS, _LOOKED_AT = 100_000, 5  # of so many rows, one in five is looked at first
_CONDITIONS_PER_QUERY = 200
_HASH_DIGITS = 8  # of a key's hash, by which known records are drawn


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
        progress("listing signatures", 0.0)
        words, counts, known_counts = _signatures(engine, encoding, known)
    except InvalidPlan as error:
        raise _with_release_name(engine, rows, queries, error) from None

    if check_size is not None:
        check_size(len(counts), len(partitions))
    progress("naming the cells", 0.0)
    groupings = [group_rows(encoding.coded_keys, parts, words, counts) for parts in encoding.layouts]
    shares = _shares(engine, encoding, groupings, contributions)
    cells = tuple(
        Cell(partition=position, key=key, rows=int(number), largest_share=int(share))
        for position, index in enumerate(encoding.layout_of)
        for key, number, share in zip(
            groupings[index].keys, groupings[index].rows, shares[index], strict=True
        )
    )
    return Membership(
        partitions=partitions,
        cells=cells,
        signatures=signature_table(groupings, encoding.layout_of)
        if groupings
        else np.empty((1, 0), np.int16),
        counts=counts,
        known=known_counts,
        rows=present,
        records=records,
        contributions=contributions,
        dropped=total - present,
        clipped=clipped,
        few_values=_few_values(engine, rows, subject, present=present),
        weights=_weights(encoding, groupings, words, queries, partitions),
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


def _few_values(engine: Engine, rows: Rows, subject: Subject, *, present: int) -> int | None:
    """How many values a number takes in nearly all rows, if they are few and often repeated.

    Whole numbers on a short range are few even if each occurs once. In very large tables all rows must take
    the few values: to count each value would cost more than the rest of the audit.
    """
    if subject.bounds is None:
        return None
    if subject.known_within is not None:
        return _few_values_within(engine, rows, subject.known_within)
    if present > _MANY_ROWS and _has_many_values(engine, rows, present=present):
        return None
    limit = f"LIMIT {_FEW_VALUES + 1}"
    if present <= _MOST_COUNTED:
        counted = f"SELECT {rows.secret} AS v, COUNT(*) AS c FROM {rows.source()} GROUP BY {rows.secret}"
        listed = f"SELECT v, c FROM ({counted}) AS counted ORDER BY c DESC, v {limit}"
    else:
        listed = f"SELECT DISTINCT {rows.secret} AS v, 0 AS c FROM {rows.source()} {limit}"
    answer = engine.fetch(
        "SELECT v, c, CASE WHEN v <> ROUND(v) THEN 1 ELSE 0 END AS broken "
        f"FROM ({listed}) AS listed ORDER BY c DESC, v"
    )
    number, broken = len(answer["v"]), any(answer["broken"].tolist())
    if number <= _FEW_VALUES:
        low, high = subject.bounds
        on_a_lattice = not broken and high - low < _FEW_VALUES
        return number if on_a_lattice or present >= 2 * number else None
    covered = np.cumsum(_whole(answer["c"]))[:_FEW_VALUES]
    enough = np.flatnonzero(
        (covered >= _NEARLY_ALL * present) & (covered >= 2 * np.arange(1, covered.size + 1))
    )
    return int(enough[0]) + 1 if enough.size else None


def _has_many_values(engine: Engine, rows: Rows, *, present: int) -> bool:
    """Whether some of the rows show that a few values do not fill nearly all of them.

    If they did, the other rows would be too few for so many different values.
    """
    some = f"SELECT {rows.secret} AS v FROM {rows.source()} LIMIT {present // _LOOKED_AT}"
    answer = engine.fetch(f"SELECT COUNT(DISTINCT v) AS n FROM ({some}) AS looked_at")
    return int(answer["n"][0]) > (1 - _NEARLY_ALL) * present + _FEW_VALUES


def _few_values_within(engine: Engine, rows: Rows, within: float) -> int | None:
    """How many values an interval of ± ``within`` has room for, if few: by the least gap of two values."""
    distinct = f"SELECT DISTINCT {rows.secret} AS v FROM {rows.source()}"
    gaps = f"SELECT v - LAG(v) OVER (ORDER BY v) AS gap FROM ({distinct}) AS listed"
    least = engine.fetch(f"SELECT MIN(gap) AS gap FROM ({gaps}) AS gaps")["gap"].tolist()[0]
    if least is None:
        return 1
    number = int(2 * within / float(least)) + 1
    return number if number <= _FEW_VALUES else None


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


def _signatures(
    engine: Engine, encoding: Encoding, known: str
) -> tuple[PackedCodes, NDArray[np.int64], NDArray[np.int64]]:
    names = [f"w{position}" for position in range(len(encoding.words))]
    listed = [f"{text} AS {name}" for text, name in zip(encoding.words, names, strict=True)]
    numbers = ["COUNT(*) AS n"]
    if known:
        listed.append(f"CASE WHEN {known} THEN 1 ELSE 0 END AS known")
        numbers.append("CAST(SUM(known) AS BIGINT) AS known")
    coded = f"SELECT {', '.join(listed) or '1'} FROM {encoding.coded_source()}"
    by = ", ".join(names)
    answer = engine.fetch(
        f"SELECT {', '.join([*names, *numbers])} FROM ({coded}) AS coded"
        + (f" GROUP BY {by} ORDER BY {by}" if by else "")
    )
    counts = _whole(answer["n"])
    known_counts = _whole(answer["known"]) if known else np.zeros(len(counts), dtype=np.int64)
    words = np.empty((len(names), len(counts)), dtype=np.int64)
    for word, name in zip(words, names, strict=True):
        word[:] = answer.pop(name)
    return words, counts, known_counts


def _shares(
    engine: Engine, encoding: Encoding, groupings: Sequence[RowGrouping], contributions: int
) -> list[list[int]]:
    """For each cell of each grouping, the most rows that one record has in it."""
    shares = [[contributions] * len(grouping.rows) for grouping in groupings]
    if contributions == 1:
        return shares
    single = [position for position, grouping in enumerate(groupings) if _is_single(encoding, grouping)]
    for start in range(0, len(single), _CONDITIONS_PER_QUERY):
        batch = single[start : start + _CONDITIONS_PER_QUERY]
        answer = engine.fetch(
            _single_shares(encoding, [groupings[position].coded_keys[0] for position in batch])
        )
        for position in batch:
            most = int(answer[f"a{groupings[position].coded_keys[0]}"][0])
            shares[position] = [most] * len(groupings[position].rows)
    for position, grouping in enumerate(groupings):
        if grouping.coded_keys and position not in single:
            shares[position] = _keyed_shares(engine, encoding, grouping)
    return shares


def _is_single(encoding: Encoding, grouping: RowGrouping) -> bool:
    """Whether it is one cell: a condition without GROUP BY."""
    return len(grouping.coded_keys) == 1 and encoding.coded_keys[grouping.coded_keys[0]].key is None


def _single_shares(encoding: Encoding, parts: Sequence[int]) -> str:
    """A query for the largest shares of many conditions without GROUP BY, in one pass over the records."""
    sums = ", ".join(f"SUM({encoding.coded_keys[part].code('')}) AS a{part}" for part in parts)
    record = encoding.rows.record
    counted = f"SELECT {sums} FROM {encoding.coded_source(record, only=parts)} GROUP BY {record}"
    return f"SELECT {', '.join(f'MAX(a{part}) AS a{part}' for part in parts)} FROM ({counted}) AS counted"


def _keyed_shares(engine: Engine, encoding: Encoding, grouping: RowGrouping) -> list[int]:
    names = [f"a{part}" for part in grouping.coded_keys]
    codes = ", ".join(
        f"{encoding.coded_keys[part].code(f'd{part}')} AS a{part}" for part in grouping.coded_keys
    )
    by = ", ".join(names)
    coded = (
        f"SELECT {codes}, {encoding.rows.record} AS r FROM {encoding.coded_source(only=grouping.coded_keys)}"
    )
    counted = f"SELECT {by}, r, COUNT(*) AS n FROM ({coded}) AS coded GROUP BY {by}, r"
    answer = engine.fetch(f"SELECT {by}, MAX(n) AS most FROM ({counted}) AS counted GROUP BY {by}")
    listed = zip(*(answer[name].tolist() for name in names), strict=True)
    largest = dict(zip(listed, answer["most"].tolist(), strict=True))
    return [int(largest[tuple(row)]) for row in grouping.codes.tolist()]


def _with_release_name(
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
