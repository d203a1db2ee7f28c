"""Joins that find several lines for a row of ``data``: how many they are is a public weight of the row.

``SELECT SUM(x) FROM data JOIN visits USING (id)`` adds up a row's ``x`` as often as it has visits, and
``FROM data AS a JOIN data AS b ON a.town = b.town`` a row of ``b`` as often as its town has rows. So the join
is read as a number of the row, which a subquery counts: ``SUM(x * n)``, and of a mean that over ``SUM(n)``. A
key of the joined lines puts one row into several groups: then each of its values is a SELECT of its own. The
engine compares both answers, on the true secrets and on others. DuckDB counts the lines of all rows in one
pass; on other engines such joins are refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import Any

from sqlglot import exp

from sightline.errors import InvalidPlan
from sightline.tables.engines.protocol import DATA
from sightline.tables.sql.grammar import (
    clause_of,
    clauses_of,
    has,
    is_plain,
    refuse,
    shown,
    sources_of,
    text_of,
)
from sightline.tables.sql.grouping import aggregates_in, has_aggregate, write_keys
from sightline.tables.sql.normal_form import tables_of
from sightline.tables.sql.scope import conjuncts
from sightline.tables.subject import Schema
from sightline.values import frozen

MOST_GROUPS = 24  # of keys of joined lines, each of which is a SELECT of its own
LABEL = "label"  # of an item of the SELECT list, as it was written
_CLAUSES = {"expressions", "from_", "joins", "where", "group", "having", "order", "limit"}
OF_LINES = "matched lines"  # what subqueries call the joined table
_Values = Sequence[tuple[exp.Expr, exp.Expr]]  # of the keys of joined lines: each with its value


def without_multiplied_rows(query: exp.Query, schema: Schema, secret: str) -> tuple[exp.Query, bool]:
    """The query with weights in place of joins that find several lines for a row, and whether it had some.

    >>> from sqlglot import parse_one
    >>> from sightline.tables.engines.protocol import Column, ColumnKind
    >>> schema = Schema(columns=[Column(name, ColumnKind.NUMBER) for name in ("town", "x")])
    >>> text = "SELECT a.town, SUM(b.x) FROM data AS a JOIN data AS b ON a.town = b.town GROUP BY a.town"
    >>> print(without_multiplied_rows(parse_one(text), schema, "x")[0].sql())
    SELECT b.town, SUM((b.x) * (SELECT COUNT(*) FROM data AS "matched lines" WHERE "matched lines".town = ...
    """
    found = False
    if schema.dialect != "duckdb" or not has(query, exp.Join):
        return query, found  # elsewhere a number of lines is counted again for every use of it
    for select in list(query.find_all(exp.Select)):
        for other in _weighted(select, schema, secret):
            found = True
            if select is query:
                query = other
            else:
                select.replace(other)
    return query, found


@frozen
class _Join:
    """A SELECT over the rows of one instance of ``data``, each as often as it has lines of another table."""

    select: exp.Select
    rows: str  # what the query calls the instance of data that has the secret, in lower case
    lines: str  # what it calls the other table
    columns: dict[str, frozenset[str]]  # of both, in lower case
    conditions: list[exp.Expr]  # of ON and WHERE
    left: bool  # whether a row without a line stays, once
    equal: dict[str, exp.Expr] = field(default_factory=dict)  # columns of lines that a column of the row is

    def table(self, called: str) -> exp.Expr:
        """One of the two tables, as written."""
        return next(one for one in sources_of(self.select) if one.alias_or_name.casefold() == called)

    def called(self, name: str) -> exp.Identifier:
        """What the query calls one of the two tables, as written."""
        table = self.table(name)
        found: exp.Identifier = (table.args.get("alias") or table).this
        return found.copy()

    def holder(self, column: exp.Column) -> str:
        """The table that a column is of; nothing if it may be several or none."""
        table, name = column.table.casefold(), column.name.casefold()
        holders = [one for one, names in self.columns.items() if name in names and table in ("", one)]
        return holders[0] if len(holders) == 1 else ""

    def of_lines(self, node: exp.Expr) -> bool:
        """Whether an expression has a column of the joined lines."""
        return any(self.holder(column) == self.lines for column in node.find_all(exp.Column))

    def of_rows(self, node: exp.Expr) -> bool:
        """Whether an expression has a column of the rows."""
        return any(self.holder(column) == self.rows for column in node.find_all(exp.Column))

    def on_rows(self, node: exp.Expr) -> exp.Expr:
        """An expression with columns of the row in place of those of its lines that equal them."""
        root = exp.Paren(this=node.copy())
        for column in list(root.find_all(exp.Column)):
            if self.holder(column) == self.lines and column.name.casefold() in self.equal:
                column.replace(self.equal[column.name.casefold()].copy())
        found: exp.Expr = root.this
        return found

    def of_matches(
        self, value: exp.Expr, chosen: _Values = (), conditions: Sequence[exp.Expr] = ()
    ) -> exp.Expr:
        """An aggregate of the lines that a row matches, as a subquery."""
        called = exp.to_identifier(OF_LINES, quoted=True)
        table = self.table(self.lines).copy()
        table.set("alias", exp.TableAlias(this=called))
        met = [one.copy() for one in (*self.conditions, *conditions) if self.of_lines(one)]
        for key, text in chosen:
            null = isinstance(text, exp.Null)
            met.append((exp.Is if null else exp.EQ)(this=exp.paren(key.copy()), expression=text.copy()))
        whole = exp.select(value.copy()).from_(table).where(*met)
        for column in list(whole.find_all(exp.Column)):
            holder = self.holder(column)
            column.set("table", called.copy() if holder == self.lines else self.called(holder))
        return exp.Subquery(this=whole)


def is_multiplicity(node: exp.Expr) -> bool:
    """Whether a bound expression is the number of lines that a row matches."""
    plain = node.unnest()
    plain = plain.this.unnest() if isinstance(plain, exp.Greatest) else plain  # of a LEFT JOIN at least 1
    select = plain.this if isinstance(plain, exp.Subquery) else plain
    items = select.expressions if isinstance(select, exp.Select) else []
    return bool(items) and all(isinstance(item, exp.Count) for item in items)


def is_number_of_lines(bound: exp.Select, rows: str) -> bool:
    """Whether a bound subquery is one number of lines that a row matches; ``rows`` is our name for data."""
    return len(bound.expressions) == 1 and any(column.table == rows for column in bound.find_all(exp.Column))


def _weighted(select: exp.Select, schema: Schema, secret: str) -> Iterator[exp.Query]:
    """A SELECT with weights, or one for each value of keys of lines; nothing for another form."""
    for join in _read(select, schema, secret):
        group = clause_of(join.select, "group")
        keys = [key for key in map(join.on_rows, group.expressions) if join.of_lines(key)]
        if any(isinstance(key, exp.Rollup | exp.Cube | exp.GroupingSets | exp.Tuple) for key in keys):
            return
        if keys and join.left:
            return
        if keys:
            _check_groups(join, secret)
        selects: list[exp.Query] = [
            _of_rows(join, one) for one in (_values(join, keys, schema) if keys else [()])
        ]
        if not selects or any(join.of_lines(part) for one in selects for part in _outside(one)):
            return
        whole = selects[0]
        for one in selects[1:]:
            whole = exp.Union(this=whole, expression=one, distinct=False)
        yield whole


def _check_groups(join: _Join, secret: str) -> None:
    """Refuse what lines of groups by joined columns would tell beside their numbers, each being a SELECT."""
    about = [
        one
        for one in join.conditions
        if any(c.name.casefold() == secret.casefold() for c in one.find_all(exp.Column))
    ]
    if about:
        refuse(
            "groups by joined columns that do not depend on the secret",
            got=f"{shown(about[0])} in WHERE",
            fix="write it as FILTER (WHERE …) behind each aggregate",
        )
    order = clause_of(join.select, "order").expressions
    aliases = {
        item.alias.casefold() for item in join.select.expressions if item.alias and has_aggregate(item)
    }
    for one in order:
        named = one.this.unnest()
        place = int(named.name) - 1 if isinstance(named, exp.Literal) and named.name.isdigit() else -1
        items = join.select.expressions[place : place + 1] if place >= 0 else []
        if any(map(has_aggregate, (named, *items))) or named.name.casefold() in aliases:
            refuse(
                "ORDER BY public columns, in groups by joined columns",
                got=shown(one),
                fix="sort the noisy numbers",
            )
    if "limit" in clauses_of(join.select):
        refuse(
            "no LIMIT, in groups by joined columns", got=shown(join.select.args["limit"]), fix="leave it out"
        )


def _outside(node: exp.Expr) -> list[exp.Column]:
    """The columns of a SELECT that are not of its subqueries."""
    return [column for column in node.find_all(exp.Column) if column.find_ancestor(exp.Select) is node]


def _read(select: exp.Select, schema: Schema, secret: str) -> Iterator[_Join]:
    """The join of a SELECT, if it is one of rows with lines of one other table."""
    tables, joins = sources_of(select), select.args.get("joins") or []
    known = {DATA: schema.columns, **tables_of(schema)}
    if len(joins) != 1 or len(tables) != 2 or clauses_of(select) - _CLAUSES:
        return
    (join,) = joins
    if not all(
        isinstance(one, exp.Table) and is_plain(one) and one.name.casefold() in known for one in tables
    ):
        return
    words = {join.side, join.kind} - {"", "INNER", "CROSS", "LEFT", "OUTER"}
    if clauses_of(join) - {"this", "on", "using", "kind", "side"} or words:
        return
    starred = any(not isinstance(star.parent, exp.Count) for star in select.find_all(exp.Star))
    if starred or has(select, exp.Window, exp.Subquery) or not any(map(has_aggregate, select.expressions)):
        return
    columns = {
        one.alias_or_name.casefold(): frozenset(each.name.casefold() for each in known[one.name.casefold()])
        for one in tables
    }
    data = [one.alias_or_name.casefold() for one in tables if one.name.casefold() == DATA]
    used = [one for one in select.find_all(exp.Column) if one.name.casefold() == secret.casefold()]
    owners = {one.table.casefold() or data[0] for one in used} if data else set()
    if len(columns) < 2 or len(owners) != 1 or not owners <= set(data):
        return
    select = select.copy()
    write_keys(select, frozenset().union(*columns.values()))
    (rows,) = owners
    (lines,) = set(columns) - owners
    where = conjuncts(select.args["where"].this) if "where" in clauses_of(select) else []
    matches, left = _matches(join, columns), join.side == "LEFT"
    found = _Join(
        select=select, rows=rows, lines=lines, columns=columns, conditions=[*matches, *where], left=left
    )
    about_lines = [one for one in found.conditions if found.of_lines(one)]
    # A row without a line stays, once: only what counts lines or rows is read of it.
    if left and (next(iter(columns)) != rows or any(one not in matches for one in about_lines)):
        return
    if left and any(one not in about_lines for one in matches):
        return
    named = [*found.conditions, *clause_of(select, "group").expressions]
    named += [call for part in select.expressions for call in aggregates_in(part)]
    if any(not found.holder(column) for part in named for column in part.find_all(exp.Column)):
        return  # a name of no table, or of both
    if any(column in used for one in about_lines for column in one.find_all(exp.Column)):
        return  # the secret would choose the lines
    for one in about_lines:
        sides = [one.this.unnest(), one.expression.unnest()] if isinstance(one, exp.EQ) else []
        for side, other in zip(sides, reversed(sides), strict=True):
            if isinstance(side, exp.Column) and isinstance(other, exp.Column) and not found.of_lines(other):
                found.equal[side.name.casefold()] = other
    if _finds_several(found, about_lines, schema, secret):
        yield found


def _matches(join: exp.Join, columns: dict[str, frozenset[str]]) -> list[exp.Expr]:
    """The conditions of ON or USING."""
    first, second = map(exp.to_identifier, columns)
    using: list[exp.Expr] = [
        exp.EQ(this=exp.column(name.copy(), first.copy()), expression=exp.column(name.copy(), second.copy()))
        for name in join.args.get("using") or ()
    ]
    return using or (conjuncts(join.args["on"]) if "on" in clauses_of(join) else [])


def _finds_several(join: _Join, about_lines: list[exp.Expr], schema: Schema, secret: str) -> bool:
    """Whether a row may match several lines: what is no lookup in a declared table, or as the engine says."""
    lookup = about_lines and all(isinstance(one, exp.EQ) for one in about_lines)
    if join.table(join.lines).name.casefold() == DATA or (not lookup and schema.ask is not None):
        return True
    if schema.ask is None:
        return False
    count = exp.Count(this=exp.Star(), big_int=True)
    if join.equal:  # a key that is unique in the table finds at most one
        keys = [exp.column(name, quoted=True) for name in join.equal]
        twice = exp.select(*(key.copy() for key in keys)).from_(join.table(join.lines).copy())
        twice = twice.group_by(*keys).having(exp.GT(this=count.copy(), expression=exp.Literal.number(1)))
        if not _number_of_lines(twice, schema):
            return False
    value = exp.column(secret, join.called(join.rows), quoted=True)
    there = exp.Not(this=exp.Is(this=value, expression=exp.Null()))
    rows = exp.select(exp.alias_(join.of_matches(count), "n"))
    rows = rows.from_(join.table(join.rows).copy()).where(there)
    return _number_of_lines(exp.select("n").from_(rows.subquery("matches")).where("n > 1"), schema) > 0


def _number_of_lines(query: exp.Select, schema: Schema) -> int:
    answer = _asked(exp.select("COUNT(*) AS n").from_(query.subquery("listed")), schema)
    return int(answer["n"][0]) if answer else 0


def _asked(query: exp.Query, schema: Schema) -> dict[str, list[Any]]:
    """The answer of a query; equal ones are asked once."""
    text = text_of(query, schema.dialect)
    if text not in schema.asked:
        assert schema.ask is not None
        try:
            found = {name: values.tolist() for name, values in schema.ask(text).items()}
        except InvalidPlan:
            found = {}  # the engine cannot run it, nor the release
        schema.asked[text] = found
    return schema.asked[text]


def _values(join: _Join, keys: list[exp.Expr], schema: Schema) -> list[_Values]:
    """The values of keys of lines that some row matches."""
    if schema.ask is None:
        return []
    named = [exp.alias_(key.copy(), f"k{place}") for place, key in enumerate(keys)]
    whole = join.select.copy()
    for name in set(clauses_of(whole)) - {"from_", "joins", "where"}:
        whole.set(name, None)
    whole.set("expressions", named)
    listed = whole.distinct().limit(MOST_GROUPS + 1)
    answer = _asked(listed, schema)
    lines = sorted(zip(*answer.values(), strict=True), key=repr)
    if len(lines) > MOST_GROUPS:
        refuse(
            f"at most {MOST_GROUPS} groups by columns of a table that has several lines for a row of data",
            got="more",
            fix="a row is in several of them, and each is a SELECT of its own: group more coarsely",
        )
    return [[(key, _constant(value)) for key, value in zip(keys, line, strict=True)] for line in lines]


def _constant(value: Any) -> exp.Expr:
    """A value of a key as SQL."""
    if value is None or value != value:
        return exp.Null()
    if not isinstance(value, bool | int | str):
        refuse(
            "keys of joined lines that are texts or whole numbers", got="others", fix="cast them to VARCHAR"
        )
    return exp.convert(value)


def _of_rows(join: _Join, chosen: _Values) -> exp.Select:
    """The SELECT over rows alone, each with the number of its lines, of which some have certain values."""
    whole = join.select.copy()
    number = join.of_matches(exp.Count(this=exp.Star(), big_int=True), chosen)
    if join.left:
        number = exp.Greatest(this=number, expressions=[exp.Literal.number(1)])
    own = [one.copy() for one in join.conditions if not join.of_lines(one)]
    whole.set("joins", None)
    if chosen:
        whole.set("order", None)
    whole.set("from_", exp.From(this=join.table(join.rows).copy()))
    some = exp.GT(this=number.copy(), expression=exp.Literal.number(0))
    whole.set("where", exp.Where(this=exp.and_(*own, some)))
    values = {key.sql(): value for key, value in chosen}
    if chosen:
        left = [key for key in clause_of(whole, "group").expressions if join.on_rows(key).sql() not in values]
        whole.set("group", exp.Group(expressions=left) if left else None)
    suffix = "".join(f", {key.sql()} = {value.sql()}" for key, value in chosen)
    for item in list(whole.expressions):
        plain = item.unalias()
        value = values.get(join.on_rows(plain).sql())
        if value is not None:
            plain.replace(value.copy())
            continue
    labels = [(item.alias or shown(item)) + suffix for item in whole.expressions]
    for part in [*whole.expressions, *(whole.args.get(name) for name in ("group", "having", "order"))]:
        for call in aggregates_in(part) if part is not None else []:
            call.replace(_of_weighted_rows(join, call, number, chosen))
    for item, label in zip(whole.expressions, labels, strict=True):
        item.unalias().meta[LABEL] = label
    for column in _outside(whole):
        if join.holder(column) == join.lines and column.name.casefold() in join.equal:
            column.replace(join.equal[column.name.casefold()].copy())
    return whole


def _of_weighted_rows(join: _Join, call: exp.Expr, number: exp.Expr, chosen: _Values) -> exp.Expr:
    """An aggregate over rows and their lines as one over rows."""
    met, of_lines, inner = list[exp.Expr](), list[exp.Expr](), call
    if isinstance(call, exp.Filter):
        inner, parts = call.this, conjuncts(call.expression.this)
        of_lines = [one for one in parts if join.of_lines(one)]
        met = [one for one in parts if not join.of_lines(one)]
    if of_lines and join.left:
        refuse(
            "conditions on joined columns in ON, of a LEFT JOIN that finds several lines",
            got=shown(call),
            fix="write them into ON, or JOIN in place of LEFT JOIN",
        )
    if of_lines:
        number = join.of_matches(exp.Count(this=exp.Star(), big_int=True), chosen, of_lines)
        met.append(exp.GT(this=number.copy(), expression=exp.Literal.number(0)))
    argument = inner.this if isinstance(inner.this, exp.Expr) else exp.Null()
    if isinstance(argument, exp.Distinct) or isinstance(inner, exp.Min | exp.Max):
        return call.copy()  # the same however often a row is there
    if isinstance(inner, exp.CountIf):
        return _counted(number, [*met, argument])
    if isinstance(inner, exp.Count):
        plain = isinstance(argument, exp.Star | exp.Literal)
        if join.of_lines(argument) and not join.of_rows(argument):
            count = exp.Count(this=argument.copy(), big_int=True)
            return _counted(join.of_matches(count, chosen, of_lines), met)
        return _counted(number, met if plain else [*met, _is_there(argument)])
    if isinstance(inner, exp.Sum):
        rows, lines = _factors(join, argument)
        if lines is not None:
            number = join.of_matches(exp.Sum(this=lines), chosen, of_lines)
        return _summed(exp.Mul(this=exp.paren(rows.copy()), expression=number.copy()), met)
    if not isinstance(inner, exp.Avg) or join.of_lines(argument):
        refuse(
            "COUNT, SUM, AVG, MIN or MAX over a join that finds several lines for a row of data",
            got=shown(call),
            fix="make its rows in [data] sql, or join a table whose columns are unique",
        )
    total = _summed(exp.Mul(this=exp.paren(argument.copy()), expression=number.copy()), met)
    divisor = _summed(number.copy(), [*met, _is_there(argument)])
    return exp.paren(exp.Div(this=total, expression=divisor))


def _summed(value: exp.Expr, conditions: Sequence[exp.Expr]) -> exp.Expr:
    total = exp.Sum(this=value)
    if not conditions:
        return total
    return exp.Filter(this=total, expression=exp.Where(this=exp.and_(*(one.copy() for one in conditions))))


def _counted(number: exp.Expr, conditions: Sequence[exp.Expr]) -> exp.Expr:
    """A count of lines: 0 where no row meets the conditions, as COUNT is."""
    if not conditions:
        return exp.Sum(this=number.copy())
    case = exp.Case(default=exp.Literal.number(0))
    return exp.Sum(this=case.when(exp.and_(*(one.copy() for one in conditions)), number.copy()))


def _is_there(node: exp.Expr) -> exp.Expr:
    return exp.Not(this=exp.Is(this=exp.paren(node.copy()), expression=exp.Null()))


def _factors(join: _Join, node: exp.Expr) -> tuple[exp.Expr, exp.Expr | None]:
    """A product as one of numbers of the row and one of numbers of its lines, if there are some."""
    plain = node.unnest()
    if not join.of_lines(plain):
        return plain, None
    if not join.of_rows(plain):
        return exp.Literal.number(1), plain
    if not isinstance(plain, exp.Mul):
        refuse(
            "products of numbers of the row and of numbers of its joined lines",
            got=shown(node),
            fix="publish the parts as several sums",
        )
    (first, left), (second, right) = _factors(join, plain.this), _factors(join, plain.expression)
    both = [exp.paren(one) for one in (left, right) if one is not None]
    lines = both[0] if len(both) == 1 else exp.Mul(this=both[0], expression=both[1])
    return exp.Mul(this=exp.paren(first), expression=exp.paren(second)), lines
