"""Counts of people as offices publish them: how many are certain, in how long; and a large table.

``python benchmarks/bench_counts.py`` prints both: 1,000 people in eight tables under five rules, and 100,000
people in six tables of 4,850 counts, the programs alone and the whole audit.
"""

from __future__ import annotations

import re
import time
import tomllib
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from scipy import sparse

import sightline as sl
from benchmarks.history import machine_unit, measured
from sightline.bounds.certain import CountIntervals, decide
from sightline.examples.shipped import example_plan
from sightline.noise.count_rules import CountRule

RULES = ((5, 0), (5, 10), (5, 8), (10, 0), (3, 0))  # the base, and below which count cells are blank
TRIPLES = ("area, age, sex", "area, origin, sex")


def office_plan(to: int, below: int) -> dict[str, Any]:
    """The shipped frequency table with two tables of three columns more."""
    path = example_plan("frequency")
    plan: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    plan["data"]["source"] = str(path.parent / "people.csv")
    for keys in TRIPLES:
        sql = f"SELECT {keys}, COUNT(*) FILTER (WHERE employed) AS n FROM data GROUP BY {keys}"
        plan["release"].append({"name": f"by {keys}", "sql": sql})
    rule: dict[str, Any] = {"noise": {"law": "rounding", "to": to}}
    rule |= {"suppress_below": below} if below else {}
    plan["release"] = [{**release, **rule} for release in plan["release"]]
    return plan


def followed(plan: dict[str, Any], change: Any) -> dict[str, Any]:
    """The plan after what is advised: counts withheld, or a coarser base for all."""
    for release in plan["release"]:
        if change.kind == "round":
            release["noise"]["to"] = int(change.action.split(" to ")[1].split(",")[0])
        named = [name.partition(": ") for name in re.findall('"([^"]+)"', change.action)]
        withheld = [key.split(", ") for name, _, key in named if name == release["name"]]
        if change.kind == "blank" and withheld:
            release["withhold"] = withheld
    return plan


def large_people(people: int = 100_000) -> tuple[list[Any], Any]:
    """Four columns of 40 to 20 values, and a yes or no."""
    rng, widths = np.random.default_rng(0), (40, 30, 25, 20)
    columns = [np.minimum((rng.random(people) ** 1.7 * w).astype(int), w - 1) for w in widths]
    return columns, rng.random(people) < 0.3


def large_plan() -> dict[str, Any]:
    """Six tables by two of the four columns, rounded to 5 and blank below 10, with a limit and the rule k."""
    columns, yes = large_people()
    table = pd.DataFrame(dict(zip("abcd", columns, strict=True)) | {"ill": yes, "id": np.arange(yes.size)})
    releases = [
        {
            "name": f"by {one} and {other}",
            "sql": f"SELECT {one}, {other}, COUNT(*) FILTER (WHERE ill) AS n FROM data GROUP BY 1, 2",
            "noise": {"law": "rounding", "to": 5},
            "suppress_below": 10,
        }
        for one, other in combinations("abcd", 2)
    ]
    return {
        "data": {"source": table, "record": "id", "secret": "ill", "kind": "boolean"},
        "limits": {"remaining_uncertainty": 0.1},
        "rules": {"k": 10},
        "release": releases,
    }


def large_table() -> CountIntervals:
    """What is known by the same six tables."""
    columns, yes = large_people()
    classes, place = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
    rows = []
    for pair in combinations(range(4), 2):
        _, cell = np.unique(classes[:, pair], axis=0, return_inverse=True)
        rows.append(sparse.csr_array((np.ones(len(classes)), (cell.ravel(), np.arange(len(classes))))))
    table = sparse.csr_array(sparse.vstack(rows))
    truth = np.bincount(place.ravel(), yes).astype(np.float64)
    low, high = CountRule(to=5, below=10).known_of_counts(np.asarray(table @ truth))
    return CountIntervals(
        weights=table, low=low, high=high, sizes=np.bincount(place.ravel()).astype(np.float64), truth=truth
    )


def main() -> None:
    """Print the two tables."""
    for to, below in RULES:
        start = time.perf_counter()
        result = sl.audit(office_plan(to, below))
        seconds, certain = time.perf_counter() - start, result.certain
        assert certain is not None
        whom = f"{certain.people} of {result.records:,} certain"
        print(f"base {to}, blank below {below}: {whom}, {seconds:.1f} s")
        for change in result.so_nobody_is_certain or ():
            after = sl.audit(followed(office_plan(to, below), change), verdict_only=True).certain
            assert after is not None
            print(f"  {change.action} ({change.cost}): {after.people} certain, {after.undecided} undecided")
    intervals = large_table()
    start = time.perf_counter()
    found = decide(intervals)
    seconds = time.perf_counter() - start
    size = f"{int(intervals.sizes.sum()):,} people, {intervals.low.size:,} counts"
    certain_people = int(intervals.sizes[found.certain].sum())
    print(f"{size}: {certain_people} certain, {int(found.undecided.sum())} undecided, {seconds:.1f} s")
    programs = seconds
    plan, start = large_plan(), time.perf_counter()
    result = sl.audit(plan)
    seconds = time.perf_counter() - start
    assert result.certain is not None
    measured(f"the whole audit, {size}", seconds / programs, rival="the programs alone")
    measured(f"the programs, {size}", programs / machine_unit(), rival="the machine's unit")
    print(f"  the whole audit: {result.verdict.status}, {result.certain.people} certain, {seconds:.1f} s")


if __name__ == "__main__":
    main()
