"""First screens: at most 28 lines each, with three answers; the page shows what the code prints."""

from __future__ import annotations

import re

import pytest

from sightline.report.first_screen import MOST_LINES
from tests.report.first_screens import NOISES, PAGE, TABLES, page, screens

TEXT = PAGE.read_text(encoding="utf-8")
SHOWN = re.findall(r"^\*\*[^*\n]*\*\* ([^\n]*)\n\n```text\n(.*?)\n```", TEXT, flags=re.DOTALL | re.MULTILINE)


def check(said: str, screen: str) -> None:
    """A screen is short and gives the three answers."""
    assert len(screen.splitlines()) <= MOST_LINES
    first = " ".join(screen.split())
    published = said.startswith("Yes, ")
    assert ("You can publish this." in first) is published
    assert (("Do not publish this yet." in first) or ("Not yet." in first)) is not published
    assert ("The noise alone guarantees" in first) is said.startswith("Yes, guaranteed by the noise.")
    below = re.search(r"(\d+) of (\d+)(?:, first of all (\w+))?\.", said)
    if below is not None:
        assert f"{below.group(1)} of {below.group(2)} " in first
        assert below.group(3) is None or below.group(3) in screen
    changed = re.search(r"Multiply all noise by ([\d.]+\d)", said)
    assert changed is None or f"multiply all noise by {changed.group(1)}" in first
    settled = re.search(r"Settle (\w+)", said)
    assert settled is None or f'accept = ["{settled.group(1)}"]' in first


@pytest.mark.thorough
def test_the_page_is_what_the_code_prints() -> None:
    shown = screens()
    assert page(shown) == TEXT, "python -m tests.report.first_screens writes it again"
    for one in shown:
        check(" ".join(one.answers), one.screen)


def test_each_screen_on_the_page_is_short_and_gives_the_three_answers() -> None:
    assert len(SHOWN) == len(TABLES) * len(NOISES)
    for said, screen in SHOWN:
        check(said, screen)
