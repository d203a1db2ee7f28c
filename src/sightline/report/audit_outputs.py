"""Where the result of an audit goes: to standard output in one format, and to files in others."""

from __future__ import annotations

import csv
import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

from sightline.auditing.result import AuditResult
from sightline.errors import InvalidInput, SightlineError
from sightline.report.files import check_new, write_new
from sightline.report.pipelines import PipelineFormat, checked_text, result_text
from sightline.report.streams import console, print_json
from sightline.report.terminal import print_result
from sightline.report.wording import how, short, who

_TEXT, _JSON = "text", "json"
_FOR_FILES = (_JSON, *(one.value for one in PipelineFormat))


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditOutputs:
    """The formats and files that an audit was asked for."""

    plan: str
    shown: str  # the format of standard output
    files: tuple[tuple[str, Path], ...]  # formats, each with a file
    exposures: Path | None  # for the table of the most exposed
    full: bool  # whether the text has every section
    force: bool

    @classmethod
    def of(  # many parameters: options of one command
        cls, plan: str, *, shown: str, write: Sequence[str], exposures: Path | None, full: bool, force: bool
    ) -> AuditOutputs:
        """The outputs; ``write`` has texts of the form FORMAT=FILE."""
        files = []
        for text in write:
            name, equals, file = text.partition("=")
            if name not in _FOR_FILES or not equals or not file:
                raise InvalidInput(f"expected FORMAT=FILE with {', '.join(_FOR_FILES)}, got {text[:60]!r}")
            files.append((name, Path(file)))
        return cls(plan=plan, shown=shown, files=tuple(files), exposures=exposures, full=full, force=force)

    @property
    def every_section(self) -> bool:
        """Whether something that is written has all sections of the result."""
        return self.full or self.shown != _TEXT or bool(self.files)

    def check(self, *, names: bool) -> None:
        """Refuse what cannot be written, before the audit."""
        if names and self.shown not in (_TEXT, _JSON):
            raise InvalidInput(f"expected --names with text or json, got {self.shown}, which names nobody")
        if self.exposures is not None:
            check_suffix(self.exposures)
        for path in (*(path for _, path in self.files), self.exposures):
            if path is not None:
                check_new(path, force=self.force)

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Also tell pipelines about an error, since they would take a missing report for a good one."""
        try:
            yield
        except SightlineError as error:
            failed = (self.plan, f"{type(error).__name__}: {error}")
            if self.shown not in (_TEXT, _JSON):
                print(checked_text([failed], PipelineFormat(self.shown)))
            for name, path in self.files:
                if name != _JSON:
                    self._write_file(path, checked_text([failed], PipelineFormat(name)), owner_only=False)
            raise

    def write(self, result: AuditResult) -> None:
        """Print the result, and write the files."""
        if self.shown == _TEXT:
            print_result(result, console(), full=self.full)
        elif self.shown == _JSON:
            print_json(result.model_dump(mode="json"))
        else:
            print(result_text(result, self.plan, PipelineFormat(self.shown)))
        parts = (result, *result.other_secrets)
        for name, path in self.files:
            if name == _JSON:
                owned = any(part.owner_only for part in parts)
                self._write_file(path, result.to_json(), owner_only=owned)
            else:
                self._write_file(path, result_text(result, self.plan, PipelineFormat(name)), owner_only=False)
        if self.exposures is not None:
            write_exposures(result, self.exposures, force=self.force)
            listed = sum(len(one.exposed) for one in parts)
            in_all = sum(one.exposed_in_all for one in parts)
            print(
                f"Wrote {self.exposures}: {listed:,} of {in_all:,} exposed; --top lists more", file=sys.stderr
            )

    def _write_file(self, path: Path, text: str, *, owner_only: bool) -> None:
        write_new(path, f"{text}\n".encode("utf-8", "replace"), force=self.force, owner_only=owner_only)
        print(f"Wrote {path}", file=sys.stderr)


_COLUMNS = (
    *("secret", "place", "who", "size", "rows", "identifiable", "error", "error_percent_of_range"),
    *("remaining_lower", "remaining_upper", "remaining_stddev_lower", "remaining_stddev_upper"),
    *("releases", "how"),
)
_FORMULA = "=+-@\t\r\n＝＋－＠|"  # what makes a spreadsheet read a text as a formula, if it comes first
_LONGEST = 32_000  # characters; Excel takes 32,767 in a cell

Cell = str | int | float | None


def check_suffix(path: Path) -> None:
    """Refuse a file that is no CSV."""
    if path.suffix.lower() != ".csv":
        raise InvalidInput(f"expected a file that ends in .csv, got {path.name!r}")


def write_exposures(result: AuditResult, path: Path, *, force: bool = False) -> None:
    """Write the exposed that the result lists, secret by secret, one a line.

    Only the owner of the file can read it, unless the result is publishable. A text never becomes a formula:
    an apostrophe is put before it. An error is empty without an unbiased attack.
    """
    check_suffix(path)
    parts = (result, *result.other_secrets)
    rows = [_COLUMNS, *(row for part in parts for row in _rows(part))]
    write_new(path, _csv(rows), force=force, owner_only=any(part.owner_only for part in parts))


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
