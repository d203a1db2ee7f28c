"""The header line of a CSV file: its delimiter, and that it holds names. Messages never quote it."""

from __future__ import annotations

import csv
import re
from pathlib import Path

from sightline.errors import InvalidPlan, require
from sightline.tables.engines.csv_fault import csv_fault, opened_csv


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
