"""The rules that offices sign, against brute force: every number and every difference of up to three."""

from __future__ import annotations

from itertools import combinations, product
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sightline as sl
from sightline.errors import InvalidPlan

QUERIES = {
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
                row = sum(sign * part for sign, part in zip(signs, parts, strict=True))
                used = np.flatnonzero(row)
                if used.size:
                    found.add(tuple((row * np.sign(row[used[0]])).tolist()))
    return found


def check(seed: int) -> None:
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


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_the_rules_by_definition(seed: int) -> None:
    check(seed)


@pytest.mark.thorough
def test_the_rules_by_definition_on_five_hundred_tables() -> None:
    for seed in range(40, 500):
        check(seed)


def test_fleet_minus_pilot_is_the_seventeenth_home(capsys: pytest.CaptureFixture[str]) -> None:
    table = pd.DataFrame({"home": [f"H{i:02}" for i in range(17)], "pilot": [i < 16 for i in range(17)]})
    table["v"] = np.linspace(3, 90, 17)
    plan = {
        "data": {"source": table, "record": "home", "secret": "v", "bounds": [0, 100]},
        "rules": {"k": 10},
        "limits": {"remaining_uncertainty": 0.5},
        "privacy": {"epsilon": 1.0, "delta": 1e-6},
        "release": [
            {"name": "fleet", "sql": "SELECT AVG(v) FROM data"},
            {"name": "pilot", "sql": "SELECT AVG(v) FROM data WHERE pilot"},
        ],
    }
    result = sl.audit(plan)
    assert result.rules is not None
    assert [one.text for one in result.rules.broken] == [
        'k: "fleet" − "pilot": 1 person is behind it, fewer than 10'
    ]
    assert result.verdict.passed is False, "the noise keeps the limit, and the rule is broken"
    from rich.console import Console

    from sightline.report.terminal import print_result

    print_result(result, Console(width=100))
    text = capsys.readouterr().out
    assert "Do not publish this yet. 1 combination of numbers breaks a rule" in text
    assert "You can publish" not in text
    assert result.publishable().rules == result.rules.publishable()


def test_rules_on_values_are_for_the_owner() -> None:
    table = pd.DataFrame({"firm": ["a", "b", "c"], "v": [90.0, 5.0, 1.0]})
    plan = {
        "data": {"source": table, "record": "firm", "secret": "v", "bounds": [0, 100]},
        "rules": {"p": "10%", "dominance": {"n": 1, "share": "80%"}},
        "release": [{"name": "turnover", "sql": "SELECT SUM(v) FROM data", "noise": {"law": "none"}}],
    }
    result = sl.audit(plan)
    assert result.rules is not None
    assert {one.rule for one in result.rules.broken} == {"p", "dominance"}
    shown = result.publishable()
    assert shown.rules is not None
    assert shown.rules.broken == ()
    assert shown.verdict.passed is not True
    assert "turnover" not in shown.verdict.text


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"k": 1}, ">= 2"),
        ({"k": 2.5}, "whole number"),
        ({"p": 2}, "p: expected"),
        ({"dominance": {"n": 0, "share": 0.8}}, ">= 1"),
        ({"dominanc": {}}, "did you mean 'dominance'"),
    ],
)
def test_bad_rules_are_refused(rules: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidPlan, match=message):
        audited(*random_case(1), rules, {"stddev": 1.0})


def test_rules_with_several_rows_a_record_are_refused() -> None:
    table = pd.DataFrame({"who": ["a", "a", "b"], "v": [1.0, 2.0, 3.0]})
    about = {"source": table, "record": "who", "secret": "v", "bounds": [0, 9], "max_rows_per_record": 2}
    release = {"name": "r", "sql": "SELECT SUM(v) FROM data", "noise_stddev": 1.0}
    with pytest.raises(InvalidPlan, match="one row a record"):
        sl.audit({"data": {**about, "values": "independent"}, "rules": {"k": 3}, "release": [release]})
