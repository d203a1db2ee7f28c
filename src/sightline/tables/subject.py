"""What an audit is about: the record key, the secret column and its possible values."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from enum import Enum
from typing import TYPE_CHECKING, Any

from sightline.tables.engines.protocol import Column, Engine
from sightline.values import frozen

if TYPE_CHECKING:
    from sqlglot.expressions import Expr  # takes long to import, and plans are read without it

UNBOUNDED = (-math.inf, math.inf)
SEPARATOR = " / "  # between the columns of a joint secret, and between their values
MOST_VALUES = 1_000  # categories or bands of the secret that a release lists one by one


class SecretKind(Enum):
    """What kind of value the secret is.

    A kind is a row of :data:`KINDS`: whoever treats one otherwise than another asks its row, so that a new
    kind cannot be taken for an old one. What no row can say is a ``match``: mypy lists those that lack one.
    """

    NUMBER = "number"
    BOOLEAN = "boolean"
    CATEGORY = "category"

    @property
    def measured(self) -> bool:
        """Whether a value lies between bounds, in a unit in which it can be known more or less closely.

        Else it is one of few values, which are guessed: right or wrong.
        """
        return KINDS[self].measured

    @property
    def summed(self) -> bool:
        """Whether a row enters sums with its own value, a yes as 1; else with an indicator for each value."""
        return KINDS[self].summed

    @property
    def two_values(self) -> bool:
        """Whether a value is a yes or a no: one says what the other does, and their odds can be stated."""
        return KINDS[self].two_values


@frozen(eq=True)
class KindFacts:
    """What sets a kind of secret apart: see the properties of :class:`SecretKind`."""

    measured: bool
    summed: bool
    two_values: bool


KINDS = {
    SecretKind.NUMBER: KindFacts(measured=True, summed=True, two_values=False),
    SecretKind.BOOLEAN: KindFacts(measured=False, summed=True, two_values=True),
    SecretKind.CATEGORY: KindFacts(measured=False, summed=False, two_values=False),
}


@frozen(eq=True)
class Subject:
    """The record key, the secret, and what the plan declares about them."""

    record: str  # the column of the record key: it says whose row it is
    secret: str  # the column to protect
    kind: SecretKind
    bounds: tuple[float, float] = UNBOUNDED  # the least and the largest value of a number
    categories: tuple[str, ...] = ()  # none: the categories that occur in the data
    known: tuple[str, ...] = ()  # conditions: the attacker knows the secrets of rows that meet any of them
    known_share: float = 0.0  # of the records, drawn by a hash of their keys: they are known, too
    known_within: float = math.inf  # t: the attacker knows every value to ± t
    most_rows: float = math.inf  # the declared limit on one record's rows; the data are checked against it
    blocks: tuple[str, ...] = ()  # columns: rows of a record with the same value may share a level
    parts: tuple[str, ...] = ()  # the columns of a joint secret

    def is_secret(self, column: str) -> bool:
        """Whether a column of ``data`` is the secret."""
        return column.casefold() == self.secret.casefold()


@frozen(eq=True)
class Schema:
    """The columns and tables that a plan's SQL can name, and its dialect."""

    columns: Sequence[Column]  # of ``data``
    tables: Mapping[str, Sequence[Column]] = field(default_factory=dict)  # declared public tables
    dialect: str = "duckdb"  # of the source, as sqlglot calls it
    functions: Callable[[], frozenset[str]] = frozenset  # deterministic ones, as the engine says
    ask: Callable[[str], Mapping[str, Any]] | None = None  # one SELECT in the engine's dialect; its columns
    asked: dict[str, dict[str, list[Any]]] = field(default_factory=dict, repr=False)  # answers so far
    own_names: frozenset[str] = frozenset()  # what else the table is called, in lower case
    source: tuple[Schema, ...] = ()  # that of the table under ``data``, where ``[data] sql`` makes it
    made_by: str = ""  # that query in its normal form
    parts: Mapping[str, Expr] = field(default_factory=dict)  # columns of a joint secret, as SQL of it

    @classmethod
    def of(cls, engine: Engine, tables: Sequence[str] = ()) -> Schema:
        """Read the columns of an engine's relations."""
        return cls(
            columns=engine.columns(),
            tables={name: engine.columns(name) for name in tables},
            dialect=engine.dialect,
            functions=engine.functions,
            ask=engine.fetch_own,
        )
