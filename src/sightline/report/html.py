"""The report of an audit: one HTML file that needs no network, for people who decide about a publication."""

from __future__ import annotations

from pathlib import Path

from sightline.auditing.result import AuditResult
from sightline.format import count, percent, percent_at_least
from sightline.report.figures.catalogue import FIGURES
from sightline.report.files import write_new
from sightline.report.page import page_html


def report_html(result: AuditResult, *, publishable: bool = False, date: str | None = None) -> str:
    """Return the report as the text of one HTML file; equal results give equal texts.

    ``publishable`` leaves out what is for the table's owner only. ``date`` is printed as it is given.
    """
    shown = result.publishable() if publishable else result
    words = {"publishable": publishable, "date": date, "headline": headline(shown)}
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
    """The verdict as one number, and the words that follow it."""
    least, limit = result.least_remaining_uncertainty, result.verdict.limit
    of = f"of {count(result.records, 'record')}"
    if limit is not None and result.verdict.below_limit:
        return f"{result.verdict.below_limit:,}", f"{of} may keep less than the limit of {percent(limit)}"
    if least is None:
        return "0", f"{of} are exposed by a sum or a mean: none that is published depends on the secret"
    if limit is None and result.identifiable_records:
        return f"{result.identifiable_records:,}", f"{of} can be told apart from everything else"
    words = "of the uncertainty remains at least, even about the most exposed record"
    return percent_at_least(least.lower), words
