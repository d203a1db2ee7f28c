"""Queries as publishers write them: read as what decides their answers, or refused with the reason.

A query that is read says for every row in which cells it is. Its own text is then run on other secrets. Where
rows with the same cells exchange secrets, no sum of a cell changes: then the answer must not change either.
Nor may it where rows without a cell have other secrets. Where all have others, it must, unless it is public.
"""

from __future__ import annotations

import random
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import duckdb
import pytest

from sightline.errors import InvalidPlan
from sightline.tables.collect import collect, count_table
from sightline.tables.engines.open import open_source
from sightline.tables.records import members_of
from sightline.tables.sql.reader import read_release
from sightline.tables.subject import Schema, SecretKind, Subject
from sightline.tables.verify import verify

QUERIES = tomllib.loads((Path(__file__).parent / "natural_queries.toml").read_text(encoding="utf-8"))["query"]
NAMES = {"schools": "school, district", "feeders": "feeder, region"}
LISTED = {
    "schools": [("x", "d1"), ("y", "d1"), ("z", "d2")],
    "feeders": [("A", "r1"), ("A", "r2"), ("B", "r2")],
}


@dataclass(frozen=True, kw_only=True)
class Table:
    """A publisher's table: its columns, what is asked about, and random rows; the secret is last."""

    columns: str
    subject: Subject

    @property
    def secret(self) -> int:
        return self.columns.count(",")

    def rows(self, seed: int) -> list[list[Any]]:
        draw = random.Random(seed)
        return [[i, *self._row(i, draw)] for i in range(120)]

    def _row(self, i: int, draw: random.Random) -> list[Any]:
        age, sex, day = draw.randint(20, 69), draw.choice("fm"), f"2024-{draw.randint(1, 12):02}-05"
        match self.subject.secret:
            case "pay":
                place = [draw.choice(["it", "hr"]), age, draw.choice([0.5, 1.0]), 2000 + i % 9, i % 3]
                return [sex, *place, draw.randint(80_000, 480_000) / 4]
            case "ill":
                return ["ns"[i % 2], i % 3, age, sex, day, "2025-02-01", i % 3 == 0, draw.random() < 0.4]
            case "diagnosis":
                return ["ns"[i % 2], age, sex, draw.choice(["C50", "C61", "E11", "I10", "J45"])]
            case "kwh":
                home = f"H{i % 12}"
                day = f"2024-01-0{1 + i // 24}"
                return [home, "AB"[i % 2], ["flat", "tou"][i % 3 == 0], i // 12 % 2 * 12, day,
                        draw.randint(0, 36) / 4]  # fmt: skip
            case "score":
                return ["xyz"[i % 3], 2022 + i % 2, i % 5 < 3, draw.uniform(0, 10), draw.randint(0, 100)]
        return [["k1", "k2"][i % 2], age, draw.choice("wba"), draw.choice("yn"), draw.randint(1, 3)]


def _about(record: str, secret: str, kind: SecretKind, **more: Any) -> Subject:
    return Subject(record=record, secret=secret, kind=kind, most_rows=1, **more)


NUMBER, CATEGORY = SecretKind.NUMBER, SecretKind.CATEGORY
TABLES = {
    "staff": Table(
        columns="id INTEGER, sex VARCHAR, dept VARCHAR, age INTEGER, fte DOUBLE, since INTEGER, "
        "grade INTEGER, pay DOUBLE",
        subject=_about("id", "pay", NUMBER, bounds=(0, 200_000)),
    ),
    "clinic": Table(
        columns="patient INTEGER, hospital VARCHAR, ward INTEGER, age INTEGER, sex VARCHAR, admitted DATE, "
        "discharged DATE, treated BOOLEAN, ill BOOLEAN",
        subject=_about("patient", "ill", SecretKind.BOOLEAN),
    ),
    "diag": Table(
        columns="patient INTEGER, hospital VARCHAR, age INTEGER, sex VARCHAR, diagnosis VARCHAR",
        subject=_about("patient", "diagnosis", CATEGORY, categories=("C50", "C61", "E11", "I10", "J45")),
    ),
    "readings": Table(
        columns="reading INTEGER, home VARCHAR, feeder VARCHAR, tariff VARCHAR, hour INTEGER, "
        "day DATE, kwh DOUBLE",
        subject=replace(_about("home", "kwh", NUMBER, bounds=(0, 10)), most_rows=10),
    ),
    "scores": Table(
        columns="pupil INTEGER, school VARCHAR, year INTEGER, treated BOOLEAN, hours DOUBLE, score INTEGER",
        subject=_about("pupil", "score", NUMBER, bounds=(0, 100)),
    ),
    "race": Table(
        columns="person INTEGER, county VARCHAR, age INTEGER, race VARCHAR, hispanic VARCHAR, code INTEGER",
        subject=_about("person", "code", CATEGORY, categories=("1", "2", "3")),
    ),
}  # fmt: skip


def _write(connection: duckdb.DuckDBPyConnection, name: str, columns: str, rows: list[Any]) -> None:
    connection.execute(f"CREATE OR REPLACE TABLE {name} ({columns})")
    connection.execute(f"INSERT INTO {name} VALUES {', '.join(str(tuple(row)) for row in rows)}")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("natural")
    with duckdb.connect(str(made / "t.duckdb")) as connection:
        for name, table in TABLES.items():
            _write(connection, name, table.columns, table.rows(1))
        for name, names in NAMES.items():
            _write(connection, name, names.replace(",", " VARCHAR,") + " VARCHAR", LISTED[name])
    return made


REFUSED = [
    pytest.param(one["table"], one["sql"], one["refused"], id=one["sql"][:90])
    for one in QUERIES
    if "refused" in one
]


def opened(folder: Path, table: str) -> Any:
    return open_source(f"t.duckdb::{table}", base=folder, tables={one: f"t.duckdb::{one}" for one in NAMES})


def _lines(connection: duckdb.DuckDBPyConnection, sql: str) -> list[str]:
    lines = connection.execute(sql).fetchall()
    plain = [tuple(f"{v:.7g}" if isinstance(v, float) else str(v) for v in line) for line in lines]
    return sorted(map(repr, plain))


@pytest.mark.slow
@pytest.mark.parametrize("table", TABLES)
def test_the_cells_decide_the_answer(folder: Path, table: str) -> None:
    about = TABLES[table]
    engine = opened(folder, table)
    schema = Schema.of(engine, list(NAMES))
    texts = [one["sql"] for one in QUERIES if one["table"] == table and "refused" not in one]
    subject = replace(
        about.subject, record=about.columns.split()[0]
    )  # a row is a record: its cells are asked
    with duckdb.connect() as connection:
        for name, names in NAMES.items():
            _write(connection, name, names.replace(",", " VARCHAR,") + " VARCHAR", LISTED[name])

        def answer(rows: list[list[Any]], sql: str) -> list[str]:
            _write(connection, "data", about.columns, rows)
            return _lines(connection, sql)

        for sql in texts:
            read = read_release(sql, name="one", subject=about.subject, schema=schema)
            membership = collect(engine, [read], about.subject)
            verify(engine, [read], membership)
            signatures = collect(engine, [read], subject).signatures
            counted = count_table(engine, [read], subject)
            cells = members_of(engine, counted, signature_ids=range(len(signatures)))
            draw = random.Random(sql)
            rows = about.rows(1)
            before = answer(rows, sql)
            others = [[*row[:-1], other[-1]] for row, other in zip(rows, about.rows(2), strict=True)]
            exchanged = [list(row) for row in rows]
            for signature, records in cells.items():
                places = [int(one) for one in records]
                if (signatures[signature] < 0).all():
                    for place in places:
                        exchanged[place][-1] = others[place][-1]
                    continue
                for place, other in zip(places, draw.sample(places, len(places)), strict=True):
                    exchanged[place][-1] = rows[other][-1]
            assert sorted(map(repr, answer(exchanged, sql))) == sorted(map(repr, before)), sql
            draws = ([[*a[:-1], b[-1]] for a, b in zip(rows, about.rows(k), strict=True)] for k in (2, 3, 4))
            changes = any(answer(drawn, sql) != before for drawn in draws)
            assert changes == bool(read.partitions), sql
    engine.close()


@pytest.mark.parametrize(("table", "sql", "reason"), REFUSED)
def test_what_no_cells_decide_is_refused(folder: Path, table: str, sql: str, reason: str) -> None:
    engine = opened(folder, table)
    subject = TABLES[table].subject

    def checked() -> None:
        read = read_release(sql, name="one", subject=subject, schema=Schema.of(engine, list(NAMES)))
        engine.compile_own(read.sql)
        verify(engine, [read], collect(engine, [read], subject))

    with pytest.raises(InvalidPlan) as refused:
        checked()
    engine.close()
    assert reason in str(refused.value)
    assert "\n" not in str(refused.value).strip()
