"""Results in a notebook: a chart, and a piece of HTML that needs no script."""

from __future__ import annotations

from functools import singledispatch
from html import escape
from typing import Any
from urllib.parse import quote

from sightline.attacks.simulation import Simulation
from sightline.auditing.result import AuditResult, Exposed
from sightline.errors import InvalidInput
from sightline.format import number, percent_at_least
from sightline.multiset.curve import ReleaseCurve, ReleaseCurves
from sightline.report import style
from sightline.report.figures import distribution, release_curve, simulation
from sightline.report.names import short
from sightline.report.wording import who


@singledispatch
def plot(result: object) -> Any:
    """A result as an Altair chart."""
    raise InvalidInput(f"expected a result that can be drawn, got {type(result).__name__}")


@singledispatch
def html(result: object) -> str:
    """A result as a piece of HTML: a drawing and what it says."""
    raise InvalidInput(f"expected a result that can be shown, got {type(result).__name__}")


@plot.register
def _(result: AuditResult) -> Any:
    return distribution.draw(result)


@html.register
def _(result: AuditResult) -> str:
    rows = "".join(
        f"<tr><th scope='row'><bdi>{escape(short(who(place, one)))}</bdi></th>"
        f"<td>{'none' if one.rmse is None else number(one.rmse)}</td>"
        f"<td>{_keeps(one)}</td>"
        f"<td><bdi>{escape(short(one.recipe.text, 120)) if one.recipe is not None else ''}</bdi></td></tr>"
        for place, one in enumerate(result.exposed[:10], start=1)
    )
    head = "".join(f"<th scope='col'>{title}</th>" for title in ("who", "error", "keeps at least", "recipe"))
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>" if rows else ""
    picture = _picture(plot(result)) if distribution.drawable(result) else ""
    return f"<div><p><strong>{escape(short(result.verdict.text, 900))}</strong></p>{picture}{table}</div>"


@plot.register
def _(result: ReleaseCurve) -> Any:
    return release_curve.draw(result)


@html.register
def _(result: ReleaseCurve) -> str:
    return f"<div>{_picture(plot(result))}<p>{escape(release_curve.describe(result))}</p></div>"


@plot.register
def _(result: ReleaseCurves) -> Any:
    return release_curve.draw_many(result)


@html.register
def _(result: ReleaseCurves) -> str:
    return f"<div>{_picture(plot(result))}<p>The bounds of {len(result):,} groups.</p></div>"


@plot.register
def _(result: Simulation) -> Any:
    return simulation.draw(result)


@html.register
def _(result: Simulation) -> str:
    return f"<div>{_picture(plot(result))}<pre>{escape(str(result))}</pre></div>"


def _keeps(one: Exposed) -> str:
    left = one.remaining_uncertainty
    return "" if left is None else percent_at_least(left.lower)


def _picture(chart: Any) -> str:
    drawn = style.specification(chart)
    source = "data:image/svg+xml," + quote(style.svg(drawn).strip(), safe=" =:/,;()'")
    return f'<img alt="{escape(drawn.get("description", ""))}" src="{escape(source)}">'
