"""The most exposed as a table for spreadsheets: CSV or Excel."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from datetime import datetime
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any

from sightline.auditing.result import AuditResult
from sightline.errors import InvalidInput, MissingExtra
from sightline.report.files import write_new
from sightline.report.names import short
from sightline.report.wording import how, who

_COLUMNS = (
    *("secret", "place", "who", "size", "rows", "identifiable", "error", "error_percent_of_range"),
    *("remaining_lower", "remaining_upper", "remaining_stddev_lower", "remaining_stddev_upper"),
    *("releases", "how"),
)
_FORMULA = "=+-@\t\r\n＝＋－＠|"  # what makes a spreadsheet read a text as a formula, if it comes first
_LONGEST = 32_000  # characters; Excel takes 32,767 in a cell
_SUFFIXES = (".csv", ".xlsx")
_MADE = datetime(2000, 1, 1)

Cell = str | int | float | None


def check_suffix(path: Path) -> None:
    """Refuse a file that is neither CSV nor Excel, and Excel without the package that writes it."""
    suffix = path.suffix.lower()
    if suffix not in _SUFFIXES:
        raise InvalidInput(f"expected a file that ends in .csv or .xlsx, got {path.name!r}")
    if suffix == ".xlsx":
        _load_xlsxwriter()


def write_exposures(result: AuditResult, path: Path, *, force: bool = False) -> None:
    """Write the exposed that the result lists, secret by secret, one a line.

    Only the owner of the file can read it, unless the result is publishable. A text never becomes a formula:
    in CSV an apostrophe is put before it, in Excel the cell is text. An error is empty without an unbiased
    attack.
    """
    check_suffix(path)
    parts = (result, *result.other_secrets)
    rows = [_COLUMNS, *(row for part in parts for row in _rows(part))]
    content = _csv(rows) if path.suffix.lower() == ".csv" else _xlsx(rows)
    write_new(path, content, force=force, owner_only=any(part.owner_only for part in parts))


def _rows(result: AuditResult) -> Iterator[tuple[Cell, ...]]:
    for place, one in enumerate(result.exposed, start=1):
        left = one.remaining_uncertainty
        shares = (
            (None,) * 4 if left is None else (left.lower, left.upper, left.stddev_lower, left.stddev_upper)
        )
        yield (
            *(result.secret, place, who(place, one), one.size, one.rows, "yes" if one.identifiable else "no"),
            *(one.rmse, one.rmse_percent_of_range, *shares),
            *("; ".join(one.releases), how(one, result.unit)),
        )


def _csv(rows: list[tuple[Cell, ...]]) -> bytes:
    text = StringIO(newline="")
    csv.writer(text).writerows([_csv_cell(cell) for cell in row] for row in rows)
    return text.getvalue().encode("utf-8", "replace")


def _csv_cell(cell: Cell) -> Cell:
    """A cell that no spreadsheet reads as a formula.

    >>> _csv_cell("=1+2"), _csv_cell(" @a"), _csv_cell(-1.5), _csv_cell(math.inf), _csv_cell("a=b")
    ("'=1+2", "'@a", -1.5, 'Infinity', 'a=b')
    """
    if isinstance(cell, float) and not math.isfinite(cell):
        return "Infinity" if cell > 0 else "'-Infinity"
    if not isinstance(cell, str):
        return cell
    text = short(cell, _LONGEST)
    return f"'{text}" if text.startswith(tuple(_FORMULA)) else text


def _xlsx(rows: list[tuple[Cell, ...]]) -> bytes:
    xlsxwriter = _load_xlsxwriter()
    content = BytesIO()
    book = xlsxwriter.Workbook(content, {"in_memory": True})
    book.set_properties({"created": _MADE})
    sheet = book.add_worksheet("exposures")
    sheet.freeze_panes(1, 0)
    for y, row in enumerate(rows):
        for x, cell in enumerate(row):
            if isinstance(cell, str) or (isinstance(cell, float) and not math.isfinite(cell)):
                sheet.write_string(y, x, short(str(cell), _LONGEST))  # never a formula, a link or a number
            elif cell is not None:
                sheet.write_number(y, x, cell)
    book.close()
    return content.getvalue()


def _load_xlsxwriter() -> Any:
    try:
        import xlsxwriter
    except ImportError:
        raise MissingExtra(
            "expected XlsxWriter, which writes Excel files; install sightline[excel], or write a .csv file"
        ) from None
    return xlsxwriter
