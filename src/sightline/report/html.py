"""The report of an audit: one HTML file that needs no network, for people who decide about a publication."""

from __future__ import annotations

from pathlib import Path

from sightline.auditing.result import AuditResult
from sightline.format import count
from sightline.report.figures.catalogue import FIGURES
from sightline.report.files import write_new
from sightline.report.first_screen import limit_line, sharpest_numbers, status_words
from sightline.report.names import short
from sightline.report.page import page_html


def report_html(result: AuditResult, *, publishable: bool = False, date: str | None = None) -> str:
    """Return the report as the text of one HTML file; equal results give equal texts.

    ``publishable`` leaves out what is for the table's owner only. ``date`` is printed as it is given.
    """
    shown = result.publishable() if publishable else result
    words = {
        "publishable": publishable,
        "date": date,
        "headline": headline(shown),
        "status": status_words(shown),
        "limit_line": limit_line(shown),
    }
    return page_html("report.html", FIGURES, shown, words)


def write_report(
    result: AuditResult,
    path: str | Path,
    *,
    force: bool = False,
    publishable: bool = False,
    date: str | None = None,
) -> None:
    """Write the report; replace an existing file only if forced.

    Unless it is publishable, only the owner of the file can read it.
    """
    shown = result.publishable() if publishable else result
    text = report_html(shown, publishable=publishable, date=date)
    write_new(Path(path), text.encode("utf-8"), force=force, owner_only=bool(shown.owner_only))


def headline(result: AuditResult) -> tuple[str, str]:
    """The one number that matters, in the secret's own units, and the words that follow it."""
    numbers = sharpest_numbers(result)
    if numbers is None:
        return (
            "0",
            f"of {count(result.records, 'record')} are exposed: nothing that is published shows a value",
        )
    of_rows = result.sharpest is not None and result.sharpest.of == "rows"
    rows = "in the rows, combined and scaled like one row, " if of_rows else ""
    whose = f"{rows}of the most exposed {short(result.record, 40)}: what an attacker knows, before → after"
    return f"{numbers[0]} → {numbers[1]}", f"{short(result.secret, 40)} {whose}"
