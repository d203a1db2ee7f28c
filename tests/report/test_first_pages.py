"""The pages in a browser: two screens at a desk before everything; on a phone, lists are tables."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import sightline as sl
from sightline.report.page import report_html
from tests.report.first_pages import opened, pages, screens_before_all
from tests.report.first_screens import planned
from tests.report.report_cases import RESULTS, microgrid
from tests.report.test_no_green_box import audited

MOST_SCREENS = 2.0
DESK, PHONE = 1280, 390

# Cells of one word, such as a number with its sign, on several lines; cells of which a part is cut off.
_BROKEN = """() => [...document.querySelectorAll("table.first td")].filter((cell) => {
  const whole = !cell.textContent.includes(" ");
  const lines = new Set([...cell.firstElementChild.getClientRects()].map((box) => Math.round(box.top)));
  return (whole && lines.size > 1) || cell.scrollWidth > cell.clientWidth + 1;
}).map((cell) => cell.textContent)"""
# Parts of one line that stand in one line of text: the next begins where the one before ends.
_RUN_TOGETHER = """() => [...document.querySelectorAll("table.first tr")].filter((line) => {
  const boxes = [...line.cells].map((cell) => cell.getBoundingClientRect());
  return boxes.some((box, i) => i && box.left < boxes[i - 1].right - 1 && box.top < boxes[i - 1].bottom - 1);
}).map((line) => line.textContent)"""


@cache
def texts() -> dict[str, str]:
    return pages()


@cache
def with_rules() -> sl.AuditResult:
    """The census with broken rules."""
    return sl.audit({**planned("census", None), "rules": {"k": 40}}, names=True, full=True)


@cache
def counts() -> sl.AuditResult:
    """Exact counts, from which the values of some follow."""
    return audited("exact")


def looks_right(page: Any, width: int) -> None:
    assert page.evaluate(_BROKEN) == []
    assert page.evaluate(_RUN_TOGETHER) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    if width == DESK:
        assert screens_before_all(page) <= MOST_SCREENS
    page.context.close()


@pytest.mark.slow
@pytest.mark.parametrize("width", [DESK, PHONE])
@pytest.mark.parametrize(
    "result", [microgrid, RESULTS["calm"], with_rules, counts], ids=["microgrid", "calm", "rules", "counts"]
)
def test_a_page_is_short_and_its_lists_are_tables(
    browser: Any, tmp_path: Path, result: Callable[[], sl.AuditResult], width: int
) -> None:
    looks_right(opened(browser, report_html(result()), width, tmp_path), width)


@pytest.mark.thorough
@pytest.mark.parametrize("width", [DESK, PHONE])
def test_each_of_the_fifteen_pages(browser: Any, tmp_path: Path, width: int) -> None:
    assert len(texts()) == 15
    for text in texts().values():
        looks_right(opened(browser, text, width, tmp_path), width)


def test_the_end_of_a_long_line_says_what_to_do_and_is_not_cut() -> None:
    page = report_html(sl.audit(planned("census", 10.0), names=True, full=True), publishable=False)
    assert "add noise, or accept = [&#34;homogeneous&#34;].</bdi></li>" in page
