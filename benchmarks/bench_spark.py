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
from benchmarks.history import measured

CORES, GROUPS, KEYS = 2, 60, 12
HEAP = "4g"
DRIVER_LIMIT = 1e9  # bytes
# Signatures that would need more than this on the driver are streamed.
DRIVER_MEMORY = "110MB"
DUCKDB_BYTES_PER_ROW = 160  # what DuckDB's audit may use; all signatures in memory need more


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


class Watch:
    """The largest memory of the JVM and of its Python workers, and the core seconds of everything."""

    def __init__(self) -> None:
        self.jvm = self.workers = 0.0
        self._seconds: dict[int, float] = {}  # by process: also of those that have ended
        self._lock, self._end = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while not self._end.wait(0.2):
            self.core_seconds()

    def core_seconds(self) -> float:
        """Look at every process; the core seconds so far."""
        with self._lock:
            sizes = {"java": 0.0, "python": 0.0}
            own = psutil.Process()
            for process in [own, *own.children(recursive=True)]:
                try:
                    kind = "java" if "java" in process.name() else "python"
                    sizes[kind] += process.memory_info().rss if process != own else 0
                    self._seconds[process.pid] = sum(process.cpu_times()[:2])
                except psutil.Error:
                    continue
            self.jvm, self.workers = max(self.jvm, sizes["java"]), max(self.workers, sizes["python"])
            return sum(self._seconds.values())

    def close(self) -> None:
        self._end.set()
        self._thread.join()


def duckdb_memory(source: Path) -> str:
    (rows,) = duckdb.execute(f"SELECT COUNT(*) FROM '{source}'").fetchall()[0]
    return f"{rows * DUCKDB_BYTES_PER_ROW // 10**6}MB"


def audit(source: str, memory: str) -> dict[str, Any]:
    """One audit: the core seconds of each stage, and the peaks."""
    watch = Watch()
    stages: dict[str, float] = {}
    before, stage = 0.0, "opening"
    start = time.perf_counter()

    def progress(name: str, share: float) -> None:
        nonlocal before, stage
        if name != stage:
            now = watch.core_seconds()
            stages[stage] = stages.get(stage, 0.0) + now - before
            before, stage = now, name

    result = sl.audit(plan(source), max_memory=memory, progress=progress)
    seconds = time.perf_counter() - start
    progress("end", 1.0)
    watch.close()
    assert any("is streamed" in line for line in result.assumptions)
    least = result.least_remaining_uncertainty
    assert least is not None
    return {
        "seconds": seconds,
        "core seconds": before,
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0,
        "jvm": watch.jvm,
        "workers": watch.workers,
        "signatures": result.signatures,
        "cells": result.cells,
        "lower": least.lower,
        "upper": least.upper,
        "identifiable": result.identifiable_records,
        "distribution": list(result.distribution.records),
        "stages": {name: round(spent, 1) for name, spent in stages.items() if spent >= 0.5},
    }


def spark_group_by(source: Path) -> dict[str, Any]:
    """Spark's own listing of the signatures, kept on disk as the audit keeps them."""
    from pyspark import StorageLevel
    from pyspark.sql import SparkSession

    session = SparkSession.builder.master(f"local[{CORES}]").getOrCreate()
    session.range(1).count()  # the session's start is not timed
    watch = Watch()
    before, start = watch.core_seconds(), time.perf_counter()
    columns = [f"g{c}" for c in range(KEYS)]
    frame = session.read.parquet(str(source)).groupBy(*columns).count().persist(StorageLevel.DISK_ONLY)
    signatures, seconds = frame.count(), time.perf_counter() - start
    spent = watch.core_seconds() - before
    watch.close()
    return {"signatures": signatures, "seconds": seconds, "core seconds": spent}


def duckdb_group_by(source: Path) -> dict[str, Any]:
    columns = ", ".join(f"g{c}" for c in range(KEYS))
    duckdb.execute(f"SET threads = {CORES}; SET memory_limit = '{duckdb_memory(source)}'")
    cpu, start = time.process_time(), time.perf_counter()
    duckdb.execute(
        f"CREATE TEMP TABLE l AS SELECT {columns}, COUNT(*) AS n FROM '{source}' GROUP BY {columns}"
    )
    return {"seconds": time.perf_counter() - start, "core seconds": time.process_time() - cpu}


PARTS = {
    "spark": lambda source: audit(f"spark://local[{CORES}]?table=parquet.`{source}`", DRIVER_MEMORY),
    "spark group by": spark_group_by,
    "duckdb": lambda source: audit(str(source), duckdb_memory(source)),
    "duckdb group by": duckdb_group_by,
}


def run(part: str, source: Path) -> dict[str, Any]:
    """One part in a process of its own."""
    environment = {
        **os.environ,
        "PYSPARK_SUBMIT_ARGS": f"--driver-memory {HEAP} --conf spark.ui.enabled=false "
        "--conf spark.ui.showConsoleProgress=false --conf spark.log.level=ERROR pyspark-shell",
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
        found = {}
        for part in PARTS:
            found[part] = run(part, source)
            seconds, spent = found[part]["seconds"], found[part]["core seconds"]
            print(f"{part:>16}: {seconds:.0f} s, {spent:.0f} core seconds", flush=True)
    spark, own = found["spark"], found["duckdb"]
    for name in ("signatures", "cells", "identifiable", "distribution"):
        assert spark[name] == own[name], name
    for name in ("lower", "upper"):
        assert abs(spark[name] - own[name]) <= 1e-9 * own[name], name
    print(f"{arguments.rows:,} rows, {spark['signatures']:,} signatures, {spark['cells']:,} cells")
    for name in ("seconds", "core seconds"):
        ratios = [spark[name] / found[other][name] for other in ("spark group by", "duckdb")]
        print(f"{name}: {ratios[0]:.1f} × Spark's own GROUP BY, {ratios[1]:.1f} × DuckDB, streamed")
        measured(f"{arguments.rows:,} rows, {name}", ratios[0], rival="Spark's own GROUP BY")
    print(
        f"peaks: driver {spark['peak'] / 1e9:.2f} GB, JVM {spark['jvm'] / 1e9:.1f} GB (heap {HEAP}), "
        f"its workers {spark['workers'] / 1e9:.2f} GB together; DuckDB {own['peak'] / 1e9:.2f} GB"
    )
    for name in ("spark", "duckdb"):
        listed = ", ".join(f"{stage} {spent}" for stage, spent in found[name]["stages"].items())
        print(f"core seconds of {name}: {listed}")
    assert spark["peak"] < DRIVER_LIMIT, f"driver above {DRIVER_LIMIT / 1e9:g} GB"


if __name__ == "__main__":
    main()
