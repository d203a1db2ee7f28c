"""How long until the first word, and until the answer about a small plan.

Two lower limits are started in turn with the others, so that a busy machine slows all alike: the bare
interpreter, and Python with NumPy and DuckDB loaded, which no audit can do without. What a command takes is
stated above both. The small plans are the shipped micro-grid (18 records), 1,000 rows in 200 cells, and one
release of 1,711 disjoint cells over 65,000 rows.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb

ROUNDS = 11
BARE, LOADED = "python -c pass", "import numpy, duckdb"
WANTED = {"audit: 18 records": 0.5, "audit: 1,000 rows × 200 cells": 0.6}  # seconds above LOADED
WRITES_BYTE_CODE = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}

COMMANDS = {
    BARE: "pass",
    "import sightline": "import sightline",
    "sightline --help": "from sightline.cli import main; main(['--help'])",
    LOADED: "import numpy, duckdb",
    "sightline demo": "from sightline.cli import main; main(['demo'])",
    "audit: 18 records": (
        "from sightline.jobs import audit; from sightline.examples.shipped import example_plan; "
        "audit(example_plan('microgrid'))"
    ),
}
PLANS = {
    "audit: 1,000 rows × 200 cells": (1_000, ["a", "b", "c", "d", "a, b"]),
    "audit: 65,000 rows × 1,711 cells": (65_000, ["e"]),
}


def audit_of(folder: Path, rows: int, keys: list[str]) -> str:
    """Python that audits means by each of the keys: 13, 9, 5, 40 and 117 cells, or 1,711."""
    source = folder / f"{rows}.parquet"
    sizes = {"a": 13, "b": 9, "c": 5, "d": 40, "e": 1_711}
    columns = ", ".join(
        f"'{name}' || hash({place + 2} * i + {place}) % {size} AS {name}"
        for place, (name, size) in enumerate(sizes.items())
    )
    duckdb.execute(
        f"COPY (SELECT i AS home, {columns}, hash(7 * i) % 9000 AS watts FROM range({rows}) t(i)) "
        f"TO '{source}' (FORMAT parquet)"
    )
    plan = {
        "data": {"source": str(source), "record": "home", "secret": "watts", "bounds": [0, 9000]},
        "privacy": {"epsilon": 10.0, "delta": 1e-6},
        "limits": {"remaining_uncertainty": 0.5},
        "release": [
            {"name": f"by {key}", "sql": f"SELECT {key}, AVG(watts) FROM data GROUP BY {key}"} for key in keys
        ],
    }
    return f"from sightline.jobs import audit; audit({plan!r})"


def seconds(code: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL, env=WRITES_BYTE_CODE)
    return time.perf_counter() - start


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        commands = COMMANDS | {plan: audit_of(Path(name), *given) for plan, given in PLANS.items()}
        for code in commands.values():
            seconds(code)  # byte code is written, and files are in memory
        taken: dict[str, list[float]] = {command: [] for command in commands}
        for _ in range(ROUNDS):
            for command, code in commands.items():
                taken[command].append(seconds(code))
    median = {command: statistics.median(times) for command, times in taken.items()}
    bare, loaded = median[BARE], median[LOADED]
    print(
        f"{'command':<34}{'median ms':>11}{'above bare':>12}{'above NumPy, DuckDB':>21}   ({ROUNDS} rounds)"
    )
    for command, value in median.items():
        above = f"{1e3 * (value - loaded):.0f}" if value > loaded else ""
        wanted = f"   (wanted: at most {1e3 * WANTED[command]:.0f})" if command in WANTED else ""
        print(f"{command:<34}{1e3 * value:>11.0f}{1e3 * (value - bare):>12.0f}{above:>21}{wanted}")


if __name__ == "__main__":
    main()
