"""Panels: many rows of the same homes. The verdict and who is exposed, beside plain NumPy where that can run.

Look-alikes of three tables that people audit, then growth with homes, hours and numbers, then, with
``--large``, 5,000 homes over a year. ``--gaps`` is the share of readings that are missing: without gaps homes
of one feeder are alike. Plain NumPy forms AᵀYA over the different rows of a home, and takes its largest
eigenvalue.

Wanted on two cores: 10 s, 60 s and 15 s for the three tables; 10 minutes and 6 GB for the large one.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

import sightline as sl
from benchmarks.history import machine_unit, measured
from sightline.auditing.findings import linear_findings, plans_by_belief
from sightline.auditing.pricing import price
from sightline.auditing.reading import read_plan
from sightline.auditing.session import opened

MONTHLY = "SELECT month(hour) AS m, SUM(kwh) FROM data GROUP BY m"
CURVE = ("load curve", "SELECT hour, SUM(kwh) FROM data GROUP BY hour")
CANTONS = (
    ("weekly", "SELECT canton, date_trunc('week', hour) AS w, AVG(kwh) FROM data GROUP BY canton, w"),
    ("profile", "SELECT heating, hour(hour) AS h, AVG(kwh) FROM data GROUP BY heating, h"),
    (
        "weekend evenings",
        "SELECT canton, AVG(kwh) FROM data WHERE dayofweek(hour) IN (0, 6) AND hour(hour) >= 18 "
        "GROUP BY canton",
    ),
)
PILOT = (
    ("monthly", MONTHLY),
    ("pilot", MONTHLY.replace("GROUP", "WHERE home > 0 GROUP")),
    ("profile", "SELECT hour(hour) AS h, AVG(kwh) FROM data GROUP BY h"),
)
DASHBOARD = (
    ("daily", "SELECT date_trunc('day', hour) AS d, SUM(kwh) FROM data GROUP BY d"),
    ("weekly", "SELECT feeder, date_trunc('week', hour) AS w, AVG(kwh) FROM data GROUP BY feeder, w"),
    ("monthly", "SELECT heating, month(hour) AS m, SUM(kwh) FROM data GROUP BY heating, m"),
    ("profile", "SELECT feeder, hour(hour) AS h, AVG(kwh) FROM data GROUP BY feeder, h"),
)
CASES: dict[str, tuple[int, int, Any, str]] = {
    "17 homes x 8,760 hours": (17, 8_760, PILOT, "10 s"),
    "537 homes x 1,176 hours": (537, 1_176, (CURVE, *CANTONS), "60 s"),
    "the same without the load curve": (537, 1_176, CANTONS, "15 s"),
    "100 homes x 1,176 hours": (100, 1_176, CANTONS, ""),
    "1,000 homes x 1,176 hours": (1_000, 1_176, CANTONS, ""),
    "537 homes x 336 hours": (537, 336, CANTONS, ""),
    "537 homes x 4,704 hours": (537, 4_704, CANTONS, ""),
    "537 homes x 504 hours, load curve": (537, 504, (CURVE, *CANTONS), ""),
}
LARGE = {"5,000 homes x 8,760 hours": (5_000, 8_760, DASHBOARD, "600 s, 6 GB")}


def written(source: Path, homes: int, hours: int, gaps: float) -> None:
    duckdb.execute(
        f"""COPY (SELECT h AS home, TIMESTAMP '2023-01-02' + to_hours(CAST(t AS INT)) AS hour,
        h % 12 AS canton, h % 20 AS feeder, h % 3 AS heating, (hash(h * 100000 + t) % 5000) / 1000.0 AS kwh
        FROM range({homes}) a(h), range({hours}) b(t)
        WHERE hash(h * 100003 + t * 7) % 1000000 >= {1e6 * gaps}) TO '{source}' (FORMAT parquet)"""
    )


def plan(source: Path, hours: int, releases: Any) -> dict[str, Any]:
    return {
        "data": {
            "source": str(source),
            "record": "home",
            "secret": "kwh",
            "bounds": [0, 5],
            "max_rows_per_record": hours,
        },
        "privacy": {"epsilon": 1.0, "delta": 1e-6},
        "limits": {"remaining_uncertainty": 0.5},
        "release": [{"name": name, "sql": sql} for name, sql in releases],
    }


def plain_numpy(content: dict[str, Any], most: int) -> tuple[float, int, float]:
    """Seconds, homes, and the largest deviation of upper ends: BᵀYB of every home over its different rows.

    Under the belief that the rows of a home have nothing in common.
    """
    checked, base = read_plan(content)
    with opened(checked, base) as session:
        membership = session.membership()
        independent = plans_by_belief(checked, membership)[0]
        found = linear_findings(independent, membership, price(independent, membership))
    design, units = found.exposure.design, found.linear.units
    table, noise, s = found.linear.table, design.noise.variance, design.prior.scale
    counts = np.repeat(units.people, np.diff(units.starts)) * units.times
    start, off = time.perf_counter(), 0.0
    M = (table @ (table.T.multiply(counts[:, None])).tocsc()).toarray()
    Y = np.linalg.inv(np.diag(noise) + s * M)
    chosen = range(min(most, len(units)))
    for unit in chosen:
        own = slice(int(units.starts[unit]), int(units.starts[unit + 1]))
        B = table[:, own].toarray() * np.sqrt(units.times[own])
        left = 1 - s * np.linalg.eigvalsh(B.T @ Y @ B)[-1]
        off = max(off, abs(left - float(found.upper[unit])) / left)
    return (time.perf_counter() - start) / len(chosen) * len(units), len(units), off


def one_case(name: str, gaps: float) -> None:
    """In a process of its own, so that its memory is its own."""
    homes, hours, releases, wanted = (CASES | LARGE)[name]
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "readings.parquet"
        written(source, homes, hours, gaps)
        content = plan(source, hours, releases)
        started, cpu = time.perf_counter(), time.process_time()
        result = sl.audit(content)
        seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        least = result.least_remaining_uncertainty
        print(
            f"{name:34}{result.cells:6,} numbers {seconds:8.1f} s {cpu:8.1f} s CPU {memory:6.2f} GB, "
            f"least {least}{f'   (wanted: {wanted})' if wanted else ''}",
            flush=True,
        )
        measured(name, cpu / machine_unit(), rival="the machine's unit", memory=memory)
        if homes * hours <= 1_000_000:
            plain, kinds, off = plain_numpy(content, most=6)
            print(
                f"{'  an eigenvalue a home in NumPy':34}{kinds:6,} kinds   {plain:8.1f} s, off by {off:.1e}",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--gaps", type=float, default=0.005)
    parser.add_argument("--only", choices=[*CASES, *LARGE])
    asked = parser.parse_args()
    if asked.only:
        one_case(asked.only, asked.gaps)
        return
    for name in (*CASES, *(LARGE if asked.large else ())):
        command = [sys.executable, __file__, "--only", name, "--gaps", str(asked.gaps)]
        subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
