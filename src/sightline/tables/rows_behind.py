"""How many rows of the table each value of ``data`` adds up, where ``[data] sql`` adds up rows of a record.

The number is public, as who is in which group is: a sum of few rows is spread less than a sum of many.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sightline.tables.collect import known_condition
from sightline.tables.engines.protocol import DATA, Engine
from sightline.tables.membership import RowsBehind
from sightline.tables.records import ranked_rows
from sightline.tables.sql.counted_sums import ROWS_BEHIND
from sightline.tables.sql.fragments import quoted
from sightline.tables.sql.reader import ReleaseQuery
from sightline.tables.subject import Subject


def adds_up_alike(engine: Engine) -> bool:
    """Whether all values of ``data`` are known to add up as many rows."""
    if ROWS_BEHIND not in {column.name for column in engine.columns()}:
        return False
    number = quoted(ROWS_BEHIND)
    answer = engine.fetch(f"SELECT MIN({number}) AS least, MAX({number}) AS most FROM {quoted(DATA)}")
    return bool(answer["least"][0] == answer["most"][0])


def rows_behind(engine: Engine, queries: Sequence[ReleaseQuery], subject: Subject) -> RowsBehind | None:
    """How many rows of the table each value of ``data`` adds up; none if that was not counted."""
    columns = engine.columns()
    if ROWS_BEHIND not in {column.name for column in columns}:
        return None
    known = known_condition(engine, subject) or "FALSE"
    number = f"CAST({quoted(DATA)}.{quoted(ROWS_BEHIND)} AS BIGINT)"
    value = f"2 * {number} + CASE WHEN {known} THEN 1 ELSE 0 END"
    ranked = ranked_rows(engine, queries, subject, value)
    answer = engine.fetch(f"SELECT s, v, COUNT(*) AS n FROM ({ranked}) AS ranked GROUP BY s, v ORDER BY s, v")
    signature, marked, count = (np.asarray(answer[name], dtype=np.int64) for name in "svn")
    pairs, place = np.unique(np.column_stack([signature, marked // 2]), axis=0, return_inverse=True)
    counts, known_counts = (
        np.bincount(place.ravel(), weights, len(pairs)).astype(np.int64)
        for weights in (count, count * (marked % 2))
    )
    return RowsBehind(signature=pairs[:, 0], rows=pairs[:, 1], counts=counts, known=known_counts)
