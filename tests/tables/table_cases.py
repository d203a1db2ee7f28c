"""One awkward table, the releases asked of it, and what each of them publishes, again in plain Python."""

from __future__ import annotations

import datetime
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import sqlglot

from sightline.tables.engines.protocol import Engine
from sightline.tables.membership import Membership
from sightline.tables.sql.reader import ReleaseQuery, read_release
from sightline.tables.subject import Schema, SecretKind, Subject

Row = dict[str, Any]
COLUMNS = {
    "home": "VARCHAR",
    "Straße": "VARCHAR",
    'a "quoted" name': "VARCHAR",
    "region": "INTEGER",
    "age": "INTEGER",
    "solar": "BOOLEAN",
    "since": "DATE",
    "ratio": "DOUBLE",
    "load": "DOUBLE",
    "ill": "BOOLEAN",
    "blood": "VARCHAR",
}
_STREETS = ["Żółta", "zebra", "Äpfel", "apple", "Zoo", None, "o'clock", "back\\slash", "日本", ""]
_LOADS = [100.0, 250.5, math.nan, None, math.inf, -5.0, 9500.0, 0.0, 42.0, 7.25, -math.inf]


def awkward_rows() -> list[Row]:
    """60 rows of 40 homes: NULL, NaN and infinite secrets, NULL keys, text in many scripts."""
    return [
        {
            "home": None if i % 23 == 7 else f"h{i % 40}",
            "Straße": _STREETS[i % 10],
            'a "quoted" name': ["x", "y", None][i % 3],
            "region": None if i % 11 == 3 else i % 4,
            "age": (i * 7) % 90,
            "solar": None if i % 13 == 1 else i % 2 == 0,
            "since": datetime.date(2016, 1 + i % 12, 1 + i % 28),
            "ratio": [0.0, -0.0, math.nan, None, math.inf, 0.25, -math.inf, 1e300][i % 8],
            "load": _LOADS[i % 11],
            "ill": None if i % 17 == 2 else i % 5 == 0,
            "blood": None if i % 19 == 4 else ["A", "B", "0", "AB"][i % 4],
        }
        for i in range(60)
    ]


AREAS: list[Row] = [
    {"region": 0, "area": "north"},
    {"region": 1, "area": "south"},
    {"region": 2, "area": None},
]


def write_parquet(folder: Path) -> None:
    connection = duckdb.connect()
    for name, columns, rows in (
        ("homes", COLUMNS, awkward_rows()),
        ("areas", {"region": "INTEGER", "area": "VARCHAR"}, AREAS),
    ):
        listed = ", ".join(
            f'"{column.replace(chr(34), chr(34) * 2)}" {kind}' for column, kind in columns.items()
        )
        connection.execute(f"CREATE TABLE {name} ({listed})")
        marks = ", ".join("?" for _ in columns)
        connection.executemany(
            f"INSERT INTO {name} VALUES ({marks})", [[row[one] for one in columns] for row in rows]
        )
        connection.execute(f"COPY {name} TO '{folder / name}.parquet' (FORMAT parquet)")
    connection.close()


@dataclass(frozen=True)
class Published:
    """One partition in plain Python: which rows it takes, and the key of the cell that a row falls into."""

    key: Callable[[Row], tuple[Any, ...]] = lambda row: ()
    where: Callable[[Row], bool] = lambda row: True


def _area(row: Row) -> Any:
    return next((one["area"] for one in AREAS if one["region"] == row["region"]), None)


def _by(*names: str) -> Callable[[Row], tuple[Any, ...]]:
    return lambda row: tuple(row[name] for name in names)


NUMBER_RELEASES: dict[str, list[Published]] = {
    'SELECT "Straße", AVG(load) FROM data GROUP BY "Straße"': [Published(_by("Straße"))],
    'SELECT "a ""quoted"" name" AS q, SUM(load), COUNT(*) FROM data GROUP BY q': [
        Published(_by('a "quoted" name'))
    ],
    "SELECT AVG(load) FROM data WHERE home <> 'h7'": [Published(where=lambda row: row["home"] != "h7")],
    "SELECT region, solar, AVG(load) FROM data GROUP BY ROLLUP (region, solar)": [
        Published(_by("region", "solar")),
        Published(_by("region")),
        Published(),
    ],
    "SELECT CASE WHEN age < 18 THEN 'child' WHEN age < 65 THEN 'adult' ELSE 'old' END AS band, SUM(load) "
    "FROM data WHERE NOT solar GROUP BY 1": [
        Published(
            lambda row: ("child" if row["age"] < 18 else "adult" if row["age"] < 65 else "old",),
            lambda row: row["solar"] is False,
        )
    ],
    "SELECT FLOOR(age / 10.0), AVG(load) FROM data GROUP BY ALL": [
        Published(lambda row: (row["age"] // 10,))
    ],
    "SELECT EXTRACT(YEAR FROM since), EXTRACT(QUARTER FROM since), AVG(load) "
    "FROM data GROUP BY 1, 2 ORDER BY 1": [
        Published(lambda row: (row["since"].year, (row["since"].month + 2) // 3))
    ],
    "SELECT DATE_TRUNC('month', since), AVG(load) FROM data GROUP BY 1": [
        Published(lambda row: (row["since"].replace(day=1),))
    ],
    "SELECT area, AVG(load) FROM data JOIN areas USING (region) GROUP BY area": [
        Published(lambda row: (_area(row),), lambda row: row["region"] in (0, 1, 2))
    ],
    "SELECT a.area, SUM(load) FROM data d LEFT JOIN areas a ON d.region = a.region "
    "WHERE d.age >= 18 GROUP BY a.area": [Published(lambda row: (_area(row),), lambda row: row["age"] >= 18)],
    "SELECT SUM(load) FILTER (WHERE solar), "
    "AVG(load) FILTER (WHERE \"Straße\" LIKE 'Z%' OR region IS NULL) FROM data": [
        Published(where=lambda row: row["solar"] is True),
        Published(where=lambda row: (row["Straße"] or "").startswith("Z") or row["region"] is None),
    ],
    """SELECT AVG(load) FROM data WHERE "Straße" IN ('o''clock', 'back\\slash', '日本')""": [
        Published(where=lambda row: row["Straße"] in ("o'clock", "back\\slash", "日本"))
    ],
    "SELECT ratio, AVG(load) FROM data GROUP BY ratio": [Published(_by("ratio"))],
    "SELECT SUM(load) FROM data WHERE ratio > 1": [
        Published(
            where=lambda row: row["ratio"] is not None and not row["ratio"] <= 1
        )  # NaN is above every number
    ],
    "SELECT AVG(load) FROM data WHERE age > 1000": [Published(where=lambda row: False)],
    "SELECT home, AVG(load) FROM data GROUP BY home": [Published(_by("home"))],
}


SUBJECT = Subject(record="home", secret="load", kind=SecretKind.NUMBER)


def in_dialect(sql: str, dialect: str) -> str:
    """A query of DuckDB's as somebody would write it for another engine."""
    return sqlglot.transpile(
        sql,
        read="duckdb",
        write=dialect,
    )[0]


def read_all(engine: Engine) -> list[ReleaseQuery]:
    schema = Schema.of(engine, ["areas"])
    return [
        read_release(in_dialect(sql, engine.dialect), name=f"r{position}", subject=SUBJECT, schema=schema)
        for position, sql in enumerate(NUMBER_RELEASES)
    ]


def text_of(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))  # 0.0 and -0.0 are one group
    return str(value).lower() if isinstance(value, bool) else str(value)


def expected_cells() -> list[list[tuple[str, ...] | None]]:
    """For every row with a load and a home: the key of its cell in each partition."""
    published = [one for partitions in NUMBER_RELEASES.values() for one in partitions]
    rows = [row for row in awkward_rows() if _finite(row["load"]) and row["home"] is not None]
    return [
        [tuple(map(text_of, one.key(row))) if one.where(row) else None for one in published] for row in rows
    ]


def cells_of(membership: Membership) -> Counter[tuple[tuple[str, ...] | None, ...]]:
    """The signatures with their cells' keys in place of numbers, and how many rows have each."""
    keys = [
        [cell.key for cell in membership.cells if cell.partition == p]
        for p in range(len(membership.partitions))
    ]
    return Counter(
        {
            tuple(None if cell < 0 else keys[p][cell] for p, cell in enumerate(row)): count
            for row, count in zip(membership.signatures.tolist(), membership.counts.tolist(), strict=True)
        }
    )


def _finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)
