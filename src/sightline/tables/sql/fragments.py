"""Parts of a plan's SQL inside our own queries: parenthesised, and never translated to another dialect.

Our own queries are written in DuckDB's dialect and translated for other engines. What the plan's author
wrote is not: a translation could compute something else (``age / 10`` is a decade on Postgres and a fraction
on DuckDB). On other engines a fragment therefore travels as ``SIGHTLINE_OWN('text in its own dialect')``.
"""

from __future__ import annotations

from sqlglot import exp

OWN = "SIGHTLINE_OWN"  # no plan can write it: functions come from a list


def embedded(node: exp.Expr, dialect: str) -> str:
    """A bound expression as SQL that can stand anywhere in one of our own queries.

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
    """An embedded expression for a message.

    >>> readable("SIGHTLINE_OWN('age / 10')")
    'age / 10'
    """
    return text.removeprefix(f"{OWN}('").removesuffix("')") if text.startswith(OWN) else text


def quoted(name: str) -> str:
    """An identifier in DuckDB's SQL.

    >>> quoted('a "b" c')
    '"a ""b"" c"'
    """
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A text constant in DuckDB's SQL.

    >>> literal("o'clock")
    "'o''clock'"
    """
    return "'" + text.replace("'", "''") + "'"
