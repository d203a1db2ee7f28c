"""Show results in a notebook: as a chart, and as a piece of HTML without scripts."""

from __future__ import annotations

import math
from html import escape
from typing import Any

import numpy as np

from sightline.attacks.monte_carlo import Simulation
from sightline.auditing.reading import plan_of_text
from sightline.auditing.result import AuditResult, Exposed
from sightline.errors import InvalidInput, SightlineError
from sightline.format import number, percent_at_least
from sightline.jobs import audit
from sightline.multiset.curve import ReleaseCurve, ReleaseCurves
from sightline.rehearsing.result import Rehearsal
from sightline.report import style
from sightline.report.figures import draw_distribution
from sightline.report.rehearsal import OWNER_ONLY, conclusions, draw_rehearsal
from sightline.report.style import EXPOSED, FAINT, HEIGHT, INK, NEUTRAL, PALETTE, WIDTH, altair, rows, zoom
from sightline.report.wording import isolated, short, who


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
    picture = _picture(plot(result)) if any(result.distribution.records) else ""
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


_MOST_LINES = 40  # if there are more curves, only their quartiles are drawn


def draw_curve(curve: ReleaseCurve) -> Any:
    """Draw the bound by the number of releases; the smallest, which is best for the attacker, in orange."""
    finite = np.isfinite(curve.crb)
    points = [
        {"releases": int(count), "crb": float(crb), "place": "smallest" if count == curve.best else "other"}
        for count, crb in zip(curve.releases[finite], curve.crb[finite], strict=True)
    ]
    return _lines(points, description=describe_curve(curve))


def draw_curves(curves: ReleaseCurves) -> Any:
    """Draw the bounds of many groups: one line for each if they are few, else their quartiles."""
    alt = altair()
    crb = np.where(np.isfinite(curves.crb), curves.crb, np.nan)
    if len(curves) <= _MOST_LINES:
        lines = {f"group {i}": line for i, line in enumerate(crb)}
    else:
        finite = ~np.all(np.isnan(crb), axis=0)
        quartiles = np.full((3, crb.shape[1]), np.nan)
        quartiles[:, finite] = np.nanpercentile(crb[:, finite], [25, 50, 75], axis=0)
        lines = dict(zip(("lower quartile", "median", "upper quartile"), quartiles, strict=True))
    points = [
        {"releases": int(count), "crb": float(value), "group": name}
        for name, line in lines.items()
        for count, value in zip(curves.releases, line, strict=True)
        if np.isfinite(value)
    ]
    few = len(lines) <= len(PALETTE)
    colour = alt.Color("group:N").title(None) if few else alt.value(NEUTRAL)
    chart = alt.Chart(rows(points), name="release_curves").mark_line(
        opacity=1 if few else 0.4, point=len(curves.releases) == 1
    )
    return (
        chart.encode(
            x=_x(),
            y=_y(),
            color=colour,
            detail="group:N",
            tooltip=["group:N", "releases:Q", alt.Tooltip("crb:Q", format=".6g")],
        )
        .add_params(zoom("x"))
        .properties(width=WIDTH, height=HEIGHT, description=f"The bounds of {len(curves):,} groups.")
    )


def describe_curve(curve: ReleaseCurve) -> str:
    """The curve in words."""
    if curve.best is None:
        return "No number of releases in the range makes the values identifiable."
    lowest = curve.crb[list(curve.releases).index(curve.best)]
    after = ", at the end of the range: it may still fall" if curve.still_falling else ""
    return (
        f"The values are identifiable from {curve.first_identifiable} releases on; the bound is smallest, "
        f"{number(float(lowest))}, at {curve.best}{after}."
    )


def _lines(points: list[dict[str, Any]], *, description: str) -> Any:
    alt = altair()
    base = alt.Chart(rows(points)).encode(x=_x(), y=_y())
    places = {"other": NEUTRAL, "smallest": EXPOSED}
    dots = base.mark_point(filled=True, opacity=1).encode(
        color=alt.Color("place:N").legend(None).scale(domain=list(places), range=list(places.values())),
        size=alt.Size("place:N").legend(None).scale(domain=list(places), range=[22, 90]),
        tooltip=["releases:Q", alt.Tooltip("crb:Q", format=".6g")],
    )
    line = base.mark_line(color=FAINT, strokeWidth=1.2)
    return alt.layer(line, dots.properties(name="release_curve").add_params(zoom("x"))).properties(
        width=WIDTH, height=HEIGHT, description=description
    )


def _x() -> Any:
    return (
        altair()
        .X("releases:Q")
        .title("releases")
        .axis(tickMinStep=1, format="d")
        .scale(zero=False, nice=False, padding=8)
    )


def _y() -> Any:
    return altair().Y("crb:Q").title("Cramér–Rao bound").scale(type="log").axis(format="~g")


def draw_simulation(result: Simulation) -> Any:
    """Draw mean squared errors on one axis; leave out those that are not finite."""
    alt = altair()
    attack = isolated(result.attack)
    low, high = result.interval
    bars: list[dict[str, Any]] = [
        {"what": attack, "low": low, "at": result.mse, "high": high, "kind": "attack"},
        {"what": "Cramér–Rao bound", "at": result.crb, "kind": "bound"},
        {
            "what": "Bayes bracket",
            "low": result.bayes_lower,
            "at": result.bayes_lower,
            "high": result.bayes_upper,
            "kind": "bound",
        },
        {"what": "ignoring the answers", "at": result.trivial_mse, "kind": "bound"},
    ]
    shown = [
        {**bar, "text": number(bar["at"])}
        for bar in bars
        if all(math.isfinite(value) and value > 0 for value in bar.values() if isinstance(value, float))
    ]
    base = alt.Chart(rows(shown)).encode(
        y=alt.Y("what:N").title(None).sort([bar["what"] for bar in shown]).axis(labelLimit=200)
    )
    colours = {"attack": EXPOSED, "bound": NEUTRAL}
    points = base.mark_point(filled=True, opacity=1, size=90).encode(
        x=alt.X("at:Q").title("mean squared error").scale(type="log", padding=40).axis(format="~g"),
        color=alt.Color("kind:N").legend(None).scale(domain=list(colours), range=list(colours.values())),
        tooltip=[
            "what:N",
            alt.Tooltip("at:Q", format=".6g"),
            alt.Tooltip("low:Q", format=".6g"),
            alt.Tooltip("high:Q", format=".6g"),
        ],
    )
    interval = base.mark_rule(color=INK, strokeWidth=2).encode(x="low:Q", x2="high:Q")
    text = base.mark_text(dy=-10, color=INK).encode(x="at:Q", text="text:N")
    return alt.layer(interval, points.properties(name="simulation").add_params(zoom("x")), text).properties(
        width=WIDTH, height=44 * len(shown), description=str(result)
    )
