"""DuckDB, embedded: a file is read in place, by a connection that can reach nothing else.

The connection may read the declared files only (``allowed_paths``); then access to anything outside is
switched off and the configuration is locked. A DuckDB file is attached read-only.
"""

from __future__ import annotations

import csv
import difflib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import duckdb
import numpy as np
from numpy.typing import NDArray

from sightline.errors import InvalidPlan, require
from sightline.tables.engines.csv_fault import csv_fault, opened_csv
from sightline.tables.engines.protocol import DATA, NO_TABLES, Column, ColumnKind

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

    def __init__(self, source: str, *, base: Path, tables: Mapping[str, str] = NO_TABLES) -> None:
        sources = {DATA: source, **tables}
        paths = {name: _existing(text, base) for name, text in sources.items()}
        self._connection = duckdb.connect(":memory:")
        try:
            self._connection.execute(
                f"SET allowed_paths=[{', '.join(map(_quoted, map(str, paths.values())))}]"
            )
            for name, text in sources.items():
                self._register(name, paths[name], text.partition("::")[2])
            self._connection.execute("SET enable_external_access=false")
            self._connection.execute("SET lock_configuration=true")
        except BaseException:
            self._connection.close()
            raise

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

    def close(self) -> None:
        self._connection.close()

    def _register(self, name: str, path: Path, table: str) -> None:
        suffix = path.suffixes[-2] if path.suffix == ".gz" and len(path.suffixes) > 1 else path.suffix
        try:
            match suffix.lower():
                case ".parquet":
                    source = f"read_parquet({_pattern(path)})"
                    fields = self._connection.execute(
                        f"SELECT name, num_children FROM parquet_schema({_pattern(path)})"
                    )
                    _distinct_names(_top_level(fields.fetchall()), path)
                    self._create("VIEW", name, source)
                case ".csv" | ".tsv":
                    # Text is parsed once into memory: every later query would parse all of it again.
                    delimiter = _delimiter(path)
                    try:
                        self._create("TABLE", name, _csv_source(path, delimiter))
                    except (duckdb.Error, UnicodeDecodeError) as error:  # it may quote bytes that are no text
                        raise csv_fault(path, delimiter=delimiter, otherwise=_harmless(error)) from None
                    # Without a row nobody can tell what its columns hold.
                    (some,) = self._connection.execute(f"SELECT COUNT(*) FROM {_identifier(name)}").fetchall()
                    require(
                        name != DATA or some[0] > 0,
                        f"rows in {path.name}",
                        got="an empty table",
                        fix="check the data source",
                        error=InvalidPlan,
                    )
                case ".duckdb" | ".db":
                    attached = _identifier(f"file of {name}")
                    self._connection.execute(f"ATTACH {_quoted(str(path))} AS {attached} (READ_ONLY)")
                    chosen = self._table(attached, table, path)
                    self._create("VIEW", name, f"{attached}.{_identifier(chosen)}")
                case other:
                    raise InvalidPlan(
                        f"expected a .parquet, .csv, .csv.gz or .duckdb file, got {path.name} "
                        f"({other or 'no ending'}); convert it, or rename it after what it is"
                    )
        except duckdb.Error as error:
            raise InvalidPlan(
                f"expected {path.name} to be readable as {suffix[1:]}, "
                f"got {_harmless(error)}; {_FIXES[suffix.lower()]}"
            ) from None

    def _create(self, kind: str, name: str, source: str) -> None:
        """A view or table of ``source``; times with a zone become plain times in UTC."""
        described = self._connection.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()
        zoned = [_identifier(row[0]) for row in described if row[1] == "TIMESTAMP WITH TIME ZONE"]
        plain = ", ".join(f"make_timestamp(epoch_us({column})) AS {column}" for column in zoned)
        listed = f"* REPLACE ({plain})" if zoned else "*"
        with _interruptible():
            self._connection.execute(f"CREATE {kind} {_identifier(name)} AS SELECT {listed} FROM {source}")

    def _table(self, attached: str, asked: str, path: Path) -> str:
        """The table of a DuckDB file that is asked for, or its only one."""
        rows = self._connection.execute(f"SHOW TABLES FROM {attached}").fetchall()
        names = [str(row[0]) for row in rows]
        close = difflib.get_close_matches(asked, names, n=1) or names or ["table"]
        found = [name for name in names if not asked or name.casefold() == asked.casefold()]
        require(
            len(found) == 1,
            f"the name of a table after {path.name}::",
            got=f"{asked or 'none'}, and tables {', '.join(names) or '(none)'}",
            fix=f'write "{path.name}::{close[0]}"',
            error=InvalidPlan,
        )
        return found[0]


@contextmanager
def _interruptible() -> Iterator[None]:
    """Ctrl-C as what it is: DuckDB turns it into an error of its own."""
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
    path = (base / source.partition("::")[0]).resolve()
    require(
        path.exists(),
        "an existing data file",
        got=str(path.name),
        fix=f"looked in {path.parent}",
        error=InvalidPlan,
    )
    require(
        path.is_file(),
        "a data file",
        got=f"the directory {path.name}",
        fix="name a file in it",
        error=InvalidPlan,
    )
    try:
        path.open("rb").close()
    except OSError as error:
        reason = (error.strerror or "it cannot be opened").lower()
        raise InvalidPlan(f"expected a data file that can be read, got {path.name}: {reason}") from None
    return path


def _harmless(error: Exception) -> str:
    """What may be told of an error: the engine's own text may quote a record's value."""
    line = re.search(r"CSV Error on Line: (\d+)", str(error))
    return type(error).__name__ + (f" at line {line.group(1)}" if line else "")


def _delimiter(path: Path) -> str:
    """The header's own delimiter: DuckDB's guess drops rows when some are ragged."""
    try:
        with opened_csv(path) as file:
            header = file.readline(1 << 20).decode("utf-8-sig")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise csv_fault(path, delimiter=",", otherwise=_harmless(error)) from None
    require(
        header.strip() != "",
        "a header line",
        got=f"an empty {path.name}",
        fix="write the columns' names",
        error=InvalidPlan,
    )
    delimiter = max(",;\t|", key=lambda symbol: (header.count(symbol), symbol == ","))
    _distinct_names(next(csv.reader([header], delimiter=delimiter)), path)
    return delimiter


def _csv_source(path: Path, delimiter: str) -> str:
    return (
        f"read_csv({_pattern(path)}, delim={_quoted(delimiter)}, quote='\"', escape='\"', header=true, "
        "skip=0, sample_size=-1, strict_mode=true, null_padding=false, ignore_errors=false)"
    )


def _distinct_names(names: Iterable[str], path: Path) -> None:
    """DuckDB renames one of two columns that differ in case only; a plan could then mean the wrong one."""
    listed = list(names)
    folded = Counter(name.casefold() for name in listed)
    twins = [name for name in listed if folded[name.casefold()] > 1]
    require(
        not twins,
        f"columns of {path.name} whose names differ in more than case",
        got=", ".join(f'"{name}"' for name in twins),
        fix="rename one of them",
        error=InvalidPlan,
    )


def _top_level(fields: list[tuple[str, int | None]]) -> list[str]:
    """The names of a Parquet file's columns: its schema lists the fields of nested ones too, depth first."""
    names: list[str] = []
    inside = 0
    for name, children in fields[1:]:
        if inside == 0:
            names.append(name)
        inside = max(inside - 1, 0) + (children or 0)
    return names


def _refuse_query(error: duckdb.Error) -> NoReturn:
    # Binding knows names and types only; an error while running may quote a value of the table.
    detail = str(error).splitlines()[0] if isinstance(error, duckdb.BinderException) else type(error).__name__
    raise InvalidPlan(
        f"expected a query that DuckDB can run, got {detail}; check the types of its columns"
    ) from None


def _columns_of(answer: duckdb.DuckDBPyConnection) -> dict[str, NDArray[np.generic]]:
    """Numbers as NumPy's own; anything else, and any column with a NULL, as Python objects."""
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


def _pattern(path: Path) -> str:
    """A path for a function that would take *, ? and [ for wildcards."""
    return _quoted(re.sub(r"([*?\[])", r"[\1]", str(path)))


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
