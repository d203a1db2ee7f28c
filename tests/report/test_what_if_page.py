"""The what-if of the page: what its tables say is what an audit of the same setting says."""

from __future__ import annotations

import re
from functools import cache
from html import unescape

import pytest

import sightline as sl
from sightline.advising import what_if as engine
from sightline.auditing.result import AllSecrets
from sightline.auditing.result_parts import SettingKind
from sightline.format import count, number, percent
from sightline.report.page import report_html
from tests.auditing.what_if_plans import audit_of, budgeted, microgrid_months
from tests.report.report_cases import HOSTILE

VERDICTS = {
    "passed": "The limit holds",
    "failed": "Below the limit",
    "not shown": "The limit is not shown to hold",
}


@cache
def months() -> sl.AuditResult:
    """Three months of the micro-grid, with few stops."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "_STOPS", (0.5, 1.0, 20.0))
        return sl.audit(microgrid_months("January", "March", "May"), names=True, what_if=True, full=True)


@cache
def priced() -> sl.AuditResult:
    """A budget, with few stops."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "_STOPS", (2.0,))
        return sl.audit(budgeted(), names=True, what_if=True, full=True)


@cache
def page_of(name: str) -> str:
    return report_html({"months": months, "priced": priced}[name]())


def rows_of(page: str) -> list[list[str]]:
    """The cells of the tables of the what-if."""
    part = page[page.index('<section id="what-if"') :]
    part = part[: part.index("</section>")]
    rows = re.findall(r'<tr><th scope="row">(.*?)</tr>', part, re.DOTALL)
    return [
        [unescape(re.sub("<[^>]*>", "", cell)) for cell in re.split(r"</t[hd]><td[^>]*>", row)]
        for row in rows
    ]


def expected(audit: sl.AuditResult, *, noise_alone: bool) -> list[str]:
    """The cells of an audit of the setting's plan; where noise alone changes also how accurate that is."""
    errors = [one.accuracy.median_relative_error for one in audit.releases if one.accuracy is not None]
    shares = " to ".join(dict.fromkeys(percent(end) for end in (min(errors), max(errors)))) if errors else ""
    accuracy = f"; {shares} of a release's median number" if noise_alone and errors else ""
    noises = [r.smallest_noise_stddev for r in audit.releases] + [
        r.largest_noise_stddev for r in audit.releases
    ]
    given = [noise for noise in noises if noise is not None]
    assert audit.verdict.status is not None
    return [
        VERDICTS[audit.verdict.status.value],
        f"{audit.verdict.below_limit:,} of {count(audit.records, 'record')}",
        str(audit.least_remaining_uncertainty),
        " to ".join(dict.fromkeys(number(end) for end in (min(given), max(given)))) + accuracy,
    ]


@pytest.mark.sampled(1)
@pytest.mark.thorough
@pytest.mark.parametrize("name", ["months", "priced"])
def test_every_row_says_what_its_audit_says(name: str) -> None:
    result, plan = {
        "months": lambda: (months(), microgrid_months("January", "March", "May")),
        "priced": lambda: (priced(), budgeted()),
    }[name]()
    assert result.what_if is not None
    rows = rows_of(page_of(name))
    assert len(rows) == len(result.what_if.settings)
    for row, setting in zip(rows, result.what_if.settings, strict=True):
        noise_alone = setting.kind in (SettingKind.EPSILON, SettingKind.FACTOR)
        _, verdict, below, keeps, worst, noise = row
        assert [verdict, below, keeps, noise] == expected(audit_of(plan, setting), noise_alone=noise_alone)
        assert worst == setting.worst
    assert sum("this plan" in row[0] for row in rows) == 1


@pytest.mark.slow
def test_hostile_names_are_text() -> None:
    found = months().what_if
    assert found is not None
    names = list(HOSTILE.values())
    settings = tuple(
        one.model_copy(
            update={
                "name": names[place % len(names)] if one.kind is SettingKind.LEAVE_OUT else one.name,
                "worst": names[place % len(names)],
            }
        )
        for place, one in enumerate(found.settings)
    )
    page = report_html(
        months().model_copy(update={"what_if": found.model_copy(update={"settings": settings})})
    )
    part = page[page.index('<section id="what-if"') :]
    assert not re.search("<(img|a|script)", part[: part.index("</section>")])
    assert len(rows_of(page)) == len(settings)


@pytest.mark.slow
def test_of_several_secrets_it_says_which_one_it_is_about() -> None:
    words = "All of it is about <bdi>evening_watts</bdi> alone"
    several = AllSecrets(epsilon=2.0, delta=1e-5, text="The plan is about 2 secrets.")
    assert words in report_html(months().model_copy(update={"all_secrets": several}))
    assert words not in page_of("months")


@pytest.mark.slow
def test_a_publishable_page_has_none() -> None:
    assert 'id="what-if"' not in report_html(months(), publishable=True)


@pytest.mark.slow
def test_without_a_limit_nothing_is_judged() -> None:
    plan = microgrid_months("January", "March")
    del plan["limits"]
    rows = rows_of(report_html(sl.audit(plan, what_if=True, full=True)))
    assert {(row[1], row[2]) for row in rows} == {("No limit was set", "")}
