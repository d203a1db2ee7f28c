"""How long until the first word, and until the answer about a small plan.

Seconds of processor time of whole processes, with byte code that is there. Two lower limits are started in
turn with the others, so that a busy machine slows all alike: the bare interpreter, and Python with NumPy and
DuckDB loaded, which no audit can do without. What a command takes is stated above both. Audits are the
command ``sightline audit``, with what it prints. The small plans are the shipped micro-grid (18 records),
1,000 rows in 200 cells, and one release of 1,711 disjoint cells over 65,000 rows.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import duckdb

from benchmarks.history import measured
from sightline.examples.shipped import example_plan

ROUNDS = 11
BARE, LOADED = "python -c pass", "import numpy, duckdb"
WANTED = {"audit: 18 records": 0.5, "audit: 1,000 rows × 200 cells": 0.6}  # seconds above LOADED
WRITES_BYTE_CODE = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}

COMMANDS = {
    BARE: "pass",
    "import sightline": "import sightline",
    "sightline --help": "--help",
    LOADED: "import numpy, duckdb",
    "sightline demo": "demo",
    "audit: 18 records": "audit " + str(example_plan("microgrid")),
}
PLANS = {
    "audit: 1,000 rows × 200 cells": (1_000, ["a", "b", "c", "d", "a, b"]),
    "audit: 65,000 rows × 1,711 cells": (65_000, ["e"]),
}


def audit_of(folder: Path, rows: int, keys: list[str]) -> str:
    """The command that audits means by each of the keys: 13, 9, 5, 40 and 117 cells, or 1,711."""
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
    text = f"""
[data]
source = {json.dumps(str(source))}
record = "home"
secret = "watts"
bounds = [0, 9000]
[privacy]
epsilon = 10.0
delta = 1e-6
[limits]
remaining_uncertainty = "50%"
"""
    for key in keys:
        text += f'[[release]]\nname = "by {key}"\nsql = "SELECT {key}, AVG(watts) FROM data GROUP BY {key}"\n'
    plan = folder / f"{rows}.toml"
    plan.write_text(text)
    return f"audit {plan}"


def seconds(code: str) -> float:
    """Of the processor, for Python code or for a command of ours."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    if not code.startswith(("pass", "import")):
        code = f"import sys; from sightline.cli import run; sys.argv[1:] = {code.split()}; sys.exit(run())"
    quiet = subprocess.DEVNULL
    ended = subprocess.run([sys.executable, "-c", code], stdout=quiet, stderr=quiet, env=WRITES_BYTE_CODE)
    assert ended.returncode in (0, 2), code
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


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
    for command in WANTED:
        measured(command, median[command] / loaded, rival="NumPy and DuckDB alone")


if __name__ == "__main__":
    main()
