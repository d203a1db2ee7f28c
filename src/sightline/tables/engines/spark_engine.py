"""Spark: queries on a cluster, through a new session or the caller's."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl

import numpy as np
import sqlglot
from numpy.typing import NDArray
from sqlglot import exp

from sightline.errors import InvalidPlan, MissingExtra, require
from sightline.tables.encoding import MOST_KEYS
from sightline.tables.engines.protocol import DATA, NO_TABLES, SOURCE, Column, ColumnKind, check_names
from sightline.tables.sql.fragments import translated, with_names

try:
    import pyarrow as pa
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession, types

    from sightline.tables.engines.spark_store import SparkJobs, SparkStore, refuse, without_pandas_warning
except ImportError as missing:  # pragma: no cover - the tests have it
    raise MissingExtra(
        f"expected {missing.name} to read spark://, got none; pip install 'sightline[spark]'"
    ) from None

# Of a session that we start. Each join makes a plan deeper, and plans are written out by recursion.
_SETTINGS = {
    "spark.driver.defaultJavaOptions": "-Xss16m",
    "spark.executor.defaultJavaOptions": "-Xss16m",
}


class SparkEngine:
    """A table that a SparkSession can name: in its catalogue, a temporary view, or a file as parquet.`path`.

    The only changes to the caller's session are temporary views, and ``close`` drops them.
    """

    dialect = "spark"

    def __init__(
        self,
        session: SparkSession,
        *,
        table: str,
        tables: Mapping[str, str] = NO_TABLES,
        owned: bool = False,
    ) -> None:
        self._session = session
        self._owned = owned
        self._jobs = SparkJobs(session)
        self._views = {
            name: f"{self._jobs.tag}_{position}" for position, name in enumerate([SOURCE, *tables])
        }
        self._names = {name: exp.to_table(view) for name, view in self._views.items()}
        self._names[DATA] = self._names[SOURCE]
        self._lookups = SparkLookups(session, prefix=self._jobs.tag)
        self._stores: list[SparkStore] = []
        self._defined: tuple[str, ...] = ()  # views in the place of data, the latest last
        try:
            for name, text in {SOURCE: table, **tables}.items():
                require(
                    name == SOURCE or text.casefold() != table.casefold(),
                    f'a public table as "{name}"',
                    got="the data source itself",
                    fix="declare a table without the secret",
                    error=InvalidPlan,
                )
                self._register(name, text)
            self._opened = self._digests()
        except InvalidPlan:
            self.close()
            raise

    def functions(self) -> frozenset[str]:
        return frozenset()  # Spark does not say which functions are deterministic

    def columns(self, table: str = DATA) -> tuple[Column, ...]:
        return self._columns(self._names[table].name)

    def _columns(self, view: str) -> tuple[Column, ...]:
        schema = self._session.table(view).schema
        return tuple(Column(field.name, _kind(field.dataType)) for field in schema.fields)

    def fetch(self, query: str) -> dict[str, NDArray[np.generic]]:
        return self._answer(translated(query, dialect=self.dialect, names=self._names))

    def fetch_own(self, query: str) -> dict[str, NDArray[np.generic]]:
        return self._answer(with_names(query, dialect=self.dialect, names=self._names))

    def compile_own(self, query: str) -> None:
        try:
            _ = self._session.sql(with_names(query, dialect=self.dialect, names=self._names)).schema
        except Exception as error:
            refuse(error)

    def define(self, query: str) -> None:
        view = f"{self._jobs.tag}_data_{len(self._defined)}"  # Spark has no views of themselves
        try:
            self._session.sql(
                with_names(query, dialect=self.dialect, names=self._names)
            ).createOrReplaceTempView(view)
        except Exception as error:
            refuse(error)
        self._defined, self._names[DATA] = (*self._defined, view), exp.to_table(view)

    def check_unchanged(self) -> None:
        require(
            self._digests() == self._opened,
            "tables that stay as they are while they are read",
            got="other rows than before",
            fix="run it again, on a copy if the table is written often",
            error=InvalidPlan,
        )

    def _digests(self) -> dict[str, tuple[int, ...]]:
        """The number of rows of each table and the sum of their hashes, which is the same in any order."""
        digests = {}
        for name, view in self._views.items():
            plain = [column for column in self._columns(view) if column.kind is not ColumnKind.OTHER]
            listed = ", ".join(exp.to_identifier(column.name, quoted=True).sql("spark") for column in plain)
            hashed = f"SUM(CAST(XXHASH64({listed}) AS DECIMAL(20, 0)))" if plain else "0"
            try:
                with self._jobs.marked():
                    (row,) = self._session.sql(f"SELECT COUNT(*), {hashed} FROM {view}").toArrow().to_pylist()
            except Exception as error:
                refuse(error)
            digests[name] = tuple(0 if value is None else int(value) for value in row.values())
        return digests

    def _answer(self, text: str) -> dict[str, NDArray[np.generic]]:
        try:
            with self._jobs.marked():
                frame = self._session.sql(self._lookups.in_place(text))
            for field in frame.schema.fields:
                # Spark returns a timestamp with a time zone in the zone of this process.
                if isinstance(field.dataType, types.TimestampType):
                    frame = frame.withColumn(field.name, frame[field.name].cast("timestamp_ntz"))
            with self._jobs.marked():
                answer = frame.toArrow()
            return {name: _column(values) for name, values in zip(frame.columns, answer.columns, strict=True)}
        except Exception as error:  # Py4J has errors of its own, for example for a lost gateway
            refuse(error)

    def store_signatures(self, query: str, *, columns: Sequence[str]) -> SparkStore:
        text = translated(query, dialect=self.dialect, names=self._names)
        try:
            with self._jobs.marked():
                frame = self._session.sql(self._lookups.in_place(text))
        except Exception as error:
            refuse(error)
        store = SparkStore(self._jobs, frame, columns=columns)
        self._stores.append(store)
        return store

    def interrupt(self) -> None:
        self._jobs.interrupt()

    def close(self) -> None:
        for store in self._stores:
            store.close()
        self._lookups.close()
        for view in (*self._defined, *self._views.values()):
            self._session.catalog.dropTempView(view)
        self._views, self._defined = {}, ()
        if self._owned:
            self._session.stop()
            self._owned = False

    def _register(self, name: str, text: str) -> None:
        try:
            frame = self._session.table(text)
            columns = frame.columns
        except Exception as error:
            condition = error.getCondition() if isinstance(error, PySparkException) else None
            raise InvalidPlan(
                f'expected a table that Spark can read, got "{text}" ({condition or type(error).__name__}); '
                "check its name, or register it as a temporary view"
            ) from None
        check_names(columns, text)
        frame.createOrReplaceTempView(self._views[name])


def connect(url: str, *, table: str | None = None, tables: Mapping[str, str] = NO_TABLES) -> SparkEngine:
    """Open the engine of ``spark://host:7077?table=homes``, ``spark://local[2]?table=…`` or ``sc://host?table=homes``."""
    bare, _, query = url.partition("?")
    options = dict(parse_qsl(query, keep_blank_values=True))
    chosen = table or options.pop("table", None)
    if chosen is None:
        raise InvalidPlan("expected the table's name in the address, got none; end it with ?table=homes")
    remote = bare.startswith("sc://")
    target = bare if remote else _master(bare)
    builder: Any = SparkSession.builder.appName("sightline")
    builder = builder.remote(target) if remote else builder.master(target)
    active = SparkSession.getActiveSession()
    if active is not None and not remote and _master(str(active.sparkContext.master)) != target:
        raise InvalidPlan(
            "expected the Spark master of the session that is already running, got the address of another; "
            "stop that session, or pass it with its table"
        )
    for name, value in _SETTINGS.items() if active is None and not remote else ():
        builder = builder.config(name, value)
    try:
        with without_pandas_warning():
            session = builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()
    except Exception as error:  # of PySpark, Py4J or Python
        fix = "check the address and that Java is installed"
        if remote and isinstance(error, ImportError):
            fix = "pip install 'pyspark[connect]', which sc:// needs"
        raise InvalidPlan(
            f"expected a Spark master that answers, got {type(error).__name__}; {fix}"
        ) from None
    if active is None and target.startswith("local") and "PYSPARK_PYTHON" not in os.environ:
        session.sparkContext.pythonExec = sys.executable  # the workers are on this machine
    with without_pandas_warning():
        return SparkEngine(session, table=chosen, tables=tables, owned=active is None)


def _master(address: str) -> str:
    """The master of an address. In this process a task is tried again if its worker is lost, as on a cluster.

    >>> _master("spark://local[2]"), _master("spark://host:7077")
    ('local[2,4]', 'spark://host:7077')
    """
    bare = address.removeprefix("spark://") if address.startswith("spark://local") else address
    return re.sub(r"local\[([0-9*]+)\]", r"local[\1,4]", bare)


def _column(values: pa.ChunkedArray) -> NDArray[np.generic]:
    """Return a column as an array: numbers and truth values of NumPy, or else Python objects with None."""
    if values.null_count == 0:
        if pa.types.is_boolean(values.type):
            return np.asarray(values.to_numpy(), dtype=np.bool_)
        if pa.types.is_integer(values.type):
            return np.asarray(values.to_numpy(), dtype=np.int64)
        if pa.types.is_floating(values.type):
            return np.asarray(values.to_numpy(), dtype=np.float64)
    column = np.empty(len(values), dtype=object)
    column[:] = values.to_pylist()
    return column


def _kind(data_type: types.DataType) -> ColumnKind:
    match data_type:
        case types.BooleanType():
            return ColumnKind.BOOLEAN
        case types.NumericType():
            return ColumnKind.NUMBER
        case types.StringType() | types.CharType() | types.VarcharType():
            return ColumnKind.TEXT
        case types.DateType() | types.TimestampType() | types.TimestampNTZType():
            return ColumnKind.TIME
        case _:
            return ColumnKind.OTHER


class SparkLookups:
    """Temporary views that hold the answers to the dictionaries of a session's queries."""

    def __init__(self, session: SparkSession, *, prefix: str) -> None:
        self._session, self._prefix = session, prefix
        self._views: dict[str, str | None] = {}  # by the dictionary's SQL; none if it has too many keys

    def in_place(self, text: str) -> str:
        """The query in Spark's SQL with a view in the place of each dictionary."""
        if "ROW_NUMBER() OVER (ORDER BY k" not in text:
            return text
        tree = sqlglot.parse_one(text, read="spark")
        for subquery in [found for found in tree.find_all(exp.Subquery) if _is_dictionary(found)]:
            sql = subquery.this.sql("spark")
            if sql not in self._views:
                self._views[sql] = self._make(subquery.this)
            view = self._views[sql]
            if view is not None:
                joined = isinstance(subquery.parent, exp.Join)
                name = exp.to_identifier(f"{view}_joined" if joined else view)
                subquery.replace(exp.Table(this=name, alias=subquery.args["alias"]))
        return tree.sql("spark")

    def _make(self, dictionary: exp.Select) -> str | None:
        """A view of the keys in their order with the numbers 1, 2, …; none if there are too many keys."""
        keys = exp.select("k").from_(dictionary.copy().select("k", append=False).subquery("listed"))
        ordered = exp.select("k").from_(keys.limit(MOST_KEYS + 1).subquery("listed")).order_by("k")
        answer = self._session.sql(ordered.sql("spark"))
        listed = answer.toArrow()
        if listed.num_rows > MOST_KEYS:
            return None  # the query that names the cells will be refused
        numbered = listed.append_column("c", pa.array(np.arange(1, listed.num_rows + 1)))
        view = f"{self._prefix}_lookup_{len(self._views)}"
        with without_pandas_warning():
            frame = self._session.createDataFrame(numbered, schema=answer.schema.add("c", types.LongType()))
        frame.createOrReplaceTempView(view)
        frame.hint("broadcast").createOrReplaceTempView(f"{view}_joined")  # every executor gets a copy
        return view

    def close(self) -> None:
        """Drop the views."""
        for view in self._views.values():
            if view is not None:
                self._session.catalog.dropTempView(view)
                self._session.catalog.dropTempView(f"{view}_joined")
        self._views = {}


def _is_dictionary(subquery: exp.Subquery) -> bool:
    """Whether it is a dictionary as our encoding writes it, over different keys and nothing from outside.

    A plan's own subquery may look alike. If it is the same to the letter, it means the same.
    """
    select = subquery.this
    source = select.args.get("from_") if isinstance(select, exp.Select) else None
    distinct = source.this.this if source is not None and isinstance(source.this, exp.Subquery) else None
    if not isinstance(distinct, exp.Select) or distinct.args.get("distinct") is None:
        return False
    if [key.alias for key in distinct.expressions] != ["k"]:
        return False
    written = (
        "SELECT k, ROW_NUMBER() OVER (ORDER BY k NULLS LAST) AS c "
        f"FROM ({distinct.sql('spark')}) AS listed WHERE NOT k IS NULL"
    )
    aliases = {part.alias for part in subquery.find_all(exp.CTE)}
    outside = {part.alias for part in subquery.root().find_all(exp.CTE)} - aliases
    return select.sql("spark") == written and not any(
        table.name in outside for table in subquery.find_all(exp.Table)
    )
