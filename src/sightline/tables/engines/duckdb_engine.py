"""DuckDB, embedded: it reads files in place, through a connection that can read no other files.

The connection may read the declared files only (``allowed_paths``). Before we open any of them, we switch off
all other access and lock the configuration. Extensions are never loaded. A DuckDB file is attached read-only.
Files must not change while they are read: ``check_unchanged`` compares their state with that at the start.
"""

from __future__ import annotations

import difflib
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NoReturn
from uuid import uuid4

import duckdb
import numpy as np
from numpy.typing import NDArray

from sightline.arrays import AT_A_TIME
from sightline.errors import InvalidPlan, TooMuchWork, require
from sightline.tables.engines.local_tables import (
    Holder,
    InMemoryTable,
    check_distinct,
    csv_fault,
    csv_source,
    delimiter_of,
    existing_file,
    file_state,
    private_folder,
    remove_folder,
    top_level,
    without_wildcards,
)
from sightline.tables.engines.protocol import (
    BATCH,
    DATA,
    NO_TABLES,
    SOURCE,
    Arrays,
    Column,
    ColumnKind,
    Reduction,
    batches_of,
    check_names,
    run_batches,
)
from sightline.tables.sql.fragments import literal, quoted
from sightline.values import frozen

_NUMBERS = "TINYINT SMALLINT INTEGER BIGINT UTINYINT USMALLINT UINTEGER UBIGINT FLOAT DOUBLE"
_PLAIN = {
    **dict.fromkeys(_NUMBERS.split(), ColumnKind.NUMBER),
    "BOOLEAN": ColumnKind.BOOLEAN,
}  # types that NumPy has too
_KINDS = {
    **_PLAIN,
    **dict.fromkeys(("HUGEINT", "UHUGEINT", "DECIMAL"), ColumnKind.NUMBER),
    **dict.fromkeys(("VARCHAR", "ENUM", "UUID"), ColumnKind.TEXT),
}
_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
}
_LEAST_MEMORY = 1 << 25  # bytes: with less, DuckDB cannot run at all
_IN_UTC = {"TIMESTAMP WITH TIME ZONE": ("", "us"), "TIMESTAMPTZ_NS": ("_ns", "ns")}  # as pandas writes
_TIMES = ("DATE", "TIME")  # TIMESTAMP, TIMESTAMP WITH TIME ZONE, TIMESTAMP_NS, …
_SYNTAX = {"and", "or", "not", "coalesce", "if", "cast"}  # before brackets, and no functions


@cache
def _built_in_functions() -> frozenset[str]:
    """The functions of DuckDB itself that are deterministic: those of every connection without extensions."""
    with duckdb.connect(":memory:", config=_CONFIG) as connection:
        rows = connection.execute(
            "SELECT lower(function_name), bool_and(function_type = 'scalar' AND stability = 'CONSISTENT'), "
            "lower(string_agg(macro_definition, ' ') FILTER (WHERE function_type = 'macro')) "
            "FROM duckdb_functions() WHERE internal GROUP BY ALL"
        ).fetchall()
    pure = {str(name) for name, scalar, _ in rows if scalar}
    for name, _, text in rows * 2:  # split_part, say, is a macro, made of functions or of other macros
        if text and "select" not in text and set(re.findall(r'"?(\w+)"?\s*\(', text)) <= pure | _SYNTAX:
            pure.add(str(name))
    return frozenset(pure)


class DuckDBEngine:
    """Parquet, CSV and DuckDB files through an embedded DuckDB.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "homes.csv").write_text("home,feeder,watts\\nA1,north,400\\nA7,south,900\\n")
    >>> engine = DuckDBEngine("homes.csv", base=folder)
    >>> [(column.name, column.kind.value) for column in engine.columns()]
    [('home', 'text'), ('feeder', 'text'), ('watts', 'number')]
    >>> engine.fetch('SELECT SUM(watts) AS total FROM data')["total"].item()
    1300
    >>> engine.close()
    """

    dialect = "duckdb"

    def __init__(
        self,
        source: str | InMemoryTable,
        *,
        base: Path,
        tables: Mapping[str, str] = NO_TABLES,
        memory: float | None = None,
    ) -> None:
        held = [source] if isinstance(source, InMemoryTable) else []
        sources = {**({SOURCE: source} if isinstance(source, str) else {}), **tables}
        paths = {name: existing_file(text, base) for name, text in sources.items()}
        check_distinct(sources, paths)
        self._states = {path: file_state(path) for path in paths.values()}
        self._spill = private_folder()
        self._views: set[str] = set()
        self._columns: dict[str, tuple[Column, ...]] = {}  # of tables as they are defined now
        self._names = {path: without_wildcards(path, self._spill) for path in paths.values()}
        self._connection = duckdb.connect(":memory:", config=_CONFIG)
        try:
            allowed = [text for path in self._names.values() for text in (str(path), f"{path}.wal")]
            for setting in (
                *([] if memory is None else [f"memory_limit='{max(int(memory), _LEAST_MEMORY)}B'"]),
                f"temp_directory={literal(str(self._spill))}",
                f"allowed_paths=[{', '.join(map(literal, allowed))}]",
                *(["disabled_optimizers='in_clause'"] if self._is_small(held) else []),
                *self._without_progress_bar(),
                "enable_external_access=false",
                "lock_configuration=true",
            ):
                self._connection.execute(f"SET {setting}")
            for table in held:
                self._register_held(table)
            for name, text in sources.items():
                self._register(name, paths[name], text.partition("::")[2])
            self.define(f"SELECT * FROM {quoted(SOURCE)}")
            self._opened = self._digests()
        except BaseException:
            self.close()
            raise

    def _without_progress_bar(self) -> list[str]:
        """The setting that turns DuckDB's progress bar off, which would go into the JSON, where it is on.

        In a notebook without ipywidgets it is off, and DuckDB refuses to set it.
        """
        on = self._connection.execute("SELECT current_setting('enable_progress_bar')").fetchall()[0][0]
        return ["enable_progress_bar=false"] if on else []

    def _is_small(self, held: list[InMemoryTable]) -> bool:
        """Whether the tables are small, a value of a file taken as 8 bytes.

        DuckDB turns every long IN list into a join of its own, and hundreds of joins take it minutes. Over a
        small table it is faster to compare one by one.
        """
        files = sum(state[2] for state in self._states.values() if state)
        return files / 8 + sum(table.values for table in held) < AT_A_TIME

    def functions(self) -> frozenset[str]:
        return _built_in_functions()

    def columns(self, table: str = DATA) -> tuple[Column, ...]:
        if table not in self._columns:
            described = self._connection.execute(f"DESCRIBE {quoted(table)}").fetchall()
            self._columns[table] = tuple(Column(name, _kind(type_name)) for name, type_name, *_ in described)
        return self._columns[table]

    def fetch(self, query: str) -> dict[str, NDArray[np.generic]]:
        try:
            statement = self._checked(query)
            with interruptible():
                return _columns_of(self._connection.execute(statement))
        except duckdb.Error as error:
            _refuse_query(error)

    def _checked(self, query: str) -> duckdb.Statement:
        statements = self._connection.extract_statements(query)
        kinds = [statement.type.name for statement in statements]
        require(kinds == ["SELECT"], "one SELECT", got=" and ".join(kinds), error=InvalidPlan)
        return statements[0]

    def fetch_own(self, query: str) -> dict[str, NDArray[np.generic]]:
        return self.fetch(query)

    def compile_own(self, query: str) -> None:
        try:
            self._checked(query)
            # As EXPLAIN, without a drawing of the plan: half the time. The next one takes its place.
            self._connection.execute(f"PREPARE compiled AS {query}")
        except duckdb.Error as error:
            _refuse_query(error)

    def store_signatures(self, query: str, *, columns: Sequence[str]) -> DuckDBStore:
        name = quoted(uuid4().hex)  # no plan can name it
        order = " ORDER BY g, p" if "g" in columns else ""
        try:
            self._checked(query)
            with interruptible():
                self._connection.execute(f"CREATE TEMP TABLE {name} AS {query}{order}")
        except duckdb.Error as error:
            _refuse_query(error)
        return DuckDBStore(
            fetch=self.fetch,
            drop=lambda: self._connection.execute(f"DROP TABLE IF EXISTS {name}"),
            table=name,
            columns=tuple(columns),
            signatures=int(self.fetch(f"SELECT COUNT(*) AS n FROM {name}")["n"][0]),
        )

    def define(self, query: str) -> None:
        self._columns.pop(DATA, None)
        try:
            self._connection.execute(f"CREATE OR REPLACE VIEW {quoted(DATA)} AS {query}")
        except duckdb.Error as error:
            _refuse_query(error)

    def check_unchanged(self) -> None:
        for path, state in self._states.items():
            require(
                file_state(path) == state,
                f"{path.name} to stay as it is while it is read",
                got="a file that was changed or replaced",
                fix="run it again, on a copy if the file is written often",
                error=InvalidPlan,
            )
        require(
            self._digests() == self._opened,
            "a view that shows the same rows each time, and a table in memory that nobody changes",
            got="other rows than before",
            fix="copy it first",
            error=InvalidPlan,
        )

    def _digests(self) -> list[object]:
        """For each view of a DuckDB file or table in memory, its number of rows and the sum of their hashes.

        A view may compute random numbers.
        """
        texts = [
            f"SELECT COUNT(*) AS n, SUM(hash(t)) AS h FROM {quoted(v)} AS t" for v in sorted(self._views)
        ]
        return [[values.tolist() for values in self.fetch(text).values()] for text in texts]

    def interrupt(self) -> None:
        self._connection.interrupt()

    def close(self) -> None:
        self._connection.close()
        remove_folder(self._spill)

    def _register(self, name: str, path: Path, table: str) -> None:
        suffix = path.suffixes[-2] if path.suffix == ".gz" and len(path.suffixes) > 1 else path.suffix
        try:
            match suffix.lower():
                case ".parquet":
                    source = f"read_parquet({self._quoted(path)}, hive_partitioning=false)"
                    fields = self._connection.execute(
                        f"SELECT name, num_children FROM parquet_schema({self._quoted(path)})"
                    )
                    check_names(top_level(fields.fetchall()), path.name)
                    self._create("VIEW", name, source)
                case ".csv" | ".tsv":
                    # Load the text into memory: otherwise every query would parse it again.
                    delimiter = delimiter_of(path)
                    try:
                        self._create("TABLE", name, csv_source(self._quoted(path), delimiter))
                    except duckdb.OutOfMemoryException as error:
                        _refuse_query(error)
                    except (
                        duckdb.Error,
                        UnicodeDecodeError,
                    ) as error:  # DuckDB's message may hold bytes that are not UTF-8
                        raise csv_fault(path, delimiter=delimiter, otherwise=_without_values(error)) from None
                    # Without rows the types of the columns are unknown.
                    (row,) = self._connection.execute(f"SELECT COUNT(*) FROM {quoted(name)}").fetchall()
                    require(
                        name != SOURCE or row[0] > 0,
                        f"rows in {path.name}",
                        got="an empty table",
                        fix="check the data source",
                        error=InvalidPlan,
                    )
                case ".duckdb" | ".db":
                    attached = quoted(f"file of {name}")
                    self._connection.execute(f"ATTACH {literal(str(path))} AS {attached} (READ_ONLY)")
                    self._check_macros(f"file of {name}", path)
                    chosen = self._table(attached, table, path)
                    views = self._connection.execute(
                        "SELECT view_name FROM duckdb_views() WHERE database_name = ? AND view_name = ?",
                        [f"file of {name}", chosen],
                    ).fetchall()
                    require(
                        name == SOURCE or not views,
                        f'a table as "{name}"',
                        got=f"a view in {path.name}, which may copy the secret",
                        fix="write its rows to a table or a file",
                        error=InvalidPlan,
                    )
                    if views:
                        self._views.add(name)
                    self._create("VIEW", name, f"{attached}.{quoted(chosen)}")
                case other:
                    raise InvalidPlan(
                        f"expected a .parquet, .csv, .csv.gz or .duckdb file, got {path.name} "
                        f"({other or 'no ending'}); convert it, or rename it after what it is"
                    )
        except duckdb.Error as error:
            raise InvalidPlan(
                f"expected {path.name} to be readable as {suffix[1:]}, "
                f"got {_without_values(error)}; {_FIXES[suffix.lower()]}"
            ) from None

    def _check_macros(self, database: str, path: Path) -> None:
        """Refuse a file whose macros have names of built-in functions.

        Here the built-in ones answer; in a connection to the file, where the releases run, the macros do.
        """
        macros = self._connection.execute(
            "SELECT DISTINCT function_name FROM duckdb_functions() WHERE database_name = ? AND lower("
            "function_name) IN (SELECT lower(function_name) FROM duckdb_functions() WHERE internal)",
            [database],
        ).fetchall()
        require(
            not macros,
            f"{path.name} without macros that have names of built-in functions",
            got=", ".join(sorted(str(row[0]) for row in macros)[:3]),
            fix="its SQL would publish other numbers than are audited: DROP MACRO, or write a file",
            error=InvalidPlan,
        )

    def _register_held(self, held: InMemoryTable) -> None:
        """Show a table in memory as ``source``: in place, or for a relation the answer to it."""
        name = uuid4().hex  # no plan can name it
        try:
            self._connection.register(name, held.readable())
            kind = "TABLE" if held.holder is Holder.DUCKDB else "VIEW"
            self._create(kind, SOURCE, quoted(name))
            (row,) = self._connection.execute(f"SELECT COUNT(*) FROM {quoted(SOURCE)}").fetchall()
        except duckdb.Error as error:
            if isinstance(error, duckdb.OutOfMemoryException):
                _refuse_query(error)
            raise InvalidPlan(
                f"expected {held} that DuckDB can read, got {_without_values(error)}; "
                "convert its columns to numbers, text, truth values or times"
            ) from None
        require(row[0] > 0, f"rows in {held}", got="an empty table", error=InvalidPlan)
        if kind == "VIEW":
            self._views.add(SOURCE)  # its owner may change it

    def _create(self, kind: str, name: str, source: str) -> None:
        """Create a view or table of ``source``; times with a zone become plain times in UTC."""
        described = self._connection.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()
        zoned = [(quoted(name), *_IN_UTC[kind]) for name, kind, *_ in described if kind in _IN_UTC]
        plain = ", ".join(f"make_timestamp{made}(epoch_{unit}({one})) AS {one}" for one, made, unit in zoned)
        listed = f"* REPLACE ({plain})" if zoned else "*"
        with interruptible():
            self._connection.execute(f"CREATE {kind} {quoted(name)} AS SELECT {listed} FROM {source}")

    def _quoted(self, path: Path) -> str:
        return literal(str(self._names[path]))

    def _table(self, attached: str, name: str, path: Path) -> str:
        """Find a table of a DuckDB file by name; without a name, its only table."""
        rows = self._connection.execute(f"SHOW TABLES FROM {attached}").fetchall()
        names = [str(row[0]) for row in rows]
        close = difflib.get_close_matches(name, names, n=1) or names or ["table"]
        matches = [table for table in names if not name or table.casefold() == name.casefold()]
        require(
            len(matches) == 1,
            f"the name of a table after {path.name}::",
            got=f"{name or 'none'}, and tables {', '.join(names) or '(none)'}",
            fix=f'write "{path.name}::{close[0]}"',
            error=InvalidPlan,
        )
        return matches[0]


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise KeyboardInterrupt on Ctrl-C: DuckDB raises a RuntimeError instead."""
    try:
        yield
    except RuntimeError as error:
        if str(error) == "Query interrupted":
            raise KeyboardInterrupt from None
        raise


_FIXES = {
    ".parquet": "the file is cut off or not Parquet: copy or write it again",
    ".duckdb": "give a DuckDB file and a table in it, as file.duckdb::table",
    ".db": "give a DuckDB file and a table in it, as file.db::table",
}


def _without_values(error: Exception) -> str:
    """Describe an error without its message, which may quote a record's value."""
    line = re.search(r"CSV Error on Line: (\d+)", str(error))
    return type(error).__name__ + (f" at line {line.group(1)}" if line else "")


def _refuse_query(error: duckdb.Error) -> NoReturn:
    if isinstance(error, duckdb.OutOfMemoryException):
        raise TooMuchWork(
            "expected queries that fit the memory allowed, got one that does not; "
            "allow more with max_memory, or publish fewer or coarser groups"
        ) from None
    if isinstance(error, duckdb.IOException) and _is_full(error):
        raise TooMuchWork(
            f"expected room for temporary files in {tempfile.gettempdir()}, got a disk that is full; "
            "free some, or name another folder in TMPDIR"
        ) from None
    # A binder's message quotes names and types only; an error while running may quote a value of the table.
    detail = str(error).splitlines()[0] if isinstance(error, duckdb.BinderException) else type(error).__name__
    raise InvalidPlan(
        f"expected a query that DuckDB can run, got {detail}; check the types of its columns"
    ) from None


def _is_full(error: duckdb.Error) -> bool:
    """Whether a temporary file could not be written."""
    return any(one in str(error).casefold() for one in ("no space left", "could not write", "file too large"))


def _columns_of(answer: duckdb.DuckDBPyConnection) -> dict[str, NDArray[np.generic]]:
    """Return the columns of an answer: NumPy numbers, or Python objects for other types and for NULLs."""
    described = answer.description or []
    if all(str(column[1]) in _PLAIN for column in described):
        return {name: _with_none(values) for name, values in answer.fetchnumpy().items()}
    rows = answer.fetchall()
    columns = {str(column[0]): np.empty(len(rows), dtype=object) for column in described}
    for position, values in enumerate(columns.values()):
        values[:] = [row[position] for row in rows]
    return columns


def _with_none(values: NDArray[np.generic]) -> NDArray[np.generic]:
    missing = np.ma.getmaskarray(values)
    if not missing.any():
        return np.ma.getdata(values)
    objects = np.ma.getdata(values).astype(object)
    objects[missing] = None
    return objects


def _kind(type_name: str) -> ColumnKind:
    bare = type_name.partition("(")[0]
    return ColumnKind.TIME if bare.startswith(_TIMES) else _KINDS.get(bare, ColumnKind.OTHER)


Fetch = Callable[[str], dict[str, NDArray[np.generic]]]


@frozen
class DuckDBStore:
    """A table of an open connection, line after line."""

    fetch: Fetch  # runs one SELECT
    drop: Callable[[], Any]  # gives the table back
    table: str  # its name, quoted
    columns: tuple[str, ...]
    signatures: int

    def run(self, reduction: Reduction, stage: str) -> Arrays:
        return run_batches(batches_of(self._chunks()), reduction, stage, signatures=self.signatures)

    def close(self) -> None:
        self.drop()

    def _chunks(self) -> Iterator[Arrays]:
        for start in range(0, self.signatures, BATCH):
            # A table that was written once has the rows 0, 1, …; DuckDB skips the blocks outside a range.
            within = f"rowid >= {start} AND rowid < {start + BATCH}"
            yield self.fetch(f"SELECT {', '.join(self.columns)} FROM {self.table} WHERE {within}")
