"""What every test run shares: the same examples each time, and the Python blocks of the pages as tests."""

from __future__ import annotations

import gc
import math
import os
import zlib
from collections.abc import Iterator
from doctest import ELLIPSIS
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis.internal.conjecture import providers
from sybil import Sybil
from sybil.parsers.myst import PythonCodeBlockParser

# `make thorough` draws the same examples on every machine and day; `make check`, `make test` and `make quick`
# the first of them. `make fuzz` draws new ones, from a seed that it prints.
settings.register_profile("thorough", derandomize=True, deadline=None, database=None)
settings.register_profile("fuzz", max_examples=500, deadline=None, database=None, print_blob=True)
MOST_EXAMPLES = {"quick": 5, "test": 15, "check": 40}
for fewer in MOST_EXAMPLES:
    settings.register_profile(fewer, parent=settings.get_profile("thorough"))
EXAMPLES = os.environ.get("SIGHTLINE_EXAMPLES", "test")
settings.load_profile(EXAMPLES)

# Hypothesis also draws constants that it reads in the modules imported so far, so the examples of a property
# test would depend on which tests ran before it in the same process. Leave these constants out.
if hasattr(providers, "_get_local_constants"):
    providers._get_local_constants = lambda: providers._local_constants

# Scripts for other libraries; tests/records runs them where those are installed.
collect_ignore_glob = ["docs/libraries/*.py"]

pytest_collect_file = Sybil(
    parsers=[PythonCodeBlockParser(doctest_optionflags=ELLIPSIS)], patterns=["*.md"]
).pytest()


# Fixtures, and parameters that name one, which start a server, a cluster or a browser.
SERVERS = {"postgres_url", "postgres_engine", "on_postgres", "spark_session", "spark_engine", "on_spark"}
SERVERS |= {"postgres_rows", "spark_rows", "browser", "dask"}


# Test files that take longest, in tens of seconds of one core.
LONGEST = {
    "test_golden_results.py": 15,
    "test_crossings.py": 16,
    "test_ledger.py": 15,
    "test_html_report.py": 12,
    "test_rules.py": 12,
    "test_design.py": 10,
    "test_streamed_audit.py": 9,
    "test_catalogue.py": 9,
    "test_cli.py": 5,
    "test_command.py": 4,
    "test_lattice.py": 9,
    "test_what_if.py": 7,
    "test_paper_run.py": 6,
    "test_html_browser.py": 5,
    "test_pairs.py": 4,
    "test_sql_oracle.py": 4,
    "test_census_pl94.py": 4,
}


@pytest.hookimpl(tryfirst=True)  # before -m selects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What starts a server or a browser is not for `make test`; property tests draw as many as asked for."""
    for item in items:
        parameters = getattr(getattr(item, "callspec", None), "params", {}).values()
        if SERVERS & {*getattr(item, "fixturenames", ()), *(p for p in parameters if isinstance(p, str))}:
            item.add_marker(pytest.mark.thorough)
    for item in _left_to_check(items):
        item.add_marker(pytest.mark.thorough)
    for item in items:
        if item.get_closest_marker("thorough"):
            item.add_marker(pytest.mark.slow)
    # A file stays on one core: those that take longest start first, so that both cores end together.
    items.sort(key=lambda item: -LONGEST.get(Path(item.path).name, 0))
    if EXAMPLES not in MOST_EXAMPLES:
        return
    for function in {getattr(item, "function", None) for item in items}:
        chosen = getattr(function, "_hypothesis_internal_use_settings", None)
        if chosen is not None:
            few = settings(chosen, max_examples=min(MOST_EXAMPLES[EXAMPLES], chosen.max_examples))
            function._hypothesis_internal_use_settings = few  # type: ignore[union-attr]


def pytest_collection_finish() -> None:
    """Modules and tests stay until the end: the garbage collector need not look at them again and again."""
    gc.collect()
    gc.freeze()


def _left_to_check(items: list[pytest.Item]) -> Iterator[pytest.Item]:
    """Of tests marked `sampled(n)` all but n of their cases; of other slow ones all but a third, or one."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        drawn = item.get_closest_marker("sampled") or item.get_closest_marker("slow")
        if drawn and not item.get_closest_marker("thorough"):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for several in cases.values():
        mark = several[0].get_closest_marker("sampled")
        number = mark.args[0] if mark else max(1, len(several) // 3)
        yield from sorted(several, key=lambda item: zlib.crc32(item.nodeid.encode()))[number:]


@pytest.fixture(autouse=True)
def progress_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands report progress after two seconds. In tests they wait, so that no test depends on speed."""
    monkeypatch.setattr("sightline.report.streams.PATIENCE", math.inf)
