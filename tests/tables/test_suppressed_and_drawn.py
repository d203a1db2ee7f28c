"""Suppressed groups, drawn records and few values: every engine finds what plain Python finds."""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from sightline.tables.collect import collect
from sightline.tables.engines.protocol import Engine
from sightline.tables.sql.reader import ReleaseQuery, read_release
from sightline.tables.subject import Schema, SecretKind, Subject
from tests.tables.table_cases import awkward_rows

SUBJECT = Subject(record="home", secret="load", kind=SecretKind.NUMBER, bounds=(0.0, 300.0))


def release(engine: Engine, sql: str) -> ReleaseQuery:
    schema = Schema.of(engine, ["areas"])
    return read_release(sql, name="r", subject=SUBJECT, schema=schema)


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
    every, kept = (
        {cell.key for cell in collect(engine, [release(engine, text)], SUBJECT).cells}
        for text in (sql, f"{sql} HAVING NOT ({condition})")
    )
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in awkward_rows():
        if "WHERE" not in sql or row["age"] > 20:
            groups["NULL" if row["region"] is None else str(row["region"])].append(row)
    expected = {(key,) for key, rows in groups.items() if not keep(rows) and key != "NULL"}  # no secret there
    assert 0 < len(expected) < len(every)
    assert every - kept == expected


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


@pytest.mark.parametrize(("within", "few"), [(20.0, 9), (2.0, 1), (400.0, 0)])
def test_values_within_an_interval_are_few_by_their_least_gap(
    engine: Engine, within: float, few: int
) -> None:
    """Two loads are at least 5 apart: an interval of 40 has room for 9, one of 4 for 1, and 800 for 161."""
    loads = sorted(
        {row["load"] for row in awkward_rows() if row["load"] is not None and abs(row["load"]) < 1e9}
    )
    assert min(high - low for low, high in pairwise(loads)) == 5
    query = release(engine, "SELECT SUM(load) FROM data")
    assert collect(engine, [query], replace(SUBJECT, known_within=within)).occurring.few == few
