"""Hunts for tables on which the rules that offices sign differ from their definitions.

The definitions are taken by brute force: every number and every difference of up to three. Five hundred
tables: ``python -c "from tests.auditing.fuzz_rules import fuzz; print(fuzz(0, 1e9, most=500))"``.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from itertools import combinations, product
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]

import sightline as sl
from tests.numbered_cases import check_cases

QUERIES: dict[str, Callable[[Any], list[Any]]] = {
    "all": lambda t: [np.ones(len(t), dtype=bool)],
    "a": lambda t: [t.a == value for value in sorted(t.a.unique())],
    "b": lambda t: [t.b == value for value in sorted(t.b.unique())],
    "a and b": lambda t: [(t.a == x) & (t.b == y) for x, y in sorted(set(zip(t.a, t.b, strict=True)))],
    "not x": lambda t: [t.a != "x"],
    "late": lambda t: [t.c > 2],
}
SQL = {
    "all": "SELECT SUM(v) FROM data",
    "a": "SELECT a, SUM(v) FROM data GROUP BY a",
    "b": "SELECT b, AVG(v) FROM data GROUP BY b",
    "a and b": "SELECT a, b, SUM(v) FROM data GROUP BY a, b",
    "not x": "SELECT SUM(v) FROM data WHERE a <> 'x'",
    "late": "SELECT AVG(v) FROM data WHERE c > 2",
}


def random_case(seed: int) -> tuple[pd.DataFrame, list[str]]:
    random = np.random.default_rng(seed)
    size = int(random.integers(4, 14))
    table = pd.DataFrame(
        {
            "who": [f"p{i}" for i in range(size)],
            "a": random.choice(["x", "y", "z"], size),
            "b": random.choice(["u", "v"], size),
            "c": random.integers(0, 5, size),
            "v": np.where(
                random.random(size) < 0.3, random.integers(50, 99, size), random.integers(0, 20, size)
            ),
        }
    )
    chosen = [name for name in SQL if random.random() < 0.6]
    chosen = [name for name in chosen if all(one.any() for one in QUERIES[name](table))] or ["all"]
    return table, chosen


def audited(table: pd.DataFrame, chosen: list[str], rules: dict[str, Any], noise: Any) -> sl.AuditResult:
    plan = {
        "data": {"source": table, "record": "who", "secret": "v", "bounds": [0, 100]},
        "rules": rules,
        "release": [{"name": name, "sql": SQL[name], "noise": noise} for name in chosen],
    }
    return sl.audit(plan)


def by_definition(table: pd.DataFrame, chosen: list[str]) -> set[tuple[int, ...]]:
    """Every number, and every difference of two or three numbers, but for its sign."""
    sets = [np.asarray(one, dtype=int) for name in chosen for one in QUERIES[name](table)]
    found = set()
    for count in (1, 2, 3):
        for parts in combinations(sets, count):
            for signs in product((1, -1), repeat=count):
                if count > 1 and len(set(signs)) == 1:
                    continue  # a sum of numbers is about more people
                row = np.array(signs) @ np.stack(parts)
                used = np.flatnonzero(row)
                if used.size:
                    found.add(tuple((row * np.sign(row[used[0]])).tolist()))
    return found


def check_rules(seed: int) -> None:
    """One random table, with each rule."""
    table, chosen = random_case(seed)
    k, n, share, p = 2 + seed % 4, 1 + seed % 2, (0.6, 0.8, 0.95)[seed % 3], (0.05, 0.1, 0.4)[seed % 3]
    rows = by_definition(table, chosen)
    few = {one for one in rows if 0 < np.count_nonzero(one) < k}
    found = audited(table, chosen, {"k": k}, {"law": "gaussian", "stddev": 1.0}).rules
    assert found is not None
    # Elimination may single out what no three numbers do, and never less.
    assert bool(found.in_all) >= bool(few), (seed, chosen)
    assert min((one.people for one in found.broken), default=k) <= min(map(np.count_nonzero, few), default=k)
    named = {one.text for one in found.broken if one.text.count('"') <= 6 and "×" not in one.text}
    if not few:
        assert not named, seed
    values = table.v.to_numpy(dtype=float)
    sums = [np.array(one) != 0 for one in rows if len({abs(x) for x in one} - {0}) == 1 and min(one) >= 0]
    expected = {"dominance": 0, "p": 0}
    for inside in {tuple(one.tolist()): one for one in sums}.values():
        own = np.sort(values[inside])[::-1]
        total = own.sum()
        if total > 0:
            expected["dominance"] += own[:n].sum() > share * total
            expected["p"] += total - own[:2].sum() < p * own[0]
    rules = {"dominance": {"n": n, "share": share}, "p": p}
    exact = audited(table, chosen, rules, {"law": "none"}).rules
    assert exact is not None
    short = [one for one in exact.broken if "×" not in one.text]
    for rule, times in expected.items():
        here = sum(one.rule == rule for one in short)
        beyond = sum(one.rule == rule for one in exact.broken) - here
        assert here <= times <= here + beyond, (seed, rule, here, times, beyond)
    noisy = audited(table, chosen, rules, {"stddev": 5.0}).rules
    assert noisy is not None
    assert noisy.in_all == 0, "the rules on values are about exact sums"


def fuzz(seed: int, seconds: float, *, most: float = math.inf) -> dict[str, int]:
    """Tables seed, seed + 1, … until the time is up, or until there were ``most``."""

    def check(_: np.random.Generator, trial: int, count: Counter[str]) -> None:
        check_rules(seed + trial)
        count["tables"] += 1

    return check_cases(check, seed, seconds, most=most)
