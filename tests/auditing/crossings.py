"""Small tables and plans that cross all features, and what their raw SQL answers on any secrets.

A coordinate is what an attacker does not know by itself: the value of a row, or of all rows of a person where
these hold one value. A world gives every coordinate one of its levels. Nothing here reads SQL: the answers
of a world come from DuckDB.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from random import Random
from typing import Any

import duckdb
import numpy as np
import pyarrow

from sightline.auditing.plan_fields import Population

CATEGORIES = ("a", "b", "c")
BOUNDS = (0.0, 10.0)
ACCEPTED = ["dropped", "published_but_dropped", "groups", "homogeneous", "few_values", "values", "local"]
ACCEPTED += ["undecided", "noise_first", "empty"]
NODES = 14  # of the quadrature over a number's prior
# Even draws in two bins, and one value in between; how many of the nodes are in each.
POPULATION = Population("population.csv", ((0.0, 2.0, 5.0), (3.0, 3.0, 2.0), (4.0, 10.0, 3.0)))
_IN_BINS = (4, 1, 9)
PRIORS: list[Any] = ["uniform", "cos2", "two-point", POPULATION]
_TYPES = {"number": pyarrow.float64(), "boolean": pyarrow.bool_(), "category": pyarrow.string()}

Line = tuple[Any, ...]
Answer = dict[tuple[int, Line], Line]  # by release and key: the aggregates of a line


@dataclass(frozen=True, kw_only=True, eq=False)
class Asked:
    """One release: its SQL, how many columns of its answer are keys, the lines that are withheld, its law."""

    sql: str
    keys: int
    withheld: frozenset[Line] = frozenset()
    law: str = "gaussian"
    stddev: float = 1.0
    times: int = 1


@dataclass(frozen=True, kw_only=True, eq=False)
class Crossing:
    """A plan without its source, the table that it is about, and how its secrets are drawn."""

    plan: dict[str, Any]
    columns: dict[str, list[Any]]
    kind: str  # number, boolean or category
    asked: tuple[Asked, ...]
    known: tuple[bool, ...]  # row by row
    counts: bool = False  # whether every number is a count, so that noise may be discrete

    def complete(self, secrets: Sequence[Any] | None = None) -> dict[str, Any]:
        """The plan with its table."""
        return {**self.plan, "data": {"source": self.table(secrets), **self.plan["data"]}}

    def table(self, secrets: Sequence[Any] | None = None) -> pyarrow.Table:
        columns = self.columns if secrets is None else {**self.columns, "x": list(secrets)}
        secret = pyarrow.array(columns["x"], type=_TYPES[self.kind])
        return pyarrow.table({**columns, "x": secret})

    @cached_property
    def coordinates(self) -> list[tuple[int, ...]]:
        """The rows of each coordinate: unknown, and with a value."""
        who, secrets = self.columns["who"], self.columns["x"]
        rows = [r for r in range(len(who)) if secrets[r] is not None and not self.known[r]]
        if self.plan["data"].get("values") != "constant":
            return [(row,) for row in rows]
        persons = dict.fromkeys(who[row] for row in rows)
        return [tuple(row for row in rows if who[row] == person) for person in persons]

    @cached_property
    def persons(self) -> dict[str, list[int]]:
        """The coordinates of each person."""
        found: dict[str, list[int]] = {}
        for place, rows in enumerate(self.coordinates):
            found.setdefault(self.columns["who"][rows[0]], []).append(place)
        return found

    @property
    def prior(self) -> str:
        """The prior of a coordinate: of a number by its name, else even chances."""
        return str(self.plan["attacker"].get("prior", "even"))

    @cached_property
    def levels(self) -> tuple[Any, ...]:
        """The values that worlds are made of: all of them, or the ends, the middle and nodes of a number."""
        if self.kind == "number":
            nodes = self.nodes[0].tolist() if self.prior != "two-point" else []
            return (*BOUNDS, sum(BOUNDS) / 2, *nodes)
        return (False, True) if self.kind == "boolean" else CATEGORIES

    @cached_property
    def nodes(self) -> tuple[np.ndarray, np.ndarray]:
        """Values of a coordinate and their chances: all of them, or a quadrature of a number's prior."""
        if self.kind == "number" and self.plan["attacker"]["prior"] == POPULATION:
            return _nodes_of_population()
        if self.kind == "number" and self.prior != "two-point":
            places, weights = np.polynomial.legendre.leggauss(NODES)
            weights = weights / 2 if self.prior == "uniform" else weights * np.cos(np.pi / 2 * places) ** 2
            low, high = BOUNDS
            return low + (high - low) * (places + 1) / 2, weights / weights.sum()
        values = np.array(BOUNDS) if self.kind == "number" else np.arange(len(self.levels), dtype=float)
        if self.kind == "boolean" and "prior" in self.plan["attacker"]:
            yes = self.plan["attacker"]["prior"]["yes"]
            return values, np.array([1 - yes, yes])
        return values, np.full(len(values), 1 / len(values))

    @property
    def level_of_node(self) -> slice:
        """Which levels the nodes are."""
        count = len(self.nodes[0])
        return slice(len(self.levels) - count, None) if count == NODES else slice(count)

    def secrets(self, world: Sequence[int]) -> list[Any]:
        """The secret of every row in a world, given by the levels of its coordinates."""
        found = list(self.columns["x"])
        for rows, level in zip(self.coordinates, world, strict=True):
            for row in rows:
                found[row] = self.levels[level]
        return found


def _nodes_of_population() -> tuple[np.ndarray, np.ndarray]:
    """The nodes of each bin, and their chances."""
    values, chances = [], []
    for (low, high, weight), count in zip(POPULATION.bins, _IN_BINS, strict=True):
        places, weights = np.polynomial.legendre.leggauss(count)
        values.append(low + (high - low) * (places + 1) / 2)
        chances.append(weight * weights / 2)
    return np.concatenate(values), np.concatenate(chances) / sum(weight for _, _, weight in POPULATION.bins)


class Engine:
    """Runs raw SQL on the table of a crossing with any secrets."""

    def __init__(self) -> None:
        self.connection = duckdb.connect(config={"threads": 1})
        self.told: dict[tuple[Any, ...], Answer] = {}  # of the last table, by its secrets
        self.about: object = None  # the columns of that table

    def answers(self, crossing: Crossing, secrets: Sequence[Any] | None = None) -> Answer:
        """What the releases answer, withheld lines left out. Plans about one table ask the same again."""
        if self.about is not crossing.columns:
            self.told, self.about = {}, crossing.columns
        key = tuple(crossing.columns["x"] if secrets is None else secrets)
        if key not in self.told:
            self.hold(crossing.table(secrets))
            self.told[key] = {
                (place, line[: asked.keys]): line[asked.keys :]
                for place, asked in enumerate(crossing.asked)
                for line in self.connection.execute(asked.sql).fetchall()
                if line[: asked.keys] not in asked.withheld
            }
        return self.told[key]

    def hold(self, table: pyarrow.Table) -> None:
        """Make a table the one that is called data."""
        self.connection.register("held", table)
        self.connection.execute("CREATE OR REPLACE TEMP TABLE data AS FROM held")
        self.connection.unregister("held")


# ------------------------------------------------------------ drawing


def drawn(draw: Random) -> Crossing:
    """A table of a few rows and a plan about it."""
    kind = draw.choice(["number", "number", "boolean", "category"])
    values = draw.choice([None, None, "independent", "constant"])
    rows = draw.randint(2, 4 if kind == "category" else 6)
    owners = [f"P{row}" for row in range(rows)]
    if values is not None:
        owners = sorted(f"P{draw.randrange(max(2, rows // 2))}" for _ in range(rows))
    columns: dict[str, list[Any]] = {
        "who": owners,
        "x": _secrets(draw, kind, owners, values == "constant"),
        "g": [draw.choice("uv") for _ in owners],
        "h": [draw.choice("pqr") for _ in owners],
        "w": [draw.choice([1.0, 1.0, 2.0, -1.0, 0.5, 3.0]) for _ in owners],
    }
    if draw.random() < 0.15:
        lost = draw.choice(owners)
        columns["x"] = [None if who == lost and draw.random() < 0.7 else x for who, x in _pairs(columns)]
    known = _known(draw, owners)
    columns["k"] = [int(one) for one in known]
    law = _law(draw, counts=True)
    weights = draw.random() < 0.3
    parts = tuple(_release(draw, columns, kind, law, weights) for _ in range(draw.choice([1, 1, 2, 3])))
    data: dict[str, Any] = {"record": "who", "secret": "x"}
    match kind:
        case "number":
            data |= {"bounds": list(BOUNDS)}
        case "boolean":
            data["kind"] = "boolean"
        case _:
            data["categories"] = list(CATEGORIES)
    if values is not None:
        data |= {"values": values, "max_rows_per_record": max(2, *map(owners.count, owners))}
    bare = Crossing(
        plan={"data": data}, columns=columns, kind=kind, asked=parts, known=known, counts=law == "whole"
    )
    return _with_noise(draw, bare, law)


def with_other_noise(draw: Random, crossing: Crossing) -> Crossing:
    """The same table and SQL with other noise, another prior or budget, and another limit."""
    law = _law(draw, counts=crossing.counts)
    changed = _with_noise(draw, crossing, law)
    if "empty" in crossing.plan["limits"]["accept"]:  # whether releases may be empty is asked of the table
        changed.plan["limits"]["accept"] = [*{*changed.plan["limits"]["accept"], "empty"}]
    return changed


def _law(draw: Random, *, counts: bool) -> str:
    law = draw.choice(["gaussian"] * 3 + ["laplace", "mixed", "mixed", "whole", "exact", "budget", "budget"])
    return "mixed" if law == "whole" and not counts else law


def _with_noise(draw: Random, crossing: Crossing, law: str) -> Crossing:
    """The plan for the releases of a crossing, with noise that is drawn."""
    asked = tuple(_noisy(draw, one, crossing, law) for one in crossing.asked)
    attacker: dict[str, Any] = {"knows": ["k = 1"]} if any(crossing.known) else {}
    if crossing.kind == "number":
        attacker["prior"] = draw.choice(PRIORS)
    one_value = crossing.plan["data"].get("values") != "independent"
    if crossing.kind == "boolean" and one_value and draw.random() < 0.4:
        attacker["prior"] = {"yes": draw.choice([0.02, 0.1, 0.3, 0.45, 0.8, 0.97])}
    plan: dict[str, Any] = {
        "data": crossing.plan["data"],
        "attacker": attacker,
        "release": [_stated(place, one, law) for place, one in enumerate(asked)],
        "limits": {
            "remaining_uncertainty": draw.choice([0.999, 0.999, 0.9, 0.5, 0.1]),
            "accept": ACCEPTED if draw.random() < 0.7 else draw.sample(ACCEPTED, 3),
        },
    }
    if law == "budget":
        rule = draw.choice(["zcdp", "gaussian-dp", "basic", "advanced", "renyi", "laplace"])
        plan["privacy"] = {"epsilon": draw.choice([0.5, 3.0, 10.0]), "delta": 1e-5, "accountant": rule}
    return replace(crossing, plan=plan, asked=asked)


def _noisy(draw: Random, asked: Asked, crossing: Crossing, law: str) -> Asked:
    stddev = draw.uniform(1.6, 4.0) if law in ("whole", "exact") else 10 ** draw.uniform(-0.3, 1.2)
    if crossing.kind != "number" and law not in ("whole", "exact"):
        stddev /= 5
    chosen = {
        "mixed": draw.choice(["gaussian", "laplace"]),
        "whole": draw.choice(["discrete-gaussian", "geometric", "gaussian"]),
        "exact": draw.choice(["none", "gaussian"]),
        "budget": "gaussian",
    }.get(law, law)
    return replace(asked, law=chosen, stddev=stddev, times=draw.choice([1, 1, 1, 2]))


def _stated(place: int, asked: Asked, law: str) -> dict[str, Any]:
    """A release as a plan states it."""
    stated: dict[str, Any] = {"name": f"r{place}", "sql": asked.sql}
    if law != "budget":
        stated["noise"] = {"law": asked.law} | ({} if asked.law == "none" else {"stddev": asked.stddev})
    if asked.times > 1:
        stated["times"] = asked.times
    if asked.withheld:
        stated["withhold"] = [list(line) for line in asked.withheld]
    return stated


def _pairs(columns: dict[str, list[Any]]) -> list[tuple[Any, Any]]:
    return list(zip(columns["who"], columns["x"], strict=True))


def _secrets(draw: Random, kind: str, owners: list[str], constant: bool) -> list[Any]:
    def value() -> Any:
        if kind == "number":
            return round(draw.uniform(*BOUNDS), 2)
        return draw.random() < 0.5 if kind == "boolean" else draw.choice(CATEGORIES)

    if constant:
        each = {owner: value() for owner in sorted(set(owners))}
        return [each[owner] for owner in owners]
    return [value() for _ in owners]


def _known(draw: Random, owners: list[str]) -> tuple[bool, ...]:
    """Whose secrets the attacker knows: all rows of some persons, but not of all."""
    if draw.random() < 0.7:
        return (False,) * len(owners)
    chosen = {owner for owner in sorted(set(owners))[1:] if draw.random() < 0.4}
    return tuple(owner in chosen for owner in owners)


def _release(draw: Random, columns: dict[str, list[Any]], kind: str, law: str, weights: bool) -> Asked:
    by = draw.choice([[], [], ["g"], ["g"], ["h"], ["who"], ["g", "h"]])
    number = draw.choice([1, 1, 1, 2])
    aggregates = [_aggregate(draw, kind, whole=law == "whole", weights=weights) for _ in range(number)]
    named = [f"{one} AS n{place}" for place, one in enumerate(dict.fromkeys(aggregates))]
    where = draw.choice([" WHERE h <> 'p'", " WHERE w > 0", " WHERE g = 'u'", *[""] * 15])
    grouped = f" GROUP BY {', '.join(by)}" if by else ""
    sql = f"SELECT {', '.join([*by, *named])} FROM data{where}{grouped}"
    withheld: frozenset[Line] = frozenset()
    groups = sorted({tuple(columns[name][row] for name in by) for row in range(len(columns["who"]))})
    if by and len(groups) > 1 and not where and draw.random() < 0.1:
        withheld = frozenset([draw.choice(groups)])
    return Asked(sql=sql, keys=len(by), withheld=withheld)


def _aggregate(draw: Random, kind: str, *, whole: bool, weights: bool) -> str:
    weighted = weights and not whole and draw.random() < 0.7
    filtered = " FILTER (WHERE g = 'u')" if draw.random() < 0.1 else ""
    match kind:
        case "number":
            if whole:
                return f"COUNT(*) FILTER (WHERE x > {draw.choice([3, 5])})"
            if draw.random() < 0.1:
                return draw.choice(["COUNT(*) FILTER (WHERE x > 5)", "SUM(x * x)"])
            inner = "w * x" if weighted else "x"
            return f"{draw.choice(['SUM', 'SUM', 'AVG'])}({inner}){filtered}"
        case "boolean":
            if weighted:
                return f"SUM(w * x::INT){filtered}"
            return draw.choice(
                [
                    "COUNT(*) FILTER (WHERE x)",
                    "COUNT(*) FILTER (WHERE NOT x)",
                    "SUM(x::INT)",
                    "SUM(CASE WHEN x THEN 1 ELSE 0 END)",
                    "COUNT_IF(x)",
                    *([] if whole else ["AVG(x::INT)"]),
                ]
            )
        case _:
            condition = draw.choice(["x = 'a'", "x = 'b'", "x IN ('a', 'c')", "x <> 'c'"])
            if weighted:
                return f"SUM(CASE WHEN {condition} THEN w ELSE 0 END)"
            return f"COUNT(*) FILTER (WHERE {condition})"


def effects(crossing: Crossing, engine: Engine) -> tuple[list[tuple[int, Line, int]], np.ndarray, np.ndarray]:
    """The numbers that are published, their answers at level 0, and what each level of a coordinate adds.

    Each is the raw SQL on one table: all coordinates at level 0, and one of them at another. A world of
    other levels is asked besides, so that what is not a sum over the rows is noticed.
    """
    base = [0] * len(crossing.coordinates)
    first = engine.answers(crossing, crossing.secrets(base))
    numbers = [(*cell, column) for cell, line in first.items() for column in range(len(line))]

    def values(world: Sequence[int]) -> np.ndarray:
        found = engine.answers(crossing, crossing.secrets(world))
        if found.keys() != first.keys():
            raise NotAdditive("lines")
        listed = [found[number[:2]][number[2]] for number in numbers]
        if any((one is None) != (first[n[:2]][n[2]] is None) for one, n in zip(listed, numbers, strict=True)):
            raise NotAdditive("NULLs")
        return np.array([0.0 if one is None else float(one) for one in listed])

    start = values(base)
    added = np.zeros((len(base), len(crossing.levels), len(numbers)))
    straight = crossing.kind == "number" and not any(
        text in asked.sql for asked in crossing.asked for text in ("x >", "x * x")
    )
    for place in range(len(base)):
        for level in range(1, 2 if straight else len(crossing.levels)):
            world = [level if one == place else 0 for one in range(len(base))]
            added[place, level] = values(world) - start
        if straight:  # a sum of values: the world below notices if it is not
            low, high = BOUNDS
            shares = (np.array(crossing.levels) - low) / (high - low)
            added[place] = shares[:, None] * added[place, 1]
    world = [(3 * place + 1) % len(crossing.levels) for place in range(len(base))]
    expected = start + sum((added[place, level] for place, level in enumerate(world)), np.zeros(len(numbers)))
    if not np.allclose(values(world), expected, rtol=1e-9, atol=1e-9):
        raise NotAdditive("numbers")
    return numbers, start, added


class NotAdditive(Exception):
    """Lines, NULLs or numbers of an answer are no sum over the rows: what of them is said."""
