"""Read FROM and JOIN of an unfolded SELECT: ``data``, and lookups of its rows in declared public tables."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from sightline.tables.engines.protocol import DATA, Column
from sightline.tables.sql.fragments import embedded
from sightline.tables.sql.grammar import refuse, shown
from sightline.tables.sql.scope import Scope, conjuncts, suggestion
from sightline.tables.subject import Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """A lookup in a declared public table. No row of ``data`` may match two rows of it."""

    table: str
    alias: str  # equal for equal lookups, so that releases share one
    condition: str
    key: exp.Expr  # a column of the table, bound: NULL in a row of ``data`` without a match
    required: bool  # True for an inner join: rows without a match are not published


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The rows that a SELECT reads, before its own WHERE."""

    scope: Scope
    joins: tuple[Join, ...] = ()

    @property
    def matched(self) -> tuple[exp.Expr, ...]:
        """The conditions that inner joins put on a row, bound."""
        return tuple(
            exp.Not(this=exp.Is(this=join.key.copy(), expression=exp.Null()))
            for join in self.joins
            if join.required
        )


def read_source(select: exp.Select, *, schema: Schema, secret: str) -> Source:
    """Read FROM and JOIN of a SELECT without WITH."""
    clause = select.args.get("from_")
    if clause is None:
        refuse("FROM data", got="no FROM", fix="the plan's table is called data")
    name, _ = _table(clause.this)
    if name.casefold() != DATA:
        refuse(
            "FROM data",
            got=f"FROM {name}",
            fix="the plan's table is called data; declare others as tables and join them",
        )
    source = Source(scope=Scope.of_data(schema, secret=secret, called=_query_name(clause.this)))
    for node in select.args.get("joins") or []:
        join, scope = _join(node, source.scope, tables=schema.tables)
        source = Source(scope=scope, joins=(*source.joins, join))
    return source


def _join(node: exp.Join, scope: Scope, *, tables: Mapping[str, Sequence[Column]]) -> tuple[Join, Scope]:
    """Read one JOIN as a lookup; return it and the scope with its table."""
    if isinstance(node.this, exp.Subquery):
        refuse(
            "a declared public table",
            got=f"the subquery {shown(node.this)}",
            fix="a join may only look up each row of data in a declared table",
        )
    name, called = _table(node.this)
    declared = {table.casefold(): table for table in tables}
    if name.casefold() not in declared:
        fix = (
            suggestion(name, list(tables), what="declared tables")
            if tables
            else "declare it under [tables] of the plan"
        )
        refuse("a declared public table", got=f'"{name}"', fix=fix)
    table = declared[name.casefold()]
    unusual = [
        node.args.get(part)
        for part in ("method", "kind", "side", "hint", "match_condition", "pivots", "global_")
    ]
    words = [str(part).upper() for part in unusual if part]
    if set(words) - {"LEFT", "INNER", "OUTER"}:
        refuse(
            "JOIN or LEFT JOIN",
            got=" ".join([*words, "JOIN"]),
            fix="a join may only look up each row of data in a public table",
        )
    if called.casefold() in {relation.casefold() for relation in scope.relations}:
        refuse("different names for the tables", got=f'"{called}" twice', fix="give one of them an alias")
    # Equal lookups in several releases share one alias: a hash of the lookup's table and equations. 200 bits
    # of SHA-256 make collisions infeasible, and the alias is shorter than the 63 bytes that Postgres allows.
    query_name = _query_name(node.this)
    draft = scope.joined(query_name, "lookup", tables[table])
    parts = [table, *(part.sql(scope.dialect) for part in _equalities(node, draft))]
    alias = "lookup_" + hashlib.sha256("\x00".join(parts).encode()).hexdigest()[:50]
    scope = scope.joined(query_name, alias, tables[table])
    conditions = _equalities(node, scope)
    sides = [[side for side in (part.this, part.expression) if _is_of(side, alias)] for part in conditions]
    keys = [columns[0] for columns in sides if len(columns) == 1]
    if len(keys) != len(conditions):
        refuse(
            f"ON data.column = {called}.column",
            got=shown(node),
            fix="every equation of a lookup needs one column of the joined table",
        )
    join = Join(
        table=table,
        alias=alias,
        condition=" AND ".join(embedded(part, scope.dialect) for part in conditions),
        key=keys[0],
        required="LEFT" not in words,
    )
    return join, scope


def _equalities(node: exp.Join, scope: Scope) -> list[exp.EQ]:
    """Read the equations of ON or USING, bound, in a fixed order."""
    if using := node.args.get("using"):
        called = _table(node.this)[1]
        left = replace(
            scope, relations={name: scope.relations[name] for name in scope.relations if name != called}
        )
        equations = [
            exp.EQ(
                this=left.bind(exp.column(column.copy())),
                expression=scope.bind(exp.column(column.copy(), table=exp.to_identifier(called))),
            )
            for column in using
        ]
    else:
        condition = node.args.get("on")
        if condition is None:
            refuse("JOIN … ON or USING", got=shown(node), fix="say which columns must agree")
        equations = []
        for part in conjuncts(scope.bind(condition)):
            if not isinstance(part, exp.EQ):
                refuse(
                    "equations joined by AND in ON", got=shown(part), fix="put other conditions into WHERE"
                )
            equations.append(part)
    for part in equations:
        if scope.mentions_secret(part):
            refuse(
                "a join on public columns",
                got=f"the secret in {shown(part)}",
                fix="the match would depend on the secret",
            )
    return sorted(equations, key=lambda part: part.sql(scope.dialect))


def _table(node: exp.Expr) -> tuple[str, str]:
    """Return a relation's name and the name by which the query calls it."""
    if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
        refuse(
            "a table's name",
            got=shown(node),
            fix="a query reads data and declared tables only: no subquery, function or file",
        )
    extra = [part for part, value in node.args.items() if value and part not in ("this", "alias")]
    if extra:
        refuse("a table's plain name", got=shown(node), fix=f"leave out {', '.join(extra).upper()}")
    alias = node.args.get("alias")
    if alias is not None and alias.args.get("columns"):
        refuse("a table's plain name", got=shown(node), fix="leave out the list of column names")
    return node.name, node.alias or node.name


def _is_of(side: exp.Expr, alias: str) -> bool:
    return isinstance(side, exp.Column) and side.table == alias


def _query_name(table: exp.Expr) -> exp.Identifier:
    """The identifier by which a query calls a relation."""
    alias = table.args.get("alias")
    identifier: exp.Identifier = table.this if alias is None else alias.this
    return identifier.copy()
