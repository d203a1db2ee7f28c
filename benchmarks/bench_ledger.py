"""How long a check takes as a ledger grows, beside one audit of a table with a column for each release.

A year or more of monthly sums by group: every month some people move, join or leave. The rival is what one
would do without a ledger: the audit of everything, every time. Both run in this process; CPU seconds. Bytes a
person and release are those of a membership stored whole, of one stored as changes, and of one with the hash
of everybody in every file, as it would be without numbers for people.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import duckdb
import numpy as np

import sightline as sl
from benchmarks.history import measured
from sightline.ledger import book
from sightline.ledger.book import Ledger

# people, groups, months, at most CPU seconds for the last check
CASES = ((20_000, 20, 60, 5.0), (20_000, 20, 120, 15.0), (1_000_000, 100, 24, 5.0))
HEAD = """[data]
source = "now.parquet"
record = "person"
secret = "pay"
bounds = [0.0, 100.0]

[limits]
remaining_uncertainty = 0.5
"""
RELEASE = {
    "name": "pay by area",
    "sql": "SELECT area, SUM(pay) FROM data WHERE here GROUP BY area",
    "noise_stddev": 400.0,
}


def month(folder: Path, area: np.ndarray, here: np.ndarray, pay: np.ndarray) -> None:
    """Write this month's table."""
    columns = {"person": np.arange(area.size), "area": area, "here": here, "pay": pay}
    with duckdb.connect() as connection:
        connection.register("columns", columns)
        (folder / "now.parquet").unlink(missing_ok=True)
        connection.execute(f"COPY (SELECT * FROM columns) TO '{folder / 'now.parquet'}' (FORMAT parquet)")


def unchecked(ledger: Ledger) -> None:
    """Add the release without a check: what it would do is not what is measured."""
    decide = book.decide
    try:
        verdict = SimpleNamespace(status=None)
        book.decide = lambda made, **_: SimpleNamespace(passed=None, result=SimpleNamespace(verdict=verdict))
        ledger.add(RELEASE)
    finally:
        book.decide = decide


def bytes_stored(folder: Path, ledger: Ledger, people: int) -> str:
    """Bytes for each person of the memberships, by how they are stored."""
    first, *later = [one.members for one in ledger.log() if one.members is not None]
    size = {one.file.name: (folder / "ledger" / one.file.name).stat().st_size for one in (first, *later)}
    changes = [size[one.file.name] for one in later if one.since >= 0]
    hashed = folder / "hashed.parquet"
    entry = ledger.log()[1]
    with duckdb.connect() as connection:
        groups, hashes = (
            f"(SELECT *, row_number() OVER () AS n FROM '{folder / 'ledger' / one.name}')"
            for one in entry.files[:2]
        )
        connection.execute(
            f"COPY (SELECT h0, h1, c0 FROM {groups} JOIN {hashes} USING (n) ORDER BY n) "
            f"TO '{hashed}' (FORMAT parquet, COMPRESSION zstd)"
        )
    whole, alone = size[first.file.name] / people, hashed.stat().st_size / people
    return f"{whole:.2f} whole, {np.mean(changes) / people:.4f} as changes, {alone:.1f} hashed"


def run(people: int, groups: int, months: int, at_most: float) -> None:
    """One ledger, month after month; the last check is measured."""
    random = np.random.default_rng(0)
    area, pay = random.integers(0, groups, people), random.uniform(0, 100, people)
    here = random.random(people) < 0.98
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        month(folder, area, here, pay)
        (folder / "head.toml").write_text(HEAD)
        (folder / "key").write_bytes(b"0123456789abcdef0123456789abcdef")
        ledger = Ledger.start(folder / "ledger", head=folder / "head.toml", values="one", key=folder / "key")
        for _ in range(months - 1):
            unchecked(ledger)
            moved, left = random.integers(0, people, 20), random.integers(0, people, 20)
            area[moved] = random.integers(0, groups, moved.size)
            here[left] ^= True
            month(folder, area, here, pay)
        start = time.process_time()
        ledger.check(RELEASE)
        seconds = time.process_time() - start
        unchecked(ledger)
        stored = bytes_stored(folder, ledger, people)
        plan = ledger.plan(folder / "all.toml")
        start = time.process_time()
        sl.audit(plan)
        rival = time.process_time() - start
    beyond = "  BEYOND ITS LIMIT" if seconds > at_most else ""
    print(
        f"{people:9,} people, {groups:3} groups, check {months:3}: {seconds:5.1f} s CPU (at most {at_most:g})"
        f", an audit {rival:5.1f} s, ratio {seconds / rival:.2f}; "
        f"{stored} bytes a person and release{beyond}"
    )
    measured(f"{people:,} people, check {months}", seconds / rival, rival="an audit of everything")


if __name__ == "__main__":
    chosen = [int(one) for one in sys.argv[1:]] or range(len(CASES))
    for place in chosen:
        run(*CASES[place])
