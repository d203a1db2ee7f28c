"""All records of nested and clustered tables: seconds, peak memory, and how both grow with the cells.

Blocks lie in groups, groups in tracts, tracts in counties; twelve GROUP BYs cross them with age, sex, race
and ethnicity. Sizes of blocks are uneven, so that some hold one or two persons. Each size runs in a process
of its own, which is what its peak memory is of. ``--cells 9000 35000 139000`` chooses the sizes.

The figure to compare with is a lower limit of any method: reading every pair of cells of every signature.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import time

import numpy as np

from sightline import MembershipDesign
from sightline.labeled.incidence.cells import CellIncidence

# Persons and blocks for about so many cells.
PERSONS_PER_CELL, CELLS_PER_BLOCK = 29, 8.7


def census(cells: int) -> CellIncidence:
    """Signatures of about so many cells, and how many persons have each."""
    generator = np.random.default_rng(1)
    blocks, persons = round(cells / CELLS_PER_BLOCK), cells * PERSONS_PER_CELL
    weights = generator.lognormal(0.0, 1.0, blocks)
    block = np.sort(generator.choice(blocks, size=persons, p=weights / weights.sum()))
    group, tract, county = block // 8, block // 32, block // 320
    age = np.minimum(generator.geometric(0.12, size=persons) - 1, 17)
    sex = generator.integers(2, size=persons)
    race = np.minimum(generator.geometric(0.45, size=persons) - 1, 6)
    ethnicity = (generator.random(persons) < 0.15).astype(np.int64)
    keys = (
        *(block, group, tract, county),
        *(block * 2 + ethnicity, group * 7 + race, group * 18 + age, group * 2 + sex),
        *((tract * 7 + race) * 2 + ethnicity, (tract * 18 + age) * 2 + sex),
        *((county * 18 + age) * 7 + race, ((county * 18 + age) * 2 + sex) * 2 + ethnicity),
    )
    columns = [np.unique(key, return_inverse=True)[1].astype(np.int32) for key in keys]
    mixed = np.zeros(persons, dtype=np.uint64)
    for column in columns:
        mixed += generator.integers(1 << 62, size=int(column.max()) + 1, dtype=np.uint64)[column]
    _, first, counts = np.unique(mixed, return_index=True, return_counts=True)
    widths = np.array([int(column.max()) + 1 for column in columns], dtype=np.intp)
    table = np.stack([column[first] for column in columns], axis=1)
    return CellIncidence.of(table, widths, counts.astype(np.intp))


def one(cells: int) -> dict[str, float | str]:
    """One size: the exposures of all records, then the worst twenty with their recipes."""
    incidence = census(cells)
    noise = np.full(incidence.row_count, 2.0)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    stages: dict[str, float] = {}
    start, cpu = time.perf_counter(), time.process_time()

    def stage(name: str, share: float) -> None:
        if share in (0.0, 0.25, 0.5, 0.75):
            stages.setdefault(f"{name[:22]} {share:.0%}", time.perf_counter() - start)

    design = MembershipDesign(incidence, noise=noise, readout="sum")
    found = design.exposures(domain=(0, 1), progress=stage)
    worst = found.worst(20)
    recipes = [found.recipe(person.record) for person in worst if found.identifiable[person.record]]
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu
    pairs = limit(incidence)
    return {
        "cells": incidence.row_count,
        "signatures": incidence.records,
        "seconds": seconds,
        "cpu seconds": cpu_seconds,
        "limit seconds": pairs,
        "peak GB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "GB before": before / 2**20,
        "expected": str(found.cost),
        "rank": found.rank,
        "evidence": found.evidence.name,
        "identifiable": int(found.identifiable.sum()),
        "sums of groups": int(found.groups.identifiable.sum()),
        "undecided": int(found.undecided.sum()),
        "recipes": len(recipes),
        "relative error": found.relative_error,
        "least remaining": float(worst[0].remaining_uncertainty[0]),
        "stages": json.dumps({name: round(at, 1) for name, at in stages.items()}),
    }


def limit(incidence: CellIncidence) -> float:
    """Seconds to look up one number for every pair of cells of every signature."""
    start = time.perf_counter()
    total = np.zeros(incidence.records)
    for p, own in enumerate(incidence.table):
        values = np.arange(float(incidence.widths[p]))
        for _ in range(p):
            total += np.take(values, own)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", type=int, nargs="+", default=[9_000, 35_000])
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(one(arguments.one)))
        return
    rows = []
    for cells in arguments.cells:
        done = subprocess.run(
            [sys.executable, __file__, "--one", str(cells)], check=True, capture_output=True, text=True
        )
        rows.append(json.loads(done.stdout))
        print(f"--- about {cells:,} cells")
        for name, value in rows[-1].items():
            print(
                f"{name:>16}  {value:,.4g}" if isinstance(value, float) else f"{name:>16}  {value}",
                flush=True,
            )
    if len(rows) > 1:
        for name in ("cpu seconds", "peak GB"):
            sizes, values = ([math.log(row[key]) for row in rows] for key in ("cells", name))
            print(f"{name} grow like cells to the power {np.polyfit(sizes, values, 1)[0]:.2f}")


if __name__ == "__main__":
    main()
