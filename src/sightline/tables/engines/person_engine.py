"""A table of one value per record as ``data``: an engine on top of the engine that holds the rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import sqlglot
from numpy.typing import NDArray
from sqlglot import exp

from sightline.tables.engines.protocol import DATA, Column, Engine
from sightline.tables.sql.translate import translated, with_names
from sightline.tables.subject import Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonEngine:
    """Answers queries over a SELECT, which it puts in place of ``data``."""

    engine: Engine
    sql: str  # the SELECT, in the engine's dialect
    schema: Schema  # of its columns

    @property
    def dialect(self) -> str:
        return self.engine.dialect

    def columns(self, table: str = DATA) -> tuple[Column, ...]:
        return tuple(self.schema.columns) if table == DATA else self.engine.columns(table)

    def fetch(self, query: str) -> dict[str, NDArray[np.generic]]:
        return self.engine.fetch_own(translated(query, dialect=self.dialect, names=self._names()))

    def fetch_own(self, query: str) -> dict[str, NDArray[np.generic]]:
        return self.engine.fetch_own(with_names(query, dialect=self.dialect, names=self._names()))

    def compile_own(self, query: str) -> None:
        self.engine.compile_own(query)  # as it is: a release names the rows

    def restrict(self, query: str) -> None:
        self.engine.restrict(query)

    def check_unchanged(self) -> None:
        self.engine.check_unchanged()

    def interrupt(self) -> None:
        self.engine.interrupt()

    def close(self) -> None:
        self.engine.close()

    def _names(self) -> dict[str, exp.Table | exp.Subquery]:
        select = sqlglot.parse_one(self.sql, read=self.dialect)
        tables = {name: exp.Table(this=exp.to_identifier(name, quoted=True)) for name in self.schema.tables}
        return {DATA: exp.Subquery(this=select), **tables}
