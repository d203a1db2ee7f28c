"""The text of a data source: the engine that it names, what messages may show, and small files read whole."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from urllib.parse import SplitResult, parse_qs, urlsplit

from sightline.errors import InvalidInput, InvalidPlan, require

LONGEST = 4_096  # characters; no file system takes longer paths
_SCHEME = re.compile(r"\s*([A-Za-z][A-Za-z0-9+.-]+):/")  # a single letter is a drive
_HOST = re.compile(r"(?:[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\]|local\[[0-9*]+(?:,[0-9]+)?\])(?::[0-9]{1,5})?")
_DATABASE = re.compile(r"/?[\w.-]*/?")
_FILE = re.compile(r"(?:[A-Za-z]:)?[^=;@:\x00-\x1f]+(?:::[^=;@:\x00-\x1f]*)?")
# An engine's own schemes. Messages may show a part of its addresses, and nothing of other ones.
POSTGRES_SCHEMES = ("postgresql", "postgres")
SPARK_SCHEMES = ("spark", "sc")
DIALECTS = ("duckdb", "postgres", "spark")  # of all engines, as sqlglot calls them


def scheme_of(source: str) -> str | None:
    """Return the scheme of an address, in lower case; None for a file.

    >>> scheme_of(" PostgreSQL://db/grid"), scheme_of("homes.csv")
    ('postgresql', None)
    """
    scheme = _SCHEME.match(source)
    return scheme.group(1).lower() if scheme else None


def dialect_of(source: object) -> str:
    """The SQL dialect of a source, as sqlglot calls it.

    >>> dialect_of("postgresql://db/grid"), dialect_of("homes.csv")
    ('postgres', 'duckdb')
    """
    scheme = scheme_of(source) if isinstance(source, str) else None
    return "postgres" if scheme in POSTGRES_SCHEMES else "spark" if scheme in SPARK_SCHEMES else "duckdb"


def checked_source(source: str) -> str:
    """Return a source without spaces around it; refuse a very long one and control characters."""
    require(
        len(source) <= LONGEST,
        f"a data source of at most {LONGEST:,} characters",
        got=f"{len(source):,}",
        error=InvalidPlan,
    )
    require(
        not any(
            ord(symbol) < 32 or ord(symbol) == 127 or 0xD800 <= ord(symbol) <= 0xDFFF for symbol in source
        ),
        "a data source on one line",
        got="a control character in it",
        fix="write the file's name or the address again",
        error=InvalidPlan,
    )
    return source.strip()


def split_address(address: str) -> SplitResult:
    """Split an address into its parts, or raise ``InvalidPlan``."""
    try:
        parts = urlsplit(address)
        _ = parts.port, parts.hostname
    except ValueError:
        raise InvalidPlan(
            "expected an address as scheme://host:port/database, "
            f"got one that cannot be read ({public_source(address)}); "
            "check its brackets, its port and characters that need %-escapes"
        ) from None
    return parts


IN_MEMORY_NAMES = frozenset({"df"})  # what people call a table of Python's in SQL


def own_names(source: str) -> frozenset[str]:
    """What queries may call the table of a source, in lower case: its name, and for a file that with its end.

    >>> sorted(own_names("data/Homes.csv.gz")), sorted(own_names("grid.duckdb::main.homes"))
    (['homes', 'homes.csv.gz'], ['homes', 'main.homes'])
    >>> sorted(own_names("postgresql://db/grid?table=public.homes")), own_names("postgresql://db/grid")
    (['homes', 'public.homes'], frozenset())
    >>> sorted(own_names("spark://local[2]?table=homes"))
    ['homes']
    """
    scheme = scheme_of(source)
    if scheme is not None:
        # No host of Spark's local masters can be read as one: local[2].
        query = source.partition("?")[2] if scheme in SPARK_SCHEMES else split_address(source).query
        address = parse_qs(query).get("table", [""])[0]
    else:
        path, _, table = source.strip().partition("::")
        file = re.split(r"[/\\]", path)[-1].casefold()
        if not table:
            return frozenset({file, file.partition(".")[0]} - {""})
        address = table
    name = address.replace('"', "").casefold()
    return frozenset({name, name.rpartition(".")[2]} - {""})


def public_source(source: str) -> str:
    """Return what messages may show of a source: a file's path, or an address's scheme, host and database.

    User names, passwords, tokens and settings are left out. If the parts of an address are not certain, only
    the scheme is shown.

    >>> public_source("postgresql://ann:secret@db/grid?table=homes&sslkey=k")
    'postgresql://db/grid'
    >>> public_source("s3://key:secret@bucket/homes.parquet"), public_source("host=db password=hush")
    ('s3://…', 'a source that is not shown')
    >>> public_source("data/homes.csv")
    'data/homes.csv'
    """
    scheme = scheme_of(source)
    if scheme is None:
        whole = source.strip()
        return whole if _FILE.fullmatch(whole) else "a source that is not shown"
    hidden = f"{scheme}://…"
    if scheme not in (*POSTGRES_SCHEMES, *SPARK_SCHEMES) or any(ord(symbol) < 32 for symbol in source):
        return hidden
    _, _, after_scheme = source.partition("://")
    place, _, settings = after_scheme.partition("?")
    place, _, parameters = place.partition(";")
    if "@" in settings or "@" in parameters or place.count("@") > 1 or "#" in after_scheme:
        return hidden
    host, slash, database = place.rpartition("@")[2].partition("/")
    if "@" in place and "/" in place.partition("@")[0]:
        return hidden  # a password with a slash: the text after it is not the host
    if not _HOST.fullmatch(host.strip()) or not _DATABASE.fullmatch(database):
        return hidden
    return f"{scheme}://{host.strip()}" + (f"/{database.strip('/')}" if slash and database.strip("/") else "")


MOST_BYTES = 4_000_000  # of a plan, a query, a record or a release; a thousand queries need a tenth of it
LARGEST_FILE = 1 << 28  # bytes of what a program wrote: a result, a manifest, a population


def file_bytes(
    path: Path, what: str, *, most: int = MOST_BYTES, error: type[InvalidInput] = InvalidPlan
) -> bytes:
    """The bytes of a file, which is ``what``; not of one that is too large to be it."""
    try:
        with path.open("rb") as file:
            content = file.read(most + 1)
    except (OSError, ValueError) as reason:
        text = reason.strerror if isinstance(reason, OSError) and reason.strerror else "not a path"
        raise error(f"expected {what}, got {str(path)[:200]!r}: {text.lower()}") from None
    require(len(content) <= most, f"{what} of at most {most:,} bytes", got="more", error=error)
    return content


def file_text(
    path: Path, what: str, *, most: int = MOST_BYTES, error: type[InvalidInput] = InvalidPlan
) -> str:
    """The text of a file in UTF-8; some editors begin it with a mark."""
    try:
        return file_bytes(path, what, most=most, error=error).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise error(f"expected {what} in UTF-8, got other bytes in {path.name[:60]!r}") from None


def csv_lines(
    path: Path, what: str, *, most: int = MOST_BYTES, error: type[InvalidInput] = InvalidPlan
) -> list[list[str]]:
    """The fields of every line of a CSV file."""
    text = file_text(path, what, most=most, error=error)
    try:
        return list(csv.reader(io.StringIO(text, newline=""), strict=True))
    except csv.Error as reason:
        raise error(f"expected {what}, got a file that is no CSV: {reason}") from None


def named_file(name: str, base: Path, what: str) -> Path:
    """The path of a file that a plan names, from the plan's folder; no address of another place."""
    source = checked_source(name)
    require(scheme_of(source) is None, what, got="an address", fix="download it first", error=InvalidPlan)
    return base / source
