"""The part of a release that is about one secret of several.

``SELECT area, AVG(income), AVG(age) FROM data GROUP BY area`` is audited once for each secret, without the
other secret's aggregate. A release that uses one secret to choose or group the rows of another's aggregate
would make the first one public; it is refused.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NoReturn

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import TokenType

from sightline.tables.sql.grammar import parse_query, refuse


def part_about(sql: str, *, secret: Collection[str], others: Collection[str], dialect: str) -> str | None:
    """Return the release without the aggregates of ``others``, or None if it is about them alone.

    ``secret`` and ``others`` are names of columns: a secret in wide form has one for the table and one that
    the releases use. A release without any of them is returned as it is.

    >>> part_about("SELECT area, AVG(income), AVG(age) FROM data GROUP BY area",
    ...            secret=["income"], others=["age"], dialect="duckdb")
    'SELECT area, AVG(income) FROM data GROUP BY area'
    """
    own, strange = _folded(secret), _folded(others)
    met = sorted(_names(sql, dialect) & strange)
    if not met:
        return sql
    if not uses(sql, secret, dialect=dialect):
        return None
    select = parse_query(sql, dialect)
    if not isinstance(select, exp.Select) or set(_clauses(select)) - {
        "expressions",
        "from_",
        "where",
        "group",
    }:
        _refuse(met)
    listed = list(select.expressions)
    dropped = [place for place, one in enumerate(listed) if _identifiers(one) & strange]
    kept = [one for place, one in enumerate(listed) if place not in dropped]
    group = select.args.get("group")
    positions = [key.name for key in group.expressions if isinstance(key, exp.Literal)] if group else []
    moved = [text for text in positions if not text.isdigit() or int(text) > min(dropped, default=0)]
    if moved or any(_identifiers(listed[place]) & own for place in dropped):
        _refuse(met)  # GROUP BY 3 would mean another column
    select.set("expressions", kept)
    text = select.sql(dialect)
    if not kept or _names(text, dialect) & strange:
        _refuse(met)
    return text


def uses(sql: str, names: Collection[str], *, dialect: str) -> bool:
    """Whether a release uses any of some columns, as far as its words can tell.

    >>> uses("SELECT AVG(income) FROM data", ["Income"], dialect="duckdb")
    True
    """
    return bool(_names(sql, dialect) & _folded(names))


def _refuse(met: Collection[str]) -> NoReturn:
    listed = ", ".join(f'"{name}"' for name in met)
    refuse(
        "a release about one secret, or with aggregates of one secret each",
        got=f"one that uses {listed[:120]} beside another secret",
        fix="publish each secret in a release of its own, without conditions on others",
    )


def _clauses(select: exp.Select) -> list[str]:
    return [name for name, value in select.args.items() if value]


def _folded(names: Collection[str]) -> set[str]:
    return {name.casefold() for name in names}


def _identifiers(tree: exp.Expr) -> set[str]:
    return {identifier.name.casefold() for identifier in tree.find_all(exp.Identifier)}


def _names(sql: str, dialect: str) -> set[str]:
    """Every word of a query that is not a text in quotes: all its names, and more."""
    try:
        tokens = sqlglot.tokenize(sql, read=dialect)
    except SqlglotError:
        return set()  # the reader refuses it
    return {token.text.casefold() for token in tokens if token.token_type is not TokenType.STRING}
