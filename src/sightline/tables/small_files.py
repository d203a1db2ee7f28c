"""Files that somebody names, read whole up to a size: bytes, text, lines of CSV. A mistake is one line."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from sightline.errors import InvalidInput, InvalidPlan, require
from sightline.tables.engines.address import checked_source, scheme_of

MOST_BYTES = 4_000_000  # of a plan, a record or a release; a thousand queries need a tenth of it


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
