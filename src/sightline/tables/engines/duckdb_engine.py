"""DuckDB, embedded: it reads files in place, through a connection that can read no other files.

The connection may read the declared files only (``allowed_paths``). Before we open any of them, we switch off
all other access and lock the configuration. Extensions are never loaded. A DuckDB file is attached read-only.
Files must not change while they are read: ``check_unchanged`` compares their state with that at the start.
"""

from __future__ import annotations

import difflib
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn
from uuid import uuid4

import duckdb
import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from sightline.errors import InvalidPlan, TooMuchWork, require
from sightline.tables.engines.address import public_source
from sightline.tables.engines.csv_fault import csv_fault
from sightline.tables.engines.csv_header import delimiter_of
from sightline.tables.engines.duckdb_store import DuckDBStore
from sightline.tables.engines.in_memory import Holder, InMemoryTable
from sightline.tables.engines.protocol import DATA, NO_TABLES, SOURCE, Column, ColumnKind
from sightline.tables.engines.spill import private_folder, remove_folder
from sightline.tables.sql.translate import with_names

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
# DuckDB turns every long IN list into a join of its own, and hundreds of joins take it minutes. Over a small
# table it is faster to compare one by one.
_SMALL_TABLE = 1 << 24  # bytes
_BYTES_PER_VALUE = 8
_LEAST_MEMORY = 1 << 25  # bytes: with less, DuckDB cannot run at all
_MOST_SPILLED = 10  # times the memory, on disk
_TIMES = ("DATE", "TIME")  # TIMESTAMP, TIMESTAMP WITH TIME ZONE, TIMESTAMP_NS, …


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
        held = source if isinstance(source, InMemoryTable) else None
        sources = {**({DATA: source} if isinstance(source, str) else {}), **tables}
        paths = {name: _existing(text, base) for name, text in sources.items()}
        _check_distinct(sources, paths)
        self._states = {path: _state(path) for path in paths.values()}
        self._spill = private_folder()
        self._views: set[str] = set()
        self._has_source = False  # whether ``data`` is made of ``source``
        self._names = {path: _without_wildcards(path, self._spill) for path in paths.values()}
        self._connection = duckdb.connect(":memory:", config=_CONFIG)
        try:
            allowed = [text for path in self._names.values() for text in (str(path), f"{path}.wal")]
            for setting in (
                *_memory_settings(memory, self._spill),
                "enable_progress_bar=false",  # in notebooks and under python -c it would go to stdout
                f"temp_directory={_quoted(str(self._spill))}",
                f"allowed_paths=[{', '.join(map(_quoted, allowed))}]",
                *(["disabled_optimizers='in_clause'"] if self._is_small(held) else []),
                "enable_progress_bar=false",  # it would go to standard output, into the JSON
                "enable_external_access=false",
                "lock_configuration=true",
            ):
                self._connection.execute(f"SET {setting}")
            if held is not None:
                self._register_held(held)
            for name, text in sources.items():
                self._register(name, paths[name], text.partition("::")[2])
            self._opened = self._digests()
        except BaseException:
            self.close()
            raise

    def _is_small(self, held: InMemoryTable | None) -> bool:
        if held is not None and held.values is None:
            return False
        values = 0 if held is None else held.values or 0
        files = sum(state[2] for state in self._states.values() if state)
        return files + _BYTES_PER_VALUE * values < _SMALL_TABLE

    def columns(self, table: str = DATA) -> tuple[Column, ...]:
        described = self._connection.execute(f"DESCRIBE {_identifier(table)}").fetchall()
        return tuple(Column(name, _kind(type_name)) for name, type_name, *_ in described)

    def fetch(self, query: str) -> dict[str, NDArray[np.generic]]:
        try:
            statements = self._connection.extract_statements(query)
            kinds = [statement.type.name for statement in statements]
            require(kinds == ["SELECT"], "one SELECT", got=" and ".join(kinds), error=InvalidPlan)
            with _interruptible():
                return _columns_of(self._connection.execute(statements[0]))
        except duckdb.Error as error:
            _refuse_query(error)

    def fetch_own(self, query: str) -> dict[str, NDArray[np.generic]]:
        return self.fetch(query)

    def compile_own(self, query: str) -> None:
        try:
            (statement,) = self._connection.extract_statements(query)
            require(statement.type.name == "SELECT", "one SELECT", got=statement.type.name, error=InvalidPlan)
            self._connection.execute(f"EXPLAIN {query}")
        except duckdb.Error as error:
            _refuse_query(error)

    def store_signatures(self, query: str, *, word_count: int) -> DuckDBStore:
        name = _identifier(uuid4().hex)  # no plan can name it
        try:
            kinds = [statement.type.name for statement in self._connection.extract_statements(query)]
            require(kinds == ["SELECT"], "one SELECT", got=" and ".join(kinds), error=InvalidPlan)
            with _interruptible():
                self._connection.execute(f"CREATE TEMP TABLE {name} AS {query}")
        except duckdb.Error as error:
            _refuse_query(error)
        return DuckDBStore(
            fetch=self.fetch,
            drop=lambda: self._connection.execute(f"DROP TABLE IF EXISTS {name}"),
            table=name,
            word_count=word_count,
            signatures=int(self.fetch(f"SELECT COUNT(*) AS n FROM {name}")["n"][0]),
        )

    def restrict(self, query: str) -> None:
        name = uuid4().hex  # no plan can name it
        self._rename(name)
        own = exp.to_table(_identifier(name))
        text = with_names(query, dialect=self.dialect, names={DATA: own})
        self._connection.execute(f"CREATE VIEW {_identifier(DATA)} AS {text}")

    def define(self, query: str) -> None:
        if self._has_source:
            self._connection.execute(f"DROP VIEW {_identifier(DATA)}")
        else:
            self._rename(SOURCE)
            self._has_source = True
        try:
            self._connection.execute(f"CREATE VIEW {_identifier(DATA)} AS {query}")
        except duckdb.Error as error:
            _refuse_query(error)

    def _rename(self, name: str) -> None:
        """Call the relation ``data`` something else."""
        views = (
            "SELECT COUNT(*) FROM duckdb_views() WHERE database_name = current_database() AND view_name = ?"
        )
        is_view = bool(self._connection.execute(views, [DATA]).fetchall()[0][0])
        kind = "VIEW" if is_view else "TABLE"
        self._connection.execute(f"ALTER {kind} {_identifier(DATA)} RENAME TO {_identifier(name)}")
        if DATA in self._views:
            self._views = self._views - {DATA} | {name}

    def check_unchanged(self) -> None:
        for path, state in self._states.items():
            require(
                _state(path) == state,
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
            f"SELECT COUNT(*) AS n, SUM(hash(t)) AS h FROM {_identifier(v)} AS t" for v in sorted(self._views)
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
                    _distinct_names(_top_level(fields.fetchall()), path)
                    self._create("VIEW", name, source)
                case ".csv" | ".tsv":
                    # Load the text into memory: otherwise every query would parse it again.
                    delimiter = delimiter_of(path)
                    try:
                        self._create("TABLE", name, _csv_source(self._quoted(path), delimiter))
                    except duckdb.OutOfMemoryException as error:
                        _refuse_query(error)
                    except (
                        duckdb.Error,
                        UnicodeDecodeError,
                    ) as error:  # DuckDB's message may hold bytes that are not UTF-8
                        raise csv_fault(path, delimiter=delimiter, otherwise=_without_values(error)) from None
                    # Without rows the types of the columns are unknown.
                    (row,) = self._connection.execute(f"SELECT COUNT(*) FROM {_identifier(name)}").fetchall()
                    require(
                        name != DATA or row[0] > 0,
                        f"rows in {path.name}",
                        got="an empty table",
                        fix="check the data source",
                        error=InvalidPlan,
                    )
                case ".duckdb" | ".db":
                    attached = _identifier(f"file of {name}")
                    self._connection.execute(f"ATTACH {_quoted(str(path))} AS {attached} (READ_ONLY)")
                    chosen = self._table(attached, table, path)
                    views = self._connection.execute(
                        "SELECT view_name FROM duckdb_views() WHERE database_name = ? AND view_name = ?",
                        [f"file of {name}", chosen],
                    )
                    require(
                        name == DATA or not views.fetchall(),
                        f'a table as "{name}"',
                        got=f"a view in {path.name}, which may copy the secret",
                        fix="write its rows to a table or a file",
                        error=InvalidPlan,
                    )
                    owner = _quoted(f"file of {name}")
                    views = self._connection.execute(
                        f"SELECT view_name FROM duckdb_views() WHERE database_name = {owner}"
                    )
                    if (chosen,) in views.fetchall():
                        self._views.add(name)
                    self._create("VIEW", name, f"{attached}.{_identifier(chosen)}")
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

    def _register_held(self, held: InMemoryTable) -> None:
        """Show a table in memory as ``data``: in place, or for a relation the answer to it."""
        name = uuid4().hex  # no plan can name it
        try:
            self._connection.register(name, held.readable())
            kind = "TABLE" if held.holder is Holder.DUCKDB else "VIEW"
            self._create(kind, DATA, _identifier(name))
            (row,) = self._connection.execute(f"SELECT COUNT(*) FROM {_identifier(DATA)}").fetchall()
        except duckdb.Error as error:
            if isinstance(error, duckdb.OutOfMemoryException):
                _refuse_query(error)
            raise InvalidPlan(
                f"expected {held} that DuckDB can read, got {_without_values(error)}; "
                "convert its columns to numbers, text, truth values or times"
            ) from None
        require(row[0] > 0, f"rows in {held}", got="an empty table", error=InvalidPlan)
        if kind == "VIEW":
            self._views.add(DATA)  # its owner may change it

    def _create(self, kind: str, name: str, source: str) -> None:
        """Create a view or table of ``source``; times with a zone become plain times in UTC."""
        described = self._connection.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()
        zoned = [_identifier(row[0]) for row in described if row[1] == "TIMESTAMP WITH TIME ZONE"]
        plain = ", ".join(f"make_timestamp(epoch_us({column})) AS {column}" for column in zoned)
        listed = f"* REPLACE ({plain})" if zoned else "*"
        with _interruptible():
            self._connection.execute(f"CREATE {kind} {_identifier(name)} AS SELECT {listed} FROM {source}")

    def _quoted(self, path: Path) -> str:
        return _quoted(str(self._names[path]))

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
def _interruptible() -> Iterator[None]:
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


def _existing(source: str, base: Path) -> Path:
    shown = public_source(source)
    try:
        path = (base / source.partition("::")[0]).resolve()
        if not path.exists():
            looked = f"looked in {path.parent}" if shown == source else "check its spelling"
            raise InvalidPlan(f"expected an existing data file, got {shown.rpartition('/')[2]}; {looked}")
        if path.is_dir():
            raise InvalidPlan(f"expected a data file, got the directory {path.name}; name a file in it")
        require(path.is_file(), "a data file", got=f"{shown}, which is not a file", error=InvalidPlan)
        with path.open("rb") as file:
            file.read(1)
    except (OSError, RuntimeError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or type(error).__name__
        raise InvalidPlan(
            f"expected a data file that can be read, got {shown}: {reason.lower()}; check its name and rights"
        ) from None
    return path


def _state(path: Path) -> tuple[int, ...]:
    """Facts about a file that change when it is written or replaced."""
    try:
        status = path.stat()
    except OSError:
        return ()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _check_distinct(sources: Mapping[str, str], paths: Mapping[str, Path]) -> None:
    """Refuse the data as a declared public table: its columns would count as public."""
    for name, path in paths.items() if DATA in paths else ():
        tables = [sources[relation].partition("::")[2].casefold() for relation in (DATA, name)]
        same = path.samefile(paths[DATA]) and (tables[0] == tables[1] or not all(tables))
        require(
            name == DATA or not same,
            f'a public table as "{name}"',
            got="the data source itself",
            fix="declare a table without the secret",
            error=InvalidPlan,
        )


def _without_values(error: Exception) -> str:
    """Describe an error without its message, which may quote a record's value."""
    line = re.search(r"CSV Error on Line: (\d+)", str(error))
    return type(error).__name__ + (f" at line {line.group(1)}" if line else "")


def _csv_source(file: str, delimiter: str) -> str:
    return (
        f"read_csv({file}, delim={_quoted(delimiter)}, quote='\"', escape='\"', header=true, "
        "hive_partitioning=false, "
        "skip=0, sample_size=-1, strict_mode=true, null_padding=false, ignore_errors=false)"
    )


def _distinct_names(names: Iterable[str], path: Path) -> None:
    """Refuse names that differ only in case: DuckDB would rename one, and a plan could mean the wrong one."""
    listed = list(names)
    folded = Counter(name.casefold() for name in listed)
    alike = [name for name in listed if folded[name.casefold()] > 1]
    require(
        not alike,
        f"columns of {path.name} whose names differ in more than case",
        got=", ".join(f'"{name}"' for name in alike),
        fix="rename one of them",
        error=InvalidPlan,
    )


def _top_level(fields: list[tuple[str, int | None]]) -> list[str]:
    """The names of a Parquet file's columns. Its schema lists nested fields too, depth first."""
    names: list[str] = []
    inside = 0
    for name, children in fields[1:]:
        if inside == 0:
            names.append(name)
        inside = max(inside - 1, 0) + (children or 0)
    return names


def _memory_settings(memory: float | None, folder: Path) -> list[str]:
    """Bound the engine's memory, and what it may spill into a folder."""
    if memory is None:
        return []
    spilled = min(_MOST_SPILLED * memory, 0.9 * shutil.disk_usage(folder).free)
    return [
        f"memory_limit='{max(int(memory), _LEAST_MEMORY)}B'",
        f"max_temp_directory_size='{max(int(spilled), _LEAST_MEMORY)}B'",
    ]


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
    text = str(error).casefold()
    return any(word in text for word in ("no space left", "could not write", "file too large"))


def _columns_of(answer: duckdb.DuckDBPyConnection) -> dict[str, NDArray[np.generic]]:
    """Return the columns of an answer: NumPy numbers, or Python objects for other types and for NULLs."""
    described = answer.description or []
    if all(str(column[1]) in _PLAIN for column in described):
        fetched = answer.fetchnumpy()
        return {name: _with_none(values) for name, values in fetched.items()}
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


def _without_wildcards(path: Path, folder: Path) -> Path:
    """Return a path without *, ? and [, which DuckDB reads as wildcards: a link if the file has one."""
    if not re.search(r"[*?\[]", str(path)) or path.suffix.lower() in (".duckdb", ".db"):
        return path
    link = folder / f"file{len(list(folder.iterdir()))}{''.join(path.suffixes[-2:])}"
    link.symlink_to(path)
    return link


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
