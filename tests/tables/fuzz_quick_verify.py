"""Hunt with random releases for one that the quick check confirms and the check of every group does not."""

from __future__ import annotations

from dataclasses import replace

from sightline.errors import InvalidPlan
from sightline.tables.collect import collect
from sightline.tables.engines.protocol import Engine
from sightline.tables.membership import Membership, UnauditedRows
from sightline.tables.sql.reader import ReleaseQuery, read_release
from sightline.tables.subject import Schema
from sightline.tables.verify import verify
from tests.tables.quick_cases import without_quick
from tests.tables.sql_oracle import SUBJECT, RandomReleases, Run, hunt

TOGETHER = 20  # releases in one audit


def found(
    engine: Engine, queries: list[ReleaseQuery], membership: Membership
) -> tuple[UnauditedRows, ...] | str:
    """What verification finds, or the error that it raises."""
    try:
        return verify(engine, queries, membership)
    except InvalidPlan as error:
        return str(error)


def check(engine: Engine, run: Run, seed: int) -> None:
    """Verify random releases both ways, and again with the size of a cell changed."""
    schema, random = Schema.of(engine, ["areas"]), RandomReleases(seed)
    queries = [
        read_release(random.release().sql, name=str(place), subject=SUBJECT, schema=schema)
        for place in range(TOGETHER)
    ]
    membership = collect(engine, queries, SUBJECT)
    cells = list(membership.cells)
    place = seed % len(cells)
    cells[place] = replace(cells[place], rows=cells[place].rows + 1)
    for seen in (membership, replace(membership, cells=tuple(cells))):
        quick, whole = (found(engine, asked, seen) for asked in (queries, without_quick(queries)))
        assert quick == whole, f"seed {seed}: {quick} and {whole}"
        assert isinstance(quick, str) == (seen is not membership), f"seed {seed}: {quick}"


def fuzz(seed: int, seconds: float) -> dict[str, int]:
    """Verify random releases both ways until the seconds are over."""
    audits = hunt(check, seed, seconds)
    return {"releases": audits * TOGETHER, "audits": audits}
