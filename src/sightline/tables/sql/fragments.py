"""Put parts of a plan's SQL into our own queries: in brackets, and never translated to another dialect.

We write our own queries in DuckDB's dialect and translate them for other engines. We do not translate what
the plan's author wrote, since a translation could compute something else (``age / 10`` is a decade on
Postgres and a fraction on DuckDB). On other engines a fragment is therefore written as
``SIGHTLINE_OWN('text in the dialect of the source')`` until the query around it is translated.
"""

from __future__ import annotations

from sqlglot import exp

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
        return node.sql("duckdb")
    text = node.sql(dialect, comments=False)
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
