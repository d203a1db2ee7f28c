"""Forms of a query that mean the same as simpler ones: it is rewritten, and the simpler form is read.

Pivots, totals of totals and outer SELECTs have the answer of one SELECT with GROUP BY. The engine compares
the answers of both, as of every release that is read in another form than it was written in.

In that SELECT, ``CASE WHEN COUNT(*) > 9 THEN AVG(x) END`` publishes the groups that ``HAVING COUNT(*) > 9``
keeps, and NULL for the others. A subquery that is one number is a release of its own, with which the others
are computed. ``CASE k WHEN 1 THEN x END`` is ``CASE WHEN k = 1 THEN x END``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NoReturn

from sqlglot import exp

from sightline.tables.engines.protocol import DATA
from sightline.tables.sql.grammar import (
    clause_of,
    clauses_of,
    has,
    is_inside,
    is_plain,
    refuse,
    shown,
    sources_of,
)
from sightline.tables.sql.grouping import write_keys
from sightline.tables.sql.joins_as_one import without_grouped_joins, without_listed_values
from sightline.tables.sql.multiplied_rows import OF_LINES
from sightline.tables.sql.normal_form import tables_of
from sightline.tables.subject import Schema

_OF_TOTALS = {"expressions", "from_", "where", "group"}
_INNER = _OF_TOTALS | {"joins", "having"}
_OUTER = {"expressions", "from_", "where", "order", "limit"}
_BESIDE_PIVOT = {"expressions", "from_", "order", "limit", "kind"}
_PLAIN = (exp.Column, exp.Literal, exp.Func)
_CONSTANT = "sightline constant"
Change = Callable[[exp.Select, Schema], Iterable[exp.Select]]  # another form of a SELECT: none, or one


def in_one_select(query: exp.Query, schema: Schema) -> tuple[exp.Query, bool]:
    """The query with one SELECT in place of every form of it, and whether it had some.

    >>> from sqlglot import parse_one
    >>> for text in (
    ...     "SELECT * FROM (SELECT town, x FROM data) PIVOT (SUM(x) FOR town IN ('a', 'b'))",
    ...     "SELECT AVG(t) FROM (SELECT id, SUM(x) AS t FROM data GROUP BY id)",
    ...     "SELECT g, s AS sum FROM (SELECT g, SUM(x) AS s, COUNT(*) AS n FROM d GROUP BY 1) WHERE n > 9",
    ... ):
    ...     print(in_one_select(parse_one(text, read="duckdb"), Schema(columns=[]))[0].sql("duckdb"))
    SELECT SUM(x) FILTER(WHERE town = 'a') AS a, SUM(x) FILTER(WHERE town = 'b') AS b FROM (SELECT town, ...
    SELECT SUM(x) / COUNT(DISTINCT id) FROM data
    SELECT g, SUM(x) AS "sum" FROM d GROUP BY g HAVING COUNT(*) > 9
    """
    found = False
    for select in query.find_all(exp.Select):
        write_keys(select, _columns_in(select, schema))
    if not query.find(exp.Join, exp.Pivot) and all(
        isinstance(source.this, exp.Table) for source in query.find_all(exp.From)
    ):
        return query, found  # each is a SELECT over one table
    for change in (
        without_listed_values,
        _without_pivot,
        _without_totals,
        without_grouped_joins,
        _without_outer,
    ):
        query, changed = _changed(query, change, schema)
        found = found or changed
        while changed:  # an outer SELECT may have one of its own, a join another
            query, changed = _changed(query, change, schema)
    return query, found


def _columns_in(select: exp.Select, schema: Schema) -> set[str]:
    """The names of the columns that FROM and JOIN of a SELECT have, in lower case."""
    tables = {DATA: schema.columns, **tables_of(schema)}
    found: set[str] = set()
    for source in sources_of(select):
        found |= {column.name.casefold() for column in tables.get(source.name.casefold(), ())}
        if isinstance(source, exp.Subquery) and isinstance(source.this, exp.Select):
            found |= set(map(str.casefold, source.this.named_selects))
            found |= _columns_in(source.this, schema) if source.this.is_star else set()
    return found


def _changed(query: exp.Query, change: Change, schema: Schema) -> tuple[exp.Query, bool]:
    """The query with other SELECTs where ``change`` gives one, and whether it gave any."""
    found = False
    for select in list(query.find_all(exp.Select)):
        for other in change(select, schema):
            found = True
            if select is query:
                query = other
            else:
                select.replace(other)
    return query, found


def _inner(select: exp.Select) -> exp.Select:
    """The SELECT in FROM, if it is a plain subquery; else an empty one."""
    source = clause_of(select, "from_").this
    inner = source.this if isinstance(source, exp.Subquery) and is_plain(source) else source
    return inner if isinstance(inner, exp.Select) else exp.Select()


def _without_totals(select: exp.Select, schema: Schema) -> Iterator[exp.Select]:
    """Totals of totals: a sum of sums by person is a sum of rows. Nothing if it is of another form.

    ``SELECT g, SUM(total) FROM (SELECT id, g, SUM(x) AS total FROM data GROUP BY id, g) GROUP BY g`` is
    ``SELECT g, SUM(x) FROM data GROUP BY g``, and the mean of the totals is that over ``COUNT(DISTINCT id)``.
    """
    inner = _inner(select)
    if not clauses_of(inner) <= _OF_TOTALS or not clauses_of(select) <= _OF_TOTALS | {"order"}:
        return
    table, group = clause_of(inner, "from_").this, clause_of(inner, "group")
    if not isinstance(table, exp.Table) or table.name.casefold() != DATA or has(select, exp.Window):
        return
    keys = group.expressions
    if clauses_of(group) != {"expressions"} or not all(isinstance(key, exp.Column) for key in keys):
        return
    totals: dict[str, exp.Expr] = {}
    columns: dict[str, exp.Expr] = {}
    for item in inner.expressions:
        own = item.unalias()
        if isinstance(own, exp.Sum) and not own.find(exp.Distinct) and isinstance(item, exp.Alias):
            totals[item.alias.casefold()] = own
        elif isinstance(own, exp.Column) and own in keys:
            columns[item.alias_or_name.casefold()] = own
        else:
            return
    written = select.copy()
    written.set("from_", inner.args["from_"].copy())
    outer = clause_of(written, "group").expressions
    if not totals or not all(isinstance(key, exp.Column) and key.name.casefold() in columns for key in outer):
        return
    by = [columns[key.name.casefold()] for key in outer]
    left = [key for key in keys if key not in by]
    for call in list(written.find_all(exp.AggFunc)):
        rows = _over_rows(call, totals, left)
        if not rows:
            return
        call.replace(rows[0])
    for column in list(written.find_all(exp.Column)):
        if not is_inside(column, exp.AggFunc):
            if column.name.casefold() not in columns:
                return  # a total outside of an aggregate, or a name that is made outside
            column.replace(columns[column.name.casefold()].copy())
    conditions = [one.this.copy() for one in (inner.args.get("where"), written.args.get("where")) if one]
    if conditions:
        written.set("where", exp.Where(this=exp.and_(*conditions)))
    yield written


def _over_rows(call: exp.AggFunc, totals: dict[str, exp.Expr], left: list[exp.Expr]) -> list[exp.Expr]:
    """An aggregate of totals as one of rows: SUM, AVG, and COUNT(*), whose lines are values of one column.

    Nothing of another aggregate.
    """
    lines = [exp.Count(this=exp.Distinct(expressions=[one.copy()])) for one in left if len(left) == 1]
    if isinstance(call.parent, exp.Filter) and not isinstance(call, exp.Sum):
        return []
    if isinstance(call, exp.Count) and isinstance(call.this, exp.Star):
        return [*lines]
    name = call.this.name.casefold() if isinstance(call.this, exp.Column) else ""
    if name not in totals or not isinstance(call, exp.Sum | exp.Avg):
        return []
    if isinstance(call, exp.Sum):
        return [totals[name].copy()]
    return [exp.Div(this=totals[name].copy(), expression=one) for one in lines]


def _without_outer(select: exp.Select, schema: Schema) -> Iterator[exp.Select]:
    """A SELECT of the lines of a grouped query is that query with other items. Nothing if of another form.

    ``WITH t AS (SELECT g, SUM(x) AS s, COUNT(*) AS n FROM data GROUP BY g) SELECT g, s / n FROM t``
    is ``SELECT g, SUM(x) / COUNT(*) FROM data GROUP BY g``, and a WHERE around it is HAVING.
    """
    inner = _inner(select)
    groups = "group" in clauses_of(inner) or any(map(_aggregates, inner.expressions))
    if not groups or not clauses_of(inner) <= _INNER or not clauses_of(select) <= _OUTER:
        return
    if any(item.is_star for item in inner.expressions) or any(map(_aggregates, select.expressions)):
        return
    where, order = select.args.get("where"), clause_of(select, "order")
    if any(item.find(exp.Window) for item in inner.expressions) and (where or select.find(exp.Window)):
        return
    named = {item.alias_or_name.casefold(): item.unalias() for item in inner.expressions}
    items: list[exp.Expr] = []
    for item in select.expressions:
        if isinstance(item, exp.Star) and not any(item.args.values()):
            items += [own.copy() for own in inner.expressions]
        else:
            own = _replaced(item.unalias(), named)
            name = item.alias_or_name
            plain = isinstance(own, exp.Column) and own.name == name
            items.append(own if plain or not name else exp.alias_(own, name, quoted=True))
    own_names = {item.alias_or_name.casefold() for item in items}
    outside = [*(item.unalias() for item in select.expressions), *([where] if where else [])]
    names = {column.name.casefold() for node in outside for column in _own_columns(node)}
    names |= {column.name.casefold() for column in _own_columns(order)} - own_names
    if not names <= set(named) or any(item.is_star for item in items):
        return
    found = inner.copy()
    real = {column.name.casefold() for column in schema.columns}
    aliases = {name: own for name, own in named.items() if name not in real}
    found.set("expressions", items)
    conditions = [_replaced(one.this, aliases) for one in [inner.args.get("having")] if one]
    conditions += [_replaced(one.this, named) for one in [where] if one]
    if conditions:
        found.set("having", exp.Having(this=exp.and_(*conditions)))
    if order.expressions:
        left = {name: own for name, own in named.items() if name not in own_names}
        found.set("order", _replaced(order, left))
    found.set("limit", select.args.get("limit"))
    yield found


def _replaced(node: exp.Expr, named: dict[str, exp.Expr]) -> exp.Expr:
    """An expression with the inner items in place of their names."""
    root = exp.Paren(this=node.copy())
    for column in _own_columns(root):
        if column.name.casefold() in named:
            own = named[column.name.casefold()].copy()
            column.replace(own if isinstance(own, _PLAIN) else exp.paren(own))
        elif column.table:
            column.set("table", None)
    found: exp.Expr = root.this
    return found


def _aggregates(item: exp.Expr) -> bool:
    """Whether it has an aggregate that is no window function, and not of a subquery that is one number."""
    return any(
        not isinstance(call.parent, exp.Window) and not is_inside_subquery(call, item)
        for call in item.find_all(exp.AggFunc)
    )


def _own_columns(node: exp.Expr) -> list[exp.Column]:
    """The columns of an expression, without those of its subqueries."""
    return [column for column in node.find_all(exp.Column) if not is_inside_subquery(column, node)]


def is_inside_subquery(part: exp.Expr, node: exp.Expr) -> bool:
    """Whether a part of an expression is of a subquery in it."""
    return part.find_ancestor(exp.Select) is not node.find_ancestor(exp.Select)


def with_groups(query: exp.Query, schema: Schema) -> exp.Query:
    """The query with groups in place of every PIVOT … ON.

    DuckDB's own ``PIVOT data ON town USING SUM(x) GROUP BY age`` has a column for each town that occurs, and
    none for NULL. Its numbers are those of the groups by age and town, and NULL or 0 where they have no line.

    >>> from sqlglot import parse_one
    >>> text = "FROM (PIVOT data ON town IN ('a', 'b') USING SUM(x) GROUP BY age)"
    >>> print(with_groups(parse_one(text, read="duckdb"), Schema(columns=[])).sql("duckdb"))
    SELECT age, town, SUM(x) FROM data WHERE town IN ('a', 'b') GROUP BY age, town
    """
    return _changed(query, _with_groups, schema)[0] if query.find(exp.Pivot) else query


def _with_groups(select: exp.Select, schema: Schema) -> Iterator[exp.Select]:
    source = clause_of(select, "from_").this
    pivot = source.this if isinstance(source, exp.Subquery) else source
    if not isinstance(pivot, exp.Pivot):
        return
    starred = len(select.expressions) == 1 and isinstance(select.expressions[0], exp.Star)
    listed = [one for one in pivot.expressions if isinstance(one, exp.In)]
    if pivot.args.get("unpivot") or not starred or clauses_of(select) - {"expressions", "from_", "order"}:
        _refuse(select, schema)
    if not all(isinstance(value, exp.Literal | exp.Boolean) for one in listed for value in one.expressions):
        _refuse(select, schema)
    columns = [one.this if isinstance(one, exp.In) else one for one in pivot.expressions]
    counted = exp.Count(this=exp.Star(), big_int=True)
    numbers = [one.copy() for one in pivot.args.get("using") or ()] or [counted]
    keys = [*_keys(pivot, pivot.this, [*numbers, *columns], schema), *columns]
    found = exp.select(*(key.copy() for key in keys), *numbers).from_(pivot.this.copy())
    for one, column in zip(pivot.expressions, columns, strict=True):
        there = exp.Not(this=exp.Is(this=column.copy(), expression=exp.Null()))
        found = found.where(one.copy() if isinstance(one, exp.In) else there)
    found = found.group_by(*(key.copy() for key in keys))
    found.set("order", select.args.get("order"))
    yield found


def _without_pivot(select: exp.Select, schema: Schema) -> Iterator[exp.Select]:
    """PIVOT as GROUP BY: an aggregate for each listed value, by the columns left. Nothing without PIVOT.

    ``SELECT * FROM data PIVOT (SUM(x) FOR town IN ('a', 'b') GROUP BY age)`` is
    ``SELECT age, SUM(x) FILTER (WHERE town = 'a') AS a, … GROUP BY age``.
    """
    source = clause_of(select, "from_").this or exp.Tuple()
    pivots = source.args.get("pivots")
    if not pivots or pivots[0].args.get("unpivot"):
        return
    pivot = pivots[0]
    starred = len(select.expressions) == 1 and isinstance(select.expressions[0], exp.Star)
    single = len(pivots) == 1 and len(pivot.args.get("fields") or ()) == 1
    if not single or not starred or clauses_of(select) - _BESIDE_PIVOT:
        _refuse(select, schema)
    (field,) = pivot.args["fields"]
    if not isinstance(field, exp.In) or not field.expressions or not isinstance(field.this, exp.Column):
        _refuse(select, schema)
    keys = _keys(pivot, source, [*pivot.expressions, field.this], schema)
    values, names = [_value(one) for one in field.expressions], pivot.args.get("columns") or ()
    if not all(isinstance(one, exp.Literal | exp.Boolean) for one in values):
        _refuse(select, schema)
    numbers: list[exp.Expr] = [
        exp.Filter(
            this=aggregate.unalias().copy(),
            expression=exp.Where(this=exp.EQ(this=field.this.copy(), expression=value.copy())),
        )
        for value in values
        for aggregate in pivot.expressions
    ]
    if len(names) == len(numbers):
        numbers = [exp.alias_(one, name.copy()) for one, name in zip(numbers, names, strict=True)]
    plain = select.copy()
    inner = plain.args["from_"].this
    inner.set("pivots", None)
    plain.set("expressions", [*(key.copy() for key in keys), *numbers])
    if keys:
        plain.set("group", exp.Group(expressions=[key.copy() for key in keys]))
    yield plain


def _keys(
    pivot: exp.Pivot, source: exp.Expr, parts: Sequence[exp.Expr], schema: Schema
) -> Sequence[exp.Expr]:
    """What PIVOT groups by: its keys, or else the columns that neither the aggregates nor FOR or ON use."""
    if "group" in clauses_of(pivot):
        return clause_of(pivot, "group").expressions
    used = {column.name.casefold() for part in parts for column in part.find_all(exp.Column)}
    if isinstance(source, exp.Subquery):
        listed = source.this.named_selects
        if "*" in listed:
            refuse(
                "columns by name in the subquery of a PIVOT",
                got="*",
                fix="list them: PIVOT groups by the others",
            )
    else:
        listed = [column.name for column in schema.columns]
    return [exp.column(name, quoted=True) for name in listed if name.casefold() not in used]


def _value(listed: exp.Expr) -> exp.Expr:
    found: exp.Expr = listed.this if isinstance(listed, exp.PivotAlias) else listed
    return found


def _refuse(select: exp.Select, schema: Schema) -> NoReturn:
    refuse(
        "SELECT * FROM … PIVOT (aggregate FOR column IN (values))",
        got=select.sql(schema.dialect)[:120],
        fix="write the groups as GROUP BY, or each value as an aggregate with FILTER",
    )


def rewritten(select: exp.Select) -> list[exp.Select]:
    """A SELECT in its simplest form, and the SELECTs whose one number its items are computed with.

    It is taken out of its UNION ALL and changed in place.
    """
    whole = select.pop()
    parts = (*whole.expressions, clause_of(whole, "group"))  # keys are compared with items by their text
    for case in [node for part in parts for node in part.find_all(exp.Case) if node.this]:
        for branch in case.args["ifs"]:
            branch.set("this", exp.EQ(this=case.this.copy(), expression=branch.this))
        case.set("this", None)
    apart = _single_numbers(whole)
    _suppress_by_having(whole)
    return [whole, *apart]


def is_another_number(node: exp.Expr) -> bool:
    """Whether a part of an item stands for the one number of another SELECT."""
    return bool(node.meta_get(_CONSTANT))


def is_of_a_row(subquery: exp.Subquery) -> bool:
    """Whether a subquery in an aggregate names columns of the row around it, or counts its lines."""
    own = clause_of(subquery.this, "from_").this
    called = own.alias_or_name.casefold() if isinstance(own, exp.Table) else ""
    others = {one.table.casefold() for one in subquery.find_all(exp.Column)} - {"", called}
    return is_inside(subquery, exp.AggFunc, exp.Filter) and (bool(others) or called == OF_LINES)


def _single_numbers(select: exp.Select) -> list[exp.Select]:
    """Take the subqueries of one number out of the items."""
    found = []
    for item in select.expressions:
        for subquery in list(item.find_all(exp.Subquery)):
            inner = subquery.this
            if is_of_a_row(subquery):
                continue
            single = isinstance(inner, exp.Select) and len(inner.expressions) == 1
            if not single or inner.args.get("group") or not has(inner, exp.AggFunc):
                refuse(
                    "a subquery that is one aggregate over all rows, without GROUP BY",
                    got=shown(subquery),
                    fix="join a declared table, or put the subquery into FROM",
                )
            number = exp.Literal.number(1)
            number.meta[_CONSTANT] = True
            subquery.replace(number)
            found.append(inner.copy())
    return found


def _suppress_by_having(select: exp.Select) -> None:
    """Write CASE around all items that depend on one condition as HAVING."""
    conditions: dict[str, exp.Expr] = {}
    for item in select.expressions:
        case = item.unalias().unnest()
        for condition, value in _suppressed(case):
            conditions[condition.sql()] = condition
            value.meta.update(case.meta)
            case.replace(value)
    if len(conditions) > 1:
        refuse(
            "one CASE on public aggregates for all items",
            got=" and ".join(shown(one) for one in list(conditions.values())[:2]),
            fix="publish them in several releases",
        )
    for condition in conditions.values():
        select.having(condition, copy=False)


def _suppressed(node: exp.Expr) -> Iterator[tuple[exp.Expr, exp.Expr]]:
    """The condition under which CASE publishes an aggregate, and the aggregate; nothing for another CASE."""
    if not isinstance(node, exp.Case) or node.this or len(node.args["ifs"]) != 1:
        return
    branch, otherwise = node.args["ifs"][0], node.args.get("default") or exp.Null()
    condition, value = branch.this, branch.args["true"]
    if not has(condition, exp.AggFunc):
        return
    if _says_nothing(otherwise):
        yield condition.copy(), _number(value)
    elif _says_nothing(value):
        opposite = exp.Not(this=exp.paren(exp.Coalesce(this=condition.copy(), expressions=[exp.false()])))
        yield opposite, _number(otherwise)


def _says_nothing(node: exp.Expr) -> bool:
    """Whether it is what a suppressed group shows: NULL, or a text such as 'suppressed'."""
    plain = node.unnest()
    return isinstance(plain, exp.Null) or (isinstance(plain, exp.Literal) and plain.is_string)


def _number(value: exp.Expr) -> exp.Expr:
    """A number that is written as text, so that a column can also hold 'suppressed', is that number."""
    plain = value.unnest()
    if isinstance(plain, exp.Cast) and plain.to.is_type(*exp.DataType.TEXT_TYPES):
        plain = plain.this.unnest()
    return plain.copy()
