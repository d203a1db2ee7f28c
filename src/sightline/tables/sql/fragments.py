"""Put parts of a plan's SQL into our own queries, and write our queries for an engine with its own tables.

We write our own queries in DuckDB's dialect and translate them for other engines. We do not translate what
the plan's author wrote, since a translation could compute something else (``age / 10`` is a decade on
Postgres and a fraction on DuckDB). On other engines a fragment is therefore written as
``SIGHTLINE_OWN('text in the dialect of the source')`` until the query around it is translated.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import sqlglot
from numpy.typing import NDArray
from sqlglot import exp
from sqlglot.errors import SqlglotError

from sightline.tables.engines.protocol import Column, ColumnKind
from sightline.tables.membership import Band, Parameter
from sightline.tables.sql.grammar import refuse, text_of
from sightline.tables.subject import SecretKind, Subject

# Releases or signatures that one query of ours asks about, each with conditions of its own. And SELECTs of
# one release, with every use of a WITH counted.
PER_QUERY = 200
OWN = "SIGHTLINE_OWN"  # a plan cannot contain it: its functions come from a list


def embedded(node: exp.Expr, dialect: str) -> str:
    """Write a bound expression as SQL that can stand anywhere in one of our own queries.

    >>> from sqlglot import parse_one
    >>> embedded(parse_one("a OR b"), "duckdb")
    '(a OR b)'
    >>> embedded(parse_one("age / 10", read="postgres"), "postgres")
    "SIGHTLINE_OWN('age / 10')"
    """
    if isinstance(node, exp.Column):
        return text_of(node, "duckdb")
    text = text_of(node, dialect)
    return f"({text})" if dialect == "duckdb" else f"{OWN}({literal(text)})"


def readable(text: str) -> str:
    """Return an embedded expression as a message shows it.

    >>> readable("SIGHTLINE_OWN('age / 10')")
    'age / 10'
    """
    return text.removeprefix(f"{OWN}('").removesuffix("')") if text.startswith(OWN) else text


def quoted(name: str) -> str:
    """Quote an identifier for DuckDB's SQL.

    >>> quoted('a "b" c')
    '"a ""b"" c"'
    """
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Quote a text constant for DuckDB's SQL.

    >>> literal("o'clock")
    "'o''clock'"
    """
    return "'" + text.replace("'", "''") + "'"


_LARGEST = "1.7976931348623157e308"  # a larger number is infinite, or NaN


def drawn(key: str, share: float) -> str:
    """The condition that a record is one of a share of them, drawn by the MD5 hash of its key."""
    return f"MD5(CAST({key} AS VARCHAR)) < {literal(f'{int(share * 16**32):032x}')}"


def valid_secret(raw: str, subject: Subject, column: Column) -> str:
    """The secret if the audit uses it, else NULL: NaN, infinite, or a boolean other than 0 and 1."""
    if subject.kind is SecretKind.NUMBER:
        # NaN is larger than every number on all three engines, so only finite numbers remain.
        return f"(CASE WHEN ABS(CAST({raw} AS DOUBLE)) <= {_LARGEST} THEN CAST({raw} AS DOUBLE) END)"
    if subject.kind is SecretKind.BOOLEAN and column.kind is ColumnKind.NUMBER:
        return f"(CASE WHEN {raw} = 1 THEN TRUE WHEN {raw} = 0 THEN FALSE END)"
    if subject.kind is SecretKind.CATEGORY and column.kind is ColumnKind.NUMBER:
        return f"CAST({raw} AS VARCHAR(255))"  # codes of categories, such as 1, 2 and 3
    return raw


def outside(secret: str, subject: Subject, dialect: str = "duckdb") -> str:
    """The condition that a secret is outside the declared bounds or categories."""
    low, high = subject.bounds
    tests = [f"{secret} < {low!r}"] * math.isfinite(low) + [f"{secret} > {high!r}"] * math.isfinite(high)
    if subject.categories:
        listed = [exp.Literal.string(name).sql(dialect) for name in subject.categories]
        tests.append(f"{secret} NOT IN ({', '.join(listed)})")
    return " OR ".join(tests) or "1 = 0"


def clipped_to(text: str, low: float, high: float) -> str:
    """An expression clipped to the finite ones of two levels."""
    text = f"GREATEST({text}, {low!r})" if math.isfinite(low) else text
    return f"LEAST({text}, {high!r})" if math.isfinite(high) else text


def answers_yes(secret: str, parameter: Parameter, *, closed: bool = False, dialect: str = "duckdb") -> str:
    """The condition that a secret is above a threshold, in a band, or one of some categories."""
    if isinstance(parameter, float | int):
        return f"{secret} {'>=' if closed else '>'} {parameter!r}"
    parts = parameter if isinstance(parameter, tuple) else (parameter,)
    bands = [_within(secret, part) for part in parts if isinstance(part, Band)]
    if bands:
        return bands[0] if len(bands) == 1 else f"({' OR '.join(f'({band})' for band in bands)})"
    names = map(str, parts)
    return f"{secret} IN ({', '.join(exp.Literal.string(name).sql(dialect) for name in names)})"


def _within(secret: str, band: Band) -> str:
    """The condition that a secret lies in a band."""
    tests = [f"{secret} {'>=' if band.low_closed else '>'} {band.low!r}"] * math.isfinite(band.low)
    tests += [f"{secret} {'<=' if band.high_closed else '<'} {band.high!r}"] * math.isfinite(band.high)
    return " AND ".join(tests)


def translated(query: str, *, dialect: str, names: Mapping[str, exp.Table | exp.Subquery]) -> str:
    """Translate one of our queries to ``dialect``. A relation keeps its name in the query as its alias.

    >>> homes = exp.to_table("public.homes")
    >>> translated('SELECT COUNT(*) AS n FROM "data"', dialect="spark", names={"data": homes})
    'SELECT COUNT(*) AS n FROM public.homes AS `data`'
    """
    tree = sqlglot.parse_one(query, read="duckdb")
    if dialect == "postgres":
        _sort_by_code_point(tree)  # of our own queries, not of the plan's: those come below
    for table in list(tree.find_all(exp.Table)):
        own = names[table.name].copy()
        own.set("alias", exp.TableAlias(this=exp.to_identifier(table.alias or table.name, quoted=True)))
        table.replace(own)
    for call in list(tree.find_all(exp.Anonymous)):
        if call.name == OWN:
            text = with_names(call.expressions[0].name, dialect=dialect, names=names)
            call.replace(exp.Paren(this=sqlglot.parse_one(text, read=dialect)))
    try:
        return tree.sql(dialect, unsupported_level=sqlglot.ErrorLevel.RAISE)
    except SqlglotError:
        refuse(f"SQL that {dialect} has too", got="an expression it lacks", fix="write it in another way")


def with_names(query: str, *, dialect: str, names: Mapping[str, exp.Table | exp.Subquery]) -> str:
    """Replace the table names of a query in the engine's own dialect, and nothing else. WITH keeps its names.

    >>> homes = exp.to_table("public.homes")
    >>> with_names("SELECT age / 10 FROM Data", dialect="postgres", names={"data": homes})
    'SELECT age / 10 FROM public.homes AS Data'
    """
    tree = sqlglot.parse_one(query, read=dialect)
    folded = {name.casefold(): table for name, table in names.items()}
    inside = {part.alias.casefold() for part in tree.find_all(exp.CTE)}
    for table in list(tree.find_all(exp.Table)):
        around = table.find_ancestor(exp.CTE)
        own_name = around is not None and around.alias.casefold() == table.name.casefold()
        if table.name.casefold() in inside and not own_name:  # in WITH data AS (… data …) it is the table
            continue
        called = (table.args.get("alias") or table).this.copy()
        own = folded[table.name.casefold()].copy()
        own.set("alias", exp.TableAlias(this=called))
        own.set("pivots", table.args.get("pivots"))
        table.replace(own)
    return tree.sql(dialect)


def as_column(values: Sequence[object]) -> NDArray[np.generic]:
    """Return one column as an array: numbers and booleans of NumPy, or else Python objects."""
    kinds = {type(value) for value in values}
    for kind, dtype in ((bool, np.bool_), (int, np.int64), (float, np.float64)):
        if kinds == {kind}:
            return np.array(values, dtype=dtype)
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column


def _sort_by_code_point(tree: exp.Expr) -> None:
    """Sort texts by code point, as the other engines do, whatever the database's collation is."""
    for window in tree.find_all(exp.Window):
        if isinstance(window.this, exp.RowNumber):
            (ordered,) = window.args["order"].expressions
            key = ordered.this.sql("postgres")
            texts = "('text', 'character varying', 'character', 'name', '\"char\"')"
            text = f"CASE WHEN CAST(PG_TYPEOF({key}) AS TEXT) IN {texts} THEN CAST({key} AS TEXT) END"
            by_bytes = sqlglot.parse_one(f'({text}) COLLATE "C"', read="postgres")
            first = exp.Ordered(this=by_bytes, nulls_first=False)
            window.args["order"].set("expressions", [first, ordered])
