"""What an audit needs of a data engine: the columns of a relation, and the answer to one SELECT.

A plan's SQL is in the engine's own dialect. Our own queries are written once, in DuckDB's; another engine
translates them. Only text that this package
made from a checked syntax tree ever reaches an engine, and the connection could not write if it tried.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

DATA = "data"  # the relation that a plan's queries read
NO_TABLES: Mapping[str, str] = MappingProxyType({})


class ColumnKind(Enum):
    """What a column holds, as far as an audit cares."""

    NUMBER = "number"
    BOOLEAN = "boolean"
    TEXT = "text"
    TIME = "time"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a relation."""

    name: str
    kind: ColumnKind


class Engine(Protocol):
    """A read-only connection in which the relation ``data`` and the declared tables are visible."""

    @property
    def dialect(self) -> str:
        """The name by which sqlglot knows the engine's SQL."""

    def columns(self, table: str = DATA) -> tuple[Column, ...]:
        """The columns of a relation, in its own order."""

    def fetch(self, query: str) -> dict[str, NDArray[np.generic]]:
        """The answer to one SELECT in DuckDB's dialect, by column; NULL is None in an object array."""

    def fetch_own(self, query: str) -> dict[str, NDArray[np.generic]]:
        """The answer to one SELECT in the engine's own dialect, run as it is written."""

    def check_unchanged(self) -> None:
        """Refuse if the tables are not the ones that were opened."""

    def interrupt(self) -> None:
        """From another thread: end the query that is running, if the engine can."""

    def close(self) -> None:
        """Give the connection back; an engine can be closed twice."""
