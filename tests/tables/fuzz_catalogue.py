"""Hunt with the catalogue's queries, changed at random, for one that is neither read nor refused."""

from __future__ import annotations

import random
import re
import time

from sightline.errors import InvalidPlan
from sightline.tables.engines.protocol import Column, ColumnKind
from sightline.tables.sql.data_query import read_data_query
from sightline.tables.sql.reader import read_release
from sightline.tables.subject import Schema
from tests.tables.catalogue_cases import COLUMNS, themes

KINDS = {
    "INTEGER": ColumnKind.NUMBER,
    "DOUBLE": ColumnKind.NUMBER,
    "VARCHAR": ColumnKind.TEXT,
    "DATE": ColumnKind.TIME,
    "TIMESTAMP": ColumnKind.TIME,
    "BOOLEAN": ColumnKind.BOOLEAN,
}


def changed_query(words: list[str], bag: list[str], draw: random.Random) -> str:
    """A query with a few words left out, replaced, added or exchanged."""
    words = list(words)
    for _ in range(draw.randint(1, 3)):
        place = draw.randrange(len(words))
        match draw.randrange(4):
            case 0:
                del words[place]
            case 1:
                words[place] = draw.choice(bag)
            case 2:
                words.insert(place, draw.choice(bag))
            case _:
                other = draw.randrange(len(words))
                words[place], words[other] = words[other], words[place]
    return " ".join(words)


def hunt(seed: int, *, seconds: float = float("inf"), number: float = float("inf")) -> dict[str, int]:
    """Read changed queries until the seconds or the number are over; only ``InvalidPlan`` may be raised."""
    draw, until = random.Random(seed), time.monotonic() + seconds
    queries = [(theme, words_of(query.text("duckdb"))) for theme in themes() for query in theme.queries]
    bag = sorted({word for _, words in queries for word in words})
    found = {"read": 0, "refused": 0}
    while time.monotonic() < until and sum(found.values()) < number:
        theme, words = draw.choice(queries)
        sql = changed_query(words, bag, draw)
        schema = Schema(columns=_columns(theme.table), tables={"countries": _columns("countries")})
        try:
            if "source" in sql.lower():
                read_data_query(sql, record="customer", secret="r", others=[], schema=schema)
            else:
                read_release(sql, name="drawn", subject=theme.subject, schema=schema)
            found["read"] += 1
        except InvalidPlan:
            found["refused"] += 1
        except Exception as failure:
            failure.add_note(sql)
            raise
    return found


def fuzz(seed: int, seconds: float) -> dict[str, int]:
    """Hunt for some seconds."""
    return hunt(seed, seconds=seconds)


def _columns(table: str) -> list[Column]:
    return [Column(name, KINDS[kind]) for name, kind in COLUMNS[table].items()]


def words_of(sql: str) -> list[str]:
    return re.findall(r"'[^']*'|\w+|[^\w\s]", sql)
