"""The report in a real browser, with the network blocked: what a reader sees and can do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from sightline.report.figures import FIGURES
from tests.report.first_screen import SCREENSHOT, difference, first_screen
from tests.report.report_cases import RESULTS, microgrid, page

SCREENSHOTS = Path(__file__).resolve().parents[2] / "build" / "screenshots"

pytestmark = pytest.mark.slow


@dataclass
class Opened:
    """A page, and what it complained about."""

    page: Any
    complaints: list[str] = field(default_factory=list)


@pytest.fixture
def visit(browser: Any, tmp_path: Path) -> Iterator[Any]:
    contexts = []

    def opened(name: str, *, width: int = 1280, scheme: str = "light") -> Opened:
        path = tmp_path / "report.html"
        path.write_text(page(name), encoding="utf-8")
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


PHONE, DESKTOP = 390, 1280


@pytest.mark.parametrize(
    ("name", "width", "scheme"),
    [
        *(("microgrid", width, scheme) for width in (PHONE, DESKTOP) for scheme in ("light", "dark")),
        *((name, PHONE, "light") for name in ("calm", "one record")),
        *((name, DESKTOP, "dark") for name in ("budgeted", "large")),
    ],
)
def test_it_is_drawn_without_the_network_and_without_complaints(
    visit: Any, name: str, width: int, scheme: str
) -> None:
    seen = visit(name, width=width, scheme=scheme)
    assert seen.complaints == []
    for figure in (one for one in FIGURES if one.drawable(RESULTS[name]())):
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
    seen.page.screenshot(
        path=SCREENSHOTS / f"report-{name.replace(' ', '-')}-{width}-{scheme}.png", full_page=True
    )


@pytest.mark.parametrize("name", ["microgrid", "calm", "one record", "one release", "budgeted"])
def test_nothing_that_is_written_in_a_figure_is_cut_off_on_a_phone(visit: Any, name: str) -> None:
    cut = visit(name, width=PHONE).page.evaluate(
        """[...document.querySelectorAll(".live svg")].flatMap((svg) => {
          const outer = svg.getBoundingClientRect();
          return [...svg.querySelectorAll("text")].filter((text) => {
            const inner = text.getBoundingClientRect();
            const shown = getComputedStyle(text).opacity !== "0" && text.textContent;
            return shown && (inner.left < outer.left - 1 || inner.right > outer.right + 1);
          }).map((text) => text.textContent);
        })"""
    )
    assert cut == []


def test_the_table_sorts_by_every_column_and_says_so(visit: Any) -> None:
    tab = visit("microgrid").page

    def column(number: int) -> list[str]:
        cells = tab.locator(f"#exposed tbody tr > :nth-child({number})")
        return [str(cell.get_attribute("data-sort")) for cell in cells.all()]

    buttons = tab.locator("#exposed thead button")
    for number in range(1, buttons.count() + 1):
        before = sorted(column(number))
        tab.locator(f"#exposed thead th:nth-child({number}) button").click()
        # Which way first depends on whether it is sorted already: the page opens sorted by what remains.
        state = tab.locator(f"#exposed thead th:nth-child({number})").get_attribute("aria-sort")
        filled = [value for value in column(number) if value != ""]
        numbers = [float(v) if number > 1 else v for v in filled]
        assert numbers == sorted(numbers, reverse=state == "descending")
        assert column(number)[len(filled) :] == [""] * (len(before) - len(filled)), "empty ones come last"
        assert sorted(column(number)) == before
        assert tab.locator('#exposed thead th[aria-sort="ascending"], [aria-sort="descending"]').count() == 1


def test_the_table_filters(visit: Any) -> None:
    tab = visit("microgrid").page
    tab.fill("#filter", "h13")
    assert tab.locator("#exposed tbody tr:visible").count() == 1
    assert "H13" in tab.locator("#exposed tbody tr:visible").inner_text()
    assert tab.locator("#matches").inner_text() == f"1 of {len(microgrid().exposed)}"
    tab.fill("#filter", "")
    assert tab.locator("#exposed tbody tr:visible").count() == len(microgrid().exposed)


def test_everything_is_reached_by_the_keyboard(visit: Any) -> None:
    tab = visit("microgrid").page
    reached = set()
    for _ in range(40):
        tab.keyboard.press("Tab")
        reached.add(tab.evaluate("document.activeElement.outerHTML.slice(0, 40)"))
    assert sum("<button" in one for one in reached) >= 2
    assert any('id="filter"' in one for one in reached)
    tab.locator("#exposed thead button").first.focus()
    tab.keyboard.press("Enter")
    assert tab.locator("#exposed thead th").first.get_attribute("aria-sort") == "ascending"


def test_a_recipe_is_copied(visit: Any) -> None:
    seen = visit("microgrid")
    button = seen.page.locator("[data-copy]").first
    wanted = button.get_attribute("data-copy")
    seen.page.evaluate("navigator.clipboard.writeText = async (text) => { window.copied = text }")
    button.click()
    assert seen.page.evaluate("window.copied") == wanted == '13 × "March" − 12 × "January"'


def test_hovering_tells_more(visit: Any) -> None:
    seen = visit("microgrid")
    mark = seen.page.locator('[data-figure="timeline"] svg .mark-symbol path').first
    mark.scroll_into_view_if_needed()
    mark.hover()
    tip = seen.page.locator("#vg-tooltip-element.visible")
    tip.wait_for()
    assert "keeps at least" in tip.inner_text()
    box = tip.bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 1280


def test_hostile_names_are_text(visit: Any) -> None:
    seen = visit("hostile", width=PHONE)
    tab = seen.page
    assert tab.title().startswith("Exposure report: ")
    shown = " ".join(tab.locator("bdi").all_inner_texts())
    for name in (
        "<script>document.title",
        "onerror=",
        '" onmouseover="',
        "{{ 7 * 7 }}",
        "🏠",
        "بيت",
        "'] || alert(1)",
    ):
        assert name in shown
    assert "\u202e" not in shown
    assert max(len(text) for text in tab.locator("bdi").all_inner_texts()) <= 400
    assert tab.evaluate("document.documentElement.scrollWidth") <= PHONE
    marks = tab.locator('[data-figure="timeline"] svg .mark-symbol path')
    for place in range(0, marks.count(), 2):
        marks.nth(place).hover()
        tab.locator("#vg-tooltip-element.visible").wait_for()
        assert tab.locator("#vg-tooltip-element :is(img, script, a)").count() == 0
    assert seen.complaints == []


def test_a_large_table_has_few_marks(visit: Any) -> None:
    tab = visit("large").page
    assert tab.locator("svg *").count() < 15_000


def test_on_paper_the_still_drawings_are_shown(visit: Any) -> None:
    tab = visit("microgrid", scheme="dark").page
    assert tab.locator(".still:visible").count() == 0
    tab.emulate_media(media="print")
    assert tab.locator(".still:visible").count() == sum(one.drawable(microgrid()) for one in FIGURES)
    assert tab.locator(".live:visible").count() == 0
    assert tab.locator("button.copy:visible").count() == 0
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert low_contrast(tab) == []


def test_the_screenshot_in_the_docs_is_what_the_page_shows(browser: Any) -> None:
    taken, kept = first_screen(browser), SCREENSHOT.read_bytes()
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    (SCREENSHOTS / "first-screen.png").write_bytes(taken)
    # Other fonts move a few edges; another number or sentence moves whole lines.
    again = "python -m tests.report.first_screen writes it again"
    assert 0 <= difference(browser, taken, kept) < 2, again
    assert difference(browser, taken, first_screen(browser)) == 0


def test_the_difference_of_two_screenshots_notices_other_words(browser: Any) -> None:
    context = browser.new_context(viewport={"width": 400, "height": 200})
    tab = context.new_page()
    pictures = []
    for words in ("9 records may keep less than the limit", "0 records may keep less than the limit, ever"):
        tab.set_content(f"<h1>{words}</h1><p>{words * 3}</p>")
        pictures.append(tab.screenshot())
    assert difference(browser, *pictures) > 2
    assert difference(browser, pictures[0], pictures[0]) == 0
    context.close()


def contrast(one: tuple[float, ...], two: tuple[float, ...]) -> float:
    def luminance(colour: tuple[float, ...]) -> float:
        linear = [
            c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (v / 255 for v in colour)
        ]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted([luminance(one), luminance(two)])
    return (high + 0.05) / (low + 0.05)


# For every element with a text of its own: its colour and the first colour behind it.
_COLOURS = """() => {
  const texts = (e) => [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
  const clear = (e) => getComputedStyle(e).backgroundColor === "rgba(0, 0, 0, 0)";
  const behind = (e) => (e === null ? document.body : clear(e) ? behind(e.parentElement) : e);
  return [...document.querySelectorAll("body *")]
    .filter((e) => e.checkVisibility() && !e.closest("svg, script") && texts(e))
    .map((e) => [getComputedStyle(e).color, getComputedStyle(behind(e)).backgroundColor, e.outerHTML]);
}"""


def low_contrast(tab: Any) -> list[tuple[str, str, str]]:
    """The elements whose text cannot be told from what is behind it, with both colours."""
    pairs = tab.evaluate(_COLOURS)
    assert len(pairs) > 50
    found = []
    for front, back, element in pairs:
        colours = [tuple(map(float, re.findall(r"[\d.]+", text)[:3])) for text in (front, back)]
        if contrast(*colours) < 4.5:
            found.append((element[:80], front, back))
    return found


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_has_contrast_enough(visit: Any, scheme: str) -> None:
    assert low_contrast(visit("microgrid", scheme=scheme).page) == []
