"""The rows of ``data``, as the plan makes and declares them, and the audited ones with their lookups.

Audited are the rows with a secret and a record key.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from sqlglot import exp

from sightline.errors import InvalidPlan
from sightline.tables.engines.protocol import DATA, SOURCE, Column, ColumnKind, Engine
from sightline.tables.sql.data_query import DataQuery
from sightline.tables.sql.fragments import clipped_to, outside, quoted, valid_secret
from sightline.tables.sql.grammar import parse_condition, refuse
from sightline.tables.sql.grouping import WindowColumn
from sightline.tables.sql.reader import ReleaseQuery
from sightline.tables.sql.scope import Join, find_column
from sightline.tables.subject import Schema, SecretKind, Subject
from sightline.values import frozen


@frozen(eq=True)
class Rows:
    """Rows of ``data`` that have a secret and a record key; NaN and infinite secrets count as missing."""

    record: str  # SQL of the record key
    secret: str  # SQL of the secret as a number, a truth value or a text; NULL where it is missing
    joins: tuple[Join, ...]
    windows: tuple[WindowColumn, ...] = ()
    complete: bool = False  # whether it was counted that every row of ``data`` has both
    within: bool = False  # whether it was counted that no secret lies outside its bounds

    @property
    def present(self) -> str:
        return f"{self.record} IS NOT NULL AND {self.secret} IS NOT NULL"

    def source(self, *texts: str) -> str:
        """The audited rows as a FROM clause, with the lookups and window columns that ``texts`` use."""
        wanted = " ".join(texts)
        rows = self._with_windows(wanted)
        if not self.complete:  # the subquery is called data too, so that conditions stay the same
            rows = f"(SELECT * FROM {rows} WHERE {self.present}) AS {quoted(DATA)}"
        return rows + self._lookups(wanted)

    def _with_windows(self, text: str) -> str:
        """All rows of ``data``, with the window columns that a text uses."""
        rows, own = f"{quoted(DATA)} AS {quoted(DATA)}", [one for one in self.windows if one.name in text]
        if not own:
            return rows
        listed = ", ".join(f"{one.text} AS {quoted(one.name)}" for one in own)
        lookups = self._lookups(" ".join(one.text for one in own))
        return f"(SELECT {quoted(DATA)}.*, {listed} FROM {rows}{lookups}) AS {quoted(DATA)}"

    def _lookups(self, text: str) -> str:
        """LEFT JOINs of the lookups that a text uses."""
        chosen: list[Join] = []
        for join in reversed(self.joins):  # a lookup may use an earlier one
            if join.alias in text:
                chosen.append(join)
                text += join.condition
        return "".join(
            f" LEFT JOIN {quoted(join.table)} AS {quoted(join.alias)} ON {join.condition}"
            for join in reversed(chosen)
        )


def clipped_secret(rows: Rows, subject: Subject) -> str:
    """The secret as SQL: a number clipped to its bounds, 1 for a yes and 0 for a no, or a category."""
    match subject.kind:
        case SecretKind.BOOLEAN:
            return f"CASE WHEN {rows.secret} THEN 1.0 ELSE 0.0 END"
        case SecretKind.CATEGORY:
            return rows.secret
        case SecretKind.NUMBER:
            return rows.secret if rows.within else clipped_to(rows.secret, *subject.bounds)


def audited_rows(queries: Sequence[ReleaseQuery], subject: Subject, columns: Sequence[Column]) -> Rows:
    """Describe the rows on which ``queries`` are audited, with each distinct lookup once."""
    key, column = find_column(columns, subject.record), find_column(columns, subject.secret)
    lookups: dict[str, Join] = {}
    for join in (join for query in queries for join in query.joins):
        first = lookups.setdefault(join.alias, join)
        if (first.table, first.condition) != (join.table, join.condition):
            refuse("a different alias for each lookup", got=f'"{join.alias}" twice')
    return Rows(
        record=f"{quoted(DATA)}.{quoted(key.name)}",
        secret=valid_secret(f"{quoted(DATA)}.{quoted(column.name)}", subject, column),
        joins=tuple(lookups.values()),
        windows=tuple({window.name: window for query in queries for window in query.windows}.values()),
    )


# DuckDB marks keys in one string of bits per thread; a hash table takes at least 128 bits for each key.
_BITS_PER_ROW = 8
_MOST_BITS = 1 << 29  # DuckDB allows up to 10^9


@frozen(eq=True)
class RowCounts:
    """How many rows and records a table has."""

    total: int  # rows of the table
    present: int  # those with a secret and a record key
    clipped: int  # of those, the ones whose secret lies outside its bounds or categories
    records: int
    contributions: int  # the most rows of one record

    @property
    def complete(self) -> bool:
        """Whether every row has a secret and a record key."""
        return self.present == self.total


def count_rows(engine: Engine, rows: Rows, subject: Subject) -> RowCounts:
    """Count the rows and records. A record with more rows than ``most_rows`` is refused."""
    count_if = "COUNT(CASE WHEN {} THEN 1 END)"
    numbers = find_column(engine.columns(), subject.record).kind is ColumnKind.NUMBER
    has_bits = engine.dialect == "duckdb" and numbers
    ends = f", MIN({rows.record}) AS least, MAX({rows.record}) AS most" if has_bits else ""
    answer = {
        name: values.tolist()[0]
        for name, values in engine.fetch(
            f"SELECT COUNT(*) AS total, {count_if.format(rows.present)} AS present, "
            f"{count_if.format(f'({rows.present}) AND ({outside(rows.secret, subject)})')} AS clipped{ends} "
            f"FROM {quoted(DATA)}"
        ).items()
    }
    total, present = int(answer["total"]), int(answer["present"])
    if total == 0:
        refuse("rows in the table", got="an empty table", fix="check the data source")
    if present == 0:
        refuse(
            "rows with a record key and a finite secret",
            got=f"none among {total:,} rows",
            fix="check which columns the plan names",
        )
    records, contributions = _contributions(
        engine,
        replace(rows, complete=present == total),
        present,
        least=answer.get("least"),
        most=answer.get("most"),
    )
    most = subject.most_rows
    if contributions > most:
        refuse(
            f"at most {most} {'rows' if most > 1 else 'row'} per record, the declared contribution limit",
            got=f"{contributions} rows of one record",
            fix=f"set max_rows_per_record = {contributions} in [data] if that is meant, or keep fewer rows",
        )
    return RowCounts(
        total=total,
        present=present,
        clipped=int(answer["clipped"]),
        records=records,
        contributions=contributions,
    )


def counted_rows(engine: Engine, rows: Rows, subject: Subject, counts: RowCounts) -> Rows:
    """The same rows as simpler SQL, where counting has shown that none is left out or clipped."""
    if not counts.complete:
        return rows
    secret = rows.secret
    if subject.kind.measured:  # all are finite
        column = find_column(engine.columns(), subject.secret)
        secret = f"CAST({quoted(DATA)}.{quoted(column.name)} AS DOUBLE)"
    return replace(rows, secret=secret, complete=True, within=counts.clipped == 0)


def check_lookups(engine: Engine, rows: Rows, counts: RowCounts) -> None:
    """Refuse a lookup that finds two matches for a row: its record would be published twice.

    Window functions and HAVING see all rows, not only those that are audited.
    """
    for join in rows.joins:
        every = replace(rows, complete=True) if rows.windows else rows
        source, expected = every.source(join.alias), counts.total if rows.windows else counts.present
        joined = int(engine.fetch(f"SELECT COUNT(*) AS n FROM {source}")["n"][0])
        if joined != expected:
            refuse(
                f'at most one row of "{join.table}" for each row of data',
                got=f"{joined:,} rows where data has {expected:,}",
                fix="make the joined columns unique in that table",
            )


def _contributions(engine: Engine, rows: Rows, present: int, *, least: Any, most: Any) -> tuple[int, int]:
    """How many records there are, and the most rows of one; ``least`` and ``most`` are the ends of the keys.

    With these ends, whole numbers in a moderate range are marked in a string of bits first. If as many bits
    are set as there are rows, no key occurs twice.
    """
    if isinstance(least, int) and isinstance(most, int):
        length = most - least + 1
        if length <= min(_BITS_PER_ROW * present, _MOST_BITS):
            marked = f"BITSTRING_AGG({rows.record}, {least}, {most})"
            answer = engine.fetch(f"SELECT BIT_COUNT({marked}) AS n FROM {rows.source()}")
            if int(answer["n"][0]) == present:
                return present, 1
    per_record = f"SELECT {rows.record} AS r, COUNT(*) AS n FROM {rows.source()} GROUP BY {rows.record}"
    answer = engine.fetch(f"SELECT COUNT(*) AS records, MAX(n) AS most FROM ({per_record}) AS counted")
    return int(answer["records"][0]), int(answer["most"][0])


def make_data(engine: Engine, made: DataQuery) -> None:
    """Let ``data`` be what ``[data] sql`` makes, without columns that tell of a secret. No row is read."""
    rows = SOURCE
    if made.sql is not None:
        rows = f"({made.sql}) AS {DATA}"
        engine.define(made.sql)
        names = sorted(column.name.casefold() for column in engine.columns())
        if names != sorted(map(str.casefold, made.columns)):
            refuse(
                "[data] sql: the columns that it lists",
                got="others from the engine",
                fix="list the columns by their names, not by *",
            )
    if made.hidden:
        hidden = [find_column(engine.columns(), name) for name in made.hidden]
        kept = [exp.to_identifier(one.name, quoted=True) for one in engine.columns() if one not in hidden]
        engine.define(f"SELECT {', '.join(name.sql(engine.dialect) for name in kept)} FROM {rows}")


def check_made(engine: Engine, made: DataQuery) -> None:
    """Refuse rows that are not the same each time, or that a join makes several of."""
    for text in made.ties:
        if int(engine.fetch_own(text)["n"][0]):
            refuse(
                "[data] sql: an order without ties in its window functions",
                got="rows that tie, so that each run may make other rows",
                fix="order by more columns, such as a number of the row, or use RANK",
            )
    for text in made.lookups:
        answer = engine.fetch_own(text)
        if int(answer["n"][0]) != int(answer["joined"][0]):
            refuse(
                "[data] sql: at most one row of a joined table for each row",
                got=f"{int(answer['joined'][0]):,} rows from {int(answer['n'][0]):,}",
                fix="make the joined columns unique in that table",
            )


def check_declared(engine: Engine, subject: Subject) -> None:
    """Refuse a record or secret that is not a suitable column; the message names the field of ``[data]``."""
    columns = engine.columns()
    known = {column.name.casefold() for column in columns}
    if not known & {subject.record.casefold(), subject.secret.casefold()}:
        # Without a header line the first row would be read as names: the message must not quote them.
        raise InvalidPlan(
            f'[data] record: expected a column of the table, got neither "{subject.record[:60]}" nor '
            f'"{subject.secret[:60]}" among its {len(columns)}; check the names, and that a CSV has a header '
            "line"
        )
    try:
        key = find_column(columns, subject.record)
    except InvalidPlan as error:
        raise InvalidPlan(f"[data] record: {error}") from None
    try:
        _refuse_expression(engine, subject.secret, known)
        column = find_column(columns, subject.secret)
        if column == key:
            refuse(
                "a secret that is not the record key",
                got=f'"{subject.secret}" as both',
                fix="name two columns",
            )
        if subject.kind.measured and column.kind is ColumnKind.TEXT:
            refuse(
                "a column of numbers",
                got=_text_column(engine, column),
                fix="repair them, or declare categories",
            )
    except InvalidPlan as error:
        raise InvalidPlan(f"[data] secret: {error}") from None


def _refuse_expression(engine: Engine, secret: str, known: Collection[str]) -> None:
    """Say how to write a secret that is an expression of columns."""
    if secret.casefold() in known:
        return
    try:
        node = parse_condition(secret, engine.dialect)
    except InvalidPlan:
        return
    if not isinstance(node.unnest(), exp.Column) and node.find(exp.Column) is not None:
        refuse(
            "a column",
            got="an expression",
            fix=f'compute it in [data]: sql = "SELECT *, {secret} AS value FROM source", secret = "value"',
        )


def check_public(schema: Schema, secrets: Collection[str]) -> None:
    """Refuse a declared public table with a column of a secret's name: a join could publish the secret."""
    for name, columns in schema.tables.items():
        same = [column.name for column in columns if column.name.casefold() in secrets]
        if same:
            raise InvalidPlan(
                f'[data] tables: expected public tables, got "{name}" with a column "{same[0]}", '
                "which is the secret's name; leave the column out, or rename it if it is public"
            )


def _text_column(engine: Engine, column: Column) -> str:
    """Describe a column of text; on DuckDB, with the number of its values that are not numbers."""
    if engine.dialect != "duckdb":
        return f'"{column.name}", a text column'
    name = quoted(column.name)
    answer = engine.fetch(
        f"SELECT COUNT({name}) AS n, COUNT(TRY_CAST({name} AS DOUBLE)) AS numbers FROM {quoted(DATA)}"
    )
    count, numbers = int(answer["n"][0]), int(answer["numbers"][0])
    verb = "is not a number" if count - numbers == 1 else "are not numbers"
    return f'"{column.name}", a text column: {count - numbers:,} of its {count:,} values {verb}'
