"""Recognise items of the SELECT list that no value of the secret can change, such as AVG(age)."""

from __future__ import annotations

from collections.abc import Collection

from sqlglot import exp

from sightline.tables.sql.aggregates import RowCount
from sightline.tables.sql.grammar import shown
from sightline.tables.sql.grouping import check_made_of_keys
from sightline.tables.sql.having import aggregates_in
from sightline.tables.sql.scope import Scope

_COUNTS: tuple[type[exp.Expr], ...] = (exp.Count, exp.CountIf)
_PUBLIC: tuple[type[exp.Expr], ...] = (
    *_COUNTS, exp.Avg, exp.Sum, exp.Min, exp.Max, exp.Median, exp.Stddev, exp.StddevPop, exp.StddevSamp,
    exp.Variance, exp.VariancePop,
)  # fmt: skip


def read_public_aggregate(item: exp.Expr, *, scope: Scope, keys: Collection[str]) -> RowCount | None:
    """Read an item made of aggregates of public columns; None if it is one count or speaks of the secret.

    One count is left to the reader of measures: in a query grouped by the secret it is a histogram.
    """
    plain = item.unalias()
    root = exp.Paren(this=plain.copy())
    calls = aggregates_in(root)
    own = [call.this if isinstance(call, exp.Filter) else call for call in calls]
    inside = (exp.AggFunc, exp.Filter)
    keyed = [column for column in root.find_all(exp.Column) if column.find_ancestor(*inside) is None]
    single_count = len(calls) == 1 and isinstance(own[0], _COUNTS) and not keyed
    if single_count or not all(type(call) in _PUBLIC for call in own) or _speaks_of_secret(plain, scope):
        return None
    for call in calls:
        check_arguments(call, scope)
        call.replace(exp.Literal.number(1))
    for call in list(root.find_all(exp.Round, exp.Cast)):
        call.replace(call.this)
    check_made_of_keys(scope.bind(root.this), item, keys)
    return RowCount(label=item.alias or shown(plain), aggregate=plain, counts_rows=False)


def check_arguments(call: exp.Expr, scope: Scope) -> None:
    """Refuse functions that are not listed inside an aggregate."""
    if isinstance(call, exp.Filter):
        scope.bind(call.expression.this)
        call = call.this
    argument = call.this
    parts = argument.expressions if isinstance(argument, exp.Distinct) else [argument]
    for part in [*parts, *call.expressions]:
        if part is not None and not isinstance(part, exp.Star):
            scope.bind(part)


def _speaks_of_secret(node: exp.Expr, scope: Scope) -> bool:
    return any(scope.mentions_secret(scope.bind(column)) for column in node.find_all(exp.Column))
