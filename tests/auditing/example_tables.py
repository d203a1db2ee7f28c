"""The made-up tables of the shipped examples, drawn again: nobody is in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

HOURS = [f"h{hour:02d}" for hour in range(24)]


def census(draw: Random) -> list[list[object]]:
    """A census extract: one row for each person."""
    ages = ("0-17", "18-39", "40-64", "65+")
    jobs = ("care", "building", "office", "farming", "none")
    rows: list[list[object]] = [["person", "area", "age_group", "sex", "occupation", "income"]]
    for number in range(400):
        area = _pick(draw, ["north"] * 6 + ["south"] * 5 + ["east"] * 3 + ["west"] * 2 + ["isle"])
        age, job = _pick(draw, ages), _pick(draw, jobs)
        income = 0 if age == "0-17" else int(8_000 + 60_000 * draw.random() ** 2)
        rows.append([f"P{number:04d}", area, age, _pick(draw, ("f", "m")), job, income])
    return rows


def meters(draw: Random) -> list[list[object]]:
    """Smart-meter readings of one day in wide form: one row for each home, one column for each hour."""
    rows: list[list[object]] = [["home", "feeder", "tariff", *HOURS]]
    for number in range(90):
        base = 0.1 + 0.5 * draw.random()
        day = [base * (1 + 2 * (17 <= hour <= 21)) * (0.5 + draw.random()) for hour in range(24)]
        feeder = _pick(draw, ("mill", "church", "station"))
        rows.append([f"H{number:03d}", feeder, _pick(draw, ("day", "night")), *(f"{kwh:.2f}" for kwh in day)])
    return rows


def orders(draw: Random) -> list[list[object]]:
    """A retailer's orders: a customer has some, and all of them are in one country."""
    rows: list[list[object]] = [["invoice", "customer", "country", "month", "amount"]]
    for customer in range(150):
        country = _pick(draw, ["France"] * 5 + ["Spain"] * 3 + ["Malta"])
        for _ in range(1 + int(4 * draw.random() ** 2)):
            month = f"2024-{1 + int(3 * draw.random()):02d}"
            rows.append(
                [f"I{len(rows):05d}", f"C{customer:03d}", country, month, f"{5 + 120 * draw.random():.2f}"]
            )
    return rows


def stays(draw: Random) -> list[list[object]]:
    """Hospital stays: a patient may come back, to another ward."""
    rows: list[list[object]] = [["stay", "patient", "ward", "quarter", "days"]]
    for patient in range(160):
        for _ in range(1 + int(5 * draw.random() ** 3)):
            ward = _pick(draw, ["surgery"] * 4 + ["heart"] * 3 + ["birth"] * 2 + ["burns"])
            quarter = f"Q{1 + int(4 * draw.random())}"
            rows.append([len(rows), f"A{patient:03d}", ward, quarter, 1 + int(25 * draw.random() ** 2)])
    return rows


def salaries(draw: Random) -> list[list[object]]:
    """A salary survey of one firm, with two secrets."""
    rows: list[list[object]] = [["employee", "department", "level", "salary", "bonus"]]
    for number in range(120):
        department = _pick(draw, ["sales"] * 5 + ["works"] * 5 + ["board"])
        level = _pick(draw, ("junior", "senior"))
        salary = int(30_000 + 40_000 * draw.random()) + 15_000 * (level == "senior")
        rows.append([f"E{number:03d}", department, level, salary, int(8_000 * draw.random() ** 2)])
    return rows


TABLES: dict[str, tuple[str, Callable[[Random], list[list[object]]]]] = {
    "census": ("people.csv", census),
    "meters": ("meters.csv", meters),
    "orders": ("orders.csv", orders),
    "stays": ("stays.csv", stays),
    "salaries": ("salaries.csv", salaries),
}


def table_text(name: str) -> str:
    """A table as the text of its CSV file."""
    _, make = TABLES[name]
    return "".join(",".join(map(str, row)) + "\n" for row in make(Random(f"sightline {name}")))


def _pick(draw: Random, values: Sequence[str]) -> str:
    # Only random() itself is the same in every version of Python.
    return values[int(draw.random() * len(values))]
