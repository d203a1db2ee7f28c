"""Hunt with random releases over rows that ``[data] sql`` makes for a cell that the audit reads differently.

The record is column ``a`` of the oracle's table: a few persons with many rows each, and rows of nobody, which
the audit leaves out.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np

from sightline.errors import InvalidPlan
from sightline.tables.collect import collect, count_table
from sightline.tables.engines.protocol import Engine
from sightline.tables.records import row_values
from sightline.tables.rows import make_data
from sightline.tables.sql.data_query import read_data_query
from sightline.tables.sql.reader import read_release
from sightline.tables.subject import Schema
from sightline.tables.verify import verify
from tests.tables.sql_oracle import SUBJECT, RandomReleases, Run, hunt

TOGETHER = 10  # releases in one audit
PERSON = replace(SUBJECT, record="a", most_rows=80)


class RandomPersonReleases(RandomReleases):
    """Draws an inner query, SELECTs around it, and a clip at one of three places."""

    def person_release(self) -> tuple[str, str, str]:
        """The query that makes the rows, a release, and the query whose answer its cells must have.

        That is a count and a sum for every group.
        """
        keys = [key for key in ("b", "c", "EXTRACT(MONTH FROM t)", "d") if self.chance(0.4)]
        listed = [f"{key} AS g{place}" for place, key in enumerate(keys)]
        clip, clips = self.choice("LEAST({}, 3)", "GREATEST(LEAST({}, 5), -4)"), self.chance()
        value = f"{self.choice('SUM', 'AVG', 'MIN', 'MAX')}(s)"
        value = clip.format(value) if clips else value
        where = f" WHERE {self.choice(*self.conditions)}" if self.chance(0.4) else ""
        table = "source"
        if self.chance(0.4):
            window = self.choice(
                "RANK() OVER (PARTITION BY b ORDER BY a)",
                "ROW_NUMBER() OVER (PARTITION BY c ORDER BY r)",
                "DENSE_RANK() OVER (ORDER BY t DESC)",
                "COUNT(*) OVER (PARTITION BY a)",
                "MAX(a) OVER (PARTITION BY b, d) - a",
            )
            table = f"(SELECT *, {window} AS w FROM source) AS numbered"
            where = f"{where} AND w < 9" if where else " WHERE w < 9"
        kept = f" HAVING {self.choice('COUNT(*) > 1', 'MIN(r) < 40')}" if self.chance(0.3) else ""
        by = ", ".join(["a", *keys])
        columns = ", ".join(["a", *listed, "COUNT(*) AS n", f"{value} AS v"])
        inner = f"SELECT {columns} FROM {table}{where} GROUP BY {by}{kept}"
        source = f"({inner}) AS p"
        names = [f"g{number}" for number in range(len(keys))]
        if self.chance(0.3):
            source = f"(SELECT {', '.join(['a', *names])}, n, v FROM {source}) AS q"
        outer = [name for name in (*names, "n > 2") if self.chance()]
        grouped = f" GROUP BY {', '.join(outer)}" if outer else ""
        having = " HAVING COUNT(*) > 1" if self.chance(0.3) else ""
        text = f"SELECT {{}} FROM {source}{grouped}{having}"
        counted = "CASE WHEN a IS NOT NULL THEN v END"
        answer = text.format(f"COUNT({counted}), SUM({counted})").replace("FROM source", "FROM data")
        return inner, text.format(f"{self.choice('AVG', 'SUM')}(v)"), answer


def person_differences(engine: Engine, run: Run, seed: int, number: int) -> list[str]:
    """The releases, among ``number`` drawn ones, that the audit reads differently from the engine."""
    random = RandomPersonReleases(seed)
    schema = Schema.of(engine)
    different = []
    for _ in range(number):
        inner, sql, answer = random.person_release()
        theirs = Counter((int(count), round(float(total), 6)) for count, total in run(answer) if count)
        made = read_data_query(inner, record="a", secret="v", others=[], schema=schema)
        make_data(engine, made)
        own = replace(schema, columns=engine.columns(), source=(schema,), made_by=made.normal)
        subject = replace(PERSON, secret="v", bounds=(-1e9, 1e9), most_rows=math.inf)
        query = read_release(sql, name="drawn", subject=subject, schema=own)
        try:
            membership = collect(engine, [query], subject)
        except InvalidPlan as refusal:
            if "none among" not in str(refusal) and "an empty table" not in str(refusal):
                raise
            ours: Counter[Any] = Counter()
        else:
            verify(engine, [query], membership)
            rows = row_values(engine, count_table(engine, [query], subject))
            cell_of = membership.signatures[rows.signature, 0]
            inside = cell_of >= 0
            sums = np.bincount(cell_of[inside], rows.secret[inside], minlength=len(membership.cells))
            ours = Counter(
                (cell.rows, round(float(total), 6))
                for cell, total in zip(membership.cells, sums, strict=True)
            )
        if ours != theirs:
            different.append(sql)
    engine.define("SELECT * FROM source")
    return different


def check(engine: Engine, run: Run, seed: int) -> None:
    """Raise at the first difference."""
    different = person_differences(engine, run, seed, TOGETHER)
    assert not different, f"seed {seed}: {different[0]}"


def fuzz(seed: int, seconds: float) -> dict[str, int]:
    """Compare random releases until the seconds are over; raise at the first difference."""
    audits = hunt(check, seed, seconds)
    return {"releases": audits * TOGETHER, "audits": audits}
