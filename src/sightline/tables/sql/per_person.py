"""Read a subquery that aggregates the rows of each record: keys, public aggregates, and one secret value."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from sightline.tables.engines.protocol import DATA
from sightline.tables.sql.clipping import clip_around
from sightline.tables.sql.grammar import refuse, shown
from sightline.tables.sql.grouping import check_made_of_keys, key_text, read_grouping
from sightline.tables.sql.having import aggregates_in
from sightline.tables.sql.public_aggregates import check_arguments
from sightline.tables.sql.scope import Scope, bound_column, conjuncts, find_column
from sightline.tables.sql.sources import Source, read_source
from sightline.tables.subject import Schema, SecretKind, Subject

_LONGEST_NAME = 60  # bytes; Postgres cuts names after 63
_OF_SECRET: tuple[type[exp.Expr], ...] = (exp.Sum, exp.Avg, exp.Min, exp.Max)
_PUBLIC: tuple[type[exp.Expr], ...] = (*_OF_SECRET, exp.Count, exp.CountIf)


@dataclass(frozen=True, slots=True, kw_only=True)
class InnerQuery:
    """An inner query, bound: what tells two of them apart, and its columns."""

    select: exp.Select
    source: Source
    identity: tuple[str, ...]
    columns: dict[
        str, tuple[str, exp.Expr]
    ]  # by the query's name: the name in the table, and the bound expression
    value: exp.Expr  # the aggregate of the secret, bound
    per_record: bool  # True if it has one line for each record

    @property
    def value_name(self) -> str:
        """The name of the value in the table."""
        return table_name(self.value)


def chain(select: exp.Select) -> list[exp.Select]:
    """A SELECT and the subqueries in its FROM, down to the first that aggregates or reads a table."""
    levels = [select]
    while True:
        source = levels[-1].args.get("from_")
        if source is None or not isinstance(source.this, exp.Subquery):
            return levels
        levels.append(source.this.this)
        if aggregates_rows(levels[-1]):
            return levels


def aggregates_rows(select: exp.Select) -> bool:
    own = any(
        call.find_ancestor(exp.Window, exp.Select) is select
        for item in select.expressions
        for call in item.find_all(exp.AggFunc)
    )
    return own or bool(select.args.get("group")) or bool(select.args.get("having"))


def read_inner(select: exp.Select, *, subject: Subject, schema: Schema) -> InnerQuery:
    column = find_column(schema.columns, subject.secret)
    key = find_column(schema.columns, subject.record)
    if subject.kind is not SecretKind.NUMBER:
        refuse(
            "a number as the secret",
            got=f"{shown(select)} of a {subject.kind.value}",
            fix="aggregate it once",
        )
    source = read_source(select, schema=schema, secret=column.name)
    scope = source.scope
    where = select.args.get("where")
    conditions = [*source.conditions, *(conjuncts(scope.bind(where.this)) if where is not None else [])]
    for part in conditions:
        if scope.mentions_secret(part) and not scope.asks_presence(part):
            refuse(
                "an inner WHERE on public columns",
                got=f"the secret in {shown(part)}",
                fix="which records have a value would depend on the secret",
            )
    sets = read_grouping(select, scope=scope)
    keys = [key_text(one) for one in sets[0]]
    if len(sets) > 1 or key_text(bound_column(key.name, DATA)) not in keys:
        refuse(
            f"a subquery grouped by the record key {key.name}",
            got=shown(select),
            fix="group by the record key in the subquery, or aggregate in the outer SELECT only",
        )
    for one in sets[0]:
        if scope.mentions_secret(one):
            refuse("GROUP BY on public columns", got=f"the secret in GROUP BY {shown(one)}")
    having = select.args.get("having")
    kept = [] if having is None else [_bound_public(having.this, having, keys, scope)]
    columns: dict[str, tuple[str, exp.Expr]] = {}
    values: list[str] = []
    for item in select.expressions:
        name = item.alias_or_name
        named = isinstance(item, exp.Alias | exp.Column) and not item.is_star
        if not named or name in columns:
            refuse("different names for the columns of a subquery", got=shown(item), fix="write AS behind it")
        bound = _bound_value(item.unalias(), scope)
        if bound is not None:
            values.append(name)
        else:
            bound = _bound_public(item.unalias(), item, keys, scope)
        columns[name] = (table_name(bound), bound)
    if len(values) != 1:
        refuse(
            "one aggregate of the secret in a subquery",
            got=f"{len(values)} in {shown(select)}",
            fix="SUM, AVG, MIN or MAX of the secret, and public columns beside it",
        )
    value = columns[values[0]][1]
    lookups = [f"{join.alias} {join.required}" for join in source.joins]
    conditions_text = sorted(scope.identity(part) for part in conditions)
    identity = (
        *lookups,
        "WHERE",
        *conditions_text,
        "BY",
        *sorted(keys),
        "HAVING",
        *map(scope.identity, kept),
    )
    return InnerQuery(
        select=select,
        source=source,
        identity=(*identity, "VALUE", scope.identity(value)),
        columns=columns,
        value=value,
        per_record=len(keys) == 1,
    )


def _bound_value(node: exp.Expr, scope: Scope) -> exp.Expr | None:
    """SUM, AVG, MIN or MAX of the secret, perhaps clipped, bound; None if the item is public."""
    columns = list(node.find_all(exp.Column))
    if not any(scope.mentions_secret(scope.bind(column)) for column in columns):
        return None
    calls = aggregates_in(node)
    if len(calls) == 1 and isinstance(calls[0], exp.Count) and scope.is_secret(_argument(calls[0], scope)):
        return None  # COUNT(secret) counts rows that have one
    call = calls[0] if len(calls) == 1 else None
    if not isinstance(call, _OF_SECRET) or not scope.is_secret(_argument(call, scope)):
        refuse(
            "SUM, AVG, MIN or MAX of the secret in a subquery",
            got=shown(node),
            fix="clip it by LEAST and GREATEST, or compute a column beforehand",
        )
    bound = type(call)(this=bound_column(scope.secret, DATA))
    if call is node.unnest():
        return bound
    root = exp.Paren(this=node.copy())
    (copied,) = aggregates_in(root)
    if clip_around(copied) is not root.this.unnest():
        refuse(
            "LEAST or GREATEST of the value and a constant", got=shown(node), fix="clip it, and nothing else"
        )
    copied.replace(bound)
    whole: exp.Expr = root.this
    return whole


def _argument(call: exp.Expr, scope: Scope) -> exp.Expr | None:
    plain = isinstance(call.this, exp.Expr) and not isinstance(call.this, exp.Star | exp.Distinct | exp.Order)
    return scope.bind(call.this).unnest() if plain else None


def _bound_public(node: exp.Expr, shown_as: exp.Expr, keys: Sequence[str], scope: Scope) -> exp.Expr:
    """An expression of keys and of public aggregates, bound."""
    root = exp.Paren(this=node.copy())
    calls = aggregates_in(root)
    for call in calls:
        own = call.this if isinstance(call, exp.Filter) else call
        counts_secrets = isinstance(call, exp.Count) and scope.is_secret(_argument(call, scope))
        bound = [scope.bind(column) for column in call.find_all(exp.Column)]
        if type(own) not in _PUBLIC or (any(map(scope.mentions_secret, bound)) and not counts_secrets):
            refuse(
                "keys, and COUNT, SUM, AVG, MIN or MAX of public columns, beside the value in a subquery",
                got=shown(shown_as),
            )
        check_arguments(call, scope)
    plain = root.copy()
    for call in aggregates_in(plain):
        call.replace(exp.Literal.number(1))
    check_made_of_keys(scope.bind(plain.this), shown_as, keys)
    for column in list(root.find_all(exp.Column)):
        meaning = scope.bind(column)
        column.replace(meaning if isinstance(meaning, exp.Column) else exp.Paren(this=meaning))
    whole: exp.Expr = root.this
    return whole


def table_name(bound: exp.Expr) -> str:
    """The name of a column of the table: a column's own, or the text of what it computes."""
    text = bound.name if isinstance(bound, exp.Column) else shown(bound).replace('"', "")
    if len(text.encode()) <= _LONGEST_NAME:
        return text
    return text[:20] + "… " + hashlib.sha256(bound.sql().encode()).hexdigest()[:20]
