"""Random plans over random tables, streamed and in memory: the same verdict, counts and most exposed."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sightline.errors import InvalidPlan
from tests.auditing.test_streamed_audit import assert_same, in_memory_and_streamed, plan_of, table
from tests.numbered_cases import check_cases

KEYS = ("a", "b", "c", "d")
CONDITIONS = ("", "WHERE a > 0", "WHERE c <> 2", "WHERE d < 20 AND b > 0", "WHERE d = 3 OR a = 1")
LAWS: tuple[dict[str, Any], ...] = (
    {},
    {},
    {"noise_stddev": 0.3},
    {"noise": {"law": "laplace", "epsilon": 1.5}},
    {"times": 3},
)
KNOWN: tuple[list[str], ...] = ([], [], ["d < 5"], ["a = 1 AND b = 2", "c = 0"])


def fuzz(seed: int, seconds: float) -> dict[str, int]:
    """Cases of a seed until the time is up."""
    return check_cases(check, seed, seconds)


def check(draw: np.random.Generator, trial: int, count: Counter[str]) -> None:
    """One plan."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        persons = None if draw.random() < 0.4 else int(draw.choice([4, 10, 40, 120, 300]))
        rows = int(draw.integers(60, 300)) * (1 if persons is None else 2)
        constant = persons is not None and draw.random() < 0.25
        secret = "constant" if constant else "number"
        file = table(Path(folder), int(draw.integers(10_000)), rows=rows, secret=secret, persons=persons)
        queries = [_query(draw) for _ in range(int(draw.integers(1, 5)))]
        prior = str(draw.choice(["uniform", "cos2", "two-point"]))
        knows = list(KNOWN[int(draw.integers(len(KNOWN)))])
        limits = {"accept": ["empty"]} | ({"remaining_uncertainty": 0.8} if draw.random() < 0.2 else {})
        plan = plan_of(file, *queries, limits=limits, attacker={"prior": prior, "knows": knows})
        if persons is not None:
            plan["data"] |= {"max_rows_per_record": 250} | ({"values": "constant"} if constant else {})
        for release in plan["release"]:
            release |= LAWS[int(draw.integers(len(LAWS)))]
        try:
            expected, got = in_memory_and_streamed(plan, patched, top=8)
        except InvalidPlan:
            count["refused"] += 1
            return
        if not any("is streamed" in line for line in got.assumptions):
            count["in memory"] += 1
            return
    # Tiny designs have sharper lower ends in memory, by chords.
    if expected.signatures <= 40:
        count["tiny"] += 1
        assert got.identifiable_records == expected.identifiable_records
        return
    assert_same(expected, got, top=8, ties=True)
    count["streamed" if persons is None else "persons streamed"] += 1
    count["identifiable records"] += expected.identifiable_records


def _query(draw: np.random.Generator) -> str:
    keys = ", ".join(draw.choice(KEYS, int(draw.integers(0, 3)), replace=False))
    aggregate, condition = str(draw.choice(["AVG(x)", "SUM(x)"])), str(draw.choice(CONDITIONS))
    if not keys:
        return f"SELECT {aggregate} FROM data {condition}"
    by = f"ROLLUP ({keys})" if draw.random() < 0.2 else keys
    return f"SELECT {keys}, {aggregate} FROM data {condition} GROUP BY {by}"
