"""What every test run shares: the same examples each time, and the Python blocks of the pages as tests."""

from __future__ import annotations

import math
import os
from doctest import ELLIPSIS

import pytest
from hypothesis import settings
from hypothesis.internal.conjecture import providers
from sybil import Sybil
from sybil.parsers.myst import PythonCodeBlockParser

# `make test` draws the same examples on every machine and day.
# `make fuzz` draws new ones, from a seed that it prints; `make quick` draws the same ones, but few.
settings.register_profile("same", derandomize=True, deadline=None, database=None)
settings.register_profile("fuzz", max_examples=500, deadline=None, database=None, print_blob=True)
settings.register_profile("quick", parent=settings.get_profile("same"))
EXAMPLES = os.environ.get("SIGHTLINE_EXAMPLES", "same")
FEW = 5
settings.load_profile(EXAMPLES)

# Hypothesis also draws constants that it reads in the modules imported so far, so the examples of a property
# test would depend on which tests ran before it in the same process. Leave these constants out.
if hasattr(providers, "_get_local_constants"):
    providers._get_local_constants = lambda: providers._local_constants

pytest_collect_file = Sybil(
    parsers=[PythonCodeBlockParser(doctest_optionflags=ELLIPSIS)], patterns=["*.md"]
).pytest()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """`make quick`: few examples, also where a test asks for many by itself."""
    if EXAMPLES != "quick":
        return
    for function in {getattr(item, "function", None) for item in items}:
        chosen = getattr(function, "_hypothesis_internal_use_settings", None)
        if chosen is not None:
            few = settings(chosen, max_examples=min(FEW, chosen.max_examples))
            function._hypothesis_internal_use_settings = few  # type: ignore[union-attr]


@pytest.fixture(autouse=True)
def progress_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands report progress after two seconds. In tests they wait, so that no test depends on speed."""
    monkeypatch.setattr("sightline.report.progress.PATIENCE", math.inf)
