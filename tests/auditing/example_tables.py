"""The made-up tables of the shipped examples, drawn again: nobody is in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from random import Random

import pyarrow
from pyarrow import parquet

import sightline

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


def discharges(draw: Random) -> list[list[object]]:
    """A hospital's discharges in half a year: most diagnoses are rarer among the young."""
    rows: list[list[object]] = [["patient", "age_group", "month", "diagnosis"]]
    usual = ["heart"] * 6 + ["lung"] * 5 + ["injury"] * 4 + ["cancer"] * 3 + ["infection"] * 2
    young = ["injury"] * 6 + ["infection"] * 4 + ["lung"]
    for number in range(700):
        age = _pick(draw, ["0-17"] + ["18-44"] * 2 + ["45-64"] * 3 + ["65+"] * 5)
        month = f"2025-{1 + int(6 * draw.random()):02d}"
        rows.append([f"P{number:04d}", age, month, _pick(draw, young if age == "0-17" else usual)])
    return rows


def frequency(draw: Random) -> list[list[object]]:
    """A sample of adults: who is employed, by four public columns of which two have rare values."""
    rows: list[list[object]] = [["person", "area", "age", "sex", "origin", "employed"]]
    areas = [f"area {place}" for place in range(1, 11) for _ in range(12 - place)]
    origins = ["here"] * 40 + ["north"] * 6 + ["east"] * 4 + ["south"] * 3 + ["west"]
    for number in range(1000):
        age = _pick(draw, ["18-24", "25-34", "35-44", "45-54", "55-64"])
        rows.append(
            [
                f"N{number:04d}",
                _pick(draw, areas),
                age,
                _pick(draw, ("female", "male")),
                _pick(draw, origins),
                "yes" if draw.random() < (0.45 if age == "18-24" else 0.8) else "no",
            ]
        )
    return rows


def readings(draw: Random) -> list[list[object]]:
    """A year of hourly readings of twenty homes. All homes of a tariff but one are in a pilot."""
    rows: list[list[object]] = [["home", "feeder", "tariff", "pilot", "hour", "kwh"]]
    start = datetime(2023, 1, 1)  # local standard time, as meters keep it
    for number in range(20):
        feeder, tariff = ("mill", "church")[number % 2], ("day", "night")[number // 10]
        base, joined = 0.1 + 0.4 * draw.random(), 24 * 59 if number == 4 else 0
        for hour in range(8_760):
            of_day, cold = hour % 24, abs(hour / 8_760 - 0.5) * 2
            kwh = base * (1 + cold + 2 * (17 <= of_day <= 21)) * (0.4 + 1.2 * draw.random())
            if hour >= joined and draw.random() > 0.001 * (number % 3 == 0):
                when = start + timedelta(hours=hour)
                rows.append(
                    [
                        f"H{number:02d}",
                        feeder,
                        tariff,
                        10 <= number != 16,
                        when,
                        round(min(kwh, 4.0), 2),
                    ]
                )
    return rows


TABLES: dict[str, tuple[str, Callable[[Random], list[list[object]]]]] = {
    "census": ("people.csv", census),
    "meters": ("meters.csv", meters),
    "orders": ("orders.csv", orders),
    "stays": ("stays.csv", stays),
    "salaries": ("salaries.csv", salaries),
    "discharges": ("discharges.csv", discharges),
    "frequency": ("people.csv", frequency),
}


def table_text(name: str) -> str:
    """A table as the text of its CSV file."""
    _, make = TABLES[name]
    return "".join(",".join(map(str, row)) + "\n" for row in make(Random(f"sightline {name}")))


def write_readings() -> None:
    """The table of a year as a Parquet file: as text it would be a hundred times as large."""
    header, *rows = readings(Random("sightline readings"))
    rows.sort(key=lambda row: (row[4], row[0]))
    table = pyarrow.table(
        {str(name): list(own) for name, own in zip(header, zip(*rows, strict=True), strict=True)}
    )
    target = Path(sightline.__path__[0]) / "examples" / "readings" / "readings.parquet"
    parquet.write_table(table, target, compression="zstd", compression_level=19)


def _pick(draw: Random, values: Sequence[str]) -> str:
    # Only random() itself is the same in every version of Python.
    return values[int(draw.random() * len(values))]
