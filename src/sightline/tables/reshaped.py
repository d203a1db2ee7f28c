"""The table as the releases see it: a secret in wide form becomes one column, and other secrets are left out.

Both are done on the engine before anything else: ``data`` is then the reshaped table, for the audit and for
every release's own SQL. No row is read.
"""

from __future__ import annotations

from collections.abc import Sequence

from sightline.errors import InvalidPlan
from sightline.tables.engines.protocol import DATA, Column, Engine
from sightline.tables.sql.fragments import literal, quoted
from sightline.tables.sql.grammar import refuse
from sightline.tables.sql.scope import find_column


def unpivot(engine: Engine, columns: Sequence[str], *, name: str, value: str) -> None:
    """Make a row for each row and each of ``columns``, whose value is then in the column ``value``.

    The column ``name`` holds the name of the column that the value was in. All other columns are repeated. A
    missing value is a row, too: the audit counts rows without a secret.
    """
    wide = _found(engine, columns, field="[data] wide")
    others = [column for column in engine.columns() if column not in wide]
    kinds = {column.kind for column in wide}
    if len(kinds) > 1:
        listed = " and ".join(sorted(kind.value for kind in kinds))
        refuse("[data] wide: columns of one type", got=listed, fix="repair them, or leave some out")
    new = [name.casefold(), value.casefold()]
    taken = [text for text in (name, value) if text.casefold() in {one.name.casefold() for one in others}]
    if taken or new[0] == new[1]:
        refuse(
            "[data] wide: a new name for each new column",
            got=f'"{(taken or [name])[0]}", which is taken',
            fix="name the column of the values in secret, and that of their origin in wide",
        )
    kept = "".join(f"{quoted(column.name)}, " for column in others)
    engine.restrict(
        " UNION ALL ".join(
            f"SELECT {kept}{literal(column.name)} AS {quoted(name)}, "
            f"{quoted(column.name)} AS {quoted(value)} FROM {quoted(DATA)}"
            for column in wide
        )
    )


def leave_out(engine: Engine, columns: Sequence[str]) -> None:
    """Leave columns out of the table, so that no release, condition or order can use them."""
    hidden = _found(engine, columns, field="[secret] column")
    kept = ", ".join(quoted(column.name) for column in engine.columns() if column not in hidden)
    engine.restrict(f"SELECT {kept} FROM {quoted(DATA)}")


def _found(engine: Engine, names: Sequence[str], *, field: str) -> list[Column]:
    try:
        return [find_column(engine.columns(), name) for name in names]
    except InvalidPlan as error:
        raise InvalidPlan(f"{field}: {error}") from None
