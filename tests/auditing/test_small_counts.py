"""The rule k for published counts: nobody, everybody, few and all but few, by brute force."""

from __future__ import annotations

from itertools import combinations, permutations
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest

import sightline as sl
from sightline.auditing.result import AuditResult
from tests.numbered_cases import trials

K = 4


def audited(table: Any, releases: list[dict[str, Any]], k: int = K) -> AuditResult:
    return sl.audit(
        {
            "data": {"source": table, "record": "id", "secret": "ill", "kind": "boolean"},
            "rules": {"k": k},
            "release": releases,
        }
    )


def release(by: str, law: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    keys, grouped = (f"{by}, ", f" GROUP BY {by}") if by else ("", "")
    sql = f"SELECT {keys}COUNT(*) FILTER (WHERE ill) AS n FROM data{grouped}"
    return {"name": f"by {by or 'all'}", "sql": sql, "noise": law or {"law": "none"}, **more}


def by_definition(table: Any, groupings: list[list[str]]) -> set[frozenset[int]]:
    """Sets of people that a count, or a difference of up to three, is about, and that break the rule."""
    numbers = []
    for by in groupings:
        labels = [tuple(row) for row in table[by].to_numpy()] if by else [()] * len(table)
        numbers += [np.array([one == label for one in labels]) for label in sorted(set(labels))]
    ill, broken = table.ill.to_numpy(), set()
    every = [(one,) for one in numbers] + list(permutations(numbers, 2))
    every += [(a, *two) for a in numbers for two in combinations(numbers, 2) if all(a is not b for b in two)]
    for first, *others in every:
        weights = first.astype(int) - sum(one.astype(int) for one in others)
        held = set(weights[weights != 0].tolist())
        if len(held) != 1 or abs(next(iter(held))) != 1:
            continue
        people = weights != 0
        size, yes = int(people.sum()), int(ill[people].sum())
        if size >= K and (yes < K or size - yes < K):
            broken.add(frozenset(np.flatnonzero(people).tolist()))
    return broken


@pytest.mark.slow
@pytest.mark.parametrize("case", trials(24))
def test_counts_that_break_the_rule_are_those_of_the_definition(case: int) -> None:
    rng = np.random.default_rng([45, case])
    people = int(rng.integers(12, 40))
    table = pd.DataFrame(
        {
            "id": np.arange(people),
            "a": rng.choice(["p", "q"], people),
            "b": rng.choice(["r", "s", "t"], people),
            "ill": rng.random(people) < rng.choice([0.05, 0.5, 0.95]),
        }
    )
    groupings = [by for by in (["a"], ["b"], ["a", "b"], []) if rng.random() < 0.7] or [["a"]]
    result = audited(table, [release(", ".join(by)) for by in groupings])
    assert result.rules is not None
    counted = [one for one in result.rules.broken if "counted" in one.text]
    broken = by_definition(table, groupings)
    assert sorted(one.people for one in counted) == sorted(map(len, broken))
    assert (result.verdict.status == "failed") >= bool(broken)


def test_rounded_and_blank_counts_break_it_as_far_as_they_tell() -> None:
    rows = [{"a": a, "ill": n < yes} for a, yes in (("p", 4), ("q", 26), ("r", 15)) for n in range(30)]
    table = pd.DataFrame(rows).assign(id=range(90))

    def broken(**more: Any) -> list[str]:
        found = audited(table, [release("a", **more)], k=10).rules
        assert found is not None
        return [one.text.rpartition(": ")[2] for one in found.broken]

    assert broken() == [
        "4 of 30 people are counted, fewer than 10",
        "4 of 30 people are not counted, fewer than 10",
    ]
    rounded = {"law": "rounding", "to": 5}
    assert broken(law=rounded) == [
        "3 to 7 of 30 people are counted, fewer than 10",
        "3 to 7 of 30 people are not counted, fewer than 10",
    ]
    assert broken(law=rounded, suppress_below=10) == ["3 to 7 of 30 people are not counted, fewer than 10"]


def test_differences_over_blanks_are_found() -> None:
    rows = [{"a": a, "ill": n < yes} for a, yes in (("p", 4), ("q", 12), ("r", 15)) for n in range(30)]
    table = pd.DataFrame(rows).assign(id=range(90))
    blank = release("a", suppress_below=10)
    alone = audited(table, [blank], k=10).rules
    both = audited(table, [blank, release("")], k=10).rules
    assert alone is not None
    assert alone.broken == ()
    assert both is not None
    assert [one.text for one in both.broken] == [
        'k: "by all" − "by a: q" − "by a: r": 4 of 30 people are counted, fewer than 10'
    ]
