"""The screenshot of the first screen that the README and the tutorial show.

``python -m tests.report.first_screen`` writes it again.
"""

from __future__ import annotations

import base64
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sightline.report.page import report_html
from tests.report.report_cases import microgrid

CHROMIUM = shutil.which("chromium")
SCREENSHOT = Path(__file__).resolve().parents[2] / "docs" / "_static" / "first-screen.png"
_WIDTH, _HEIGHT = 1120, 860

# The mean difference of two pictures' colours, from 0 to 255; -1 if their sizes differ.
_DIFFERENCE = """async ([one, two]) => {
  const pixels = async (source) => {
    const picture = new Image();
    picture.src = source;
    await picture.decode();
    const size = {width: picture.width, height: picture.height};
    const canvas = Object.assign(document.createElement("canvas"), size);
    const context = canvas.getContext("2d");
    context.drawImage(picture, 0, 0);
    return context.getImageData(0, 0, picture.width, picture.height);
  };
  const [a, b] = [await pixels(one), await pixels(two)];
  if (a.width !== b.width || a.height !== b.height) return -1;
  return a.data.reduce((sum, value, place) => sum + Math.abs(value - b.data[place]), 0) / a.data.length;
}"""


def first_screen(browser: Any) -> bytes:
    """The first screen of the shipped dashboard's publishable page, as PNG."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "report.html"
        path.write_text(report_html(microgrid(), publishable=True), encoding="utf-8")
        context = browser.new_context(viewport={"width": _WIDTH, "height": _HEIGHT}, offline=True)
        page = context.new_page()
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-drawn]", timeout=60_000)
        picture: bytes = page.screenshot()
        context.close()
    return picture


def difference(browser: Any, one: bytes, two: bytes) -> float:
    """The mean difference of two pictures' colours, from 0 to 255; -1 if their sizes differ."""
    context = browser.new_context()
    page = context.new_page()
    sources = [f"data:image/png;base64,{base64.b64encode(picture).decode()}" for picture in (one, two)]
    found = float(page.evaluate(_DIFFERENCE, sources))
    context.close()
    return found


@contextmanager
def started_browser() -> Iterator[Any]:
    """Debian's chromium, without a window."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        chromium = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


def main() -> None:
    with started_browser() as browser:
        SCREENSHOT.write_bytes(first_screen(browser))


if __name__ == "__main__":
    main()
