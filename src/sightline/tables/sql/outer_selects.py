"""A SELECT of the lines of a grouped query is that query with other items.

``WITH t AS (SELECT g, SUM(x) AS s, COUNT(*) AS n FROM data GROUP BY g) SELECT g, s / n FROM t WHERE n > 9``
is ``SELECT g, SUM(x) / COUNT(*) FROM data GROUP BY g HAVING COUNT(*) > 9``. The engine compares the answers
of both, as of every release that is read in another form than it was written in.
"""

from __future__ import annotations

from sqlglot import exp

from sightline.tables.sql.grammar import clauses_of, with_selects
from sightline.tables.subject import Schema

_INNER = {"expressions", "from_", "joins", "where", "group", "having"}
_OUTER = {"expressions", "from_", "where", "order", "limit"}
_PLAIN = (exp.Column, exp.Literal, exp.Func)


def without_outer(query: exp.Query, schema: Schema) -> tuple[exp.Query, bool]:
    """The query with one SELECT in place of every SELECT of a grouped one, and whether it had some.

    >>> from sqlglot import parse_one
    >>> text = "SELECT g, s AS sum FROM (SELECT g, SUM(x) AS s, COUNT(*) AS n FROM d GROUP BY 1) WHERE n > 9"
    >>> print(without_outer(parse_one(text), Schema(columns=[]))[0].sql())
    SELECT g, SUM(x) AS "sum" FROM d GROUP BY g HAVING COUNT(*) > 9
    """
    changed = False
    while True:
        query, found = with_selects(query, lambda select: _without_outer(select, schema))
        if not found:
            return query, changed
        changed = True


def _without_outer(select: exp.Select, schema: Schema) -> exp.Select | None:
    """The inner SELECT with the items of the outer one; none if they are of another form."""
    source = select.args.get("from_")
    subquery = None if source is None else source.this
    if not isinstance(subquery, exp.Subquery) or not isinstance(subquery.this, exp.Select):
        return None
    inner = subquery.this
    if subquery.args.get("pivots") or subquery.alias_column_names:
        return None
    groups = inner.args.get("group") is not None or any(map(_aggregates, inner.expressions))
    if not groups or not clauses_of(inner) <= _INNER or not clauses_of(select) <= _OUTER:
        return None
    if any(item.is_star for item in inner.expressions) or any(map(_aggregates, select.expressions)):
        return None
    where, order = select.args.get("where"), select.args.get("order")
    if any(item.find(exp.Window) for item in inner.expressions) and (where or select.find(exp.Window)):
        return None
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
    names = {column.name.casefold() for node in outside for column in node.find_all(exp.Column)}
    names |= {column.name.casefold() for column in (order.find_all(exp.Column) if order else ())} - own_names
    if not names <= set(named) or any(item.is_star for item in items):
        return None
    found = inner.copy()
    real = {column.name.casefold() for column in schema.columns}
    aliases = {name: own for name, own in named.items() if name not in real}
    _write_keys(found, inner, aliases)
    found.set("expressions", items)
    conditions = [_replaced(one.this, aliases) for one in [inner.args.get("having")] if one]
    conditions += [_replaced(one.this, named) for one in [where] if one]
    if conditions:
        found.set("having", exp.Having(this=exp.and_(*conditions)))
    if order is not None:
        left = {name: own for name, own in named.items() if name not in own_names}
        found.set("order", _replaced(order, left))
    found.set("limit", select.args.get("limit"))
    return found


def _write_keys(found: exp.Select, inner: exp.Select, aliases: dict[str, exp.Expr]) -> None:
    """Write the keys of GROUP BY as expressions: positions, aliases and ALL are about the inner items."""
    group = found.args.get("group")
    if group is None:
        return
    if group.args.get("all"):
        keys = [item.unalias().copy() for item in inner.expressions if not item.find(exp.AggFunc)]
        found.set("group", exp.Group(expressions=keys))
        return
    for key in list(group.expressions):
        if isinstance(key, exp.Literal) and not key.is_string:
            key.replace(inner.expressions[int(key.name) - 1].unalias().copy())
        else:
            key.replace(_replaced(key, aliases))


def _replaced(node: exp.Expr, named: dict[str, exp.Expr]) -> exp.Expr:
    """An expression with the inner items in place of their names."""
    root = exp.Paren(this=node.copy())
    for column in list(root.find_all(exp.Column)):
        own = named.get(column.name.casefold())
        if own is not None:
            column.replace(own.copy() if isinstance(own, _PLAIN) else exp.paren(own.copy()))
        elif column.table:
            column.set("table", None)
    found: exp.Expr = root.this
    return found


def _aggregates(item: exp.Expr) -> bool:
    """Whether it has an aggregate that is no window function."""
    return any(not isinstance(call.parent, exp.Window) for call in item.find_all(exp.AggFunc))
