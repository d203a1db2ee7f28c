"""DuckDB, Postgres and Spark hand over the same membership, and it is the one that plain Python finds."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from sightline.tables.collect import collect, count_table
from sightline.tables.engines.protocol import Engine
from sightline.tables.membership import Membership
from sightline.tables.records import members_of, person_of, row_values, signature_totals
from tests.tables.table_cases import (
    NUMBER_RELEASES,
    SUBJECT,
    awkward_rows,
    cells_of,
    expected_cells,
    read_all,
)

ENGINES = ["duckdb_engine", "postgres_engine", "spark_engine"]
BOUNDED = replace(SUBJECT, bounds=(0, 9000), known=("home = 'h3'", "age > 80 AND solar"))


@pytest.fixture(scope="module", params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Engine:
    found: Engine = request.getfixturevalue(request.param)
    return found


@pytest.fixture(scope="module")
def membership(engine: Engine) -> Membership:
    queries = read_all(engine)
    return collect(engine, queries, BOUNDED)


class TestEveryEngine:
    @pytest.mark.slow
    def test_its_signatures_are_those_of_plain_python(self, membership: Membership) -> None:
        assert cells_of(membership) == Counter(map(tuple, expected_cells()))

    def test_its_cells_count_their_rows(self, membership: Membership) -> None:
        expected = Counter(
            (part, key) for row in expected_cells() for part, key in enumerate(row) if key is not None
        )
        assert {(cell.partition, cell.key): cell.rows for cell in membership.cells} == expected

    def test_it_counts_rows_records_and_what_it_left_out(self, membership: Membership) -> None:
        rows = awkward_rows()
        kept = [row for row in rows if _has_load(row) and row["home"] is not None]
        assert membership.rows == len(kept) == membership.counts.sum()
        assert membership.dropped == len(rows) - len(kept)
        assert membership.records == len({row["home"] for row in kept})
        assert membership.contributions == max(Counter(row["home"] for row in kept).values())
        assert membership.clipped == sum(not 0 <= row["load"] <= 9000 for row in kept)
        told = [row["home"] == "h3" or (row["age"] > 80 and row["solar"] is True) for row in kept]
        assert membership.known.sum() == sum(told)

    @pytest.mark.slow
    def test_it_agrees_with_duckdb_in_every_bit_and_in_the_order(
        self, membership: Membership, duckdb_engine: Engine
    ) -> None:
        queries = read_all(duckdb_engine)
        own = collect(duckdb_engine, queries, BOUNDED)
        # Names of keys, and labels with them, are written in the engine's own SQL, as what is asked of it.
        plain = {"key_names": (), "called": "", "keys": (), "condition": None, "weight": None}
        ours, theirs = (
            [replace(part, **plain) for part in one.partitions]  # type: ignore[arg-type]
            for one in (membership, own)
        )
        assert ours == theirs
        assert membership.cells == own.cells
        for name in ("signatures", "counts", "known"):
            assert np.array_equal(getattr(membership, name), getattr(own, name)), name
            assert getattr(membership, name).dtype == getattr(own, name).dtype

    @pytest.mark.slow
    def test_rows_and_records_are_found_again(self, engine: Engine) -> None:
        queries = read_all(engine)[2:5]
        membership = collect(engine, queries, SUBJECT)
        values = row_values(engine, count_table(engine, queries, BOUNDED))
        assert np.array_equal(np.bincount(values.signature), membership.counts)
        kept = [row for row in awkward_rows() if _has_load(row) and row["home"] is not None]
        assert sorted(values.secret.tolist()) == sorted(min(max(row["load"], 0), 9000) for row in kept)
        totals = signature_totals(engine, count_table(engine, queries, replace(BOUNDED, known=())))
        assert totals[:, 0] == pytest.approx(np.bincount(values.signature, values.secret), rel=1e-12)
        everyone = members_of(
            engine, count_table(engine, queries, SUBJECT), signature_ids=range(len(membership.counts))
        )
        home = next(row["home"] for row in kept)
        entries = person_of(engine, count_table(engine, queries, SUBJECT), record_key=home)
        mine = tuple(signature for signature, known, _ in entries if not known)
        assert mine == tuple(signature for signature, keys in everyone.items() if home in keys)
        assert sum(home == row["home"] for row in kept) >= len(mine) > 0
        assert person_of(engine, count_table(engine, queries, SUBJECT), record_key="nobody") == ()


def _has_load(row: dict[str, object]) -> bool:
    load = row["load"]
    return isinstance(load, float) and bool(np.isfinite(load))


def test_the_catalogue_has_a_partition_for_every_published_one(duckdb_engine: Engine) -> None:
    queries = read_all(duckdb_engine)
    assert [len(query.partitions) for query in queries] == [
        len(published) for published in NUMBER_RELEASES.values()
    ]
