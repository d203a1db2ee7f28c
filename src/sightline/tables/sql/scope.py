"""What a query reads, and what its names mean: ``data``, and lookups of its rows in declared public tables.

A name is matched by exact spelling, else in any case; two matches are refused.
"""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import NoReturn

from sqlglot import exp

from sightline.tables.engines.protocol import DATA, Column, ColumnKind
from sightline.tables.sql.fragments import embedded
from sightline.tables.sql.grammar import (
    WHOLE_NUMBERS,
    check_node,
    check_public,
    clause_of,
    clauses_of,
    is_inside,
    is_plain,
    refuse,
    shown,
    text_of,
)
from sightline.tables.subject import Schema
from sightline.values import frozen


def find_column(columns: Sequence[Column], name: str, *, of: str = "the table") -> Column:
    """The column that ``name`` means.

    >>> from sightline.tables.engines.protocol import ColumnKind
    >>> columns = [Column("a", ColumnKind.TEXT), Column("w", ColumnKind.NUMBER)]
    >>> find_column(columns, "W").name
    'w'
    >>> find_column(columns, "ww")
    Traceback (most recent call last):
        ...
    sightline.errors.InvalidPlan: expected a column of the table, got "ww"; columns: a, w. Did you mean "w"?
    """
    exact = [column for column in columns if column.name == name]
    folded = [column for column in columns if column.name.casefold() == name.casefold()]
    matches = exact or folded
    if not matches:
        known = [column.name for column in columns]
        refuse(f"a column of {of}", got=f'"{name[:60]}"', fix=suggestion(name, known))
    if len(matches) > 1:
        listed = " or ".join(f'"{column.name}"' for column in matches)
        got = f'"{name}", which may be {listed}'
        refuse("one column per name", got=got, fix="spell it exactly, in double quotes")
    return matches[0]


@frozen(eq=True)
class Relation:
    """A table of one query: what the query calls it, what we call it, and its columns."""

    called: exp.Identifier
    alias: str  # ``data``, or that of a lookup
    columns: tuple[Column, ...]


@frozen(eq=True)
class Scope:
    """The tables that one query reads, and its secret."""

    relations: tuple[Relation, ...]
    secret: str
    dialect: str = "duckdb"  # of the source
    functions: Callable[[], frozenset[str]] = frozenset  # scalar ones, pure as the engine says
    tables: Mapping[str, Sequence[Column]] = field(default_factory=dict)  # declared public tables
    parts: Mapping[str, exp.Expr] = field(default_factory=dict)  # columns of a joint secret, made of it
    nested: bool = False  # whether it is that of a subquery: its own table hides the others

    @classmethod
    def of_data(cls, schema: Schema, *, secret: str, called: exp.Identifier) -> Scope:
        """The scope of a query that reads ``data`` and calls it ``called``."""
        empty = cls(relations=(), secret=secret, dialect=schema.dialect)
        empty = replace(empty, functions=schema.functions, tables=schema.tables, parts=schema.parts)
        return empty.joined(called, DATA, schema.columns)

    def bind(self, expression: exp.Expr) -> exp.Expr:
        """Return a copy in which every column names its relation; refuse what the audit cannot read.

        Of public columns the engine may compute anything deterministic; of the secret only what is listed.
        """
        if isinstance(expression, exp.Column):
            return self._resolved(expression)
        bound = expression.copy()
        scopes = {id(select): self._of_subquery(select) for select in list(bound.find_all(exp.Select))}
        for column in list(bound.find_all(exp.Column)):
            column.replace(scopes.get(id(column.find_ancestor(exp.Select)), self)._resolved(column))
        self._check(bound)
        return bound

    def _of_subquery(self, select: exp.Select) -> Scope:
        """The scope of a subquery over a public table, or over public columns of ``data``; it is renamed."""
        tables = {DATA: self.columns(), **{name.casefold(): one for name, one in self.tables.items()}}
        table = clause_of(select, "from_").this
        name = table.name.casefold() if isinstance(table, exp.Table) else ""
        if name not in tables or select.args.get("joins") or is_inside(select, exp.Select):
            refuse(
                "a subquery over data or one declared table",
                got=shown(select),
                fix=suggestion(name, list(tables), what="tables"),
            )
        called = _query_name(table)
        digest = hashlib.sha256(text_of(select, self.dialect).encode()).hexdigest()[:50]
        own = exp.to_identifier(f"{DATA if name == DATA else 'lookup'} {digest}", quoted=True)
        columns = tuple(one for one in tables[name] if name != DATA or not self.tells(one.name))
        table.set("alias", exp.TableAlias(this=own.copy()))
        relation = Relation(called=called, alias=own.name, columns=columns)
        return replace(self, relations=(relation, *self.relations), nested=True)

    def _check(self, bound: exp.Expr) -> None:
        if not self.mentions_secret(bound):
            check_public(bound, dialect=self.dialect, functions=self.functions)
            return
        check_node(bound)
        if isinstance(bound, exp.Cast):
            self._check_cast(bound)
        for part in bound.iter_expressions():
            self._check(part)

    def joined(self, called: exp.Identifier, alias: str, columns: Sequence[Column]) -> Scope:
        """Return the scope with one more table, which the query calls ``called`` and we call ``alias``."""
        relation = Relation(called=called, alias=alias, columns=tuple(columns))
        return replace(self, relations=(*self.relations, relation))

    def columns(self, alias: str = DATA) -> list[Column]:
        """The columns of a table, by our name for it."""
        return [column for one in self.relations if one.alias == alias for column in one.columns]

    def as_written(self, bound: exp.Expr) -> exp.Expr:
        """Return a bound expression with the query's own names for the columns."""
        called = {one.alias: one.called for one in self.relations}
        if isinstance(bound, exp.Column):
            return _column(bound.name, called[bound.table])
        written = bound.copy()
        for column in list(written.find_all(exp.Column)):
            if column.table in called:  # else it is of a subquery, whose names are its own
                column.replace(_column(column.name, called[column.table]))
        return written

    def kind(self, column: exp.Column) -> ColumnKind:
        """The kind of a bound column."""
        return find_column(self.columns(column.table), column.name).kind

    def is_secret(self, node: exp.Expr | None) -> bool:
        """Whether a bound node is the secret itself."""
        return isinstance(node, exp.Column) and (node.table, node.name) == (DATA, self.secret)

    def tells(self, name: str) -> bool:
        """Whether a column of ``data`` is the secret, or one of several that it is made of."""
        return name == self.secret or name.casefold() in self.parts

    def mentions_secret(self, expression: exp.Expr) -> bool:
        """Whether a bound expression has the secret in it."""
        return any(map(self.is_secret, expression.find_all(exp.Column)))

    def asks_presence(self, node: exp.Expr) -> bool:
        """Whether it is ``secret IS NOT NULL``, which holds for every audited row."""
        test = node.unnest()
        negated = isinstance(test, exp.Not)
        test = test.this.unnest() if negated else test
        if not isinstance(test, exp.Is) or not isinstance(test.expression, exp.Null):
            return False
        # sqlglot negates IS by NOT around it, on Postgres by a mark in it.
        asked = test.this.unnest()
        own = self.is_secret(asked) or any(asked == part for part in self.parts.values())
        return negated is not bool(test.args.get("negate")) and own

    def _check_cast(self, cast: exp.Cast) -> None:
        inner = cast.this.unnest()
        whole = isinstance(inner, exp.Predicate | exp.Not | exp.Boolean | exp.Floor | exp.Ceil)
        if cast.args["to"].this in WHOLE_NUMBERS and not whole and not self.is_secret(inner):
            refuse(
                "FLOOR(…) of a number",
                got=shown(cast),
                fix="engines round a cast to whole numbers differently",
            )

    def _resolved(self, column: exp.Column) -> exp.Expr:
        if "db" in clauses_of(column) or not isinstance(column.this, exp.Identifier):
            refuse("column or table.column", got=shown(column))
        table, name = column.table.casefold(), column.name.casefold()
        holders = [
            one
            for one in self.relations
            if (
                one.called.name.casefold() == table
                if table
                else name in {c.name.casefold() for c in one.columns}
            )
        ]
        if self.nested:
            holders = holders[:1]
        if table and not holders:
            known = [one.called.name for one in self.relations]
            refuse(
                "a table of this query",
                got=f'"{column.table}"',
                fix=suggestion(column.table, known, what="tables"),
            )
        if len(holders) > 1:
            refuse(
                "one column per name",
                got=f'"{column.name}", which is in {len(holders)} tables',
                fix="write table.column",
            )
        columns = [candidate for one in holders or self.relations for candidate in one.columns]
        found = find_column(columns, column.name, of=column.table or "the table")
        part = self.parts.get(found.name.casefold()) if holders[0].alias == DATA else None
        return bound_column(found.name, holders[0].alias) if part is None else exp.paren(part.copy())


def conjuncts(condition: exp.Expr) -> list[exp.Expr]:
    """Split ``a AND (b AND c)`` into its parts, in order.

    >>> from sqlglot import parse_one
    >>> [part.sql() for part in conjuncts(parse_one("a AND (b AND c OR d)"))]
    ['a', 'b AND c OR d']
    """
    waiting, parts = [condition], []
    while waiting:
        node = waiting.pop().unnest()
        if isinstance(node, exp.And):
            waiting += [node.expression, node.this]
        else:
            parts.append(node)
    return parts


def where_of(select: exp.Select) -> list[exp.Expr]:
    """The conditions that AND joins in WHERE, as written; none without WHERE."""
    return conjuncts(select.args["where"].this) if "where" in clauses_of(select) else []


def bound_column(name: str, table: str) -> exp.Column:
    """The bound form of a column."""
    return _column(name, exp.Identifier(this=table, quoted=True))


def _column(name: str, table: exp.Identifier) -> exp.Column:
    """A column of a table. ``exp.column`` copies its arguments, which takes long for wide tables."""
    return exp.Column(
        this=exp.Identifier(this=name, quoted=True),
        table=exp.Identifier(this=table.this, quoted=table.args.get("quoted")),
    )


def suggestion(name: str, known: list[str], *, what: str = "columns") -> str:
    """What a refusal proposes instead of an unknown name."""
    close = difflib.get_close_matches(name.casefold(), [candidate.casefold() for candidate in known], n=1)
    meant = [f'. Did you mean "{candidate}"?' for candidate in known if [candidate.casefold()] == close]
    listed = ", ".join(known[:30]) + (", …" if len(known) > 30 else "")
    return f"{what}: {listed}" + "".join(meant[:1])


@frozen(eq=True)
class Join:
    """A lookup in a declared public table. No row of ``data`` may match two rows of it."""

    table: str
    alias: str  # equal for equal lookups, so that releases share one
    condition: str
    key: exp.Expr  # a column of the table, bound: NULL in a row of ``data`` without a match
    required: bool  # True for an inner join: rows without a match are not published
    equations: tuple[exp.Expr, ...] = ()  # bound


@frozen(eq=True)
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
    table = from_of(select)
    name, _ = _table(table)
    if name.casefold() != DATA:
        refuse_table(name, schema)
    source = Source(scope=Scope.of_data(schema, secret=secret, called=_query_name(table)))
    for node in select.args.get("joins") or []:
        join, scope = _join(node, source.scope, tables=schema.tables)
        source = Source(scope=scope, joins=(*source.joins, join))
    return source


def from_of(select: exp.Select) -> exp.Expr:
    """What a SELECT reads before its joins; one without FROM is refused."""
    if "from_" not in clauses_of(select):
        refuse("FROM data", got="no FROM", fix="the plan's table is called data")
    source: exp.Expr = select.args["from_"].this
    return source


def refuse_table(name: str, schema: Schema) -> NoReturn:
    """Refuse FROM of a name that is not the table's."""
    called = " or ".join(sorted({DATA, *(one for one in schema.own_names if "." not in one)}))
    if schema.made_by:
        refuse("FROM data", got=f"FROM {name}", fix="data are the rows that [data] sql makes of the table")
    refuse(
        "FROM data",
        got=f"FROM {name}",
        fix=f"the plan's table is called {called}; declare others as tables and join them",
    )


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
    if called.casefold() in {one.called.name.casefold() for one in scope.relations}:
        refuse("different names for the tables", got=f'"{called}" twice', fix="give one of them an alias")
    # Equal lookups in several releases share one alias: a hash of the lookup's table and equations. 200 bits
    # of SHA-256 make collisions infeasible, and the alias is shorter than the 63 bytes that Postgres allows.
    query_name = _query_name(node.this)
    draft = scope.joined(query_name, "lookup", tables[table])
    parts = [table, *(text_of(part, scope.dialect) for part in _equalities(node, draft))]
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
        equations=tuple(conditions),
    )
    return join, scope


def _equalities(node: exp.Join, scope: Scope) -> list[exp.EQ]:
    """Read the equations of ON or USING, bound, in a fixed order."""
    if using := node.args.get("using"):
        called = _table(node.this)[1]
        left = replace(scope, relations=tuple(one for one in scope.relations if one.called.name != called))
        equations = [
            exp.EQ(
                this=left.bind(exp.column(column.copy())),
                expression=scope.bind(exp.column(column.copy(), table=exp.to_identifier(called))),
            )
            for column in using
        ]
    else:
        if "on" not in clauses_of(node):
            refuse("JOIN … ON or USING", got=shown(node), fix="say which columns must agree")
        equations = []
        for part in conjuncts(scope.bind(node.args["on"])):
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
    return sorted(equations, key=lambda part: text_of(part, scope.dialect))


def _table(node: exp.Expr) -> tuple[str, str]:
    """Return a relation's name and the name by which the query calls it."""
    if isinstance(node, exp.Values):
        refuse(
            "FROM data JOIN (VALUES …)",
            got=f"FROM {shown(node)}",
            fix="read data, and look its rows up in the listed values",
        )
    if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
        refuse(
            "a table's name",
            got=shown(node),
            fix="a query reads data and declared tables only: no subquery, function or file",
        )
    if not is_plain(node):
        refuse("a table's plain name", got=shown(node), fix="leave out what follows its name")
    return node.name, node.alias or node.name


def _is_of(side: exp.Expr, alias: str) -> bool:
    return isinstance(side, exp.Column) and side.table == alias


def _query_name(table: exp.Expr) -> exp.Identifier:
    """The identifier by which a query calls a relation."""
    identifier: exp.Identifier = (table.args.get("alias") or table).this
    return identifier.copy()
