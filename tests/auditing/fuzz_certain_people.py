"""Hunts for small tables on which the audit is wrong about who is certain, or a lower end is too high.

Every table of secrets is enumerated. Those that are published as the true one decide who is certain; the mean
of the posterior variance over all of them is what the best attack leaves. Two thousand tables:
``python -c "from tests.auditing.fuzz_certain_people import fuzz; print(fuzz(0, 1e9, most=2000))"``.
"""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]

import sightline as sl
from tests.numbered_cases import check_cases

GROUPS = ("", "a", "b", "a, b")


def published(count: int, law: dict[str, Any], below: int) -> tuple[int, int]:
    """What a true count is published as, as an interval that an attacker writes down."""
    if count < below:
        return 0, below - 1
    low = high = count
    if law["law"] == "rounding":
        base, how = int(law["to"]), law.get("how", "nearest")
        half = base // 2
        every = [one for one in range(count - base, count + base + 1) if one >= 0]

        def to_multiple(one: int) -> int:
            down = one - one % base
            if how == "up":
                return down + base * (one % base > 0)
            return down if how == "down" or one % base < base - half else down + base

        same = [one for one in every if to_multiple(one) == to_multiple(count)]
        low, high = min(same), max(same)
    if law["law"] == "within":
        reach = int(law["of"])
        low, high = max(0, count - reach), count + reach
    return max(low, below), high


def draw_law(rng: np.random.Generator) -> dict[str, Any]:
    kind = rng.integers(4)
    if kind == 0:
        return {"law": "none"}
    if kind == 1:
        return {"law": "within", "of": float(rng.integers(1, 3))}
    how = ("nearest", "up", "down")[rng.integers(3)]
    return {"law": "rounding", "to": int(rng.integers(2, 6)), "how": how}


def check(rng: np.random.Generator, trial: int, count: Counter[str]) -> None:
    people, category = int(rng.integers(3, 8)), trial % 3 == 2
    values: list[Any] = ["x", "y", "z"] if category else [False, True]
    if category:
        people = min(people, 6)
    share = rng.choice([0.1, 0.5, 0.9])
    drawn = rng.random(people) < share
    secrets = [values[int(rng.integers(3))] if category else bool(one) for one in drawn]
    table = pd.DataFrame(
        {
            "id": np.arange(people),
            "a": rng.choice(["p", "q"], people),
            "b": rng.choice(["r", "s", "t"], people),
            "secret": secrets,
        }
    )
    releases: list[dict[str, Any]] = []
    laws: list[tuple[dict[str, Any], int]] = []
    groups: list[list[str]] = []
    for number, by in enumerate(GROUPS):
        if rng.random() < 0.4 and not (number == 3 and not releases):
            continue
        law, below = draw_law(rng), int(rng.choice([0, 0, 2, 3]))
        keys, grouped = (f"{by}, ", f" GROUP BY {by}") if by else ("", "")
        counted = "secret" if not category else "secret = 'x'"
        items = f"COUNT(*) FILTER (WHERE {counted}) AS n"
        if category:
            items += ", COUNT(*) FILTER (WHERE secret = 'y') AS m"
        release = {"name": f"r{number}", "sql": f"SELECT {keys}{items} FROM data{grouped}", "noise": law}
        releases.append(release | ({"suppress_below": below} if below else {}))
        laws.append((law, below))
        groups.append([one for one in by.split(", ") if one])
    kind: dict[str, Any] = {"kind": "category", "categories": values} if category else {"kind": "boolean"}
    result = sl.audit(
        {
            "data": {"source": table, "record": "id", "secret": "secret", **kind},
            "limits": {"remaining_uncertainty": 0.5},
            "release": releases,
        }
    )

    numbers = []  # who is counted if they hold which value, and how that is published
    for (law, below), keys_of in zip(laws, groups, strict=True):
        labels = [tuple(row) for row in table[keys_of].to_numpy()] if keys_of else [()] * people
        for label in sorted(set(labels)):
            inside = np.array([one == label for one in labels])
            numbers += [(inside, value, law, below) for value in (values[:2] if category else [True])]

    def counts(world: tuple[Any, ...]) -> list[int]:
        secret = np.array(world, dtype=object)
        return [int(np.sum(inside & (secret == value))) for inside, value, _, _ in numbers]

    def seen(world: tuple[Any, ...]) -> tuple[tuple[int, int], ...]:
        every = zip(counts(world), numbers, strict=True)
        return tuple(published(number, law, below) for number, (_, _, law, below) in every)

    worlds, true = list(product(values, repeat=people)), seen(tuple(secrets))
    fitting = [
        world
        for world in worlds
        if all(low <= one <= high for one, (low, high) in zip(counts(world), true, strict=True))
    ]
    certain = [len({world[i] for world in fitting}) == 1 for i in range(people)]
    assert result.certain is not None
    assert result.certain.undecided == 0
    assert result.certain.people == sum(certain), (result.certain, certain)
    assert (result.verdict.status == "failed") >= any(certain)
    count["tables"] += 1
    count["people who are certain"] += sum(certain)
    count["certain by whole numbers alone"] += sum(
        "whole numbers" in group.recipe for group in result.certain.groups
    )
    # What the best attack leaves, category by category as the audit counts them.
    if any(law["law"] == "within" for law, _ in laws):
        return  # no rule says what is published
    asked = values if category else [True]
    views = [seen(world) for world in worlds]
    chance = 1 / len(values)
    of_view = Counter(views)
    yes = {(view, i, value): 0 for view in of_view for i in range(people) for value in asked}
    for world, view in zip(worlds, views, strict=True):
        for i, held in enumerate(world):
            if held in asked:
                yes[view, i, held] += 1
    for value in asked:
        for i in range(people):
            left = sum(
                yes[view, i, value] * (size - yes[view, i, value]) / size for view, size in of_view.items()
            )
            remaining = left / len(worlds) / (chance * (1 - chance))
            lower = result.least_remaining_uncertainty
            assert lower is None or lower.lower <= remaining + 1e-9, (lower, remaining)
            count["lower ends compared"] += 1


def fuzz(seed: int, seconds: float, most: float = float("inf")) -> dict[str, int]:
    """Small tables, whole audits."""
    return check_cases(check, seed, seconds, most=most)
