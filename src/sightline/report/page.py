"""A page with figures: one HTML file that needs no network.

A policy in the page forbids every request, and every script except its own, which it lists by their hashes.
The policy forbids evaluated code too, so Vega interprets its expressions."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from functools import partial
from pathlib import Path
from typing import Any

from sightline.auditing.result import AuditResult, VerdictStatus
from sightline.auditing.result_parts import MOST_LISTED, TOP, Setting, SettingKind
from sightline.errors import MissingExtra, require
from sightline.format import count, number, number_at_most, parameter, percent, percent_at_least
from sightline.report import style
from sightline.report.figures import FIGURES, ReportFigure
from sightline.report.files import write_new
from sightline.report.first_screen import (
    about_line,
    alike_in_all,
    broken_rules,
    first_lists,
    public_line,
)
from sightline.report.wording import (
    LINE_WIDTH,
    LONGEST_TEXT,
    accuracy_words,
    before_after,
    belief_line,
    budget_words,
    domain_words,
    ends_words,
    guessed,
    how,
    independent_words,
    limit_line,
    noise_range,
    one_line,
    relative_error_words,
    rules_of,
    secret_line,
    short,
    short_recipes,
    spent_by_accountant,
    status_words,
    still_known,
    unbroken,
    unverified_line,
    verdict_words,
    view_line,
    who,
)

_ASSETS = Path(__file__).parent / "assets"
_DIRECTION = re.compile("[\u202a-\u202e\u2066-\u2069]")  # embeddings, overrides and isolates
# With this limit the largest page that was tried has just under two megabytes; it says what it leaves out.
_MOST_OF_THE_PLAN = 100_000


def _figure(figure: ReportFigure, result: AuditResult) -> dict[str, Any]:
    chart = style.specification(figure.draw(result))
    page = {**chart, "width": "container", "autosize": {"type": "fit-x", "contains": "padding"}}
    return {
        "title": figure.title,
        "description": figure.describe(result),
        "still": style.svg_source(style.svg(chart)),
        "chart": page,
    }


def _whole(text: str) -> str:
    """A text that is shown in full where the pointer rests, as one line, unless it is very long."""
    line = one_line(text[:LONGEST_TEXT])
    return line if len(text) <= LONGEST_TEXT else f"{line}…"


def _without_directions(value: Any) -> Any:
    r"""What a page shows, with an escape in place of each character that changes the direction of writing.

    The escape is the one that a plan in TOML has for it. Our own markup has no such character.

    >>> _without_directions("a\u202eb"), _without_directions(3)
    ('a\\u202eb', 3)
    """
    if type(value) is not str:
        return value
    return _DIRECTION.sub(lambda found: f"\\u{ord(found.group()):04x}", value)


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
        finalize=_without_directions,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        short=short,
        one_line=one_line,
        number=number,
        at_most=partial(number_at_most, digits=4),
        parameter=parameter,
        noise_range=noise_range,
        budget_words=budget_words,
        percent=percent,
        counted=count,
    )
    environment.filters.update(unverified_line=unverified_line, unbroken=unbroken, whole=_whole)
    environment.globals.update(
        who=who,
        short_recipes=short_recipes,
        how=how,
        still_known=still_known,
        guessed=guessed,
        spent=spent_by_accountant,
        secret_line=secret_line,
        accuracy_words=accuracy_words,
        domain_words=domain_words,
        independent_words=independent_words,
        relative_error_words=relative_error_words,
        count=count,
        most_alike=TOP,
        alike_in_all=alike_in_all,
    )
    return environment


def report_html(result: AuditResult, *, publishable: bool = False, date: str | None = None) -> str:
    """Return the report as the text of one HTML file; equal results give equal texts.

    ``publishable`` leaves out what is for the table's owner only. ``date`` is printed as it is given.
    """
    require(
        not result.not_computed or bool(result.more_to_change),
        "a result with every section, for a page",
        got=f"one without {result.not_computed[0]}" if result.not_computed else "",
        fix="audit the plan with full=True",
    )
    shown = result.publishable() if publishable else result
    css, script = _asset("report.css"), _asset("report.js")
    drawn = {figure.name: _figure(figure, shown) for figure in FIGURES if figure.drawable(shown)}
    placed: list[str] = []
    text = str(
        _environment()
        .get_template("report.html")
        .render(
            result=shown,
            publishable=publishable,
            date=date,
            headline=headline(shown),
            status=verdict_words(shown),
            limit_line=limit_line(shown),
            belief_line=belief_line(shown),
            about=about_line(shown),
            public=public_line(shown),
            first=first_lists(shown, longest=LINE_WIDTH, more=""),
            broken=broken_rules(shown)[:TOP],
            what_if=what_if_tables(shown),
            css=css,
            figures=drawn,
            placed=placed,
            data=_data({name: figure["chart"] for name, figure in drawn.items()}),
            bundle=style.bundle(),
            script=script,
            most_releases=MOST_LISTED,
            most_of_plan=_MOST_OF_THE_PLAN,
            most_of_recipe=LONGEST_TEXT,
            policy=_policy(scripts=(style.bundle(), script), styles=(css,)),
        )
    )
    lost = {figure.name for figure in FIGURES} - set(placed)
    if lost:
        raise AssertionError(f"the page has no place for the figures {sorted(lost)}")
    return text.encode("utf-8", errors="replace").decode("utf-8")  # a name may contain a lone surrogate


_PRIORS = {
    "uniform": "believes that values are spread evenly",
    "cos2": "believes that values are likelier in the middle",
    "two-point": "believes that values are at either end",
}


def what_if_tables(result: AuditResult) -> list[tuple[str, list[tuple[str, ...]]]]:
    """The settings that were audited, as tables: other noise, and one change with the plan's own noise."""
    settings = () if result.what_if is None else result.what_if.settings
    noise = [one for one in settings if one.kind in (SettingKind.EPSILON, SettingKind.FACTOR)]
    changes = [one for one in settings if one not in noise]
    own_setting = next((one for one in settings if one.own), None)
    untried = "; the rules were not tried" if rules_of(result).in_all else ""
    tables = (
        (f"Other amounts of noise{untried}", noise),
        (f"One change, with the plan's own budget or noise{untried}", changes),
    )
    return [
        (title, [_setting_cells(result, one, own_setting) for one in lines])
        for title, lines in tables
        if lines
    ]


def _setting_cells(result: AuditResult, one: Setting, own: Setting | None) -> tuple[str, ...]:
    below = "" if one.status is None else f"{one.below_limit:,} of {count(result.records, 'record')}"
    keeps = "everything: no number depends on an unknown secret" if one.least is None else str(one.least)
    noise = ends_words(one.least_noise_stddev, one.most_noise_stddev, between=" to ")
    status = None if one.status is None else VerdictStatus(one.status)
    return (
        _setting_words(one),
        status_words(status),
        below,
        keeps,
        short(one.worst, 80),
        noise + _accuracy_of_setting(result, one, own),
    )


def _setting_words(one: Setting) -> str:
    name = short(one.name, 80)
    doubt = " (not proven)" * (one.kind is SettingKind.EPSILON and not one.proven)
    match one.kind:
        case SettingKind.EPSILON:
            return f"epsilon = {name}{', this plan' * one.own}{doubt}"
        case SettingKind.FACTOR:
            return f"{name} × today's noise{', this plan' * one.own}"
        case SettingKind.LEAVE_OUT:
            return f'without "{name}"'
        case SettingKind.DOES_NOT_KNOW:
            return f"the attacker does not know {name}"
        case SettingKind.PRIOR:
            return f"the attacker {_PRIORS[one.name]}"


def _accuracy_of_setting(result: AuditResult, one: Setting, own: Setting | None) -> str:
    """How large the noise is beside the numbers themselves, where all of it has changed by one factor."""
    errors = [each.accuracy.median_relative_error for each in result.releases if each.accuracy is not None]
    if own is None or not errors or one.kind not in (SettingKind.EPSILON, SettingKind.FACTOR):
        return ""
    ends = [(getattr(own, name), getattr(one, name)) for name in ("least_noise_stddev", "most_noise_stddev")]
    factors = [now / before for before, now in ends if now and before]
    if len(factors) < 2 or not math.isclose(*factors, rel_tol=1e-6):
        return ""
    shares = dict.fromkeys(percent(factors[0] * error) for error in (min(errors), max(errors)))
    return f"; {' to '.join(shares)} of a release's median number"


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
    if not view_line(result) and result.presence and not result.frame:
        kept = percent_at_least(result.guaranteed_by_noise or 0.0)
        return kept, "of the uncertainty about who is in the table is left by the noise, which alone counts"
    if not view_line(result):
        return (
            "0",
            f"of {count(result.records, 'record')} are exposed: nothing that is published shows a value",
        )
    return " → ".join(before_after(result).numbers), short(view_line(result), LONGEST_TEXT)
