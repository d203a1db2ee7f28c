"""Queries of what stands in SELECT lists and in conditions on the secret, and what each must be read as.

An accepted case has the query, the same query with the aggregate alone (what carries the noise), and what is
computed afterwards. Every number of the second query is compared with the audited cells.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from sightline.arrays import FloatArray
from sightline.tables.membership import Band, Feature, Partition
from sightline.tables.subject import SecretKind, Subject

COLUMNS = {
    "who": "INTEGER",
    "region": "VARCHAR(9)",
    "old": "BOOLEAN",
    "age": "INTEGER",
    "hours": "DOUBLE PRECISION",
    "change": "INTEGER",
    "income": "DOUBLE PRECISION",
    "ill": "BOOLEAN",
    "blood": "VARCHAR(9)",
}
BLOOD = ("0", "A", "AB", "B")
SUBJECTS = {
    "income": Subject(record="who", secret="income", kind=SecretKind.NUMBER, bounds=(0.0, 1000.0)),
    "ill": Subject(record="who", secret="ill", kind=SecretKind.BOOLEAN),
    "blood": Subject(record="who", secret="blood", kind=SecretKind.CATEGORY, categories=BLOOD),
}


def rows() -> list[tuple[Any, ...]]:
    """50 records. Every public column has a NULL or a 0 somewhere, and the secrets have NULLs and ties."""
    draw = np.random.default_rng(5)
    found = []
    for who in range(50):
        income = [0.0, 100.0, 250.0, 500.0, float(draw.integers(1, 1000))][int(draw.integers(5))]
        found.append(
            (
                who,
                ["north", "south", "east"][int(draw.integers(3))],
                bool(draw.integers(2)),
                int(draw.integers(18, 90)),
                None if who == 7 else [0.0, 0.25, 1.5, 2.0, 40.0][int(draw.integers(5))],
                int(draw.integers(-2, 3)),
                None if who in (3, 11) else income,
                None if who == 5 else bool(draw.integers(2)),
                None if who == 9 else BLOOD[int(draw.integers(4))],
            )
        )
    return found


def statements() -> list[str]:
    """SQL that makes the table, on any engine."""
    listed = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    values = ", ".join(f"({', '.join(map(_constant, row))})" for row in rows())
    return [f"CREATE TABLE data ({listed})", f"INSERT INTO data VALUES {values}"]


def write_csv(folder: Path) -> None:
    with duckdb.connect() as connection:
        for statement in statements():
            connection.execute(statement)
        connection.execute(f"COPY data TO '{folder / 'people.parquet'}' (FORMAT parquet)")


def _constant(value: object) -> str:
    if isinstance(value, str):
        return f"'{value}'"
    return "NULL" if value is None else str(value)


@dataclass(frozen=True)
class Accepted:
    """A query that is read, and what it publishes."""

    secret: str
    sql: str
    alone: str = ""  # the query with the aggregates alone; empty if it is the query itself
    steps: tuple[str, ...] = ()  # what is computed with the first number afterwards
    enlarges: bool = False


ACCEPTED = [
    # post-processing
    Accepted("income", "SELECT ROUND(AVG(income), 1) FROM data", "SELECT AVG(income) FROM data", ("ROUND",)),
    Accepted(
        "income",
        "SELECT region, 100.0 * SUM(income) / COUNT(*) AS share FROM data GROUP BY region",
        "SELECT SUM(income) FROM data GROUP BY region",
        ("* 100.0", "/ COUNT(*)"),
    ),
    Accepted(
        "income",
        "SELECT region, COALESCE(AVG(income), 0) FROM data GROUP BY region ORDER BY region LIMIT 2",
        "SELECT AVG(income) FROM data GROUP BY region",
        ("LIMIT 2",),
    ),
    Accepted(
        "income",
        "SELECT region, AVG(income) AS m FROM data GROUP BY region ORDER BY m DESC",
        "SELECT AVG(income) FROM data GROUP BY region",
        ("ORDER BY",),
    ),
    Accepted(
        "income",
        "SELECT CAST(ROUND(AVG(income) / 12, 0) AS INTEGER) AS monthly FROM data",
        "SELECT AVG(income) FROM data",
        ("/ 12", "ROUND", "CAST AS INT"),
    ),
    Accepted("income", "SELECT -SUM(income) FROM data", "SELECT SUM(income) FROM data", ("- (negated)",)),
    Accepted("income", "SELECT 5 - AVG(income) FROM data", "SELECT AVG(income) FROM data", ("5 -",)),
    Accepted(
        "income", "SELECT AVG(income) * 0.5 + 3 FROM data", "SELECT AVG(income) FROM data", ("* 0.5", "+ 3")
    ),
    Accepted(
        "income",
        "SELECT GREATEST(FLOOR(AVG(income)), 0) FROM data",
        "SELECT AVG(income) FROM data",
        ("FLOOR", "GREATEST"),
    ),
    Accepted(
        "income", "SELECT AVG(income)::INTEGER FROM data", "SELECT AVG(income) FROM data", ("CAST AS INT",)
    ),
    Accepted(
        "ill",
        "SELECT region, ROUND(100.0 * COUNT(*) FILTER (WHERE ill) / NULLIF(COUNT(*), 0), 1) AS pct "
        "FROM data GROUP BY region",
        "SELECT COUNT(*) FILTER (WHERE ill) FROM data GROUP BY region",
        ("* 100.0", "/ NULLIF(COUNT(*), 0)", "ROUND"),
    ),
    Accepted(
        "ill",
        "SELECT SUM(CASE WHEN ill THEN 1 ELSE 0 END) * 1.0 / COUNT(*) FROM data",
        "SELECT SUM(CASE WHEN ill THEN 1 ELSE 0 END) FROM data",
        ("* 1.0", "/ COUNT(*)"),
    ),
    Accepted(
        "blood",
        "SELECT COUNT(*) FILTER (WHERE blood = 'A') / 2 FROM data",
        "SELECT COUNT(*) FILTER (WHERE blood = 'A') FROM data",
        ("/ 2",),
    ),
    # ratios and weights
    Accepted(
        "income",
        "SELECT region, SUM(income) / COUNT(*) FROM data GROUP BY region",
        "SELECT SUM(income) FROM data GROUP BY region",
        ("/ COUNT(*)",),
    ),
    Accepted(
        "income",
        "SELECT SUM(income) / SUM(age) FROM data",
        "SELECT SUM(income) FROM data",
        ("/ SUM(age)",),
        True,
    ),
    Accepted(
        "income",
        "SELECT region, SUM(income * hours) / SUM(hours) AS weighted FROM data GROUP BY region",
        "SELECT SUM(income * hours) FROM data GROUP BY region",
        ("/ SUM(hours)",),
        True,
    ),
    Accepted("income", "SELECT region, old, SUM(income * age) FROM data GROUP BY region, old"),
    Accepted("income", "SELECT SUM(change * income) FROM data"),
    Accepted("income", "SELECT region, SUM(income * hours * age / 100.0) FROM data GROUP BY region"),
    Accepted("income", "SELECT AVG(income / 1000.0) FROM data"),
    Accepted("income", "SELECT SUM(2 * income), AVG(-income) FROM data WHERE old"),
    Accepted("income", "SELECT AVG(hours * income) FROM data WHERE region = 'north'"),
    Accepted("income", "SELECT SUM(CASE WHEN old THEN income * hours ELSE 0 END) FROM data"),
    Accepted("income", "SELECT SUM(income * CASE WHEN old THEN 2 ELSE 1 END) FROM data"),
    Accepted("income", "SELECT SUM(age * income * income) FROM data"),
    Accepted("ill", "SELECT region, SUM(age) FROM data WHERE ill GROUP BY region"),
    Accepted("ill", "SELECT SUM(hours) FILTER (WHERE NOT ill) FROM data"),
    Accepted("ill", "SELECT SUM(CASE WHEN ill THEN age ELSE 0 END) FROM data"),
    Accepted("ill", "SELECT AVG(CASE WHEN ill THEN 100.0 ELSE 0 END) FROM data WHERE ill IS NOT NULL"),
    Accepted("ill", "SELECT SUM(age * ill::INT) FROM data"),
    Accepted("blood", "SELECT SUM(age) FROM data WHERE blood = 'A'"),
    Accepted(
        "blood", "SELECT region, SUM(hours) FILTER (WHERE blood IN ('A', 'AB')) FROM data GROUP BY region"
    ),
    # clipping
    Accepted("income", "SELECT SUM(LEAST(income, 300)) FROM data WHERE income IS NOT NULL"),
    Accepted("income", "SELECT AVG(GREATEST(income, 50)) FROM data WHERE income IS NOT NULL"),
    Accepted(
        "income",
        "SELECT region, SUM(LEAST(GREATEST(income, 100), 400.5)) FROM data "
        "WHERE income IS NOT NULL GROUP BY region",
    ),
    Accepted("income", "SELECT SUM(COALESCE(income, 0)) FROM data"),
    Accepted("income", "SELECT SUM(GREATEST(COALESCE(income, 0), 0)) FROM data"),
    Accepted("income", "SELECT SUM(LEAST(income, 2000)) FROM data WHERE income IS NOT NULL"),
    Accepted("income", "SELECT SUM(age * LEAST(income, 300)) FROM data WHERE income IS NOT NULL"),
    # conditions on the secret
    Accepted("income", "SELECT COUNT(*) FROM data WHERE income > 0"),
    Accepted("income", "SELECT region, COUNT(*) FILTER (WHERE income >= 100) FROM data GROUP BY region"),
    Accepted("income", "SELECT COUNT(*) FILTER (WHERE income BETWEEN 100 AND 500) FROM data"),
    Accepted("income", "SELECT COUNT(*) FROM data WHERE income >= 100 AND income < 500"),
    Accepted("income", "SELECT COUNT(*) FROM data WHERE income > 100 AND income <= 500 AND old"),
    Accepted("income", "SELECT COUNT(*) FROM data WHERE 100 < income AND 500 > income"),
    Accepted("income", "SELECT COUNT(*) FROM data WHERE income NOT BETWEEN 100 AND 500"),
    Accepted("income", "SELECT COUNT(*) FROM data WHERE income < 100 OR income >= 500"),
    Accepted("income", "SELECT COUNT(*) FILTER (WHERE income < 500) FROM data WHERE income >= 100"),
    Accepted(
        "income",
        "SELECT AVG(CASE WHEN income BETWEEN 100 AND 500 THEN 1 ELSE 0 END) FROM data "
        "WHERE income IS NOT NULL",
    ),
    Accepted("income", "SELECT SUM(age) FILTER (WHERE income > 250) FROM data"),
    Accepted("income", "SELECT SUM(CASE WHEN income > 250 THEN 100 ELSE 0 END) FROM data"),
    Accepted(
        "income",
        "SELECT region, ROUND(100.0 * COUNT(*) FILTER (WHERE income > 250) / COUNT(*)) FROM data "
        "GROUP BY region ORDER BY 2 DESC LIMIT 2",
        "SELECT COUNT(*) FILTER (WHERE income > 250) FROM data GROUP BY region",
        ("* 100.0", "/ COUNT(*)", "ROUND", "ORDER BY", "LIMIT 2"),
    ),
    Accepted(
        "income",
        "SELECT CASE WHEN income < 100 THEN 'low' WHEN income <= 250 THEN 'middle' ELSE 'high' END AS band, "
        "COUNT(*) FROM data WHERE income IS NOT NULL GROUP BY band",
    ),
    Accepted(
        "income",
        "SELECT CASE WHEN income < 100 THEN 1 WHEN income < 250 THEN 2 WHEN income >= 250 THEN 3 END AS band"
        ", COUNT(*) FROM data WHERE income IS NOT NULL GROUP BY band",
    ),
    Accepted(
        "income",
        "SELECT region, CASE WHEN income BETWEEN 100 AND 500 THEN 1 WHEN income > 500 THEN 2 END AS band, "
        "COUNT(*) FILTER (WHERE old) FROM data WHERE income IS NOT NULL GROUP BY ROLLUP (region, band)",
        "SELECT COUNT(*) FILTER (WHERE old) FROM data WHERE income IS NOT NULL GROUP BY region, "
        "CASE WHEN income BETWEEN 100 AND 500 THEN 1 WHEN income > 500 THEN 2 END",
    ),
    Accepted(
        "income",
        "SELECT CASE WHEN income > 250 THEN 'rich' ELSE 'poor' END AS band, COUNT(*) / 10.0 FROM data "
        "WHERE income IS NOT NULL GROUP BY 1 ORDER BY 1",
        "SELECT COUNT(*) FROM data WHERE income IS NOT NULL GROUP BY income > 250",
        ("/ 10.0",),
    ),
    Accepted("blood", "SELECT COUNT(*) FROM data WHERE blood IN ('A', 'B')"),
    Accepted("blood", "SELECT region, COUNT(*) FROM data WHERE blood NOT IN ('A', 'B') GROUP BY region"),
    Accepted("blood", "SELECT COUNT(*) FROM data WHERE blood = 'A' OR blood = '0'"),
    Accepted("blood", "SELECT COUNT(*) FROM data WHERE blood <> 'A' AND blood <> '0'"),
    Accepted("blood", "SELECT COUNT(*) FROM data WHERE blood IN ('A', 'B', '0')"),
    Accepted("blood", "SELECT COUNT(*) FROM data WHERE blood IN ('A', 'B') AND blood <> 'B'"),
]

REFUSED = [
    # not sums over records
    ("income", "SELECT MEDIAN(income) FROM data", "the exponential mechanism"),
    ("income", "SELECT QUANTILE_CONT(income, 0.9) FROM data", "counts above a few fixed levels"),
    ("income", "SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY income) FROM data", "fixed levels"),
    ("income", "SELECT MODE(income) FROM data", "counts above a few fixed levels"),
    ("income", "SELECT MIN(income) FROM data", "one record's own value"),
    ("income", "SELECT region, MAX(income) - MIN(income) FROM data GROUP BY region", "report-noisy-max"),
    ("income", "SELECT COUNT(DISTINCT income) FROM data", "how many different values occur"),
    ("income", "SELECT COUNT(DISTINCT region) FROM data WHERE income > 0", "of public columns"),
    ("income", "SELECT STRING_AGG(CAST(income AS VARCHAR), ',') FROM data", "not a sum over records"),
    ("income", "SELECT STRING_AGG(region, ','), AVG(income) FROM data", "the order of the rows"),
    ("income", "SELECT ANY_VALUE(region), AVG(income) FROM data", "the order of the rows"),
    ("income", "SELECT AVG(income) OVER () FROM data", "no window function"),
    # sums over rows that the secret chooses
    ("income", "SELECT SUM(income) FROM data WHERE income > 0", "the sum of the positive"),
    ("income", "SELECT AVG(income) FILTER (WHERE income > 10) FROM data", "would depend on the secret"),
    ("income", "SELECT SUM(CASE WHEN income > 9 THEN income ELSE 0 END) FROM data", "would depend on"),
    ("income", "SELECT AVG(age) FROM data WHERE income > 10", "would depend on the secret"),
    ("ill", "SELECT AVG(CASE WHEN ill THEN age ELSE 0 END) FROM data", "a mean over rows"),
    ("ill", "SELECT AVG(CASE WHEN ill THEN age END) FROM data", "a mean over rows"),
    # computing with several noisy numbers, or with rows
    ("income", "SELECT region, AVG(income) * age FROM data GROUP BY region", "public aggregates around"),
    ("income", "SELECT region, AVG(income) + income FROM data GROUP BY region", "public aggregates around"),
    ("income", "SELECT RANDOM() * AVG(income) FROM data", "public aggregates around"),
    # what is added up
    ("income", "SELECT SUM(1 / income) FROM data", "a whole power of it"),
    ("income", "SELECT SUM(LEAST(income, age)) FROM data", "a whole power of it"),
    ("income", "SELECT SUM(LEAST(GREATEST(income, 5), 5)) FROM data", "a whole power of it"),
    ("income", "SELECT SUM(COALESCE(age, income)) FROM data", "a whole power of it"),
    ("income", "SELECT SUM(CASE WHEN income > 5 THEN income ELSE 5 END) FROM data", "ELSE 0"),
    ("blood", "SELECT SUM(age * blood) FROM data", "a count of categories"),
    # conditions on the secret
    ("income", "SELECT COUNT(*) FROM data WHERE income > 9 AND income < 5", "the same for all"),
    ("income", "SELECT COUNT(*) FROM data WHERE income BETWEEN 5 AND age", "compared with numbers"),
    ("income", "SELECT COUNT(*) FROM data WHERE income > 5 OR old GROUP BY region", "by AND only"),
    ("income", "SELECT CASE WHEN income > 9 THEN region ELSE 'x' END AS b, COUNT(*) FROM data GROUP BY b",
     "constants as the names of bands"),
    ("income", "SELECT CASE WHEN income > 9 THEN 'x' ELSE 'x' END AS b, COUNT(*) FROM data GROUP BY b",
     "the same for all"),
    ("income", "SELECT CASE WHEN income > 9 THEN 'x' ELSE 'y' END AS b, SUM(age) FROM data GROUP BY b",
     "in a query grouped by the secret"),
    ("income", "SELECT CASE WHEN income > 9 AND old THEN 1 ELSE 2 END AS b, COUNT(*) FROM data GROUP BY b",
     "by AND only"),
    ("income", "SELECT COUNT(*) FROM data GROUP BY CASE WHEN income > 9 THEN 1 ELSE 2 END, "
     "CASE WHEN income > 5 THEN 1 ELSE 2 END", "one key of the secret"),
    ("blood", "SELECT COUNT(*) FROM data WHERE blood IN ('A', 'C')", "a category that the plan declares"),
    ("blood", "SELECT COUNT(*) FROM data WHERE blood IN ('A', 'B', '0', 'AB')", "the same for all"),
    ("blood", "SELECT COUNT(*) FROM data WHERE blood = 'A' AND blood = 'B'", "the same for all"),
    ("blood", "SELECT COUNT(*) FROM data WHERE blood IN ('A', region)", "categories in quotes"),
    # order and limit
    ("income", "SELECT region, AVG(income) FROM data GROUP BY region LIMIT 3", "ORDER BY before LIMIT"),
]  # fmt: skip


def feature_of(part: Partition, x: FloatArray) -> FloatArray:
    """The feature of every value, written once more."""
    match part.feature, part.parameter:
        case Feature.VALUE, _:
            found = x
        case Feature.POWER, float(power):
            found = x**power
        case Feature.CLIPPED, Band() as band:
            found = np.minimum(np.maximum(x, band.low), band.high)
        case Feature.THRESHOLD, float(level):
            found = np.where(x >= level if part.closed else x > level, 1.0, 0.0)
        case Feature.BAND, Band() as band:
            above = x >= band.low if band.low_closed else x > band.low
            below = x <= band.high if band.high_closed else x < band.high
            found = np.where(above & below, 1.0, 0.0)
        case other:
            raise AssertionError(other)
    return found if part.above else 1 - found
