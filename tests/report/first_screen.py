"""The screenshot of the first screen that the README and the tutorial show.

``python -m tests.report.first_screen`` writes it again. What it says is written into the picture as text, so
that a test without a browser sees when the picture is older than the numbers.
"""

from __future__ import annotations

import base64
import shutil
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sightline.auditing.result import AuditResult
from sightline.report.page import report_html
from sightline.report.wording import before_after, limit_line
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


def said(result: AuditResult) -> str:
    """What the first screen says, as text."""
    changes = [f"{change.text} ({change.cost})" for change in result.what_to_change[:2]]
    known = before_after(result)
    assert result.sharpest is not None
    assert result.slack is not None
    assert known is not None
    lines = [" → ".join(known.numbers), limit_line(result), result.sharpest.text, result.slack.text]
    return "\n".join([*lines, *changes])


def with_text(picture: bytes, text: str) -> bytes:
    """A PNG with a text beside its pixels (an ``iTXt`` chunk after the header)."""
    header = 8 + 25  # the signature, and IHDR
    body = b"iTXt" + b"Description\0\0\0\0\0" + text.encode()
    chunk = struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body))
    return picture[:header] + chunk + picture[header:]


def text_of(picture: bytes) -> str:
    """The text that ``with_text`` wrote."""
    start = picture.index(b"iTXtDescription") - 4
    (length,) = struct.unpack(">I", picture[start : start + 4])
    return picture[start + 8 : start + 8 + length].rpartition(b"\0")[2].decode()


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
        SCREENSHOT.write_bytes(with_text(first_screen(browser), said(microgrid())))


if __name__ == "__main__":
    main()
