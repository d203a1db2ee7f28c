"""The same release by coarser groups: a column that it groups by gives way to an expression."""

from __future__ import annotations

from sqlglot import exp

from sightline.errors import InvalidPlan
from sightline.tables.sql.grammar import parse_query

_UNDERSTOOD = {"expressions", "from_", "where", "group"}


def group_columns(sql: str, dialect: str) -> tuple[str, ...]:
    """The bare columns that a plain SELECT groups by; nothing of any other release.

    >>> group_columns("SELECT age, AVG(bmi) FROM data WHERE age > 17 GROUP BY age", "duckdb")
    ('age',)
    """
    select = _plain(sql, dialect)
    keys = [] if select is None else [_key(select, key) for key in select.args["group"].expressions]
    return tuple(key.name for key in keys if isinstance(key, exp.Column))


def grouped_by(sql: str, column: str, by: str, dialect: str) -> str:
    """The release with ``by``, a text of SQL, in place of a column among its keys.

    >>> grouped_by("SELECT age, AVG(bmi) FROM data GROUP BY age", "age", "FLOOR(age / 5) * 5", "duckdb")
    'SELECT FLOOR(age / 5) * 5 AS age, AVG(bmi) FROM data GROUP BY FLOOR(age / 5) * 5'
    """
    select = _plain(sql, dialect)
    if select is None:
        raise InvalidPlan("expected a plain SELECT, got another release")
    coarser: exp.Expression = exp.maybe_parse(by, dialect=dialect)
    listed = [
        exp.alias_(coarser.copy(), one.alias_or_name, quoted=_own(one).this.quoted)
        if isinstance(_own(one), exp.Column) and _own(one).name == column
        else one
        for one in select.expressions
    ]
    keys = [
        coarser.copy() if isinstance(own := _key(select, key), exp.Column) and own.name == column else own
        for key in select.args["group"].expressions
    ]
    select.set("expressions", listed)
    select.set("group", exp.Group(expressions=[one.copy() for one in keys]))
    return select.sql(dialect)


def _plain(sql: str, dialect: str) -> exp.Select | None:
    """A SELECT whose groups are listed one by one, without subqueries and joins; else none."""
    select = parse_query(sql, dialect)
    if not isinstance(select, exp.Select) or select.find(exp.Subquery, exp.Window):
        return None
    clauses = {name for name, value in select.args.items() if value}
    group = select.args.get("group")
    plain = group is not None and {name for name, value in group.args.items() if value} == {"expressions"}
    return select if plain and clauses <= _UNDERSTOOD else None


def _own(listed: exp.Expression) -> exp.Expression:
    own: exp.Expression = listed.this if isinstance(listed, exp.Alias) else listed
    return own


def _key(select: exp.Select, key: exp.Expression) -> exp.Expression:
    """A key of the groups; GROUP BY 1 and an alias stand for what is listed."""
    if isinstance(key, exp.Literal) and key.name.isdigit() and 1 <= int(key.name) <= len(select.expressions):
        return _own(select.expressions[int(key.name) - 1])
    if isinstance(key, exp.Column) and not key.table:
        for one in select.expressions:
            if isinstance(one, exp.Alias) and one.alias == key.name:
                return _own(one)
    return key
