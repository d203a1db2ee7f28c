"""Whose rows have which signatures: the same on every engine, and what plain Python finds."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import pytest

from sightline.tables.collect import collect, count_table
from sightline.tables.engines.protocol import Engine
from sightline.tables.membership import Membership, PersonTable
from sightline.tables.persons import person_table
from sightline.tables.records import keys_of_kinds, person_of
from tests.tables.table_cases import SUBJECT, awkward_rows, expected_cells, read_all

ENGINES = [
    "duckdb_engine",
    pytest.param("postgres_engine", marks=pytest.mark.slow),
    pytest.param("spark_engine", marks=pytest.mark.slow),
]
KNOWN = replace(SUBJECT, bounds=(0, 9000), known=("home = 'h3'", "age > 80 AND solar"))


@pytest.fixture(scope="module", params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Engine:
    found: Engine = request.getfixturevalue(request.param)
    return found


@pytest.fixture(scope="module")
def membership(engine: Engine) -> Membership:
    return collect(engine, read_all(engine), KNOWN)


@pytest.fixture(scope="module")
def table(engine: Engine, membership: Membership) -> PersonTable:
    return person_table(engine, count_table(engine, read_all(engine), KNOWN), membership)


def expected_persons(membership: Membership) -> dict[str, tuple[tuple[int, bool, int], ...]]:
    """The entries of every home, in plain Python."""
    keys = [
        [cell.key for cell in membership.cells if cell.partition == p]
        for p in range(len(membership.partitions))
    ]
    number = {
        tuple(None if cell < 0 else keys[p][cell] for p, cell in enumerate(row)): place
        for place, row in enumerate(membership.signatures.tolist())
    }
    rows = [
        row
        for row in awkward_rows()
        if row["home"] is not None and row["load"] is not None and math.isfinite(row["load"])
    ]
    found: dict[str, Counter[tuple[int, bool]]] = {}
    for row, cells in zip(rows, expected_cells(), strict=True):
        known = row["home"] == "h3" or (row["age"] > 80 and row["solar"] is True)
        found.setdefault(row["home"], Counter())[number[tuple(cells)], known] += 1
    return {
        home: tuple((signature, known, count) for (signature, known), count in sorted(entries.items()))
        for home, entries in found.items()
    }


class TestEveryEngine:
    @pytest.mark.slow
    def test_its_persons_are_those_of_plain_python(self, table: PersonTable, membership: Membership) -> None:
        expected = Counter(expected_persons(membership).values())
        kinds = range(len(table.persons))
        assert Counter({table.entries(kind): int(table.persons[kind]) for kind in kinds}) == expected

    def test_it_says_who_holds_different_values(self, table: PersonTable) -> None:
        values: dict[str, list[float]] = {}
        for row in awkward_rows():
            if row["home"] is not None and row["load"] is not None and math.isfinite(row["load"]):
                values.setdefault(row["home"], []).append(row["load"])
        several = [found for found in values.values() if len(found) > 1]
        assert table.several == len(several) > 0
        assert table.varying == sum(len(set(found)) > 1 for found in several) > 0

    @pytest.mark.slow
    def test_it_names_the_persons_of_a_kind(
        self, engine: Engine, table: PersonTable, membership: Membership
    ) -> None:
        expected = expected_persons(membership)
        kinds = {kind: table.entries(kind) for kind in range(len(table.persons))}
        named = keys_of_kinds(engine, count_table(engine, read_all(engine), KNOWN), kinds)
        for kind, entries in kinds.items():
            assert named[kind] == tuple(sorted(home for home, own in expected.items() if own == entries))

    @pytest.mark.slow
    def test_it_finds_the_kind_of_a_person(
        self, engine: Engine, table: PersonTable, membership: Membership
    ) -> None:
        expected = expected_persons(membership)
        for home in ("h0", "h3", "h7"):
            entries = person_of(engine, count_table(engine, read_all(engine), KNOWN), record_key=home)
            assert entries == expected.get(home, ())
            assert not entries or [table.entries(one) for one in table.with_entries(entries)] == [entries]
