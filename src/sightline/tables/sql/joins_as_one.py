"""Joins that one SELECT over ``data`` answers as well: grouped queries on their keys, and listed values.

The engine compares both answers, as of every release that is read in another form than it was written in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NoReturn

from sqlglot import exp

from sightline.tables.engines.protocol import DATA
from sightline.tables.sql.grammar import clause_of, clauses_of, has, is_inside, is_plain, refuse, shown
from sightline.tables.sql.scope import conjuncts
from sightline.tables.subject import Schema
from sightline.values import frozen

_BARE = ({"this"}, {"this", "kind"})  # a comma, or CROSS JOIN


@frozen
class _Grouped:
    """A query of ``data`` in FROM or JOIN: its aggregates and its keys, by the names that it gives them."""

    called: str
    items: dict[str, exp.Expr]
    keys: dict[str, exp.Expr]
    where: list[exp.Expr]
    having: list[exp.Expr]
    join: exp.Join  # FROM is a comma before the first

    @property
    def one_line(self) -> bool:
        return not self.keys and clauses_of(self.join) in _BARE


def without_grouped_joins(select: exp.Select, schema: Schema) -> Iterator[exp.Select]:
    """Grouped queries that are joined on all their keys, as one: each is a FILTER. Nothing for another form.

    ``SELECT a.g, a.m - b.m FROM (SELECT g, AVG(x) AS m FROM data WHERE p GROUP BY g) AS a JOIN (… WHERE q …)
    AS b ON a.g = b.g`` is ``SELECT g, AVG(x) FILTER (WHERE p) - AVG(x) FILTER (WHERE q) FROM data`` by g, of
    the groups with rows of both. A query of one line beside others is a subquery that is one number.

    >>> from sqlglot import parse_one
    >>> text = "SELECT a.g, a.s - b.s AS d FROM (SELECT g, SUM(x) AS s FROM data GROUP BY g) AS a"
    >>> for join in (
    ...     "JOIN (SELECT g, SUM(x) AS s FROM data WHERE p GROUP BY g) AS b USING (g)",
    ...     "CROSS JOIN (SELECT SUM(x) AS s FROM data) AS b",
    ... ):
    ...     for found in without_grouped_joins(parse_one(f"{text} {join}"), Schema(columns=[])):
    ...         print(found.sql())
    SELECT "a g" AS "g", "a s" - "b s" AS d FROM (SELECT g AS "a g", SUM(x) AS "a s", g AS "b g", SUM(x) ...
    SELECT "a g" AS "g", "a s" - (SELECT SUM(x) FROM data) AS d FROM (SELECT g AS "a g", SUM(x) AS "a s" ...
    """
    joins = select.args.get("joins") or []
    first_source = (clause_of(select, "from_").this or exp.Table()).copy()
    listed = [exp.Join(this=first_source), *joins]
    sources = [one for join in listed for one in _grouped(join)]
    if not joins or len({one.called for one in sources}) < len(listed):
        return
    kept = [one for one in sources if not one.one_line] or sources[:1]
    first, *others = kept
    if any(not _matches(one, kept[: place + 1]) for place, one in enumerate(others)):
        return
    items: list[exp.Expr] = []
    having: list[exp.Expr] = []
    met = [exp.Not(this=exp.Is(this=key, expression=exp.Null())) for key in first.keys.values() if others]
    # A key that is NULL has no match.
    rows: list[exp.Expr] = [*met] if all(map(_required, kept)) else []
    for one in kept:
        conditions = list(one.where) if others else []
        if one is not first and not rows:
            conditions += met
        for name, item in one.items.items():
            number = item if name in one.keys else _filtered(item, conditions)
            items.append(exp.alias_(number.copy(), f"{one.called} {name}", quoted=True))
        if conditions and _required(one):
            there = _filtered(exp.Count(this=exp.Star(), big_int=True), conditions)
            having.append(exp.GT(this=there, expression=exp.Literal.number(0)))
        having += [_filtered(part, conditions) for part in one.having]
    rows += [] if others else first.where
    inner = exp.select(*items).from_(DATA).where(*(part.copy() for part in rows))
    inner = inner.group_by(*(key.copy() for key in first.keys.values()))
    if having:
        inner = inner.having(exp.and_(*(part.copy() for part in having)))
    whole = select.copy()
    whole.set("joins", None)
    whole.set("from_", exp.From(this=inner.subquery("joined")))

    def meant(column: exp.Column) -> exp.Expr:
        name, table = column.name.casefold(), column.table.casefold()
        for one in (one for one in sources if name in one.items and table in ("", one.called)):
            if one in kept:
                return exp.column(f"{one.called} {name}", quoted=True)
            number = exp.select(one.items[name].copy()).from_(DATA)
            return exp.Subquery(this=number.where(*(part.copy() for part in one.where)))
        return column

    yield _renamed(whole, meant)


def _grouped(join: exp.Join) -> Iterator[_Grouped]:
    """A subquery in FROM or JOIN, if it is a plain SELECT of keys and aggregates of ``data``."""
    source, inner = join.this, join.this.this
    if not isinstance(source, exp.Subquery) or not is_plain(source) or not isinstance(inner, exp.Select):
        return
    if not source.alias or clauses_of(inner) - {"expressions", "from_", "where", "group", "having"}:
        return
    table = clause_of(inner, "from_").this
    if not isinstance(table, exp.Table) or table.name.casefold() != DATA or inner.find(exp.Window):
        return
    items = {item.alias_or_name.casefold(): _plain(item.unalias()) for item in inner.expressions}
    keys = {name: item for name, item in items.items() if not has(item, exp.AggFunc)}
    if "" in items or len(items) < len(inner.expressions) or any(one.is_star for one in inner.expressions):
        return
    group = clause_of(inner, "group")
    texts = {_plain(key).sql() for key in group.expressions}
    if not clauses_of(group) <= {"expressions"} or texts != {key.sql() for key in keys.values()}:
        return
    where, having = (
        [_plain(inner.args[name].this)] if inner.args.get(name) else [] for name in ("where", "having")
    )
    if having:
        root = exp.Paren(this=having[0])
        for column in list(root.find_all(exp.Column)):
            if not is_inside(column, exp.AggFunc) and column.name.casefold() in items:
                column.replace(exp.paren(items[column.name.casefold()].copy()))
        having = [root.this]
    if having and not keys:
        return
    yield _Grouped(
        called=source.alias.casefold(), items=items, keys=keys, where=where, having=having, join=join
    )


def _plain(node: exp.Expr) -> exp.Expr:
    """An expression over ``data`` without the names of tables."""
    root = exp.Paren(this=node.copy())
    for column in root.find_all(exp.Column):
        if not is_inside(column, exp.Select):
            column.set("table", None)
    found: exp.Expr = root.this
    return found


def _matches(one: _Grouped, before: Sequence[_Grouped]) -> bool:
    """Whether a query is joined on all its keys, which are those of the queries before it."""
    keys = {name: key.sql() for name, key in one.keys.items()}
    if set(keys.values()) != {key.sql() for key in before[0].keys.values()}:
        return False
    if one.join.side not in ("", "LEFT") or (one.having and not _required(one)):
        return False
    if one.join.kind not in ("", "INNER", "OUTER"):
        return False
    using = [name.name.casefold() for name in one.join.args.get("using") or ()]
    if using:
        same = [
            keys.get(name) for name in using if before[0].keys.get(name, exp.null()).sql() == keys.get(name)
        ]
        return set(same) == set(keys.values())
    matched = set()
    for part in _conditions(one.join):
        sides = (part.this.unnest(), part.expression.unnest()) if isinstance(part, exp.EQ) else ()
        texts = [
            each.keys[side.name.casefold()].sql()
            for side in sides
            for each in (one, *before)
            if isinstance(side, exp.Column)
            and side.table.casefold() == each.called
            and side.name.casefold() in each.keys
        ]
        if len(texts) != 2 or texts[0] != texts[1]:
            return False
        matched.add(texts[0])
    return matched == set(keys.values())


def _conditions(join: exp.Join) -> list[exp.Expr]:
    """The parts of ON; none without it."""
    return conjuncts(join.args["on"]) if "on" in clauses_of(join) else []


def _required(one: _Grouped) -> bool:
    """Whether a line needs rows of this query."""
    return one.join.side != "LEFT"


def _filtered(item: exp.Expr, conditions: Sequence[exp.Expr]) -> exp.Expr:
    """An item of aggregates, each over the rows that meet the conditions."""
    if not conditions:
        return item
    root = exp.Paren(this=item.copy())
    for call in list(root.find_all(exp.AggFunc)):
        outer = call.parent if isinstance(call.parent, exp.Filter) else call
        own = [outer.expression.this] if outer is not call else []
        where = exp.Where(this=exp.and_(*(part.copy() for part in (*own, *conditions))))
        outer.replace(exp.Filter(this=call.copy(), expression=where))
    found: exp.Expr = root.this
    return found


def _renamed(whole: exp.Select, meant: Callable[[exp.Column], exp.Expr]) -> exp.Select:
    """A SELECT with other expressions in the place of its own columns, and its items called as before."""
    for item in list(whole.expressions):
        if isinstance(item, exp.Column) and not item.is_star:
            item.replace(exp.alias_(item.copy(), item.name, quoted=True))
    for column in list(whole.find_all(exp.Column)):
        if column.find_ancestor(exp.Select) is whole:
            column.replace(meant(column))
    return whole


def without_listed_values(select: exp.Select, schema: Schema) -> Iterator[exp.Select]:
    """JOIN (VALUES …) as CASE: a lookup in lines that the query itself lists. Nothing without one.

    >>> from sqlglot import parse_one
    >>> text = "SELECT v.n, SUM(x) FROM data JOIN (VALUES (1, 'a'), (2, 'b')) AS v(k, n) USING (k) GROUP BY 1"
    >>> print(next(without_listed_values(parse_one(text), Schema(columns=[]))).sql())
    SELECT CASE WHEN k = 1 THEN 'a' WHEN k = 2 THEN 'b' END AS "n", SUM(x) FROM data WHERE (k = 1 OR ...
    """
    joins = select.args.get("joins") or []
    places = [place for place, join in enumerate(joins) if isinstance(join.this, exp.Values)]
    if not places:
        return
    join, listed = joins[places[0]], joins[places[0]].this
    lines = [line.expressions if isinstance(line, exp.Tuple) else [line] for line in listed.expressions]
    names = [name.name.casefold() for name in listed.args["alias"].args.get("columns") or ()]
    called = listed.alias.casefold()
    if join.side not in ("", "LEFT") or join.kind not in ("", "INNER", "OUTER") or not names:
        _refuse_values(join)
    if any(len(line) != len(names) or any(one.find(exp.Column, exp.Query) for one in line) for line in lines):
        _refuse_values(join)
    keys: dict[str, exp.Expr] = {
        name.name.casefold(): exp.column(name.copy()) for name in join.args.get("using") or ()
    }
    for part in _conditions(join):
        sides = [part.this.unnest(), part.expression.unnest()] if isinstance(part, exp.EQ) else []
        own = [side for side in sides if isinstance(side, exp.Column) and side.table.casefold() == called]
        if len(own) != 1:
            _refuse_values(join)
        keys[own[0].name.casefold()] = next(side for side in sides if side is not own[0])
    if not keys or not set(keys) <= set(names):
        _refuse_values(join)
    # A key that is NULL has no match.
    lines = [
        line for line in lines if not any(isinstance(line[names.index(name)], exp.Null) for name in keys)
    ]
    found = {tuple(line[names.index(name)].sql() for name in keys) for line in lines}
    if len(found) < max(1, len(lines)):
        refuse("each key once in VALUES", got=shown(listed), fix="its rows would be counted twice")
    met = [
        exp.and_(
            *(
                exp.EQ(this=key.copy(), expression=line[names.index(name)].copy())
                for name, key in keys.items()
            )
        )
        for line in lines
    ]
    real = {column.name.casefold() for column in schema.columns}

    def meant(column: exp.Column) -> exp.Expr:
        name, table = column.name.casefold(), column.table.casefold()
        if name not in names or not (table == called or (not table and name not in real)):
            return column
        case = exp.Case()
        for condition, line in zip(met, lines, strict=True):
            case = case.when(condition.copy(), line[names.index(name)].copy())
        return case

    whole = select.copy()
    whole.args["joins"].pop(places[0])
    whole = _renamed(whole, meant)
    yield whole if join.side == "LEFT" else whole.where(exp.paren(exp.or_(*met)))


def _refuse_values(join: exp.Join) -> NoReturn:
    refuse(
        "JOIN (VALUES …) AS v(key, name) ON data.key = v.key",
        got=shown(join),
        fix="list constants under names, and say which of them a row must equal",
    )
