"""Hunts for tables on which the rules that offices sign differ from their definitions.

The definitions are taken by brute force: every number and every difference of up to three with the same
weights, of tables with one row a person and with several. Five hundred tables:
``python -c "from tests.auditing.fuzz_rules import fuzz; print(fuzz(0, 1e9, most=500))"``.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest

import sightline as sl
from sightline.auditing import rules as rules_module
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


WEIGHTED = "weighted"

Row = tuple[int, ...]  # the coefficients of all rows of the table, but for their weights


def random_case(seed: int) -> tuple[pd.DataFrame, list[str]]:
    """A table, in every second case of people with several rows, and what is published, some with weights."""
    random = np.random.default_rng(seed)
    size = int(random.integers(4, 14))
    who = random.integers(0, max(2, size // 2), size) if seed % 2 else np.arange(size)
    table = pd.DataFrame(
        {
            "who": [f"p{i}" for i in who],
            "a": random.choice(["x", "y", "z"], size),
            "b": random.choice(["u", "v"], size),
            "c": random.integers(0, 5, size),
            "v": np.where(
                random.random(size) < 0.3, random.integers(50, 99, size), random.integers(0, 20, size)
            ),
            "w": random.choice([1, 1, 2, 5], size),
        }
    )
    chosen = [name for name in SQL if random.random() < 0.6]
    chosen = [name for name in chosen if all(one.any() for one in QUERIES[name](table))] or ["all"]
    weighted = random.random(len(chosen)) < random.choice([0.0, 0.5, 1.0])
    return table, [f"{name}, {WEIGHTED}" if own else name for name, own in zip(chosen, weighted, strict=True)]


def weights_of(table: pd.DataFrame, name: str) -> pd.Series:
    """The weights of the rows in a release."""
    return table.w if name.endswith(WEIGHTED) else 0 * table.w + 1


def sql_of(name: str) -> str:
    """A release as SQL."""
    plain = SQL[name.removesuffix(f", {WEIGHTED}")]
    return plain.replace("(v)", "(w * v)") if name.endswith(WEIGHTED) else plain


def with_equal_weights(chosen: list[str]) -> list[list[str]]:
    """The releases of which differences are taken: those without weights, and those with."""
    parts = [[name for name in chosen if name.endswith(WEIGHTED) is own] for own in (False, True)]
    return [part for part in parts if part]


def audited(table: pd.DataFrame, chosen: list[str], rules: dict[str, Any], noise: Any) -> sl.AuditResult:
    several = table.who.duplicated().any()
    alike = table.groupby("who").v.nunique().max() == 1
    rows = {"max_rows_per_record": 20, "values": "constant" if alike else "independent"} if several else {}
    plan = {
        "data": {"source": table, "record": "who", "secret": "v", "bounds": [0, 100], **rows},
        "rules": rules,
        "release": [{"name": name, "sql": sql_of(name), "noise": noise} for name in chosen],
    }
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(rules_module, "MOST_LISTED", 10**6)  # all are compared
        return sl.audit(plan)


def numbers_of(table: pd.DataFrame, chosen: list[str]) -> list[Row]:
    """The rows of the table that every published number adds up."""
    plain = [name.removesuffix(f", {WEIGHTED}") for name in chosen]
    return [tuple(np.asarray(one, dtype=int).tolist()) for name in plain for one in QUERIES[name](table)]


def by_definition(numbers: list[Row], *, overlapping: bool) -> set[Row]:
    """Every number, and every difference of two or three, but for a factor.

    If asked for, differences of numbers that share a row with the one that the others are subtracted from.
    """
    found = set()
    for count in (1, 2, 3):
        for parts in combinations([np.array(one) for one in numbers], count):
            for first in range(count):
                one, others = parts[first], parts[:first] + parts[first + 1 :]
                row = one - sum(others, np.zeros_like(one))
                if row.any() and (not overlapping or all((one * other).any() for other in others)):
                    row = row // np.gcd.reduce(row) * np.sign(row[np.flatnonzero(row)[0]])
                    found.add(tuple(row.tolist()))
    return found


def people_behind(table: pd.DataFrame, row: Row) -> int:
    return int(table.who[np.array(row) != 0].nunique())


def told_apart(table: pd.DataFrame, chosen: list[str]) -> bool:
    """Whether some combination of any length is about one person alone."""
    A = np.array(
        [
            np.array(row) * weights_of(table, name).to_numpy()
            for name in chosen
            for row in numbers_of(table, [name])
        ]
    )
    rank = np.linalg.matrix_rank(A)
    return any(np.linalg.matrix_rank(A[:, table.who != who]) < rank for who in table.who.unique())


def check_k(table: pd.DataFrame, chosen: list[str], k: int) -> None:
    """The rule k."""
    parts = [numbers_of(table, part) for part in with_equal_weights(chosen)]
    every, some = (
        set().union(*(by_definition(numbers, overlapping=one) for numbers in parts)) for one in (False, True)
    )
    least = min(people_behind(table, one) for one in every)
    few = sorted(people for one in some if (people := people_behind(table, one)) < k)
    assert (few[0] if few else k) == min(least, k), "no number is missed that overlaps no other"
    found = audited(table, chosen, {"k": k}, {"law": "gaussian", "stddev": 1.0}).rules
    assert found is not None
    assert found.in_all == len(found.broken)
    short = sorted(one.people for one in found.broken if "×" not in one.text)
    assert short == few
    # Elimination singles out what no three numbers do: one person, or the rows of several.
    fewest = min((one.people for one in found.broken), default=k)
    assert (fewest == 1) == told_apart(table, chosen)
    assert fewest <= min(least, k)


def check_values(table: pd.DataFrame, chosen: list[str], n: int, third: int) -> None:
    """Dominance and p, of what each person adds, in every third case the same in all of their rows."""
    if third == 0:
        table = table.assign(v=table.groupby("who").v.transform("first"))
    share, p = (0.6, 0.8, 0.95)[third], (0.05, 0.1, 0.4)[third]
    expected = {"dominance": 0, "p": 0}
    asked: dict[tuple[bool, ...], set[tuple[int, ...]]] = {}  # rows that are added up, and with which weights
    for part in with_equal_weights(chosen):
        for one in by_definition(numbers_of(table, part), overlapping=False):
            if len(set(one) - {0}) == 1:
                inside = tuple((np.array(one) != 0).tolist())
                asked.setdefault(inside, set()).add(tuple(weights_of(table, part[0])[list(inside)]))
    for inside, weights in ((inside, own) for inside, several in asked.items() for own in several):
        part = table[list(inside)]
        own = np.sort((part.v * list(weights)).groupby(part.who).sum().to_numpy(dtype=float))[::-1]
        total = own.sum()
        if total > 0:
            expected["dominance"] += own[:n].sum() > share * total
            expected["p"] += total - own[:2].sum() < p * own[0]
    rules = {"dominance": [n, share], "p": p}
    exact = audited(table, chosen, rules, {"law": "none"}).rules
    assert exact is not None
    assert exact.in_all == len(exact.broken)
    for rule, times in expected.items():
        assert sum(one.rule == rule and "×" not in one.text for one in exact.broken) == times, rule
    noisy = audited(table, chosen, rules, {"stddev": 5.0}).rules
    assert noisy is not None
    assert noisy.in_all == 0, "the rules on values are about exact sums"


def check_rules(seed: int) -> None:
    """One random table, with each rule."""
    table, chosen = random_case(seed)
    check_k(table, chosen, 2 + seed // 2 % 4)
    check_values(table, chosen, 1 + seed // 2 % 2, seed // 2 % 3)


def fuzz(seed: int, seconds: float, *, most: float = math.inf) -> dict[str, int]:
    """Tables seed, seed + 1, … until the time is up, or until there were ``most``."""

    def check(_: np.random.Generator, trial: int, count: Counter[str]) -> None:
        check_rules(seed + trial)
        count["tables"] += 1

    return check_cases(check, seed, seconds, most=most)
