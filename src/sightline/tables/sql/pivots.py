"""PIVOT as GROUP BY: an aggregate for each value that is listed, by the columns that are left.

``SELECT * FROM data PIVOT (SUM(x) FOR town IN ('a', 'b') GROUP BY age)`` is ``SELECT age, SUM(x) FILTER
(WHERE town = 'a') AS a, … GROUP BY age``. The engine compares the answers of both, as of every release that
is read in another form than it was written in.

DuckDB's own ``PIVOT data ON town USING SUM(x) GROUP BY age`` has a column for each town that occurs, and none
for NULL. Its numbers are those of ``SELECT age, town, SUM(x) FROM data WHERE town IS NOT NULL GROUP BY age,
town``, and NULL or 0 where that has no line.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from sqlglot import exp

from sightline.tables.sql.grammar import clauses_of, refuse, with_selects
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


def with_groups(query: exp.Query, schema: Schema) -> exp.Query:
    """The query with groups in place of every PIVOT … ON.

    >>> from sqlglot import parse_one
    >>> text = "FROM (PIVOT data ON town IN ('a', 'b') USING SUM(x) GROUP BY age)"
    >>> print(with_groups(parse_one(text, read="duckdb"), Schema(columns=[])).sql("duckdb"))
    SELECT age, town, SUM(x) FROM data WHERE town IN ('a', 'b') GROUP BY age, town
    """
    return with_selects(query, lambda select: _with_groups(select, schema))[0]


def _with_groups(select: exp.Select, schema: Schema) -> exp.Select | None:
    source = select.args.get("from_")
    pivot = source.this.this if source is not None and isinstance(source.this, exp.Subquery) else None
    if not isinstance(pivot, exp.Pivot):
        return None
    starred = len(select.expressions) == 1 and isinstance(select.expressions[0], exp.Star)
    listed = [one for one in pivot.expressions if isinstance(one, exp.In)]
    if pivot.args.get("unpivot") or not starred or clauses_of(select) - {"expressions", "from_", "order"}:
        _refuse(select, schema)
    if not all(isinstance(value, exp.Literal | exp.Boolean) for one in listed for value in one.expressions):
        _refuse(select, schema)
    columns = [one.this if isinstance(one, exp.In) else one for one in pivot.expressions]
    counted = exp.Count(this=exp.Star(), big_int=True)
    numbers = [one.copy() for one in pivot.args.get("using") or ()] or [counted]
    group = pivot.args.get("group")
    left = group.expressions if group is not None else _left(pivot.this, [*numbers, *columns], schema)
    keys = [*left, *columns]
    found = exp.select(*(key.copy() for key in keys), *numbers).from_(pivot.this.copy())
    for one, column in zip(pivot.expressions, columns, strict=True):
        there = exp.Not(this=exp.Is(this=column.copy(), expression=exp.Null()))
        found = found.where(one.copy() if isinstance(one, exp.In) else there)
    found = found.group_by(*(key.copy() for key in keys))
    found.set("order", select.args.get("order"))
    return found


def _without_pivot(select: exp.Select, schema: Schema) -> exp.Select | None:
    """The SELECT with groups in place of a PIVOT; none if it has none."""
    source = select.args.get("from_")
    if source is None:
        return None
    pivots = source.this.args.get("pivots")
    if not pivots or pivots[0].args.get("unpivot"):
        return None
    pivot = pivots[0]
    starred = len(select.expressions) == 1 and isinstance(select.expressions[0], exp.Star)
    if (
        len(pivots) > 1
        or len(pivot.args.get("fields") or ()) != 1
        or not starred
        or clauses_of(select) - _BESIDE
    ):
        _refuse(select, schema)
    (field,) = pivot.args["fields"]
    if not isinstance(field, exp.In) or not field.expressions or not isinstance(field.this, exp.Column):
        _refuse(select, schema)
    group = pivot.args.get("group")
    used = [*pivot.expressions, field.this]
    keys = list(group.expressions) if group is not None else _left(source.this, used, schema)
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


def _left(source: exp.Expression, parts: Sequence[exp.Expression], schema: Schema) -> list[exp.Expression]:
    """The columns that neither the aggregates nor FOR or ON use: PIVOT groups by them."""
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


def _value(listed: exp.Expression) -> exp.Expression:
    found: exp.Expression = listed.this if isinstance(listed, exp.PivotAlias) else listed
    return found


def _refuse(select: exp.Select, schema: Schema) -> NoReturn:
    refuse(
        "SELECT * FROM … PIVOT (aggregate FOR column IN (values))",
        got=select.sql(schema.dialect)[:120],
        fix="write the groups as GROUP BY, or each value as an aggregate with FILTER",
    )
