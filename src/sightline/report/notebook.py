"""Show the results of an audit in a notebook: as a chart, and as a piece of HTML without scripts."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Any

from sightline.auditing.result import AuditResult, Explanation
from sightline.errors import InvalidInput
from sightline.rehearsing.result import Rehearsal
from sightline.report import style
from sightline.report.figures import draw_distribution
from sightline.report.first_screen import FirstList, about_line, first_lists, public_line, slack_line
from sightline.report.rehearsal import OWNER_ONLY, conclusions, draw_rehearsal
from sightline.report.streams import printed
from sightline.report.terminal import print_explanation
from sightline.report.wording import (
    LINE_WIDTH,
    belief_line,
    limit_line,
    secret_line,
    status_word,
    view_line,
)


def plot(result: object) -> Any:
    """Draw a result as an Altair chart."""
    draw, _ = _shown(result)
    return draw(result)


def html(result: object) -> str:
    """Write a result as a piece of HTML: what it says first, then a drawing if it has one."""
    if isinstance(result, Explanation):
        return _steps(result)
    draw, parts = _shown(result)
    empty = isinstance(result, AuditResult) and not any(result.distribution.records)
    return "".join(["<div>", *parts(result), "" if empty else picture(draw(result)), "</div>"])


def _shown(result: object) -> tuple[Callable[[Any], Any], Callable[[Any], list[str]]]:
    """What draws a result, and what says it."""
    match result:
        case AuditResult():
            return draw_distribution, _first_screen
        case Rehearsal():
            return draw_rehearsal, lambda one: [_paragraph(line) for line in (OWNER_ONLY, *conclusions(one))]
        case _:
            raise InvalidInput(f"expected a result that can be shown, got {type(result).__name__}")


def _first_screen(result: AuditResult) -> list[str]:
    """The first screen: the verdict, what was audited, what is known, and the lists of the terminal's."""
    sharpest = result.sharpest
    view = "" if sharpest is None else f"{view_line(result)} {sharpest.all_others_known}".strip()
    lines = [*map(secret_line, result.other_secrets), belief_line(result), about_line(result), view]
    closing = [result.cut_short or slack_line(result), public_line(result)]
    lists = [one for one in first_lists(result, more="") if one.lines]
    return [
        f"<p><strong>{escape(status_word(result))}</strong> {escape(limit_line(result))}</p>",
        *(_paragraph(line) for line in lines if line),
        *(_list(one) for one in lists),
        *(_paragraph(line) for line in closing if line),
    ]


def _steps(explanation: Explanation) -> str:
    """The steps of an explanation as the terminal has them; long lines are folded."""
    lines = printed(lambda screen: print_explanation(explanation, screen, from_python=True), width=LINE_WIDTH)
    return f'<pre style="white-space: pre-wrap">{escape(lines.rstrip())}</pre>'


def _paragraph(line: str) -> str:
    return f"<p>{escape(line)}</p>"


def _list(shown: FirstList) -> str:
    note = _paragraph(shown.note) if shown.note else ""
    tag, items = "ol" if shown.ordered else "ul", [f"<li>{escape(line)}</li>" for line in shown.lines]
    if shown.cells:
        lines = [f"<tr>{''.join(f'<td>{escape(part)}</td>' for part in line)}</tr>" for line in shown.cells]
        heads = "".join(f"<th>{escape(head)}</th>" for head in shown.heads)
        tag, items = "table", [f"<thead><tr>{heads}</tr></thead><tbody>", *lines, "</tbody>"]
    return f"<p><strong>{escape(shown.title)}</strong></p><{tag}>{''.join(items)}</{tag}>{note}"


def picture(chart: Any) -> str:
    """A chart as an image, with its description."""
    drawn = style.specification(chart)
    source = style.svg_source(style.svg(drawn))
    return f'<img alt="{escape(drawn.get("description", ""))}" src="{escape(source)}">'
