"""Show results in a notebook: as a chart, and as a piece of HTML without scripts."""

from __future__ import annotations

from html import escape
from typing import Any

from sightline.attacks.monte_carlo import Simulation
from sightline.auditing.result import AuditResult, Exposed
from sightline.errors import InvalidInput
from sightline.format import number, percent_at_least
from sightline.multiset.curve import ReleaseCurve, ReleaseCurves
from sightline.rehearsing.result import Rehearsal
from sightline.report import style
from sightline.report.figures import distribution, rehearsal, release_curve, simulation
from sightline.report.names import short
from sightline.report.rehearsal import OWNER_ONLY, conclusions
from sightline.report.wording import who


def plot(result: object) -> Any:
    """Draw a result as an Altair chart."""
    match result:
        case AuditResult():
            return distribution.draw(result)
        case ReleaseCurve():
            return release_curve.draw(result)
        case ReleaseCurves():
            return release_curve.draw_many(result)
        case Simulation():
            return simulation.draw(result)
        case Rehearsal():
            return rehearsal.draw(result)
        case _:
            raise InvalidInput(f"expected a result that can be drawn, got {type(result).__name__}")


def html(result: object) -> str:
    """Write a result as a piece of HTML: a drawing and a text."""
    match result:
        case AuditResult():
            return _audit(result)
        case ReleaseCurve():
            text = f"<p>{escape(release_curve.describe(result))}</p>"
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
    picture = _picture(plot(result)) if distribution.drawable(result) else ""
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
