"""Show the results of an audit in a notebook: as a chart, and as a piece of HTML without scripts."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Any

from sightline.auditing.reading import plan_of_text
from sightline.auditing.result import AuditResult
from sightline.errors import InvalidInput, SightlineError
from sightline.jobs.audit import audit
from sightline.rehearsing.result import Rehearsal
from sightline.report import style
from sightline.report.figures import draw_distribution
from sightline.report.first_screen import first_screen
from sightline.report.rehearsal import OWNER_ONLY, conclusions, draw_rehearsal
from sightline.report.wording import LINE_WIDTH


def plot(result: object) -> Any:
    """Draw a result as an Altair chart."""
    draw, _ = _shown(result)
    return draw(result)


def html(result: object) -> str:
    """Write a result as a piece of HTML: a drawing and a text."""
    draw, text = _shown(result)
    empty = isinstance(result, AuditResult) and not any(result.distribution.records)
    return as_html("" if empty else picture(draw(result)), text(result))


def _shown(result: object) -> tuple[Callable[[Any], Any], Callable[[Any], str]]:
    """What draws a result, and what says it."""
    match result:
        case AuditResult():
            return draw_distribution, _first_lines
        case Rehearsal():
            return draw_rehearsal, lambda one: "\n".join((OWNER_ONLY, *conclusions(one)))
        case _:
            raise InvalidInput(f"expected a result that can be shown, got {type(result).__name__}")


def _first_lines(result: AuditResult) -> str:
    return "\n".join(line.plain for line in first_screen(result, LINE_WIDTH))


def as_html(drawing: str, text: str) -> str:
    """A drawing above its text."""
    return f"<div>{drawing}<pre>{escape(text)}</pre></div>"


def picture(chart: Any) -> str:
    """A chart as an image, with its description."""
    drawn = style.specification(chart)
    source = style.svg_source(style.svg(drawn))
    return f'<img alt="{escape(drawn.get("description", ""))}" src="{escape(source)}">'


def audit_cell(line: str, cell: str) -> AuditResult:
    """Audit the plan in a cell. The line may give a limit, as in ``%%sightline 50%``.

    Relative paths start from the working directory. A mistake is one line without a traceback.
    """
    from IPython.core.error import UsageError

    try:
        return audit(plan_of_text(cell, "the cell"), limit=line.strip() or None)
    except SightlineError as error:
        raise UsageError(f"{type(error).__name__}: {error}") from None


def register(shell: Any) -> None:
    """Add ``%%sightline`` to a running IPython."""
    shell.register_magic_function(audit_cell, magic_kind="cell", magic_name="sightline")
