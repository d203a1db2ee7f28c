"""The fifteen pages of docs/first-screens.md as pictures, for a desk and for a phone.

``python -m tests.report.first_pages FOLDER`` writes ``census-0-1280.png`` and so on, and prints how many
screens come before "In full".
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import sightline as sl
from sightline.report.page import report_html
from tests.report.first_screen import started_browser
from tests.report.first_screens import NOISES, TABLES, planned

WIDTHS, HEIGHT = (1280, 390), 900


def pages() -> dict[str, str]:
    """The owner's pages, named by their tables and the place of their noise."""
    return {
        f"{name}-{place}": report_html(sl.audit(planned(name, epsilon), names=True, full=True))
        for name in TABLES
        for place, epsilon in enumerate(NOISES.values())
    }


def opened(browser: Any, text: str, width: int, folder: Path) -> Any:
    """The page in a browser without a network, drawn."""
    path = folder / "report.html"
    path.write_text(text, encoding="utf-8")
    context = browser.new_context(viewport={"width": width, "height": HEIGHT}, offline=True)
    page = context.new_page()
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-drawn]", timeout=60_000)
    return page


def screens_before_all(page: Any) -> float:
    """How many screens come before the section "In full"."""
    top = page.evaluate('document.getElementById("full").getBoundingClientRect().top + window.scrollY')
    return float(top) / HEIGHT


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with started_browser() as browser, TemporaryDirectory() as place:
        for name, text in pages().items():
            for width in WIDTHS:
                page = opened(browser, text, width, Path(place))
                print(f"{name} at {width} px: {screens_before_all(page):.2f} screens before all of it")
                page.screenshot(path=folder / f"{name}-{width}.png", full_page=True)
                page.context.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
