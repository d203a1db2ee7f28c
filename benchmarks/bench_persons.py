"""Persons with several rows against the same table judged row by row, in one process on the same data.

A million rows of a hundred thousand persons and five GROUP BYs. Row by row, every row is a record of its own:
that is the audit without persons. ``--rows`` and ``--persons`` change the size.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np
import pyarrow

import sightline as sl
from benchmarks.history import machine_unit, measured

GROUPS = {"area": 60, "month": 12, "tariff": 8, "size": 20, "age": 50}


def timed(job: Callable[[], sl.AuditResult]) -> tuple[float, sl.AuditResult]:
    start = time.perf_counter()
    found = job()
    return time.perf_counter() - start, found


def written(source: Path, rows: int, persons: int) -> None:
    """Persons are in one area with one tariff; the rest differs from row to row."""
    own = {"area", "tariff"}
    columns = ", ".join(
        f"hash(100 * {'i % ' + str(persons) if name in own else 'i'} + {place}) % {size} AS {name}"
        for place, (name, size) in enumerate(GROUPS.items())
    )
    duckdb.execute(
        f"COPY (SELECT i AS line, i % {persons} AS person, {columns}, random() * 9000 AS watts "
        f"FROM range({rows}) r(i)) TO '{source}' (FORMAT parquet)"
    )


def plan(source: Path, record: str, most: int) -> dict[str, object]:
    return {
        "data": {
            "source": str(source),
            "record": record,
            "secret": "watts",
            "bounds": [0, 9000],
            "max_rows_per_record": most,
        },
        "limits": {"remaining_uncertainty": 0.5},
        "release": [
            {"name": name, "sql": f"SELECT {name}, AVG(watts) FROM data GROUP BY {name}", "noise_stddev": 5.0}
            for name in GROUPS
        ],
    }


def own_totals(folder: Path, customers: int) -> None:
    """Every customer's own total, with 1 to 1,898 rows each: a diagonal design. The rival is the GROUP BY."""
    source = folder / "customers.parquet"
    duckdb.execute(
        f"COPY (SELECT c AS customer, random() * 1000 AS revenue FROM range({customers}) r(c), "
        f"range(1, 2 + CAST(1897 * pow((c % 97) / 97.0, 8) AS INT)) s(i)) TO '{source}' (FORMAT parquet)"
    )
    query = "SELECT customer, SUM(revenue) FROM data GROUP BY customer"
    content = {
        "data": {
            "source": str(source),
            "record": "customer",
            "secret": "revenue",
            "bounds": [0, 1000],
            "max_rows_per_record": 1898,
        },
        "limits": {"remaining_uncertainty": 0.5},
        "release": [{"name": "own", "sql": query, "noise_stddev": 500.0}],
    }
    start = time.process_time()
    result = sl.audit(content)
    ours = time.process_time() - start
    start = time.process_time()
    duckdb.execute(query.replace("data", f"'{source}'")).fetchall()
    raw = time.process_time() - start
    print(
        f"every customer's own total, {customers:,} customers, {result.rows:,} rows: {ours:.1f} CPU s, "
        f"{ours / max(raw, 1e-3):.0f} × the GROUP BY (wanted: at most 3 s)"
    )
    measured(f"own totals of {customers:,} customers", ours / machine_unit(), rival="the machine's unit")


def categories(people: int, values: int, most: int, groups: int) -> None:
    """Persons with up to so many rows of a category, counted in groups: the verdict, and the whole audit."""
    draw = np.random.default_rng(4)
    rows = draw.integers(1, most + 1, people)
    owner = np.repeat(np.arange(people), rows)
    table = pyarrow.table(
        {
            "person": owner,
            "area": draw.integers(0, groups, owner.size),
            "kind": [f"k{value:02d}" for value in draw.integers(0, values, owner.size)],
        }
    )
    content = {
        "data": {
            "source": table,
            "record": "person",
            "secret": "kind",
            "categories": [f"k{value:02d}" for value in range(values)],
            "max_rows_per_record": most,
        },
        "privacy": {"epsilon": 4.0, "delta": 1e-6},
        "limits": {"remaining_uncertainty": 0.5, "accept": ["groups"]},
        "release": [{"name": "by area", "sql": "SELECT area, kind, COUNT(*) FROM data GROUP BY area, kind"}],
    }
    size = f"{people:,} people × {values} categories × up to {most} rows × {groups} groups"
    for name, whole in (("verdict", False), ("whole audit", True)):
        start = time.process_time()
        result = sl.audit(content, full=whole)
        status = result.verdict.status
        seconds = time.process_time() - start
        print(f"{size}, {name}: {status}, {seconds:.1f} CPU s")
        measured(f"{size}, {name}", seconds / machine_unit(), rival="the machine's unit")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--persons", type=int, default=100_000)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "rows.parquet"
        written(source, 1_000, 100)
        sl.audit(plan(source, "person", 10))  # imports and caches
        written(source, asked.rows, asked.persons)
        by_row, rows = timed(lambda: sl.audit(plan(source, "line", 1)))
        most = -(-asked.rows // asked.persons)
        by_person, persons = timed(lambda: sl.audit(plan(source, "person", most)))
        own_totals(Path(folder), 1_711)
    print(
        f"{asked.rows:,} rows of {asked.persons:,} persons: {rows.cells:,} cells, "
        f"{rows.signatures:,} signatures"
    )
    print(f"  row by row          {by_row:8.1f} s, least {rows.least_remaining_uncertainty}")
    print(f"  person by person    {by_person:8.1f} s, least {persons.least_remaining_uncertainty}")
    print(f"  ratio               {by_person / by_row:8.1f}   (wanted: at most 3)")
    measured(f"{asked.rows:,} rows of {asked.persons:,} persons", by_person / by_row, rival="row by row")
    if asked.rows == parser.get_default("rows"):
        categories(1_438, 40, 10, 22)


if __name__ == "__main__":
    main()
