"""What DuckDB reads in place: data files, and tables that the caller holds in memory.

Files exist, can be read and stay as they are; CSV files have a header of different names. A table in memory
is a pandas or Polars DataFrame, an Arrow table or a DuckDB relation. None of these libraries is needed: an
object is recognised by its class. Polars and Arrow tables are read through the Arrow C stream, which needs no
library besides their own. A relation is a query on a connection of its own: it runs once, and its answer is
copied.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import hashlib
import math
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, cast

from sightline.errors import InvalidPlan, require
from sightline.tables.engines.address import public_source, scheme_of
from sightline.tables.engines.protocol import SOURCE, check_names
from sightline.tables.sql.fragments import literal


def existing_file(source: str, base: Path) -> Path:
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


def digest_later(source: object, base: Path) -> Callable[[], str | None]:
    """The SHA-256 of a table's file, when it is asked for; none without a file, or if that has changed."""
    if not isinstance(source, str | Path) or scheme_of(str(source)) is not None:
        return lambda: None
    path = base / str(source).partition("::")[0]
    state = file_state(path)

    def digest() -> str | None:
        try:
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        except (OSError, ValueError):
            return None
        return digest if file_state(path) == state else None

    return digest


def file_state(path: Path) -> tuple[int, ...]:
    """Facts about a file that change when it is written or replaced."""
    try:
        status = path.stat()
    except OSError:
        return ()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def check_distinct(sources: Mapping[str, str], paths: Mapping[str, Path]) -> None:
    """Refuse the data as a declared public table: its columns would count as public."""
    for name, path in paths.items() if SOURCE in paths else ():
        tables = [sources[relation].partition("::")[2].casefold() for relation in (SOURCE, name)]
        same = path.samefile(paths[SOURCE]) and (tables[0] == tables[1] or not all(tables))
        require(
            name == SOURCE or not same,
            f'a public table as "{name}"',
            got="the data source itself",
            fix="declare a table without the secret",
            error=InvalidPlan,
        )


def csv_source(file: str, delimiter: str) -> str:
    return (
        f"read_csv({file}, delim={literal(delimiter)}, quote='\"', escape='\"', header=true, "
        "hive_partitioning=false, "
        "skip=0, sample_size=-1, strict_mode=true, null_padding=false, ignore_errors=false)"
    )


def top_level(fields: list[tuple[str, int | None]]) -> list[str]:
    """The names of a Parquet file's columns. Its schema lists nested fields too, depth first."""
    names: list[str] = []
    inside = 0
    for name, children in fields[1:]:
        if inside == 0:
            names.append(name)
        inside = max(inside - 1, 0) + (children or 0)
    return names


def without_wildcards(path: Path, folder: Path) -> Path:
    """Return a path without *, ? and [, which DuckDB reads as wildcards: a link if the file has one."""
    if not re.search(r"[*?\[]", str(path)) or path.suffix.lower() in (".duckdb", ".db"):
        return path
    link = folder / f"file{len(list(folder.iterdir()))}{''.join(path.suffixes[-2:])}"
    link.symlink_to(path)
    return link


def delimiter_of(path: Path) -> str:
    """Find the delimiter in the header line: DuckDB's own guess drops rows of unequal length."""
    try:
        with opened_csv(path) as file:
            header = file.readline(1 << 20).decode("utf-8-sig")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise csv_fault(path, delimiter=",", otherwise=type(error).__name__) from None
    require(
        header.strip() != "",
        "a header line",
        got=f"an empty {path.name}",
        fix="write the columns' names",
        error=InvalidPlan,
    )
    require(
        "\r" not in header.rstrip("\r\n"),
        f"lines of {path.name} that end in a line feed",
        got="carriage returns alone",
        fix=f"convert it, for example: tr '\\r' '\\n' < {path.name} > converted.csv",
        error=InvalidPlan,
    )
    delimiter = max(",;\t|", key=lambda symbol: (header.count(symbol), symbol == ","))
    try:
        names = next(csv.reader([header], delimiter=delimiter))
    except csv.Error as error:
        raise csv_fault(path, delimiter=delimiter, otherwise=type(error).__name__) from None
    _check_header(names, path)
    return delimiter


def _check_header(names: list[str], path: Path) -> None:
    """Refuse a first line that looks like data or has a name twice; messages do not quote it."""
    values = [place for place, name in enumerate(names, 1) if not name.strip() or _is_value(name)]
    require(
        not values,
        f"the columns' names in the first line of {path.name}",
        got=f"a number or nothing in column {values[0] if values else 0}",
        fix="write a header line",
        error=InvalidPlan,
    )
    folded = [name.casefold() for name in names]
    alike = [place for place, name in enumerate(folded, 1) if folded.count(name) > 1]
    require(
        not alike,
        f"columns of {path.name} whose names differ in more than case",
        got=f"columns {' and '.join(map(str, alike[:2]))} alike",
        fix="rename one of them",
        error=InvalidPlan,
    )


def _is_value(name: str) -> bool:
    try:
        float(name.replace(",", "."))
    except ValueError:
        return re.fullmatch(r"\s*\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}.*", name) is not None
    return True


def opened_csv(path: Path) -> BinaryIO:
    """Open the file, decompressed if it ends in .gz."""
    return cast(BinaryIO, gzip.open(path)) if path.suffix == ".gz" else path.open("rb")


def csv_fault(path: Path, *, delimiter: str, otherwise: str) -> InvalidPlan:
    r"""Describe the first fault of the file on one line; ``otherwise`` if no line has a fault.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "homes.csv"
    >>> _ = path.write_text('home,watts\nA1,"400"\n\nA7,900,1\n')
    >>> print(csv_fault(path, delimiter=",", otherwise=""))
    expected homes.csv to be readable as csv, got 3 fields at line 4, where the header has 2; repair that line
    """
    got, fix = otherwise, "every row needs as many fields as the header, in UTF-8: repair the file"
    lines = _Lines(path)
    try:
        header = 0
        start = 1
        fields = csv.reader(lines, delimiter=delimiter, strict=True)
        for row in fields:
            header = header or len(row)
            if row and len(row) != header:
                unit = "field" if len(row) == 1 else "fields"
                got = f"{len(row)} {unit} at line {start}, where the header has {header}"
                fix = "repair that line"
                break
            start = fields.line_num + 1
    except UnicodeDecodeError:
        got = f"bytes that are not UTF-8 at line {lines.number}"
        fix = f"convert it, for example: iconv -f latin1 -t utf-8 {path.name} > converted.csv"
    except csv.Error:
        got, fix = f"quotes that do not match at line {start}", "repair that line"
    except (OSError, EOFError):
        got, fix = "a file that ends too early", "copy or write it again"
    return InvalidPlan(f"expected {path.name} to be readable as csv, got {got}; {fix}")


class _Lines:
    """The lines of a file as text, and the number of the last line that was read."""

    def __init__(self, path: Path) -> None:
        self.path, self.number = path, 0

    def __iter__(self) -> Iterator[str]:
        with opened_csv(self.path) as file:
            while line := file.readline():
                self.number += 1
                yield line.decode("utf-8-sig" if self.number == 1 else "utf-8")


_PREFIX = "sightline-spill-"


def private_folder() -> Path:
    """Make a folder that only this user can read; first remove folders of processes that have ended."""
    place = Path(tempfile.gettempdir())
    for folder in place.glob(f"{_PREFIX}*"):
        owner = re.match(rf"{_PREFIX}(\d+)-", folder.name)
        with contextlib.suppress(OSError):
            ours = folder.lstat().st_uid == os.getuid() and folder.is_dir() and not folder.is_symlink()
            if owner is not None and ours and not _is_running(int(owner.group(1))):
                remove_folder(folder)
    return Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))  # mode 0700


def remove_folder(folder: Path) -> None:
    """Remove a folder of ours, if it still exists."""
    shutil.rmtree(folder, ignore_errors=True)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


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
    def values(self) -> float:
        """How many values it has; infinite where counting them means to run a query."""
        if self.holder is Holder.DUCKDB:
            return math.inf
        return int(self.table.shape[0]) * len(self.column_names)

    def readable(self) -> Any:
        """What DuckDB can register: the object itself, or its Arrow stream; types are checked first."""
        _check_column_names(self.column_names, self)
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


def _check_column_names(names: Sequence[Any], table: InMemoryTable) -> None:
    require(bool(names), f"columns in {table}", got="none", error=InvalidPlan)
    require(
        all(isinstance(name, str) and name for name in names),
        f"names of columns in {table} that are text",
        got="another",
        fix="rename the columns",
        error=InvalidPlan,
    )
    check_names(names, table)


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
