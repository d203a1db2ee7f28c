"""Find what is wrong with a CSV file that an engine refused. Messages name the line, never its content."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

from sightline.errors import InvalidPlan


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
