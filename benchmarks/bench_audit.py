"""Audits of large tables against what no audit can avoid, in one process on the same data.

Ten million rows and twelve GROUP BYs: against DuckDB's one GROUP BY that lists the signatures. A thousand
single-cell WHERE queries: against the products of their rows by BLAS, plus the scan. ``--full`` runs the
first at full size, a tenth of it otherwise.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import duckdb
import numpy as np

import sightline as sl
from benchmarks.history import machine_unit, measured
from sightline.examples.shipped import example_plan

CORES = len(os.sched_getaffinity(0))
GROUPS = 208  # in each of the 12 columns: 2,496 cells


def timed(job: Callable[[], object]) -> tuple[float, object]:
    start = time.perf_counter()
    found = job()
    return time.perf_counter() - start, found


def peak_gigabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def plan(source: Path, releases: list[dict[str, object]]) -> dict[str, object]:
    return {
        "data": {"source": str(source), "record": "home", "secret": "watts", "bounds": [0, 9000]},
        "privacy": {"epsilon": 1.0, "delta": 1e-9},
        "release": releases,
    }


def twelve_breakdowns(folder: Path, rows: int, group: str) -> None:
    """``group`` is the SQL of a group's name, from its number x."""
    source = folder / "wide.parquet"
    templates = rows * 2 // 5  # rows that share one are alike: millions of distinct signatures
    columns = ", ".join(
        group.replace("x", f"(hash(12 * t + {c}) % {GROUPS})") + f" AS g{c}" for c in range(12)
    )
    duckdb.execute(
        f"COPY (SELECT i AS home, {columns}, random() * 9000 AS watts "
        f"FROM (SELECT i, hash(i) % {templates} AS t FROM range({rows}) r(i))) TO '{source}' (FORMAT parquet)"
    )
    groups = ", ".join(f"g{c}" for c in range(12))
    listing = (
        f"CREATE OR REPLACE TEMP TABLE l AS SELECT {groups}, COUNT(*) AS n FROM '{source}' GROUP BY {groups}"
    )
    duckdb.execute(f"SET threads = {CORES}")
    alone = min(timed(lambda: duckdb.execute(listing))[0] for _ in range(3))
    duckdb.execute("DROP TABLE l")
    releases: list[dict[str, object]] = [
        {"name": f"by g{c}", "sql": f"SELECT g{c}, AVG(watts) FROM data GROUP BY g{c}"} for c in range(12)
    ]
    ours, result = timed(lambda: sl.audit(plan(source, releases)))
    assert isinstance(result, sl.AuditResult)
    print(
        f"{rows:,} rows × 12 GROUP BYs on {group!r}: {result.cells:,} cells, {result.signatures:,} signatures"
    )
    print(f"  the GROUP BY that lists the signatures   {alone:8.1f} s")
    print(f"  the whole audit                          {ours:8.1f} s")
    wanted = 7 if rows >= 10_000_000 else 20
    print(f"  audit / GROUP BY                         {ours / alone:8.1f}   (wanted: at most {wanted})")
    print(f"  peak memory so far                       {peak_gigabytes():8.1f} GB (wanted: at most 6)")
    measured(
        f"{rows:,} rows × 12 GROUP BYs on {group}",
        ours / alone,
        rival="the GROUP BY",
        memory=peak_gigabytes(),
    )


def boxes(generator: np.random.Generator, queries: int) -> list[str]:
    """Unions of two boxes in columns of 16 values."""
    found = []
    for _ in range(queries):
        a, b, c, d = generator.choice(8, size=4, replace=False)
        w, x, y, z = generator.integers(4, 12, size=4)
        found.append(f"(c{a} < {w} AND c{b} >= {x}) OR (c{c} < {y} AND c{d} >= {z})")
    return found


def ladders(generator: np.random.Generator, queries: int) -> list[str]:
    """Nested thresholds on three columns of 1,000 values: every two neighbours differ in few rows."""
    return [f"c{i % 3} < {3 * (i // 3) + 1}" for i in range(queries)]


def many_queries(
    folder: Path,
    name: str,
    values: int,
    workload: Callable[[np.random.Generator, int], list[str]],
    rows: int = 100_000,
    queries: int = 1_000,
) -> None:
    source = folder / "tall.parquet"
    columns = ", ".join(f"CAST(hash(8 * i + {c}) % {values} AS SMALLINT) AS c{c}" for c in range(8))
    duckdb.execute(
        f"COPY (SELECT i AS home, {columns}, random() * 9000 AS watts FROM range({rows}) r(i)) "
        f"TO '{source}' (FORMAT parquet)"
    )
    conditions = workload(np.random.default_rng(0), queries)
    releases: list[dict[str, object]] = [
        {"name": f"query {i}", "sql": f"SELECT SUM(watts) FROM data WHERE {condition}"}
        for i, condition in enumerate(conditions)
    ]
    tests = ", ".join(f"({condition})" for condition in conditions)

    def scan() -> np.ndarray:
        found = duckdb.execute(f"SELECT {tests} FROM '{source}'").fetchnumpy()
        return np.stack([column.astype(np.float64) for column in found.values()])

    scanned, members = timed(scan)
    assert isinstance(members, np.ndarray)
    blas, _ = timed(lambda: members @ members.T)
    ours, result = timed(lambda: sl.audit(plan(source, releases)))
    assert isinstance(result, sl.AuditResult)
    print(f"{queries:,} WHERE queries ({name}) over {rows:,} rows: {result.signatures:,} signatures")
    print(f"  the scan, {scanned:.1f} s, and the products of rows, {blas:.1f} s")
    print(f"  the whole audit                          {ours:8.1f} s")
    print(f"  audit / (scan + products)                {ours / (scanned + blas):8.1f}   (wanted: at most 4)")
    measured(f"{queries:,} WHERE, {name}", ours / (scanned + blas), rival="the scan and the products")


def many_releases(folder: Path, sizes: Sequence[int] = (200, 400, 800), rows: int = 2_000) -> None:
    """CPU seconds of audits of more and more releases over a small table, and their exponent."""
    source = folder / "small.parquet"
    duckdb.execute(
        f"COPY (SELECT i AS home, hash(i) % 200 AS x, hash(i + 7) % 20 AS g, random() * 9000 AS watts "
        f"FROM range({rows}) r(i)) TO '{source}' (FORMAT parquet)"
    )
    generator, taken = np.random.default_rng(3), []
    for size in sizes:
        starts, widths = generator.integers(0, 150, size), generator.integers(5, 50, size)
        left_out = generator.integers(0, 20, size)
        releases: list[dict[str, object]] = [
            {
                "name": f"query {i}",
                "sql": f"SELECT SUM(watts) FROM data WHERE x BETWEEN {a} AND {a + w} AND g <> {g}",
                "noise_stddev": 1e6,
            }
            for i, (a, w, g) in enumerate(zip(starts, widths, left_out, strict=True))
        ]
        data = {"source": str(source), "record": "home", "secret": "watts", "bounds": [0, 9000]}
        start = time.process_time()
        sl.audit({"data": data, "release": releases, "limits": {"remaining_uncertainty": 0.5}})
        taken.append(time.process_time() - start)
        print(f"{size:,} releases with a WHERE each over {rows:,} rows: {taken[-1]:.1f} s CPU", flush=True)
    power = float(np.polyfit(np.log(sizes), np.log(taken), 1)[0])
    measured(f"{sizes[-1]:,} releases", taken[-1] / machine_unit(), rival="the machine's unit")
    measured("exponent of the releases", power, rival="1")


def nested_counts(folder: Path, people: int = 1_500, counts: int = 100) -> None:
    """A yes or no of people behind nested counts."""
    source = folder / "people.parquet"
    duckdb.execute(
        f"COPY (SELECT i AS person, i * 7919 % {people} AS x, i % 2 = 0 AS yes FROM range({people}) r(i)) "
        f"TO '{source}' (FORMAT parquet)"
    )
    releases = [
        {
            "name": f"below {i}",
            "sql": f"SELECT COUNT(*) FROM data WHERE yes AND x < {people * (i + 1) // counts}",
            "noise_stddev": 3.0,
        }
        for i in range(counts)
    ]
    data = {"source": str(source), "record": "person", "secret": "yes", "kind": "boolean"}
    start = time.process_time()
    sl.audit({"data": data, "release": releases, "limits": {"remaining_uncertainty": 0.5}})
    seconds = time.process_time() - start
    print(f"{people:,} people behind {counts} nested counts: {seconds:.1f} s CPU", flush=True)
    measured(
        f"{people:,} people, {counts} nested counts", seconds / machine_unit(), rival="the machine's unit"
    )


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--full", action="store_true", help="ten million rows")
    full = arguments.parse_args().full
    sl.audit(example_plan("microgrid"))  # imports
    with tempfile.TemporaryDirectory() as name:
        rows = 10_000_000 if full else 1_000_000
        for group in ("'group ' || x", "CAST(x AS SMALLINT)"):
            twelve_breakdowns(Path(name), rows, group)
            print()
        many_queries(Path(name), "two boxes each", 16, boxes)
        many_queries(Path(name), "nested thresholds", 1_000, ladders)
        many_releases(Path(name))
        nested_counts(Path(name))
