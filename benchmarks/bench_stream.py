"""An audit of a table whose signatures stay in DuckDB, beside DuckDB's own GROUP BY over the same keys.

    python benchmarks/bench_stream.py --rows 100e6 --memory 8GB

The table has 12 keys, of 5 to 100 values each, that are functions of one of ``rows / 4`` profiles: most rows
share a signature with a few others. It prints the rows, the signatures, the seconds of each, their ratio, and
the largest memory of the process that audits.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb

from benchmarks.history import measured

SIZES = (50, 20, 12, 30, 7, 100, 5, 16, 25, 40, 9, 60)


def write_table(file: Path, rows: int) -> None:
    """Rows with a number of their own, 12 keys, and a secret from 0 to 1."""
    profile = f"hash(i) % {max(1, rows // 4)}"
    keys = ", ".join(
        f"CAST(hash(12 * p + {place}) % {size} AS UTINYINT) AS k{place}" for place, size in enumerate(SIZES)
    )
    duckdb.sql(
        f"COPY (SELECT i AS who, {keys}, CAST(hash(-i) % 1000 AS FLOAT) / 1000 AS x "
        f"FROM (SELECT i, CAST({profile} AS BIGINT) AS p FROM range({rows}) AS t(i))) "
        f"TO '{file}' (FORMAT parquet)"
    )


def grouped_alone(file: Path, memory: str) -> tuple[int, float]:
    """How many signatures the rows have, and the seconds that DuckDB takes to count the rows of each."""
    connection = duckdb.connect(":memory:")
    connection.execute(f"SET memory_limit='{memory}'")
    connection.execute(f"SET temp_directory='{file.parent}/alone'")
    keys = ", ".join(f"k{place}" for place in range(len(SIZES)))
    start = time.perf_counter()
    connection.execute(
        f"CREATE TEMP TABLE s AS SELECT {keys}, COUNT(*) AS n FROM read_parquet('{file}') GROUP BY {keys}"
    )
    seconds = time.perf_counter() - start
    (row,) = connection.execute("SELECT COUNT(*) FROM s").fetchall()
    connection.close()
    return int(row[0]), seconds


AUDIT = """
import json, resource, sys, time
import sightline as sl

file, memory, keys = sys.argv[1], sys.argv[2], int(sys.argv[3])
plan = {
    "data": {"source": file, "record": "who", "secret": "x", "bounds": [0, 1]},
    "privacy": {"epsilon": 8.0, "delta": 1e-6, "accountant": "zcdp"},
    "limits": {"remaining_uncertainty": 0.5},
    "release": [
        {"name": f"by k{key}", "sql": f"SELECT k{key}, AVG(x) FROM data GROUP BY k{key}"}
        for key in range(keys)
    ],
}
start, last, stages = time.perf_counter(), [None, 0.0], {}

def progress(stage, share):
    now = time.perf_counter() - start
    if last[0] is not None:
        stages[last[0]] = stages.get(last[0], 0.0) + now - last[1]
    last[:] = [stage, now]

result = sl.audit(plan, max_memory=memory, progress=progress)
progress("end", 1.0)
print(json.dumps({
    "seconds": time.perf_counter() - start,
    "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    "signatures": result.signatures,
    "streamed": any("is streamed" in line for line in result.assumptions),
    "verdict": result.verdict.status,
    "least": result.least_remaining_uncertainty.lower,
    "stages": {name: round(seconds, 1) for name, seconds in stages.items() if seconds >= 0.1},
}))
"""


def main() -> None:
    """Write the table, group it, audit it in a process of its own, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=float, default=2e6)
    parser.add_argument("--memory", default="8GB")
    parser.add_argument("--folder", default=None, help="where the table and temporary files go")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        file = Path(folder) / "table.parquet"
        start = time.perf_counter()
        write_table(file, int(options.rows))
        print(
            f"table: {int(options.rows):,} rows, {file.stat().st_size / 1e9:.2f} GB, "
            f"{time.perf_counter() - start:.0f} s to write",
            flush=True,
        )
        signatures, alone = grouped_alone(file, options.memory)
        print(f"DuckDB's GROUP BY: {signatures:,} signatures in {alone:.1f} s", flush=True)
        done = subprocess.run(
            [sys.executable, "-c", AUDIT, str(file), options.memory, str(len(SIZES))],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            sys.exit(done.stderr)
        found = json.loads(done.stdout)
        assert found["signatures"] == signatures
        print(
            f"audit: {found['seconds']:.1f} s, {found['seconds'] / alone:.1f} × the GROUP BY, peak "
            f"{found['peak'] / 1e9:.2f} GB, streamed: {found['streamed']}, {found['verdict']}, "
            f"least {found['least']:.6f}"
        )
        measured(
            f"{int(options.rows):,} rows",
            found["seconds"] / alone,
            rival="the GROUP BY",
            memory=found["peak"] / 1e9,
        )
        for stage, seconds in found["stages"].items():
            print(f"  {seconds:8.1f} s  {stage}")


if __name__ == "__main__":
    main()
