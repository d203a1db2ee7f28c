"""A table that the caller holds in memory: a pandas or Polars DataFrame, an Arrow table or a DuckDB relation.

None of these libraries is needed: an object is recognised by its class, and DuckDB reads it in place. Polars
and Arrow tables are read through the Arrow C stream, which needs no library besides their own. A relation is
a query on a connection of its own: it runs once, and its answer is copied.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from typing import Any

from sightline.errors import InvalidPlan, require


class Holder(Enum):
    """The libraries whose tables are read."""

    PANDAS = "a pandas DataFrame"
    POLARS = "a Polars DataFrame"
    ARROW = "an Arrow table"
    DUCKDB = "a DuckDB relation"


_CLASSES = {
    ("pandas", "DataFrame"): Holder.PANDAS,
    ("polars", "DataFrame"): Holder.POLARS,
    ("pyarrow", "Table"): Holder.ARROW,
    ("pyarrow", "RecordBatch"): Holder.ARROW,
    ("duckdb", "DuckDBPyRelation"): Holder.DUCKDB,
}
_ONE_KIND = ("string", "boolean", "integer", "floating")  # of Python objects, as pandas calls them
_FIXES = {
    "LazyFrame": "call collect() first",
    "RecordBatchReader": "call read_all() first: a stream can be read once only",
    "Series": "call to_frame() first",
    "Dataset": "call to_table() first",
    "ndarray": "name its columns: pandas.DataFrame(array, columns=[…])",
}


@dataclass(frozen=True, slots=True, eq=False)
class InMemoryTable:
    """A table of another library. It is not copied: it must not change while it is read."""

    table: Any
    holder: Holder

    def __str__(self) -> str:
        return self.holder.value

    @property
    def column_names(self) -> list[Any]:
        match self.holder:
            case Holder.ARROW:
                return list(self.table.schema.names)
            case _:
                return list(self.table.columns)

    @property
    def values(self) -> int | None:
        """How many values it has; None where counting them means to run a query."""
        if self.holder is Holder.DUCKDB:
            return None
        return int(self.table.shape[0]) * len(self.column_names)

    def readable(self) -> Any:
        """What DuckDB can register: the object itself, or its Arrow stream; types are checked first."""
        _check_names(self.column_names, self)
        match self.holder:
            case Holder.PANDAS:
                return _typed(self.table)
            case Holder.POLARS:
                objects = [name for name, type_ in self.table.schema.items() if str(type_) == "Object"]
                _refuse_objects(objects)
        return _ArrowStream(self.table)


@dataclass(frozen=True, slots=True, eq=False)
class _ArrowStream:
    """Only the stream of a table: DuckDB would use pyarrow for more."""

    table: Any

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)


def in_memory(source: object) -> InMemoryTable:
    """Recognise a table of another library, or raise ``InvalidPlan``."""
    for one in type(source).__mro__:
        library = one.__module__.partition(".")[0].removeprefix("_")
        holder = _CLASSES.get((library, one.__name__))
        if holder is not None:
            return InMemoryTable(source, holder)
    name = type(source).__name__
    fix = _FIXES.get(name, "")
    raise InvalidPlan(
        "expected a data source: text in quotes, a pandas or Polars DataFrame, an Arrow table or a DuckDB "
        f"relation, got {name[:40]}" + (f"; {fix}" if fix else "")
    )


def _check_names(names: Sequence[Any], table: InMemoryTable) -> None:
    require(bool(names), f"columns in {table}", got="none", error=InvalidPlan)
    require(
        all(isinstance(name, str) and name for name in names),
        f"names of columns in {table} that are text",
        got="another",
        fix="rename the columns",
        error=InvalidPlan,
    )
    folded = Counter(name.casefold() for name in names)
    alike = list(dict.fromkeys(name for name in names if folded[name.casefold()] > 1))
    require(
        not alike,
        f"columns of {table} whose names differ in more than case",
        got=", ".join(f'"{name[:60]}"' for name in alike[:4]),
        fix="rename one of them",
        error=InvalidPlan,
    )


def _typed(frame: Any) -> Any:
    """A pandas frame without columns of Python objects.

    DuckDB would guess their type from some of their values, and write mixed ones as text. pandas reads all
    values: columns of text, truth values or one kind of numbers get their type, and others are refused.
    """
    objects = [name for name in frame.columns if str(frame.dtypes[name]) == "object"]
    if not objects:
        return frame
    kind_of = import_module("pandas.api.types").infer_dtype
    _refuse_objects([name for name in objects if kind_of(frame[name], skipna=True) not in _ONE_KIND])
    typed = {name: frame[name].convert_dtypes() for name in objects}
    _refuse_objects([name for name, column in typed.items() if str(column.dtype) == "object"])
    return frame.assign(**typed)


def _refuse_objects(names: Sequence[str]) -> None:
    require(
        not names,
        "columns of one type each",
        got=f'Python objects in "{names[0][:60] if names else ""}"',
        fix="convert the column to numbers, text, truth values or times, or leave it out",
        error=InvalidPlan,
    )
