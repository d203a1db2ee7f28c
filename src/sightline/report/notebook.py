"""Show results in a notebook: as a chart, and as a piece of HTML without scripts."""

from __future__ import annotations

from html import escape
from typing import Any

from sightline.attacks.monte_carlo import Simulation
from sightline.auditing.reading import plan_of_text
from sightline.auditing.result import AuditResult, Exposed
from sightline.errors import InvalidInput, SightlineError
from sightline.format import number, percent_at_least
from sightline.jobs import audit
from sightline.multiset.curve import ReleaseCurve, ReleaseCurves
from sightline.rehearsing.result import Rehearsal
from sightline.report import style
from sightline.report.figures.exposed import distribution_drawable, draw_distribution
from sightline.report.figures.library import describe_curve, draw_curve, draw_curves, draw_simulation
from sightline.report.rehearsal import OWNER_ONLY, conclusions, draw_rehearsal
from sightline.report.wording import short, who


def plot(result: object) -> Any:
    """Draw a result as an Altair chart."""
    match result:
        case AuditResult():
            return draw_distribution(result)
        case ReleaseCurve():
            return draw_curve(result)
        case ReleaseCurves():
            return draw_curves(result)
        case Simulation():
            return draw_simulation(result)
        case Rehearsal():
            return draw_rehearsal(result)
        case _:
            raise InvalidInput(f"expected a result that can be drawn, got {type(result).__name__}")


def html(result: object) -> str:
    """Write a result as a piece of HTML: a drawing and a text."""
    match result:
        case AuditResult():
            return _audit(result)
        case ReleaseCurve():
            text = f"<p>{escape(describe_curve(result))}</p>"
        case ReleaseCurves():
            text = f"<p>The bounds of {len(result):,} groups.</p>"
        case Simulation():
            text = f"<pre>{escape(str(result))}</pre>"
        case Rehearsal():
            text = "".join(f"<p>{escape(line)}</p>" for line in (OWNER_ONLY, *conclusions(result)))
        case _:
            raise InvalidInput(f"expected a result that can be shown, got {type(result).__name__}")
    return f"<div>{_picture(plot(result))}{text}</div>"


def _audit(result: AuditResult) -> str:
    rows = "".join(_row(place, exposed) for place, exposed in enumerate(result.exposed[:10], start=1))
    head = "".join(f"<th scope='col'>{title}</th>" for title in ("who", "error", "keeps at least", "recipe"))
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>" if rows else ""
    picture = _picture(plot(result)) if distribution_drawable(result) else ""
    return f"<div><p><strong>{escape(short(result.verdict.text, 900))}</strong></p>{picture}{table}</div>"


def _row(place: int, exposed: Exposed) -> str:
    error = "none" if exposed.rmse is None else number(exposed.rmse)
    remaining = exposed.remaining_uncertainty
    keeps = "" if remaining is None else percent_at_least(remaining.lower)
    recipe = "" if exposed.recipe is None else escape(short(exposed.recipe.text, 120))
    return (
        f"<tr><th scope='row'><bdi>{escape(short(who(place, exposed)))}</bdi></th>"
        f"<td>{error}</td><td>{keeps}</td><td><bdi>{recipe}</bdi></td></tr>"
    )


def _picture(chart: Any) -> str:
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
