"""A few people with several whole rows behind discrete noise: what is left, by all worlds and all answers.

``python -m tools.fuzz --entry tests.auditing.noise_laws.fuzz_whole_rows --seed 1 --seconds 600`` compares it
with audits of random plans: the bracket of whom least is left must hold it.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow

import sightline as sl
from tests.auditing.crossings import ACCEPTED
from tests.numbered_cases import check_cases

_LAWS = ("discrete-gaussian", "geometric", "geometric")
_MOST_ENTRIES = 1 << 23  # worlds × combinations of answers that are listed
_LOST = 1e-6  # beyond the answers that are listed


def fuzz(seed: int, seconds: float, *, most: float = math.inf) -> dict[str, int]:
    """Cases 0, 1, … of a seed until the time is up, or until there were ``most``."""
    return check_cases(check, seed, seconds, most=most)


def check(generator: np.random.Generator, trial: int, count: Counter[str]) -> None:
    """A random case: the audit's bracket must hold the exact share."""
    case = drawn(generator)
    if case is None:
        count["too many answers"] += 1
        return
    kept = case.audited()
    if kept is None:
        count["nothing is left to ask"] += 1
        return
    left = case.left()
    lower, upper = kept
    assert lower <= left * (1 + 1e-9) + _LOST, (lower, left, upper, case)
    # A question is taken to have even chances, which its upper end is for.
    asked = any(one.level is not None for one in case.numbers)
    assert asked or left <= upper * (1 + 1e-9) + _LOST, (lower, left, upper, case)
    count[f"{case.values}, {case.prior}"] += 1
    count["several rows of a person"] += len(set(case.owners)) < len(case.owners)
    count["lower end at least half of it"] += lower >= left / 2


@dataclass(frozen=True, kw_only=True)
class Number:
    """One release: a sum of weight × value, or of the weights of the rows whose value reaches a level."""

    weight: str = "1"
    level: int | None = None
    by_group: bool = False
    only_group: bool = False
    law: str = "discrete-gaussian"
    stddev: float = 2.0

    @property
    def sql(self) -> str:
        """The query."""
        value = f"SUM({self.weight} * x)" if self.weight != "1" else "SUM(x)"
        if self.level is not None:
            value = f"SUM({self.weight}) FILTER (WHERE x >= {self.level})"
            value = f"COUNT(*) FILTER (WHERE x >= {self.level})" if self.weight == "1" else value
        where = " WHERE g = 'u'" if self.only_group else ""
        keys = ("g, ", " GROUP BY g") if self.by_group else ("", "")
        return f"SELECT {keys[0]}{value} AS n FROM data{where}{keys[1]}"

    @property
    def size(self) -> float:
        """σ, or b of geometric noise, whose variance is 1/(2 sinh²(1/2b))."""
        if self.law == "discrete-gaussian":
            return self.stddev
        return 0.5 / math.asinh(1 / (math.sqrt(2) * self.stddev))


@dataclass(frozen=True, kw_only=True)
class Case:
    """Rows of persons, and numbers about them."""

    owners: tuple[int, ...]
    groups: tuple[str, ...]
    weights: tuple[int, ...]
    numbers: tuple[Number, ...]
    top: int = 3
    values: str = "independent"
    prior: str = "uniform"
    known: int = -1  # a person whose rows the attacker knows

    @property
    def plan(self) -> dict[str, Any]:
        """The plan, of a table in which all whole numbers occur."""
        shared = self.values == "constant"
        x = [(owner if shared else row) % (self.top + 1) for row, owner in enumerate(self.owners)]
        table = {"who": [f"p{one}" for one in self.owners], "x": x, "g": self.groups, "w": self.weights}
        most = max(self.owners.count(one) for one in self.owners)
        data = {"source": pyarrow.table(table), "record": "who", "secret": "x", "bounds": [0, self.top]}
        data |= {"values": self.values, "max_rows_per_record": max(2, most), "public": ["g", "w"]}
        attacker = {"prior": self.prior} | ({"knows": [f"who = 'p{self.known}'"]} if self.known >= 0 else {})
        releases = [
            {"name": f"r{place}", "sql": one.sql, "noise": {"law": one.law, "stddev": one.stddev}}
            for place, one in enumerate(self.numbers)
        ]
        limits = {"remaining_uncertainty": 0.01, "accept": ACCEPTED}
        return {"data": data, "attacker": attacker, "release": releases, "limits": limits}

    def audited(self) -> tuple[float, float] | None:
        """Both ends for whom least is left; none if nothing depends on an unknown secret."""
        found = sl.audit(self.plan).least_remaining_uncertainty
        return None if found is None else (found.lower, found.upper)

    @property
    def answers(self) -> list[tuple[Number, list[int]]]:
        """The published numbers: each with the rows in it."""
        found = []
        for one in self.numbers:
            inside = [row for row, group in enumerate(self.groups) if group == "u" or not one.only_group]
            keys = sorted({self.groups[row] for row in inside}) if one.by_group else [None]
            for key in keys:
                rows = [row for row in inside if key is None or self.groups[row] == key]
                found += [(one, rows)] if rows else []
        return found

    def left(self) -> float:
        """The least share of a linear feature of a person's rows, or of their answers to a question."""
        places = [
            self.owners.index(one) if self.values == "constant" else r for r, one in enumerate(self.owners)
        ]
        unknown = [place for place in sorted(set(places)) if self.owners[place] != self.known]
        points = (0, self.top) if self.prior == "two-point" else range(self.top + 1)
        worlds = np.array(list(itertools.product(points, repeat=len(unknown))))
        posterior, chances = self._posterior(worlds, places, unknown)
        levels = {one.level for one, _ in self.answers if one.level is not None}
        found = [1.0]
        for person in {self.owners[place] for place in unknown}:
            own = [column for column, place in enumerate(unknown) if self.owners[place] == person]
            found.append(_least(worlds[:, own].astype(float), posterior, chances))
            for level in levels:
                yes = (worlds[:, own] >= level).astype(float)
                found.append(_least(yes, posterior, chances))
        return min(found)

    def _posterior(
        self, worlds: np.ndarray, places: list[int], unknown: list[int]
    ) -> tuple[np.ndarray, np.ndarray]:
        """The chances of all worlds after every answer, and the chance of the answer."""
        joint = np.full((len(worlds), 1), 1 / len(worlds))
        for one, rows in self.answers:
            sums = np.zeros(len(worlds), dtype=int)
            for row in rows:
                if places[row] not in unknown:
                    continue  # what is known is subtracted
                value = worlds[:, unknown.index(places[row])]
                held = value if one.level is None else (value >= one.level)
                sums += held * (self.weights[row] if one.weight == "w" else int(one.weight))
            reach = math.ceil((7 if one.law == "discrete-gaussian" else 18) * one.size)
            steps = np.arange(sums.min() - reach, sums.max() + reach + 1) - sums[:, None]
            mass = _mass(one.law, one.size, steps)
            joint = (joint[:, :, None] * mass[:, None, :]).reshape(len(worlds), -1)
        chances = joint.sum(axis=0)
        joint, chances = joint[:, chances > 1e-13], chances[chances > 1e-13]
        return joint / chances, chances / chances.sum()


def _least(values: np.ndarray, posterior: np.ndarray, chances: np.ndarray) -> float:
    """The least share of the variance of a unit feature that is left."""
    mean = values.T @ posterior
    second = np.array([[(a * b) @ (posterior @ chances) for a in values.T] for b in values.T])
    left = second - (mean * chances) @ mean.T
    return float(np.linalg.eigvalsh(left)[0] / values[:, 0].var())


def _mass(law: str, size: float, steps: np.ndarray) -> np.ndarray:
    """The law of the noise, written down again."""
    every = np.arange(-math.ceil(60 * size), math.ceil(60 * size) + 1)

    def weights(of: np.ndarray) -> np.ndarray:
        power = of**2 / (2 * size**2) if law == "discrete-gaussian" else np.abs(of) / size
        return np.asarray(np.exp(-power))

    return np.asarray(weights(steps) / weights(every).sum())


def drawn(draw: np.random.Generator) -> Case | None:
    """A case with one or two releases; none if it would publish too many numbers."""
    persons = int(draw.integers(2, 4))
    owners = sorted([*range(persons), *draw.integers(persons, size=int(draw.integers(1, 3))).tolist()])[:5]
    numbers = []
    top = int(draw.choice([1, 2, 3]))
    for _ in range(int(draw.integers(1, 4))):
        level = int(draw.integers(1, top + 1)) if draw.random() < 0.25 else None
        numbers.append(
            Number(
                weight=str(draw.choice(["1", "1", "2", "w"])),
                level=level,
                by_group=bool(draw.random() < 0.4),
                only_group=bool(draw.random() < 0.3),
                law=str(draw.choice(_LAWS)),
                stddev=round(float(np.exp(draw.uniform(0.41, 1.6))), 3),
            )
        )
    case = Case(
        owners=tuple(owners),
        groups=("u", *(str(one) for one in draw.choice(["u", "v"], len(owners) - 1))),
        weights=tuple(draw.choice([-2, -1, 1, 2, 3], len(owners), p=[0.1, 0.1, 0.4, 0.2, 0.2]).tolist()),
        numbers=tuple(numbers),
        top=top,
        values=str(draw.choice(["independent", "independent", "constant"])),
        prior=str(draw.choice(["uniform", "uniform", "two-point"])),
        known=int(draw.choice([-1, -1, 0])),
    )
    reach = [14 * one.size + 4 * top * len(rows) for one, rows in case.answers]
    return case if (top + 1) ** len(owners) * math.prod(reach) <= _MOST_ENTRIES else None
