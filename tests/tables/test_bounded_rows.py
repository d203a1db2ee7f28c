"""Bounded contributions, suppressed groups and drawn records: every engine does what plain Python does."""

from __future__ import annotations

import hashlib
import math
from collections import Counter, defaultdict
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import pytest

from sightline.errors import InvalidPlan
from sightline.tables.bounded_rows import check_kept_rows, keep_rows, total_rows
from sightline.tables.collect import collect
from sightline.tables.engines.open import open_source
from sightline.tables.engines.protocol import Engine
from sightline.tables.sql.reader import ReleaseQuery, read_release
from sightline.tables.subject import Schema, SecretKind, Subject
from sightline.tables.suppressed import suppressed_cells
from tests.tables.table_cases import awkward_rows

SUBJECT = Subject(record="home", secret="load", kind=SecretKind.NUMBER, bounds=(0.0, 300.0))


def release(engine: Engine, sql: str) -> ReleaseQuery:
    schema = Schema.of(engine, ["areas"])
    return read_release(sql, name="r", subject=SUBJECT, schema=schema)


def python_kept(rows: int) -> list[dict[str, Any]]:
    """The first rows of every home by age, NULL last; all rows of nobody."""
    homes: dict[str | None, list[dict[str, Any]]] = defaultdict(list)
    for row in awkward_rows():
        homes[row["home"]].append(row)
    return [
        row
        for home, mine in homes.items()
        for row in sorted(mine, key=lambda one: -one["age"])[: rows if home is not None else None]
    ]


def fetched(engine: Engine, *columns: str) -> Counter[tuple[object, ...]]:
    listed = ", ".join(f'"{column}"' for column in columns)
    answer = engine.fetch(f'SELECT {listed} FROM "data"')
    return Counter(zip(*(answer[column].tolist() for column in columns), strict=True))


def test_the_first_rows_of_each_record_are_kept(engine: Engine) -> None:
    before = engine.columns()
    keep_rows(engine, SUBJECT, rows=1, order=["age DESC", "since"])
    assert engine.columns() == before
    expected = Counter((row["home"], row["age"], row["region"]) for row in python_kept(1))
    assert fetched(engine, "home", "age", "region") == expected
    check_kept_rows(engine, SUBJECT, rows=1)
    query = release(engine, "SELECT solar, SUM(load) FROM data GROUP BY solar")
    membership = collect(engine, [query], replace(SUBJECT, most_rows=1))
    assert membership.contributions == 1
    # The release's own SQL reads the bounded rows, too.
    own = engine.fetch_own("SELECT COUNT(*) AS n FROM data")["n"].tolist()
    assert own == [len(python_kept(1))]
    engine.check_unchanged()


def test_rows_that_the_order_does_not_tell_apart_are_refused(engine: Engine) -> None:
    keep_rows(engine, SUBJECT, rows=1, order=["solar"])  # rows i and i + 40 of a home are both even or odd
    with pytest.raises(
        InvalidPlan, match=r"an order that tells a record's rows apart, got a record .* keep 2"
    ):
        check_kept_rows(engine, SUBJECT, rows=1)


def test_totals_are_those_of_the_rows_clipped(engine: Engine) -> None:
    total_rows(engine, SUBJECT, by=["solar"])
    sums: dict[tuple[object, object], list[float]] = defaultdict(list)
    for row in awkward_rows():
        sums[row["home"], row["solar"]] += [] if row["load"] is None else [row["load"]]
    expected = {
        key: None if not loads else min(max(sum(loads), 0.0), 300.0)
        for key, loads in sums.items()
        if not any(map(math.isnan, loads))
    }
    assert [column.name for column in engine.columns()] == ["home", "solar", "load"]
    answer = engine.fetch('SELECT home, solar, load FROM "data"')
    found = {
        (home, solar): load
        for home, solar, load in zip(*(answer[c].tolist() for c in ("home", "solar", "load")), strict=True)
    }
    assert {key: found[key] for key in expected} == expected
    assert len(found) == len(sums)


@pytest.mark.parametrize(
    "change",
    [lambda e: keep_rows(e, SUBJECT, rows=1, order=["LOAD"]), lambda e: total_rows(e, SUBJECT, by=["load"])],
)
def test_the_secret_orders_nothing_and_groups_nothing(change: Any, duckdb_engine: Engine) -> None:
    with pytest.raises(InvalidPlan, match='public columns, got the secret "load"'):
        change(duckdb_engine)


def test_only_numbers_have_totals(duckdb_engine: Engine) -> None:
    with pytest.raises(InvalidPlan, match="total_by for a secret that is a number"):
        total_rows(duckdb_engine, replace(SUBJECT, kind=SecretKind.BOOLEAN, secret="ill", bounds=None), by=[])


@pytest.mark.parametrize(
    ("sql", "condition", "keep"),
    [
        ("SELECT region, SUM(load) FROM data GROUP BY region", "COUNT(*) < 14", lambda rows: len(rows) >= 14),
        (
            "SELECT region, AVG(load) FROM data WHERE age > 20 GROUP BY region",
            "COUNT(DISTINCT home) < 6 OR MAX(age) > 85",
            lambda rows: len({r["home"] for r in rows} - {None}) >= 6 and max(r["age"] for r in rows) <= 85,
        ),
    ],
)
def test_suppressed_groups_are_those_of_all_rows(engine: Engine, sql: str, condition: str, keep: Any) -> None:
    """Also rows without a secret count: COUNT(*) is that of the publisher's own SQL."""
    query = release(engine, sql)
    membership = collect(engine, [query], SUBJECT)
    places = suppressed_cells(engine, [query], SUBJECT, membership, release=0, condition=condition)
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in awkward_rows():
        if "WHERE" not in sql or row["age"] > 20:
            groups["NULL" if row["region"] is None else str(row["region"])].append(row)
    expected = {(key,) for key, rows in groups.items() if not keep(rows) and key != "NULL"}  # no secret there
    assert 0 < len(expected) < len(membership.cells)
    assert {membership.cells[place].key for place in places} == expected


def test_a_drawn_share_is_drawn_by_the_hash_of_the_key(engine: Engine) -> None:
    query = release(engine, "SELECT SUM(load) FROM data")
    found = collect(engine, [query], replace(SUBJECT, known_share=0.3, known=("age > 80",)))
    kept = [
        row
        for row in awkward_rows()
        if row["home"] is not None and row["load"] is not None and math.isfinite(row["load"])
    ]
    drawn = [
        row
        for row in kept
        if int(hashlib.md5(row["home"].encode()).hexdigest()[:8], 16) < 0.3 * 16**8 or row["age"] > 80
    ]
    assert 0 < len(drawn) < len(kept)
    assert int(found.known.sum()) == len(drawn)


@pytest.mark.parametrize(("within", "few"), [(20.0, 9), (2.0, 1), (400.0, None)])
def test_values_within_an_interval_are_few_by_their_least_gap(
    engine: Engine, within: float, few: int | None
) -> None:
    """Two loads are at least 5 apart: an interval of 40 has room for 9, one of 4 for 1, and 800 for 161."""
    loads = sorted(
        {row["load"] for row in awkward_rows() if row["load"] is not None and abs(row["load"]) < 1e9}
    )
    assert min(high - low for low, high in pairwise(loads)) == 5
    query = release(engine, "SELECT SUM(load) FROM data")
    assert collect(engine, [query], replace(SUBJECT, known_within=within)).few_values == few


@pytest.mark.parametrize("source", ["rows.csv", "rows.parquet", "rows.duckdb::t", "rows.duckdb::data"])
def test_every_kind_of_file_is_bounded(tmp_path: Path, source: str) -> None:
    """Also a view of a DuckDB file, and one that is called data there."""
    connection = duckdb.connect(str(tmp_path / "rows.duckdb"))
    connection.execute(
        "CREATE TABLE t AS SELECT i // 3 AS home, i AS day, i * 1.5 AS load FROM range(9) AS r (i)"
    )
    connection.execute("CREATE VIEW data AS SELECT * FROM t")
    connection.execute(f"COPY t TO '{tmp_path}/rows.parquet' (FORMAT parquet)")
    connection.execute(f"COPY t TO '{tmp_path}/rows.csv' (FORMAT csv)")
    connection.close()
    engine = open_source(source, base=tmp_path)
    keep_rows(engine, SUBJECT, rows=2, order=["day DESC"])
    assert sorted(engine.fetch("SELECT day FROM data")["day"].tolist()) == [1, 2, 4, 5, 7, 8]
    engine.check_unchanged()
    engine.close()
