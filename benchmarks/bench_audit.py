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
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np

import sightline as sl
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
        f"{rows:,} rows × 12 GROUP BYs on {group!r}: {result.cells:,} cells, "
        f"{result.signatures:,} signatures, rank {result.rank:,}"
    )
    print(f"  the GROUP BY that lists the signatures   {alone:8.1f} s")
    print(f"  the whole audit                          {ours:8.1f} s")
    wanted = 7 if rows >= 10_000_000 else 20
    print(f"  audit / GROUP BY                         {ours / alone:8.1f}   (wanted: at most {wanted})")
    print(f"  peak memory so far                       {peak_gigabytes():8.1f} GB (wanted: at most 6)")


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
    print(
        f"{queries:,} WHERE queries ({name}) over {rows:,} rows: {result.signatures:,} signatures, "
        f"rank {result.rank}"
    )
    print(f"  the scan, {scanned:.1f} s, and the products of rows, {blas:.1f} s")
    print(f"  the whole audit                          {ours:8.1f} s")
    print(f"  audit / (scan + products)                {ours / (scanned + blas):8.1f}   (wanted: at most 4)")


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
