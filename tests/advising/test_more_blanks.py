"""The fewest blanks, and the next base, with which nobody is certain: against all sets of blanks."""

from __future__ import annotations

import tomllib
from itertools import combinations, product
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest

import sightline as sl
from benchmarks.bench_counts import followed
from sightline.auditing.result import AuditResult, ChangeKind
from sightline.examples.shipped import example_plan
from tests.numbered_cases import trials


def audited(table: Any, withheld: dict[str, list[list[str]]], k: int = 0, to: int = 1) -> AuditResult:
    releases = []
    for name, by in (("a", "a"), ("b", "b"), ("both", "a, b")):
        sql = f"SELECT {by}, COUNT(*) FILTER (WHERE ill) AS n FROM data GROUP BY {by}"
        law = {"law": "rounding", "to": to} if to > 1 else {"law": "none"}
        release = {"name": name, "sql": sql, "noise": law}
        if name in withheld:
            release["withhold"] = withheld[name]
        groups = len(table[by.split(", ")].drop_duplicates())
        if len(withheld.get(name, ())) < groups:
            releases.append(release)
    return sl.audit(
        {
            "data": {"source": table, "record": "id", "secret": "ill", "kind": "boolean"},
            "rules": {"k": k} if k else {},
            "release": releases,
        },
        verdict_only=bool(withheld),
    )


def drawn(case: int) -> Any:
    rng = np.random.default_rng([46, case])
    people = int(rng.integers(8, 14))
    columns = {"a": rng.choice(["p", "q"], people), "b": rng.choice(["r", "s"], people)}
    return pd.DataFrame({"id": np.arange(people), **columns, "ill": rng.random(people) < 0.25})


def cells_of(table: Any) -> list[tuple[str, tuple[str, ...]]]:
    found = [(name, (value,)) for name in ("a", "b") for value in sorted(table[name].unique())]
    return found + [("both", one) for one in sorted(set(zip(table.a, table.b, strict=True)))]


@pytest.mark.slow
@pytest.mark.parametrize("case", trials(12))
def test_no_smaller_set_of_blanks_is_enough(case: int) -> None:
    table = drawn(case)
    result = audited(table, {})
    assert result.certain is not None
    blanks = [one for one in result.so_nobody_is_certain or () if one.kind is ChangeKind.BLANK]
    if not result.certain.people:
        assert result.so_nobody_is_certain == ()
        return
    classes = sorted(set(zip(table.a, table.b, strict=True)))
    sizes = [int(((table.a == a) & (table.b == b)).sum()) for a, b in classes]
    ill = [int(table[(table.a == a) & (table.b == b)].ill.sum()) for a, b in classes]
    rows = []
    for name, key in cells_of(table):
        match = {"a": lambda one: one[:1], "b": lambda one: one[1:], "both": lambda one: one}[name]
        rows.append([match(one) == key for one in classes])
    numbers = np.array(rows, dtype=int)
    worlds = np.array(list(product(*(range(size + 1) for size in sizes))))

    def told(kept: list[int]) -> bool:
        fitting = worlds[(worlds @ numbers[kept].T == numbers[kept] @ ill).all(axis=1)]
        return bool(np.any((fitting.max(axis=0) == 0) | (fitting.min(axis=0) == sizes)))

    every = range(len(numbers))
    fewest = next(
        size
        for size in every
        if any(not told([one for one in every if one not in some]) for some in combinations(every, size))
    )
    assert [one.cost.split(" ")[0] for one in blanks] == [str(fewest)]


def test_the_advice_is_tried_and_the_base_is_the_next_one() -> None:
    rows = [
        {"a": a, "b": b, "ill": n < yes}
        for (a, b), (yes, people) in {
            ("p", "r"): (0, 9),
            ("p", "s"): (6, 20),
            ("q", "r"): (7, 20),
            ("q", "s"): (8, 20),
        }.items()
        for n in range(people)
    ]
    table = pd.DataFrame(rows).assign(id=range(69))
    result = audited(table, {})
    base, blank = result.so_nobody_is_certain or ()
    assert base.text == "Round all counts to 3, where counts are exact: then nobody is certain"
    rounded = audited(table, {}, to=3).certain
    assert rounded is not None
    assert rounded.people == 0
    assert blank.cost.endswith("no fewer are enough")
    withheld: dict[str, list[list[str]]] = {}
    for name in blank.action.removeprefix("Withhold ").removeprefix('"').removesuffix('"').split('", "'):
        release, _, key = name.partition(": ")
        withheld.setdefault(release, []).append(key.split(", "))
    after = audited(table, withheld).certain
    assert after is not None
    assert after.people == 0


@pytest.mark.slow
def test_with_the_advice_nobody_of_the_shipped_frequency_table_is_certain() -> None:
    path = example_plan("frequency")
    result = sl.audit(path)
    assert result.certain is not None
    assert result.certain.people == 3
    changes = result.so_nobody_is_certain or ()
    assert [one.kind for one in changes] == [ChangeKind.ROUND, ChangeKind.BLANK]
    for change in changes:
        plan = tomllib.loads(path.read_text(encoding="utf-8"))
        plan["data"]["source"] = str(path.parent / "people.csv")
        after = sl.audit(followed(plan, change), verdict_only=True).certain
        assert after is not None
        assert (after.people, after.undecided) == (0, 0)


@pytest.mark.slow
def test_with_the_advice_the_rule_k_of_the_shipped_discharges_holds_through_differences() -> None:
    path = example_plan("discharges")
    result = sl.audit(path)
    assert result.rules is not None
    assert result.rules.in_all > 0
    (change,) = result.so_nobody_is_certain or ()
    plan = tomllib.loads(path.read_text(encoding="utf-8"))
    plan["data"]["source"] = str(path.parent / "discharges.csv")
    for name in change.action.removeprefix('Withhold "').removesuffix('"').split('", "'):
        release, key = name.split(": ")
        (one,) = (own for own in plan["release"] if own["name"] == release)
        one.setdefault("withhold", []).append(key.split(", "))
    after = sl.audit(plan, verdict_only=True)
    assert after.certain is not None
    assert (after.certain.people, after.certain.undecided) == (0, 0)
    assert after.rules is not None
    assert after.rules.in_all == 0
    assert after.verdict.status == "passed"
