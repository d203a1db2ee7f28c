"""Being in the table as a yes or no: of everybody in a frame, or of the people in the table alone.

A *frame* has everybody who might be in the table, once each, with the public columns. Its rows are ``data``,
and whether somebody is also in the table is the secret. Without a frame there are only those who are: then
nothing can be said but what the noise guarantees to somebody who knows all others.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from sqlglot import exp

from sightline.errors import require_plan
from sightline.tables.engines.protocol import SOURCE, Engine
from sightline.tables.sql.data_query import DataQuery
from sightline.tables.sql.scope import find_column

PRESENCE = "presence"  # the secret that is no column
FRAME = "frame"  # the declared table of everybody who might be there


def presence_query(engine: Engine, *, record: str, framed: bool) -> DataQuery:
    """How ``data`` is made: everybody of the frame, or of the table, and whether they are in the table."""
    rows = FRAME if framed else SOURCE
    columns = [one.name for one in engine.columns(rows if framed else SOURCE)]
    require_plan(
        PRESENCE not in {name.casefold() for name in columns},
        f'a table without a column "{PRESENCE}", beside secret = "{PRESENCE}"',
        got="one with it",
        fix="give another name to the column, or say what it can be: kind = 'boolean'",
    )
    key = _quoted(engine, find_column(engine.columns(rows if framed else SOURCE), record).name)
    listed = ", ".join(f"{rows}.{_quoted(engine, name)}" for name in columns)
    if not framed:
        return DataQuery(
            sql=f"SELECT {listed}, TRUE AS {PRESENCE} FROM {SOURCE}", columns=(*columns, PRESENCE)
        )
    person = _quoted(engine, find_column(engine.columns(SOURCE), record).name)
    inside = f"{rows}.{key} IN (SELECT {SOURCE}.{person} FROM {SOURCE} WHERE {SOURCE}.{person} IS NOT NULL)"
    return DataQuery(sql=f"SELECT {listed}, {inside} AS {PRESENCE} FROM {rows}", columns=(*columns, PRESENCE))


def share_present(engine: Engine, *, record: str) -> float:
    """The share of the frame that is in the table; a frame without some of its people is refused."""
    key, who = (_quoted(engine, find_column(engine.columns(one), record).name) for one in (FRAME, SOURCE))
    sizes = (
        f"SELECT (SELECT COUNT(*) FROM {FRAME}) AS everybody, "
        f"(SELECT COUNT(DISTINCT {key}) FROM {FRAME}) AS different, "
        f"(SELECT COUNT(*) FROM {SOURCE}) AS lines, (SELECT COUNT(DISTINCT {who}) FROM {SOURCE}) AS people, "
        f"(SELECT COUNT(*) FROM {SOURCE} "
        f"WHERE {who} NOT IN (SELECT {key} FROM {FRAME} WHERE {key} IS NOT NULL)) AS missing"
    )
    counts = {name: int(np.asarray(value)[0]) for name, value in engine.fetch_own(sizes).items()}
    everybody, people = counts["everybody"], counts["people"]
    require_plan(
        everybody == counts["different"],
        "[data] frame: everybody once, by the record key",
        got=f"{everybody:,} rows with {counts['different']:,} keys",
        fix="make one row of each person",
    )
    require_plan(
        not counts["missing"],
        "[data] frame: everybody who is in the table, among those who might be",
        got=f"{counts['missing']:,} of {people:,} people of the table who are not in it",
        fix="a frame that leaves people out would hide that they are seen",
    )
    require_plan(
        counts["lines"] == people,
        'one row of each person in the table, with secret = "presence"',
        got=f"{counts['lines']:,} rows of {people:,} people",
        fix="make one row of each person first",
    )
    require_plan(
        0 < people < everybody,
        "[data] frame: people who are in the table, and some who are not",
        got=f"{people:,} of {everybody:,}",
    )
    return people / everybody


def check_columns_agree(engine: Engine, *, record: str, columns: Sequence[str]) -> None:
    """Refuse a frame in which people have other public values than in the table that is published."""
    key, person = (_quoted(engine, find_column(engine.columns(one), record).name) for one in (FRAME, SOURCE))
    for name in columns:
        first = _quoted(engine, find_column(engine.columns(FRAME), name).name)
        second = _quoted(engine, find_column(engine.columns(SOURCE), name).name)
        unlike = (
            f"SELECT COUNT(*) AS n FROM {SOURCE} JOIN {FRAME} ON {SOURCE}.{person} = {FRAME}.{key} "
            f"WHERE {SOURCE}.{second} IS DISTINCT FROM {FRAME}.{first}"
        )
        number = int(np.asarray(engine.fetch_own(unlike)["n"])[0])
        require_plan(
            number == 0,
            f'[data] frame: the same values of "{name[:60]}" as in the table',
            got=f"others for {number:,} of its people",
            fix="what is published counts the table's values; correct the frame",
        )


def _quoted(engine: Engine, name: str) -> str:
    return exp.to_identifier(name, quoted=True).sql(engine.dialect)
