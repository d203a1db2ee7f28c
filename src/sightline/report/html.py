"""The report of an audit: one HTML file that needs no network, for people who decide about a publication.

A policy in the page forbids every request, and every script except its own, which it lists by their hashes.
The policy forbids evaluated code too, so Vega interprets its expressions.
"""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

from sightline.auditing.numerals import domain
from sightline.auditing.result import AuditResult
from sightline.errors import MissingExtra
from sightline.format import count, number, parameter, percent, percent_at_least
from sightline.report import style
from sightline.report.figures.catalogue import FIGURES, ReportFigure
from sightline.report.files import write_new
from sightline.report.names import one_line, short
from sightline.report.wording import MOST_ALIKE, NO_RECIPE, noise_range, shown_recipe, unverified_line, who

_ASSETS = Path(__file__).parent / "assets"
# A drawing with more data than this is smaller as a bitmap and faster on a canvas.
_MOST_CHARACTERS = 150_000


def report_html(result: AuditResult, *, publishable: bool = False, date: str | None = None) -> str:
    """Return the report as the text of one HTML file; equal results give equal texts.

    ``publishable`` leaves out what is for the table's owner only. ``date`` is printed as it is given.
    """
    shown = result.publishable() if publishable else result
    css, script = _asset("report.css"), _asset("report.js")
    figures = {figure.name: _figure(figure, shown) for figure in FIGURES if figure.drawable(shown)}
    charts = {name: figure["chart"] for name, figure in figures.items()}
    page = _environment().get_template("report.html")
    text = str(
        page.render(
            result=shown,
            publishable=publishable,
            date=date,
            css=css,
            figures=figures,
            data=_data(charts),
            bundle=style.bundle(),
            script=script,
            policy=_policy(scripts=(style.bundle(), script), styles=(css,)),
            headline=headline(shown),
        )
    )
    return text.encode("utf-8", errors="replace").decode("utf-8")  # a name may contain a lone surrogate


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


def _figure(figure: ReportFigure, result: AuditResult) -> dict[str, Any]:
    chart = style.specification(figure.draw(result))
    large = len(json.dumps(chart)) > _MOST_CHARACTERS
    if large:
        still = "data:image/png;base64," + base64.b64encode(style.png(chart, scale=1.0)).decode()
    else:
        still = style.svg_source(style.svg(chart))
    page = {**chart, "width": "container", "autosize": {"type": "fit-x", "contains": "padding"}}
    page["usermeta"] = {"renderer": "canvas" if large else "svg"}
    return {
        "title": figure.title,
        "description": figure.describe(result),
        "still": still,
        "chart": page,
    }


def _data(charts: dict[str, Any]) -> str:
    """Write JSON that can neither close the HTML element around it nor open another."""
    text = json.dumps(charts, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _policy(*, scripts: tuple[str, ...], styles: tuple[str, ...]) -> str:
    return (
        f"default-src 'none'; script-src {' '.join(map(_hash, scripts))}; "
        f"style-src {' '.join(map(_hash, styles))}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _asset(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")


def _environment() -> Any:
    try:
        import jinja2
    except ImportError:
        raise MissingExtra(
            'the report needs Jinja2, which is not installed; pip install "sightline[report]"'
        ) from None
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_ASSETS),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        short=short, one_line=one_line, number=number, parameter=parameter, noise_range=noise_range
    )
    environment.filters["unverified_line"] = unverified_line
    environment.globals.update(
        who=who,
        shown_recipe=shown_recipe,
        no_recipe=NO_RECIPE,
        count=count,
        domain=domain,
        most_alike=MOST_ALIKE,
    )
    return environment
