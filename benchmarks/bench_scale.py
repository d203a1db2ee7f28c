"""Nested and clustered tables of very many cells: seconds, peak memory, and how both grow with the cells.

``census`` (unless another kind is named): blocks lie in groups, groups in tracts, tracts in counties; twelve
GROUP BYs cross them with age, sex, race and ethnicity. Sizes of blocks are uneven, so that some hold one or
two persons. ``hierarchy``: blocks in groups in tracts, five GROUP BYs at each level. Both assess all records,
then the worst twenty with their recipes. ``audit``: the command ``sightline audit`` on the census as a
Parquet file, from the plan to the page and the JSON.

Each size runs in a process of its own, which is what its peak memory is of. ``--cells 9000 35000 139000``
chooses the sizes. The figure to compare with is a lower limit of any method: reading every pair of cells of
every signature.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as arrow
import pyarrow.parquet as parquet
from numpy.typing import NDArray

from benchmarks.history import machine_unit, measured
from sightline.bounds.assessment import assess
from sightline.bounds.priors import prior_on
from sightline.progress import reporting
from sightline.units.design import Design
from sightline.units.row_noise import RowNoise
from sightline.units.sparse_row_solver import sparse_cost
from sightline.units.target import UnitPrior
from sightline.units.units import Units

# Persons and blocks for about so many cells.
PERSONS_PER_CELL, CELLS_PER_BLOCK, HIERARCHY_CELLS_PER_BLOCK = 29, 8.7, 16.43
CENSUS = (
    *("block", "grp", "tract", "county", "block, ethnicity", "grp, race", "grp, age", "grp, sex"),
    *("tract, race, ethnicity", "tract, age, sex", "county, age, race", "county, age, sex, ethnicity"),
)
PLAN = """
[data]
source = "people.parquet"
record = "person"
secret = "income"
bounds = [0, 1]
[privacy]
epsilon = 8.0
delta = 1e-9
[limits]
remaining_uncertainty = "95%"
"""


def people(cells: int) -> dict[str, NDArray[Any]]:
    """A table of persons whose census has about so many cells: columns by name."""
    generator = np.random.default_rng(1)
    blocks, persons = round(cells / CELLS_PER_BLOCK), cells * PERSONS_PER_CELL
    weights = generator.lognormal(0.0, 1.0, blocks)
    block = np.sort(generator.choice(blocks, size=persons, p=weights / weights.sum()))
    return {
        "block": block,
        "grp": block // 8,
        "tract": block // 32,
        "county": block // 320,
        "age": np.minimum(generator.geometric(0.12, size=persons) - 1, 17),
        "sex": generator.integers(2, size=persons),
        "race": np.minimum(generator.geometric(0.45, size=persons) - 1, 6),
        "ethnicity": (generator.random(persons) < 0.15).astype(np.int64),
    }


def census(cells: int) -> Units:
    """Signatures of about so many cells, and how many persons have each."""
    return signatures_of(people(cells), [release.split(", ") for release in CENSUS])


def hierarchy(cells: int) -> Units:
    """Blocks within groups within tracts, with five GROUP BYs at each level: about so many cells."""
    generator = np.random.default_rng(2)
    blocks = round(cells / HIERARCHY_CELLS_PER_BLOCK)
    persons = 30 * blocks
    weights = generator.lognormal(0.0, 0.6, blocks)
    block = np.sort(generator.choice(blocks, size=persons, p=weights / weights.sum()))
    table = {
        "block": block,
        "grp": block // 8,
        "tract": block // 32,
        "age": np.minimum(generator.geometric(0.3, size=persons) - 1, 5),
        "sex": generator.integers(2, size=persons),
        "race": np.minimum(generator.geometric(0.6, size=persons) - 1, 3),
        "ethnicity": (generator.random(persons) < 0.15).astype(np.int64),
    }
    crossed = ([], ["age"], ["sex"], ["race"], ["ethnicity"])
    return signatures_of(table, [[level, *keys] for level in ("block", "grp", "tract") for keys in crossed])


def signatures_of(table: dict[str, NDArray[Any]], releases: list[list[str]]) -> Units:
    """The cells of some GROUP BYs as signatures, and how many persons have each."""
    columns = []
    for keys in releases:
        number = np.zeros(len(table[keys[0]]), dtype=np.int64)
        for key in keys:
            number = number * (int(table[key].max()) + 1) + table[key]
        columns.append(np.unique(number, return_inverse=True)[1].astype(np.int32))
    generator = np.random.default_rng(3)
    mixed = np.zeros(columns[0].size, dtype=np.uint64)
    for column in columns:
        mixed += generator.integers(1 << 62, size=int(column.max()) + 1, dtype=np.uint64)[column]
    _, first, counts = np.unique(mixed, return_index=True, return_counts=True)
    widths = np.array([int(column.max()) + 1 for column in columns], dtype=np.intp)
    signatures = np.stack([column[first] for column in columns], axis=1) + np.cumsum(widths) - widths
    ones = np.ones(len(signatures), dtype=np.intp)
    return Units(
        rows=signatures.astype(np.int32),
        numbers=int(widths.sum()),
        starts=np.arange(len(signatures) + 1),
        times=ones,
        people=counts.astype(np.intp),
        distinct=True,
    )


def audit(cells: int) -> dict[str, float | str]:
    """One size: the command on a Parquet file, with its page and its JSON."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        table = people(cells)
        person = np.arange(len(table["block"]))
        income = np.random.default_rng(4).random(person.size)
        parquet.write_table(
            arrow.table({"person": person, **table, "income": income}), folder / "people.parquet"
        )
        releases = [
            f'[[release]]\nname = "by {keys}"\nsql = "SELECT {keys}, SUM(income) FROM data GROUP BY {keys}"\n'
            for keys in CENSUS
        ]
        (folder / "plan.toml").write_text(PLAN + "".join(releases), encoding="utf-8")
        del table, person, income
        run = "import sys; from sightline.cli import main; sys.exit(main(sys.argv[1:]))"
        command = [sys.executable, "-c", run, "audit", str(folder / "plan.toml"), "--json"]
        start = time.perf_counter()
        done = subprocess.run(
            [*command, "--html", str(folder / "page.html")], capture_output=True, text=True, check=False
        )
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        result = json.loads(done.stdout)
        return {
            "cells": result["cells"],
            "signatures": result["signatures"],
            "seconds": time.perf_counter() - start,
            "cpu seconds": used.ru_utime + used.ru_stime,
            "peak GB": used.ru_maxrss / 2**20,
            "verdict": result["verdict"]["status"],
            "identifiable": result["identifiable_records"],
            "recipes": sum(one["recipe"] is not None for one in result["exposed"]),
            "stages": len(result["timeline"]),
            "JSON MB": len(done.stdout) / 1e6,
            "HTML MB": (folder / "page.html").stat().st_size / 1e6,
            "last line": result["assumptions"][-1],
        }


def one(units: Units) -> dict[str, float | str]:
    """One size: the exposures of all records, then the worst twenty with their recipes."""
    scales, ones = np.full(units.numbers, 2.0), np.ones(units.numbers)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    stages: dict[str, float] = {}
    start, cpu = time.perf_counter(), time.process_time()

    def stage(name: str, share: float) -> None:
        if share in (0.0, 0.25, 0.5, 0.75):
            stages.setdefault(f"{name[:22]} {share:.0%}", time.perf_counter() - start)

    design = Design(
        units=units,
        noise=RowNoise.of(scales, scales, 0 * ones, ones),
        prior=UnitPrior(target=prior_on((0.0, 1.0), "uniform")),
        release=np.arange(units.numbers),
        place=np.arange(len(units)),
    )
    with reporting(stage):
        found = assess(design)
        identifiable = found.identifiable[:, 0]
        worst = np.argsort(found.lower[:, 0], kind="stable")[:20]
        recipes = [found.recipe(int(kind)) for kind in worst if identifiable[kind]]
        error = found.relative_error
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu
    pairs = limit(units)
    return {
        "cells": units.numbers,
        "signatures": len(units),
        "seconds": seconds,
        "cpu seconds": cpu_seconds,
        "limit seconds": pairs,
        "peak GB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "GB before": before / 2**20,
        "expected": str(sparse_cost(units) or "dense"),
        "rank": found.rank,
        "identifiable": int(np.count_nonzero(identifiable & (units.people == 1))),
        "sums of groups": int(identifiable.sum()),
        "undecided": int(found.undecided.sum()),
        "recipes": len(recipes),
        "relative error": error,
        "least remaining": float(found.lower.min()),
        "stages": json.dumps({name: round(at, 1) for name, at in stages.items()}),
    }


def limit(units: Units) -> float:
    """Seconds to look up one number for every pair of cells of every signature."""
    start = time.perf_counter()
    total, values = np.zeros(len(units)), np.arange(float(units.numbers))
    for p, own in enumerate(units.rows.T):
        for _ in range(p):
            total += np.take(values, own)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", type=int, nargs="+", default=[9_000, 35_000])
    parser.add_argument("--kind", choices=["census", "hierarchy", "audit"], default="census")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        made = {"census": census, "hierarchy": hierarchy}.get(arguments.kind)
        print(json.dumps(audit(arguments.one) if made is None else one(made(arguments.one))))
        return
    rows = []
    for cells in arguments.cells:
        done = subprocess.run(
            [sys.executable, __file__, "--kind", arguments.kind, "--one", str(cells)],
            check=True,
            capture_output=True,
            text=True,
        )
        rows.append(json.loads(done.stdout))
        print(f"--- about {cells:,} cells")
        for name, value in rows[-1].items():
            print(
                f"{name:>16}  {value:,.4g}" if isinstance(value, float) else f"{name:>16}  {value}",
                flush=True,
            )
        measured(
            f"{arguments.kind}, about {cells:,} cells",
            rows[-1]["cpu seconds"] / machine_unit(),
            rival="the machine's unit",
            memory=rows[-1]["peak GB"],
        )
    if len(rows) > 1:
        for name in ("cpu seconds", "peak GB"):
            sizes, values = ([math.log(row[key]) for row in rows] for key in ("cells", name))
            power = np.polyfit(sizes, values, 1)[0]
            print(f"{name} grow like cells to the power {power:.2f}")
            measured(f"{arguments.kind}, exponent of the cells, {name}", power, rival="1")


if __name__ == "__main__":
    main()
