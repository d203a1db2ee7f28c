"""A secret of several columns, such as race and ethnicity: one category of their values together.

``data`` gets a column for it, "race / hispanic", whose values are "white / no", "white / yes", and so on. In
a release, each of the columns by itself is a function of that category, as ``LEFT(diagnosis, 1)`` is one of a
diagnosis: its conditions are sets of categories, and GROUP BY of it has one partition for each value.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from sqlglot import exp

from sightline.errors import require_plan
from sightline.tables.engines.protocol import DATA, SOURCE, Column, ColumnKind, Engine
from sightline.tables.sql.data_query import DataQuery
from sightline.tables.sql.scope import bound_column, find_column
from sightline.tables.subject import SEPARATOR, Subject


def joint_query(engine: Engine, *, secret: str, parts: Sequence[str], hidden: Sequence[str]) -> DataQuery:
    """How ``data`` is made: the columns of the table, and the joint secret, which no row has a part of."""
    columns = engine.columns(SOURCE)
    own = [find_column(columns, name) for name in parts]
    require_plan(
        secret.casefold() not in {one.name.casefold() for one in columns},
        f"a table without a column {secret[:60]!r}, beside the secret of these columns",
        got="one with it",
        fix="name that column alone as the secret",
    )
    for one in own:
        require_plan(
            one.kind in (ColumnKind.TEXT, ColumnKind.BOOLEAN, ColumnKind.NUMBER),
            "a secret of columns of texts, yes or no, or whole numbers",
            got=f'"{one.name}", a {one.kind.value} column',
        )
    quoted = [_quoted(one.name, engine.dialect) for one in own]
    there = [f"{name} IS NOT NULL" for name in quoted]
    some = f"({' OR '.join(there)}) AND NOT ({' AND '.join(there)})"
    answer = engine.fetch_own(f"SELECT COUNT(CASE WHEN {some} THEN 1 END) AS n FROM {SOURCE}")
    number = int(np.asarray(answer["n"])[0])
    require_plan(
        number == 0,
        "rows with all columns of a joint secret, or none",
        got=f"{number:,} with some of them",
        fix="write a value for what is missing, such as 'unknown', and list it in categories",
    )
    text = f" || '{SEPARATOR}' || ".join(f"CAST({name} AS VARCHAR)" for name in quoted)
    kept = [one.name for one in columns if one.name not in hidden]
    listed = ", ".join(_quoted(name, engine.dialect) for name in kept)
    joint = f"CASE WHEN {' AND '.join(there)} THEN {text} END AS {_quoted(secret, engine.dialect)}"
    return DataQuery(
        sql=f"SELECT {listed}, {joint} FROM {SOURCE}",
        columns=(*kept, secret),
        secrets=frozenset(name.casefold() for name in (secret, *parts)),
    )


def parts_as_sql(columns: Sequence[Column], subject: Subject) -> dict[str, exp.Expr]:
    """Each column of a joint secret, in lower case, as a function of the joint one.

    >>> from sightline.tables.subject import SecretKind
    >>> columns = [Column("race", ColumnKind.TEXT), Column("adult", ColumnKind.BOOLEAN)]
    >>> both = ["w / true", "b / true", "b / false"]
    >>> about = dict(record="id", secret="s", kind=SecretKind.CATEGORY, categories=both)
    >>> print(parts_as_sql(columns, Subject(parts=("race", "adult"), **about))["adult"].sql())
    CASE WHEN "data"."s" IN ('w / true', 'b / true') THEN TRUE WHEN "data"."s" IN ('b / false') THEN FALSE END
    """
    found: dict[str, exp.Expr] = {}
    for place, name in enumerate(subject.parts):
        column = find_column(columns, name)
        alike: dict[str, list[str]] = {}
        for category in subject.categories:
            alike.setdefault(category.split(SEPARATOR)[place], []).append(category)
        case = exp.Case()
        for value, names in alike.items():
            listed = [exp.Literal.string(each) for each in names]
            one = exp.In(this=bound_column(subject.secret, DATA), expressions=listed)
            case = case.when(one, _constant(value, column), copy=False)
        found[column.name.casefold()] = case
    return found


def _constant(value: str, column: Column) -> exp.Expr:
    """A value of a column as SQL."""
    if column.kind is ColumnKind.BOOLEAN and value in ("true", "false"):
        return exp.convert(value == "true")
    whole = value.lstrip("-").isdigit()
    require_plan(
        column.kind is ColumnKind.TEXT or (column.kind is ColumnKind.NUMBER and whole),
        f'categories with the values of "{column.name}", a {column.kind.value} column',
        got=repr(value[:60]),
        fix="true and false, or whole numbers",
    )
    return exp.Literal.string(value) if column.kind is ColumnKind.TEXT else exp.convert(int(value))


def _quoted(name: str, dialect: str) -> str:
    return exp.to_identifier(name, quoted=True).sql(dialect)
