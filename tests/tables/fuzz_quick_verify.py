"""Hunt with random releases for one that the quick check confirms and the check of every group does not."""

from __future__ import annotations

import itertools
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from sightline.errors import InvalidPlan
from sightline.tables.collect import collect
from sightline.tables.engines.protocol import Engine
from sightline.tables.membership import Membership, UnauditedRows
from sightline.tables.sql.reader import ReleaseQuery, read_release
from sightline.tables.subject import Schema
from sightline.tables.verify import verify
from tests.tables.quick_cases import without_quick
from tests.tables.sql_oracle import SUBJECT, RandomReleases, duckdb_tables

TOGETHER = 20  # releases in one audit


def found(
    engine: Engine, queries: list[ReleaseQuery], membership: Membership
) -> tuple[UnauditedRows, ...] | str:
    """What verification finds, or the error that it raises."""
    try:
        return verify(engine, queries, SUBJECT, membership)
    except InvalidPlan as error:
        return str(error)


def fuzz(seed: int, seconds: float) -> dict[str, int]:
    """Verify random releases both ways, and with the size of a cell changed, until the seconds are over."""
    until = time.monotonic() + seconds
    audits = 0
    with tempfile.TemporaryDirectory() as folder:
        engine, _, connection = duckdb_tables(Path(folder))
        try:
            schema = Schema.of(engine, ["areas"])
            for case_seed in itertools.count(seed):
                random = RandomReleases(case_seed)
                queries = [
                    read_release(random.release().sql, name=str(place), subject=SUBJECT, schema=schema)
                    for place in range(TOGETHER)
                ]
                slow = without_quick(queries)
                membership = collect(engine, queries, SUBJECT)
                place = case_seed % len(membership.cells)
                cells = list(membership.cells)
                cells[place] = replace(cells[place], rows=cells[place].rows + 1)
                for seen in (membership, replace(membership, cells=tuple(cells))):
                    both = [found(engine, asked, seen) for asked in (queries, slow)]
                    assert both[0] == both[1], f"seed {case_seed}: {both}"
                    assert isinstance(both[0], str) == (seen is not membership), (
                        f"seed {case_seed}: {both[0]}"
                    )
                audits += 1
                if time.monotonic() > until:
                    break
        finally:
            engine.close()
            connection.close()
    return {"releases": audits * TOGETHER, "audits": audits}
