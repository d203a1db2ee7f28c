"""What an audit needs of a data engine: the columns of a relation, and the answer to one SELECT.

A plan's SQL is in the engine's own dialect. Our own queries are written in DuckDB's dialect, and another
engine translates them. An engine only receives text that this package made from a checked syntax tree, and
its connection is read-only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sightline.errors import InvalidPlan, require

DATA = "data"  # the relation that a plan's queries read
SOURCE = "source"  # the table under it, where ``[data] sql`` makes ``data`` from it
NO_TABLES: Mapping[str, str] = MappingProxyType({})


class ColumnKind(Enum):
    """The kinds of columns that an audit distinguishes."""

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


def check_names(names: Iterable[str], table: object) -> None:
    """Refuse names that differ only in case: engines rename one, or take one of them for the other."""
    listed = list(names)
    folded = Counter(name.casefold() for name in listed)
    alike = list(dict.fromkeys(name for name in listed if folded[name.casefold()] > 1))
    require(
        not alike,
        f"columns of {table} whose names differ in more than case",
        got=", ".join(f'"{name[:60]}"' for name in alike[:4]),
        fix="rename one of them",
        error=InvalidPlan,
    )


class Engine(Protocol):
    """A read-only connection in which the relation ``data`` and the declared tables are visible."""

    @property
    def dialect(self) -> str:
        """The name by which sqlglot knows the engine's SQL."""

    def columns(self, table: str = DATA) -> tuple[Column, ...]:
        """Return the columns of a relation, in its own order."""

    def functions(self) -> frozenset[str]:
        """The scalar functions that the engine says to be deterministic, in lower case."""

    def fetch(self, query: str) -> dict[str, NDArray[np.generic]]:
        """Run one SELECT in DuckDB's dialect; return its columns. NULL is None in an object array."""

    def fetch_own(self, query: str) -> dict[str, NDArray[np.generic]]:
        """Run one SELECT in the engine's own dialect, as it is written; return its columns."""

    def compile_own(self, query: str) -> None:
        """Raise ``InvalidPlan`` if the engine cannot run a SELECT in its own dialect; read no row."""

    def restrict(self, query: str) -> None:
        """From now on ``data`` is the answer to one SELECT over it, in DuckDB's dialect. No row is read."""

    def define(self, query: str) -> None:
        """From now on ``data`` is the answer to one SELECT in the engine's own dialect, over ``source``.

        ``source`` is what ``data`` was. No row is read.
        """

    def check_unchanged(self) -> None:
        """Raise ``InvalidPlan`` if the tables have changed since they were opened."""

    def interrupt(self) -> None:
        """From another thread: end the query that is running, if there is one and the engine can."""

    def close(self) -> None:
        """Close the connection. An engine may be closed twice."""
