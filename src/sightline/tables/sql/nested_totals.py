"""Totals of totals: a sum of sums by person is a sum of rows, so that both may be in one plan.

``SELECT g, SUM(total) FROM (SELECT id, g, SUM(x) AS total FROM data GROUP BY id, g) GROUP BY g`` is
``SELECT g, SUM(x) FROM data GROUP BY g``, and the mean of the totals is that over ``COUNT(DISTINCT id)``. The
engine compares the answers of both, as of every release that is read in another form than it was written in.
"""

from __future__ import annotations

from sqlglot import exp

from sightline.tables.engines.protocol import DATA
from sightline.tables.sql.grammar import clauses_of, with_selects

_INNER = {"expressions", "from_", "where", "group"}
_OUTER = {"expressions", "from_", "where", "group", "order"}


def without_totals(query: exp.Query) -> tuple[exp.Query, bool]:
    """The query with sums of rows in place of sums and means of sums, and whether it had some.

    >>> from sqlglot import parse_one
    >>> text = "SELECT AVG(t) FROM (SELECT id, SUM(x) AS t FROM data GROUP BY id)"
    >>> print(without_totals(parse_one(text))[0].sql())
    SELECT SUM(x) / COUNT(DISTINCT id) FROM data
    """
    return with_selects(query, _without_totals)


def _without_totals(select: exp.Select) -> exp.Select | None:
    """The SELECT over rows; none if it is of another form, which stays as it is."""
    source = select.args.get("from_")
    if source is None or not isinstance(source.this, exp.Subquery):
        return None
    inner = source.this.this
    if not isinstance(inner, exp.Select) or _more(source.this) or select.find(exp.Window):
        return None
    if not clauses_of(inner) <= _INNER or not clauses_of(select) <= _OUTER or not inner.args.get("group"):
        return None
    table = inner.args["from_"].this if inner.args.get("from_") is not None else None
    if not isinstance(table, exp.Table) or table.name.casefold() != DATA:
        return None
    keys = inner.args["group"].expressions
    if not all(isinstance(key, exp.Column) for key in keys) or _more(inner.args["group"], "expressions"):
        return None
    totals: dict[str, exp.Expr] = {}
    columns: dict[str, exp.Expr] = {}
    for item in inner.expressions:
        own = item.unalias()
        if isinstance(own, exp.Sum) and not own.find(exp.Distinct) and isinstance(item, exp.Alias):
            totals[item.alias.casefold()] = own
        elif isinstance(own, exp.Column) and own in keys:
            columns[item.alias_or_name.casefold()] = own
        else:
            return None
    written = select.copy()
    written.set("from_", inner.args["from_"].copy())
    group = written.args.get("group")
    outer = group.expressions if group is not None else []
    if not totals or not all(isinstance(key, exp.Column) and key.name.casefold() in columns for key in outer):
        return None
    by = [columns[key.name.casefold()] for key in outer]
    left = [key for key in keys if key not in by]
    for call in list(written.find_all(exp.AggFunc)):
        rows = _over_rows(call, totals, left)
        if rows is None:
            return None
        call.replace(rows)
    for column in list(written.find_all(exp.Column)):
        if column.find_ancestor(exp.AggFunc) is None:
            if column.name.casefold() not in columns:
                return None  # a total outside of an aggregate, or a name that is made outside
            column.replace(columns[column.name.casefold()].copy())
    conditions = [one.this.copy() for one in (inner.args.get("where"), written.args.get("where")) if one]
    if conditions:
        written.set("where", exp.Where(this=exp.and_(*conditions)))
    return written


def _over_rows(call: exp.AggFunc, totals: dict[str, exp.Expr], left: list[exp.Expr]) -> exp.Expr | None:
    """An aggregate of totals as one of rows: SUM, AVG, and COUNT(*), whose lines are values of one column."""
    lines = exp.Count(this=exp.Distinct(expressions=[left[0].copy()])) if len(left) == 1 else None
    if isinstance(call.parent, exp.Filter) and not isinstance(call, exp.Sum):
        return None
    if isinstance(call, exp.Count) and isinstance(call.this, exp.Star):
        return lines
    total = totals.get(call.this.name.casefold()) if isinstance(call.this, exp.Column) else None
    if total is None or not isinstance(call, exp.Sum | exp.Avg):
        return None
    if isinstance(call, exp.Sum):
        return total.copy()
    return None if lines is None else exp.Div(this=total.copy(), expression=lines)


def _more(node: exp.Expr, *known: str) -> bool:
    """Whether a node has parts besides these, its content and its alias."""
    return any(value for name, value in node.args.items() if name not in ("this", "alias", *known))
