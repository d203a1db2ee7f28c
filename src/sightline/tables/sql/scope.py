"""Find the column that a name means: by exact spelling, else in any case; two matches are refused."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from sightline.tables.engines.protocol import DATA, Column, ColumnKind
from sightline.tables.sql.fragments import embedded
from sightline.tables.sql.grammar import WHOLE_NUMBERS, check_scalar, refuse, shown
from sightline.tables.subject import Schema


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
        refuse(f"a column of {of}", got=f'"{name[:60]}"', fix=_suggestion(name, known))
    if len(matches) > 1:
        listed = " or ".join(f'"{column.name}"' for column in matches)
        got = f'"{name}", which may be {listed}'
        refuse("one column per name", got=got, fix="spell it exactly, in double quotes")
    return matches[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """A lookup in a declared public table. No row of ``data`` may match two rows of it."""

    table: str
    alias: str  # equal for equal lookups, so that releases share one
    condition: str
    matched: str  # a condition: the row of ``data`` has a match
    required: bool  # True for an inner join: rows without a match are not published


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The relations that one query reads: by the query's name for each, our alias and its columns."""

    relations: Mapping[str, tuple[str, tuple[Column, ...]]]
    secret: str
    dialect: str = "duckdb"  # of the source
    query_names: Mapping[str, exp.Identifier] = field(default_factory=dict)  # by our alias

    def bind(self, expression: exp.Expr) -> exp.Expr:
        """Return a copy in which every column names its relation; refuse functions that are not listed."""
        check_scalar(expression)
        root = exp.Paren(this=expression.copy())  # a parent, so that a lone column can be replaced too
        for column in list(root.find_all(exp.Column)):
            column.replace(self._resolved(column))
        for cast in root.find_all(exp.Cast):
            self._check_cast(cast)
        bound: exp.Expr = root.this
        return bound

    def joined(self, name: exp.Identifier, alias: str, columns: Sequence[Column]) -> Scope:
        """Return the scope with one more relation, which the query calls ``name``."""
        return replace(
            self,
            relations={**self.relations, name.name: (alias, tuple(columns))},
            query_names={**self.query_names, alias: name},
        )

    def with_query_names(self, bound: exp.Expr) -> exp.Expr:
        """Return a bound expression with the query's own names for its relations."""
        root = exp.Paren(this=bound.copy())
        for column in root.find_all(exp.Column):
            column.set("table", self.query_names[column.table].copy())
        renamed: exp.Expr = root.this
        return renamed

    def identity(self, bound: exp.Expr) -> str:
        """The text that identifies a bound expression."""
        return bound.sql(self.dialect, comments=False)

    def is_secret(self, node: exp.Expr | None) -> bool:
        """Whether a bound node is the secret itself."""
        return isinstance(node, exp.Column) and (node.table, node.name) == (DATA, self.secret)

    def mentions_secret(self, expression: exp.Expr) -> bool:
        return any(self.is_secret(column) for column in expression.find_all(exp.Column))

    def _check_cast(self, cast: exp.Cast) -> None:
        inner = cast.this.unnest()
        truth = isinstance(inner, exp.Predicate | exp.Not | exp.Boolean) or self.is_secret(inner)
        if cast.args["to"].this in WHOLE_NUMBERS and not truth and not self._holds_truth(inner):
            refuse(
                "FLOOR(…) of a number",
                got=shown(cast),
                fix="engines round a cast to whole numbers differently",
            )

    def _holds_truth(self, node: exp.Expr) -> bool:
        relations = dict(self.relations.values())
        return isinstance(node, exp.Column) and any(
            column.name == node.name and column.kind is ColumnKind.BOOLEAN for column in relations[node.table]
        )

    def _resolved(self, column: exp.Column) -> exp.Column:
        if column.args.get("db") is not None or not isinstance(column.this, exp.Identifier):
            refuse("column or table.column", got=shown(column))
        if column.table:
            alias, columns = self._relation(column.table)
            return _column(find_column(columns, column.name, of=column.table).name, alias)
        relations = list(self.relations.values())
        holders = [
            (alias, columns)
            for alias, columns in relations
            if any(candidate.name.casefold() == column.name.casefold() for candidate in columns)
        ]
        if len(holders) > 1:
            refuse(
                "one column per name",
                got=f'"{column.name}", which is in {len(holders)} tables',
                fix="write table.column",
            )
        everything = tuple(candidate for _, columns in relations for candidate in columns)
        alias, columns = holders[0] if holders else (DATA, everything)  # the refusal then lists every column
        return _column(find_column(columns, column.name).name, alias)

    def _relation(self, name: str) -> tuple[str, tuple[Column, ...]]:
        matches = [
            relation for called, relation in self.relations.items() if called.casefold() == name.casefold()
        ]
        if not matches:
            known = list(self.relations)
            refuse("a table of this query", got=f'"{name}"', fix=_suggestion(name, known, what="tables"))
        return matches[0]


def read_scope(select: exp.Select, *, schema: Schema, secret: str) -> tuple[Scope, tuple[Join, ...]]:
    """Read FROM and JOIN: the relation ``data``, and lookups of its rows in declared public tables."""
    source = select.args.get("from_")
    if source is None:
        refuse("FROM data", got="no FROM", fix="the plan's table is called data")
    name, called = _table(source.this)
    if name.casefold() != DATA:
        refuse(
            "FROM data",
            got=f"FROM {name}",
            fix="the plan's table is called data; declare others as tables and join them",
        )
    scope = Scope(
        relations={called: (DATA, tuple(schema.columns))},
        secret=secret,
        dialect=schema.dialect,
        query_names={DATA: _query_name(source.this)},
    )
    joins: list[Join] = []
    for node in select.args.get("joins") or []:
        join, scope = _join(node, scope, tables=schema.tables)
        joins.append(join)
    return scope, tuple(joins)


def _join(node: exp.Join, scope: Scope, *, tables: Mapping[str, Sequence[Column]]) -> tuple[Join, Scope]:
    """Read one JOIN as a lookup; return it and the scope with its table."""
    name, called = _table(node.this)
    declared = {table.casefold(): table for table in tables}
    if name.casefold() not in declared:
        fix = (
            _suggestion(name, list(tables), what="declared tables")
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
        matched=f"{embedded(keys[0], scope.dialect)} IS NOT NULL",
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


def _column(name: str, table: str) -> exp.Column:
    return exp.column(exp.to_identifier(name, quoted=True), table=exp.to_identifier(table, quoted=True))


def _query_name(table: exp.Expr) -> exp.Identifier:
    """The identifier by which a query calls a relation."""
    alias = table.args.get("alias")
    identifier: exp.Identifier = table.this if alias is None else alias.this
    return identifier.copy()


def _suggestion(name: str, known: list[str], *, what: str = "columns") -> str:
    close = difflib.get_close_matches(name.casefold(), [candidate.casefold() for candidate in known], n=1)
    meant = next((candidate for candidate in known if [candidate.casefold()] == close), None)
    listed = ", ".join(known[:30]) + (", …" if len(known) > 30 else "")
    return f"{what}: {listed}" + (f'. Did you mean "{meant}"?' if meant is not None else "")
