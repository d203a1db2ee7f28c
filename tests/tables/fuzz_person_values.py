"""Hunt with random releases over values per record for a cell that the audit reads differently from DuckDB.

The record is column ``a`` of the oracle's table: a few persons with many rows each, and rows of nobody, which
the audit leaves out.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np

from sightline.errors import InvalidPlan
from sightline.tables.collect import collect
from sightline.tables.engines.person_engine import PersonEngine
from sightline.tables.engines.protocol import Engine
from sightline.tables.records import row_values
from sightline.tables.sql.person_values import read_person_values
from sightline.tables.sql.reader import read_release
from sightline.tables.subject import Schema
from sightline.tables.verify import verify
from tests.tables.sql_oracle import SUBJECT, RandomReleases, Run, hunt

TOGETHER = 10  # releases in one audit
PERSON = replace(SUBJECT, record="a", most_rows=80)


class RandomPersonReleases(RandomReleases):
    """Draws an inner query, SELECTs around it, and a clip at one of three places."""

    def person_release(self) -> tuple[str, str]:
        """A release, and the query whose answer its cells must have: a count and a sum for every group."""
        keys = [key for key in ("b", "c", "EXTRACT(MONTH FROM t)", "d") if self.chance(0.4)]
        listed = [f"{key} AS g{place}" for place, key in enumerate(keys)]
        place, clip = int(self.random.integers(4)), self.choice("LEAST({}, 3)", "GREATEST(LEAST({}, 5), -4)")
        value = f"{self.choice('SUM', 'AVG', 'MIN', 'MAX')}(s)"
        value = clip.format(value) if place == 1 else value
        where = f" WHERE {self.choice(*self.conditions)}" if self.chance(0.4) else ""
        kept = f" HAVING {self.choice('COUNT(*) > 1', 'MIN(r) < 40')}" if self.chance(0.3) else ""
        by = ", ".join(["a", *keys])
        columns = ", ".join(["a", *listed, "COUNT(*) AS n", f"{value} AS v"])
        inner = f"SELECT {columns} FROM data{where} GROUP BY {by}{kept}"
        source = f"({inner}) AS p"
        names = [f"g{number}" for number in range(len(keys))]
        if self.chance(0.3) or place == 2:
            passed = clip.format("v") if place == 2 else "v"
            source = f"(SELECT {', '.join(['a', *names])}, n, {passed} AS v FROM {source}) AS q"
        published = clip.format("v") if place == 3 else "v"
        outer = [name for name in (*names, "n > 2") if self.chance()]
        grouped = f" GROUP BY {', '.join(outer)}" if outer else ""
        having = " HAVING COUNT(*) > 1" if self.chance(0.3) else ""
        text = f"SELECT {{}} FROM {source}{grouped}{having}"
        counted = f"CASE WHEN a IS NOT NULL THEN {published} END"
        return (
            text.format(f"{self.choice('AVG', 'SUM')}({published})"),
            text.format(f"COUNT({counted}), SUM({counted})"),
        )


def person_differences(engine: Engine, run: Run, seed: int, number: int) -> list[str]:
    """The releases, among ``number`` drawn ones, that the audit reads differently from the engine."""
    random = RandomPersonReleases(seed)
    schema = Schema.of(engine)
    different = []
    for _ in range(number):
        sql, answer = random.person_release()
        theirs = Counter((int(count), round(float(total), 6)) for count, total in run(answer) if count)
        values = read_person_values([("drawn", sql)], subject=PERSON, schema=schema)
        assert values is not None, sql
        people = PersonEngine(engine=engine, sql=values.sql, schema=values.schema)
        query = read_release(values.releases[0], name="drawn", subject=values.subject, schema=values.schema)
        try:
            membership = collect(people, [query], replace(values.subject, most_rows=None))
        except InvalidPlan as refusal:
            if "none among" not in str(refusal) and "an empty table" not in str(refusal):
                raise
            ours: Counter[Any] = Counter()
        else:
            verify(people, [query], values.subject, membership)
            rows = row_values(people, [query], replace(values.subject, bounds=(-1e9, 1e9)))
            cell_of = membership.signatures[rows.signature, 0]
            inside = cell_of >= 0
            sums = np.bincount(cell_of[inside], rows.secret[inside], minlength=len(membership.cells))
            ours = Counter(
                (cell.rows, round(float(total), 6))
                for cell, total in zip(membership.cells, sums, strict=True)
            )
        if any(int(engine.fetch_own(check)["n"][0]) for check in values.checks) or ours != theirs:
            different.append(sql)
    return different


def check(engine: Engine, run: Run, seed: int) -> None:
    """Raise at the first difference."""
    different = person_differences(engine, run, seed, TOGETHER)
    assert not different, f"seed {seed}: {different[0]}"


def fuzz(seed: int, seconds: float) -> dict[str, int]:
    """Compare random releases until the seconds are over; raise at the first difference."""
    audits = hunt(check, seed, seconds)
    return {"releases": audits * TOGETHER, "audits": audits}
