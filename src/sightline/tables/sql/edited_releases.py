"""A plan's release, changed: the part about one secret, or by coarser groups."""

from __future__ import annotations

from collections.abc import Collection
from typing import NoReturn

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import TokenType

from sightline.errors import InvalidPlan
from sightline.tables.sql.grammar import clause_of, clauses_of, is_inside, parse_query, refuse
from sightline.tables.sql.grouping import write_keys
from sightline.tables.sql.unfold import label_of

_PLAIN_CLAUSES = {"expressions", "from_", "where", "group", "having"}


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
    if not isinstance(select, exp.Select) or clauses_of(select) - _PLAIN_CLAUSES:
        _refuse(met)
    listed = list(select.expressions)
    dropped = [place for place, one in enumerate(listed) if _identifiers(one) & strange]
    kept = [one for place, one in enumerate(listed) if place not in dropped]
    keys = clause_of(select, "group").expressions
    positions = [key.name for key in keys if isinstance(key, exp.Literal)]
    moved = [text for text in positions if not text.isdigit() or int(text) > min(dropped, default=0)]
    if moved or any(_identifiers(listed[place]) & own for place in dropped):
        _refuse(met)  # GROUP BY 3 would mean another column
    select.set("expressions", kept)
    text = select.sql(dialect)
    if not kept or _names(text, dialect) & strange:
        _refuse(met)
    return text


def labels_of(sql: str, dialect: str) -> set[str]:
    """What the items of a SELECT list are called.

    >>> sorted(labels_of("SELECT area, AVG(income) AS mean, COUNT(*) FROM data GROUP BY area", "duckdb"))
    ['COUNT(*)', 'area', 'mean']
    """
    select = parse_query(sql, dialect)
    return {label_of(one) for one in select.expressions} if isinstance(select, exp.Select) else set()


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


def group_columns(sql: str, dialect: str) -> tuple[str, ...]:
    """The bare columns that a plain SELECT groups by; nothing of any other release.

    >>> group_columns("SELECT age, AVG(bmi) FROM data WHERE age > 17 GROUP BY age", "duckdb")
    ('age',)
    """
    keys = [key for select in _plain(sql, dialect) for key in select.args["group"].expressions]
    return tuple(key.name for key in keys if isinstance(key, exp.Column))


def grouped_by(sql: str, column: str, by: str, dialect: str) -> str:
    """The release with ``by``, a text of SQL, in place of a column among its keys.

    >>> grouped_by("SELECT age, AVG(bmi) FROM data GROUP BY age", "age", "FLOOR(age / 5) * 5", "duckdb")
    'SELECT FLOOR(age / 5) * 5 AS age, AVG(bmi) FROM data GROUP BY FLOOR(age / 5) * 5'
    """
    selects = _plain(sql, dialect)
    if not selects:
        raise InvalidPlan("expected a plain SELECT, got another release")
    (select,) = selects
    coarser: exp.Expr = exp.maybe_parse(by, dialect=dialect)
    listed = [
        exp.alias_(coarser.copy(), one.alias_or_name, quoted=_own(one).this.quoted)
        if isinstance(_own(one), exp.Column) and _own(one).name == column
        else one
        for one in select.expressions
    ]
    keys = [
        coarser if isinstance(key, exp.Column) and key.name == column else key
        for key in select.args["group"].expressions
    ]
    select.set("expressions", listed)
    select.set("group", exp.Group(expressions=[one.copy() for one in keys]))
    return select.sql(dialect)


def _plain(sql: str, dialect: str) -> list[exp.Select]:
    """A SELECT whose groups are listed one by one, without subqueries and joins; else none.

    HAVING may compare aggregates: of a key it would mean another column.
    """
    select = parse_query(sql, dialect)
    if not isinstance(select, exp.Select) or select.find(exp.Subquery, exp.Window):
        return []
    write_keys(select, ())
    plain = clauses_of(clause_of(select, "group")) == {"expressions"}
    keys = [
        one for one in clause_of(select, "having").find_all(exp.Column) if not is_inside(one, exp.AggFunc)
    ]
    return [select] if plain and not keys and clauses_of(select) <= _PLAIN_CLAUSES else []


def _own(listed: exp.Expr) -> exp.Expr:
    own: exp.Expr = listed.this if isinstance(listed, exp.Alias) else listed
    return own
