"""The rule k for published counts: nobody, everybody, few and all but few, by brute force."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations, permutations, product
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest

import sightline as sl
from sightline.auditing.result import AuditResult
from tests.auditing.fuzz_certain_people import draw_law, published
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
    numbers: list[Any] = []
    for by in groupings:
        labels = [tuple(row) for row in table[by].to_numpy()] if by else [()] * len(table)
        numbers += [np.array([one == label for one in labels]) for label in sorted(set(labels))]
    ill, broken = table.ill.to_numpy(), set()
    every: list[Any] = [(one,) for one in numbers] + list(permutations(numbers, 2))
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


# What is known of a true count of 1, and of 0, by what is published of it.
LAWS: dict[str, tuple[dict[str, Any], tuple[int, int], tuple[int, int]]] = {
    "exact": ({}, (1, 1), (0, 0)),
    "to 5": ({"law": {"law": "rounding", "to": 5}}, (0, 2), (0, 2)),
    "up to 5": ({"law": {"law": "rounding", "to": 5, "how": "up"}}, (1, 5), (0, 0)),
    "down to 10": ({"law": {"law": "rounding", "to": 10, "how": "down"}}, (0, 9), (0, 9)),
    "up to 10": ({"law": {"law": "rounding", "to": 10, "how": "up"}}, (1, 10), (0, 0)),
    "within 2": ({"law": {"law": "within", "of": 2.0}}, (0, 3), (0, 2)),
    "blank below 5": ({"suppress_below": 5}, (0, 4), (0, 4)),
    "blank below 10": ({"suppress_below": 10}, (0, 9), (0, 9)),
}


@pytest.mark.parametrize("yes", [1, 0, 29, 30])
@pytest.mark.parametrize("law", LAWS)
def test_one_and_nobody_of_thirty_break_it_however_they_are_published(law: str, yes: int) -> None:
    rows = [{"a": a, "ill": n < number} for a, number in (("p", yes), ("q", 15)) for n in range(30)]
    table = pd.DataFrame(rows).assign(id=range(60))
    stated, *known = LAWS[law]
    count = release("a", **stated)
    if yes > 1:  # those who are not ill are counted
        count["sql"] = count["sql"].replace("ill", "NOT ill")
    low, high = known[0 if yes in (1, 29) else 1]
    found = audited(table, [count], k=10).rules
    assert found is not None
    # That fewer than ten are counted may be known, as a blank tells it. More than that may not.
    breaks = high == 0 or (high < 10 and (low, high) != (0, 9))
    assert bool(found.broken) == breaks
    for one in found.broken:
        seen = "nobody" if high == 0 else f"{low} to {high} of 30" if low < high else f"{low} of 30"
        assert seen in one.text


def test_where_chance_rounds_some_draw_may_break_it() -> None:
    rows = [{"a": a, "ill": n < number} for a, number in (("p", 1), ("q", 15)) for n in range(30)]
    table = pd.DataFrame(rows).assign(id=range(60))

    def broken(k: int, to: int, releases: int = 1) -> list[str]:
        one = release("a", {"law": "rounding", "to": to, "how": "random"})
        every = [one, {**one, "name": "again", "sql": one["sql"].replace("*", "1")}][:releases]
        found = audited(table, every, k=k).rules
        assert found is not None
        return [one.text for one in found.broken]

    # 1 is published as 0, which 0 to 4 are, or as 5, which 1 to 9 are.
    assert broken(10, 5) == ['k: "by a: p": 0 to 4 of 30 people are counted, fewer than 10, after some draw']
    assert broken(5, 5) == []
    # Rounded twice, it may be published as both.
    assert broken(5, 5, releases=2) == [
        'k: "by a: p" and "again: p": 1 to 4 of 30 people are counted, fewer than 5, after some draw'
    ]


CATEGORIES = ("flu", "cold", "rash", "none")


@pytest.mark.slow
@pytest.mark.parametrize("case", trials(40))
def test_answers_of_the_same_people_are_looked_at_together(case: int) -> None:
    rng = np.random.default_rng([47, case])
    people = int(rng.integers(8, 15))
    held = rng.choice(CATEGORIES, people, p=rng.dirichlet([0.7] * 4))
    table = pd.DataFrame({"id": np.arange(people), "held": held})
    sets = [CATEGORIES[:1], CATEGORIES[1:2], CATEGORIES[2:3], CATEGORIES[3:], CATEGORIES[:2], CATEGORIES[1:3]]
    asked = [sets[i] for i in rng.choice(6, int(rng.integers(1, 5)), replace=False)]
    releases, rules = [], []
    for place, answers in enumerate(asked):
        law, below = draw_law(rng), int(rng.choice([0, 0, 3, 4]))
        listed = ", ".join(f"'{one}'" for one in answers)
        sql = f"SELECT COUNT(*) FILTER (WHERE held IN ({listed})) AS n FROM data"
        releases.append(
            {"name": f"r{place}", "sql": sql, "noise": law} | ({"suppress_below": below} if below else {})
        )
        rules.append((law, below))
    data = {"source": table, "record": "id", "secret": "held", "categories": list(CATEGORIES)}
    result = sl.audit({"data": data, "rules": {"k": K}, "release": releases})
    worlds = [
        dict(zip(CATEGORIES, (a, b, c, people - a - b - c), strict=True))
        for a, b, c in product(range(people + 1), repeat=3)
        if a + b + c <= people
    ]

    def number(world: dict[str, int], answers: Iterable[str]) -> int:
        return sum(world[one] for one in answers)

    true = {one: int(np.sum(held == one)) for one in CATEGORIES}
    for answers, (law, below) in zip(asked, rules, strict=True):
        low, high = published(number(true, answers), law, below)
        worlds = [world for world in worlds if low <= number(world, answers) <= high]
    alike: dict[tuple[bool, ...], list[str]] = {}  # answers that no count tells apart
    for one in CATEGORIES:
        alike.setdefault(tuple(one in answers for answers in asked), []).append(one)
    broken: dict[frozenset[str], tuple[int, int]] = {}
    for wanted in {*map(frozenset, asked), *map(frozenset, alike.values())}:
        for answers in (wanted, frozenset(CATEGORIES) - wanted):
            counts = [number(world, answers) for world in worlds]
            low, high = min(counts), max(counts)
            if answers and (high == 0 or (high < K and (low, high) != (0, K - 1))):
                broken[answers] = low, high
    # At most as many of some answers as of more of them: that says no more.
    said_before = {
        few
        for few, (low, high) in broken.items()
        for more in broken
        if few < more and (low, high) == (0, broken[more][1])
    }
    assert result.rules is not None
    assert result.rules.in_all == len(broken) - len(said_before), (result.rules.broken, broken)
    assert (result.verdict.status == "failed") >= bool(broken)


def test_what_is_left_for_a_blank_is_told() -> None:
    held = ["flu"] * 20 + ["cold"] + ["none"] * 39
    table = pd.DataFrame({"id": range(60), "held": held})
    data = {"source": table, "record": "id", "secret": "held", "categories": ["flu", "cold", "none"]}
    blank = "SELECT held, COUNT(*) AS n FROM data GROUP BY held HAVING COUNT(*) >= 5"
    two = "SELECT COUNT(*) FILTER (WHERE held IN ('flu', 'cold')) AS n FROM data"
    flu = "SELECT COUNT(*) FILTER (WHERE held = 'flu') AS n FROM data"
    exact = {"noise": {"law": "none"}}
    for releases in ([blank], [flu, two]):
        plan = [{"name": f"r{place}", "sql": sql, **exact} for place, sql in enumerate(releases)]
        found = sl.audit({"data": data, "rules": {"k": 5}, "release": plan}).rules
        assert found is not None
        (told,) = found.broken
        assert told.text.endswith("1 of 60 people are left for cold, fewer than 5")


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
