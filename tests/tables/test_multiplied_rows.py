"""Joins that find several lines for a row: the weights that are read are what raw SQL adds up.

One secret at a time is raised in the table, and each release's own text is run again. Its sums must move by
the weight of that row times the change, in the cells that the row is said to be in, and in no other.
"""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
import pytest

from sightline.errors import InvalidPlan
from sightline.tables.collect import collect, count_table
from sightline.tables.engines.open import open_source
from sightline.tables.engines.protocol import Engine
from sightline.tables.other_secrets import check_other_secrets
from sightline.tables.records import members_of
from sightline.tables.sql.reader import ReleaseQuery, read_release
from sightline.tables.subject import Schema, SecretKind, Subject
from sightline.tables.verify import verify

TOWNS = ["n", "n", "n", "s", "s", "e", "w"]
ROWS = [(i, town, 20 + i % 3, 1.5 + i) for i, town in enumerate(TOWNS)]
VISITS = [
    ("n", "may", 2),
    ("n", "june", 3),
    ("n", "may", 5),
    ("s", "june", 7),
    ("e", None, 4),
    ("x", "may", 9),
]
ABOUT = Subject(record="id", secret="x", kind=SecretKind.NUMBER, bounds=(0.0, 100.0), most_rows=1)

READ = [
    "SELECT SUM(x), COUNT(*) FROM data JOIN visits v ON data.town = v.town",
    "SELECT data.town, SUM(x) FROM data JOIN visits USING (town) GROUP BY data.town HAVING COUNT(*) > 1",
    "SELECT v.month, SUM(x) FROM data JOIN visits v USING (town) GROUP BY v.month",
    "SELECT month, age, SUM(x) FROM visits, data WHERE data.town = visits.town GROUP BY 1, 2 ORDER BY 1",
    "SELECT SUM(x * v.pages) FROM data JOIN visits v ON data.town = v.town AND v.pages > 2",
    "SELECT SUM(x) FILTER (WHERE v.month = 'may'), COUNT(DISTINCT id) FROM data JOIN visits v USING (town)",
    "SELECT a.town, SUM(b.x), COUNT(*) FROM data a JOIN data b ON a.town = b.town GROUP BY a.town",
    "SELECT a.age, SUM(b.x) FROM data a JOIN data b ON a.town = b.town AND a.id <> b.id GROUP BY a.age",
    "SELECT SUM(b.x * a.age) FROM data a JOIN data b ON a.id < b.id",
    "SELECT data.town, SUM(x), COUNT(*), COUNT(v.month) FROM data LEFT JOIN visits v USING (town) GROUP BY 1",
    "SELECT age, SUM(x), COUNT(v.pages) FROM data JOIN visits v ON data.town = v.town GROUP BY age",
    "SELECT SUM(x * v.pages) FROM data LEFT JOIN visits v ON data.town = v.town AND v.month = 'may'",
]


def created(connection: duckdb.DuckDBPyConnection, rows: list[tuple[Any, ...]]) -> None:
    connection.execute("CREATE OR REPLACE TABLE data (id INTEGER, town VARCHAR, age INTEGER, x DOUBLE)")
    connection.executemany("INSERT INTO data VALUES (?, ?, ?, ?)", rows)
    connection.execute("CREATE OR REPLACE TABLE visits (town VARCHAR, month VARCHAR, pages INTEGER)")
    connection.executemany("INSERT INTO visits VALUES (?, ?, ?)", VISITS)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("multiplied")
    with duckdb.connect(str(folder / "t.duckdb")) as connection:
        created(connection, ROWS)
    opened = open_source("t.duckdb::data", base=folder, tables={"visits": "t.duckdb::visits"})
    yield opened
    opened.close()


def read(engine: Engine, sql: str) -> ReleaseQuery:
    return read_release(sql, name="one", subject=ABOUT, schema=Schema.of(engine, ["visits"]))


def moved(sql: str, record: int) -> list[float]:
    """The numbers of an answer that a secret of one more changes, as raw SQL, by how much."""
    higher = [(*row[:3], row[3] + (row[0] == record)) for row in ROWS]
    answers = []
    with duckdb.connect() as connection:
        for rows in (ROWS, higher):
            created(connection, rows)
            answers.append(sorted(connection.execute(sql).fetchall(), key=repr_of_keys))
    pairs = [pair for lines in zip(*answers, strict=True) for pair in zip(*lines, strict=True)]
    changes = [b - a for a, b in pairs if isinstance(a, float) and a != b]
    return sorted(np.round(changes, 9))


def repr_of_keys(line: tuple[Any, ...]) -> str:
    return repr([value for value in line if not isinstance(value, float)])


@pytest.mark.slow
@pytest.mark.parametrize("sql", READ)
def test_the_weight_of_a_row_is_what_raw_sql_adds_up(engine: Engine, sql: str) -> None:
    query = read(engine, sql)
    membership = collect(engine, [query], ABOUT)
    verify(engine, [query], membership)
    check_other_secrets(engine, [query], membership, ABOUT)
    counted = count_table(engine, [query], ABOUT)
    records = members_of(engine, counted, signature_ids=range(len(membership.signatures)))
    for signature, own in records.items():
        weights = [
            float(membership.weights_in(place)[signature])
            for place in range(len(membership.partitions))
            if membership.signatures[signature, place] >= 0
        ]
        for record in own:
            assert moved(sql, int(record)) == sorted(np.round([w for w in weights if w], 9)), record


def test_a_mean_divides_by_the_lines(engine: Engine) -> None:
    """A secret moves AVG over a join by its weight over all lines of the group, as raw SQL says."""
    sql = "SELECT v.month, AVG(x) FROM data JOIN visits v USING (town) GROUP BY v.month"
    query = read(engine, sql)
    membership = collect(engine, [query], ABOUT)
    verify(engine, [query], membership)
    counted = count_table(engine, [query], ABOUT)
    for signature, own in members_of(
        engine, counted, signature_ids=range(len(membership.signatures))
    ).items():
        expected = [
            float(membership.weights_in(place)[signature] / membership.weight_sums[place])
            for place in range(len(membership.partitions))  # of one cell each
            if membership.signatures[signature, place] >= 0
        ]
        for record in own:
            assert moved(sql, int(record)) == pytest.approx(sorted(expected)), record


REFUSED = {
    "SELECT v.month, COUNT(*) FROM data JOIN visits v USING (town) WHERE x > 3 GROUP BY v.month": "WHERE",
    "SELECT a.town, SUM(a.x + b.x) FROM data a JOIN data b ON a.town = b.town GROUP BY a.town": "a declared",
    "SELECT SUM(b.age) FROM data a JOIN data b ON a.x = b.age": "a declared public table",
    "SELECT SUM(b.x) FROM data a JOIN data b ON a.age < b.x": "a declared public table",
    "SELECT SUM(x + v.pages) FROM data JOIN visits v USING (town)": "products of numbers of the row",
    "SELECT STDDEV(x) FROM data JOIN visits v USING (town)": "COUNT, SUM, AVG, MIN or MAX",
    "SELECT SUM(x) FROM data JOIN visits v ON data.town = v.twn": "a column of v",
    "SELECT SUM(x) FILTER (WHERE v.pages > 2) FROM data LEFT JOIN visits v USING (town)": "in ON, of a LEFT",
    "SELECT SUM(x) FROM data LEFT JOIN visits v USING (town) WHERE v.month IS NULL": "at most one row",
    "SELECT v.month, SUM(x) FROM data LEFT JOIN visits v USING (town) GROUP BY v.month": "at most one row",
}


@pytest.mark.parametrize("sql", REFUSED)
def test_what_is_no_weight_of_a_row_is_refused(engine: Engine, sql: str) -> None:
    with pytest.raises(InvalidPlan, match=REFUSED[sql]):
        collect(engine, [read(engine, sql)], ABOUT)
