"""Hunts for small tables on which the audit is wrong about who is certain, or a lower end is too high.

Every table of secrets is enumerated. Those that are published as the true one decide who is certain; the mean
of the posterior variance over all of them is what the best attack leaves. Two thousand tables:
``python -c "from tests.auditing.fuzz_certain_people import fuzz; print(fuzz(0, 1e9, most=2000))"``.
"""

from __future__ import annotations

import math
from collections import Counter
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
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


def blanked(items: str, by: str, counted: str, below: int, way: int) -> tuple[str, dict[str, Any]]:
    """A query that blanks counts below a number: by the plan, by HAVING, or by CASE."""
    keys, grouped = (f"{by}, ", f" GROUP BY {by}") if by else ("", "")
    count = f"COUNT(*) FILTER (WHERE {counted})" if counted else "COUNT(*)"
    if below and way == 1 and by and ", COUNT" not in items:
        return f"SELECT {keys}{items} FROM data{grouped} HAVING {count} >= {below}", {}
    if below and way == 2 and counted and ", COUNT" not in items:
        case = f"CASE WHEN {count} < {below} THEN NULL ELSE {count} END AS n"
        return f"SELECT {keys}{case} FROM data{grouped}", {}
    plain = f"SELECT {keys}{items} FROM data{grouped}"
    return plain, {"suppress_below": below} if below else {}


def check(rng: np.random.Generator, trial: int, count: Counter[str]) -> None:
    people, category, presence = int(rng.integers(3, 8)), trial % 4 == 2, trial % 4 == 3
    values: list[Any] = ["x", "y", "z"] if category else [False, True]
    if category:
        people = min(people, 6)
    share = rng.choice([0.1, 0.5, 0.9])
    drawn = rng.random(people) < share
    if presence:  # some are there, and some are not
        drawn[:2] = True, False
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
        law, below, way = draw_law(rng), int(rng.choice([0, 0, 2, 3])), int(rng.integers(3))
        counted = "" if presence else "secret" if not category else "secret = 'x'"
        items = f"COUNT(*) FILTER (WHERE {counted}) AS n" if counted else "COUNT(*) AS n"
        if category and rng.random() < 0.5:
            items += ", COUNT(*) FILTER (WHERE secret = 'y') AS m"
        sql, more = blanked(items, by, counted, below, way)
        count["blanks in SQL"] += bool(below and not more)
        releases.append({"name": f"r{number}", "sql": sql, "noise": law, **more})
        laws.append((law, below))
        groups.append([", AS m" if "AS m" in items else ""] + [one for one in by.split(", ") if one])
    kind: dict[str, Any] = {"kind": "category", "categories": values} if category else {"kind": "boolean"}
    data: dict[str, Any] = {"source": table, "record": "id", "secret": "secret", **kind}
    with TemporaryDirectory() as folder:
        if presence:
            there, frame = table[table.secret].drop(columns="secret"), Path(folder) / "frame.parquet"
            table.drop(columns="secret").to_parquet(frame)
            data = {"source": there, "record": "id", "secret": "presence", "frame": str(frame)}
        limits = {"remaining_uncertainty": 0.5}
        plan = {"data": data, "limits": limits, "release": releases}
        result = sl.audit(plan, verdict_only=True)
    count["of presence"] += presence

    numbers = []  # who is counted if they hold which value, and how that is published
    for (law, below), (two, *keys_of) in zip(laws, groups, strict=True):
        labels = [tuple(row) for row in table[keys_of].to_numpy()] if keys_of else [()] * people
        for label in sorted(set(labels)):
            inside = np.array([one == label for one in labels])
            asked_of = (values[:2] if two else values[:1]) if category else [True]
            numbers += [(inside, value, law, below) for value in asked_of]

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
    yes_share = sum(secrets) / people if presence else 1 / len(values)
    chance_of = {value: 1 / len(values) for value in values} if category else {}
    chance_of |= {} if category else {True: yes_share, False: 1 - yes_share}
    weight: dict[Any, float] = {}
    held_by: dict[Any, float] = {}
    for world, view in zip(worlds, views, strict=True):
        chance = math.prod(chance_of[value] for value in world)
        weight[view] = weight.get(view, 0.0) + chance
        for i, held in enumerate(world):
            if held in asked:
                held_by[view, i, held] = held_by.get((view, i, held), 0.0) + chance
    for value in asked:
        for i in range(people):
            yes = {view: held_by.get((view, i, value), 0.0) for view in weight}
            left = sum(yes[view] * (total - yes[view]) / total for view, total in weight.items())
            remaining = left / (chance_of[value] * (1 - chance_of[value]))
            lower = result.least_remaining_uncertainty
            assert lower is None or lower.lower <= remaining + 1e-9, (lower, remaining)
            count["lower ends compared"] += 1
            count["lower ends above 0"] += lower is not None and lower.lower > 0


def fuzz(seed: int, seconds: float, most: float = float("inf")) -> dict[str, int]:
    """Small tables, whole audits."""
    return check_cases(check, seed, seconds, most=most)
