"""Make ``data`` as the plan says, and check the columns and tables that it declares against it."""

from __future__ import annotations

from collections.abc import Collection

from sqlglot import exp

from sightline.errors import InvalidPlan
from sightline.tables.engines.protocol import DATA, Column, ColumnKind, Engine
from sightline.tables.sql.data_query import DataQuery
from sightline.tables.sql.fragments import quoted
from sightline.tables.sql.grammar import parse_condition, refuse
from sightline.tables.sql.scope import find_column
from sightline.tables.subject import Schema, SecretKind, Subject


def make_data(engine: Engine, made: DataQuery) -> None:
    """Let ``data`` be what ``[data] sql`` makes, without columns that tell of a secret. No row is read."""
    if made.sql is not None:
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
        kept = ", ".join(quoted(column.name) for column in engine.columns() if column not in hidden)
        engine.restrict(f"SELECT {kept} FROM {quoted(DATA)}")


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
        if subject.kind is SecretKind.NUMBER and column.kind is ColumnKind.TEXT:
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
