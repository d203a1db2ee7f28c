"""The what-if in a real browser: what the page shows is what an audit of the same setting says."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from html import unescape
from pathlib import Path
from typing import Any

import pytest

import sightline as sl
from sightline.auditing import what_if as engine
from sightline.auditing.result import AllSecrets
from sightline.auditing.result_parts import Setting
from sightline.format import count, number, percent
from sightline.report.page import report_html
from sightline.report.what_if import setting_key
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
        return sl.audit(microgrid_months("January", "March", "May"), names=True, what_if=True)


@cache
def page_of(name: str) -> str:
    """The text of a page."""
    results = {"months": months, "priced": priced, "hostile": hostile}
    return report_html(results[name]())


@cache
def priced() -> sl.AuditResult:
    """A budget, so that there are accountants to choose from; few stops."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "_STOPS", (2.0,))
        return sl.audit(budgeted(), names=True, what_if=True)


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Iterator[Any]:
    contexts = []

    def visit(name: str, **options: Any) -> Any:
        path = tmp_path / "report.html"
        path.write_text(page_of(name), encoding="utf-8")
        context = browser.new_context(
            offline=True, **({"viewport": {"width": 1280, "height": 900}} | options)
        )
        contexts.append(context)
        page = context.new_page()
        page.complaints = []
        page.on("console", lambda message: page.complaints.append(message.text))
        page.on("pageerror", lambda error: page.complaints.append(str(error)))
        page.goto(path.as_uri())
        if options.get("java_script_enabled", True):
            page.wait_for_selector("html[data-drawn]", timeout=60_000)
        return page

    yield visit
    for context in contexts:
        context.close()


def choose(page: Any, result: sl.AuditResult, setting: Setting) -> None:
    """Move the page's own controls to a setting."""
    found = result.what_if
    assert found is not None
    noise = found.noises[setting.noise]
    names = list(dict.fromkeys(one.accountant for one in found.noises))
    alike = [one for one in found.noises if one.accountant == noise.accountant]
    if page.locator("#what-if-accountant").count():
        page.select_option("#what-if-accountant", str(names.index(noise.accountant)))
    page.locator("#what-if-noise").focus()
    page.keyboard.press("Home")
    for _ in range(alike.index(noise)):
        page.keyboard.press("ArrowRight")
    for box in page.locator("[name=what-if-switch]").all():
        box.set_checked(int(box.get_attribute("value")) in setting.switches)


def shown(page: Any) -> dict[str, Any]:
    """Everything that the page says of the setting, read in one go."""
    return dict(
        page.evaluate(
            """() => {
              const text = (name) => document.getElementById(`what-if-${name}`)?.textContent ?? "";
              const bars = [...document.querySelectorAll("#what-if-histogram text:not(.axis)")];
              return {
                verdict: text("verdict").trim(), below: text("below"), keeps: text("keeps"),
                worst: text("worst"), noise: text("amount"), budget: text("budget"), stop: text("stop"),
                missing: !document.getElementById("what-if-missing").hidden,
                records: bars.map((bar) => Number(bar.textContent.replaceAll(",", ""))),
                spoken: document.getElementById("what-if-histogram").getAttribute("aria-label"),
              };
            }"""
        )
    )


def expected(audit: sl.AuditResult, *, switched: bool) -> dict[str, Any]:
    """The same from an audit of the setting's plan; without switches also how accurate that is."""
    errors = [one.accuracy.median_relative_error for one in audit.releases if one.accuracy is not None]
    shares = " to ".join(dict.fromkeys(percent(end) for end in (min(errors), max(errors)))) if errors else ""
    accuracy = "" if switched or not errors else f"; {shares} of a release's median number"
    noises = [r.smallest_noise_stddev for r in audit.releases] + [
        r.largest_noise_stddev for r in audit.releases
    ]
    given = [noise for noise in noises if noise is not None]
    assert audit.verdict.status is not None
    return {
        "verdict": VERDICTS[audit.verdict.status.value],
        "below": f"{audit.verdict.below_limit:,} of {count(audit.records, 'record')}",
        "keeps": str(audit.least_remaining_uncertainty),
        "noise": " to ".join(dict.fromkeys(number(end) for end in (min(given), max(given)))) + accuracy,
        "records": list(audit.distribution.records),
    }


class TestInTheBrowser:
    pytestmark = pytest.mark.slow

    @pytest.mark.parametrize("name", ["months", "priced"])
    def test_every_setting_shows_what_its_audit_says(
        self, name: str, opened: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Every stop of the slider, every switch, and pairs of switches, to the digit shown."""
        result, plan = {
            "months": lambda: (months(), microgrid_months("January", "March", "May")),
            "priced": lambda: (priced(), budgeted()),
        }[name]()
        found = result.what_if
        assert found is not None
        page = opened(name)
        sizes = set()
        for setting in found.settings:
            choose(page, result, setting)
            seen, wanted = (
                shown(page),
                expected(audit_of(plan, found, setting), switched=bool(setting.switches)),
            )
            assert {name: seen[name] for name in wanted} == wanted, (
                found.noises[setting.noise],
                setting.switches,
            )
            assert not seen["missing"]
            assert seen["worst"] == ("nobody" if setting.worst is None else found.worst[setting.worst])
            noise = found.noises[setting.noise]
            proven = audit_of(plan, found, setting).budget.proven
            assert bool(seen["budget"]) == (noise.accountant is not None and not proven)
            sizes.add(len(setting.switches))
        assert sizes == {0, 1, 2}
        assert page.complaints == []

    def test_a_combination_that_was_not_computed_is_said_to_be_so(self, opened: Any) -> None:
        page = opened("months")
        for box in page.locator("[name=what-if-switch]").all()[:3]:
            box.check()
        seen = shown(page)
        assert seen["missing"]
        assert seen["verdict"] == "Not computed"
        assert (seen["below"], seen["keeps"], seen["worst"], seen["noise"]) == ("", "", "", "")
        assert sum(seen["records"]) == 0
        page.click("#what-if-reset")
        found = months().what_if
        assert found is not None
        assert not shown(page)["missing"]
        assert page.locator("[name=what-if-switch]:checked").count() == 0
        assert shown(page)["stop"] == "1 × today's noise"

    def test_the_keyboard_and_a_screen_reader_reach_it(self, opened: Any) -> None:
        page = opened("months")
        page.locator("#what-if-noise").focus()
        page.keyboard.press("End")
        last = shown(page)["stop"]
        assert page.locator("#what-if-noise").get_attribute("aria-valuetext") == last == "20 × today's noise"
        assert page.locator("#what-if-answer").get_attribute("role") == "status"
        assert (
            re.search(r"Records by what they keep\. .*: 18", shown(page)["spoken"])
            or "; " in shown(page)["spoken"]
        )
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.name") == "what-if-switch"
        page.keyboard.press("Space")
        assert page.locator("[name=what-if-switch]:checked").count() == 1
        named = page.evaluate(
            "[...document.querySelectorAll('#what-if input, #what-if select')]"
            ".every((e) => e.labels.length === 1)"
        )
        assert named

    def test_without_scripts_and_on_paper_there_are_tables(self, opened: Any) -> None:
        still = opened("months", java_script_enabled=False)
        assert still.locator("#what-if-live:visible").count() == 0
        assert still.locator("#what-if-tables tbody tr:visible").count() == len(months().what_if.noises) + 5
        page = opened("months")
        assert page.locator("#what-if-tables:visible").count() == 0
        page.click("#what-if-list")
        assert page.locator("#what-if-tables:visible").count() == 1
        page.click("#what-if-list")
        page.emulate_media(media="print")
        assert page.locator("#what-if-live:visible").count() == 0
        assert page.locator("#what-if-tables tbody tr:visible").count() == len(months().what_if.noises) + 5

    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_it_fits_a_phone(self, opened: Any, scheme: str) -> None:
        page = opened("months", viewport={"width": 390, "height": 800}, color_scheme=scheme)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert page.complaints == []

    def test_hostile_names_are_text(self, opened: Any) -> None:
        page = opened("hostile")
        assert page.title().startswith("Exposure report: ")
        assert page.complaints == []
        assert page.locator("#what-if :is(img, a)").count() == 0


@cache
def hostile() -> sl.AuditResult:
    """Every name of the what-if hostile."""
    found = months().what_if
    assert found is not None
    names = list(HOSTILE.values())
    switches = [one.model_copy(update={"name": names[n]}) for n, one in enumerate(found.switches[:3])]
    worst = tuple(names[n % len(names)] for n in range(len(found.worst)))
    changed = found.model_copy(update={"switches": (*switches, *found.switches[3:]), "worst": worst})
    return months().model_copy(update={"what_if": changed})


@pytest.mark.slow
class TestThePage:
    def test_it_is_at_most_two_megabytes(self) -> None:
        assert len(page_of("months").encode()) < 2_000_000

    def test_the_data_cannot_end_its_element(self) -> None:
        text = page_of("hostile")
        (data,) = re.findall(
            r'<script type="application/json" id="what-if-data">(.*?)</script>', text, re.DOTALL
        )
        assert "<" not in data
        assert len(json.loads(data)["settings"]) == len(months().what_if.settings)  # type: ignore[union-attr]

    def test_the_tables_have_every_noise_and_every_switch(self) -> None:
        found = months().what_if
        assert found is not None
        text = page_of("months")
        part = text[text.index('<div id="what-if-tables">') : text.index('id="what-if-data"')]
        rows = [unescape(row) for row in re.findall(r'<tr><th scope="row">(.*?)</tr>', part, re.DOTALL)]
        assert len(rows) == len(found.noises) + len(found.switches)
        own = next(row for row in rows if row.startswith("<bdi>1 × today's noise"))
        for word in expected(months(), switched=False).values():
            assert isinstance(word, list) or str(word) in own

    def test_it_says_what_was_computed(self) -> None:
        text = page_of("months")
        for words in ("with no switch", "each switch by itself, with every amount of noise", "two switches"):
            assert words in text
        few = months().what_if.model_copy(  # type: ignore[union-attr]
            update={"switches_at_every_noise": False, "pairs": False}
        )
        text = report_html(months().model_copy(update={"what_if": few}))
        assert "each switch by itself, with the plan&#39;s own noise" in text
        assert "two switches together" not in text
        none = few.model_copy(update={"single_switches": False})
        text = report_html(months().model_copy(update={"what_if": none}))
        assert "each switch" not in text
        assert 'name="what-if-switch"' not in text.split("<script>")[0]

    def test_of_several_secrets_it_says_which_one_it_is_about(self) -> None:
        words = "All of it is about <bdi>evening_watts</bdi> alone"
        several = AllSecrets(epsilon=2.0, delta=1e-5, text="The plan is about 2 secrets.")
        assert words in report_html(months().model_copy(update={"all_secrets": several}))
        assert words not in page_of("months")

    def test_a_publishable_page_has_none(self) -> None:
        assert 'id="what-if"' not in report_html(months(), publishable=True)

    def test_without_a_limit_nothing_is_judged(self) -> None:
        plan = microgrid_months("January", "March")
        del plan["limits"]
        text = report_html(sl.audit(plan, what_if=True))
        assert "No limit was set" in text
        assert 'id="what-if-below"' not in text

    def test_names_of_settings_are_unique(self) -> None:
        found = priced().what_if
        assert found is not None
        text = page_of("priced")
        (data,) = re.findall(r'id="what-if-data">(.*?)</script>', text, re.DOTALL)
        assert len(json.loads(data)["settings"]) == len(found.settings)
        assert setting_key(0, 1, ()) in json.loads(data)["settings"]
