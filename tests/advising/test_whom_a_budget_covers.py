"""Budgets for every conceivable person, and for the kinds of people in a table: plans where they differ."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sightline as sl
from sightline.privacy.accountant import Budget
from sightline.privacy.registry import accountant_named
from sightline.report.design import lines

DAYS, TOWNS = 3, 4


def readings(folder: Path, seed: int) -> dict[str, Any]:
    """Meters with a reading on each of some days: nobody has two of one day, and few have all of them."""
    generator = np.random.default_rng(seed)
    body = ["meter,day,town,load"]
    for meter in range(60):
        town = int(generator.integers(TOWNS))
        for day in np.flatnonzero(generator.random(DAYS) < 0.5 + 0.2 * (meter == 0)).tolist():
            body.append(f"m{meter},d{day},t{town},{generator.uniform(0, 1):.2f}")
    (folder / "t.csv").write_text("\n".join(body) + "\n")
    return {
        "data": {
            "source": str(folder / "t.csv"),
            "record": "meter",
            "secret": "load",
            "bounds": [0, 1],
            "max_rows_per_record": DAYS,
            "public": ["day", "town"],
        },
        "limits": {"remaining_uncertainty": 0.01, "accept": ["rows_apart"]},
        "release": [
            {"name": "days", "sql": "SELECT day, SUM(load) FROM data GROUP BY day"},
            {"name": "towns", "sql": "SELECT town, SUM(load) FROM data GROUP BY town"},
        ],
    }


Noise = dict[tuple[str, str], float]  # by release and group


def noise_of(found: sl.DesignResult) -> Noise:
    return {(one.release, one.cell): one.stddev for one in found.noise}


def cost(noise: Noise, rows: list[tuple[str, str]]) -> float:
    """What somebody with rows on some days in some towns costs: squared moves over the noise."""
    moved = Counter([("days", day) for day, _ in rows] + [("towns", town) for _, town in rows])
    return sum((count / noise[number]) ** 2 for number, count in moved.items())


def allowed() -> float:
    return 1 / accountant_named("gaussian-dp", Budget(epsilon=3.0, delta=1e-6)).kappa(1)


def people(folder: Path) -> list[list[tuple[str, str]]]:
    """The rows of every meter of the table."""
    rows: dict[str, list[tuple[str, str]]] = {}
    for line in (folder / "t.csv").read_text().splitlines()[1:]:
        meter, day, town, _ = line.split(",")
        rows.setdefault(meter, []).append((day, town))
    return list(rows.values())


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("accountant", ["gaussian-dp", "per-record"])
@pytest.mark.parametrize("sensitivity", ["declared", "memberships"])
def test_a_budget_for_everyone_is_kept_by_everyone_and_another_is_never_called_so(
    seed: int, accountant: str, sensitivity: str, tmp_path: Path
) -> None:
    privacy = {"epsilon": 3.0, "delta": 1e-6, "accountant": accountant, "sensitivity": sensitivity}
    found = sl.design(readings(tmp_path, seed) | {"privacy": privacy}, loss="variance")
    noise, most = noise_of(found), allowed() * (1 + 1e-6)
    assert max(cost(noise, rows) for rows in people(tmp_path)) <= most
    days, towns = ([group for release, group in noise if release == name] for name in ("days", "towns"))
    choices = itertools.product(itertools.product(days, towns), repeat=DAYS)
    conceivable = max(cost(noise, list(rows)) for rows in choices)
    assert found.budget is not None
    assert found.budget.everyone == (accountant != "per-record" and sensitivity == "declared")
    assert conceivable <= most or not found.budget.everyone
    printed = "\n".join(lines(found))
    assert ("for every conceivable person" in printed) == found.budget.everyone
    assert ("for the kinds of people in this table, and no others" in printed) == (not found.budget.everyone)


def test_the_two_differ(tmp_path: Path) -> None:
    """With noise for the rows that people here have, somebody else costs more than the budget."""
    privacy = {"epsilon": 3.0, "delta": 1e-6, "sensitivity": "memberships"}
    noise = noise_of(sl.design(readings(tmp_path, 0) | {"privacy": privacy}, loss="variance"))
    assert cost(noise, [("d0", "t0")] * DAYS) > 1.5 * allowed()
