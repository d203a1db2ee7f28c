"""Small plans to rehearse: a number, a yes or no, a category, copies, known records."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

HOMES = 12


def homes(folder: Path) -> str:
    """Twelve homes in two feeders and three streets, with a number, a yes or no and a category."""
    path = folder / "homes.csv"
    values = np.random.default_rng(5).uniform(0, 100, HOMES)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["home", "feeder", "street", "watts", "heats", "fuel"])
        for i, value in enumerate(values):
            fuel = ("gas", "oil", "wood")[(i * 5 + i // 4) % 3]
            writer.writerow([f"H{i}", f"F{i % 2}", f"S{i % 3}", repr(float(value)), bool(i % 3), fuel])
    return str(path)


def number_plan(folder: Path, **changes: Any) -> dict[str, Any]:
    """Means and sums, one of them twice, that single out H7."""
    return {
        "data": {"source": homes(folder), "record": "home", "secret": "watts", "bounds": [0, 100]},
        "release": [
            {"name": "all", "sql": "SELECT AVG(watts) FROM data", "noise_stddev": 2.0},
            {"name": "without", "sql": "SELECT AVG(watts) FROM data WHERE home <> 'H7'", "noise_stddev": 1.5},
            {
                "name": "streets",
                "sql": "SELECT street, feeder, SUM(watts) FROM data GROUP BY street, feeder",
                "noise_stddev": 20.0,
                "times": 2,
            },
        ],
        **changes,
    }


def laplace_plan(folder: Path) -> dict[str, Any]:
    """The same releases under Laplace noise."""
    plan = number_plan(folder)
    releases = [
        {key: value for key, value in one.items() if key != "noise_stddev"} for one in plan["release"]
    ]
    return {**plan, "release": releases, "privacy": {"epsilon": 30.0, "accountant": "laplace"}}


def mixed_plan(folder: Path) -> dict[str, Any]:
    """Gaussian noise on some numbers, and Laplace noise on others."""
    plan = number_plan(folder)
    del plan["release"][1]["noise_stddev"]
    plan["release"][1]["noise"] = {"law": "laplace", "stddev": 1.5}
    return plan


def known_plan(folder: Path) -> dict[str, Any]:
    """The attacker knows half of the homes."""
    return number_plan(folder, attacker={"knows": ["feeder = 'F0'"]})


def share_known_plan(folder: Path) -> dict[str, Any]:
    """The attacker knows a share of the homes, and the releases are published twice."""
    plan = number_plan(folder, attacker={"knows": ["40%"]})
    return plan | {"release": [one | {"times": 2} for one in plan["release"]]}


def yes_or_no_plan(folder: Path) -> dict[str, Any]:
    """Counts of a yes or no, and of its complement."""
    return {
        "data": {"source": homes(folder), "record": "home", "secret": "heats", "kind": "boolean"},
        "release": [
            {"name": "yes", "sql": "SELECT feeder, COUNT(*) FILTER (WHERE heats) FROM data GROUP BY feeder"},
            {"name": "no", "sql": "SELECT COUNT(*) FILTER (WHERE NOT heats) FROM data WHERE home <> 'H3'"},
        ],
        "privacy": {"epsilon": 6.0, "delta": 1e-5},
    }


def category_plan(folder: Path) -> dict[str, Any]:
    """A histogram of three categories, the same without one home, and one category by street."""
    histogram = (
        "SELECT COUNT(*) FILTER (WHERE fuel = 'gas'), COUNT(*) FILTER (WHERE fuel = 'oil'), "
        "COUNT(*) FILTER (WHERE fuel = 'wood') FROM data"
    )
    return {
        "data": {
            "source": homes(folder),
            "record": "home",
            "secret": "fuel",
            "categories": ["gas", "oil", "wood"],
        },
        "release": [
            {"name": "fuels", "sql": histogram},
            {"name": "without", "sql": f"{histogram} WHERE home <> 'H4'"},
            {
                "name": "gas",
                "sql": "SELECT street, COUNT(*) FILTER (WHERE fuel = 'gas') FROM data GROUP BY street",
            },
        ],
        "privacy": {"epsilon": 20.0, "delta": 1e-5},
    }


_WEIGHT = "CASE WHEN street = 'S1' THEN -2.5e0 WHEN feeder = 'F0' THEN 3 ELSE 1 END"


def weighted_plan(folder: Path) -> dict[str, Any]:
    """Sums and means with weights per row, of both signs."""
    plan = number_plan(folder)
    for release in plan["release"]:
        release["sql"] = release["sql"].replace("(watts)", f"({_WEIGHT} * watts)")
    return plan


def weighted_category_plan(folder: Path) -> dict[str, Any]:
    """Sums of a public weight over the homes of a category."""
    plan = category_plan(folder)
    for release in plan["release"]:
        release["sql"] = release["sql"].replace("COUNT(*)", f"SUM({_WEIGHT})")
    return plan


PLANS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "number": number_plan,
    "known": known_plan,
    "share known": share_known_plan,
    "laplace": laplace_plan,
    "mixed": mixed_plan,
    "yes or no": yes_or_no_plan,
    "category": category_plan,
    "weighted": weighted_plan,
    "weighted category": weighted_category_plan,
}
