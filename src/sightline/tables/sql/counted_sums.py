"""Sums of a record's rows in ``[data] sql``, with a column more: how many rows each of them adds up."""

from __future__ import annotations

from sqlglot import exp

ROWS_BEHIND = "sightline_rows"  # a column of data: how many rows of source a sum of a record's rows adds up


def adds_up(node: exp.Expr) -> bool:
    """Whether an aggregate grows with the number of rows."""
    return isinstance(node, exp.Sum | exp.Count | exp.CountIf)


def with_counts(node: exp.Expr) -> exp.Expr | None:
    """The query with a column more: how many rows each sum adds up; none if other SELECTs change them."""
    marked = node.copy()
    marked.meta["counted"] = True
    inside = node.replace(marked)
    root = inside.root().copy()
    found = next(one for one in root.walk() if one.meta.get("counted"))
    inside.replace(node)
    select = found.find_ancestor(exp.Select)
    assert select is not None
    count: exp.Expr = exp.Count(this=exp.Star())
    if isinstance(found.parent, exp.Filter):
        count = exp.Filter(this=count, expression=found.parent.expression.copy())
    name = exp.to_identifier(ROWS_BEHIND, quoted=True)
    select.append("expressions", exp.alias_(count, name))
    while select is not root:
        subquery = select.parent
        outer = None if subquery is None else subquery.find_ancestor(exp.Select)
        if not isinstance(subquery, exp.Subquery) or outer is None or outer.args.get("group") is not None:
            return None
        column = exp.column(name.copy(), table=exp.to_identifier(subquery.alias, quoted=True))
        outer.append("expressions", exp.alias_(column, name.copy()))
        select = outer
    return root
