"""Check the columns and tables that a plan declares against the data."""

from __future__ import annotations

from collections.abc import Sequence

from sightline.errors import InvalidPlan
from sightline.tables.engines.protocol import DATA, Column, ColumnKind, Engine
from sightline.tables.sql.fragments import quoted
from sightline.tables.sql.grammar import refuse
from sightline.tables.sql.scope import find_column
from sightline.tables.subject import Schema, SecretKind, Subject


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


def check_public(schema: Schema, subject: Subject, others: Sequence[str] = ()) -> None:
    """Refuse a declared public table with a column of a secret's name: a join could publish the secret."""
    hidden = {other.casefold() for other in others}
    for name, columns in schema.tables.items():
        secrets = [
            column.name
            for column in columns
            if subject.is_secret(column.name) or column.name.casefold() in hidden
        ]
        if secrets:
            raise InvalidPlan(
                f'[data] tables: expected public tables, got "{name}" with a column "{secrets[0]}", '
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
