"""The quick check confirms a release only if the check of every group finds nothing in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from sightline.errors import InvalidPlan
from sightline.tables.collect import collect
from sightline.tables.engines.open import open_source
from sightline.tables.engines.protocol import Engine
from sightline.tables.membership import UnauditedRows
from sightline.tables.sql.reader import ReleaseQuery, read_release
from sightline.tables.subject import Schema, SecretKind, Subject
from sightline.tables.verify import quickly_verified, verify
from tests.tables.quick_cases import changed_texts, sizes_of, without_quick

ABOUT = Subject(record="who", secret="watts", kind=SecretKind.NUMBER, bounds=(0, 10))
SQL = [
    "SELECT AVG(watts) FROM data",
    "SELECT SUM(watts) FROM data WHERE n0 > 1",
    "SELECT c0, AVG(watts), SUM(watts) FROM data GROUP BY c0",
    "SELECT kind, n0, SUM(watts) FROM data WHERE c0 = 'a' OR n0 < 2 GROUP BY kind, n0",
    "SELECT kind, SUM(watts) FILTER (WHERE n0 > 0), AVG(watts) FROM data GROUP BY kind",
    "SELECT CASE WHEN n0 > 1 THEN 'x' ELSE c0 END AS k, SUM(watts) FROM data GROUP BY k",
    "SELECT kind, AVG(COALESCE(watts, 0)) FROM data GROUP BY kind",
    "SELECT SUM(watts * n0) FROM data WHERE kind = 'p'",
    "SELECT AVG(POWER(watts, 2)) FROM data WHERE kind = 'p'",
    "SELECT COUNT(*) FROM data WHERE watts > 4 AND n0 > 0",
    "SELECT SUM(LEAST(GREATEST(watts, 0), 10)) FROM data WHERE c0 = 'a'",
    "SELECT n0, AVG(watts) FROM (SELECT * FROM data WHERE kind = 'p') AS t GROUP BY n0",
    "SELECT label, AVG(watts) FROM data JOIN names ON data.n0 = names.code GROUP BY label",
    "SELECT kind, SUM(watts) FROM data GROUP BY ROLLUP (kind)",
    "SELECT kind, SUM(watts) FROM data GROUP BY kind HAVING COUNT(*) > 2",
    "SELECT kind, SUM(watts) FROM data WHERE n0 < 0 GROUP BY kind",
]
CLEAN = [(f"p{i}", "pq"[i % 2], "ab"[i % 3 > 0], i % 4, float(i % 11)) for i in range(24)]
ODD = {
    "clean": [],
    "no secret": [("p90", "p", "a", 1, None)],
    "no key": [(None, "q", "b", 2, 3.0)],
    "no number": [("p91", "p", "b", 0, float("nan"))],
    "outside": [("p92", "q", "a", 3, 11.0)],
    "no group": [("p93", None, None, None, 5.0)],
}


@pytest.fixture(params=ODD, ids=str)
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    """A table with columns that are called as those of our queries, with one odd row or none."""
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE t (who VARCHAR, kind VARCHAR, c0 VARCHAR, n0 INTEGER, watts DOUBLE)")
        connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?)", CLEAN + ODD[request.param])
        connection.execute(f"COPY t TO '{tmp_path / 't.parquet'}' (FORMAT parquet)")
        connection.execute(
            f"COPY (SELECT i AS code, 'n' || i // 2 AS label FROM range(4) r(i)) "
            f"TO '{tmp_path / 'names.parquet'}' (FORMAT parquet)"
        )
    opened = open_source("t.parquet", base=tmp_path, tables={"names": "names.parquet"})
    yield opened
    opened.close()


def outcome(engine: Engine, queries: list[ReleaseQuery], *, quick: bool) -> tuple[UnauditedRows, ...] | str:
    membership = collect(engine, queries, ABOUT)
    if not quick:
        queries = without_quick(queries)
    try:
        return verify(engine, queries, membership)
    except InvalidPlan as error:
        return str(error)


@pytest.mark.sampled(1)
def test_it_never_changes_what_verification_finds(engine: Engine) -> None:
    schema = Schema.of(engine, ["names"])
    queries = [read_release(sql, name=f"r{i}", subject=ABOUT, schema=schema) for i, sql in enumerate(SQL)]
    found = outcome(engine, queries, quick=True)
    assert found == outcome(engine, queries, quick=False)
    assert not isinstance(found, str)
    for query, rows in zip(queries, found, strict=True):  # one by one, too
        assert outcome(engine, [query], quick=True) == (rows,)


@pytest.mark.thorough
@pytest.mark.sampled(1)
def test_it_confirms_what_has_nothing_wrong(engine: Engine) -> None:
    """Plain releases of clean tables need no check of every group."""
    schema = Schema.of(engine, ["names"])
    for sql in SQL:
        query = read_release(sql, name="r", subject=ABOUT, schema=schema)
        (check,) = query.checks
        assert check is not None
        plain = not any(word in sql for word in ("ROLLUP", "HAVING"))
        assert (check.quick is not None) == plain
        membership = collect(engine, [query], ABOUT)
        if check.quick is None:
            continue
        cells: dict[tuple[int, int], Counter[int]] = {(0, place): Counter() for place in check.aggregates}
        for cell in membership.cells:
            cells[0, query.partitions[cell.partition].aggregate][cell.rows] += 1
        least_rows = membership.contributions + 1 if membership.dropped else 0
        confirmed = quickly_verified(engine, {0: check.quick}, {0: cells}, least_rows=least_rows)
        clean = verify(engine, [query], membership) == (UnauditedRows(),)
        assert confirmed == ({0} if clean else set())


TEXTS = [  # of the query below: each is changed alone
    ("(n0 > 1)", "(n0 > 0)"),
    ('(data."n0" > 1)', '(data."n0" > 2)'),
    ("(kind)", "(c0)"),
    ('(data."kind")', '(data."c0")'),
    ("CAST((watts) AS DOUBLE)", "(CAST((watts) AS DOUBLE) + 1)"),
    ("FROM data", "FROM (SELECT * FROM data UNION ALL SELECT * FROM data) AS data"),
    ("<= 1.7976931348623157e308", "<= 3"),
    ('(data."who")', "NULLIF(data.\"who\", 'p6')"),
]


@pytest.mark.parametrize("engine", ["clean"], indirect=True)
@pytest.mark.parametrize(("before", "after"), TEXTS, ids=[text for text, _ in TEXTS])
def test_a_difference_is_not_confirmed(engine: Engine, before: str, after: str) -> None:
    sql = "SELECT kind, AVG(watts) FROM data WHERE n0 > 1 GROUP BY kind"
    query = read_release(sql, name="r", subject=ABOUT, schema=Schema.of(engine))
    (check,) = query.checks
    assert check is not None
    assert check.quick is not None
    sizes = {0: sizes_of(collect(engine, [query], ABOUT))}
    assert quickly_verified(engine, {0: check.quick}, sizes, least_rows=0) == {0}
    assert (
        quickly_verified(engine, {0: changed_texts(check.quick, before, after)}, sizes, least_rows=0) == set()
    )


@pytest.mark.parametrize("engine", ["clean"], indirect=True)
def test_groups_that_the_engine_makes_of_two_cells_are_not_confirmed(engine: Engine) -> None:
    """The engine's key is coarser than the audit's: as many pairs of keys as cells, and fewer groups."""
    query = read_release(
        "SELECT n0, SUM(watts) FROM data GROUP BY n0", name="r", subject=ABOUT, schema=Schema.of(engine)
    )
    (check,) = query.checks
    assert check is not None
    assert check.quick is not None
    sizes = {0: sizes_of(collect(engine, [query], ABOUT))}
    coarser = replace(check.quick, keys=(("(n0 // 2)", check.quick.keys[0][1]),))
    assert quickly_verified(engine, {0: coarser}, sizes, least_rows=0) == set()


@pytest.mark.parametrize("engine", ["clean"], indirect=True)
def test_a_query_that_fails_confirms_nothing(engine: Engine) -> None:
    query = read_release("SELECT SUM(watts) FROM data", name="r", subject=ABOUT, schema=Schema.of(engine))
    (check,) = query.checks
    assert check is not None
    assert check.quick is not None
    sizes = {0: sizes_of(collect(engine, [query], ABOUT))}
    failing = changed_texts(check.quick, "CAST((watts) AS DOUBLE)", "CAST(c0 AS DOUBLE)")
    assert quickly_verified(engine, {0: failing}, sizes, least_rows=0) == set()
    assert (
        quickly_verified(engine, {0: failing, 1: check.quick}, {0: sizes[0], 1: sizes[0]}, least_rows=0)
        == set()
    )
