"""The page of a report: its size, how long it takes to write, and how long a browser takes to open it.

Tables of 18, 30,000 and 1,000,000 records. The page has its what-if, so the audit of every other setting is
in the time to make it. The lower limit of a size is the script of the charts, which every page has; that of
opening is a page with this script and nothing to draw.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import duckdb

import sightline as sl
from sightline.examples.shipped import example_plan
from sightline.report import style

ROUNDS = 3
SIZES = (30_000, 1_000_000)
EMPTY = (
    "<!DOCTYPE html><title>empty</title><script>{}</script>"
    "<script>document.documentElement.dataset.drawn='yes'</script>"
)
HEAD = ("records", "audit s", "what-if s", "settings", "write s", "KB", "open s")


def plan(records: int, folder: Path) -> dict[str, Any]:
    """Homes in 100 streets of 20 feeders, with an age band and a tariff."""
    path = folder / f"homes{records}.parquet"
    duckdb.sql(
        f"""COPY (SELECT i AS home, (i * 7919) % 100 AS street, ((i * 7919) % 100) // 5 AS feeder,
        (i // 13) % 10 AS band, (i // 3) % 4 AS tariff, ((i * 104729) % 9001)::DOUBLE AS watts
        FROM range({records}) AS t(i)) TO '{path}' (FORMAT parquet)"""
    )
    keys = ("street", "feeder", "band", "tariff")
    return {
        "data": {"source": str(path), "record": "home", "secret": "watts", "bounds": [0, 9000]},
        "privacy": {"epsilon": 1.0, "delta": 1e-7},
        "limits": {"remaining_uncertainty": 0.5},
        "release": [
            {"name": f"by {key}", "sql": f"SELECT {key}, AVG(watts) FROM data GROUP BY {key}"} for key in keys
        ],
    }


def opening(page: Path) -> float:
    """Median seconds until a page that is opened offline has drawn its figures."""
    from playwright.sync_api import sync_playwright

    taken = []
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for _ in range(ROUNDS):
            context = browser.new_context(offline=True)
            tab = context.new_page()
            start = time.perf_counter()
            tab.goto(page.as_uri())
            tab.wait_for_selector("html[data-drawn]", timeout=120_000)
            taken.append(time.perf_counter() - start)
            context.close()
        browser.close()
    return statistics.median(taken)


def main() -> None:
    """Print one line for each table."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        page = folder / "page.html"
        page.write_text(EMPTY.format(style.bundle()), encoding="utf-8")
        print("".join(f"{title:>10}" for title in HEAD))
        print(f"{'none':>10}{'':>40}{page.stat().st_size / 1e3:>10.0f}{opening(page):>10.2f}")
        for records in (18, *SIZES):
            chosen = example_plan("microgrid") if records == 18 else plan(records, folder)
            start = time.perf_counter()
            sl.audit(chosen, full=True)
            alone = time.perf_counter() - start
            start = time.perf_counter()
            result = sl.audit(chosen, what_if=True, full=True)
            both = time.perf_counter() - start
            start = time.perf_counter()
            sl.write_report(result, page, force=True)
            written = time.perf_counter() - start
            settings = 0 if result.what_if is None else len(result.what_if.settings)
            print(
                f"{result.records:>10,}{alone:>10.1f}{both - alone:>10.1f}{settings:>10}{written:>10.1f}"
                f"{page.stat().st_size / 1e3:>10.0f}{opening(page):>10.2f}"
            )


if __name__ == "__main__":
    main()
