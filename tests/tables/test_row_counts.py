"""Rows and records are counted exactly, whichever way is taken, and what is left out changes nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np
import pytest

from sightline.tables.collect import collect, count_table
from sightline.tables.engines.duckdb_engine import DuckDBEngine
from sightline.tables.membership import Membership
from sightline.tables.records import signature_totals
from sightline.tables.rows import audited_rows, count_rows
from sightline.tables.sql.reader import read_release
from sightline.tables.subject import Schema, SecretKind, Subject

ABOUT = Subject(record="who", secret="watts", kind=SecretKind.NUMBER, bounds=(0, 9))
Row = tuple[int | float | str | None, str, float | None]
Open = Callable[..., DuckDBEngine]


@pytest.fixture
def table(tmp_path: Path) -> Open:
    def of(rows: list[Row], kind: str = "BIGINT") -> DuckDBEngine:
        with duckdb.connect() as connection:
            connection.execute(f"CREATE TABLE t (who {kind}, town VARCHAR, watts DOUBLE)")
            connection.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
            connection.execute(f"COPY t TO '{tmp_path / 't.parquet'}' (FORMAT parquet)")
        return DuckDBEngine("t.parquet", base=tmp_path)

    return of


def rows_of(keys: list[int | float | str | None]) -> list[Row]:
    return [(key, "ab"[i % 2], float(i % 7)) for i, key in enumerate(keys)]


ENDS = {
    "TINYINT": (-(2**7), 2**7 - 1),
    "UTINYINT": (0, 2**8 - 1),
    "SMALLINT": (-(2**15), 2**15 - 1),
    "INTEGER": (-(2**31), 2**31 - 1),
    "UINTEGER": (0, 2**32 - 1),
    "BIGINT": (-(2**63), 2**63 - 1),
    "UBIGINT": (0, 2**64 - 1),
}


@pytest.mark.sampled(10)
@pytest.mark.parametrize("kind", ENDS)
@pytest.mark.parametrize("end", [0, 1])
@pytest.mark.parametrize("again", [False, True])
def test_keys_at_the_ends_of_their_type(table: Open, kind: str, end: int, again: bool) -> None:
    first = ENDS[kind][end] - (4 if end else 0)
    keys: list[int | float | str | None] = [first + step for step in (0, 1, 2, 4)]
    engine = table(rows_of([*keys, keys[2]] if again else keys), kind)
    counts = count_rows(engine, audited_rows([], ABOUT, engine.columns()), ABOUT)
    assert (counts.records, counts.contributions) == (4, 2 if again else 1)
    engine.close()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", ["BIGINT", "HUGEINT", "DOUBLE", "DECIMAL(18, 2)", "VARCHAR"])
def test_records_are_counted_as_python_counts_them(table: Open, kind: str) -> None:
    rng = np.random.default_rng(5)
    for reach in (30, 400, 10**6, 10**15):  # many keys twice, few, hardly any; and too far apart for bits
        drawn = rng.integers(-reach, reach, size=60).tolist()
        keys = [str(key) if kind == "VARCHAR" else key for key in drawn]
        rows = [*rows_of(keys), (None, "a", 3.0), (keys[0], "b", None), (7 * reach, "b", float("inf"))]
        if kind == "VARCHAR":
            rows = [(None if key is None else str(key), town, watts) for key, town, watts in rows]
        engine = table(rows, kind)
        counts = count_rows(engine, audited_rows([], ABOUT, engine.columns()), ABOUT)
        times = Counter(keys)
        assert (counts.total, counts.present, counts.complete) == (63, 60, False)
        assert (counts.records, counts.contributions) == (len(times), max(times.values()))
        engine.close()


def test_a_key_that_occurs_twice_is_found_where_most_occur_once(table: Open) -> None:
    keys: list[int | float | str | None] = [*range(1_000), 999]
    engine = table(rows_of(keys))
    counts = count_rows(engine, audited_rows([], ABOUT, engine.columns()), ABOUT)
    assert (counts.records, counts.contributions) == (1_000, 2)
    engine.close()


SQL = ["SELECT town, AVG(watts) FROM data GROUP BY town", "SELECT SUM(watts) FROM data WHERE who > 2"]


def collected(engine: DuckDBEngine, subject: Subject) -> tuple[Membership, np.ndarray]:
    queries = [read_release(sql, name=sql, subject=subject, schema=Schema.of(engine)) for sql in SQL]
    return collect(engine, queries, subject), signature_totals(engine, count_table(engine, queries, subject))


@pytest.mark.parametrize("known", [(), ("who < 4",)])
@pytest.mark.parametrize("odd", [None, (99, "a", None), (None, "b", 1.0), (98, "a", 12.5)])
def test_the_sums_of_the_signatures_are_those_of_their_rows(
    table: Open, known: tuple[str, ...], odd: Row | None
) -> None:
    rows = rows_of(list(range(12))) + ([odd] if odd is not None else [])
    subject = Subject(record="who", secret="watts", kind=SecretKind.NUMBER, bounds=(0, 9), known=known)
    engine = table(rows)
    membership, totals = collected(engine, subject)
    expected: dict[tuple[str, bool], float] = {}
    for key, town, watts in rows:
        if key is not None and watts is not None:
            assert isinstance(key, int)
            own = 0.0 if known and key < 4 else min(watts, 9.0)
            expected[town, key > 2] = expected.get((town, key > 2), 0.0) + own
    assert sorted(membership.sums.tolist()) == sorted(expected.values())
    assert membership.sums[:, None].tolist() == totals.tolist()
    assert membership.dropped == (odd is not None and None in odd)
    assert membership.clipped == (odd == (98, "a", 12.5))
    engine.close()


def test_a_row_without_a_secret_changes_only_the_number_of_dropped_rows(table: Open) -> None:
    """With it every query leaves rows out; without it none has to."""
    found = []
    for rows in (rows_of(list(range(12))), [*rows_of(list(range(12))), (50, "c", None)]):
        engine = table(rows)
        membership, _ = collected(engine, ABOUT)
        queries = [read_release(sql, name=sql, subject=ABOUT, schema=Schema.of(engine)) for sql in SQL]
        assert count_table(engine, queries, ABOUT).rows.complete == (len(rows) == 12)
        found.append(membership)
        engine.close()
    whole, dropped = found
    assert (whole.dropped, dropped.dropped) == (0, 1)
    assert whole.cells == dropped.cells
    assert whole.signatures.tolist() == dropped.signatures.tolist()
    assert (whole.counts == dropped.counts).all()
