"""The columns that a plan declares: they are there, and they hold what the plan says."""

from __future__ import annotations

from sightline.errors import InvalidPlan
from sightline.tables.engines.protocol import DATA, Column, ColumnKind, Engine
from sightline.tables.sql.fragments import quoted
from sightline.tables.sql.grammar import refuse
from sightline.tables.sql.scope import find_column
from sightline.tables.subject import Schema, SecretKind, Subject


def check_declared(engine: Engine, subject: Subject) -> None:
    """Refuse a plan whose record or secret is no such column; the message names the field of ``[data]``."""
    columns = engine.columns()
    known = {column.name.casefold() for column in columns}
    if not known & {subject.record.casefold(), subject.secret.casefold()}:
        # A file without a header line has its first row as names: they must not be quoted.
        raise InvalidPlan(
            f'[data] record: expected a column of the table, got neither "{subject.record}" nor '
            f'"{subject.secret}" among its {len(columns)}; check the names, and that a CSV has a header line'
        )
    try:
        key = find_column(columns, subject.record)
    except InvalidPlan as error:
        raise InvalidPlan(f"[data] record: {error}") from None
    try:
        column = find_column(columns, subject.secret)
        if column == key:
            refuse(
                "a secret that is not the record key",
                got=f'"{subject.secret}" as both',
                fix="name two columns",
            )
        if subject.kind is SecretKind.NUMBER and column.kind is ColumnKind.TEXT:
            refuse("a column of numbers", got=_text(engine, column), fix="repair them, or declare categories")
    except InvalidPlan as error:
        raise InvalidPlan(f"[data] secret: {error}") from None


def check_public(schema: Schema, subject: Subject) -> None:
    """Refuse a declared public table that has the secret as a column: queries could join it as public."""
    for name, columns in schema.tables.items():
        if any(column.name.casefold() == subject.secret.casefold() for column in columns):
            raise InvalidPlan(
                f'[data] tables: expected public tables, got "{name}" with a column "{subject.secret}", '
                "which is the secret's name; leave the column out, or rename it if it is public"
            )


def _text(engine: Engine, column: Column) -> str:
    """What is known of a column of text; how many of its values are not numbers, where a cast may fail."""
    if engine.dialect != "duckdb":
        return f'"{column.name}", a text column'
    name = quoted(column.name)
    answer = engine.fetch(
        f"SELECT COUNT({name}) AS n, COUNT(TRY_CAST({name} AS DOUBLE)) AS numbers FROM {quoted(DATA)}"
    )
    count, numbers = int(answer["n"][0]), int(answer["numbers"][0])
    verb = "is not a number" if count - numbers == 1 else "are not numbers"
    return f'"{column.name}", a text column: {count - numbers:,} of its {count:,} values {verb}'
