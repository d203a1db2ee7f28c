"""Hunts for small plans of counts in which features cross: rounding, blanks by the plan or by SQL, counts of
those who are not ill, totals, withheld numbers, the rule k, and a ledger that gets them in two parts.

Every table of answers is enumerated. Who has one answer in all that fit what is published is certain, and the
rule k is broken by every group of people of whom they tell too much. Two thousand plans:
``python -m tests.auditing.fuzz_count_crossings 2000``.
"""

from __future__ import annotations

import sys
from collections import Counter
from itertools import combinations, permutations, product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest

import sightline as sl
from sightline.auditing import rules
from sightline.auditing.result_parts import BrokenRule
from sightline.auditing.small_counts import small_counts
from sightline.ledger.book import Ledger
from tests.auditing.fuzz_certain_people import draw_law, published
from tests.numbered_cases import check_cases

K = 3
GROUPS = ((), ("a",), ("b",), ("a", "b"))
HEAD = """
[data]
source = "people.parquet"
record = "id"
secret = "ill"
kind = "boolean"
public = ["a", "b"]

[rules]
k = 3

[limits]
remaining_uncertainty = 0.5
"""
Number = tuple[Any, int, int]  # who is in it, and at least and at most how many of them are ill


def drawn_release(
    rng: np.random.Generator, table: Any, place: int, by: tuple[str, ...]
) -> tuple[dict[str, Any], list[Number]]:
    """A release of counts by some columns, and what it tells of each group."""
    law, below = draw_law(rng), int(rng.choice([0, 0, 2, 3, 4]))
    way, inverted = int(rng.integers(3)), bool(rng.random() < 0.25)
    ill = "NOT ill" if inverted else "ill"
    count = f"COUNT(*) FILTER (WHERE {ill})"
    keys = "".join(f"{one}, " for one in by)
    grouped = f" GROUP BY {', '.join(by)}" if by else ""
    release: dict[str, Any] = {"name": f"r{place}", "noise": law}
    sql = f"SELECT {keys}{count} AS n FROM data{grouped}"
    if below and way == 1 and by:
        sql += f" HAVING {count} >= {below}"
    elif below and way == 2:
        sql = f"SELECT {keys}CASE WHEN {count} < {below} THEN NULL ELSE {count} END AS n FROM data{grouped}"
    elif below:
        release["suppress_below"] = below
    labels = [tuple(row) for row in table[list(by)].to_numpy()] if by else [()] * len(table)
    every = sorted(set(labels))
    withheld = [label for label in every if by and rng.random() < 0.2]
    if withheld and len(withheld) < len(every):
        release["withhold"] = [list(map(str, label)) for label in withheld]
    else:
        withheld = []
    numbers = []
    for label in every:
        if label in withheld:
            continue
        inside = np.array([one == label for one in labels])
        size, yes = int(inside.sum()), int(table.ill.to_numpy()[inside].sum())
        low, high = published(size - yes if inverted else yes, law, below)
        low, high = max(low, 0), min(high, size)
        numbers.append((inside, size - high, size - low) if inverted else (inside, low, high))
    return {**release, "sql": sql}, numbers


def totals_less_others(releases: list[list[Number]]) -> list[tuple[Number, ...]]:
    """A number less all others of a release that are parts of it, and less those that are not 0 for sure."""
    found: list[tuple[Number, ...]] = []
    for place, own in enumerate(releases):
        for total in [one for other in releases[:place] + releases[place + 1 :] for one in other]:
            parts = [one for one in own if np.any(one[0] & total[0])]
            if len(parts) < 3 or any(np.any(one[0] & ~total[0]) for one in parts):
                continue
            rest = bool(np.any(total[0] & ~np.any([one[0] for one in parts], axis=0)))
            if not rest:
                found += [(total, *parts[:i], *parts[i + 1 :]) for i in range(len(parts))]
            none = [one for one in parts if one[1] == 0 and one[2] > 0]
            if len(none) + rest > 1 or (rest and not none):
                found.append((total, *(one for one in parts if not (one[1] == 0 and one[2] > 0))))
    return found


def breaks_the_rule(releases: list[list[Number]]) -> set[bytes]:
    """The people of whom numbers, differences of up to three, and totals less the rest of a release tell more
    than that fewer than k are ill, or are not.
    """
    numbers = [one for own in releases for one in own]
    known: dict[bytes, tuple[int, int]] = {}
    combined: list[tuple[Number, ...]] = [(one,) for one in numbers] + list(permutations(numbers, 2))
    combined += [
        (a, *two) for a in numbers for two in combinations(numbers, 2) if all(a is not b for b in two)
    ]
    for (inside, low, high), *others in combined + totals_less_others(releases):
        weights = inside.astype(int) - sum(other.astype(int) for other, _, _ in others)
        least, most = low - sum(one[2] for one in others), high - sum(one[1] for one in others)
        held = set(weights[weights != 0].tolist())
        if held == {-1}:
            least, most = -most, -least
        elif held != {1}:
            continue
        people = weights != 0
        before = known.get(people.tobytes(), (0, int(people.sum())))
        known[people.tobytes()] = max(before[0], least), min(before[1], most)
    broken = set()
    for people_of, (least, most) in known.items():
        size = int(np.frombuffer(people_of, dtype=bool).sum())
        for low, high in ((least, most), (size - most, size - least)):
            if size >= K and (high == 0 or (high < K and (low, high) != (0, K - 1))):
                broken.add(people_of)
    return broken


def check(rng: np.random.Generator, trial: int, count: Counter[str]) -> None:
    people = int(rng.integers(4, 10))
    table = pd.DataFrame(
        {
            "id": [f"p{one}" for one in range(people)],
            "a": rng.choice(["p", "q"], people),
            "b": rng.choice(["r", "s", "t"], people),
            "ill": rng.random(people) < rng.choice([0.1, 0.5, 0.9]),
        }
    )
    chosen = sorted(rng.choice(4, int(rng.integers(1, 5)), replace=False).tolist())
    parts = [drawn_release(rng, table, place, GROUPS[by]) for place, by in enumerate(chosen)]
    releases = [release for release, _ in parts]
    numbers = [number for _, own in parts for number in own]
    fitting = [
        world
        for world in product([False, True], repeat=people)
        if all(low <= int(np.sum(inside & np.array(world))) <= high for inside, low, high in numbers)
    ]
    certain = sum(len({world[one] for world in fitting}) == 1 for one in range(people))
    broken = breaks_the_rule([own for _, own in parts])
    data = {"record": "id", "secret": "ill", "kind": "boolean", "public": ["a", "b"], "source": table}
    limits = {"remaining_uncertainty": 0.5}
    plan = {"data": data, "limits": limits, "rules": {"k": K}, "release": releases}
    told: list[int] = []
    with pytest.MonkeyPatch.context() as patched:  # a result lists only the first of what breaks a rule

        def recorded(*arguments: Any) -> tuple[list[BrokenRule], list[int]]:
            found, numbers = small_counts(*arguments)
            told.extend(one.people for one in found)
            return found, numbers

        patched.setattr(rules, "small_counts", recorded)
        result = sl.audit(plan, verdict_only=True)
    assert result.certain is not None
    assert (result.certain.people, result.certain.undecided) == (certain, 0), (result.certain, certain)
    assert result.rules is not None
    assert sorted(told) == sorted(sum(map(int, people_of)) for people_of in broken), (told, broken)
    assert (result.verdict.status == "failed") >= bool(certain or broken)
    count["plans"] += 1
    count["people who are certain"] += certain
    count["groups that break the rule"] += len(broken)
    count["numbers withheld"] += sum(len(release.get("withhold", ())) for release in releases)
    if trial % 4 or any(release.get("withhold") for release in releases):
        return
    with TemporaryDirectory() as folder:  # the same in two parts
        table.to_parquet(Path(folder) / "people.parquet")
        (Path(folder) / "head.toml").write_text(HEAD)
        ledger = Ledger.start(Path(folder) / "ledger", head=Path(folder) / "head.toml", values="one")
        for release in releases:
            decision, _ = ledger.add(release, despite="a test")
        assert decision.result.verdict.status == result.verdict.status
        kept = sum(one.count for one in decision.result.unverified if one.name == "certain")
        assert kept == certain
        assert decision.result.rules is not None
        assert decision.result.rules.in_all == result.rules.in_all
    count["ledgers"] += 1


def fuzz(seed: int, seconds: float, most: float = float("inf")) -> dict[str, int]:
    """Small plans, whole audits, and a ledger of every fourth."""
    return check_cases(check, seed, seconds, most=most)


if __name__ == "__main__":
    print(fuzz(45, float("inf"), most=int(sys.argv[1])))
