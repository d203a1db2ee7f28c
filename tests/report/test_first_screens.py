"""The page of first screens is what the code prints: at most 25 lines each, with three answers above."""

from __future__ import annotations

import re

import pytest

from sightline.report.first_screen import MOST_LINES
from tests.report.first_screens import NOISES, PAGE, TABLES, page

TEXT = PAGE.read_text(encoding="utf-8")
SCREENS = re.findall(r"\*\*(.*?)\*\* (.*?)\n\n```text\n(.*?)\n```", TEXT, flags=re.DOTALL)


@pytest.mark.thorough
def test_the_page_is_what_the_code_prints() -> None:
    assert page() == TEXT, "python -m tests.report.first_screens writes it again"


def test_each_screen_is_short_and_gives_the_three_answers() -> None:
    assert len(SCREENS) == len(TABLES) * len(NOISES)
    for title, said, screen in SCREENS:
        assert len(screen.splitlines()) <= MOST_LINES, title
        first = " ".join(screen.split())
        published = said.startswith("Yes.")
        assert ("You can publish this." in first) is published
        assert (("Do not publish this yet." in first) or ("Not yet." in first)) is not published
        below = re.search(r"(\d+) of (\d+)(?:, first of all (\w+))?\.", said)
        if below is not None:
            assert f"{below.group(1)} of {below.group(2)} " in first
            assert below.group(3) is None or below.group(3) in screen
        changed = re.search(r"Multiply all noise by ([\d.]+\d)", said)
        assert changed is None or f"multiply all noise by {changed.group(1)}" in first
        settled = re.search(r"Settle (\w+)", said)
        assert settled is None or f'accept = ["{settled.group(1)}"]' in first
