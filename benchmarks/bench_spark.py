"""An audit whose signatures stay on Spark, in local mode with two cores: seconds, and the peaks of memory.

Twelve GROUP BYs over a table of which two rows in five have a signature of their own. The figures to compare
with are Spark's own GROUP BY of the twelve columns on the same table, and the same audit streamed by DuckDB.
Each runs in a process of its own. The driver is Python and is held below 1 GB, which is asserted; the JVM has
a heap of its own, and holds the executors too in local mode. ``--rows 20000000`` is the full size.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import duckdb
import psutil

import sightline as sl

CORES, GROUPS, KEYS = 2, 60, 12
HEAP = "4g"
DRIVER_LIMIT = 1e9  # bytes
# Signatures that would need more than this on the driver are streamed.
DRIVER_MEMORY = "100MB"
DUCKDB_BYTES_PER_ROW = 100  # what DuckDB's audit may use; all signatures in memory need more


def make_table(folder: Path, rows: int) -> Path:
    """Half of the keys are text, half are whole numbers."""
    source = folder / "people.parquet"
    number = "CAST(hash(12 * t + {c}) % {groups} AS INTEGER)"
    columns = ", ".join(
        ("'group ' || " if c % 2 else "") + number.format(c=c, groups=GROUPS) + f" AS g{c}"
        for c in range(KEYS)
    )
    duckdb.execute(f"SET threads = {CORES}; SET memory_limit = '2GB'")
    duckdb.execute(
        f"COPY (SELECT i AS person, {columns}, hash(i, 9) % 9000 AS watts "
        f"FROM (SELECT i, hash(i) % {rows * 2 // 5} AS t FROM range({rows}) r(i))) TO '{source}' "
        "(FORMAT parquet, ROW_GROUP_SIZE 500000)"
    )
    return source


def plan(source: str) -> dict[str, Any]:
    return {
        "data": {"source": source, "record": "person", "secret": "watts", "bounds": [0, 9000]},
        "privacy": {"epsilon": 1.0, "delta": 1e-9},
        "release": [
            {"name": f"g{c}", "sql": f"SELECT g{c}, AVG(watts) FROM data GROUP BY g{c}"} for c in range(KEYS)
        ],
    }


class Peaks:
    """The largest memory of the JVM and of its Python workers, looked at ten times a second."""

    def __init__(self) -> None:
        self.jvm = self.workers = 0.0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while not self._end.wait(0.1):
            sizes = {"java": 0.0, "python": 0.0}
            for process in psutil.Process().children(recursive=True):
                try:
                    kind = "java" if "java" in process.name() else "python"
                    sizes[kind] += process.memory_info().rss
                except psutil.Error:
                    continue
            self.jvm, self.workers = max(self.jvm, sizes["java"]), max(self.workers, sizes["python"])

    def close(self) -> None:
        self._end.set()
        self._thread.join()


def duckdb_memory(source: Path) -> str:
    (rows,) = duckdb.execute(f"SELECT COUNT(*) FROM '{source}'").fetchall()[0]
    return f"{rows * DUCKDB_BYTES_PER_ROW // 10**6}MB"


def audit(source: str, memory: str) -> dict[str, Any]:
    """One audit: how long each stage took, and the peak of this process."""
    stages: dict[str, float] = {}
    last = ["opening", time.perf_counter()]
    start = time.perf_counter()

    def progress(stage: str, share: float) -> None:
        now = time.perf_counter()
        stages[last[0]] = stages.get(last[0], 0.0) + now - last[1]
        last[:] = [stage, now]

    result = sl.audit(plan(source), max_memory=memory, progress=progress)
    progress("", 1.0)
    assert any("is streamed" in line for line in result.assumptions)
    least = result.least_remaining_uncertainty
    assert least is not None
    return {
        "seconds": time.perf_counter() - start,
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0,
        "cpu": sum(psutil.Process().cpu_times()[:2]),
        "signatures": result.signatures,
        "cells": result.cells,
        "lower": least.lower,
        "upper": least.upper,
        "identifiable": result.identifiable_records,
        "distribution": list(result.distribution.records),
        "stages": {name: round(seconds, 1) for name, seconds in stages.items() if seconds >= 0.5},
    }


def on_spark(source: Path) -> dict[str, Any]:
    peaks = Peaks()
    found = audit(f"spark://local[{CORES}]?table=parquet.`{source}`", DRIVER_MEMORY)
    peaks.close()
    return {**found, "jvm": peaks.jvm, "workers": peaks.workers}


def spark_group_by(source: Path) -> dict[str, Any]:
    """Spark's own listing of the signatures, kept on disk as the audit keeps them."""
    from pyspark import StorageLevel
    from pyspark.sql import SparkSession

    session = SparkSession.builder.master(f"local[{CORES}]").getOrCreate()
    session.range(1).count()  # the session's start is not timed
    start = time.perf_counter()
    columns = [f"g{c}" for c in range(KEYS)]
    frame = session.read.parquet(str(source)).groupBy(*columns).count().persist(StorageLevel.DISK_ONLY)
    return {"signatures": frame.count(), "seconds": time.perf_counter() - start}


def duckdb_group_by(source: Path) -> dict[str, Any]:
    columns = ", ".join(f"g{c}" for c in range(KEYS))
    duckdb.execute(f"SET threads = {CORES}; SET memory_limit = '{duckdb_memory(source)}'")
    start = time.perf_counter()
    duckdb.execute(
        f"CREATE TEMP TABLE l AS SELECT {columns}, COUNT(*) AS n FROM '{source}' GROUP BY {columns}"
    )
    return {"seconds": time.perf_counter() - start}


PARTS = {
    "spark": on_spark,
    "spark group by": spark_group_by,
    "duckdb": lambda source: audit(str(source), duckdb_memory(source)),
    "duckdb group by": duckdb_group_by,
}


def run(part: str, source: Path) -> dict[str, Any]:
    """One part in a process of its own."""
    environment = {
        **os.environ,
        "PYSPARK_SUBMIT_ARGS": f"--driver-memory {HEAP} --conf spark.ui.enabled=false "
        "--conf spark.log.level=ERROR pyspark-shell",
        "PYSPARK_PYTHON": sys.executable,
    }
    done = subprocess.run(
        [sys.executable, __file__, "--part", part, "--source", str(source)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    parser.add_argument("--source", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.part:
        print(json.dumps(PARTS[arguments.part](arguments.source)))
        return
    with tempfile.TemporaryDirectory(prefix="sightline-bench-spark-") as folder:
        source = make_table(Path(folder), arguments.rows)
        found = {part: run(part, source) for part in PARTS}
    spark, own = found["spark"], found["duckdb"]
    for name in ("signatures", "cells", "identifiable", "distribution"):
        assert spark[name] == own[name], name
    for name in ("lower", "upper"):
        assert abs(spark[name] - own[name]) <= 1e-9 * own[name], name
    print(f"{arguments.rows:,} rows, {spark['signatures']:,} signatures, {spark['cells']:,} cells")
    print(
        f"  Spark, local[{CORES}]: {spark['seconds']:.0f} s; "
        + ", ".join(f"{k} {v}" for k, v in spark["stages"].items())
    )
    print(
        f"  peaks: driver {spark['peak'] / 1e9:.2f} GB, JVM {spark['jvm'] / 1e9:.1f} GB (heap {HEAP}), "
        f"workers {spark['workers'] / 1e9:.2f} GB together"
    )
    print(
        f"  {spark['seconds'] / found['spark group by']['seconds']:.1f} × Spark's own GROUP BY "
        f"({found['spark group by']['seconds']:.1f} s)"
    )
    print(
        f"  {spark['seconds'] / own['seconds']:.1f} × DuckDB, streamed: "
        f"{own['seconds']:.0f} s, peak {own['peak'] / 1e9:.2f} GB; "
        f"its own GROUP BY {found['duckdb group by']['seconds']:.1f} s"
    )
    print("  DuckDB's stages: " + ", ".join(f"{k} {v}" for k, v in own["stages"].items()))
    assert spark["peak"] < DRIVER_LIMIT, f"driver above {DRIVER_LIMIT / 1e9:g} GB"


if __name__ == "__main__":
    main()
