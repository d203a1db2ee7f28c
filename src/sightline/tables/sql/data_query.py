"""``[data] sql``: the query that makes the rows of ``data`` from the table, which it calls ``source``.

It unpivots wide tables, computes secrets, keeps some rows of a record or adds them up, and adds columns that
window functions compute. What its columns derive from is followed through the query: a column that is made of
what the secret is made of is not public, and is left out of ``data``. Which rows there are must not depend on
a secret, and each value of a secret enters one row, of the record that it is about.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from sightline.tables.engines.protocol import SOURCE, Column, ColumnKind
from sightline.tables.sql.grammar import (
    check_public,
    clause_of,
    clauses_of,
    has,
    is_inside,
    is_plain,
    parse_query,
    refuse,
    sources_of,
)
from sightline.tables.sql.normal_form import (
    UNPIVOT,
    folded_name,
    list_columns,
    normal_text,
    qualified_query,
    shown_part,
    tables_of,
)
from sightline.tables.sql.nullness import ColumnFacts, Decides, NullRule
from sightline.tables.sql.scope import find_column, suggestion
from sightline.tables.subject import Schema
from sightline.values import frozen

ROWS_BEHIND = "sightline_rows"  # a column of data: how many rows of source a sum of a record's rows adds up
Origin = tuple[str, str]  # a table and one of its columns
Origins = frozenset[Origin]
_AGGREGATES: tuple[type[exp.Expr], ...] = (exp.Sum, exp.Avg, exp.Min, exp.Max, exp.Count, exp.CountIf)
# What they say of a row depends on which of two rows that tie comes first.
_BY_ORDER: tuple[type[exp.Expr], ...] = (exp.RowNumber, exp.Lag, exp.Lead, exp.FirstValue, exp.LastValue)
_WINDOWS: tuple[type[exp.Expr], ...] = (*_BY_ORDER, exp.Rank, exp.DenseRank, *_AGGREGATES)
_CLAUSES = {"expressions", "from_", "joins", "where", "group", "having", "qualify", "with_"}


@frozen(eq=True)
class DataQuery:
    """How the rows of ``data`` are made, and what of them is secret."""

    sql: str | None = None  # in the source's dialect, over ``source`` and public tables; None for its rows
    normal: str = ""  # the same text for queries that differ in aliases, WITH and spelling only
    columns: tuple[str, ...] = ()  # of its answer
    hidden: tuple[str, ...] = ()  # columns of the answer that tell something of a secret
    secrets: frozenset[str] = frozenset()  # names, in lower case, that no public table has as a column
    ties: tuple[str, ...] = ()  # each counts rows ``n`` that tie in the order of a window function: none
    lookups: tuple[str, ...] = ()  # each has as many ``joined`` rows as ``n``: a join multiplies none
    adds_up: bool = False  # whether the secret is a sum of a record's rows: their number decides its range


def read_data_query(
    sql: str, *, record: str, secret: str, others: Sequence[str], schema: Schema
) -> DataQuery:
    """Read the query that makes ``data``; ``schema`` is that of ``source``. ``others`` are other secrets.

    >>> columns = [Column(name, ColumnKind.NUMBER) for name in ("customer", "day", "quantity", "price")]
    >>> query = read_data_query(
    ...     "SELECT *, quantity * price AS revenue FROM source "
    ...     "QUALIFY ROW_NUMBER() OVER (PARTITION BY customer ORDER BY day) <= 3",
    ...     record="customer", secret="revenue", others=[], schema=Schema(columns=columns))
    >>> query.hidden, len(query.ties)
    (('quantity', 'price'), 1)
    """
    tree = parse_query(sql, schema.dialect)
    list_columns(tree, schema)
    _check_written(tree, schema)
    qualified = qualified_query(tree, schema)
    lineage = _Lineage(schema=schema)
    outputs = _named_once(lineage.of_query(qualified))
    key = _output(outputs, record, field_name="record")
    value = _output(outputs, secret, field_name="secret")
    if outputs[key].copied is None:
        refuse(
            "a record key that is a column of source as it is",
            got=f'"{record}", which the query computes',
            fix="give the column to the table, or name another",
        )
    secret_origins = outputs[value].origins
    public_parts = sorted(f"{table}.{name}" for table, name in secret_origins if table != SOURCE)
    if not secret_origins or public_parts:
        refuse(
            "a secret that is computed from columns of source",
            got=f'"{secret}" from {public_parts[0] if public_parts else "no column"}',
            fix="what is looked up in a public table is public",
        )
    other_origins = _other_origins(others, outputs, schema)
    both = sorted(name for _, name in secret_origins & other_origins)
    if both:
        refuse("secrets that are computed from different columns", got=f'"{both[0]}" in two of them')
    all_secrets = secret_origins | other_origins
    if outputs[key].origins & all_secrets:
        refuse("a secret without the record key", got=f'"{record}" in it')
    lineage.check(all_secrets, secret_origins, record=outputs[key].copied)
    # Who has a secret would tell of what it is made of, and a mean would divide by another number of rows.
    nulls = dict(_Lineage(schema=schema, secrets=secret_origins).of_query(qualified))
    if nulls[value].null is Decides.VALUE:
        refuse(
            "a secret that is not NULL because of what it is computed from",
            got=f'"{value}", which may be',
            fix="who has a value would tell that: write ELSE 0, or COALESCE(…, 0) around it, and public "
            "conditions into WHERE",
        )
    hidden = [name for name, one in outputs.items() if one.origins & all_secrets and name != value]
    # sqlglot writes QUALIFY as a subquery for engines without it: there * would list its helper, too.
    written = qualified if has(tree, exp.Qualify) and schema.dialect != "duckdb" else tree
    told = [node for origins, _, node in lineage.aggregates if origins & secret_origins]
    sums = [node for node in told if isinstance(node, exp.Sum | exp.Count | exp.CountIf)]
    counted = [query for node in sums[:1] for query in _with_counts(node)]
    names = {name.casefold() for _, name in all_secrets} | {secret.casefold(), *map(str.casefold, hidden)}
    return DataQuery(
        sql=[written, *counted][-1].sql(schema.dialect, comments=False),
        normal=normal_text(qualified, schema),
        columns=(*outputs, *(ROWS_BEHIND for _ in counted)),
        hidden=tuple(hidden),
        secrets=frozenset(names),
        ties=tuple(dict.fromkeys(_tie_queries(qualified, schema.dialect))),
        lookups=tuple(dict.fromkeys(_lookup_queries(qualified, schema.dialect))),
        adds_up=bool(sums),
    )


@dataclass(frozen=True, slots=True)
class _Output:
    """What a column of a query derives from."""

    origins: Origins
    copied: str | None = None  # the column of ``source`` that it is a copy of; a constant is a copy of none
    null: Decides = Decides.NOTHING  # what decides whether it is NULL, if no column of the tables is

    def beside(self, other: _Output) -> _Output:
        """What the column of a UNION ALL derives from."""
        copied = self.copied if self.copied == other.copied else None
        return _Output(self.origins | other.origins, copied, max(self.null, other.null))


Outputs = dict[str, _Output]
_CONSTANT = ""


@dataclass(slots=True, kw_only=True)
class _Lineage:
    """Follows columns through a qualified query, and keeps what must not depend on a secret."""

    schema: Schema
    secrets: Origins = frozenset()  # what decides by its values whether something is NULL
    controls: list[tuple[Origins, exp.Expr]] = field(default_factory=list)  # they choose or group rows
    windows: list[tuple[Origins, exp.Expr]] = field(default_factory=list)
    aggregates: list[tuple[Origins, set[str | None], exp.Expr]] = field(default_factory=list)  # with the keys
    unions: list[tuple[Origins, Origins]] = field(default_factory=list)
    tables: dict[str, Outputs] = field(default_factory=dict)  # a wide one is read once for each column

    def of_query(self, query: exp.Expr) -> list[tuple[str, _Output]]:
        if isinstance(query, exp.Subquery):
            return self.of_query(query.this)
        if isinstance(query, exp.Union):
            left, right = self.of_query(query.this), self.of_query(query.expression)
            if len(left) != len(right):
                refuse("as many columns in each SELECT of UNION ALL", got=f"{len(left)} and {len(right)}")
            first, second = (Origins().union(*(one.origins for _, one in side)) for side in (left, right))
            self.unions.append((first, second))
            return [(name, one.beside(other)) for (name, one), (_, other) in zip(left, right, strict=True)]
        if not isinstance(query, exp.Select):
            refuse("SELECT", got=shown_part(query), fix=f"for wide tables write FROM source {UNPIVOT}")
        return self._of_select(query)

    def _of_select(self, select: exp.Select) -> list[tuple[str, _Output]]:
        relations: dict[str, Outputs] = {}
        for node in sources_of(select):
            relations[node.alias_or_name] = (
                _named_once(self.of_query(node)) if isinstance(node, exp.Subquery) else self._of_table(node)
            )

        def origins(node: exp.Expr) -> Origins:
            columns = node.find_all(exp.Column)
            return frozenset().union(*(relations[one.table][one.name].origins for one in columns))

        def copied(node: exp.Expr) -> str | None:
            plain = node.unalias().unnest()
            if isinstance(plain, exp.Literal):
                return _CONSTANT  # such as the names of the columns of UNPIVOT
            return relations[plain.table][plain.name].copied if isinstance(plain, exp.Column) else None

        keys = clause_of(select, "group").expressions
        self.controls += [(origins(node), node) for node in (*_clauses(select), *keys, *_ons(select))]
        self.windows += [
            (origins(node), node) for node in select.find_all(exp.Window) if _select_around(node) is select
        ]
        self.aggregates += [
            (
                origins(node.parent if isinstance(node.parent, exp.Filter) else node),
                {copied(key) for key in keys},
                node,
            )
            for node in select.find_all(*_AGGREGATES)
            if node.find_ancestor(exp.Window, exp.Select) is select
        ]
        rule = NullRule(column=lambda one: self._facts(relations[one.table][one.name]))
        return [
            (item.alias_or_name, _Output(origins(item), copied(item), rule.null(item.unalias())))
            for item in select.expressions
        ]

    def _facts(self, output: _Output) -> ColumnFacts:
        return ColumnFacts(output.null, secret=bool(output.origins & self.secrets))

    def _of_table(self, node: exp.Expr) -> Outputs:
        name = node.name.casefold()
        if name not in self.tables:
            columns = self.schema.columns if name == SOURCE else tables_of(self.schema)[name]
            self.tables[name] = {
                folded_name(column.name, self.schema): _Output(
                    frozenset({(name, column.name)}), column.name if name == SOURCE else None
                )
                for column in columns
            }
        return self.tables[name]

    def check(self, secrets: Origins, audited: Origins, *, record: str | None) -> None:
        """Refuse a query in which a secret chooses rows, or the audited one enters several rows."""
        rows = (
            "rows that do not depend on a secret",
            "which rows there are would tell something of the secret; rows without one may stay: the audit "
            "counts them",
        )
        window = ("window functions of public columns", "a value would enter several rows")
        uses = [(rows, origins & secrets, node) for origins, node in self.controls]
        uses += [(window, origins & audited, node) for origins, node in self.windows]
        for (expected, fix), told, node in uses:
            if told:
                refuse(expected, got=f"{_named(told)} in {shown_part(node)}", fix=fix)
        for origins, keys, node in self.aggregates:
            if origins & audited and record not in keys:
                refuse(
                    f"aggregates of a secret over the rows of one record: GROUP BY {record}",
                    got=shown_part(node),
                    fix="group by the record key, too",
                )
        for left, right in self.unions:
            if left & right & audited:
                refuse(
                    "columns of their own in each SELECT of UNION ALL",
                    got=f"{_named(left & right & audited)} in two of them",
                    fix="a value would enter several rows: list the columns that each SELECT needs",
                )


def _check_written(tree: exp.Query, schema: Schema) -> None:
    """Refuse what the query must not contain, as it is written."""
    names = {SOURCE, *tables_of(schema)}
    for clause in tree.find_all(exp.With):
        if clause.parent is not tree or clause.args.get("recursive"):
            refuse(
                "WITH at the beginning, not recursive",
                got=shown_part(clause.parent or tree),
                fix="put it first",
            )
        names |= {part.alias.casefold() for part in clause.expressions}
    for node in tree.find_all(exp.SetOperation):
        beside = clauses_of(node) - {"this", "expression", "with_"}
        if not isinstance(node, exp.Union) or beside:
            refuse(
                "UNION ALL by itself",
                got=shown_part(node),
                fix="which lines it drops would depend on a secret",
            )
    for table in tree.find_all(exp.Table):
        plain = isinstance(table.this, exp.Identifier) and not table.args.get("db")
        if not plain or table.name.casefold() not in names:
            refuse(
                "FROM source, and joins of declared tables",
                got=shown_part(table),
                fix=suggestion(table.name, sorted(names), what="tables"),
            )
        if not is_plain(table, "pivots"):
            refuse("a table's plain name", got=shown_part(table))
    for pivot in tree.find_all(exp.Pivot):
        if not isinstance(pivot.parent, exp.Table) or pivot.parent.name.casefold() != SOURCE:
            refuse(f"FROM source {UNPIVOT}", got=shown_part(pivot))
    for subquery in tree.find_all(exp.Subquery):
        if not is_plain(subquery):
            refuse("a plain subquery", got=shown_part(subquery))
    for select in tree.find_all(exp.Select):
        _check_select(select, schema)


def _check_select(select: exp.Select, schema: Schema) -> None:
    public = set(tables_of(schema))
    for clause in sorted(clauses_of(select) - _CLAUSES):
        refuse(
            "SELECT, FROM, JOIN, WHERE, GROUP BY, HAVING and QUALIFY in [data] sql",
            got=clause.strip("_").upper(),
            fix="leave it out",
        )
    if "from_" not in clauses_of(select):
        refuse("FROM source", got="no FROM")
    start = select.args["from_"].this
    if not isinstance(start, exp.Table | exp.Subquery) or start.name.casefold() in public:
        refuse("FROM source", got=shown_part(start), fix="join public tables to it")
    for join in select.args.get("joins") or []:
        words = {str(join.args.get(part) or "").upper() for part in ("method", "kind", "side")} - {""}
        known = isinstance(join.this, exp.Table) and join.this.name.casefold() in public
        if (
            not known
            or words - {"LEFT", "INNER", "OUTER"}
            or not (join.args.get("on") or join.args.get("using"))
        ):
            refuse(
                "JOIN or LEFT JOIN of a declared public table, ON columns that agree",
                got=shown_part(join),
                fix="a join may only look up each row",
            )
    group = clause_of(select, "group")
    if clauses_of(group) - {"expressions"} or has(group, exp.Rollup, exp.Cube, exp.GroupingSets):
        refuse(
            "GROUP BY with a list of columns", got=shown_part(group), fix="a value would enter several rows"
        )
    items = [item.unalias() for item in select.expressions]
    conditions = [clause.this for clause in _clauses(select)]
    for node in (*items, *conditions, *group.expressions, *_ons(select)):
        if not _is_star(node):
            _check_expression(node, schema)
        elif any(star.args.get("replace") for star in node.find_all(exp.Star)):
            refuse("* as it is, or with EXCLUDE", got=shown_part(node), fix="list the columns")


def _clauses(select: exp.Select) -> list[exp.Expr]:
    """What chooses the rows and lines of a SELECT."""
    return [select.args[name] for name in ("where", "having", "qualify") if name in clauses_of(select)]


def _ons(select: exp.Select) -> list[exp.Expr]:
    """The conditions of its joins."""
    return [join.args["on"] for join in select.args.get("joins") or [] if "on" in clauses_of(join)]


def _check_expression(node: exp.Expr, schema: Schema) -> None:
    """Refuse subqueries, and functions whose answer is not the same each time."""
    if has(node, exp.Select):
        refuse("no subquery in an expression", got=shown_part(node), fix="a value would enter several rows")
    root = exp.Paren(this=node.copy())
    while call := root.find(exp.Window, exp.Filter, exp.AggFunc):
        if isinstance(call, exp.Window):
            extra = [name for name, value in call.args.items() if value and name not in _WINDOW_PARTS]
            if extra or not isinstance(call.this, _WINDOWS):
                refuse(
                    "ROW_NUMBER, RANK, DENSE_RANK, LAG, LEAD, FIRST_VALUE, LAST_VALUE, COUNT, SUM, AVG, MIN "
                    "or MAX with PARTITION BY and ORDER BY",
                    got=shown_part(call),
                )
            if isinstance(call.this, (*_BY_ORDER, exp.Rank, exp.DenseRank)) and not call.args.get("order"):
                refuse("ORDER BY in OVER", got=shown_part(call), fix="without it the numbers are arbitrary")
            parts = [*(call.args.get("partition_by") or []), *clause_of(call, "order").expressions]
            inner = [one.this if isinstance(one, exp.Ordered) else one for one in parts]
            arguments = list(call.this.iter_expressions())
        elif isinstance(call, exp.Filter):
            inner, arguments = [call.expression.this, call.this], []
        else:
            if not isinstance(call, _AGGREGATES):
                refuse("COUNT, SUM, AVG, MIN or MAX", got=shown_part(call))
            inner, arguments = [], list(call.iter_expressions())
        for argument in arguments:
            distinct = isinstance(argument, exp.Distinct)
            inner += (
                argument.expressions if distinct else [] if isinstance(argument, exp.Star) else [argument]
            )
        for one in inner:
            _check_expression(one, schema)
        call.replace(exp.Literal.number(1))
    check_public(root.this, dialect=schema.dialect, functions=schema.functions)


_WINDOW_PARTS = {"this", "partition_by", "order", "over"}


def _with_counts(node: exp.Expr) -> Iterator[exp.Expr]:
    """The query with a column more: how many rows each sum adds up; none if other SELECTs change them."""
    marked = node.copy()
    marked.meta["counted"] = True
    inside = node.replace(marked)
    root = inside.root().copy()
    found = next(one for one in root.walk() if one.meta.get("counted"))
    inside.replace(node)
    select = _select_around(found)
    count: exp.Expr = exp.Count(this=exp.Star())
    if isinstance(found.parent, exp.Filter):
        count = exp.Filter(this=count, expression=found.parent.expression.copy())
    name = exp.to_identifier(ROWS_BEHIND, quoted=True)
    select.append("expressions", exp.alias_(count, name))
    while select is not root:
        subquery = select.parent
        if not isinstance(subquery, exp.Subquery) or not is_inside(subquery, exp.Select):
            return
        outer = _select_around(subquery)
        if "group" in clauses_of(outer):
            return
        column = exp.column(name.copy(), table=exp.to_identifier(subquery.alias, quoted=True))
        outer.append("expressions", exp.alias_(column, name.copy()))
        select = outer
    yield root


def _select_around(node: exp.Expr) -> exp.Select:
    return node.find_ancestor(exp.Select) or exp.Select()


def _tie_queries(qualified: exp.Query, dialect: str) -> Iterator[str]:
    """For each window function whose answer depends on the order of rows that tie: how many do.

    If no two rows tie, a row's number is its rank, and the engine's order of rows changes nothing.
    """
    for window in qualified.find_all(exp.Window):
        if not isinstance(window.this, _BY_ORDER):
            continue
        numbered = _select_around(window).copy()
        calls = []
        for name, call in (("n", exp.RowNumber()), ("r", exp.Rank())):
            own = window.copy()
            own.set("this", call)
            calls.append(exp.alias_(own, name))
        numbered.set("expressions", calls)
        numbered.set("qualify", None)
        yield f"SELECT COUNT(*) AS n FROM ({numbered.sql(dialect)}) AS numbered WHERE n <> r"


def _lookup_queries(qualified: exp.Query, dialect: str) -> Iterator[str]:
    """For each SELECT with joins, the number of its rows and of those that the joins make of them."""
    for select in qualified.find_all(exp.Select):
        joins = [join.copy() for join in select.args.get("joins") or []]
        if not joins:
            continue
        for join in joins:
            join.set("side", "LEFT")
            join.set("kind", None)
        start = select.args["from_"].sql(dialect)
        looked_up = " ".join(join.sql(dialect) for join in joins)
        yield (
            f"SELECT a.n AS n, b.n AS joined FROM (SELECT COUNT(*) AS n {start}) AS a "
            f"CROSS JOIN (SELECT COUNT(*) AS n {start} {looked_up}) AS b"
        )


def _other_origins(others: Sequence[str], outputs: Mapping[str, _Output], schema: Schema) -> Origins:
    found: Origins = frozenset()
    for name in others:
        made = [one for output, one in outputs.items() if output.casefold() == name.casefold()]
        found |= made[0].origins if made else {(SOURCE, find_column(schema.columns, name).name)}
    return found


def _output(outputs: Mapping[str, _Output], name: str, *, field_name: str) -> str:
    """The column of the answer that a field of ``[data]`` names."""
    columns = [Column(output, ColumnKind.OTHER) for output in outputs]
    if name.casefold() not in {output.casefold() for output in outputs}:
        refuse(
            f"[data] {field_name}: a column of [data] sql",
            got=f'"{name[:60]}"',
            fix=suggestion(name, list(outputs)),
        )
    return find_column(columns, name).name


def _named_once(outputs: Sequence[tuple[str, _Output]]) -> Outputs:
    twice = [name for name, times in Counter(name for name, _ in outputs).items() if times > 1]
    if twice:
        refuse("different names for the columns", got=f'"{twice[0]}" twice', fix="rename one")
    return dict(outputs)


def _is_star(node: exp.Expr) -> bool:
    return isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star))


def _named(origins: Origins) -> str:
    return f'the secret "{min(origins)[1]}"'
