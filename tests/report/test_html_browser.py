"""The report in a real browser, with the network blocked: what a reader sees and can do."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from report_cases import HOSTILE, budgeted, calm, large, microgrid, with_names

import sightline as sl
from sightline.report.figures.catalogue import FIGURES
from sightline.report.html import write_report

CHROMIUM = shutil.which("chromium")
SCREENSHOTS = Path(__file__).resolve().parents[2] / "build" / "screenshots"

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="needs Debian's chromium: apt-get install chromium fonts-dejavu-core"
)


@dataclass
class Opened:
    """A page, and what it complained about."""

    page: Any
    complaints: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        chromium = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def visit(browser: Any, tmp_path: Path) -> Iterator[Any]:
    contexts = []

    def opened(result: sl.AuditResult, *, width: int = 1280, scheme: str = "light", **options: Any) -> Opened:
        path = tmp_path / "report.html"
        write_report(result, path, force=True, **options)
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True
        )
        contexts.append(context)
        found = Opened(page=context.new_page())
        found.page.on("console", lambda message: found.complaints.append(f"{message.type}: {message.text}"))
        found.page.on("pageerror", lambda error: found.complaints.append(f"error: {error}"))
        found.page.on("dialog", lambda dialog: found.complaints.append(f"dialog: {dialog.message}"))

        def watch(request: Any) -> None:
            if not request.url.startswith(("file:", "data:")):
                found.complaints.append(f"request: {request.url}")

        found.page.on("request", watch)
        found.page.goto(path.as_uri())
        found.page.wait_for_selector("html[data-drawn]", timeout=60_000)
        return found

    yield opened
    for context in contexts:
        context.close()


CASES = {"microgrid": microgrid, "calm": calm, "budgeted": budgeted, "large": large}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("name", CASES)
def test_it_is_drawn_without_the_network_and_without_complaints(
    visit: Any, name: str, width: int, scheme: str
) -> None:
    seen = visit(CASES[name](), width=width, scheme=scheme)
    assert seen.complaints == []
    for figure in FIGURES:
        place = seen.page.locator(f'[data-figure="{figure.name}"]')
        drawing = place.locator("svg, canvas").first
        box = drawing.bounding_box()
        assert box is not None
        assert 200 < box["width"] <= width
        assert box["height"] > 50
        if place.locator("svg").count():
            assert place.locator("svg .role-mark path, svg .role-mark line").count() > 0
    # Nothing sticks out: a page that scrolls sideways cannot be read on a phone.
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    seen.page.screenshot(path=SCREENSHOTS / f"report-{name}-{width}-{scheme}.png", full_page=True)


def test_the_table_sorts_by_every_column_and_says_so(visit: Any) -> None:
    page = visit(microgrid()).page

    def column(number: int) -> list[str]:
        cells = page.locator(f"#exposed tbody tr > :nth-child({number})")
        return [str(cell.get_attribute("data-sort")) for cell in cells.all()]

    buttons = page.locator("#exposed thead button")
    for number in range(1, buttons.count() + 1):
        before = sorted(column(number))
        page.locator(f"#exposed thead th:nth-child({number}) button").click()
        # Which way first depends on whether it is sorted already: the page opens sorted by what remains.
        state = page.locator(f"#exposed thead th:nth-child({number})").get_attribute("aria-sort")
        filled = [value for value in column(number) if value != ""]
        numbers = [float(v) if number > 1 else v for v in filled]
        assert numbers == sorted(numbers, reverse=state == "descending")
        assert column(number)[len(filled) :] == [""] * (len(before) - len(filled)), "empty ones come last"
        assert sorted(column(number)) == before
        assert page.locator('#exposed thead th[aria-sort="ascending"], [aria-sort="descending"]').count() == 1


def test_the_table_filters(visit: Any) -> None:
    page = visit(microgrid()).page
    page.fill("#filter", "h13")
    assert page.locator("#exposed tbody tr:visible").count() == 1
    assert "H13" in page.locator("#exposed tbody tr:visible").inner_text()
    assert page.locator("#matches").inner_text() == f"1 of {len(microgrid().exposed)}"
    page.fill("#filter", "")
    assert page.locator("#exposed tbody tr:visible").count() == len(microgrid().exposed)


def test_everything_is_reached_by_the_keyboard(visit: Any) -> None:
    page = visit(microgrid()).page
    reached = set()
    for _ in range(40):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.outerHTML.slice(0, 40)"))
    assert sum("<button" in one for one in reached) >= 2
    assert any('id="filter"' in one for one in reached)
    page.locator("#exposed thead button").first.focus()
    page.keyboard.press("Enter")
    assert page.locator("#exposed thead th").first.get_attribute("aria-sort") == "ascending"


def test_a_recipe_is_copied(visit: Any) -> None:
    seen = visit(microgrid())
    button = seen.page.locator("[data-copy]").first
    wanted = button.get_attribute("data-copy")
    seen.page.evaluate("navigator.clipboard.writeText = async (text) => { window.copied = text }")
    button.click()
    assert seen.page.evaluate("window.copied") == wanted == '13 × "March" − 12 × "January"'


def test_hovering_tells_more(visit: Any) -> None:
    seen = visit(microgrid())
    mark = seen.page.locator('[data-figure="release-map"] svg .mark-rect.role-mark path').first
    mark.scroll_into_view_if_needed()
    mark.hover()
    tip = seen.page.locator("#vg-tooltip-element.visible")
    tip.wait_for()
    assert "H13" in tip.inner_text()
    box = tip.bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 1280


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_name_is_text(visit: Any, text: str) -> None:
    seen = visit(with_names(microgrid(), text), width=390)
    page = seen.page
    assert seen.complaints == []
    assert "taken" not in page.title() or "document.title" in page.title()
    words = re.sub(r"\s+", " ", page.locator("#exposed tbody tr th").first.inner_text())
    start = re.sub(r"[\x00-\x1f\u2028\u202e\ud800]", " ", text)
    assert re.sub(r"\s+", " ", start).split(" ")[0][:20] in words
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    mark = page.locator('[data-figure="release-map"] svg .mark-rect.role-mark path').first
    mark.scroll_into_view_if_needed()
    mark.hover()
    page.locator("#vg-tooltip-element.visible").wait_for()
    assert page.locator("#vg-tooltip-element img, #vg-tooltip-element script").count() == 0
    assert seen.complaints == []


def test_a_large_table_has_few_marks(visit: Any) -> None:
    page = visit(large()).page
    assert page.locator("svg *").count() < 15_000
    assert page.locator('[data-figure="release-map"] canvas').count() == 1


def test_on_paper_the_still_drawings_are_shown(visit: Any) -> None:
    page = visit(microgrid(), scheme="dark").page
    assert page.locator(".still:visible").count() == 0
    page.emulate_media(media="print")
    assert page.locator(".still:visible").count() == len(FIGURES)
    assert page.locator(".live:visible").count() == 0
    assert page.locator("button.copy:visible").count() == 0
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def contrast(one: tuple[float, ...], two: tuple[float, ...]) -> float:
    def luminance(colour: tuple[float, ...]) -> float:
        linear = [
            c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (v / 255 for v in colour)
        ]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted([luminance(one), luminance(two)])
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_has_contrast_enough(visit: Any, scheme: str) -> None:
    page = visit(microgrid(), scheme=scheme).page
    pairs = page.evaluate(
        """() => [...document.querySelectorAll("body *")].filter((e) => e.checkVisibility() &&
          !e.closest("svg, script") && [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim())).map((e) => {
            let behind = e;
            while (behind && getComputedStyle(behind).backgroundColor === "rgba(0, 0, 0, 0)") behind = behind.parentElement;
            return [getComputedStyle(e).color, getComputedStyle(behind ?? document.body).backgroundColor, e.outerHTML.slice(0, 60)];
          })"""
    )
    assert len(pairs) > 50
    for front, back, element in pairs:
        colours = [tuple(map(float, re.findall(r"[\d.]+", text)[:3])) for text in (front, back)]
        assert contrast(*colours) >= 4.5, (element, front, back)
