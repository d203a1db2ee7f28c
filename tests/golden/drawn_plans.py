"""Random plans of every kind, over small tables in memory, each from a seed: as a user would write them."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any, Literal

import pyarrow

CATEGORIES = ("a", "b", "c", "d", "e")
ACCEPTED = [
    "clipped",
    "dropped",
    "empty",
    "groups",
    "homogeneous",
    "few_values",
    "local",
    "values",
    "drawn",
]
MOST_ROWS = 14


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What the plans of one kind have in common."""

    secret: Literal["number", "boolean", "category"] = "number"
    noise: str = "gaussian"  # or uneven, laplace, mixed, whole, exact, by cell, budget, budget laplace
    prior: str | None = None  # one of them at random unless given
    values: str | None = None  # of persons with several rows
    known: float = 0.0  # the share of the rows that the attacker knows
    weights: bool = False
    question: bool = False  # counts of a number above a threshold
    nonlinear: bool = False  # sums of squares
    withheld: bool = False
    within: bool = False  # values that are known to within something
    two_secrets: bool = False


KINDS: dict[str, Kind] = {
    "numbers, uniform": Kind(prior="uniform"),
    "numbers, cos2": Kind(prior="cos2"),
    "numbers, two-point": Kind(prior="two-point"),
    "yes or no": Kind(secret="boolean"),
    "categories": Kind(secret="category"),
    "persons, independent rows": Kind(values="independent"),
    "persons, one value": Kind(values="constant"),
    "persons, yes or no": Kind(values="independent", secret="boolean"),
    "persons, categories": Kind(values="independent", secret="category"),
    "persons, one value, yes or no": Kind(values="constant", secret="boolean"),
    "persons, one value, categories": Kind(values="constant", secret="category"),
    "known records": Kind(known=0.35),
    "known rows of persons": Kind(known=0.35, values="independent"),
    "known, categories": Kind(known=0.35, secret="category"),
    "weights": Kind(weights=True),
    "weights, known": Kind(weights=True, known=0.3, secret="boolean"),
    "Laplace": Kind(noise="laplace"),
    "Laplace, persons": Kind(noise="laplace", values="independent"),
    "Laplace, categories": Kind(noise="laplace", secret="category"),
    "Laplace, persons, categories": Kind(noise="laplace", values="independent", secret="category"),
    "mixed laws": Kind(noise="mixed"),
    "mixed laws, persons": Kind(noise="mixed", values="independent"),
    "whole-number laws, yes or no": Kind(noise="whole", secret="boolean"),
    "whole-number laws, categories": Kind(noise="whole", secret="category"),
    "exact numbers": Kind(noise="exact"),
    "exact numbers, known": Kind(noise="exact", known=0.3),
    "exact numbers, one value": Kind(noise="exact", values="constant"),
    "exact numbers, yes or no": Kind(noise="exact", secret="boolean"),
    "exact numbers, categories": Kind(noise="exact", secret="category"),
    "very uneven noise": Kind(noise="uneven"),
    "very uneven noise, known": Kind(noise="uneven", known=0.3),
    "very uneven noise, persons": Kind(noise="uneven", values="independent"),
    "very uneven noise, categories": Kind(noise="uneven", secret="category"),
    "noise by cell": Kind(noise="by cell"),
    "a budget": Kind(noise="budget"),
    "a budget, persons": Kind(noise="budget", values="independent"),
    "a budget, categories": Kind(noise="budget", secret="category"),
    "a budget of Laplace noise": Kind(noise="budget laplace", secret="boolean"),
    "questions about a number": Kind(question=True),
    "sums of squares": Kind(nonlinear=True),
    "withheld and suppressed numbers": Kind(withheld=True),
    "values known to within": Kind(within=True),
    "two secrets": Kind(two_secrets=True),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnPlan:
    """A plan as a mapping without its source, and the columns of the table that it is about."""

    plan: dict[str, Any]
    columns: dict[str, list[Any]]

    def complete(self) -> dict[str, Any]:
        """The plan with its table, for :func:`sightline.audit`."""
        data = {"source": pyarrow.table(self.columns), **self.plan["data"]}
        limits = self.plan.get("limits", {})
        if "accept" in limits:  # a name that plans did not have when the results were stored
            limits = {**limits, "accept": [*limits["accept"], "rows_apart"]}
        release = list(map(_with_having, self.plan["release"]))
        return {**self.plan, "data": data, "limits": limits, "release": release}


_SMALL = "COUNT(*) < 2"


def _with_having(release: dict[str, Any]) -> dict[str, Any]:
    if release.get("suppress") != _SMALL:
        return release
    kept = {name: value for name, value in release.items() if name != "suppress"}
    return {**kept, "sql": f"{release['sql']} HAVING COUNT(*) >= 2"}


def drawn_plan(kind_name: str, seed: int) -> DrawnPlan:
    """A plan of a kind, the same for the same seed."""
    draw = Random(f"{kind_name} {seed}")
    kind = KINDS[kind_name]
    rows, partitions = draw.randint(2, MOST_ROWS), draw.randint(1, 5)
    categories = CATEGORIES[: draw.randint(3, 5)]
    owners = [f"P{row:02d}" for row in range(rows)]
    if kind.values is not None:
        owners = sorted(f"P{draw.randint(0, max(1, rows // 2)):02d}" for _ in range(rows))
    columns: dict[str, list[Any]] = {"who": owners}
    columns["x"] = _secrets(draw, kind, owners, categories)
    if kind.two_secrets:
        columns["y"] = [draw.random() < 0.4 for _ in owners]
    groups = _groups(draw, rows, partitions)
    columns |= {f"g{place}": line for place, line in enumerate(groups)}
    if kind.weights:
        columns |= {
            f"w{place}": [draw.choice([1, 2, 3, 0.5, 0.25, 10.0]) for _ in owners]
            for place in range(partitions)
        }
    columns["known"] = [int(draw.random() < kind.known) for _ in owners]
    releases = [_release(draw, kind, place, categories, groups[place]) for place in range(partitions)]
    if kind.secret == "category" and draw.random() < 0.6:
        counts = ", ".join(f"COUNT(*) FILTER (WHERE x = '{name}') AS n_{name}" for name in categories)
        sql = f"SELECT g0, {counts} FROM data WHERE g0 IS NOT NULL GROUP BY g0"
        releases.append({"name": "histogram", "sql": sql, **_noise(draw, kind, groups[0])})
    return DrawnPlan(plan=_plan(draw, kind, owners, categories, releases), columns=columns)


def _plan(
    draw: Random, kind: Kind, owners: list[str], categories: tuple[str, ...], releases: list[dict[str, Any]]
) -> dict[str, Any]:
    data: dict[str, Any] = {"record": "who", "secret": "x"}
    attacker: dict[str, Any] = {}
    match kind.secret:
        case "number":
            data["bounds"] = [0, 10]
            attacker["prior"] = kind.prior or draw.choice(["uniform", "cos2", "two-point"])
        case "boolean":
            data["kind"] = "boolean"
        case _:
            data["categories"] = list(categories)
    if kind.values is not None:
        data["values"] = kind.values
        data["max_rows_per_record"] = max(2, max(owners.count(owner) for owner in owners))
    if kind.known:
        attacker["knows"] = ["known = 1"]
    if kind.within:
        attacker["values_within"] = draw.choice([0.5, 1, 2])
    plan: dict[str, Any] = {
        "data": data,
        "release": releases,
        "attacker": attacker,
        "limits": {
            "remaining_uncertainty": draw.choice([0.05, 0.3, 0.5, 0.8, 0.95]),
            "accept": ACCEPTED if draw.random() < 0.8 else [],
        },
    }
    if kind.two_secrets:
        plan["secret"] = [{"column": "y", "kind": "boolean"}]
        releases.append(
            {"name": "yes", "sql": "SELECT COUNT(*) FILTER (WHERE y) AS n FROM data", "noise_stddev": 1.5}
        )
    if kind.noise.startswith("budget"):
        accountant = (
            "laplace"
            if "laplace" in kind.noise
            else draw.choice(["zcdp", "gaussian-dp", "renyi", "advanced"])
        )
        plan["privacy"] = {"epsilon": draw.choice([0.5, 2.0, 10.0]), "delta": 1e-5, "accountant": accountant}
    return plan


def _secrets(draw: Random, kind: Kind, owners: list[str], categories: tuple[str, ...]) -> list[Any]:
    """A value for each row; for each person, where all rows of a person hold one."""
    choices = {"number": lambda: round(10 * draw.random(), 2), "boolean": lambda: draw.random() < 0.4}
    value = choices.get(kind.secret, lambda: draw.choice(categories))
    if kind.values == "constant":
        each = {owner: value() for owner in sorted(set(owners))}
        return [each[owner] for owner in owners]
    return [value() for _ in owners]


def _groups(draw: Random, rows: int, partitions: int) -> list[list[str | None]]:
    """The groups of each partition: by themselves, nested in an earlier one, or nearly equal to it."""
    lines: list[list[str | None]] = []
    for _ in range(partitions):
        number = draw.randint(1, 4)
        line: list[str | None] = [f"v{draw.randrange(number)}" for _ in range(rows)]
        if lines and draw.random() < 0.35:
            earlier = draw.choice(lines)
            if draw.random() < 0.5:
                line = [f"{group or 'none'}{draw.randrange(2)}" for group in earlier]
            else:
                line = [group or "none" for group in earlier]
                line[draw.randrange(rows)] = "other"
        if draw.random() < 0.4:
            line = [group if draw.random() < 0.75 else None for group in line]
        if not any(line):
            line[0] = "v0"
        lines.append(line)
    return lines


def _release(
    draw: Random, kind: Kind, place: int, categories: tuple[str, ...], line: list[str | None]
) -> dict[str, Any]:
    column = f"g{place}"
    sql = (
        f"SELECT {column}, {_aggregate(draw, kind, place, categories)} AS n FROM data "
        f"WHERE {column} IS NOT NULL GROUP BY {column}"
    )
    release: dict[str, Any] = {"name": f"r{place}", "sql": sql, **_noise(draw, kind, line)}
    if draw.random() < 0.2:
        release["times"] = draw.randint(2, 5)
    if kind.withheld:
        groups = [group for group in line if group is not None]
        if draw.random() < 0.5 and max(groups.count(group) for group in groups) >= 2:
            release["suppress"] = _SMALL  # as the version before wrote HAVING
        elif len(set(groups)) > 1:
            release["withhold"] = [[groups[0]]]
    return release


def _aggregate(draw: Random, kind: Kind, place: int, categories: tuple[str, ...]) -> str:
    weight = f"w{place} * " if kind.weights and draw.random() < 0.8 else ""
    match kind.secret:
        case "boolean":
            condition = "NOT x" if not kind.weights and draw.random() < 0.3 else "x"
        case "category":
            several = draw.sample(categories, 2)
            condition = (
                f"x IN ('{several[0]}', '{several[1]}')" if draw.random() < 0.2 else f"x = '{several[0]}'"
            )
            condition = f"NOT ({condition})" if draw.random() < 0.2 else condition
        case _:
            if kind.question and (place == 0 or draw.random() < 0.5):
                return f"COUNT(*) FILTER (WHERE x > {draw.choice([2.5, 5, 7])})"
            if kind.nonlinear and (place == 0 or draw.random() < 0.5):
                return "SUM(x * x)"
            sums = kind.weights or kind.noise in ("exact", "whole") or draw.random() < 0.5
            return f"SUM({weight}x)" if sums else "AVG(x)"
    return f"SUM({weight}x::INT)" if weight else f"COUNT(*) FILTER (WHERE {condition})"


def _noise(draw: Random, kind: Kind, line: list[str | None]) -> dict[str, Any]:
    spread = 5.0 if kind.noise == "uneven" else 1.5
    stddev = 10 ** draw.uniform(-spread, spread)
    match kind.noise:
        case "exact" if draw.random() < 0.35:
            return {"noise": {"law": "none"}}
        case "laplace":
            return {"noise": {"law": "laplace", "stddev": stddev}}
        case "mixed":
            return {"noise": {"law": draw.choice(["gaussian", "laplace"]), "stddev": stddev}}
        case "whole":
            law = draw.choice(["discrete-gaussian", "geometric", "laplace", "gaussian"])
            return {"noise": {"law": law, "noise_multiplier": draw.uniform(1.5, 6)}}
        case "by cell":
            names = sorted({group for group in line if group is not None})
            cells = [[name, 10 ** draw.uniform(-1.5, 1.5)] for name in names]
            return {"noise": {"law": "gaussian", "by_cell": cells}}
        case "budget" | "budget laplace":
            return {}
        case _:
            return {"noise_stddev": stddev}
