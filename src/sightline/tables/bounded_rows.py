"""Contribution bounding: the rows of a record that are published, or their clipped total.

Both are done on the engine before anything else, as the publisher does them: ``data`` is then the bounded
table, for the audit and for every release's own SQL. Which rows are kept depends on public columns alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from sightline.tables.engines.protocol import DATA, ColumnKind, Engine
from sightline.tables.sql.fragments import quoted
from sightline.tables.sql.grammar import refuse
from sightline.tables.sql.scope import find_column
from sightline.tables.subject import SecretKind, Subject

_PLACE = "sightline_place"


def keep_rows(engine: Engine, subject: Subject, *, rows: int, order: Sequence[str]) -> None:
    """Keep the first ``rows`` rows of each record in the table. No row is read yet.

    ``order`` lists public columns, each with `` DESC`` after it if its largest value comes first.
    """
    columns = engine.columns()
    by = ", ".join(_ordered(engine, subject, text) for text in order)
    record = quoted(find_column(columns, subject.record).name)
    listed = ", ".join(quoted(column.name) for column in columns)
    ranked = (
        f"SELECT {listed}, RANK() OVER (PARTITION BY {record} ORDER BY {by}) AS {_PLACE} FROM {quoted(DATA)}"
    )
    # Rows without a key are nobody's: the audit counts them by themselves.
    engine.restrict(f"SELECT {listed} FROM ({ranked}) AS ranked WHERE {record} IS NULL OR {_PLACE} <= {rows}")


def check_kept_rows(engine: Engine, subject: Subject, *, rows: int) -> None:
    """Refuse an order that leaves open which rows of a record are kept.

    Rows that the order does not tell apart have one rank: a record would keep more rows than it may.
    """
    record = quoted(find_column(engine.columns(), subject.record).name)
    counted = f"SELECT COUNT(*) AS n FROM {quoted(DATA)} WHERE {record} IS NOT NULL GROUP BY {record}"
    most = engine.fetch(f"SELECT MAX(n) AS most FROM ({counted}) AS counted")["most"].tolist()[0]
    if most is not None and most > rows:
        refuse(
            "[data] keep: an order that tells a record's rows apart",
            got=f"a record that would keep {int(most):,} rows, where it may keep {rows:,}",
            fix="order by more columns, such as a number of the row",
        )


def _ordered(engine: Engine, subject: Subject, text: str) -> str:
    """A column of the order as SQL; NULL comes last."""
    name, direction = text, "ASC"
    if text.upper().endswith((" DESC", " ASC")):
        name, direction = text.rsplit(maxsplit=1)
    return f"{_public(engine, subject, name, field='keep')} {direction.upper()} NULLS LAST"


def total_rows(engine: Engine, subject: Subject, *, by: Sequence[str]) -> None:
    """One row for each record and each value of some public columns, with the record's clipped total there.

    No row is read yet.
    """
    columns = engine.columns()
    if subject.expression is not None:
        refuse(
            "[data] total_by for a secret that is a column",
            got=subject.expression.name,
            fix="add up the rows of each record in a subquery of every release",
        )
    secret = find_column(columns, subject.secret)
    if (
        subject.kind is not SecretKind.NUMBER
        or secret.kind is not ColumnKind.NUMBER
        or subject.bounds is None
    ):
        refuse("[data] total_by for a secret that is a number", got=f"a {subject.kind.value}")
    record = quoted(find_column(columns, subject.record).name)
    keys = list(dict.fromkeys([record, *(_public(engine, subject, name, field="total_by") for name in by)]))
    name = quoted(secret.name)
    value = f"CAST({name} AS DOUBLE)"
    # The order makes the total the same each time; Spark has no ordered aggregates.
    total = f"SUM({value})" if engine.dialect == "spark" else f"SUM({value} ORDER BY {value})"
    low, high = subject.bounds
    missing = f"CASE WHEN COUNT({name}) > 0 THEN LEAST(GREATEST({total}, {low!r}), {high!r}) END"
    listed = ", ".join(keys)
    engine.restrict(f"SELECT {listed}, {missing} AS {name} FROM {quoted(DATA)} GROUP BY {listed}")


def _public(engine: Engine, subject: Subject, name: str, *, field: str) -> str:
    column = find_column(engine.columns(), name)
    if subject.is_secret(column.name):
        refuse(
            f"[data] {field}: public columns",
            got=f'the secret "{column.name}"',
            fix="which rows are kept would tell something of the secret",
        )
    return quoted(column.name)
