"""A browser, for pages that are looked at as a reader sees them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.report.first_screen import CHROMIUM, started_browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("needs Debian's chromium: apt-get install chromium fonts-dejavu-core")
    with started_browser() as found:
        yield found
