"""What an audit is about: whose rows they are, which column is secret, and what it can hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from sightline.tables.engines.protocol import Column, Engine


class SecretKind(Enum):
    """What the secret is."""

    NUMBER = "number"
    BOOLEAN = "boolean"
    CATEGORY = "category"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The record key, the secret, and what the plan declares about them."""

    record: str  # the column that says whose row it is
    secret: str  # the column to protect
    kind: SecretKind
    bounds: tuple[float, float] | None = None  # of a number
    categories: tuple[str, ...] | None = None  # of a category; None for those in the data
    bandwidth: float | None = None  # the width of the smooth step that stands for a threshold
    known: tuple[str, ...] = ()  # conditions: the attacker knows the secrets of rows that meet any of them
    most_rows: int | None = None  # the declared limit on one record's rows; the data are checked against it


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """What a plan's SQL can name, and the dialect that it is written in."""

    columns: Sequence[Column]  # of ``data``
    tables: Mapping[str, Sequence[Column]] = field(default_factory=dict)  # declared public tables
    dialect: str = "duckdb"  # the source's own, as sqlglot calls it

    @classmethod
    def of(cls, engine: Engine, tables: Sequence[str] = ()) -> Schema:
        """The columns of an engine's relations."""
        return cls(
            columns=engine.columns(),
            tables={name: engine.columns(name) for name in tables},
            dialect=engine.dialect,
        )
