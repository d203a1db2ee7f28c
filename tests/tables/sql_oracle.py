"""Draw random releases from the accepted grammar, and compare the audit's cells with the engine's own answer.

The oracle runs the release's own text, with COUNT and SUM, on the engine. It does not use the reader.
``tests/tables/fuzz_sql.py`` runs it with random seeds for as long as one likes.
"""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from sightline.tables.collect import collect, count_table
from sightline.tables.encoding import key_text
from sightline.tables.engines.open import open_source
from sightline.tables.engines.protocol import Engine
from sightline.tables.membership import Feature, Membership, RowValues
from sightline.tables.records import row_values
from sightline.tables.sql.reader import read_release
from sightline.tables.subject import Schema, SecretKind, Subject
from sightline.tables.verify import verify

Run = Callable[[str], list[tuple[Any, ...]]]
Table = dict[tuple[str, ...], tuple[int, float]]  # by group: how many secrets, and their sum
SUBJECT = Subject(record="r", secret="s", kind=SecretKind.NUMBER, bounds=(-100, 100))
DATA = {
    "r": "INTEGER",
    "s": "DOUBLE PRECISION",
    "a": "INTEGER",
    "b": "VARCHAR(9)",
    "c": "BOOLEAN",
    "d": "BOOLEAN",
    "t": "DATE",
}
AREAS = {"k": "INTEGER", "area": "VARCHAR(9)"}


# What they mean depends on which operator binds closer, on NULL, or on how a text constant is read.
FLAT = [
    "NOT a = 1", "NOT c = d", "a = 1 IS NULL", "NOT a IS NULL", "a BETWEEN 0 AND 1 AND c", "c OR d AND a = 1",
    "NOT c OR d", "NOT b LIKE 'x%'", "b NOT LIKE 'x%'", "a NOT IN (1, 2)", "a NOT IN (1, NULL)", "NOT NOT c",
    "c IS NOT TRUE", "c IS FALSE OR d", "b || 'q' = 'xq'", "a - 1 - 1 = 0", "- a % 3 = -1", "a * 3 / 2 = 3",
    "a NOT BETWEEN 0 AND 1", "b = 'it' OR b > 'Y'", "COALESCE(c, d) AND NOT d", "NULLIF(a, 1) IS NULL",
    "a < 2 AND a > 0 OR b = 'y' AND c", "CASE a WHEN 1 THEN c ELSE d END", "t < DATE '2016-03-01'", "1 < a",
    "a + 2 % 3 = 3",
]  # fmt: skip


def data_rows() -> list[tuple[Any, ...]]:
    """80 rows with every combination of a few values, and NULL in every column but the record's."""
    generator = np.random.default_rng(12)
    rows = []
    for r in range(80):
        a, b, c, d, month = (int(generator.integers(n)) for n in (6, 5, 3, 3, 5))
        rows.append(
            (
                r,
                None if r % 13 == 5 else float(generator.integers(-40, 40)) / 4,
                None if a == 5 else a - 1,
                ["x", "y", "xy", "Z", None][b],
                [True, False, None][c],
                [True, False, None][d],
                None if month == 4 else f"2016-0{month + 1}-1{month}",
            )
        )
    return rows


AREA_ROWS = [(-1, "north"), (0, "south"), (1, None), (2, "south")]


def statements() -> list[str]:
    """SQL that creates the two tables, on any engine."""
    created = []
    for name, columns, rows in (("data", DATA, data_rows()), ("areas", AREAS, AREA_ROWS)):
        listed = ", ".join(f"{column} {kind}" for column, kind in columns.items())
        created.append(f"CREATE TABLE {name} ({listed})")
        values = ", ".join(f"({', '.join(map(_constant, row))})" for row in rows)
        created.append(f"INSERT INTO {name} VALUES {values}")
    return created


def _constant(value: object) -> str:
    if isinstance(value, str):
        date = len(value) == 10 and value[4] == "-"
        return f"DATE '{value}'" if date else f"'{value}'"
    return "NULL" if value is None else str(value)


@dataclass(frozen=True)
class Groups:
    """One grouping set: FROM, JOIN and WHERE, the keys, and HAVING."""

    source: str
    keys: tuple[str, ...]
    having: str = ""


@dataclass(frozen=True, kw_only=True)
class Release:
    """A release, and the parts of which the oracle makes its own queries."""

    sql: str
    groups: tuple[Groups, ...]  # of each SELECT's grouping sets, in order
    count: str  # how many secrets a group has
    total: str  # their sum, or how many lie above the threshold


class RandomReleases:
    """Draws expressions, conditions and releases, often without brackets.

    The releases of one audit are made of the same few keys and conditions, in many ways. The engine numbers
    each key under each condition once, so that many releases cost little more than a few.
    """

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.keys = [self.key(joined=False) for _ in range(4)]
        self.conditions = [self.truth(2) for _ in range(2)]

    def choice(self, *choices: str) -> str:
        return str(self.random.choice(np.array(choices, dtype=object)))

    def chance(self, share: float = 0.5) -> bool:
        return bool(self.random.random() < share)

    def number(self, depth: int) -> str:
        if depth == 0 or self.chance(0.3):
            return self.choice(
                "a",
                "a",
                "LENGTH(b)",
                "EXTRACT(MONTH FROM t)",
                "EXTRACT(DOW FROM t)",
                "EXTRACT(WEEK FROM t)",
                "a + 1",
                "a / 2",
                "a % 3",
                "-a",
            )
        inner = self.number(depth - 1)
        return self.choice(
            f"({inner}) * 2 - 1",
            f"({inner}) / 2",
            f"ABS({inner})",
            f"COALESCE({inner}, 7)",
            f"FLOOR(({inner}) / 2.0)",
            f"GREATEST({inner}, 1)",
            f"NULLIF({inner}, 1)",
            f"CASE WHEN {self.truth(depth - 1)} THEN {inner} ELSE {self.number(0)} END",
            f"a - ({inner})",
        )

    def text(self, depth: int) -> str:
        if depth == 0 or self.chance(0.4):
            return self.choice("b", "b", "UPPER(b)", "b || 'q'", "SUBSTRING(b, 1, 1)")
        return self.choice(
            f"COALESCE({self.text(depth - 1)}, '?')",
            f"CASE WHEN {self.truth(depth - 1)} THEN {self.text(0)} END",
            f"LOWER({self.text(depth - 1)})",
        )

    def truth(self, depth: int) -> str:
        if depth == 0 or self.chance(0.2):
            number = self.number(0)
            return self.choice(
                "c", "d", f"{number} >= 1", f"{number} <> 2", "b = 'x'", "b IS NULL", "a IN (0, 2)", *FLAT
            )
        left, right = self.truth(depth - 1), self.truth(depth - 1)
        number, text = self.number(depth - 1), self.text(depth - 1)
        drawn = self.choice(
            f"{left} AND {right}",
            f"{left} OR {right}",
            f"{left} OR {right}",
            f"NOT {left}",
            f"NOT ({left})",
            f"({left}) IS DISTINCT FROM ({right})",
            f"({left}) = ({right})",
            f"({number}) IS NOT DISTINCT FROM a",
            f"({number}) BETWEEN 0 AND 2",
            f"({number}) < ({self.number(0)})",
            f"({text}) LIKE 'x%'",
            f"({text}) IS NOT NULL",
            f"t >= DATE '2016-03-01' AND {left}",
            "t + INTERVAL '40' DAY >= DATE '2016-03-20'",
        )
        return f"({drawn})" if self.chance(0.4) else drawn

    def key(self, joined: bool) -> str:
        kind = self.random.integers(6 if joined else 5)
        if kind == 5:
            return "area"
        if kind == 4:
            return self.choice("a", "b", "c", "d")
        return (self.number, self.text, self.truth, self.truth)[kind](2)

    def release(self) -> Release:
        joined = self.chance(0.25)
        source, prefix, more = self.source()
        join = f" {self.choice('JOIN', 'LEFT JOIN')} areas ON a = k" if joined else ""
        wheres = [self.where(more)]
        pool = [*self.keys, *(["area"] if joined else []), *more]
        keys = list(dict.fromkeys(self.choice(*pool) for _ in range(self.random.integers(0, 4))))
        form, sets = self.grouping(keys)
        having = f" HAVING {self.having()}" if self.chance(0.12) else ""
        aggregate, count, total = self.aggregate()
        items = [*(f"{key} AS k{place}" for place, key in enumerate(keys)), f"{aggregate} AS answer"]
        if self.chance(0.1):
            wheres.append(self.where(more))
        selects = [f"SELECT {', '.join(items)} FROM {{}}{join}{where}{form}{having}" for where in wheres]
        written = "d" if prefix else source
        return Release(
            sql=prefix + " UNION ALL ".join(select.replace("{}", written, 1) for select in selects),
            groups=tuple(
                Groups(f"FROM {source}{join}{where}", chosen, having) for where in wheres for chosen in sets
            ),
            count=count,
            total=total,
        )

    def where(self, more: Sequence[str]) -> str:
        if not self.chance(0.6):
            return ""
        return f" WHERE {self.choice(*self.conditions, *(['w > 1'] if more else []))}"

    def source(self) -> tuple[str, str, list[str]]:
        """A relation, a WITH that calls it d if the release has one, and columns that it adds to ``data``."""
        if self.chance(0.85):
            return "data", "", []
        where = f" WHERE {self.choice(*self.conditions)}" if self.chance() else ""
        # No key of the release means the same: the audit would list it once, and the oracle twice.
        column = f"CASE WHEN {self.choice(*self.conditions)} THEN 5 ELSE {self.number(1)} END"
        other = f"{self.number(1)} + {self.choice('7', '11 * a', 'r')}"
        inner = f"SELECT *, {column} AS e, {other} AS w FROM data{where}"
        if self.chance():
            inner = f"SELECT r, s, a, b, c, d, t, e, w FROM ({inner}) AS inner_one"
        return f"({inner}) AS d", f"WITH d AS ({inner}) " if self.chance() else "", ["e", "w"]

    def having(self) -> str:
        condition = self.choice(*self.conditions)
        return self.choice(
            "COUNT(*) >= 3",
            "COUNT(DISTINCT b) > 1",
            "COUNT(s) BETWEEN 2 AND 9",
            "MAX(a) > 1 OR COUNT(*) < 4",
            "MIN(t) < DATE '2016-03-01'",
            "NOT COUNT(DISTINCT a) = 2",
            f"COUNT(CASE WHEN {condition} THEN 1 END) > 1",
            f"COUNT(*) FILTER (WHERE {condition}) < 5",
        )

    def aggregate(self) -> tuple[str, str, str]:
        condition = self.choice(*self.conditions)
        level = f"{self.random.integers(-8, 8)}.125"
        return [
            ("AVG(s)", "COUNT(s)", "SUM(s)"),
            ("SUM(s)", "COUNT(s)", "SUM(s)"),
            (
                f"SUM(s) FILTER (WHERE {condition})",
                f"COUNT(s) FILTER (WHERE {condition})",
                f"SUM(s) FILTER (WHERE {condition})",
            ),
            (
                f"AVG(CASE WHEN {condition} THEN s END)",
                f"COUNT(CASE WHEN {condition} THEN s END)",
                f"SUM(CASE WHEN {condition} THEN s END)",
            ),
            (f"COUNT(*) FILTER (WHERE s > {level})", "COUNT(s)", f"COUNT(CASE WHEN s > {level} THEN 1 END)"),
        ][self.random.integers(5)]

    def grouping(self, keys: Sequence[str]) -> tuple[str, tuple[tuple[str, ...], ...]]:
        if not keys:
            return "", ((),)
        listed = [self.choice(key, key, f"k{place}", str(place + 1)) for place, key in enumerate(keys)]
        form = self.random.integers(6)
        # sqlglot reads no comparison inside ROLLUP, CUBE or GROUPING SETS without brackets: it is refused.
        wrapped = {key: key if key.isidentifier() else f"({key})" for key in keys}
        inside = ", ".join(wrapped.values())
        if form == 3:
            subsets = tuple(tuple(keys[:length]) for length in range(len(keys), -1, -1))
            return f" GROUP BY ROLLUP ({inside})", subsets
        if form == 4:
            subsets = tuple(
                chosen for size in range(len(keys), -1, -1) for chosen in itertools.combinations(keys, size)
            )
            return f" GROUP BY CUBE ({inside})", subsets
        if form == 5:
            subsets = (tuple(keys), (keys[-1],), ()) if len(keys) > 1 else (tuple(keys), ())
            texts = ", ".join(f"({', '.join(wrapped[key] for key in subset)})" for subset in subsets)
            return f" GROUP BY GROUPING SETS ({texts})", subsets
        return f" GROUP BY {', '.join(listed)}", (tuple(keys),)


def raw_answers(releases: Sequence[Release], run: Run) -> list[list[list[tuple[Any, ...]]]]:
    """For every release and grouping set its own text, answered: keys, how many secrets, and their sum.

    What is counted over the same rows and keys is asked in one query.
    """
    asked: dict[Groups, dict[str, int]] = {}
    for release in releases:
        for groups in release.groups:
            columns = asked.setdefault(groups, {})
            for text in (release.count, release.total):
                columns.setdefault(text, len(groups.keys) + len(columns))
    answers = {groups: run(_raw_query(groups, columns)) for groups, columns in asked.items()}
    return [
        [_chosen(answers[groups], len(groups.keys), asked[groups], release) for groups in release.groups]
        for release in releases
    ]


def _chosen(
    rows: list[tuple[Any, ...]], keys: int, columns: dict[str, int], release: Release
) -> list[tuple[Any, ...]]:
    count, total = columns[release.count], columns[release.total]
    return [(*row[:keys], row[count], row[total]) for row in rows]


def _raw_query(groups: Groups, aggregates: Iterable[str]) -> str:
    grouped = f" GROUP BY {', '.join(f'({key})' for key in groups.keys)}" if groups.keys else ""
    listed = [f"({key}) AS g{place}" for place, key in enumerate(groups.keys)]
    return f"SELECT {', '.join([*listed, *aggregates])} {groups.source}{grouped}{groups.having}"


def raw_queries(release: Release) -> list[str]:
    """For every grouping set the release's own text: the keys, how many secrets a group has, their sum."""
    return [
        _raw_query(groups, (f"{release.count} AS n", f"{release.total} AS total"))
        for groups in release.groups
    ]


def published(rows: list[tuple[Any, ...]]) -> Table:
    """What the engine publishes for a grouping set; groups without a secret are left out."""
    return {
        tuple("NULL" if value is None else key_text(value) for value in row[:-2]): (
            int(row[-2]),
            float(row[-1] or 0),
        )
        for row in rows
        if row[-2]
    }


def audited(membership: Membership, values: RowValues | None, query: int) -> list[Table]:
    """What the audit says is published: the cells of one release's partitions, with their sums."""
    tables: list[Table] = []
    for place, partition in enumerate(membership.partitions):
        if partition.query != query:
            continue
        cells = [cell for cell in membership.cells if cell.partition == place]
        if values is None:
            tables.append({cell.key: (cell.rows, 0.0) for cell in cells})
            continue
        cell_of = membership.signatures[values.signature, place]
        added = values.secret
        if partition.feature is Feature.THRESHOLD:
            assert isinstance(partition.parameter, int | float)
            added = (values.secret > partition.parameter).astype(float)
        inside = cell_of >= 0
        sums = np.bincount(cell_of[inside], added[inside], minlength=len(cells))
        tables.append({cell.key: (cell.rows, float(total)) for cell, total in zip(cells, sums, strict=True)})
    return tables


def differences(engine: Engine, run: Run, seed: int, number: int, *, together: bool = False) -> list[str]:
    """The releases, among ``number`` drawn ones, that the audit reads differently from the engine.

    With ``together`` the engine answers all raw queries in one, without the keys: sizes and sums are
    compared.
    """
    random = RandomReleases(seed)
    releases = [random.release() for _ in range(number)]
    schema = Schema.of(engine, ["areas"])
    queries = [
        read_release(release.sql, name=str(place), subject=SUBJECT, schema=schema)
        for place, release in enumerate(releases)
    ]
    membership = collect(engine, queries, SUBJECT)
    if seed % 4 == 1:
        verify(engine, queries, membership)
    # Sums need every row's secret, which takes as long as the rest: compare them for every fourth seed.
    values = row_values(engine, count_table(engine, queries, SUBJECT)) if seed % 4 == 0 else None
    if together:
        answers = _answers_together([raw_queries(release) for release in releases], run)
    else:
        answers = raw_answers(releases, run)
    different = []
    for place, (release, rows) in enumerate(zip(releases, answers, strict=True)):
        ours: list[Any] = audited(membership, values, place)
        theirs: list[Any] = [published(one) for one in rows]
        if values is None:
            theirs = [{key: (count, 0.0) for key, (count, _) in table.items()} for table in theirs]
        if together:
            ours = [sorted(table.values()) for table in ours]
            theirs = [sorted(table.values()) for table in theirs]
        if ours != theirs:
            different.append(release.sql)
    return different


def _answers_together(raw: list[list[str]], run: Run) -> list[list[list[tuple[Any, ...]]]]:
    """The answers of all queries from one UNION; a number stands for the keys of each line."""
    texts = [
        f"SELECT {place} AS p, {number} AS q, n, CAST(total AS DOUBLE) AS total FROM ({text}) AS one"
        for place, queries in enumerate(raw)
        for number, text in enumerate(queries)
    ]
    answers: list[list[list[tuple[Any, ...]]]] = [[[] for _ in queries] for queries in raw]
    for line, (place, query, count, total) in enumerate(run(" UNION ALL ".join(texts))):
        answers[place][query].append((line, count, total))
    return answers


def duckdb_tables(folder: Path) -> tuple[Engine, Run, duckdb.DuckDBPyConnection]:
    """The tables in a DuckDB file, open twice: for the audit and for the oracle."""
    with duckdb.connect(str(folder / "oracle.duckdb")) as connection:
        for statement in statements():
            connection.execute(statement)
    connection = duckdb.connect()
    for statement in statements():
        connection.execute(statement)
    engine = open_source("oracle.duckdb::data", base=folder, tables={"areas": "oracle.duckdb::areas"})
    return engine, lambda sql: connection.execute(sql).fetchall(), connection


def hunt(check: Callable[[Engine, Run, int], None], seed: int, seconds: float) -> int:
    """Check one seed after the other on DuckDB until the seconds are over; how many there were."""
    until = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as folder:
        engine, run, connection = duckdb_tables(Path(folder))
        try:
            for number in itertools.count(1):
                check(engine, run, seed + number - 1)
                if time.monotonic() > until:
                    return number
        finally:
            engine.close()
            connection.close()
    raise AssertionError("the count has no end")
