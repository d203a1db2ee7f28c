"""Columns that a window function computes of public columns: one more value for every row of ``data``.

HAVING asks a window function of every row: how many rows its group has. A window sees only the rows that its
query's WHERE keeps. Those rows are made a part of their own in PARTITION BY, so that the column can be
computed over the whole table.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from sightline.tables.engines.protocol import DATA, Column, ColumnKind
from sightline.tables.sql.fragments import embedded
from sightline.tables.sql.scope import Relation, Scope, bound_column

_RELATION = "sightline windows"


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowColumn:
    """A computed column of ``data``, equal in name for equal windows, so that releases share one."""

    name: str
    bound: exp.Expr  # over the columns of ``data``, of lookups and of other window columns
    text: str  # the same, for our own queries

    @classmethod
    def of(cls, bound: exp.Expr, *, dialect: str) -> WindowColumn:
        """Name a bound expression made of windows."""
        text = embedded(bound, dialect)
        return cls(
            name="window_" + hashlib.sha256(text.encode()).hexdigest()[:50],
            bound=bound,
            text=text,
        )

    @property
    def column(self) -> exp.Column:
        """The column, bound."""
        return bound_column(self.name, DATA)


def rows_met(conditions: Sequence[exp.Expr]) -> list[exp.Expr]:
    """The key of PARTITION BY that keeps rows apart which do not meet the conditions."""
    if not conditions:
        return []
    met = exp.and_(*(exp.paren(one.copy()) for one in conditions))
    one, zero = exp.Literal.number(1), exp.Literal.number(0)
    return [exp.Case(ifs=[exp.If(this=met, true=one)], default=zero)]


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
