"""PIVOT as GROUP BY: an aggregate for each value that is listed, by the columns that are left.

``SELECT * FROM data PIVOT (SUM(x) FOR town IN ('a', 'b') GROUP BY age)`` is ``SELECT age, SUM(x) FILTER
(WHERE town = 'a') AS a, … GROUP BY age``. The engine compares the answers of both, as of every release that
is read in another form than it was written in.
"""

from __future__ import annotations

from typing import NoReturn

from sqlglot import exp

from sightline.tables.sql.grammar import refuse, with_selects
from sightline.tables.subject import Schema

_BESIDE = {"expressions", "from_", "order", "limit", "kind"}


def without_pivots(query: exp.Query, schema: Schema) -> tuple[exp.Query, bool]:
    """The query with groups in place of every PIVOT, and whether it had one.

    >>> from sqlglot import parse_one
    >>> text = "SELECT * FROM (SELECT town, x FROM data) PIVOT (SUM(x) FOR town IN ('a', 'b'))"
    >>> print(without_pivots(parse_one(text, read="duckdb"), Schema(columns=[]))[0].sql("duckdb"))
    SELECT SUM(x) FILTER(WHERE town = 'a') AS a, SUM(x) FILTER(WHERE town = 'b') AS b FROM (SELECT town, ...
    """
    return with_selects(query, lambda select: _without_pivot(select, schema))


def _without_pivot(select: exp.Select, schema: Schema) -> exp.Select | None:
    """The SELECT with groups in place of a PIVOT; none if it has none."""
    source = select.args.get("from_")
    if source is None:
        return None
    pivots = source.this.args.get("pivots")
    if not pivots or pivots[0].args.get("unpivot"):
        return None
    pivot, clauses = pivots[0], {name for name, value in select.args.items() if value}
    starred = len(select.expressions) == 1 and isinstance(select.expressions[0], exp.Star)
    if len(pivots) > 1 or len(pivot.args.get("fields") or ()) != 1 or not starred or clauses - _BESIDE:
        _refuse(select, schema)
    (field,) = pivot.args["fields"]
    if not isinstance(field, exp.In) or not field.expressions or not isinstance(field.this, exp.Column):
        _refuse(select, schema)
    group = pivot.args.get("group")
    keys = list(group.expressions) if group is not None else _left(source.this, pivot, field, schema)
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
    return plain


def _left(source: exp.Expression, pivot: exp.Pivot, field: exp.In, schema: Schema) -> list[exp.Expression]:
    """The columns that neither the aggregates nor FOR use: PIVOT groups by them."""
    used = {
        column.name.casefold()
        for part in (*pivot.expressions, field.this)
        for column in part.find_all(exp.Column)
    }
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


def _value(listed: exp.Expression) -> exp.Expression:
    found: exp.Expression = listed.this if isinstance(listed, exp.PivotAlias) else listed
    return found


def _refuse(select: exp.Select, schema: Schema) -> NoReturn:
    refuse(
        "SELECT * FROM … PIVOT (aggregate FOR column IN (values))",
        got=select.sql(schema.dialect)[:120],
        fix="write the groups as GROUP BY, or each value as an aggregate with FILTER",
    )
