"""Two years of releases: what a ledger refuses because of what it remembers, and the same by hand."""

from __future__ import annotations

import csv
import random
from pathlib import Path
from typing import Any

import pytest

import sightline as sl
from sightline.examples.shipped import example_plan
from sightline.ledger.book import Ledger

MONTHS = [f"{2024 + month // 12}-{month % 12 + 1:02d}" for month in range(24)]


def means(name: str, noise: float, where: str = "") -> dict[str, Any]:
    """The means by feeder of the micro-grid."""
    sql = f"SELECT feeder, AVG(evening_watts) FROM data {where} GROUP BY feeder"
    return {"name": name, "sql": sql, "noise_stddev": noise}


def microgrid(folder: Path) -> Ledger:
    """A ledger about the shipped homes."""
    homes = example_plan("microgrid").parent / "homes.csv"
    folder.mkdir()
    (folder / "head.toml").write_text(
        f"data = {{ source = '{homes}', record = 'home', secret = 'evening_watts', bounds = [0, 2000] }}\n"
        "limits = { remaining_uncertainty = 0.5 }\n"
    )
    return Ledger.start(folder / "ledger", head=folder / "head.toml", values="one")


@pytest.mark.thorough
def test_month_14_is_refused_because_of_month_3(tmp_path: Path) -> None:
    """A home was away in month 3. Sharper means in month 14 tell it with month 3, and not without."""
    monthly, away = means("by feeder", 900), means("one is away", 100, "WHERE home <> 'H13'")
    sharper = means("for the auditor", 40)
    ledger, other = microgrid(tmp_path / "a"), microgrid(tmp_path / "b")
    for month in range(1, 14):
        assert ledger.add(away if month == 3 else monthly)[1] == month
    assert other.add({**monthly, "times": 13})[1] == 1
    refused, number = ledger.add(sharper)
    assert number is None
    exposed = refused.newly_below[0]
    assert exposed.record == "H13"
    assert {"for the auditor (14)", "one is away (3)"} <= set(exposed.releases)
    assert refused.before.below == 0
    assert other.check(sharper).passed
    decision, number = ledger.add({**monthly, "times": 11})  # months 14 to 24
    assert (number, decision.passed) == (14, True)


def homes(seed: int = 3) -> list[tuple[str, int, int, str, int]]:
    """60 homes: the month in which each joins, that in which it leaves, its feeder and its load."""
    draw = random.Random(seed)
    found = []
    for place in range(60):
        joins = 0 if place < 36 else draw.randint(1, 20)
        leaves = 24 if draw.random() < 0.75 else draw.randint(joins + 2, 24)
        feeder, _, watts = (
            draw.choice(["north", "south"]),
            draw.choice(["day", "night"]),
            draw.randint(100, 1900),
        )
        found.append((f"H{place:02d}", joins, leaves, feeder, watts))
    return found


def written(path: Path, head: str, rows: list[tuple[Any, ...]]) -> str:
    """A CSV file."""
    with path.open("w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(head.split(","))
        lines.writerows(rows)
    return str(path)


@pytest.mark.thorough
def test_dates_columns_rows_and_the_ledger_are_one_answer(tmp_path: Path) -> None:
    """24 monthly means of 60 homes that join and leave: four ways to write it down, one answer."""
    table = homes()
    dated = written(
        tmp_path / "dated.csv",
        "home,joined,left_on,feeder,evening_watts",
        [(name, MONTHS[j], (*MONTHS, "9999-12")[k], *rest) for name, j, k, *rest in table],
    )
    rows = written(
        tmp_path / "rows.csv",
        "home,month,feeder,evening_watts",
        [(name, MONTHS[m], *rest) for name, j, k, *rest in table for m in range(j, min(k, 24))],
    )
    columns = written(
        tmp_path / "columns.csv",
        ",".join(["home", "evening_watts", *(f"r{m + 1}" for m in range(24))]),
        [
            (name, watts, *(feeder if j <= m < k else "" for m in range(24)))
            for name, j, k, feeder, watts in table
        ],
    )
    data: dict[str, Any] = {"record": "home", "secret": "evening_watts", "bounds": [0, 2000]}
    several = {"max_rows_per_record": 24, "values": "constant"}
    common = {
        "privacy": {"delta": 1e-5, "sensitivity": "memberships"},
        "limits": {"remaining_uncertainty": 0.5},
    }
    by_column = "SELECT {r}, AVG(evening_watts) FROM data WHERE {r} IS NOT NULL GROUP BY {r}"
    ways = [
        (
            dated,
            {},
            lambda m: means("", 60, f"WHERE joined <= '{MONTHS[m]}' AND left_on > '{MONTHS[m]}'")["sql"],
        ),
        (rows, several, lambda m: means("", 60, f"WHERE month = '{MONTHS[m]}'")["sql"]),
        (columns, {}, lambda m: by_column.format(r=f"r{m + 1}")),
    ]
    results = [
        sl.audit(
            {
                "data": {"source": source, **data, **more},
                "release": [{"name": MONTHS[m], "sql": sql(m), "noise_stddev": 60.0} for m in range(24)],
                **common,
            }
        )
        for source, more, sql in ways
    ]
    (tmp_path / "head.toml").write_text(
        "data = { source = 'now.csv', record = 'home', secret = 'evening_watts', bounds = [0, 2000] }\n"
        "privacy = { delta = 1e-5 }\nlimits = { remaining_uncertainty = 0.5 }\n"
    )
    for month in range(24):
        present = [(name, feeder, watts) for name, j, k, feeder, watts in table if j <= month < k]
        written(tmp_path / "now.csv", "home,feeder,evening_watts", present)
        if not month:
            ledger = Ledger.start(tmp_path / "ledger", head=tmp_path / "head.toml", values="one")
        decision, number = ledger.add(means("by feeder", 60))
        assert number == month + 1
    for result in (*results, decision.result):
        least = result.least_remaining_uncertainty
        assert least is not None
        assert least.lower == pytest.approx(0.5361802132893752, rel=1e-9)
        assert least.upper == pytest.approx(0.5995829113514873, rel=1e-9)
        assert (result.identifiable_records, result.records) == (16, 60)
        assert result.verdict.passed
        assert result.budget.spent == pytest.approx(results[0].budget.spent, rel=1e-9)
    assert decision.after.epsilon == pytest.approx(results[0].budget.spent, rel=1e-9)
