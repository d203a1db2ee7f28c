"""Columns that a window function computes of public columns: one more value for every row of ``data``.

A subquery in FROM may have window functions, and HAVING asks a window function of every row: how many rows
its group has. A window sees only the rows that its query's WHERE keeps. Those rows are made a part of their
own in PARTITION BY, so that the column can be computed over the whole table.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from sightline.tables.engines.protocol import DATA, Column, ColumnKind
from sightline.tables.sql.fragments import embedded
from sightline.tables.sql.grammar import check_scalar, refuse, shown
from sightline.tables.sql.scope import Relation, Scope, bound_column

_RELATION = "sightline windows"
_NUMBERING: tuple[type[exp.Expr], ...] = (exp.RowNumber, exp.Rank, exp.DenseRank)
_OVER_ROWS: tuple[type[exp.Expr], ...] = (exp.Count, exp.Min, exp.Max)


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowColumn:
    """A computed column of ``data``, equal in name for equal windows, so that releases share one."""

    name: str
    bound: exp.Expr  # over the columns of ``data``, of lookups and of other window columns
    text: str  # the same, for our own queries
    untied: str | None  # a text that equals ``text`` in every row if and only if the order has no ties

    @classmethod
    def of(cls, bound: exp.Expr, *, dialect: str) -> WindowColumn:
        """Name a bound expression made of windows."""
        text = embedded(bound, dialect)
        ranked = bound.copy()
        numbers = list(ranked.find_all(exp.RowNumber))
        for number in numbers:
            number.replace(exp.Rank())
        return cls(
            name="window_" + hashlib.sha256(text.encode()).hexdigest()[:50],
            bound=bound,
            text=text,
            untied=embedded(ranked, dialect) if numbers else None,
        )

    @staticmethod
    def is_name(name: str) -> bool:
        """Whether a column's name is one of ours."""
        return re.fullmatch("window_[0-9a-f]{50}", name) is not None

    @property
    def column(self) -> exp.Column:
        """The column, bound."""
        return bound_column(self.name, DATA)


def read_window(window: exp.Window, *, scope: Scope, conditions: Sequence[exp.Expr]) -> exp.Window:
    """Read a window function over the rows that meet bound ``conditions``; return it bound.

    ROW_NUMBER, RANK, DENSE_RANK, COUNT, MIN and MAX of public columns. The engine later checks that no two
    rows tie in the order of a ROW_NUMBER, which would make its numbers arbitrary.
    """
    function = window.this
    extra = [part for part, value in window.args.items() if value and part not in _PARTS]
    if extra or not isinstance(function, _NUMBERING + _OVER_ROWS):
        refuse(
            "ROW_NUMBER, RANK, DENSE_RANK, COUNT, MIN or MAX with PARTITION BY and ORDER BY",
            got=shown(window),
            fix="compute the column beforehand",
        )
    order = window.args.get("order")
    if isinstance(function, _NUMBERING) and (order is None or function.this is not None):
        refuse("ORDER BY in OVER", got=shown(window), fix="without it the numbers are arbitrary")
    bound = exp.Window(
        this=function.copy() if isinstance(function, _NUMBERING) else _bound_call(function, scope),
        partition_by=[
            *rows_met(conditions),
            *(_public(key, scope) for key in window.args.get("partition_by") or []),
        ],
        order=None
        if order is None
        else exp.Order(expressions=[_ordered(one, scope) for one in order.expressions]),
        over="OVER",
    )
    if any(scope.mentions_secret(part) and not scope.asks_presence(part) for part in conditions):
        refuse(
            "a window over rows that do not depend on the secret",
            got=shown(window),
            fix="leave the condition on the secret out of the subquery",
        )
    return bound


_PARTS = {"this", "partition_by", "order", "over"}


def rows_met(conditions: Sequence[exp.Expr]) -> list[exp.Expr]:
    """The key of PARTITION BY that keeps rows apart which do not meet the conditions."""
    if not conditions:
        return []
    met = exp.and_(*(exp.paren(one.copy()) for one in conditions))
    one, zero = exp.Literal.number(1), exp.Literal.number(0)
    return [exp.Case(ifs=[exp.If(this=met, true=one)], default=zero)]


def _bound_call(function: exp.Expr, scope: Scope) -> exp.Expr:
    argument = function.this
    if isinstance(argument, exp.Star):
        return exp.Count(this=exp.Star(), big_int=True)
    if argument is None or function.expressions or isinstance(argument, exp.Distinct):
        refuse("a window function of one expression", got=shown(function), fix="leave out DISTINCT")
    return type(function)(this=_public(argument, scope))


def _ordered(node: exp.Expr, scope: Scope) -> exp.Expr:
    found = node.copy()
    target = found.this if isinstance(found, exp.Ordered) else found
    if isinstance(target, exp.Literal):
        refuse("ORDER BY columns in OVER", got=shown(node), fix="a constant orders nothing")
    bound = _public(target, scope)
    if not isinstance(found, exp.Ordered):
        return bound
    found.set("this", bound)
    return found


def _public(node: exp.Expr, scope: Scope) -> exp.Expr:
    check_scalar(node)
    bound = scope.bind(node)
    if scope.mentions_secret(bound):
        refuse(
            "a window over public columns",
            got=f"the secret in {shown(node)}",
            fix="its order or its groups would depend on the secret",
        )
    return bound


def placeholder(window: WindowColumn) -> exp.Column:
    """A name for a window column that ``window_scope`` resolves."""
    return exp.column(window.name, table=exp.to_identifier(_RELATION, quoted=True))


def window_scope(scope: Scope, windows: Sequence[WindowColumn]) -> Scope:
    """The scope in which an expression can also name window columns."""
    meaning: dict[str, exp.Expr] = {window.name: window.column for window in windows}
    columns = tuple(Column(name, ColumnKind.OTHER) for name in meaning)
    relation = Relation(columns=columns, meaning=meaning)
    return replace(
        scope,
        relations={**scope.relations, _RELATION: relation},
        bases={**scope.bases, DATA: (*scope.bases[DATA], *columns)},
    )
